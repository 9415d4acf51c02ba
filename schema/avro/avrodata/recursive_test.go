package avrodata

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/avro"
	"millrace/schema/schematest"
)

// mappings are the settings that change what becomes of records and unions.
func mappings() map[string]Options {
	all := map[string]Options{"usual": usual}
	for name, set := range map[string]func(*Options){
		"enhanced": func(o *Options) { o.Enhanced = true }, "general sums": func(o *Options) { o.GeneralizedSums = true },
		"without connect.meta.data": func(o *Options) { o.MetaData = false }, "discarded docs": func(o *Options) { o.DiscardDocs = true },
		"nulls kept": func(o *Options) { o.KeepNulls = true }, "scrubbed": func(o *Options) { o.Scrub = true }, "singletons": func(o *Options) { o.FlattenSingleton = false },
	} {
		o := usual
		set(&o)
		all[name] = o
	}
	return all
}

// Recursive schemas of others are read, and what Connect makes of them is written as the same Avro schema again: data of one is data of
// the other.
func TestRecursiveSchemasOfOthers(t *testing.T) {
	for name, text := range map[string]string{
		"a list":                     `{"type":"record","name":"n.L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","n.L"],"default":null}]}`,
		"a list, null last":          `{"type":"record","name":"n.L","fields":[{"name":"v","type":"int"},{"name":"next","type":["n.L","null"]}]}`,
		"a tree":                     `{"type":"record","name":"n.T","doc":"d","fields":[{"name":"v","type":"string","doc":"e"},{"name":"kids","type":{"type":"array","items":"n.T"},"default":[]}]}`,
		"a tree of optional kids":    `{"type":"record","name":"n.T","fields":[{"name":"kids","type":{"type":"array","items":["null","n.T"]}}]}`,
		"a tree by names":            `{"type":"record","name":"n.T","fields":[{"name":"kids","type":["null",{"type":"map","values":"n.T"}],"default":null}]}`,
		"two that have each other":   `{"type":"record","name":"n.A","fields":[{"name":"b","type":["null",{"type":"record","name":"n.B","fields":[{"name":"a","type":["null","n.A"]},{"name":"more","type":{"type":"array","items":"n.B"}}]}]},{"name":"again","type":["null","n.B"]}]}`,
		"a branch of a larger union": `{"type":"record","name":"n.E","fields":[{"name":"left","type":["long","string","n.E"]},{"name":"right","type":["null","long","n.E"]}]}`,
		"deep inside":                `{"type":"array","items":{"type":"record","name":"n.O","fields":[{"name":"l","type":{"type":"record","name":"n.L","fields":[{"name":"next","type":["null","n.L"]}]}},{"name":"m","type":["null","n.L"]}]}}`,
		"a version and parameters":   `{"type":"record","name":"n.L","fields":[{"name":"next","type":["null","n.L"]},{"name":"other","type":["null","n.L"],"connect.parameters":{"p":"q"}}],"connect.version":3,"connect.parameters":{"p":"q"},"connect.name":"n.L"}`,
		"a default of its own":       `{"type":"record","name":"n.O","fields":[{"name":"l","type":{"type":"record","name":"n.L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","n.L"],"default":null}]},"default":{"v":1,"next":null}}]}`,
		"no end":                     `{"type":"record","name":"n.R","fields":[{"name":"r","type":"n.R"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for with, o := range mappings() {
				m := &Mapper{Options: o}
				theirs := avroOf(t, text)
				s, err := m.ToConnect(theirs, 7)
				if err != nil {
					t.Fatalf("%s: %v", with, err)
				}
				if !s.Recursive() {
					t.Fatalf("%s: %s has an end", with, s)
				}
				ours, err := m.ToAvro(s)
				if err != nil {
					t.Fatalf("%s: %v", with, err)
				}
				again, err := (&Mapper{Options: o}).ToAvro(schematest.Copy(s))
				if err != nil || again.Canonical() != ours.Canonical() {
					t.Errorf("%s: a copy of the schema becomes %v, want %s, %v", with, again, ours.Canonical(), err)
				}
				if found := append(avro.Reads(ours.Type(), theirs, "", ""), avro.Reads(theirs, ours.Type(), "", "")...); len(found) > 0 {
					t.Errorf("%s: %s and %s: %v", with, theirs, ours.Canonical(), found)
				}
				if name == "no end" {
					continue
				}
				// Data that either encoder writes is read by either decoder.
				schematest.Rounds(t, 20, func(t *testing.T, r *rand.Rand) {
					v := onlyOne(schematest.Value(r, s))
					for _, written := range []*avro.Type{theirs, ours.Type()} {
						e, err := NewEncoder(s, written, o)
						if err != nil {
							t.Fatalf("%s: %v", with, err)
						}
						data, _, err := e.Append(nil, v)
						if err != nil {
							t.Fatalf("%s: %v", with, err)
						}
						back, err := m.ToConnect(written, 7)
						if err != nil {
							t.Fatal(err)
						}
						d, err := NewDecoder(written, back)
						if err != nil {
							t.Fatal(err)
						}
						got, err := d.Value(data)
						if err != nil || fmt.Sprint(plain(got)) != fmt.Sprint(plain(v)) || schema.Validate(back, got) != nil {
							t.Fatalf("%s: wrote %v, read %v, %v", with, plain(v), plain(got), err)
						}
						if e, err = NewEncoder(back, written, o); err != nil {
							t.Fatal(err)
						}
						if same, _, err := e.Append(nil, got); err != nil || !bytes.Equal(same, data) {
							t.Fatalf("%s: read and written again: %x, %v, want %x", with, same, err, data)
						}
					}
				})
			}
		})
	}
}

// onlyOne sets one field of each struct that is a union, as such a struct has.
func onlyOne(v schema.Value) schema.Value {
	switch v.Kind() {
	case schema.Struct:
		fields := make([]schema.Value, len(v.Fields()))
		if !isUnion(v.Schema()) {
			for i, f := range v.Fields() {
				fields[i] = onlyOne(f)
			}
			return schema.StructValue(v.Schema(), fields)
		}
		at := slices.IndexFunc(v.Fields(), func(f schema.Value) bool { return !f.IsNull() })
		switch {
		case at >= 0:
			fields[at] = onlyOne(v.At(at))
		case v.Schema().Optional():
			return schema.Value{}
		default:
			fields[0] = schema.Int64Value(5) // the first branch of the unions here
		}
		return schema.StructValue(v.Schema(), fields)
	case schema.Array:
		elems := make([]schema.Value, len(v.Elems()))
		for i, e := range v.Elems() {
			elems[i] = onlyOne(e)
		}
		return schema.ArrayValue(elems)
	case schema.Map:
		entries := make([]schema.Entry, len(v.Entries()))
		for i, e := range v.Entries() {
			entries[i] = schema.Entry{Key: e.Key, Value: onlyOne(e.Value)}
		}
		return schema.MapValue(entries)
	}
	return v
}

// What Connect has is written and read as it was, whatever is a part of what.
func TestRecursiveSchemasOfConnect(t *testing.T) {
	read := 0
	schematest.Rounds(t, 400, func(t *testing.T, r *rand.Rand) {
		o := usual
		o.KeepNulls, o.Scrub = true, true
		s := schematest.Recursive(r)
		v := schematest.Value(r, s)
		back, got, err := through(t, o, s, v)
		if err != nil {
			for _, reason := range []string{"two different types have the name", "twice", "under the required schema", "is the schema", "duplicate in a union", "named after primitives"} {
				if strings.Contains(err.Error(), reason) {
					return
				}
			}
			t.Fatalf("%s: %v", s, err)
		}
		read++
		if err := schema.Validate(back, got); err != nil || !back.Recursive() {
			t.Errorf("%s: what was read is no value of its schema: %v", s, err)
		}
		if a, b := fmt.Sprint(plain(v)), fmt.Sprint(plain(got)); a != b {
			t.Errorf("%s: another value was read than was written", s)
		}
	})
	if read == 0 {
		t.Error("nothing was read")
	}
}

// A list without a name is written under one that is made up, as structs without names are.
func TestAListWithoutAName(t *testing.T) {
	b := schema.NewStruct("")
	s := b.Field("v", schema.Int32Schema).Field("next", b.Self(true)).Build()
	v := schema.StructValue(s, []schema.Value{schema.Int32Value(1), schema.StructValue(s.Field("next"), []schema.Value{schema.Int32Value(2), {}})})
	back, got, err := through(t, usual, s, v)
	if err != nil || back.Name() != "" || fmt.Sprint(plain(got)) != fmt.Sprint(plain(v)) {
		t.Errorf("%v %v, %v", back, plain(got), err)
	}
}

func TestRecursionHasBounds(t *testing.T) {
	const list = `{"type":"record","name":"n.L","fields":[{"name":"next","type":["null","n.L"]}]}`
	theirs := avroOf(t, list)
	s, err := (&Mapper{Options: usual}).ToConnect(theirs, 1)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(theirs, s)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(s, theirs, usual)
	if err != nil {
		t.Fatal(err)
	}
	chain := func(n int) []byte { return append(bytes.Repeat([]byte{2}, n-1), 0) }
	v, err := d.Value(chain(maxNesting))
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := e.Append(nil, v); err != nil || !bytes.Equal(data, chain(maxNesting)) {
		t.Errorf("%d structs in each other: %d bytes, %v", maxNesting, len(data), err)
	}
	if _, err := d.Value(chain(1 << 20)); err == nil || !strings.Contains(err.Error(), "deeper than 1000") || len(err.Error()) > 20_000 {
		t.Errorf("a million structs in each other: %.100v", err)
	}
	if _, _, err := e.Append(nil, schema.StructValue(s, []schema.Value{schema.StructValue(s.Field("next"), v.Fields())})); err == nil || !strings.Contains(err.Error(), "deeper than 1000") {
		t.Errorf("one more than are read is written: %.100v", err)
	}
	if data, _, err := e.Append(nil, v); err != nil || len(data) != maxNesting {
		t.Errorf("after a refusal: %.100v", err)
	}

	// No bytes are data of what has no end.
	endless := avroOf(t, `{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`)
	if s, err = (&Mapper{Options: usual}).ToConnect(endless, 1); err != nil {
		t.Fatal(err)
	}
	if d, err = NewDecoder(endless, s); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Value(nil); err == nil || !strings.Contains(err.Error(), "deeper than 1000") {
		t.Errorf("no bytes are read as %.100v", err)
	}
}

// What would grow without bounds is refused.
func TestSchemasThatGrow(t *testing.T) {
	doubling := strings.Repeat(`{"type":"record","name":"R%d","fields":[{"name":"b","type":`, 60)
	for i := range 60 {
		doubling = strings.Replace(doubling, "%d", fmt.Sprint(i), 1)
	}
	doubling += `"int"`
	for i := range 60 {
		of := `"int"`
		if i > 0 {
			of = fmt.Sprintf(`"R%d"`, 60-i)
		}
		doubling += `},{"name":"a","type":` + of + `}]}`
	}
	pair := `{"type":"record","name":"E","connect.internal.type":"MapEntry","fields":[{"name":"key","type":"int"},{"name":"value","type":{"type":"array","items":"E"}}]}`
	for _, c := range []struct{ name, text, want string }{
		{"types that double", doubling, "more than 100000"},
		{"a map that is its own value", `{"type":"array","items":` + pair + `}`, "a part of its own pairs"},
	} {
		if _, err := (&Mapper{Options: usual}).ToConnect(avroOf(t, c.text), 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
