package postgres

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
	var all []entry
	if err := json.Unmarshal([]byte(exchange.Response.Body), &all); err != nil {
		t.Fatal(err)
	}
	var want []entry
	for _, e := range all {
		if e.Group == groupPostgres || e.Group == cdc.GroupConnector || e.Group == cdc.GroupEvents {
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
		if in.Doc == "" || !strings.HasSuffix(in.Doc, ".") {
			t.Errorf("%s: no documentation in sentences: %q", in.Name, in.Doc)
		}
	}
	t.Logf("%d keys compared, 0 skipped", len(infos))
}

// TestEveryKeyHasAnEffect: see connectortest.Keys.
func TestEveryKeyHasAnEffect(t *testing.T) {
	connectortest.Keys(t, len(definition.Infos())+len(internalKeys), ignored)
}

// TestRefusals: the values that a key refuses, and those that it takes.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		key, bad, good string
	}{
		{"converters", "isbn", ""}, {"signal.enabled.channels", "kafka", "source"}, {"notification.enabled.channels", "log", ""},
		{"xmin.fetch.interval.ms", "-1", "10"}, {"errors.max.retries", "-2", "5"}, {"snapshot.max.threads", "0", "4"}, {"custom.metric.tags", "name=x", "env=x"},
		{"topic.naming.strategy", "com.acme.Naming", "io.debezium.schema.SchemaTopicNamingStrategy"}, {"snapshot.query.mode", "custom", "select_all"}, {"snapshot.locking.mode", "custom", "shared"},
		{"heartbeat.interval.ms", "-1", "5000"}, {"skipped.operations", "x", "none"}, {"message.key.columns", "nothing", "a.b:c,d"}, {"slot.stream.params", "x", "a=b;c=d"}, {"slot.stream.params", "origin=none;Binary=true", "origin=none"}, {"slot.stream.params", "streaming=on", "a=b"}, {"slot.stream.params", "proto_version=2", "a=b"},
		{"replica.identity.autoset.values", "a.b:ALL", "a.b:INDEX i,c.d:FULL"}, {"unavailable.value.placeholder", "hex:0", "hex:00ff"}, {"decimal.handling.mode", "x", "double"},
		{"time.precision.mode", "x", "ISOSTRING"}, {"table.exclude.list", "(", "a.b"}, {"guardrail.collections.limit.action", "x", "fail"},
	} {
		conf := func(v string) map[string]string { return map[string]string{c.key: v} }
		if _, errs := definition.Parse(conf(c.bad)); len(errs) != 1 || errs[0].Key != c.key {
			t.Errorf("%s=%s: errors %v, want one", c.key, c.bad, errs)
		}
		if _, errs := definition.Parse(conf(c.good)); len(errs) != 0 {
			t.Errorf("%s=%s: errors %v, want none", c.key, c.good, errs)
		}
	}
}

// TestSecretsHide: nothing that prints a configuration prints the password.
func TestSecretsHide(t *testing.T) {
	v, _ := definition.Parse(map[string]string{"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "database.password": secret, "database.sslpassword": secret})
	s, errs := parse(v)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	cfg, err := s.config(false)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"settings": fmt.Sprintf("%+v", s), "connecting": s.connecting(), "parameters": fmt.Sprint(cfg.RuntimeParams)} {
		if strings.Contains(text, secret) {
			t.Errorf("%s show the password", what)
		}
	}
	if cfg.Password != secret {
		t.Error("the driver does not get it")
	}
	var _ config.Password = s.password
}
