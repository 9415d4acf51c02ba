package transforms_test

import (
	"math"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
	"millrace/transforms/smttest"
)

// newTransform makes the transform of that class, less the package, from "key=value" lines.
func newTransform(t testing.TB, class, config string) transforms.Transform {
	t.Helper()
	table, err := plugin.NewTable(transforms.All()...)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := table.Find(smt + class)
	if !ok {
		t.Fatalf("no transform %s", class)
	}
	v, errs := p.Config.Parse(settings(config))
	if errs != nil {
		t.Fatal(errs)
	}
	tr, err := p.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func row() (*schema.Schema, schema.Value) {
	s := schema.NewStruct("row").Version(3).Field("id", schema.Int32Schema).Field("name", schema.New(schema.String).Optional().Default(schema.StringValue("anon")).Build()).
		Field("x", schema.OptionalInt64).Optional().Build()
	return s, schema.StructValue(s, []schema.Value{schema.Int32Value(1), {}, schema.Int64Value(7)})
}

// TestTombstonesPass is transforms/2, for the transforms that keep a null.
func TestTombstonesPass(t *testing.T) {
	s, _ := row()
	key := schema.MapValue([]schema.Entry{{Key: schema.StringValue("id"), Value: schema.Int64Value(1)}})
	headers := []schema.Header{{Key: "h", Value: schema.StringValue("v")}}
	for _, c := range []struct{ class, config string }{
		{"InsertField$Value", "static.field=a\nstatic.value=b"}, {"ReplaceField$Value", "exclude=x"}, {"MaskField$Value", "fields=x"}, {"ExtractField$Value", "field=x"},
		{"Cast$Value", "spec=x:int32"}, {"Flatten$Value", ""}, {"TimestampConverter$Value", "field=x\ntarget.type=Date"},
	} {
		for _, valueSchema := range []*schema.Schema{nil, s} {
			r := schema.Record{Topic: "t", Partition: 2, Timestamp: 5, Key: key, ValueSchema: valueSchema, Headers: headers}
			out, keep, err := newTransform(t, c.class, c.config).Apply(r)
			if err != nil || !keep || !out.Value.IsNull() {
				t.Errorf("%s: %v, kept %v, %v", c.class, out.Value.Kind(), keep, err)
			}
			if out.Topic != "t" || out.Partition != 2 || out.Timestamp != 5 || !schema.EqualValues(out.Key, key) || len(out.Headers) != 1 {
				t.Errorf("%s: the rest of the record was changed", c.class)
			}
		}
	}
	for class, config := range map[string]string{"ValueToKey": "fields=id", "HeaderFrom$Value": "fields=id\nheaders=h\noperation=copy"} {
		for _, valueSchema := range []*schema.Schema{nil, s} {
			_, _, err := newTransform(t, class, config).Apply(schema.Record{ValueSchema: valueSchema})
			if _, ok := err.(*schema.DataError); !ok {
				t.Errorf("%s on a tombstone: %v, want a data error", class, err)
			}
		}
	}
	if out, _, err := newTransform(t, "SetSchemaMetadata$Value", "schema.name=n").Apply(schema.Record{}); err != nil || !out.Value.IsNull() || out.ValueSchema != nil {
		t.Errorf("SetSchemaMetadata on a tombstone: %v", err)
	}
	if out, _, err := newTransform(t, "HoistField$Value", "field=v").Apply(schema.Record{}); err != nil || len(out.Value.Entries()) != 1 {
		t.Errorf("HoistField on a tombstone: %v", err)
	}
}

// TestRegexRouter is transforms/4 as far as the transform goes.
func TestRegexRouter(t *testing.T) {
	for _, c := range []struct{ regex, replacement, in, want string }{
		{"ord(.*)", "x-$1", "orders", "x-ers"},
		{"rder", "x", "orders", "orders"},
		{"(?<db>[^.]+)\\.(?<table>.+)", "${table}.${db}", "a.b.c", "b.c.a"},
		{"(?=ord)(.*)", "y-$1", "orders", "y-orders"}, // not in RE2
	} {
		tr := newTransform(t, "RegexRouter", "regex="+c.regex+"\nreplacement="+c.replacement)
		for range 2 { // the second time from memory
			out, keep, err := tr.Apply(schema.Record{Topic: c.in})
			if err != nil || !keep || out.Topic != c.want {
				t.Errorf("%s on %s: %q, %v", c.regex, c.in, out.Topic, err)
			}
		}
	}
}

// TestNullsAndDefaultsInTransforms has replace.null.with.default both ways.
func TestNullsAndDefaultsInTransforms(t *testing.T) {
	s, v := row()
	for _, c := range []struct {
		class, config string
		get           func(schema.Record) schema.Value
	}{
		{"InsertField$Value", "static.field=a\nstatic.value=b", func(r schema.Record) schema.Value { return r.Value.GetRaw("name") }},
		{"ReplaceField$Value", "exclude=x", func(r schema.Record) schema.Value { return r.Value.GetRaw("name") }},
		{"MaskField$Value", "fields=x", func(r schema.Record) schema.Value { return r.Value.GetRaw("name") }},
		{"ExtractField$Value", "field=name", func(r schema.Record) schema.Value { return r.Value }},
		{"ValueToKey", "fields=name", func(r schema.Record) schema.Value { return r.Key.GetRaw("name") }},
	} {
		for setting, want := range map[string]string{"true": "anon", "false": ""} {
			out, _, err := newTransform(t, c.class, c.config+"\nreplace.null.with.default="+setting).Apply(schema.Record{ValueSchema: s, Value: v})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.get(out); got.Str() != want || got.IsNull() != (want == "") {
				t.Errorf("%s with %s: %v %q, want %q", c.class, setting, got.Kind(), got.Str(), want)
			}
		}
	}
	if !v.GetRaw("name").IsNull() {
		t.Error("the record's own value was changed")
	}
}

// TestInsertFieldInASink has the keys that only a sink can answer, and the marks
// of required and optional fields.
func TestInsertFieldInASink(t *testing.T) {
	s, v := row()
	tr := newTransform(t, "InsertField$Value", "topic.field=t!\npartition.field=p?\noffset.field=o\ntimestamp.field=ts!")
	out, _, err := tr.Apply(schema.Record{Topic: "orders", Partition: 4, Timestamp: 99, ValueSchema: s, Value: v, Origin: &schema.Origin{Topic: "was", Offset: 12}})
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(out.ValueSchema, out.Value); err != nil {
		t.Error(err)
	}
	if out.Value.Get("t").Str() != "orders" || out.Value.Get("p").Int() != 4 || out.Value.Get("o").Int() != 12 || out.Value.Get("ts").Int() != 99 {
		t.Errorf("%v", out.Value.Fields())
	}
	for name, optional := range map[string]bool{"t": false, "p": true, "o": true, "ts": false} {
		if f := out.ValueSchema.Field(name); f == nil || f.Optional() != optional {
			t.Errorf("field %s", name)
		}
	}
	if n, _ := out.ValueSchema.Version(); n != 3 || out.ValueSchema.Name() != "row" || out.ValueSchema.Optional() {
		t.Error("the new schema keeps name and version, and is not optional")
	}
	m := schema.MapValue([]schema.Entry{{Key: schema.StringValue("t"), Value: schema.StringValue("old")}})
	out, _, err = tr.Apply(schema.Record{Topic: "orders", Partition: schema.NoPartition, Timestamp: schema.NoTimestamp, Value: m, Origin: &schema.Origin{Offset: 12}})
	if err != nil || len(out.Value.Entries()) != 2 {
		t.Errorf("without schema: %d entries, %v", len(out.Value.Entries()), err)
	}
	if got, _ := out.Value.Lookup("t"); got.Str() != "orders" {
		t.Errorf("without schema an old field of the name is %q", got.Str())
	}
}

func TestFieldPaths(t *testing.T) {
	js := smttest.Converter(t, "schemas.enable", "false")
	_, v, err := js.Decode(nil, []byte("{\"a\":{\"b.c\":1,\"d\":{\"e\":2}},\"a.b\":3,\"q`x\":{\"y\":4},\"\":{\"\":5},\"w`.z\":6}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, version string
		want          int64 // 0: null
	}{
		{"a.b", "V1", 3}, {"a.b", "v1", 3}, {"a.d.e", "V1", 0}, {"a.d.e", "V2", 2}, {"a.d.e", "v2", 2}, {"`a.b`", "V2", 3}, {"a.`b.c`", "V2", 1}, {"q`x.y", "V2", 4},
		{"`q`x`.y", "V2", 4}, {".", "V2", 5}, {"a.nope.x", "V2", 0}, {"`w\\`.z`", "V2", 6},
	} {
		out, _, err := newTransform(t, "ExtractField$Value", "field="+c.path+"\nfield.syntax.version="+c.version).Apply(schema.Record{Value: v})
		if err != nil || out.Value.Int() != c.want || out.Value.IsNull() != (c.want == 0) {
			t.Errorf("%s (%s): %v %d, want %d, %v", c.path, c.version, out.Value.Kind(), out.Value.Int(), c.want, err)
		}
	}
}

func TestTransformsLeaveTheirInputAlone(t *testing.T) {
	s, v := row()
	js, plain := smttest.Converter(t), smttest.Converter(t, "schemas.enable", "false")
	_, m, err := plain.Decode(nil, []byte(`{"id":1,"name":"a","x":2}`))
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := js.Encode(nil, nil, s, v)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ class, config string }{
		{"InsertField$Value", "static.field=a\nstatic.value=b"}, {"ReplaceField$Value", "exclude=x\nrenames=id:key"}, {"MaskField$Value", "fields=x,id"},
		{"ExtractField$Value", "field=x"}, {"ValueToKey", "fields=id,x"}, {"Cast$Value", "spec=x:string"}, {"Flatten$Value", ""}, {"HoistField$Value", "field=f"},
		{"HeaderFrom$Value", "fields=x\nheaders=h\noperation=move"},
	} {
		tr := newTransform(t, c.class, c.config)
		for _, r := range []schema.Record{{ValueSchema: s, Value: v}, {Value: m}} {
			if _, _, err := tr.Apply(r); err != nil {
				t.Errorf("%s: %v", c.class, err)
			}
		}
		after, _, _ := js.Encode(nil, nil, s, v)
		afterMap, _, _ := plain.Encode(nil, nil, nil, m)
		if string(before) != string(after) || string(afterMap) != `{"id":1,"name":"a","x":2}` {
			t.Errorf("%s changed its input to %s, %s", c.class, after, afterMap)
		}
	}
}

func BenchmarkTransforms(b *testing.B) {
	s, v := row()
	for _, c := range []struct{ class, config string }{
		{"RegexRouter", "regex=ord(.*)\nreplacement=x-$1"}, {"InsertField$Value", "static.field=a\nstatic.value=b"}, {"ReplaceField$Value", "exclude=x"},
		{"MaskField$Value", "fields=x"}, {"ExtractField$Value", "field=id"}, {"ValueToKey", "fields=id"},
		{"Cast$Value", "spec=x:string"}, {"Flatten$Value", ""}, {"HoistField$Value", "field=f"}, {"HeaderFrom$Value", "fields=x\nheaders=h\noperation=move"},
		{"SetSchemaMetadata$Value", "schema.name=n"}, {"InsertHeader", "header=h\nvalue.literal=1"}, {"DropHeaders", "headers=h"}, {"TimestampRouter", ""}, {"TimestampConverter$Value", "field=x\ntarget.type=string\nformat=yyyy-MM-dd"},
	} {
		b.Run(c.class, func(b *testing.B) {
			tr := newTransform(b, c.class, c.config)
			r := schema.Record{Topic: "orders", Timestamp: 1709210096789, ValueSchema: s, Value: v}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := tr.Apply(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestFlattenKeepsLeavesOfANullStructNull has leaves with defaults below a struct that is null: there was no such leaf that could have
// had its default. Beside it one whose struct is there.
func TestFlattenKeepsLeavesOfANullStructNull(t *testing.T) {
	leaf := schema.New(schema.String).Optional().Default(schema.StringValue("def")).Build()
	deep := schema.NewStruct("").Field("leaf", leaf).Optional().Build()
	inner := schema.NewStruct("").Field("deep", deep).Field("leaf", leaf).Optional().Build()
	s := schema.NewStruct("").Field("none", inner).Field("some", inner).Field("leaf", leaf).Build()
	in := schema.StructValue(s, []schema.Value{{}, schema.StructValue(inner, []schema.Value{{}, {}}), {}})
	out, _, err := newTransform(t, "Flatten$Value", "").Apply(schema.Record{ValueSchema: s, Value: in})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]schema.Value{"none.deep.leaf": {}, "none.leaf": {}, "some.deep.leaf": {}, "some.leaf": schema.StringValue("def"), "leaf": schema.StringValue("def")} {
		if got := out.Value.GetRaw(name); !schema.EqualValues(got, want) || out.ValueSchema.Index(name) < 0 {
			t.Errorf("%s: %v %q, want %v %q", name, got.Kind(), got.Str(), want.Kind(), want.Str())
		}
	}
}

// TestFlatten is transforms/1.
// What has no end cannot be flattened; what has one can, though there are lists of such structs in it.
func TestFlattenOfRecursiveStructs(t *testing.T) {
	b := schema.NewStruct("node")
	node := b.Field("v", schema.Int32Schema).Field("next", b.Self(true)).Build()
	tr := newTransform(t, "Flatten$Value", "")
	v := schema.StructValue(node, []schema.Value{schema.Int32Value(1), {}})
	if _, _, err := tr.Apply(schema.Record{ValueSchema: node, Value: v}); err == nil || !strings.Contains(err.Error(), "STRUCT node, which is a part of itself (at next.next.)") {
		t.Errorf("a node: %v", err)
	}
	of := schema.NewStruct("of").Field("in", schema.NewStruct("list").Field("nodes", schema.ArrayOf(node).Build()).Build()).Build()
	nodes := schema.ArrayValue([]schema.Value{v})
	got, _, err := tr.Apply(schema.Record{ValueSchema: of, Value: schema.StructValue(of, []schema.Value{schema.StructValue(of.Field("in"), []schema.Value{nodes})})})
	if err != nil || !schema.EqualValues(got.Value.Get("in.nodes"), nodes) {
		t.Errorf("a struct with nodes: %v %v", got.ValueSchema, err)
	}
}

func TestFlatten(t *testing.T) {
	js := smttest.Converter(t, "schemas.enable", "false")
	tr := newTransform(t, "Flatten$Value", "")
	for in, want := range map[string]string{
		`{"a":{"d":"dv","b":null,"c":"cv"},"z":1}`: `{"a.d":"dv","a.b":null,"a.c":"cv","z":1}`,
		`{"z":1,"a":{"c":"cv","b":null,"d":"dv"}}`: `{"z":1,"a.c":"cv","a.b":null,"a.d":"dv"}`,
		`{"a":{"b":{"c":[{"d":1}]}},"e":{}}`:       `{"a.b.c":[{"d":1}]}`,
		`{"a.b":1,"a":{"b":2}}`:                    "a.b",
	} {
		_, v, err := js.Decode(nil, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := tr.Apply(schema.Record{Value: v})
		if err != nil {
			if _, data := err.(*schema.DataError); !data || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", in, err)
			}
			continue
		}
		got, _, _ := js.Encode(nil, nil, nil, out.Value)
		if string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	before := schema.NewStruct("b").Field("x", schema.Int32Schema).Field("y", schema.StringSchema).Optional().Build()
	s := schema.NewStruct("s").Field("before", before).Field("id", schema.Int64Schema).Build()
	out, _, err := tr.Apply(schema.Record{ValueSchema: s, Value: schema.StructValue(s, []schema.Value{{}, schema.Int64Value(5)})})
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(out.ValueSchema, out.Value); err != nil {
		t.Error(err)
	}
	for name, optional := range map[string]bool{"before.x": true, "before.y": true, "id": false} {
		if f := out.ValueSchema.Field(name); f == nil || f.Optional() != optional || out.Value.Get(name).IsNull() != optional {
			t.Errorf("field %s", name)
		}
	}
}

// TestCast is transforms/3.
func TestCast(t *testing.T) {
	dec := schema.DecimalInt64(156, 2)
	for _, c := range []struct {
		name string
		v    schema.Value
		to   string
		want schema.Value
		err  bool
	}{
		{"a decimal to text", dec, "string", schema.StringValue("1.56"), false},
		{"a decimal to a double", dec, "float64", schema.Float64Value(1.56), false},
		{"a decimal to an int", dec, "int32", schema.Int32Value(1), false},
		{"a date to an int", schema.DateValue(19787), "int32", schema.Int32Value(19787), false},
		{"a date to text", schema.DateValue(19787), "string", schema.StringValue("2024-03-05"), false},
		{"a timestamp to a long", schema.TimestampValue(1709634030123), "int64", schema.Int64Value(1709634030123), false},
		{"an int that is too large wraps", schema.Int32Value(300), "int8", schema.Int8Value(44), false},
		{"text that is no whole number", schema.StringValue("12.7"), "int32", schema.Value{}, true},
		{"true", schema.StringValue("true"), "boolean", schema.BoolValue(true), false},
		{"yes", schema.StringValue("yes"), "boolean", schema.BoolValue(false), false},
		{"NaN", schema.Float64Value(math.NaN()), "int64", schema.Int64Value(0), false},
		{"infinity", schema.Float64Value(math.Inf(-1)), "int64", schema.Int64Value(math.MinInt64), false},
		{"a large double to a byte", schema.Float64Value(1e20), "int8", schema.Int8Value(-1), false},
		{"a huge decimal", mustDecimal("1E+1000000000"), "int64", schema.Int64Value(0), false},
		{"a tiny decimal", mustDecimal("1E-1000000000"), "int64", schema.Int64Value(0), false},
		{"a huge decimal to a double", mustDecimal("1E+1000000000"), "float64", schema.Float64Value(math.Inf(1)), false},
		{"null", schema.Value{}, "int8", schema.Value{}, false},
		{"text with a suffix", schema.StringValue(" 1.5f "), "float32", schema.Float32Value(1.5), false},
		{"hexadecimal text", schema.StringValue("0x1p3"), "float64", schema.Value{}, true},
		{"text with underscores", schema.StringValue("1_000"), "int32", schema.Value{}, true},
		{"bytes to text", schema.BytesValue([]byte{0, 255}), "string", schema.StringValue("AP8="), false},
		{"bytes to a number", schema.BytesValue([]byte{0, 255}), "int8", schema.Value{}, true},
	} {
		tr := newTransform(t, "Cast$Value", "spec=f:"+c.to)
		in := schema.MapValue([]schema.Entry{{Key: schema.StringValue("f"), Value: c.v}})
		out, _, err := tr.Apply(schema.Record{Value: in})
		if err != nil || c.err {
			if _, data := err.(*schema.DataError); data != c.err {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if got, _ := out.Value.Lookup("f"); !schema.EqualValues(got, c.want) {
			t.Errorf("%s: %v %s", c.name, got.Kind(), javatext.AppendValue(nil, got))
		}
	}
}

func mustDecimal(text string) schema.Value {
	v, err := schema.ParseDecimal(text)
	if err != nil {
		panic(err)
	}
	return v
}
