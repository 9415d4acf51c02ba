package postgres

import "testing"

// TestNamesEndNoText: whatever a name or a text holds stays inside of its quotes, and a slot has only a name that the
// database's rule allows.
func TestNamesEndNoText(t *testing.T) {
	for name, want := range map[string]string{`a"; SELECT pg_sleep(9); --`: `"a""; SELECT pg_sleep(9); --"`, `plain`: `"plain"`, `"`: `""""`} {
		if got := quoteName(name); got != want {
			t.Errorf("name %s becomes %s, want %s", name, got, want)
		}
	}
	if got := (&catalogTable{schema: `s"`, name: `t"."u`}).quoted(); got != `"s"""."t"".""u"` {
		t.Errorf("table becomes %s", got)
	}
	for text, want := range map[string]string{`s'; DROP TABLE t; --`: `'s''; DROP TABLE t; --'`, `'`: `''''`} {
		if got := quoteText(text); got != want {
			t.Errorf("text %s becomes %s, want %s", text, got, want)
		}
	}
	for _, slot := range []string{`s'; DROP TABLE t; --`, `s"`, "s\n", "S", "s-1", "", "s s"} {
		if slotName.MatchString(slot) {
			t.Errorf("slot %q is taken", slot)
		}
	}
	if !slotName.MatchString("debezium_1") {
		t.Error("a usual slot is refused")
	}
}
