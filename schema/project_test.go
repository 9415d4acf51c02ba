package schema_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
)

func TestProjection(t *testing.T) {
	one := func(f ...schema.Value) func(*schema.Schema) schema.Value {
		return func(s *schema.Schema) schema.Value { return schema.StructValue(s, f) }
	}
	i8, str := schema.Int8Value, schema.StringValue
	withDefault := schema.New(schema.String).Default(str("d")).Build()
	b := schema.NewStruct
	for _, c := range []struct {
		name           string
		source, target *schema.Schema
		in             func(*schema.Schema) schema.Value
		want           func(*schema.Schema) schema.Value
		err            string
	}{
		{"fields in another order", b("s").Field("a", schema.Int8Schema).Field("b", schema.StringSchema).Build(), b("s").Field("b", schema.StringSchema).Field("a", schema.Int8Schema).Build(), one(i8(1), str("x")), one(str("x"), i8(1)), ""},
		{"a field left out", b("s").Field("a", schema.Int8Schema).Field("b", schema.StringSchema).Build(), b("s").Field("b", schema.StringSchema).Build(), one(i8(1), str("x")), one(str("x")), ""},
		{"an optional field that the source has not", b("s").Build(), b("s").Field("o", schema.OptionalString).Build(), one(), one(schema.Value{}), ""},
		{"a field with a default that the source has not", b("s").Build(), b("s").Field("o", withDefault).Build(), one(), one(str("d")), ""},
		{"a required field that the source has not", b("s").Build(), b("s").Field("r", schema.StringSchema).Build(), one(), nil, `field "r": Required field ` + "`r`"},
		{"a null where the target has a default", b("s").Field("o", schema.OptionalString).Build(), b("s").Field("o", withDefault).Build(), one(schema.Value{}), one(str("d")), ""},
		{"an optional field that becomes required", b("s").Field("o", schema.OptionalString).Build(), b("s").Field("o", schema.StringSchema).Build(), nil, nil, "Writer schema is optional"},
		{"the source's default counts", b("s").Field("o", withDefault).Build(), b("s").Version(2).Field("o", schema.StringSchema).Build(), one(schema.Value{}), one(str("d")), ""},
		{"an int8 as an int64", schema.Int8Schema, schema.Int64Schema, func(*schema.Schema) schema.Value { return i8(-5) }, func(*schema.Schema) schema.Value { return schema.Int64Value(-5) }, ""},
		{"an int64 as a double", schema.Int64Schema, schema.Float64Schema, func(*schema.Schema) schema.Value { return schema.Int64Value(3) }, func(*schema.Schema) schema.Value { return schema.Float64Value(3) }, ""},
		{"a float as a double", schema.Float32Schema, schema.Float64Schema, func(*schema.Schema) schema.Value { return schema.Float32Value(0.5) }, func(*schema.Schema) schema.Value { return schema.Float64Value(0.5) }, ""},
		{"an int64 as an int32", schema.Int64Schema, schema.Int32Schema, nil, nil, "Schema type mismatch. source type: INT64 and target type: INT32"},
		{"a double as an int64", schema.Float64Schema, schema.Int64Schema, nil, nil, "Schema type mismatch"},
		{"a boolean as a number", schema.BoolSchema, schema.Int8Schema, nil, nil, "Schema type mismatch"},
		{"a string as bytes", schema.StringSchema, schema.BytesSchema, nil, nil, "Schema type mismatch"},
		{"another name", b("a").Build(), b("b").Build(), nil, nil, "Schema name mismatch"},
		{"another scale", schema.DecimalOf(1).Build(), schema.DecimalOf(2).Build(), nil, nil, "Schema parameters not equal"},
		{"another version", b("s").Version(1).Build(), b("s").Version(2).Build(), one(), one(), ""},
		{"elements", schema.ArrayOf(schema.Int8Schema).Build(), schema.ArrayOf(schema.Int16Schema).Build(), func(*schema.Schema) schema.Value { return schema.ArrayValue([]schema.Value{i8(1)}) },
			func(*schema.Schema) schema.Value { return schema.ArrayValue([]schema.Value{schema.Int16Value(1)}) }, ""},
		{"map values", schema.MapOf(schema.StringSchema, schema.Int8Schema).Build(), schema.MapOf(schema.StringSchema, schema.Float32Schema).Build(),
			func(*schema.Schema) schema.Value {
				return schema.MapValue([]schema.Entry{{Key: str("k"), Value: i8(1)}})
			},
			func(*schema.Schema) schema.Value {
				return schema.MapValue([]schema.Entry{{Key: str("k"), Value: schema.Float32Value(1)}})
			}, ""},
		{"a date stays one", schema.DateOf().Build(), schema.DateOf().Optional().Build(), func(*schema.Schema) schema.Value { return schema.DateValue(5) }, func(*schema.Schema) schema.Value { return schema.DateValue(5) }, ""},
	} {
		p, err := schema.NewProjection(c.source, c.target)
		if err != nil || c.err != "" {
			if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		got, err := p.Apply(c.in(c.source))
		if want := c.want(c.target); err != nil || !schema.EqualValues(got, want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

func TestProjectionOntoACopyChangesNothing(t *testing.T) {
	schematest.Rounds(t, 300, func(t *testing.T, r *rand.Rand) {
		s := schematest.Schema(r, 3)
		p, err := schema.NewProjection(s, schematest.Copy(s))
		if err != nil {
			t.Skip()
		}
		v := schematest.Value(r, s)
		got, err := p.Apply(v)
		if err != nil || !schema.EqualValues(got, v) {
			t.Errorf("%s: %v", s, err)
		}
	})
}

// TestProjectionGivesValuesOfItsTarget changes a schema a little and projects onto it.
func TestProjectionGivesValuesOfItsTarget(t *testing.T) {
	projected := 0
	schematest.Rounds(t, 500, func(t *testing.T, r *rand.Rand) {
		b := schema.NewStruct("s")
		for i := range 6 {
			b.Field(string(rune('a'+i)), schematest.Schema(r, 2))
		}
		source := b.Build()
		c := schema.NewStruct("s").Version(7)
		for _, f := range source.Fields() {
			switch k := f.Schema.Kind(); {
			case r.IntN(4) == 0: // left out
			case k >= schema.Int8 && k < schema.Float64 && f.Schema.Name() == "" && len(f.Schema.Params()) == 0:
				wider := k + 1 + schema.Kind(r.IntN(int(schema.Float64-k)))
				c.Field(f.Name, schema.New(wider).SetOptional(f.Schema.Optional()).Build())
			default:
				c.Field(f.Name, f.Schema)
			}
		}
		c.Field("new", schema.OptionalInt8)
		target := c.Build()
		p, err := schema.NewProjection(source, target)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		got, err := p.Apply(schematest.Value(r, source))
		if err != nil {
			return // a null of the root
		}
		projected++
		if err := schema.Validate(target, got); err != nil {
			t.Error(err)
		}
	})
	if projected == 0 {
		t.Error("nothing was projected")
	}
}
