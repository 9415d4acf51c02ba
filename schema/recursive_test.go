package schema_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
)

// tree is a node with a value, a next node and children, under a name.
func tree(name string, value *schema.Schema) *schema.Schema {
	b := schema.NewStruct(name)
	return b.Field("v", value).Field("next", b.Self(true)).Field("kids", schema.ArrayOf(b.Self(false)).Build()).Build()
}

func TestAStructIsAPartOfItself(t *testing.T) {
	s := tree("n.Node", schema.Int32Schema)
	next, kid := s.Field("next"), s.Field("kids").Elem()
	if kid != s || next == s || next.Field("next") != next || next.Field("kids").Elem() != s {
		t.Fatal("the pointers lead elsewhere")
	}
	if !s.Recursive() || !next.Recursive() || !s.Field("kids").Recursive() || s.Field("v").Recursive() {
		t.Error("what is recursive")
	}
	if !next.Optional() || s.Optional() || next.Name() != "n.Node" || next.ValueKind() != schema.Struct {
		t.Error("the mention is another struct than the one mentioned")
	}
	leaf := func(v int32) schema.Value {
		return schema.StructValue(s, []schema.Value{schema.Int32Value(v), {}, schema.ArrayValue(nil)})
	}
	v := schema.StructValue(s, []schema.Value{schema.Int32Value(1), schema.StructValue(next, leaf(2).Fields()), schema.ArrayValue([]schema.Value{leaf(3)})})
	if err := schema.Validate(s, v); err != nil {
		t.Error(err)
	}
	bad := schema.StructValue(s, []schema.Value{schema.Int32Value(1), schema.StructValue(next, []schema.Value{schema.Int32Value(2), {}, {}}), schema.ArrayValue(nil)})
	if err := schema.Validate(s, bad); err == nil || !strings.HasPrefix(err.Error(), `field "next.kids"`) {
		t.Errorf("null under a required array, deep inside: %v", err)
	}
}

func TestWhatSelfIsNotFor(t *testing.T) {
	one := schema.NewStruct("one")
	_ = one.Self(true)
	if s, err := one.Field("a", schema.Int32Schema).TryBuild(); err == nil {
		t.Errorf("a struct that is no part of itself, though it was said to be: %v", s)
	}
	number := schema.New(schema.Int32)
	_ = number.Self(true)
	if _, err := number.TryBuild(); err == nil {
		t.Error("a number that is a part of itself")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a part of a struct that is built already")
			}
		}()
		b := schema.NewStruct("built")
		b.Build()
		b.Self(true)
	}()
	if schema.Int32Schema.Recursive() || (*schema.Schema)(nil).Recursive() || tree("n", schema.Int32Schema).Field("v").Recursive() {
		t.Error("recursive numbers")
	}
}

func TestDefaultsOfRecursiveStructs(t *testing.T) {
	b := schema.NewStruct("n")
	b.Field("next", b.Self(true))
	plain := b.Build()
	with, err := b.Default(schema.StructValue(plain, []schema.Value{{}})).TryBuild()
	if err != nil {
		t.Fatal(err)
	}
	if _, has := with.Field("next").Default(); has || with == plain || with.Field("next").Field("next") != with.Field("next") {
		t.Error("the mention has the default that it is a part of")
	}
	if def, _ := with.Default(); def.Schema() != with || schema.Equal(with, plain) || !schema.Equal(with, schematest.Copy(with)) {
		t.Error("the default's schema, and equality with it")
	}
}

func TestEqualityOfRecursiveSchemas(t *testing.T) {
	schematest.Rounds(t, 300, func(t *testing.T, r *rand.Rand) {
		a := schematest.Recursive(r)
		b := schematest.Copy(a)
		if !a.Recursive() || !schema.Equal(a, b) || !schema.Equal(b, a) {
			t.Fatalf("a copy of %s is another schema", a)
		}
		// One level of it written out is the same schema: no path meets a difference.
		if unrolled := unroll(a); unrolled == a || !schema.Equal(a, unrolled) || !schema.EqualFields(unrolled, b) {
			t.Fatalf("%s, its first level written out, is another schema", a)
		}
		if d := changed(a); schema.Equal(a, d) || schema.Equal(d, b) {
			t.Fatalf("%s is equal to the same with another field deep inside", a)
		}
		c := schematest.Recursive(r)
		if schema.Equal(a, c) && !schema.Equal(a.Fields()[0].Schema, c.Fields()[0].Schema) {
			t.Fatal("equal, with another first field")
		}

		// Caches find what is equal, and nothing else.
		var cache schema.Cache[*schema.Schema]
		for _, s := range []*schema.Schema{a, b, unroll(b), changed(a), b, schematest.Copy(changed(b))} {
			got, err := cache.Get(s, func(s *schema.Schema) (*schema.Schema, error) { return s, nil })
			if err != nil || !schema.Equal(got, s) || got != a && got.Index("further") < 0 {
				t.Fatalf("a cache has for %s: %s, %v", s, got, err)
			}
		}
		v := schematest.Value(r, a)
		if err := schema.Validate(a, v); err != nil {
			t.Fatal(err)
		}
		if w := under(v, b); !schema.EqualValues(v, w) || schema.Validate(b, w) != nil || schema.Validate(a, w) != nil {
			t.Fatal("a value under a copy of its schema is another one")
		}
	})
}

func TestProjectionOfRecursiveSchemas(t *testing.T) {
	from, to := tree("n.Node", schema.Int32Schema), tree("n.Node", schema.Int64Schema)
	p, err := schema.NewProjection(from, to)
	if err != nil {
		t.Fatal(err)
	}
	build := func(s *schema.Schema, number func(int64) schema.Value) schema.Value {
		leaf := []schema.Value{number(2), {}, schema.ArrayValue(nil)}
		return schema.StructValue(s, []schema.Value{number(1), schema.StructValue(s.Field("next"), leaf), schema.ArrayValue([]schema.Value{schema.StructValue(s, leaf)})})
	}
	got, err := p.Apply(build(from, func(n int64) schema.Value { return schema.Int32Value(int32(n)) }))
	if want := build(to, schema.Int64Value); err != nil || !schema.EqualValues(got, want) || schema.Validate(to, got) != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := schema.NewProjection(from, tree("n.Node", schema.StringSchema)); err == nil || !strings.Contains(err.Error(), `field "v"`) {
		t.Errorf("numbers as strings: %v", err)
	}
	schematest.Rounds(t, 200, func(t *testing.T, r *rand.Rand) {
		a := schematest.Recursive(r)
		b := changed(a)
		p, err := schema.NewProjection(a, b)
		if err != nil {
			t.Fatal(err)
		}
		v := schematest.Value(r, a)
		got, err := p.Apply(v)
		if err == nil {
			err = schema.Validate(b, got)
		}
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
	})
}

// unroll is a struct with the same fields.
func unroll(s *schema.Schema) *schema.Schema {
	b := schema.From(s)
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	return b.Build()
}

// changed is s, in which each recursive struct has a further, optional field.
func changed(s *schema.Schema) *schema.Schema {
	open := map[*schema.Schema]*schema.Builder{}
	var build func(s *schema.Schema) *schema.Schema
	build = func(s *schema.Schema) *schema.Schema {
		if s == nil || !s.Recursive() {
			return s
		}
		if b := open[s]; b != nil {
			return b.Self(s.Optional())
		}
		switch s.Kind() {
		case schema.Array:
			return schema.ArrayOf(build(s.Elem())).SetOptional(s.Optional()).Build()
		case schema.Map:
			return schema.MapOf(s.Key(), build(s.Elem())).SetOptional(s.Optional()).Build()
		}
		b := schema.From(s)
		open[s] = b
		defer delete(open, s)
		for _, f := range s.Fields() {
			b.Field(f.Name, build(f.Schema))
		}
		return b.Field("further", schema.OptionalInt64).Build()
	}
	return build(s)
}

// under is a value with the schemas of s, which equals its own.
func under(v schema.Value, s *schema.Schema) schema.Value {
	switch v.Kind() {
	case schema.Struct:
		fields := make([]schema.Value, len(v.Fields()))
		for i, f := range v.Fields() {
			fields[i] = under(f, s.Fields()[i].Schema)
		}
		return schema.StructValue(s, fields)
	case schema.Array:
		elems := make([]schema.Value, len(v.Elems()))
		for i, e := range v.Elems() {
			elems[i] = under(e, s.Elem())
		}
		return schema.ArrayValue(elems)
	case schema.Map:
		entries := make([]schema.Entry, len(v.Entries()))
		for i, e := range v.Entries() {
			entries[i] = schema.Entry{Key: e.Key, Value: under(e.Value, s.Elem())}
		}
		return schema.MapValue(entries)
	}
	return v
}
