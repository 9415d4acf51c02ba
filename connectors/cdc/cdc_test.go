package cdc

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"millrace/schema"
	"millrace/schema/envelope"
)

func TestTopicNames(t *testing.T) {
	n := Naming{Prefix: "p", Delimiter: "."}
	for in, want := range map[[2]string]string{
		{"inv", "Odd Näme"}: "p.inv.Odd_N_me", {"a", "b-c_d.e"}: "p.a.b-c_d.e", {"a", "😀"}: "p.a.__", {"a", "€"}: "p.a._",
	} {
		if got := n.Topic(in[0], in[1]); got != want {
			t.Errorf("%v is %s, want %s", in, got, want)
		}
	}
}

func TestFilters(t *testing.T) {
	patterns := func(s string) Patterns {
		p, err := ParsePatterns(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name   string
		tables Tables
		schema string
		table  string
		want   bool
	}{
		{"without lists all are captured", Tables{}, "a", "b", true},
		{"the whole name must match", Tables{Include: patterns("a.b")}, "a", "bc", false},
		{"case does not count", Tables{Include: patterns("A.B")}, "a", "b", true},
		{"one of several", Tables{Include: patterns("x.y , a.b")}, "a", "b", true},
		{"an escaped comma belongs to its expression", Tables{Include: patterns(`a.b{1\,2}`)}, "a", "bb", true},
		{"excluded", Tables{Exclude: patterns("a.*")}, "a", "b", false},
		{"not excluded", Tables{Exclude: patterns("a.*")}, "b", "b", true},
		{"a schema that is not included", Tables{IncludeSchemas: patterns("x"), Include: patterns("a.b")}, "a", "b", false},
		{"a schema that is excluded", Tables{ExcludeSchemas: patterns("a")}, "a", "b", false},
		{"what only Java's expressions can", Tables{Include: patterns(`a\.(?!tmp).*`)}, "a", "tmp1", false},
	} {
		if got := c.tables.Match(c.schema, c.table); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if _, err := ParsePatterns("("); err == nil {
		t.Error("a broken expression is taken")
	}
	k, err := ParseKeyColumns("a.b:x,y; (.*).c:z")
	if err != nil || !slices.Equal(k.Of("a", "b"), []string{"x", "y"}) || !slices.Equal(k.Of("q", "c"), []string{"z"}) || k.Of("q", "d") != nil {
		t.Errorf("keys: %v, %v", k, err)
	}
}

func TestEvents(t *testing.T) {
	source := envelope.SourceBlock("s")
	layout, err := envelope.NewLayout("p.t", []schema.Field{{Name: "id", Schema: schema.Int32Schema}, {Name: "v", Schema: schema.OptionalString}}, source)
	if err != nil {
		t.Fatal(err)
	}
	tab := &Table{Topic: "p.t", Layout: layout, Key: schema.NewStruct("p.t.Key").Field("id", schema.Int32Schema).Build(), KeyIndex: []int{0}}
	keyless := &Table{Topic: "p.t", Layout: layout}
	row := func(id int32, v string) schema.Value {
		return schema.StructValue(layout.Row, []schema.Value{schema.Int32Value(id), schema.StringValue(v)})
	}
	src := schema.StructValue(source, make([]schema.Value, len(source.Fields())))
	run := func(tombstones bool, skip []string, f func(e *Events)) (out []string) {
		ops, err := ParseOperations(skip)
		if err != nil {
			t.Fatal(err)
		}
		b := NewBuilder(100)
		f(&Events{Tombstones: tombstones, Skip: ops, Context: ContextHeaders("p", 0, "c"), Out: b})
		rs, _ := b.Take()
		for _, r := range rs {
			op := "tombstone"
			if !r.Value.IsNull() {
				op = r.Value.Get("op").Str()
			}
			key := "-"
			if !r.Key.IsNull() {
				key = fmt.Sprint(r.Key.Get("id").Int())
			}
			line := op + " " + key
			if r.Headers[0].Key != envelope.HeaderLogicalName {
				line += " " + r.Headers[0].Key
			}
			out = append(out, line)
		}
		return out
	}
	at := envelope.MomentOf(time.Now())
	for _, c := range []struct {
		name       string
		tombstones bool
		skip       []string
		f          func(e *Events)
		want       []string
	}{
		{"a delete and its tombstone", true, nil, func(e *Events) { e.Delete(&Change{Table: tab, Before: row(1, "a"), Source: src, At: at}) }, []string{"d 1", "tombstone 1"}},
		{"without tombstones", false, nil, func(e *Events) { e.Delete(&Change{Table: tab, Before: row(1, "a"), Source: src, At: at}) }, []string{"d 1"}},
		{"an update that keeps its key", true, nil, func(e *Events) {
			e.Update(&Change{Table: tab, After: row(1, "b"), OldKey: row(1, "a"), Source: src, At: at})
		}, []string{"u 1"}},
		{"an update that changes it", true, nil, func(e *Events) {
			e.Update(&Change{Table: tab, After: row(2, "b"), OldKey: row(1, "a"), Source: src, At: at})
		}, []string{"d 1 __debezium.newkey", "tombstone 1 __debezium.newkey", "c 2 __debezium.oldkey"}},
		{"a table without a key", true, nil, func(e *Events) {
			e.Update(&Change{Table: keyless, After: row(2, "b"), Before: row(1, "a"), OldKey: row(1, "a"), Source: src, At: at})
			e.Delete(&Change{Table: keyless, Before: row(2, "b"), Source: src, At: at})
		}, []string{"u -", "d -", "tombstone -"}},
		{"skipped operations", true, []string{"c", "u", "d", "t"}, func(e *Events) {
			e.Create(&Change{Table: tab, After: row(1, "a"), Source: src, At: at})
			e.Update(&Change{Table: tab, After: row(1, "a"), Source: src, At: at})
			e.Delete(&Change{Table: tab, Before: row(1, "a"), Source: src, At: at})
			e.Truncate(&Change{Table: tab, Source: src, At: at})
			e.Read(&Change{Table: tab, After: row(1, "a"), Source: src, At: at})
		}, []string{"r 1"}},
		{"none skips none", true, []string{"none"}, func(e *Events) { e.Truncate(&Change{Table: tab, Source: src, At: at}) }, []string{"t -"}},
	} {
		if got := run(c.tombstones, c.skip, c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRunIDsAreUUIDs(t *testing.T) {
	at := time.UnixMilli(1796002894816)
	a, b := newUUIDv7(at), newUUIDv7(at)
	if a == b || !regexp.MustCompile(`^01a22a1d-53e0-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Errorf("%s, %s", a, b)
	}
}
