package cdc

import (
	"strings"
	"testing"
)

func TestParseReselect(t *testing.T) {
	const class = "io.debezium.processors.reselect.ReselectColumnsPostProcessor"
	for _, c := range []struct {
		name string
		list []string
		raw  map[string]string
		key  string // of the error; empty: none
	}{
		{"none", nil, nil, ""},
		{"without its type", []string{"r"}, nil, "post.processors"},
		{"Java's own", []string{"r"}, map[string]string{"r.type": "com.acme.P"}, "r.type"},
		{"two of them", []string{"a", "b"}, map[string]string{"a.type": class, "b.type": class}, "post.processors"},
		{"both lists", []string{"r"}, map[string]string{"r.type": class, "r.reselect.columns.include.list": "a", "r.reselect.columns.exclude.list": "b"}, "r.reselect.columns.exclude.list"},
		{"no expression", []string{"r"}, map[string]string{"r.type": class, "r.reselect.columns.include.list": "("}, "r.reselect.columns.include.list"},
		{"no boolean", []string{"r"}, map[string]string{"r.type": class, "r.reselect.null.values": "maybe"}, "r.reselect.null.values"},
		{"no mode", []string{"r"}, map[string]string{"r.type": class, "r.reselect.error.handling.mode": "skip"}, "r.reselect.error.handling.mode"},
	} {
		_, err := ParseReselect(c.list, c.raw)
		if got := ""; err != nil {
			if got = err.Key; got != c.key {
				t.Errorf("%s: an error at %s, want %q", c.name, got, c.key)
			}
		} else if c.key != "" {
			t.Errorf("%s: no error, want one at %s", c.name, c.key)
		}
	}
	r, err := ParseReselect([]string{" r "}, map[string]string{"r.type": class, "r.reselect.columns.include.list": "s.t:(a|b),s.u.c", "r.reselect.null.values": "FALSE",
		"r.reselect.use.event.key": "true", "r.reselect.error.handling.mode": "FAIL"})
	if err != nil || !r.Unavailable || r.Null || !r.EventKey || !r.Fail {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, want := range map[string]bool{"s.t.a": true, "s.t.c": false, "s.u.c": true, "x.t.a": false} {
		p := strings.Split(name, ".")
		if r.Wants(p[0], p[1], p[2]) != want {
			t.Errorf("%s: want %t", name, want)
		}
	}
	all, _ := ParseReselect([]string{"r"}, map[string]string{"r.type": class, "r.reselect.columns.exclude.list": "s.t:a"})
	if !all.Unavailable || !all.Null || all.Wants("s", "t", "a") || !all.Wants("s", "t", "b") || (*Reselect)(nil).Wants("s", "t", "b") {
		t.Error("the defaults, and an exclude list")
	}
}
