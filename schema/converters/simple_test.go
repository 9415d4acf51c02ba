package converters

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/plugin"
	"millrace/schema/schematest"
)

func TestNumbersComeBack(t *testing.T) {
	schematest.Rounds(t, 300, func(t *testing.T, r *rand.Rand) {
		n, f := schematest.Int(r), schematest.Float(r)
		for _, c := range []struct {
			p    Plugin
			v    schema.Value
			size int
		}{
			{Short, schema.Int16Value(int16(n)), 2}, {Integer, schema.Int32Value(int32(n)), 4}, {Long, schema.Int64Value(n), 8}, {Float, schema.Float32Value(float32(f)), 4},
			{Double, schema.Float64Value(f), 8}, {Boolean, schema.BoolValue(n > 0), 1}, {Bytes, schema.BytesValue([]byte{1, 2}), 2}, {String, schema.StringValue("äb"), 3},
		} {
			conv := newConverter(t, c.p)
			out, null, err := conv.Encode(nil, nil, nil, c.v)
			if err != nil || null || len(out) != c.size {
				t.Errorf("%s: %x, %v", c.p.Class, out, err)
			}
			s, v, err := conv.Decode(nil, out)
			if err != nil || !s.Optional() || schema.Validate(s, v) != nil || !schema.EqualValues(v, c.v) {
				t.Errorf("%s: comes back as %v, %v", c.p.Class, v.Kind(), err)
			}
			if out, null, err := conv.Encode(nil, nil, s, schema.Value{}); !null || len(out) > 0 || err != nil {
				t.Errorf("%s: null is %x", c.p.Class, out)
			}
			if s, v, err := conv.Decode(nil, nil); !v.IsNull() || !s.Optional() || err != nil {
				t.Errorf("%s: null is read as %v", c.p.Class, v.Kind())
			}
		}
	})
}

func TestConvertersRefuse(t *testing.T) {
	for _, c := range []struct {
		p    Plugin
		s    *schema.Schema
		v    schema.Value
		in   []byte
		want string
	}{
		{p: Integer, v: schema.Int64Value(5), want: "Failed to serialize to integer (was INT64)"},
		{p: Integer, in: []byte{1, 2}, want: "Size of data received by IntegerDeserializer is not 4"},
		{p: Boolean, in: []byte{2}, want: "Unexpected byte received by BooleanDeserializer: 2"},
		{p: Bytes, s: schema.StringSchema, v: schema.StringValue("x"), want: "Invalid schema type for ByteArrayConverter: STRING"},
		{p: Bytes, v: schema.StringValue("x"), want: "ByteArrayConverter is not compatible with objects of type STRING"},
	} {
		conv := newConverter(t, c.p)
		var err error
		if c.in != nil {
			_, _, err = conv.Decode(nil, c.in)
		} else {
			_, _, err = conv.Encode(nil, nil, c.s, c.v)
		}
		if _, ok := err.(*schema.DataError); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.p.Class, err, c.want)
		}
	}
}

// TestStringsAsJava has what Java's toString prints.
func TestStringsAsJava(t *testing.T) {
	s := schema.NewStruct("s").Field("d", schema.DecimalOf(2).Build()).Field("t", schema.TimestampOf().Build()).Field("o", schema.OptionalString).
		Field("m", schema.MapOf(schema.StringSchema, schema.Int32Schema).Build()).Build()
	m := schema.MapValue([]schema.Entry{{Key: schema.StringValue("k"), Value: schema.Int32Value(1)}})
	for want, v := range map[string]schema.Value{
		"Struct{d=12.50,t=Thu Feb 29 12:34:56 UTC 2024,m={k=1}}": schema.StructValue(s, []schema.Value{schema.DecimalInt64(1250, 2), schema.TimestampValue(1709210096789), {}, m}),
		"{a=1, b=[1.5, x, null], n=null}": schema.MapValue([]schema.Entry{{Key: schema.StringValue("a"), Value: schema.Int64Value(1)},
			{Key: schema.StringValue("b"), Value: schema.ArrayValue([]schema.Value{schema.Float64Value(1.5), schema.StringValue("x"), {}})}, {Key: schema.StringValue("n")}}),
		"true": schema.BoolValue(true), "1.0E10": schema.Float64Value(1e10), "AQI=": schema.BytesValue([]byte{1, 2}), "Thu Jan 01 00:00:00 UTC 1970": schema.DateValue(0),
	} {
		out, _, err := newConverter(t, String).Encode(nil, nil, nil, v)
		if err != nil || string(out) != want {
			t.Errorf("%s, want %s", out, want)
		}
	}
}

func TestStringEncodings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		data []byte
	}{
		"UTF-8": {"ä😀", []byte("ä😀")}, "ISO-8859-1": {"äé", []byte{0xe4, 0xe9}}, "US-ASCII": {"abc", []byte("abc")}, "utf-16": {"ä", []byte{0xfe, 0xff, 0, 0xe4}},
		"UTF-16BE": {"😀", []byte{0xd8, 0x3d, 0xde, 0}}, "UTF-16LE": {"a😀", []byte{'a', 0, 0x3d, 0xd8, 0, 0xde}},
	} {
		conv := newConverter(t, String, "converter.encoding", name)
		out, _, err := conv.Encode(nil, nil, nil, schema.StringValue(c.text))
		if err != nil || !bytes.Equal(out, c.data) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
		if _, v, err := conv.Decode(nil, c.data); err != nil || v.Str() != c.text {
			t.Errorf("%s: %q, %v", name, v.Str(), err)
		}
	}
	latin := newConverter(t, String, "converter.encoding", "ISO-8859-1")
	if out, _, _ := latin.Encode(nil, nil, nil, schema.StringValue("日")); string(out) != "?" {
		t.Errorf("what a set cannot say is %q", out)
	}
	if _, v, _ := newConverter(t, String).Decode(nil, []byte{'a', 0xff}); v.Str() != "a\uFFFD" {
		t.Errorf("%q", v.Str())
	}
	if _, errs := String.Make(map[string]string{"converter.encoding": "EBCDIC"}, false); len(errs) != 1 || errs[0].Key != "converter.encoding" {
		t.Errorf("an unknown set: %v", errs)
	}
}

func TestAllIsATable(t *testing.T) {
	table, err := plugin.NewTable(All()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"org.apache.kafka.connect.json.JsonConverter", "JsonConverter", "json", "org.apache.kafka.connect.storage.StringConverter",
		"org.apache.kafka.connect.converters.ByteArrayConverter", "org.apache.kafka.connect.converters.LongConverter", "org.apache.kafka.connect.storage.SimpleHeaderConverter"} {
		if _, ok := table.Find(name); !ok {
			t.Errorf("no converter is called %s", name)
		}
	}
	for _, p := range All() {
		if _, errs := p.MakeHeader(nil); errs != nil {
			t.Errorf("%s for headers: %v", p.Class, errs)
		}
		if _, errs := p.Make(nil, true); (errs != nil) != (p.New == nil) {
			t.Errorf("%s for keys: %v", p.Class, errs)
		}
		if _, ok := p.Config.Info("converter.type"); !ok && p.Class != SimpleHeader.Class {
			t.Errorf("%s does not declare converter.type", p.Class)
		}
	}
}

// TestHeaderConverters passes headers through the converters that serve both.
func TestHeaderConverters(t *testing.T) {
	for _, c := range []struct {
		p    Plugin
		s    *schema.Schema
		v    schema.Value
		text string
	}{
		{JSON, schema.Int32Schema, schema.Int32Value(5), `{"schema":{"type":"int32","optional":false},"payload":5}`}, {String, schema.OptionalString, schema.StringValue("x"), "x"},
		{Bytes, schema.OptionalBytes, schema.BytesValue([]byte("b")), "b"}, {SimpleHeader, schema.Int8Schema, schema.Int8Value(5), "5"},
	} {
		h, errs := c.p.MakeHeader(nil)
		if errs != nil {
			t.Fatal(errs)
		}
		out, null, err := h.EncodeHeader(nil, "t", "h", c.s, c.v)
		if err != nil || null || string(out) != c.text {
			t.Errorf("%s: %s, %v", c.p.Class, out, err)
		}
		s, v, err := h.DecodeHeader("t", "h", out)
		if err != nil || !schema.Equal(s, c.s) || !schema.EqualValues(v, c.v) {
			t.Errorf("%s: comes back as %s, %v", c.p.Class, s, err)
		}
	}
}

// TestHeaderTextComesBack writes random header data as text and reads it again:
// the same text results, whatever the text was taken for.
func TestHeaderTextComesBack(t *testing.T) {
	schematest.Rounds(t, 2000, func(t *testing.T, r *rand.Rand) {
		v := schematest.Schemaless(r, 2)
		if v.IsNull() {
			return
		}
		text := AppendText(nil, v)
		s, back := ParseText(string(text))
		if s != nil && schema.Validate(s, back) != nil {
			t.Errorf("%q is read as what its schema forbids", text)
		}
		if v.Kind() == schema.String && back.Kind() == schema.String && back.Str() != v.Str() {
			t.Errorf("%q comes back as %q", v.Str(), back.Str())
		}
	})
}

// hasWholeFloat reports a float that is a whole number: it is written as 1.0, which
// Connect and we read as the integer 1.
func hasWholeFloat(v schema.Value) bool {
	if f := v.Float(); (v.Kind() == schema.Float32 || v.Kind() == schema.Float64) && f == math.Trunc(f) {
		return true
	}
	for _, e := range v.Elems() {
		if hasWholeFloat(e) {
			return true
		}
	}
	for _, e := range v.Entries() {
		if hasWholeFloat(e.Key) || hasWholeFloat(e.Value) {
			return true
		}
	}
	return false
}

func FuzzParseText(f *testing.F) {
	for _, s := range []string{"1", "[1,2]", `{"a":[1.5,"x"]}`, "12:34:56.789Z", "2024-02-29", `["a\"b"]`, "1e400", "[[[["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, v := ParseText(text)
		if s == nil {
			return // null
		}
		if err := schema.Validate(s, v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		once := string(AppendText(nil, v))
		s2, v2 := ParseText(once)
		if v.Kind() == schema.String && v.Str() != text {
			t.Fatalf("%q is read as the string %q", text, v.Str())
		}
		if v.Kind() != schema.String && !hasWholeFloat(v) && string(AppendText(nil, v2)) != once {
			t.Fatalf("%q: written as %q, which is read as %s and written as %q", text, once, s2, AppendText(nil, v2))
		}
	})
}

func BenchmarkSimpleHeader(b *testing.B) {
	h, errs := SimpleHeader.MakeHeader(nil)
	if errs != nil {
		b.Fatal(errs)
	}
	v := schema.StringValue("postgresql")
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out, _, _ = h.EncodeHeader(out[:0], "t", "h", schema.StringSchema, v)
	}
}
