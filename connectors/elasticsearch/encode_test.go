package elasticsearch

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"millrace/schema"
)

func str(s string) schema.Value { return schema.StringValue(s) }

func entries(pairs ...schema.Value) schema.Value {
	var es []schema.Entry
	for i := 0; i < len(pairs); i += 2 {
		es = append(es, schema.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return schema.MapValue(es)
}

func one(s *schema.Schema, v schema.Value) (*schema.Schema, schema.Value) {
	st := schema.NewStruct("").Field("f", s).Build()
	return st, schema.StructValue(st, []schema.Value{v})
}

func TestDocuments(t *testing.T) {
	type test struct {
		name, want string
		s          *schema.Schema
		v          schema.Value
	}
	var tests []test
	field := func(name, want string, s *schema.Schema, v schema.Value) {
		st, sv := one(s, v)
		tests = append(tests, test{name, want, st, sv})
	}
	field("a whole number", `{"f":-5}`, schema.Int64Schema, schema.Int64Value(-5))
	field("a boolean", `{"f":true}`, schema.BoolSchema, schema.BoolValue(true))
	field("a text is escaped", `{"f":"a\"\n\u0001é"}`, schema.StringSchema, str("a\"\n\x01é"))
	field("a field's name is escaped too", `{"f":{"a\"b":1}}`, schema.NewStruct("").Field(`a"b`, schema.Int8Schema).Build(),
		schema.StructValue(schema.NewStruct("").Field(`a"b`, schema.Int8Schema).Build(), []schema.Value{schema.Int8Value(1)}))
	field("bytes are base64", `{"f":"AP8="}`, schema.BytesSchema, schema.BytesValue([]byte{0, 255}))
	field("a decimal keeps its digits", `{"f":12345678901234567890.10}`, schema.DecimalOf(2).Build(), mustDecimal("12345678901234567890.10"))
	field("a date is milliseconds", `{"f":86400000}`, schema.DateOf().Build(), schema.DateValue(1))
	field("a time is milliseconds", `{"f":1000}`, schema.TimeOf().Build(), schema.TimeValue(1000))
	field("a timestamp is milliseconds", `{"f":1700000000000}`, schema.TimestampOf().Build(), schema.TimestampValue(1_700_000_000_000))
	field("NaN is a text", `{"f":"NaN"}`, schema.Float64Schema, schema.Float64Value(math.NaN()))
	field("a float32's infinity is a text", `{"f":"-Infinity"}`, schema.Float32Schema, schema.Float32Value(float32(math.Inf(-1))))
	field("an optional null", `{"f":null}`, schema.OptionalInt64, schema.Value{})
	field("null with a default is the default", `{"f":7}`, schema.New(schema.Int64).Default(schema.Int64Value(7)).Build(), schema.Value{})
	field("an optional null with a default is the default", `{"f":7}`, schema.New(schema.Int64).Optional().Default(schema.Int64Value(7)).Build(), schema.Value{})
	field("an array", `{"f":[1,null]}`, schema.ArrayOf(schema.OptionalInt32).Build(), schema.ArrayValue([]schema.Value{schema.Int32Value(1), {}}))
	field("a map with texts for keys is an object", `{"f":{"a":1}}`, schema.MapOf(schema.StringSchema, schema.Int32Schema).Build(), entries(str("a"), schema.Int32Value(1)))
	field("another map is a list of pairs", `{"f":[{"key":5,"value":"x"}]}`, schema.MapOf(schema.Int32Schema, schema.StringSchema).Build(), entries(schema.Int32Value(5), str("x")))
	tests = append(tests,
		test{"a map without a schema", `{"a":1,"b":{"c":[true,null]},"7":"x","true":2}`, nil,
			entries(str("a"), schema.Int64Value(1), str("b"), entries(str("c"), schema.ArrayValue([]schema.Value{schema.BoolValue(true), {}})),
				schema.Int32Value(7), str("x"), schema.BoolValue(true), schema.Int8Value(2))},
		test{"a date without a schema", `{"a":86400000,"b":1.50}`, nil, entries(str("a"), schema.DateValue(1), str("b"), schema.DecimalInt64(150, 2))},
		test{"a struct within a map without a schema", `{"a":{"text":"x","n":null}}`, nil, entries(str("a"), schema.StructValue(docSchema, []schema.Value{str("x"), {}}))},
		test{"an empty map", `{}`, nil, entries()},
		test{"a struct without fields", `{}`, schema.NewStruct("").Build(), schema.StructValue(schema.NewStruct("").Build(), nil)},
	)
	e := encoder{compact: true}
	for _, c := range tests {
		for range 2 { // compiled, and from the cache
			got, err := e.document(nil, c.s, c.v)
			if err != nil || string(got) != c.want || !json.Valid(got) {
				t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
			}
		}
	}
	for name, bad := range map[string]struct {
		s    *schema.Schema
		v    schema.Value
		want string
	}{
		"a text":                 {schema.StringSchema, str("x"), "STRING"},
		"a list":                 {nil, schema.ArrayValue(nil), "ARRAY"},
		"a map with number keys": {schema.MapOf(schema.Int32Schema, schema.Int32Schema).Build(), entries(), "no"},
	} {
		if _, err := e.document(nil, bad.s, bad.v); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s, v := one(schema.Int64Schema, schema.Value{})
	if _, err := e.document(nil, s, v); err == nil || !strings.Contains(err.Error(), `field "f": null under the required schema INT64`) {
		t.Errorf("required null: %v", err)
	}
	loose := encoder{compact: false}
	s, v = one(schema.MapOf(schema.StringSchema, schema.Int32Schema).Build(), entries(str("a"), schema.Int32Value(1)))
	if got, err := loose.document(nil, s, v); string(got) != `{"f":[{"key":"a","value":1}]}` || err != nil {
		t.Errorf("compact.map.entries=false: %s %v", got, err)
	}
}

func mustDecimal(text string) schema.Value {
	v, err := schema.ParseDecimal(text)
	if err != nil {
		panic(err)
	}
	return v
}

func TestUnavailableValues(t *testing.T) {
	const stand = "__debezium_unavailable_value"
	s := schema.NewStruct("").Field("id", schema.Int64Schema).Field("a", schema.OptionalString).Field("b", schema.OptionalBytes).
		Field("c", schema.ArrayOf(schema.StringSchema).Optional().Build()).Field("z", schema.OptionalString).Build()
	v := schema.StructValue(s, []schema.Value{schema.Int64Value(1), str(stand), schema.BytesValue([]byte(stand)), schema.ArrayValue([]schema.Value{str(stand)}), {}})
	m := entries(str("id"), schema.Int64Value(1), str("a"), str(stand), str("z"), schema.Value{})
	for _, c := range []struct {
		name    string
		partial bool
		s       *schema.Schema
		v       schema.Value
		want    string
	}{
		{"an upsert leaves them out", true, s, v, `{"id":1,"z":null}`},
		{"of maps, too", true, nil, m, `{"id":1,"z":null}`},
		{"an insert has what came", false, nil, m, `{"id":1,"a":"` + stand + `","z":null}`},
	} {
		e := encoder{compact: true, partial: c.partial, leave: stand}
		if got, err := e.document(nil, c.s, c.v); string(got) != c.want || err != nil {
			t.Errorf("%s: got %s, %v", c.name, got, err)
		}
	}
}

// A mapping has an end; what is a part of itself is mapped by the server as it comes.
func TestMappingOfARecursiveStruct(t *testing.T) {
	b := schema.NewStruct("node")
	s := b.Field("v", schema.Int32Schema).Field("kids", schema.ArrayOf(b.Self(false)).Build()).Build()
	const want = `{"properties":{"v":{"type":"integer"},"kids":{"type":"object","dynamic":true}}}`
	if got := string(appendMapping(nil, s, true)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMapping(t *testing.T) {
	s := schema.NewStruct("all").
		Field("i8", schema.Int8Schema).Field("i16", schema.Int16Schema).Field("i32", schema.Int32Schema).Field("i64", schema.OptionalInt64).
		Field("f32", schema.Float32Schema).Field("f64", schema.Float64Schema).Field("b", schema.BoolSchema).
		Field("s", schema.New(schema.String).Default(str("x")).Build()).Field("y", schema.BytesSchema).
		Field("date", schema.DateOf().Default(schema.DateValue(2)).Build()).Field("time", schema.TimeOf().Build()).Field("ts", schema.TimestampOf().Build()).
		Field("dec", schema.DecimalOf(2).Build()).Field("def", schema.New(schema.Int32).Default(schema.Int32Value(5)).Build()).
		Field("arr", schema.ArrayOf(schema.Int64Schema).Build()).
		Field("obj", schema.MapOf(schema.StringSchema, schema.Int32Schema).Build()).
		Field("map", schema.MapOf(schema.Int32Schema, schema.StringSchema).Build()).
		Field("in", docSchema).Build()
	got := appendMapping(nil, s, true)
	var tree any
	if err := json.Unmarshal(got, &tree); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	pretty, _ := json.MarshalIndent(tree, "", " ")
	pretty = append(pretty, '\n')
	const path = "testdata/mapping.json"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, pretty, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(pretty) {
		t.Errorf("the mapping is\n%s", pretty)
	}
}

func TestIndexNames(t *testing.T) {
	for topic, want := range map[string]string{
		"shop.public.Orders": "shop.public.orders", "_internal": "internal", "-x": "x", ".": "dot", "..": "dotdot", "a_b-c.d": "a_b-c.d",
		strings.Repeat("x", 300): strings.Repeat("x", 255), strings.Repeat("é", 200): strings.Repeat("é", 127),
		"_": "", "__x": "", "a b": "", "a,b": "", "a*": "", "a/b": "", "+x": "", "": "", "a/_delete_by_query?q=*": "",
	} {
		got, err := indexName(topic)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%.40q: got %q, %v", topic, got, err)
		}
	}
}

func TestIDs(t *testing.T) {
	pair := schema.NewStruct("").Field("a", schema.Int32Schema).Field("b", schema.Int32Schema).Build()
	single := schema.NewStruct("").Field("id", schema.Int32Schema).Build()
	for _, c := range []struct {
		name, want string
		key        schema.Value
	}{
		{"a text", "x y", str("x y")},
		{"a number", "-7", schema.Int16Value(-7)},
		{"a struct of one field", "7", schema.StructValue(single, []schema.Value{schema.Int32Value(7)})},
		{"a map of one entry", "7", entries(str("id"), schema.Int64Value(7))},
		{"a text of 512 bytes", strings.Repeat("x", 512), str(strings.Repeat("x", 512))},
		{"a longer one", "", str(strings.Repeat("x", 513))},
		{"an empty text", "", str("")},
		{"null", "", schema.Value{}},
		{"a struct of two fields", "", schema.StructValue(pair, []schema.Value{schema.Int32Value(7), schema.Int32Value(8)})},
		{"a boolean", "", schema.BoolValue(true)},
		{"a struct of a null", "", entries(str("id"), schema.Value{})},
	} {
		got, err := documentID(c.key)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
}

// changeSchema has 8 columns, as the figures' rows have.
var changeSchema = schema.NewStruct("row").Field("id", schema.Int64Schema).Field("customer", schema.OptionalString).Field("total", schema.DecimalOf(2).Optional().Build()).
	Field("paid", schema.OptionalBool).Field("created", schema.OptionalInt64).Field("weight", schema.OptionalFloat64).Field("note", schema.OptionalString).
	Field("state", schema.OptionalString).Build()

func change(i int64) schema.Record {
	v := schema.StructValue(changeSchema, []schema.Value{schema.Int64Value(i), str("customer number 4711"), schema.DecimalInt64(123450+i, 2),
		schema.BoolValue(true), schema.Int64Value(1_700_000_000_000_000 + i), schema.Float64Value(1.25), str("a note of some forty letters, as notes are"), {}})
	return at(schema.Record{KeySchema: schema.Int64Schema, Key: schema.Int64Value(i), ValueSchema: changeSchema, Value: v}, 0, i)
}

// BenchmarkBulkBody makes the lines of a bulk: action, id, version and document.
func BenchmarkBulkBody(b *testing.B) {
	a := actor{set: set{versions: true}, enc: encoder{compact: true}}
	r := change(1)
	var body []byte
	b.ReportAllocs()
	for b.Loop() {
		ts := a.topic(r.Topic)
		act, err := a.action(&r, ts)
		if err != nil {
			b.Fatal(err)
		}
		if body, err = a.append(body[:0], act, ts.index, &r); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(body)))
}
