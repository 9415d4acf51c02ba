package converters

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
)

// TestJSONComesBack writes random data of random schemas and reads it again.
func TestJSONComesBack(t *testing.T) {
	came, left := 0, 0
	schematest.Rounds(t, 1500, func(t *testing.T, r *rand.Rand) {
		settings := []string{"replace.null.with.default", "false", "decimal.format", []string{"BASE64", "NUMERIC"}[r.IntN(2)]}
		enc, dec := newConverter(t, JSON, settings...), newConverter(t, JSON, settings...)
		s := schematest.Schema(r, 3)
		for range 3 {
			v := schematest.Value(r, s)
			out, null, err := enc.Encode([]byte("kept:"), nil, s, v)
			if err != nil {
				if hasRequiredDefaultNull(s, v) {
					left++
					continue // null where only the default makes it legal
				}
				t.Errorf("%s: %v", s, err)
				return
			}
			if null || !bytes.HasPrefix(out, []byte("kept:")) {
				t.Errorf("null %v, %s", null, out)
				return
			}
			out = out[5:]
			if !json.Valid(out) {
				t.Errorf("no JSON: %s", out)
			}
			s2, v2, err := dec.Decode(nil, out)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
				return
			}
			if !schema.Equal(s, s2) || !schema.EqualValues(v, v2) {
				t.Errorf("%s comes back as %s", out, s2)
			}
			if err := schema.Validate(s2, v2); err != nil {
				t.Errorf("decoded to what its schema forbids: %v", err)
			}
			again, _, err := enc.Encode(nil, nil, s2, v2)
			if err != nil || !bytes.Equal(out, again) {
				t.Errorf("written again (%v)\n%s\nfirst\n%s", err, again, out)
			}
			if _, v3, _ := dec.Decode(nil, out); !schema.EqualValues(v2, v3) {
				t.Error("read twice, two values")
			}
			came++
		}
	})
	if came < 2*left {
		t.Errorf("%d values came back, %d have no form in JSON: too many", came, left)
	}
}

// JSON has no words for a schema that is a part of itself. Its data without the schema is JSON like any other.
func TestRecursiveSchemasAsJSON(t *testing.T) {
	list := schema.NewStruct("n.L")
	s := list.Field("v", schema.Int32Schema).Field("kids", schema.ArrayOf(list.Self(true)).Default(schema.ArrayValue([]schema.Value{{}})).Build()).Field("next", list.Self(true)).Build()
	last := schema.StructValue(s.Field("next"), []schema.Value{schema.Int32Value(2), schema.ArrayValue(nil), {}})
	v := schema.StructValue(s, []schema.Value{schema.Int32Value(1), {}, schema.StructValue(s.Field("next"), []schema.Value{schema.Int32Value(3), {}, last})})
	out, _, err := newConverter(t, JSON, "schemas.enable", "false").Encode(nil, nil, s, v)
	if want := `{"v":1,"kids":[null],"next":{"v":3,"kids":[null],"next":{"v":2,"kids":[],"next":null}}}`; err != nil || string(out) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
	if _, _, err := newConverter(t, JSON).Encode(nil, nil, s, v); err == nil || !strings.Contains(err.Error(), "schemas.enable=false") {
		t.Errorf("with its schema: %v", err)
	}
	schematest.Rounds(t, 200, func(t *testing.T, r *rand.Rand) {
		s := schematest.Recursive(r)
		v := schematest.Value(r, s)
		c := newConverter(t, JSON, "schemas.enable", "false", "replace.null.with.default", "false")
		if out, _, err := c.Encode(nil, nil, s, v); err == nil && !json.Valid(out) || err != nil && !strings.Contains(err.Error(), "null value for field that is required") {
			t.Errorf("%s: %s, %v", s, out, err)
		}
	})
}

// hasRequiredDefaultNull reports a null under a required schema with a default,
// which has no form in JSON unless the default replaces it.
func hasRequiredDefaultNull(s *schema.Schema, v schema.Value) bool {
	if defaultsLack(s) {
		return true
	}
	if v.IsNull() {
		return !s.Optional()
	}
	for i, f := range v.Fields() {
		if hasRequiredDefaultNull(s.Fields()[i].Schema, f) {
			return true
		}
	}
	for _, e := range v.Elems() {
		if hasRequiredDefaultNull(s.Elem(), e) {
			return true
		}
	}
	for _, e := range v.Entries() {
		if hasRequiredDefaultNull(s.Elem(), e.Value) {
			return true
		}
	}
	return false
}

// defaultsLack reports a default that has such a null itself.
func defaultsLack(s *schema.Schema) bool {
	if s == nil {
		return false
	}
	if def, ok := s.Default(); ok && !def.IsNull() {
		plain := schema.From(s).Default(schema.Value{})
		for _, f := range s.Fields() {
			plain.Field(f.Name, f.Schema)
		}
		bare := plain.Build()
		if def.Kind() == schema.Struct {
			def = schema.StructValue(bare, def.Fields())
		}
		if hasRequiredDefaultNull(bare, def) {
			return true
		}
	}
	for _, f := range s.Fields() {
		if defaultsLack(f.Schema) {
			return true
		}
	}
	return defaultsLack(s.Elem()) || defaultsLack(s.Key())
}

// TestSchemalessJSONIsEncodingJSONs compares what is written with encoding/json.
func TestSchemalessJSONIsEncodingJSONs(t *testing.T) {
	schematest.Rounds(t, 1500, func(t *testing.T, r *rand.Rand) {
		c := newConverter(t, JSON, "schemas.enable", "false")
		v := schematest.Schemaless(r, 4)
		out, null, err := c.Encode(nil, nil, nil, v)
		if v.IsNull() {
			if !null || len(out) > 0 {
				t.Errorf("null is written as %q", out)
			}
			return
		}
		if err != nil || null {
			t.Errorf("%v, null %v", err, null)
			return
		}
		var theirs any
		if err := json.Unmarshal(out, &theirs); err != nil {
			t.Errorf("%v: %s", err, out)
			return
		}
		s, back, err := c.Decode(nil, out)
		if err != nil || s != nil || !schema.EqualValues(v, back) {
			t.Errorf("%s comes back otherwise, %v", out, err)
		}
		if ours := plain(back); !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%v, encoding/json reads %v", ours, theirs)
		}
	})
}

// plain is schemaless data as encoding/json has it.
func plain(v schema.Value) any {
	switch v.Kind() {
	case schema.Bool:
		return v.Bool()
	case schema.Int64:
		return float64(v.Int())
	case schema.Float64:
		return v.Float()
	case schema.Decimal:
		f, err := parseDecimalFloat(v)
		if err != nil {
			return nil
		}
		return f
	case schema.String:
		return v.Str()
	case schema.Array:
		out := []any{}
		for _, e := range v.Elems() {
			out = append(out, plain(e))
		}
		return out
	case schema.Map:
		out := map[string]any{}
		for _, e := range v.Entries() {
			out[e.Key.Str()] = plain(e.Value)
		}
		return out
	}
	return nil
}

func parseDecimalFloat(v schema.Value) (float64, error) {
	var f float64
	err := json.Unmarshal(v.AppendDecimal(nil), &f)
	return f, err
}

// TestNullsAndDefaults is converters/1: a null in an optional field with a default.
func TestNullsAndDefaults(t *testing.T) {
	name := schema.New(schema.String).Optional().Default(schema.StringValue("anon")).Build()
	inner := schema.NewStruct("in").Field("name", name).Optional().Build()
	list := schema.ArrayOf(inner).Build()
	s := schema.NewStruct("s").Field("name", name).Field("in", inner).Field("list", list).Build()
	nulls := schema.StructValue(inner, make([]schema.Value, 1))
	v := schema.StructValue(s, []schema.Value{{}, nulls, schema.ArrayValue([]schema.Value{nulls, nulls})})
	for _, c := range []struct{ replace, schemas, want, root string }{
		{"true", "false", `{"name":"anon","in":{"name":"anon"},"list":[{"name":"anon"},{"name":"anon"}]}`, `"anon"`},
		{"false", "false", `{"name":null,"in":{"name":null},"list":[{"name":null},{"name":null}]}`, `null`},
		{"true", "true", `{"name":"anon","in":{"name":"anon"},"list":[{"name":"anon"},{"name":"anon"}]}`, `"anon"`},
		{"false", "true", `{"name":null,"in":{"name":null},"list":[{"name":null},{"name":null}]}`, `null`},
	} {
		conv := newConverter(t, JSON, "replace.null.with.default", c.replace, "schemas.enable", c.schemas)
		for _, p := range []struct {
			s    *schema.Schema
			v    schema.Value
			want string
		}{{s, v, c.want}, {name, schema.Value{}, c.root}} {
			out, null, err := conv.Encode(nil, nil, p.s, p.v)
			if c.schemas == "true" {
				p.want = `"payload":` + p.want + "}"
			}
			if err != nil || null || !strings.HasSuffix(string(out), p.want) {
				t.Errorf("replace %s, schemas %s: %s (%v), want %s", c.replace, c.schemas, out, err, p.want)
			}
			if c.schemas == "false" {
				continue
			}
			s2, v2, err := conv.Decode(nil, out)
			if err != nil {
				t.Fatal(err)
			}
			again, _, err := conv.Encode(nil, nil, s2, v2)
			if err != nil || !bytes.Equal(out, again) {
				t.Errorf("replace %s: back and forth gives %s (%v)", c.replace, again, err)
			}
			if p.s == s {
				raw := v2.GetRaw("name")
				if raw.IsNull() != (c.replace == "false") {
					t.Errorf("replace %s: read as %v", c.replace, raw.Kind())
				}
			}
		}
	}
}

// TestLogicalTypesAndNull is converters/2.
func TestLogicalTypesAndNull(t *testing.T) {
	read := func(def, optional, payload string, typ, name, params string, settings ...string) (schema.Value, error) {
		text := `{"schema":{"type":"struct","optional":false,"fields":[{"type":"` + typ + `","name":"org.apache.kafka.connect.data.` + name + `","version":1,` + params + `"optional":` + optional + def + `,"field":"f"}]},"payload":{"f":` + payload + `}}`
		_, v, err := newConverter(t, JSON, settings...).Decode(nil, []byte(text))
		return v.GetRaw("f"), err
	}
	for _, k := range []struct{ typ, name, params, def string }{
		{"bytes", "Decimal", `"parameters":{"scale":"2"},`, `"AJw="`}, {"int32", "Date", "", "5"}, {"int32", "Time", "", "6"}, {"int64", "Timestamp", "", "7"},
	} {
		if v, err := read("", "true", "null", k.typ, k.name, k.params); err != nil || !v.IsNull() {
			t.Errorf("optional %s: %v, %v", k.name, v.Kind(), err)
		}
		if v, err := read(`,"default":`+k.def, "false", "null", k.typ, k.name, k.params); err != nil || v.IsNull() {
			t.Errorf("%s with a default: %v, %v", k.name, v.Kind(), err)
		}
		_, err := read("", "false", "null", k.typ, k.name, k.params)
		var data *schema.DataError
		if !errors.As(err, &data) || data.Path != "f" {
			t.Errorf("required %s: %v, want a data error that names the field", k.name, err)
		}
	}
	for payload, want := range map[string]string{`"AJw="`: "1.56", "1.56": "1.56", "1.560": "1.56", "156e-2": "1.56", "2": "2.00", "-0.01": "-0.01"} {
		v, err := read("", "false", payload, "bytes", "Decimal", `"parameters":{"scale":"2"},`, "decimal.format", "NUMERIC")
		if err != nil || string(v.AppendDecimal(nil)) != want {
			t.Errorf("%s is read as %s, %v", payload, v.AppendDecimal(nil), err)
		}
	}
	for _, payload := range []string{"1.561", `"x"`, `""`, "true", "{}", "1e400000"} {
		if v, err := read("", "false", payload, "bytes", "Decimal", `"parameters":{"scale":"2"},`); err == nil {
			t.Errorf("%s is read as %s", payload, v.AppendDecimal(nil))
		}
	}
}

// TestSpecialFloats is converters/3.
func TestSpecialFloats(t *testing.T) {
	s := schema.NewStruct("s").Field("d", schema.Float64Schema).Field("f", schema.Float32Schema).Build()
	for _, c := range []struct {
		f    float64
		want string
	}{
		{math.NaN(), `{"d":"NaN","f":"NaN"}`}, {math.Inf(1), `{"d":"Infinity","f":"Infinity"}`}, {math.Inf(-1), `{"d":"-Infinity","f":"-Infinity"}`},
		{math.Copysign(0, -1), `{"d":-0.0,"f":-0.0}`}, {4.9e-324, `{"d":4.9E-324,"f":0.0}`}, {1.7976931348623157e308, `{"d":1.7976931348623157E308,"f":"Infinity"}`}, {1e7, `{"d":1.0E7,"f":1.0E7}`}, {100, `{"d":100.0,"f":100.0}`},
	} {
		v := schema.StructValue(s, []schema.Value{schema.Float64Value(c.f), schema.Float32Value(float32(c.f))})
		for _, schemas := range []string{"true", "false"} {
			conv := newConverter(t, JSON, "schemas.enable", schemas)
			out, _, err := conv.Encode(nil, nil, s, v)
			if err != nil || !json.Valid(out) || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, %v", c.f, out, err)
			}
			if schemas == "true" {
				_, back, err := conv.Decode(nil, out)
				if err != nil || !schema.EqualValues(v, back) {
					t.Errorf("%v comes back otherwise, %v", c.f, err)
				}
			}
		}
	}
}

// A zero keeps its sign where it is written as a fraction; -0 is a whole number, and such a one has no negative zero.
func TestNegativeZeros(t *testing.T) {
	for _, kind := range []string{"float", "double"} {
		for text, negative := range map[string]bool{"-0.0": true, "-0e0": true, "-0.00": true, "-0": false, "0.0": false, "0": false} {
			s, v, err := newConverter(t, JSON).Decode(nil, []byte(`{"schema":{"type":"`+kind+`","optional":true,"default":`+text+`},"payload":`+text+`}`))
			if err != nil {
				t.Fatal(err)
			}
			def, _ := s.Default()
			if math.Signbit(v.Float()) != negative || math.Signbit(def.Float()) != negative || v.Float() != 0 {
				t.Errorf("%s %s is read as %v, as a default %v", kind, text, v.Float(), def.Float())
			}
		}
	}
	plain := newConverter(t, JSON, "schemas.enable", "false")
	for text, want := range map[string]string{"-0.0": "-0.0", "-0": "0", "[-0.0,-0]": "[-0.0,0]"} {
		_, v, err := plain.Decode(nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if out, _, err := plain.Encode(nil, nil, nil, v); err != nil || string(out) != want {
			t.Errorf("%s is written again as %s, %v", text, out, err)
		}
	}
}

func TestStringsAsJacksonWritesThem(t *testing.T) {
	c := newConverter(t, JSON, "schemas.enable", "false")
	for in, want := range map[string]string{
		"":                           `""`,
		"plain text, 17 bytes":       `"plain text, 17 bytes"`,
		"ü, é and 日本":                `"ü, é and 日本"`,
		"😀":                          `"\uD83D\uDE00"`,
		"mixed ü😀\n end":             `"mixed ü\uD83D\uDE00\n end"`,
		"\x00\x01\b\t\n\f\r\x1f\x7f": `"\u0000\u0001\b\t\n\f\r\u001F` + "\x7f" + `"`,
		`a"b\c/d`:                    `"a\"b\\c/d"`,
		"\u2028<>&'":                 "\"\u2028<>&'\"",
		"bad \xff utf8 \xc3":         "\"bad \uFFFD utf8 \uFFFD\"",
	} {
		for pad := range 10 { // the place within a word of eight bytes does not count
			text, rest := strings.Repeat("x", pad)+in, strings.Repeat("x", pad)
			got, _, err := c.Encode(nil, nil, nil, schema.StringValue(text))
			if w := `"` + rest + want[1:]; err != nil || string(got) != w {
				t.Errorf("%q is written as %s, want %s", text, got, w)
			}
		}
	}
}

func TestEncodeErrorsNameTheField(t *testing.T) {
	in := schema.NewStruct("in").Field("n", schema.Int32Schema).Build()
	other := schema.NewStruct("in").Field("n", schema.Int64Schema).Build()
	s := schema.NewStruct("s").Field("list", schema.ArrayOf(in).Build()).Build()
	wrap := func(v schema.Value) schema.Value {
		return schema.StructValue(s, []schema.Value{schema.ArrayValue([]schema.Value{v})})
	}
	c := newConverter(t, JSON)
	for name, v := range map[string]schema.Value{
		"a required null":         wrap(schema.StructValue(in, make([]schema.Value, 1))),
		"another kind":            wrap(schema.StructValue(in, []schema.Value{schema.StringValue("x")})),
		"a struct of another one": wrap(schema.StructValue(other, []schema.Value{schema.Int64Value(1)})),
	} {
		out, _, err := c.Encode([]byte("before"), nil, s, v)
		var data *schema.DataError
		if !errors.As(err, &data) || !strings.HasPrefix(data.Path, "list[0]") || string(out) != "before" {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	if _, _, err := c.Encode(nil, nil, nil, schema.ArrayValue([]schema.Value{schema.DateValue(1)})); err == nil {
		t.Error("a date without a schema is written")
	}
}

func TestEnvelopes(t *testing.T) {
	const str = `{"type":"string","optional":true}`
	for _, c := range []struct {
		name, in string
		want     string // the text, or part of the error
		err      bool
	}{
		{"in order", `{"schema":` + str + `,"payload":"x"}`, "x", false},
		{"payload first", `{"payload":"x","schema":` + str + `}`, "x", false},
		{"white space", " {\n\"schema\" : " + str + " ,\t\"payload\" : \"x\"\r\n} ", "x", false},
		{"no schema", `{"schema":null,"payload":"x"}`, "x", false},
		{"escaped names", `{"\u0073chema":` + str + `,"payload":"x"}`, "x", false},
		{"no payload", `{"schema":` + str + `}`, `requires "schema" and "payload" fields`, true},
		{"plain data", `{"id":1}`, `requires "schema" and "payload" fields`, true},
		{"one more", `{"schema":` + str + `,"payload":"x","more":1}`, `may not contain additional fields`, true},
		{"twice", `{"schema":` + str + `,"schema":` + str + `,"payload":"x"}`, `may not contain additional fields`, true},
		{"an array", `[1]`, `requires "schema"`, true},
		{"a number", `1`, `requires "schema"`, true},
		{"nothing", ` `, `requires "schema" and "payload" fields`, true},
		{"no JSON", `{"schema":` + str + `,"payload":x}`, "serialization error", true},
		{"text behind", `{"schema":` + str + `,"payload":"x"} y`, "serialization error", true},
		{"no type", `{"schema":{"optional":true},"payload":"x"}`, "Schema must contain 'type' field", true},
		{"an unknown type", `{"schema":{"type":"text"},"payload":"x"}`, "Unknown schema type: text", true},
		{"an array without items", `{"schema":{"type":"array"},"payload":[]}`, "Array schema did not specify the element type", true},
		{"a map without keys", `{"schema":{"type":"map","values":` + str + `},"payload":{}}`, "Map schema did not specify the key type", true},
		{"a struct without fields", `{"schema":{"type":"struct"},"payload":{}}`, "argument is not an array", true},
		{"a field without a name", `{"schema":{"type":"struct","fields":[` + str + `]},"payload":{}}`, "field name not specified properly", true},
		{"parameters that are no text", `{"schema":{"type":"string","parameters":{"a":1}},"payload":""}`, "must have string values", true},
		{"another kind of value", `{"schema":{"type":"int32"},"payload":"x"}`, "a string under the schema INT32", true},
		{"a number too large", `{"schema":{"type":"int8"},"payload":300}`, "300 is no value of INT8", true},
		{"a fraction", `{"schema":{"type":"int8"},"payload":1.5}`, "1.5 is no value of INT8", true},
		{"a struct that is an array", `{"schema":{"type":"struct","fields":[]},"payload":[]}`, "Structs should be encoded as JSON objects", true},
		{"a decimal without a scale", `{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":""}`, "scale", true},
	} {
		_, v, err := newConverter(t, JSON).Decode(nil, []byte(c.in))
		if c.err != (err != nil) || c.err && !strings.Contains(err.Error(), c.want) || !c.err && v.Str() != c.want {
			t.Errorf("%s: %q, %v; want %s", c.name, v.Str(), err, c.want)
		}
		var data *schema.DataError
		if c.err && err != nil && !errors.As(err, &data) {
			t.Errorf("%s: %T is no data error", c.name, err)
		}
	}
}

func TestSchemaContent(t *testing.T) {
	c := newConverter(t, JSON, "schema.content", `{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false}`)
	s, v, err := c.Decode(nil, []byte(`{"id":5}`))
	if err != nil || v.Get("id").Int() != 5 || s.Field("id") == nil {
		t.Fatalf("%v, %v", v.Kind(), err)
	}
	out, _, err := c.Encode(nil, nil, s, v)
	if want := `{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false},"payload":{"id":5}}`; err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
	if _, errs := JSON.Make(map[string]string{"schema.content": `{"type":"x"}`}, false); len(errs) != 1 || errs[0].Key != "schema.content" {
		t.Errorf("a wrong schema: %v", errs)
	}
	plain := newConverter(t, JSON, "schema.content", `{"type":"int32"}`, "schemas.enable", "false")
	if s, v, err := plain.Decode(nil, []byte("7")); s != nil || v.Int() != 7 || err != nil {
		t.Errorf("without schemas.enable: %v, %v, %v", s, v.Int(), err)
	}
}

func TestSchemasAreInterned(t *testing.T) {
	c := newConverter(t, JSON, "schemas.cache.size", "2")
	text := func(name string) []byte {
		return []byte(`{"schema":{"type":"struct","name":"` + name + `","fields":[]},"payload":{}}`)
	}
	get := func(name string) *schema.Schema {
		s, _, err := c.Decode(nil, text(name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := get("a")
	b := get("b")
	for range 2 {
		if get("a") != a || get("b") != b {
			t.Error("the same text gives another pointer")
		}
	}
	get("c")
	if !schema.Equal(get("a"), a) {
		t.Error("a schema that was forgotten differs")
	}
	if _, errs := JSON.Make(map[string]string{"schemas.cache.size": "0"}, false); len(errs) != 1 {
		t.Errorf("a cache of no size: %v", errs)
	}
}

// TestDecodedSchemasDoNotShareTheRecord reuses the bytes of a schema's text: schemas live
// longer than the record that brought them.
func TestDecodedSchemasDoNotShareTheRecord(t *testing.T) {
	c := newConverter(t, JSON)
	data := []byte(`{"schema":{"type":"struct","name":"first","fields":[{"type":"string","optional":true,"default":"dflt","field":"f"}]},"payload":{}}`)
	s, _, err := c.Decode(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'X'
	}
	def, _ := s.Field("f").Default()
	if s.Name() != "first" || def.Str() != "dflt" {
		t.Errorf("the schema is now %s with the default %q", s, def.Str())
	}
}

func TestSchemalessJSON(t *testing.T) {
	c := newConverter(t, JSON, "schemas.enable", "false")
	for in, want := range map[string]string{
		`{"b":1,"a":2}`:             `{"b":1,"a":2}`,
		`{"a":1,"b":2,"a":3}`:       `{"a":3,"b":2}`,
		`9223372036854775807`:       `9223372036854775807`,
		`-9223372036854775808`:      `-9223372036854775808`,
		`9223372036854775808`:       `9223372036854775808`,
		`-9223372036854775809`:      `-9223372036854775809`,
		`123456789012345678901234`:  `123456789012345678901234`,
		`1e400`:                     `1E+400`,
		`007`:                       `7`,
		`1.10`:                      `1.1`,
		`"\ud83d\ude00\u00fc"`:      `"\uD83D\uDE00ü"`,
		`"\ud83d x \ude00"`:         "\"\uFFFD x \uFFFD\"",
		`"\ud83d\u0041"`:            "\"\uFFFDA\"",
		`[[],{},null,true,false,0]`: `[[],{},null,true,false,0]`,
	} {
		_, v, err := c.Decode(nil, []byte(in))
		out, _, err2 := c.Encode(nil, nil, nil, v)
		if err != nil || err2 != nil || string(out) != want {
			t.Errorf("%s comes out as %s, want %s (%v, %v)", in, out, want, err, err2)
		}
	}
	for _, bad := range []string{"{", "[", `{"a"}`, `{"a":}`, `{"a":1,}`, "[1,]", "[,1]", "tru", "truex", "nul", "-", "1.", "1e", ".5", "+1", "NaN", `"`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", "1 2", "{}{}", `{a:1}`, `{'a':1}`, "// x\n1", strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		_, v, err := c.Decode(nil, []byte(bad))
		var data *schema.DataError
		if !errors.As(err, &data) {
			t.Errorf("%.40q is read as %v (%v)", bad, v.Kind(), err)
		}
	}
	if s, v, err := c.Decode(nil, nil); s != nil || !v.IsNull() || err != nil {
		t.Error("null bytes are null")
	}
	if _, v, err := c.Decode(nil, []byte{}); !v.IsNull() || err != nil {
		t.Errorf("no bytes are null, as in Connect: %v", err)
	}
}

func TestLargeMapsKeepTheLastOfAKey(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"first":0`)
	for i := range 100 {
		b.WriteString(`,"k` + string(rune('a'+i%26)) + `":` + strings.Repeat("1", i%5+1))
	}
	b.WriteString(`,"first":9}`)
	_, v, err := newConverter(t, JSON, "schemas.enable", "false").Decode(nil, []byte(b.String()))
	if err != nil || len(v.Entries()) != 27 || v.Entries()[0].Value.Int() != 9 {
		t.Errorf("%d entries, %v", len(v.Entries()), err)
	}
}

func FuzzJSONDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x\u00e9",null,true]}`, `{"schema":{"type":"int32"},"payload":1}`, `"\ud83d\ude00"`, "-0.0e-5", `{"a":{"b":{}}}`,
		`{"schema":{"type":"struct","fields":[{"type":"map","keys":{"type":"int32"},"values":{"type":"bytes"},"field":"m"}]},"payload":{"m":[[1,"AA=="]]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plainConv := newConverter(t, JSON, "schemas.enable", "false")
		_, v, err := plainConv.Decode(nil, data)
		var theirs any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		theirErr := json.Unmarshal(data, &theirs)
		switch {
		case err == nil && theirErr != nil:
			// We take leading zeros and numbers beyond a double, as Connect does; and
			// no bytes as null.
			out, _, err := plainConv.Encode(nil, nil, nil, v)
			if err != nil {
				t.Fatalf("%q is read, but not written: %v", data, err)
			}
			if len(out) > 0 && !json.Valid(out) {
				t.Fatalf("%q is written as %q", data, out)
			}
		case err != nil && theirErr == nil:
			// encoding/json replaces what is no UTF-8, and nests deeper.
			if !strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "nested deeper") && !strings.Contains(err.Error(), "exponent") {
				t.Fatalf("%q: %v; encoding/json takes it", data, err)
			}
		case err == nil:
			if ours := plain(v); !reflect.DeepEqual(ours, theirs) {
				t.Fatalf("%q: %#v, encoding/json reads %#v", data, ours, theirs)
			}
		}
		conv := newConverter(t, JSON)
		s, v, err := conv.Decode(nil, data)
		if err != nil {
			return
		}
		if err := schema.Validate(s, v); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		out, null, err := conv.Encode(nil, nil, s, v)
		if err != nil {
			t.Fatalf("%q is read, but not written: %v", data, err)
		}
		if null {
			return
		}
		s2, v2, err := conv.Decode(nil, out)
		if err != nil || !schema.Equal(s, s2) || !schema.EqualValues(v, v2) {
			t.Fatalf("%q is written as %q, which is read otherwise (%v)", data, out, err)
		}
	})
}

// TestWhatWasWrittenBeforeIsNoMatter has one encoder write numbers that repeat, in part, field by field: an encoder that
// wrote nothing before writes the same.
func TestWhatWasWrittenBeforeIsNoMatter(t *testing.T) {
	inner := schema.NewStruct("inner").Field("a", schema.OptionalInt64).Field("b", schema.Int64Schema).Field("c", schema.TimestampOf().Optional().Build()).Optional().Build()
	outer := schema.NewStruct("outer").Field("before", inner).Field("after", inner).Field("ts", schema.Int64Schema).Build()
	numbers := []int64{0, -1, 999_999_999, longNumber, longNumber + 1, -longNumber, 1_700_000_000_000, math.MaxInt64, math.MinInt64}
	r := rand.New(rand.NewPCG(1, 2))
	one := func() schema.Value { return schema.Int64Value(numbers[r.IntN(len(numbers))]) }
	row := func() schema.Value {
		a, c := one(), schema.TimestampValue(one().Int())
		if r.IntN(4) == 0 {
			a, c = schema.Value{}, schema.Value{}
		}
		return schema.StructValue(inner, []schema.Value{a, one(), c})
	}
	enc := newConverter(t, JSON, "schemas.enable", "false")
	for range 3000 {
		v := schema.StructValue(outer, []schema.Value{row(), row(), one()})
		got, _, err := enc.Encode(nil, nil, outer, v)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := newConverter(t, JSON, "schemas.enable", "false").Encode(nil, nil, outer, v)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s (%v), a new encoder writes\n%s", got, err, want)
		}
		var plain struct{ Before, After struct{ A, B, C *int64 } }
		if err := json.Unmarshal(got, &plain); err != nil || *plain.After.B != v.Fields()[1].Fields()[1].Int() {
			t.Fatalf("%s: %v", got, err)
		}
	}
}
