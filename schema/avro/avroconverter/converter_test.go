package avroconverter

import (
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/schema"
	"millrace/schema/converters"
	"millrace/schema/registry/client"
	"millrace/schema/schematest"
)

func made(t testing.TB, isKey bool, pairs ...string) converters.Converter {
	t.Helper()
	raw := map[string]string{"retries.wait.ms": "1", "retries.max.wait.ms": "2"}
	for i := 0; i < len(pairs); i += 2 {
		raw[pairs[i]] = pairs[i+1]
	}
	c, errs := Plugin.Make(raw, isKey)
	if len(errs) > 0 {
		t.Fatalf("%v: %v", pairs, errs[0])
	}
	return c
}

func must(t testing.TB, c converters.Converter, topic string, s *schema.Schema, v schema.Value) []byte {
	t.Helper()
	out, null, err := c.Encode(nil, &converters.Message{Topic: topic}, s, v)
	if err != nil || null {
		t.Fatalf("null %v, %v", null, err)
	}
	return out
}

var user = schema.NewStruct("n.User").Field("id", schema.Int32Schema).Field("name", schema.OptionalString).Build()

func userValue(id int32, name string) schema.Value {
	return schema.StructValue(user, []schema.Value{schema.Int32Value(id), schema.StringValue(name)})
}

func TestIDStandsBeforeTheValue(t *testing.T) {
	f := newFake(t)
	c := made(t, false, "schema.registry.url", f.url)
	if got := hex.EncodeToString(must(t, c, "users", user, userValue(1, "a"))); got != "0000000001"+"02"+"020261" {
		t.Errorf("wrote %s", got)
	}
	s, v, err := c.Decode(&converters.Message{Topic: "users"}, must(t, c, "users", user, userValue(7, "b")))
	if err != nil || v.Get("id").Int() != 7 || v.Get("name").Str() != "b" || s.Name() != "n.User" {
		t.Errorf("read %v %v %v", s, v, err)
	}
	if n, ok := s.Version(); !ok || n != 1 {
		t.Errorf("the schema's version is %d: it is the registry's", n)
	}
	want := "POST /subjects/users-value/versions; GET /schemas/ids/1; GET /schemas/ids/1/versions"
	if got := strings.Join(f.requests(), "; "); got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
	// What was found is kept: nothing more is asked, whatever pointers the schema comes with.
	for range 3 {
		data := must(t, c, "users", schematest.Copy(user), schema.StructValue(schematest.Copy(user), userValue(2, "").Fields()))
		if _, _, err := c.Decode(&converters.Message{Topic: "users"}, data); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.requests()); n != 3 {
		t.Errorf("%d requests after all", n)
	}
}

func TestNullsAndTombstones(t *testing.T) {
	f := newFake(t)
	c := made(t, false, "schema.registry.url", f.url)
	for _, s := range []*schema.Schema{nil, schema.OptionalString, schema.NewStruct("n.R").Optional().Build()} {
		if out, null, err := c.Encode(nil, &converters.Message{Topic: "t"}, s, schema.Value{}); err != nil || !null || len(out) > 0 {
			t.Errorf("null of %v: %x, %v, %v", s, out, null, err)
		}
	}
	if _, _, err := c.Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.Value{}); err == nil || !strings.Contains(err.Error(), "null under the required schema") {
		t.Errorf("null of a required schema: %v", err)
	}
	if s, v, err := c.Decode(&converters.Message{Topic: "t"}, nil); s != nil || !v.IsNull() || err != nil {
		t.Errorf("read null: %v %v %v", s, v, err)
	}
	def := schema.New(schema.String).Optional().Default(schema.StringValue("anon")).Build()
	if got := hex.EncodeToString(must(t, c, "t", def, schema.Value{})); got != "0000000002"+"0008616e6f6e" {
		t.Errorf("null where there is a default: %s", got)
	}
}

// Bytes at the root stand alone, as the original's serializers write them.
func TestBytesAtTheRootHaveNoLength(t *testing.T) {
	f := newFake(t)
	c := made(t, true, "schema.registry.url", f.url)
	for _, r := range []struct {
		s    *schema.Schema
		v    schema.Value
		want string
	}{
		{schema.BytesSchema, schema.BytesValue([]byte{1, 2, 3}), "0000000001010203"},
		{schema.BytesSchema, schema.BytesValue(nil), "0000000001"},
		{schema.DecimalOf(2).Build(), schema.DecimalInt64(-156, 2), "0000000002ff64"},
		{schema.OptionalBytes, schema.BytesValue([]byte{9}), "00000000030202" + "09"},
	} {
		data := must(t, c, "t", r.s, r.v)
		if got := hex.EncodeToString(data); got != r.want {
			t.Errorf("%s: %s, want %s", r.s, got, r.want)
		}
		if _, v, err := c.Decode(&converters.Message{Topic: "t"}, data); err != nil || !schema.EqualValues(v, r.v) {
			t.Errorf("%s, read back: %v, %v", r.s, v, err)
		}
	}
	if got := f.requests()[0]; got != "POST /subjects/t-key/versions" {
		t.Errorf("a key's subject: %s", got)
	}
}

func TestSubjects(t *testing.T) {
	for _, c := range []struct {
		strategy, want string
	}{
		{"TopicNameStrategy", "POST /subjects/a%2Fb-value/versions"},
		{"io.confluent.kafka.serializers.subject.RecordNameStrategy", "POST /subjects/n.User/versions"},
		{"TopicRecordNameStrategy", "POST /subjects/a%2Fb-n.User/versions"},
	} {
		f := newFake(t)
		must(t, made(t, false, "schema.registry.url", f.url, "value.subject.name.strategy", c.strategy), "a/b", user, userValue(1, ""))
		if got := f.requests()[0]; got != c.want {
			t.Errorf("%s: %s", c.strategy, got)
		}
	}
	f := newFake(t)
	_, _, err := made(t, false, "schema.registry.url", f.url, "value.subject.name.strategy", "RecordNameStrategy").Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue(""))
	if err == nil || !strings.Contains(err.Error(), "the schema is no record: string") {
		t.Errorf("a text under RecordNameStrategy: %v", err)
	}
}

const (
	ownText   = `{"type":"record","name":"User","namespace":"n","fields":[{"name":"id","type":"int"},{"name":"name","type":["null","string"],"default":null}],"connect.name":"n.User"}`
	widerText = `{"type":"record","name":"User","namespace":"n","fields":[{"name":"more","type":"string","default":"x"},{"name":"id","type":"long"},{"name":"name","type":["null","string"],"default":null}]}`
	wrongText = `{"type":"record","name":"User","namespace":"n","fields":[{"name":"id","type":"string"}]}`
)

func TestWhichSchemaIsWritten(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []string
		before   []string // registered before
		want     string   // bytes, or what the error holds
	}{
		{"registered by itself", nil, nil, "0000000001" + "02020261"},
		{"normalized", []string{"normalize.schemas", "true"}, nil, "0000000001" + "02020261"},
		{"looked up", []string{"auto.register.schemas", "false"}, []string{wrongText, ownText}, "0000000002" + "02020261"},
		{"looked up and not there", []string{"auto.register.schemas", "false"}, []string{wrongText}, "auto.register.schemas is false, so that the schema has to be registered before"},
		{"the latest", []string{"auto.register.schemas", "false", "use.latest.version", "true"}, []string{ownText, widerText}, "0000000002" + "0278" + "02" + "020261"},
		{"the latest, which cannot read it", []string{"auto.register.schemas", "false", "use.latest.version", "true"}, []string{ownText, wrongText}, "cannot read what the data's schema would write: {errorType:'TYPE_MISMATCH'"},
		{"the latest, which cannot take it either", []string{"auto.register.schemas", "false", "use.latest.version", "true", "latest.compatibility.strict", "false"}, []string{wrongText}, "cannot be written as string"},
		{"the latest of none", []string{"auto.register.schemas", "false", "use.latest.version", "true"}, nil, "Version not found"},
		{"an id", []string{"auto.register.schemas", "false", "use.schema.id", "1"}, []string{widerText, ownText}, "0000000001" + "0278" + "02" + "020261"},
		{"an id, which cannot read it", []string{"auto.register.schemas", "false", "use.schema.id", "1"}, []string{wrongText}, "cannot read what"},
	} {
		f := newFake(t)
		for _, text := range c.before {
			f.put("users-value", client.Schema{Text: text})
		}
		out, _, err := made(t, false, append([]string{"schema.registry.url", f.url}, c.settings...)...).Encode(nil, &converters.Message{Topic: "users"}, user, userValue(1, "a"))
		got := hex.EncodeToString(out)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s", c.name, got)
		}
		if c.name == "normalized" && f.requests()[0] != "POST /subjects/users-value/versions?normalize=true" {
			t.Errorf("%s: asked %s", c.name, f.requests()[0])
		}
	}
}

func TestTheLatestVersionIsAskedForAgain(t *testing.T) {
	f := newFake(t)
	f.put("users-value", client.Schema{Text: ownText})
	c := made(t, false, "schema.registry.url", f.url, "auto.register.schemas", "false", "use.latest.version", "true", "latest.cache.ttl.sec", "0")
	must(t, c, "users", user, userValue(1, "a"))
	f.put("users-value", client.Schema{Text: widerText})
	if got := hex.EncodeToString(must(t, c, "users", user, userValue(1, "a"))); !strings.HasPrefix(got, "0000000002") {
		t.Errorf("after a newer version: %s", got)
	}
}

func TestIDInTheHeaders(t *testing.T) {
	f := newFake(t)
	c := made(t, false, "schema.registry.url", f.url, "value.schema.id.serializer", headerSerializer)
	m := &converters.Message{Topic: "users"}
	out, _, err := c.Encode(nil, m, user, userValue(1, "a"))
	if err != nil || hex.EncodeToString(out) != "02020261" {
		t.Fatalf("wrote %x, %v", out, err)
	}
	want := "01" + strings.ReplaceAll(guidOf(client.Schema{Text: ownText}), "-", "")
	if len(m.Headers) != 1 || m.Headers[0].Key != "__value_schema_id" || hex.EncodeToString(m.Headers[0].Value) != want {
		t.Fatalf("headers %v, want %s", m.Headers, want)
	}
	if _, v, err := c.Decode(m, out); err != nil || v.Get("name").Str() != "a" {
		t.Errorf("read %v, %v", v, err)
	}
	// Both forms are read, and a guid may stand before the value.
	guid, _ := hex.DecodeString(want)
	if _, v, err := c.Decode(&converters.Message{Topic: "users"}, append(guid, out...)); err != nil || v.Get("name").Str() != "a" {
		t.Errorf("read a guid before the value: %v, %v", v, err)
	}
	only := made(t, false, "schema.registry.url", f.url, "value.schema.id.deserializer", "PrefixSchemaIdDeserializer")
	if _, _, err := only.Decode(m, out); err == nil {
		t.Error("the header is read although the settings say that the id stands before the value")
	}
	if _, _, err := c.Decode(&converters.Message{Topic: "users", Headers: []schema.RawHeader{{Key: "__value_schema_id", Value: []byte{1, 2}}}}, out); err == nil || !strings.Contains(err.Error(), "__value_schema_id") {
		t.Errorf("a header that names nothing: %v", err)
	}
	f.mu.Lock()
	f.noGUID = true
	f.mu.Unlock()
	old := made(t, false, "schema.registry.url", f.url, "value.schema.id.serializer", headerSerializer)
	if _, _, err := old.Encode(nil, m, user, userValue(1, "a")); err == nil || !strings.Contains(err.Error(), "PrefixSchemaIdSerializer") {
		t.Errorf("a registry without guids: %v", err)
	}
}

func TestReferencesAreFollowed(t *testing.T) {
	f := newFake(t)
	f.put("a", client.Schema{Text: `{"type":"record","name":"A","namespace":"n","fields":[{"name":"x","type":"int"}]}`})
	f.put("b", client.Schema{Text: `{"type":"record","name":"B","namespace":"n","fields":[{"name":"a","type":"A"}]}`, References: []client.Reference{{Name: "n.A", Subject: "a", Version: 1}}})
	id := f.put("t-value", client.Schema{Text: `{"type":"record","name":"C","fields":[{"name":"b","type":"n.B"},{"name":"a","type":"n.A"}]}`,
		References: []client.Reference{{Name: "n.B", Subject: "b", Version: 1}, {Name: "n.A", Subject: "a", Version: 1}}})
	_, v, err := made(t, false, "schema.registry.url", f.url).Decode(&converters.Message{Topic: "t"}, []byte{0, 0, 0, 0, byte(id), 4, 6})
	if err != nil || v.Get("b").Get("a").Get("x").Int() != 2 || v.Get("a").Get("x").Int() != 3 {
		t.Errorf("%v, %v", v, err)
	}
}

func TestDataThatCannotBeRead(t *testing.T) {
	f := newFake(t)
	f.put("t-value", client.Schema{Text: `{"type":"object"}`, Type: "JSON"})
	f.put("t-value", client.Schema{Text: `"long"`})
	c := made(t, false, "schema.registry.url", f.url)
	for _, one := range []struct{ name, data, want string }{
		{"no bytes", "", "no bytes"},
		{"text", hex.EncodeToString([]byte("hello")), "Unknown magic byte 0x68"},
		{"too short", "0000", "too few for the id"},
		{"an unknown id", "00000003e8", "Schema not found"},
		{"another type", "0000000001", "of the type JSON"},
		{"data cut off", "0000000002ff", "does not fit the schema"},
	} {
		data, _ := hex.DecodeString(one.data)
		if data == nil {
			data = []byte{}
		}
		_, _, err := c.Decode(&converters.Message{Topic: "t"}, data)
		if err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", one.name, err)
		}
		if passes(err) {
			t.Errorf("%s: said to pass by itself: %v", one.name, err)
		}
	}
}

func passes(err error) bool {
	var p interface{ MayPass() bool }
	return errors.As(err, &p) && p.MayPass()
}

func TestFailuresOfTheRegistry(t *testing.T) {
	f := newFake(t)
	c := made(t, false, "schema.registry.url", f.url, "max.retries", "2")
	set := func(fail ...int) {
		f.mu.Lock()
		f.fail, f.asked = fail, nil
		f.mu.Unlock()
	}
	for i, one := range []struct {
		name     string
		fail     []int
		requests int
		want     string // the error; empty: none
		passes   bool
	}{
		{"in trouble for a while", []int{500, 503}, 3, "", false},
		{"in trouble for long", []int{500, 500, 500}, 3, "answers 500", true},
		{"too many requests", []int{429}, 2, "", false},
		{"the schema does not fit", []int{409}, 1, "change the table or the subject's compatibility", false},
		{"refused", []int{422}, 1, "answers 422", false},
		{"not signed in", []int{401}, 1, "refuses the sign-in", false},
	} {
		set(one.fail...)
		s := schema.NewStruct(fmt.Sprintf("n.S%d", i)).Build()
		_, _, err := c.Encode(nil, &converters.Message{Topic: "t"}, s, schema.StructValue(s, nil))
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) || passes(err) != one.passes {
			t.Errorf("%s: %v, may pass %v", one.name, err, passes(err))
		}
		if n := len(f.requests()); n != one.requests {
			t.Errorf("%s: %d requests", one.name, n)
		}
	}
	// Nobody there: the next address is asked, and without one the error says that it may pass.
	gone := httptest.NewServer(f)
	gone.Close()
	both := made(t, false, "schema.registry.url", gone.URL+","+f.url, "max.retries", "0")
	set()
	must(t, both, "t", schema.StringSchema, schema.StringValue("x"))
	alone := made(t, false, "schema.registry.url", gone.URL, "max.retries", "1")
	_, _, err := alone.Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue("x"))
	if err == nil || !passes(err) || !strings.Contains(err.Error(), "no answer of the schema registry at "+gone.URL) {
		t.Errorf("nobody there: %v", err)
	}
	if _, _, err := alone.Decode(&converters.Message{Topic: "t"}, []byte{0, 0, 0, 0, 1, 0}); !passes(err) {
		t.Errorf("nobody there, reading: %v", err)
	}
}

func TestSignIn(t *testing.T) {
	f := newFake(t)
	host := strings.TrimPrefix(f.url, "http://")
	basic := "Basic dTpzM2NyZXQ="
	tokens := newTokens(t)
	const plain, oauth = "org.apache.kafka.common.security.plain.PlainLoginModule required ", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
	for _, c := range []struct {
		name     string
		settings []string
		want     string
	}{
		{"in the address", []string{"schema.registry.url", "http://u:s3cret@" + host}, basic},
		{"in the settings", []string{"schema.registry.url", f.url, "basic.auth.credentials.source", "USER_INFO", "basic.auth.user.info", "u:s3cret"}, basic},
		{"in the settings, under the older name", []string{"schema.registry.url", f.url, "basic.auth.credentials.source", "USER_INFO", "schema.registry.basic.auth.user.info", "u:s3cret"}, basic},
		{"a token", []string{"schema.registry.url", f.url, "bearer.auth.token", "t0ken"}, "Bearer t0ken"},
		{"a token of a name", []string{"schema.registry.url", f.url, "bearer.auth.credentials.source", "STATIC_TOKEN", "bearer.auth.token", "t0ken"}, "Bearer t0ken"},
		{"in JAAS form", []string{"schema.registry.url", f.url, "basic.auth.credentials.source", "SASL_INHERIT", "sasl.jaas.config", plain + `username="u" password="s3cret";`}, basic},
		{"tokens for a client", []string{"schema.registry.url", f.url, "bearer.auth.credentials.source", "OAUTHBEARER", "bearer.auth.issuer.endpoint.url", tokens.URL, "bearer.auth.client.id", "me",
			"bearer.auth.client.secret", "s3cret", "bearer.auth.scope", "a b", "bearer.auth.logical.cluster", "lsrc-1", "bearer.auth.identity.pool.id", "pool-1"}, "Bearer for me, s3cret, a b" + "lsrc-1pool-1"},
		{"tokens for a client in JAAS form", []string{"schema.registry.url", f.url, "bearer.auth.credentials.source", "SASL_OAUTHBEARER_INHERIT", "sasl.oauthbearer.token.endpoint.url", tokens.URL,
			"sasl.jaas.config", oauth + `clientId="me" clientSecret="s3cret" scope="c";`}, "Bearer for me, s3cret, c"},
		{"none", []string{"schema.registry.url", f.url}, ""},
		{"another header", []string{"schema.registry.url", f.url, "request.header.X-Tenant", "a"}, "a"},
	} {
		must(t, made(t, false, c.settings...), "t", schema.StringSchema, schema.StringValue("x"))
		f.mu.Lock()
		got := f.sign[len(f.sign)-1]
		f.mu.Unlock()
		if got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	if v, _ := Plugin.Config.Parse(map[string]string{"request.header.X-Tenant": "a"}); len(v.Ignored()) > 0 {
		t.Errorf("a header that is sent is told of as ignored: %v", v.Ignored())
	}
	// No secret in an error, and none in what validation shows.
	f.mu.Lock()
	f.fail = []int{401}
	f.mu.Unlock()
	c := made(t, false, "schema.registry.url", "http://u:s3cret@"+host)
	if _, _, err := c.Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue("x")); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("refused: %v", err)
	}
	for _, bad := range []string{"ftp://u:s3cret@" + host, "http://u:s3cret@", "http://u:s3cret@%zz"} {
		_, errs := Plugin.Make(map[string]string{"schema.registry.url": bad}, false)
		if len(errs) != 1 || strings.Contains(errs[0].Error(), "s3cret") || !strings.Contains(errs[0].Error(), "schema.registry.url") {
			t.Errorf("%s: %v", bad, errs)
		}
	}
	for _, c := range []struct {
		name, key string
		settings  map[string]string
	}{
		{"user info without a colon", "basic.auth.user.info", map[string]string{"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "s3cret"}},
		{"JAAS without a user", "sasl.jaas.config", map[string]string{"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": plain + `password="s3cret";`}},
		{"no JAAS", "sasl.jaas.config", map[string]string{"basic.auth.credentials.source": "SASL_INHERIT"}},
		{"no endpoint", "bearer.auth.issuer.endpoint.url", map[string]string{"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.id": "me", "bearer.auth.client.secret": "s3cret"}},
		{"no client", "bearer.auth.client.id", map[string]string{"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": "http://x", "bearer.auth.client.secret": "s3cret"}},
		{"no secret", "bearer.auth.client.secret", map[string]string{"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": "http://x", "bearer.auth.client.id": "me"}},
		{"no client in JAAS", "sasl.jaas.config", map[string]string{"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT", "sasl.oauthbearer.token.endpoint.url": "http://x", "sasl.jaas.config": oauth + `clientSecret="s3cret";`}},
		{"no endpoint for JAAS", "sasl.oauthbearer.token.endpoint.url", map[string]string{"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT", "sasl.jaas.config": oauth + `clientId="me" clientSecret="s3cret";`}},
	} {
		c.settings["schema.registry.url"] = f.url
		if _, errs := Plugin.Make(c.settings, false); len(errs) != 1 || errs[0].Key != c.key || strings.Contains(errs[0].Error(), "s3cret") {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

// newTokens gives tokens that tell for whom they are.
func newTokens(t testing.TB) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.FormValue("grant_type") != "client_credentials" || id != "me" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"for %s, %s, %s","expires_in":3600}`, id, secret, r.FormValue("scope"))
	}))
	t.Cleanup(s.Close)
	return s
}

// A token is kept until shortly before its end, and where there is none the error says from where, and no secret.
func TestTokensAreKept(t *testing.T) {
	f := newFake(t)
	var asked, life atomic.Int64
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":"t%d","expires_in":%d}`, asked.Add(1), life.Load())
	}))
	defer tokens.Close()
	settings := func(url string) []string {
		return []string{"schema.registry.url", f.url, "bearer.auth.credentials.source", "OAUTHBEARER", "bearer.auth.issuer.endpoint.url", url, "bearer.auth.client.id", "you",
			"bearer.auth.client.secret", "s3cret", "bearer.auth.cache.expiry.buffer.seconds", "100"}
	}
	for _, c := range []struct {
		life int64
		want int64 // tokens for three requests
	}{{3600, 1}, {100, 3}} {
		asked.Store(0)
		life.Store(c.life)
		k := made(t, false, settings(tokens.URL)...)
		for _, topic := range []string{"a", "b", "c"} {
			must(t, k, topic, schema.StringSchema, schema.StringValue("x"))
		}
		if n := asked.Load(); n != c.want {
			t.Errorf("%d tokens of %d s, want %d", n, c.life, c.want)
		}
	}
	k := made(t, false, append(settings(newTokens(t).URL), "max.retries", "0")...)
	_, _, err := k.Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue("x"))
	if err == nil || !strings.Contains(err.Error(), "for a token: 401") || !strings.Contains(err.Error(), "invalid_client") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a client that is refused: %v", err)
	}
}

func TestTLS(t *testing.T) {
	f := newFake(t)
	secure := httptest.NewUnstartedServer(f)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // one client refuses it
	secure.StartTLS()
	defer secure.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	must(t, made(t, false, "schema.registry.url", secure.URL, "schema.registry.ssl.truststore.type", "PEM", "schema.registry.ssl.truststore.certificates", ca), "t", schema.StringSchema, schema.StringValue("x"))
	_, _, err := made(t, false, "schema.registry.url", secure.URL, "max.retries", "0").Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue("x"))
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an authority that is not trusted: %v", err)
	}
	checked := ""
	env := converters.Env{Check: func(path string) (string, error) { checked = path; return "", fmt.Errorf("outside") }}
	_, errs := Plugin.MakeIn(env, map[string]string{"schema.registry.url": secure.URL, "schema.registry.ssl.truststore.location": "/etc/hostname"}, false)
	if len(errs) != 1 || checked != "/etc/hostname" {
		t.Errorf("a file outside of what may be opened: %v", errs)
	}
}

func TestProxy(t *testing.T) {
	f := newFake(t)
	host, port, _ := strings.Cut(strings.TrimPrefix(f.url, "http://"), ":")
	must(t, made(t, false, "schema.registry.url", "http://registry.invalid", "proxy.host", host, "proxy.port", port), "t", schema.StringSchema, schema.StringValue("x"))
	if got := f.requests()[0]; got != "POST http://registry.invalid/subjects/t-value/versions" {
		t.Errorf("the proxy was asked for %s", got)
	}
}

func TestAddressOfThisProcess(t *testing.T) {
	f := newFake(t)
	c, errs := Plugin.MakeIn(converters.Env{Registry: f.url}, map[string]string{}, false)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	must(t, c, "t", schema.StringSchema, schema.StringValue("x"))
	if _, errs := Plugin.Make(map[string]string{}, false); len(errs) != 1 || !strings.Contains(errs[0].Error(), "name the schema registry") {
		t.Errorf("without an address: %v", errs)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, c := range [][2]string{
		{"value.subject.name.strategy", "my.Strategy"}, {"value.schema.id.serializer", "my.Serializer"}, {"basic.auth.credentials.source", "CUSTOM"}, {"bearer.auth.credentials.source", "CUSTOM"},
		{"context.name.strategy", "my.Strategy"}, {"value.subject.name.strategy", "io.confluent.kafka.serializers.subject.AssociatedNameStrategy"}, {"use.latest.with.metadata", "nothing"},
		{"bearer.auth.issuer.endpoint.url", "file:///etc/passwd"}, {"sasl.oauthbearer.token.endpoint.url", "x"}, {"sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;"},
		{"schemas.cache.config", "0"}, {"max.retries", "-1"}, {"proxy.port", "70000"}, {"latest.cache.ttl.sec", "-2"},
	} {
		if _, errs := Plugin.Make(map[string]string{"schema.registry.url": "http://x", c[0]: c[1]}, false); len(errs) != 1 || errs[0].Key != c[0] {
			t.Errorf("%s=%s: %v", c[0], c[1], errs)
		}
	}
}

// Each setting of the data's form reaches the mapping.
func TestSettingsOfTheForm(t *testing.T) {
	anon := schema.New(schema.String).Optional().Default(schema.StringValue("anon")).Build()
	enum := schema.New(schema.String).Name("n.E").Param("io.confluent.connect.avro.Enum", "n.E").Param("io.confluent.connect.avro.Enum.A", "A").Build()
	for _, c := range []struct {
		key, value string
		s          *schema.Schema
		v          schema.Value
		want       string // in the registered text
	}{
		{"connect.meta.data", "false", schema.Int8Schema, schema.Int8Value(1), `"int"`},
		{"enhanced.avro.schema.support", "true", enum, schema.StringValue("A"), `"type":"enum"`},
		{"scrub.invalid.names", "true", schema.NewStruct("a-b").Build(), schema.StructValue(schema.NewStruct("a-b").Build(), nil), `"name":"a_b"`},
		{"allow.optional.map.keys", "true", schema.MapOf(schema.OptionalString, schema.Int32Schema).Build(), schema.MapValue(nil), `"type":"map"`},
		{"discard.type.doc.default", "true", schema.NewStruct("R").Param("connect.record.doc", "d").Build(), schema.StructValue(schema.NewStruct("R").Param("connect.record.doc", "d").Build(), nil), `"doc":"d"`},
	} {
		f := newFake(t)
		must(t, made(t, false, "schema.registry.url", f.url, c.key, c.value), "t", c.s, c.v)
		f.mu.Lock()
		got := f.schemas[0].Text
		f.mu.Unlock()
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.key, got)
		}
	}
	f := newFake(t)
	s := schema.NewStruct("R").Field("a", anon).Build()
	null := schema.StructValue(s, []schema.Value{{}})
	if got := hex.EncodeToString(must(t, made(t, false, "schema.registry.url", f.url, "ignore.default.for.nullables", "true"), "t", s, null)); got != "000000000102" {
		t.Errorf("ignore.default.for.nullables: %s", got)
	}
	f.put("u", client.Schema{Text: `["int"]`})
	got, _, err := made(t, false, "schema.registry.url", f.url, "flatten.singleton.unions", "false").Decode(&converters.Message{Topic: "t"}, []byte{0, 0, 0, 0, 2, 0, 2})
	if err != nil || got.Name() != "io.confluent.connect.avro.Union" {
		t.Errorf("flatten.singleton.unions: %v, %v", got, err)
	}
	f.put("u", client.Schema{Text: `["int","string"]`})
	got, _, err = made(t, false, "schema.registry.url", f.url, "generalized.sum.type.support", "true").Decode(&converters.Message{Topic: "t"}, []byte{0, 0, 0, 0, 3, 0, 2})
	if err != nil || got.Name() != "connect_union_0" {
		t.Errorf("generalized.sum.type.support: %v, %v", got, err)
	}
}

// What is kept stays bounded, however many schemas and topics there are.
func TestCachesAreBounded(t *testing.T) {
	f := newFake(t)
	c := made(t, false, "schema.registry.url", f.url, "schemas.cache.config", "5").(*converter)
	for i := range 40 {
		s := schema.NewStruct(fmt.Sprintf("n.S%d", i)).Build()
		data := must(t, c, fmt.Sprintf("t%d", i), s, schema.StructValue(s, nil))
		if _, _, err := c.Decode(&converters.Message{Topic: fmt.Sprintf("t%d", i)}, data); err != nil {
			t.Fatal(err)
		}
		must(t, c, fmt.Sprintf("t%d", i), schema.StringSchema, schema.StringValue("x"))
	}
	if len(c.readers) > 5 {
		t.Errorf("%d schemas kept for reading", len(c.readers))
	}
	w, _ := c.writers.Get(schema.StringSchema, c.writer)
	if len(w.topics) > 5 {
		t.Errorf("%d topics kept for one schema", len(w.topics))
	}
}

func BenchmarkAvroConverterEvent(b *testing.B) {
	f := newFake(b)
	c := made(b, false, "schema.registry.url", f.url)
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	m := &converters.Message{Topic: "bench.public.orders"}
	out := must(b, c, m.Topic, s, v)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, _, err = c.Encode(out[:0], m, s, v); err != nil {
			b.Fatal(err)
		}
	}
}
