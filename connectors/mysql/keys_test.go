package mysql

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"millrace/connectors/cdc"
	"millrace/connectors/connectortest"
	"millrace/schema/config"
)

// TestKeysAreDebeziums: name, type, default, importance, group, width, dependants and
// order of each, as GET /connector-plugins/…/config lists them.
func TestKeysAreDebeziums(t *testing.T) {
	data, err := os.ReadFile("testdata/golden/plugin-config.json")
	if err != nil {
		t.Fatal(err)
	}
	var exchange struct{ Response struct{ Body string } }
	if err := json.Unmarshal(data, &exchange); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name, Type, Importance, Group, Width string
		Default                              *string `json:"default_value"`
		Order                                int     `json:"order_in_group"`
		Dependents                           []string
		Required                             bool
	}
	var all, want []entry
	if err := json.Unmarshal([]byte(exchange.Response.Body), &all); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Group == groupMySQL || e.Group == cdc.GroupConnector || e.Group == groupHistory || e.Group == cdc.GroupEvents {
			want = append(want, e)
		}
	}
	infos := definition.Infos()
	if len(infos) != len(want) {
		t.Fatalf("%d keys, want %d", len(infos), len(want))
	}
	for i, in := range infos {
		got := entry{Name: in.Name, Type: string(in.Type), Importance: string(in.Importance), Group: in.Group, Width: string(in.Width), Dependents: in.Dependents, Required: in.Required}
		if text, ok := in.DefaultText(); ok {
			got.Default = &text
		}
		w := want[i]
		w.Order = 0
		if len(w.Dependents) == 0 {
			w.Dependents = nil
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(w)
		if string(a) != string(b) {
			t.Errorf("key %d:\n got %s\nwant %s", i, a, b)
		}
	}
	for _, in := range append(infos, mariadbDefinition.Infos()...) {
		if in.Doc == "" || !strings.HasSuffix(in.Doc, ".") {
			t.Errorf("%s: no documentation in sentences: %q", in.Name, in.Doc)
		}
	}
	t.Logf("%d keys compared, 0 skipped", len(infos))
}

// TestEveryKeyHasAnEffect: see connectortest.Keys.
func TestEveryKeyHasAnEffect(t *testing.T) {
	const differ = 5 // the keys that MariaDB's connector has otherwise, which are declared twice
	connectortest.Keys(t, len(definition.Infos())+len(internalKeys)+differ, ignored)
}

// TestEverySettingOfDebeziums walks over all settings that Debezium's two connectors know: each is declared, and so has an effect or
// refuses what cannot be done (TestEveryKeyHasAnEffect), or the user is told that it is ignored and why, or what it is called today.
func TestEverySettingOfDebeziums(t *testing.T) {
	list, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	declared, told, older := 0, 0, 0
	for line := range strings.Lines(string(list)) {
		key := strings.TrimSpace(line)
		if strings.HasPrefix(key, "#") {
			continue
		}
		// A setting of each family.
		given := strings.NewReplacer(".([^.]+).with.salt.(.+)", ".SHA-256.with.salt.x", "(d+)", "5", "hash.v2.*", "hash.v2.SHA-256.with.salt.x", ".*", ".x").Replace(key)
		for name, def := range map[string]config.Def{"MySQL": definition, "MariaDB": mariadbDefinition} {
			v, _ := def.Parse(map[string]string{given: "a.b.c"})
			rule, err := cdc.ParseTextRule(given, "a.b.c")
			switch {
			case renamed[given] != "":
				older++
			case len(v.Ignored()) == 1:
				if told++; len(v.Ignored()[0].Reason) < 5 {
					t.Errorf("%s of %s is ignored because of %q", key, name, v.Ignored()[0].Reason)
				}
			case rule != nil && err == nil, len(v.Undeclared()) == 0, strings.HasPrefix(given, historyReader), strings.HasPrefix(given, historyWriter):
				declared++
			default:
				t.Errorf("%s of %s is neither declared nor told of as ignored", key, name)
			}
		}
	}
	if all := declared + told + older; all != 2*151 {
		t.Errorf("%d settings of two connectors were looked at, want %d", all, 2*151)
	}
	t.Logf("%d settings are declared, %d ignored with a reason, %d have another name today", declared, told, older)
}

// TestRefusals: the values that a key refuses, and those that it takes.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		def            config.Def
		key, bad, good string
	}{
		{definition, "converters", "isbn", ""}, {definition, "signal.enabled.channels", "kafka", "source"}, {definition, "signal.data.collection", "db.t", ""},
		{definition, "notification.enabled.channels", "log", ""}, {definition, "snapshot.query.mode", "custom", "select_all"},
		{definition, "snapshot.locking.mode", "custom", "minimal_percona"}, {mariadbDefinition, "snapshot.locking.mode", "minimal_percona", "extended"},
		{definition, "snapshot.mode", "custom", "schema_only"}, {definition, "snapshot.mode", "never", "recovery"}, {definition, "time.precision.mode", "adaptive", "ISOSTRING"},
		{definition, "database.ssl.mode", "maybe", "verify_identity"}, {mariadbDefinition, "database.ssl.mode", "maybe", "verify-full"}, {definition, "database.server.id", "0", "4294967295"},
		{definition, "schema.history.internal", "io.debezium.storage.redis.history.RedisSchemaHistory", kafkaHistory}, {definition, "gtid.source.excludes", "(", "a-b"},
		{definition, "schema.history.internal.ddl.filter", "(", "FLUSH.*"}, {definition, "bigint.unsigned.handling.mode", "short", "precise"}, {definition, "inconsistent.schema.handling.mode", "x", "warn"},
		{definition, "snapshot.max.threads", "4", "1"}, {definition, "table.exclude.list", "(", "a.b"}, {definition, "connect.timeout.ms", "0", "1000"},
	} {
		conf := func(v string) map[string]string { return map[string]string{c.key: v} }
		if _, errs := c.def.Parse(conf(c.bad)); len(errs) != 1 || errs[0].Key != c.key {
			t.Errorf("%s=%s: errors %v, want one", c.key, c.bad, errs)
		}
		if _, errs := c.def.Parse(conf(c.good)); len(errs) != 0 {
			t.Errorf("%s=%s: errors %v, want none", c.key, c.good, errs)
		}
	}
}

// TestSettingsAreRead: what keys become that have more than one spelling or a rule.
func TestSettingsAreRead(t *testing.T) {
	base := map[string]string{"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.server.id": "7"}
	for _, c := range []struct {
		name    string
		mariadb bool
		pairs   []string
		got     func(*settings) any
		want    any
	}{
		{"older names of snapshot.mode", false, []string{"snapshot.mode", "SCHEMA_ONLY"}, func(s *settings) any { return s.snapshot.Name }, "no_data"},
		{"MariaDB's names of TLS modes", true, []string{"database.ssl.mode", "verify-full"}, func(s *settings) any { return s.sslMode }, "verify_identity"},
		{"MariaDB's default is no TLS", true, nil, func(s *settings) any { return s.sslMode }, "disabled"},
		{"an older name of failures", false, []string{"event.deserialization.failure.handling.mode", "warn"}, func(s *settings) any { return s.failure }, "warn"},
		{"the newer one wins", false, []string{"event.deserialization.failure.handling.mode", "warn", "event.processing.failure.handling.mode", "skip"}, func(s *settings) any { return s.failure }, "skip"},
		{"the history's topic", false, nil, func(s *settings) any { return s.history.at.Topic }, "p-schema-history"},
		{"the history's servers and clients", false, []string{"schema.history.internal.kafka.bootstrap.servers", "a:1, b:2", "schema.history.internal.consumer.x", "1", "schema.history.internal.producer.y", "2"},
			func(s *settings) any { return fmt.Sprint(s.history.at) }, "{p-schema-history [a:1 b:2] {schema.history.internal.consumer. map[x:1]} {schema.history.internal.producer. map[y:2]}}"},
		{"a history in a file", false, []string{"schema.history.internal", fileHistory, "schema.history.internal.file.filename", "/f"}, func(s *settings) any { return s.history.at.Topic + s.history.file }, "/f"},
		{"the heartbeats' topic, by its older name", false, []string{"topic.heartbeat.prefix", "hb"}, func(s *settings) any { return s.heartbeatTopic }, "hb.p"},
		{"the transactions' topic", false, []string{"topic.transaction", "tx"}, func(s *settings) any { return s.transactionTopic }, "p.tx"},
		{"the server's own tables are left out", false, nil, func(s *settings) any { return s.captures(TableID{"mysql", "user"}) }, false},
		{"unless asked for", false, []string{"table.ignore.builtin", "false"}, func(s *settings) any { return s.captures(TableID{"mysql", "user"}) }, true},
	} {
		conf := map[string]string{}
		for k, v := range base {
			conf[k] = v
		}
		for i := 0; i < len(c.pairs); i += 2 {
			conf[c.pairs[i]] = c.pairs[i+1]
		}
		def := definition
		if c.mariadb {
			def = mariadbDefinition
		}
		v, errs := def.Parse(conf)
		s, more := parse(v, c.mariadb)
		if len(errs)+len(more) > 0 {
			t.Errorf("%s: %v %v", c.name, errs, more)
		} else if got := c.got(s); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

const secretOfTest = "s3cr3t-of-the-test"

// TestSecretsHide: nothing that prints a configuration prints the password.
func TestSecretsHide(t *testing.T) {
	v, _ := definition.Parse(map[string]string{"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.server.id": "1", "database.password": secretOfTest, "database.ssl.keystore.password": secretOfTest, "database.ssl.truststore.password": secretOfTest})
	s, errs := parse(v, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if text := fmt.Sprintf("%+v %v %#v", s, s, s.password); strings.Contains(text, secretOfTest) {
		t.Error("the settings show the password")
	}
}
