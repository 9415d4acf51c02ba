package avroconverter

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/schema"
	"millrace/schema/converters"
)

// original are the settings of the original converter, its serializers and its client, each with the test that fails without its effect. Those
// without one are ignored with a reason.
var original = map[string]func(*testing.T){
	"schema.registry.url":                      TestIDStandsBeforeTheValue,
	"schema.registry.url.randomize":            TestAddressesTakeTurns,
	"basic.auth.credentials.source":            TestSignIn,
	"basic.auth.user.info":                     TestSignIn,
	"schema.registry.basic.auth.user.info":     TestSignIn,
	"sasl.jaas.config":                         TestSignIn,
	"bearer.auth.credentials.source":           TestSignIn,
	"bearer.auth.token":                        TestSignIn,
	"bearer.auth.issuer.endpoint.url":          TestSignIn,
	"bearer.auth.client.id":                    TestSignIn,
	"bearer.auth.client.secret":                TestSignIn,
	"bearer.auth.scope":                        TestSignIn,
	"bearer.auth.logical.cluster":              TestSignIn,
	"bearer.auth.identity.pool.id":             TestSignIn,
	"bearer.auth.cache.expiry.buffer.seconds":  TestTokensAreKept,
	"bearer.auth.scope.claim.name":             nil,
	"bearer.auth.sub.claim.name":               nil,
	"bearer.auth.custom.provider.class":        nil,
	"sasl.oauthbearer.token.endpoint.url":      TestSignIn,
	"schema.registry.ssl.truststore.location":  TestTLS,
	"schema.registry.ssl.keystore.location":    TestTLS,
	"request.header.X":                         TestSignIn,
	"http.connect.timeout.ms":                  TestTimes,
	"http.read.timeout.ms":                     TestTimes,
	"max.retries":                              TestFailuresOfTheRegistry,
	"retries.wait.ms":                          TestTimes,
	"retries.max.wait.ms":                      TestTimes,
	"proxy.host":                               TestProxy,
	"proxy.port":                               TestProxy,
	"auto.register.schemas":                    TestWhichSchemaIsWritten,
	"normalize.schemas":                        TestWhichSchemaIsWritten,
	"use.latest.version":                       TestWhichSchemaIsWritten,
	"latest.compatibility.strict":              TestWhichSchemaIsWritten,
	"latest.cache.ttl.sec":                     TestTheLatestVersionIsAskedForAgain,
	"latest.cache.size":                        nil,
	"use.latest.with.metadata":                 TestTheLatestVersionWithMetadata,
	"use.schema.id":                            TestWhichSchemaIsWritten,
	"id.compatibility.strict":                  TestWhichSchemaIsWritten,
	"max.schemas.per.subject":                  nil,
	"context.name.strategy":                    TestSettingsAreChecked,
	"key.subject.name.strategy":                TestSubjects,
	"value.subject.name.strategy":              TestSubjects,
	"reference.subject.name.strategy":          nil,
	"reference.lookup.only":                    nil,
	"key.schema.id.serializer":                 TestIDInTheHeaders,
	"value.schema.id.serializer":               TestIDInTheHeaders,
	"key.schema.id.deserializer":               TestIDInTheHeaders,
	"value.schema.id.deserializer":             TestIDInTheHeaders,
	"schema.format":                            nil,
	"schema.reflection":                        nil,
	"specific.avro.reader":                     nil,
	"avro.reflection.allow.null":               nil,
	"avro.remove.java.properties":              nil,
	"avro.use.logical.type.converters":         nil,
	"propagate.schema.tags":                    nil,
	"rule.executors":                           nil,
	"rule.executors.encrypt.class":             nil,
	"rule.actions":                             nil,
	"rule.service.loader.enable":               nil,
	"schemas.cache.config":                     TestCachesAreBounded,
	"enhanced.avro.schema.support":             TestSettingsOfTheForm,
	"connect.meta.data":                        TestSettingsOfTheForm,
	"scrub.invalid.names":                      TestSettingsOfTheForm,
	"allow.optional.map.keys":                  TestSettingsOfTheForm,
	"flatten.singleton.unions":                 TestSettingsOfTheForm,
	"discard.type.doc.default":                 TestSettingsOfTheForm,
	"generalized.sum.type.support":             TestSettingsOfTheForm,
	"ignore.default.for.nullables":             TestSettingsOfTheForm,
	"key.schema.id.serializer.of.another.name": nil, // what is unknown is neither
}

func TestEverySettingOfTheOriginalWorksOrIsToldOf(t *testing.T) {
	const unknown = "key.schema.id.serializer.of.another.name"
	ignored := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(original)) {
		v, _ := Plugin.Config.Parse(map[string]string{key: "x"})
		if list := v.Ignored(); len(list) > 0 {
			ignored[key] = list[0].Reason
		}
		_, declared := Plugin.Config.Info(key)
		declared = declared || strings.HasPrefix(key, requestHeader)
		switch {
		case key == unknown:
			if declared || ignored[key] != "" || !slices.Contains(v.Undeclared(), key) {
				t.Errorf("%s is taken for a setting", key)
			}
		case original[key] != nil && (!declared || ignored[key] != ""):
			t.Errorf("%s should work; declared %v, ignored for %q", key, declared, ignored[key])
		case original[key] == nil && (declared || ignored[key] == ""):
			t.Errorf("%s should be told of as ignored; declared %v, reason %q", key, declared, ignored[key])
		}
	}
	// What is declared beyond the list is the worker's own, or TLS, which has tests of its own.
	for _, i := range slices.Concat(Plugin.Config.Infos(), Plugin.Config.Internals()) {
		if _, listed := original[i.Name]; !listed && i.Name != converterType.Name && !strings.HasPrefix(i.Name, "schema.registry.ssl.") {
			t.Errorf("no test shows what %s does", i.Name)
		}
	}
}

func TestAddressesTakeTurns(t *testing.T) {
	first, second := newFake(t), newFake(t)
	for _, c := range []struct {
		randomize string
		both      bool
	}{{"false", false}, {"true", true}} {
		before := len(second.requests())
		for range 64 {
			k := made(t, false, "schema.registry.url", first.url+","+second.url, "schema.registry.url.randomize", c.randomize)
			must(t, k, "t", schema.StringSchema, schema.StringValue("x"))
		}
		if n := len(second.requests()) - before; (n > 0) != c.both || n == 64 {
			t.Errorf("randomize %s: of 64 converters %d began with the second address", c.randomize, n)
		}
	}
}

func TestTimes(t *testing.T) {
	v, errs := Plugin.Config.Parse(map[string]string{"converter.type": "value", "http.connect.timeout.ms": "1234"})
	if got := dialerOf(v).Timeout; len(errs) > 0 || got != 1234*time.Millisecond {
		t.Errorf("connections have %v, %v", got, errs)
	}
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	fails := func(url string, settings ...string) (string, time.Duration) {
		began := time.Now()
		_, _, err := made(t, false, append(settings, "schema.registry.url", url)...).Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue("x"))
		if err == nil {
			t.Fatal("no failure")
		}
		return err.Error(), time.Since(began)
	}
	if said, _ := fails(silent.URL, "http.read.timeout.ms", "50", "max.retries", "0"); !strings.Contains(said, "none within 50ms") {
		t.Errorf("a silent registry: %s", said)
	}
	f := newFake(t)
	f.fail = slices.Repeat([]int{500}, 3)
	if _, took := fails(f.url, "max.retries", "2", "retries.wait.ms", "60", "retries.max.wait.ms", "1000"); took < 30*time.Millisecond+60*time.Millisecond {
		t.Errorf("two retries after %v: the pauses are at least 30 and 60 ms", took)
	}
	f.fail = slices.Repeat([]int{500}, 3)
	if _, took := fails(f.url, "max.retries", "2", "retries.wait.ms", "3600000", "retries.max.wait.ms", "1"); took > time.Minute {
		t.Errorf("two retries after %v: the pauses are at most 1 ms", took)
	}
}
