package cdc

import (
	"strings"
	"testing"
)

func TestSnapshotModes(t *testing.T) {
	all := SnapshotFlags{Data: true, Stream: true, OnDataError: true}
	for _, c := range []struct {
		name                      string
		flags                     SnapshotFlags
		fresh, again, stream, new bool
	}{
		{"always", SnapshotFlags{}, true, true, true, false},
		{"initial", SnapshotFlags{}, true, false, true, false},
		{" Initial", SnapshotFlags{}, true, false, true, false},
		{"initial_only", SnapshotFlags{}, true, false, false, false},
		{"no_data", all, false, false, true, false},
		{"never", SnapshotFlags{}, false, false, true, false},
		{"schema_only", SnapshotFlags{}, false, false, true, false},
		{"when_needed", SnapshotFlags{}, true, false, true, true},
		{"recovery", SnapshotFlags{}, false, false, true, false},
		{"configuration_based", all, true, true, true, true},
		{"configuration_based", SnapshotFlags{Data: true}, true, true, false, false},
		{"configuration_based", SnapshotFlags{Stream: true}, false, false, true, false},
	} {
		m, err := ParseSnapshotMode(c.name, c.flags, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if m.Reads(false) != c.fresh || m.Reads(true) != c.again || m.Stream != c.stream || m.Anew != c.new || m.Every() != c.again {
			t.Errorf("%s %+v: %+v", c.name, c.flags, m)
		}
	}
	for _, c := range []struct{ name, words string }{
		{"custom", "Java class"}, {"exported", "initial"}, {"recovery", "not here"}, {"x", "always, initial,"}, {"", "always"}, {"configuration_based", "start.stream"},
	} {
		if _, err := ParseSnapshotMode(c.name, SnapshotFlags{}, map[string]string{"recovery": "not here"}); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q: %v, want an error with %q", c.name, err, c.words)
		}
	}
	for name, want := range map[string]bool{"recovery": true, "schema_only_recovery": true, "no_data": false} {
		if m, err := ParseSnapshotMode(name, all, nil); err != nil || m.Rebuild != want {
			t.Errorf("%s rebuilds the history: %v, %v", name, m.Rebuild, err)
		}
	}
	for _, want := range []bool{true, false} {
		if m, err := ParseSnapshotMode("configuration_based", SnapshotFlags{Stream: true, OnSchemaError: want}, nil); err != nil || m.RebuildOnError != want {
			t.Errorf("snapshot.on.schema.error=%v: %v, %v", want, m.RebuildOnError, err)
		}
	}
	if CheckSnapshotMode(nil)("configuration_based") != nil {
		t.Error("the value alone is refused for what its switches say")
	}
}

func TestTablesInOrder(t *testing.T) {
	p, err := ParsePatterns(`s.c, s\.[ab].*,S.D`)
	if err != nil {
		t.Fatal(err)
	}
	name := func(s string) string { return s }
	in := []string{"s.a1", "s.a2", "s.b", "s.c", "s.d"}
	if got := strings.Join(InOrder(in, p, name), " "); got != "s.c s.a1 s.a2 s.b s.d" {
		t.Error(got)
	}
	if got := strings.Join(InOrder(in, nil, name), " "); got != strings.Join(in, " ") {
		t.Error(got)
	}
}
