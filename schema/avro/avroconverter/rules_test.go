package avroconverter

import (
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/converters"
	"millrace/schema/registry"
	"millrace/schema/registry/client"
)

// Rules would have to run in this converter: data under one is refused, unless its failure is nothing.
func TestRulesAreNotPassedBy(t *testing.T) {
	rule := func(mode, onFailure string, disabled bool) []registry.Rule {
		return []registry.Rule{{Name: "r", Type: "ENCRYPT", Mode: mode, OnFailure: onFailure, Disabled: disabled}}
	}
	for _, c := range []struct {
		name        string
		rules       registry.RuleSet
		latest      string
		write, read bool // whether that works
	}{
		{"for writing", registry.RuleSet{DomainRules: rule("WRITE", "", false)}, "", false, true},
		{"for reading", registry.RuleSet{DomainRules: rule("READ", "", false)}, "", true, false},
		{"for both", registry.RuleSet{DomainRules: rule("WRITEREAD", "ERROR", false)}, "", false, false},
		{"for both, in the encoding", registry.RuleSet{EncodingRules: rule("WRITEREAD", "DLQ", false)}, "", false, false},
		{"disabled", registry.RuleSet{DomainRules: rule("WRITEREAD", "", true)}, "", true, true},
		{"whose failure is nothing", registry.RuleSet{DomainRules: rule("WRITEREAD", "NONE", false)}, "", true, true},
		{"whose failure is nothing for writers", registry.RuleSet{DomainRules: rule("WRITEREAD", "NONE,ERROR", false)}, "", true, false},
		{"whose failure is nothing for readers", registry.RuleSet{DomainRules: rule("WRITEREAD", "ERROR,NONE", false)}, "", false, true},
		{"between versions", registry.RuleSet{MigrationRules: rule("UPGRADE", "", false)}, "", true, true},
		{"between versions, of which the latest is wanted", registry.RuleSet{MigrationRules: rule("UPGRADE", "", false)}, "use.latest.version=true", true, false},
		{"between versions, of which one is wanted by its metadata", registry.RuleSet{MigrationRules: rule("UPDOWN", "", false)}, "use.latest.with.metadata=a=1", true, false},
	} {
		f := newFake(t)
		f.put("t-value", client.Schema{Text: `"string"`})
		f.rules, f.tags = map[int]*registry.RuleSet{1: &c.rules}, map[int]string{1: "a=1"}
		settings := []string{"schema.registry.url", f.url}
		if key, value, ok := strings.Cut(c.latest, "="); ok {
			settings = append(settings, "auto.register.schemas", "false", key, value)
		}
		k := made(t, false, settings...)
		_, _, err := k.Encode(nil, &converters.Message{Topic: "t"}, schema.StringSchema, schema.StringValue("x"))
		refused(t, c.name+", writing", err, c.write)
		_, _, err = k.Decode(&converters.Message{Topic: "t"}, []byte{0, 0, 0, 0, 1, 2, 'x'})
		refused(t, c.name+", reading", err, c.read)
	}
}

func refused(t *testing.T, name string, err error, works bool) {
	t.Helper()
	var mayPass bool
	if e, ok := err.(interface{ MayPass() bool }); ok {
		mayPass = e.MayPass()
	}
	if (err == nil) != works || mayPass || err != nil && !strings.Contains(err.Error(), `the rule "r" of the type ENCRYPT`) {
		t.Errorf("a rule %s: %v", name, err)
	}
}

// The version that is written is the latest of those whose metadata have what is wanted.
func TestTheLatestVersionWithMetadata(t *testing.T) {
	f := newFake(t)
	for _, text := range []string{`{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, `{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`, `{"type":"record","name":"R","fields":[{"name":"a","type":"double"}]}`} {
		f.put("t-value", client.Schema{Text: text})
	}
	f.tags = map[int]string{1: "app=1", 2: "app=2"}
	s := schema.NewStruct("R").Field("a", schema.Int32Schema).Build()
	v := schema.StructValue(s, []schema.Value{schema.Int32Value(3)})
	for with, want := range map[string]byte{"app=1": 1, " app = 2 ": 2} {
		k := made(t, false, "schema.registry.url", f.url, "auto.register.schemas", "false", "use.latest.version", "true", "use.latest.with.metadata", with)
		if got := must(t, k, "t", s, v); got[4] != want {
			t.Errorf("%s: the schema %d, want %d", with, got[4], want)
		}
	}
	k := made(t, false, "schema.registry.url", f.url, "auto.register.schemas", "false", "use.latest.with.metadata", "app=3")
	if _, _, err := k.Encode(nil, &converters.Message{Topic: "t"}, s, v); err == nil || !strings.Contains(err.Error(), `"t-value" with the metadata key=app&value=3`) {
		t.Errorf("metadata that no version has: %v", err)
	}
}
