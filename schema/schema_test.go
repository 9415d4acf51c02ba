package schema_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
)

func TestValuesKeepWhatTheyWereMadeOf(t *testing.T) {
	schematest.Rounds(t, 2000, func(t *testing.T, r *rand.Rand) {
		n, f, s := schematest.Int(r), schematest.Float(r), schematest.Text(r)
		check := func(v schema.Value, k schema.Kind, ok bool) {
			t.Helper()
			if v.Kind() != k || !ok || v.IsNull() {
				t.Errorf("%v of %d, %v, %q", v.Kind(), n, f, s)
			}
			// The accessors of all other kinds are zero.
			zeros := map[schema.Kind]bool{
				schema.Bool: v.Bool(), schema.String: v.Str() != "", schema.Bytes: v.Bytes() != nil, schema.Array: v.Elems() != nil, schema.Map: v.Entries() != nil,
				schema.Struct: v.Schema() != nil || v.Fields() != nil, schema.Decimal: v.Scale() != 0 || v.Unscaled().Sign() != 0,
			}
			for other, set := range zeros {
				if other != k && set {
					t.Errorf("a %v answers as a %v", k, other)
				}
			}
		}
		check(schema.Int8Value(int8(n)), schema.Int8, schema.Int8Value(int8(n)).Int() == int64(int8(n)))
		check(schema.Int16Value(int16(n)), schema.Int16, schema.Int16Value(int16(n)).Int() == int64(int16(n)))
		check(schema.Int32Value(int32(n)), schema.Int32, schema.Int32Value(int32(n)).Int() == int64(int32(n)))
		check(schema.Int64Value(n), schema.Int64, schema.Int64Value(n).Int() == n)
		check(schema.DateValue(n), schema.Date, schema.DateValue(n).Int() == n)
		check(schema.TimeValue(n), schema.Time, schema.TimeValue(n).Int() == n)
		check(schema.TimestampValue(n), schema.Timestamp, schema.TimestampValue(n).Int() == n)
		g := schema.Float64Value(f).Float()
		check(schema.Float64Value(f), schema.Float64, math.Float64bits(g) == math.Float64bits(f))
		h := schema.Float32Value(float32(f)).Float()
		check(schema.Float32Value(float32(f)), schema.Float32, float32(h) == float32(f) || f != f && h != h)
		check(schema.StringValue(s), schema.String, schema.StringValue(s).Str() == s && string(schema.StringValue(s).StrBytes()) == s)
		check(schema.BytesValue([]byte(s)), schema.Bytes, string(schema.BytesValue([]byte(s)).Bytes()) == s)
	})
	if !(schema.Value{}).IsNull() || schema.BytesValue(nil).IsNull() || schema.ArrayValue(nil).IsNull() || schema.MapValue(nil).IsNull() || schema.StringValue("").IsNull() {
		t.Error("the zero Value alone is null")
	}
	if !schema.StringValue("a string is no struct").At(0).IsNull() || !(schema.Value{}).At(3).IsNull() {
		t.Error("fields of what is no struct")
	}
	if !schema.BoolValue(true).Bool() || schema.BoolValue(false).Bool() {
		t.Error("booleans")
	}
}

func TestDecimalsAgainstBig(t *testing.T) {
	schematest.Rounds(t, 5000, func(t *testing.T, r *rand.Rand) {
		x := schematest.Big(r)
		if r.IntN(4) == 0 {
			x.SetInt64(schematest.Int(r))
		}
		if r.IntN(8) == 0 { // around the borders of bytes
			x.Lsh(big.NewInt(1), uint(r.IntN(100))).Sub(x, big.NewInt(int64(r.IntN(3))))
			if r.IntN(2) == 0 {
				x.Neg(x)
			}
		}
		scale := int32(r.IntN(30) - 10)
		v := schema.DecimalBig(x, scale)
		if v.Unscaled().Cmp(x) != 0 || v.Scale() != scale {
			t.Fatalf("%v scale %d comes back as %v scale %d", x, scale, v.Unscaled(), v.Scale())
		}
		if n, ok := v.Unscaled64(); ok != x.IsInt64() || ok && n != x.Int64() {
			t.Errorf("%v in 64 bits: %d, %v", x, n, ok)
		}
		b := v.AppendUnscaled(nil)
		if want := javaBytes(x); !bytes.Equal(b, want) {
			t.Errorf("%v is %x, want %x", x, b, want)
		}
		if w := schema.DecimalBytes(b, scale); !schema.EqualValues(v, w) {
			t.Errorf("%v read from %x is %v", x, b, w.Unscaled())
		}
		// Bytes that say more than they must are the same number.
		pad := byte(0)
		if x.Sign() < 0 {
			pad = 0xff
		}
		long := append(bytes.Repeat([]byte{pad}, r.IntN(12)), b...)
		w := schema.DecimalBytes(long, scale)
		if _, fits := w.Unscaled64(); fits != x.IsInt64() || !schema.EqualValues(v, w) || !bytes.Equal(w.AppendUnscaled(nil), b) {
			t.Errorf("%v read from %x is %v", x, long, w.Unscaled())
		}
		text := string(v.AppendDecimal(nil))
		back, err := schema.ParseDecimal(text)
		if err != nil || !schema.EqualValues(v, back) {
			t.Errorf("%v scale %d is written as %q and read as %v scale %d, %v", x, scale, text, back.Unscaled(), back.Scale(), err)
		}
		plain := string(v.AppendDecimalPlain(nil))
		if rat, ok := new(big.Rat).SetString(plain); strings.ContainsAny(plain, "eE") || !ok || rat.Cmp(ratOf(x, scale)) != 0 {
			t.Errorf("%v scale %d is plainly %q", x, scale, plain)
		}
		to := scale + int32(r.IntN(9)-4)
		got, exact := v.Rescale(to)
		if exact && (got.Scale() != to || ratOf(got.Unscaled(), to).Cmp(ratOf(x, scale)) != 0) || !exact && to >= scale {
			t.Errorf("%v scale %d at scale %d is %v (%v)", x, scale, to, got.Unscaled(), exact)
		}
		if whole := new(big.Rat).Mul(ratOf(x, scale), ratOf(big.NewInt(1), -to)); !exact && whole.IsInt() {
			t.Errorf("%v scale %d at scale %d is exact, but said not to be", x, scale, to)
		}
	})
}

// javaBytes is BigInteger.toByteArray, plainly: one bit more than the number needs.
func javaBytes(x *big.Int) []byte {
	bitLen := x.BitLen()
	if x.Sign() < 0 {
		bitLen = new(big.Int).Not(x).BitLen()
	}
	size := bitLen/8 + 1
	m := new(big.Int).Set(x)
	if x.Sign() < 0 {
		m.Add(m, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return m.FillBytes(make([]byte, size))
}

func ratOf(x *big.Int, scale int32) *big.Rat {
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale >= 0 {
		return new(big.Rat).SetFrac(x, pow)
	}
	return new(big.Rat).SetInt(pow.Mul(pow, x))
}

func TestDecimalTextsAsJavas(t *testing.T) {
	for _, c := range []struct {
		unscaled    int64
		scale       int32
		text, plain string
	}{
		{0, 0, "0", "0"}, {0, 2, "0.00", "0.00"}, {0, -3, "0E+3", "0"}, {156, 2, "1.56", "1.56"}, {-156, 2, "-1.56", "-1.56"}, {5, 3, "0.005", "0.005"},
		{1, -3, "1E+3", "1000"}, {123, -3, "1.23E+5", "123000"}, {1, 6, "0.000001", "0.000001"}, {1, 7, "1E-7", "0.0000001"}, {12, 8, "1.2E-7", "0.00000012"},
		{0, 7, "0E-7", "0.0000000"}, {-1, 10, "-1E-10", "-0.0000000001"}, {math.MinInt64, 1, "-922337203685477580.8", "-922337203685477580.8"}, {100, 2, "1.00", "1.00"},
	} {
		v := schema.DecimalInt64(c.unscaled, c.scale)
		if got := string(v.AppendDecimal(nil)); got != c.text {
			t.Errorf("%d scale %d: %s, want %s", c.unscaled, c.scale, got, c.text)
		}
		if got := string(v.AppendDecimalPlain(nil)); got != c.plain {
			t.Errorf("%d scale %d: plainly %s, want %s", c.unscaled, c.scale, got, c.plain)
		}
	}
	for _, bad := range []string{"", "-", "+", ".", "e5", "1e", "1e+", "1e99999999999", "1e2147483648", "1x", "1.2.3", "0x10", "1_000", " 1", "NaN", "١"} {
		if v, err := schema.ParseDecimal(bad); err == nil {
			t.Errorf("%q is read as %s", bad, v.AppendDecimal(nil))
		}
	}
	huge, err := schema.ParseDecimal("1E+2147483647")
	if text := string(huge.AppendDecimalPlain(nil)); err != nil || len(text) > 100 {
		t.Errorf("a huge exponent takes %d bytes, %v", len(text), err)
	}
	if _, exact := huge.Rescale(0); exact {
		t.Error("a huge exponent was multiplied out")
	}
}

func TestEqualGoesByContent(t *testing.T) {
	schematest.Rounds(t, 1000, func(t *testing.T, r *rand.Rand) {
		s := schematest.Schema(r, 3)
		twin := schematest.Copy(s)
		if !schema.Equal(s, twin) || !schema.Equal(twin, s) || schema.Equal(s, nil) || !schema.Equal(nil, nil) {
			t.Errorf("a copy of %s is not equal to it", s)
		}
		v := schematest.Value(r, s)
		if err := schema.Validate(s, v); err != nil {
			t.Errorf("a value of %s: %v", s, err)
		}
		if !schema.EqualValues(v, v) {
			t.Errorf("a value of %s is not equal to itself", s)
		}
		if o := schematest.Schema(r, 3); schema.Equal(s, o) != schema.Equal(o, s) {
			t.Errorf("equality of %s and %s depends on their order", s, o)
		}
	})
}

func TestEqualNoticesEveryPart(t *testing.T) {
	base := func() *schema.Builder {
		return schema.NewStruct("n").Version(1).Doc("d").Param("a", "1").Param("b", "2").Field("x", schema.Int32Schema).Field("y", schema.OptionalString)
	}
	s := base().Build()
	if !schema.Equal(s, schema.NewStruct("n").Version(1).Doc("d").Param("b", "2").Param("a", "1").Field("x", schema.Int32Schema).Field("y", schema.OptionalString).Build()) {
		t.Error("parameters in another order make another schema")
	}
	str := func(def string) *schema.Schema {
		return schema.New(schema.String).Default(schema.StringValue(def)).Build()
	}
	for name, o := range map[string]*schema.Schema{
		"name": base().Name("m").Build(), "version": base().Version(2).Build(), "documentation": base().Doc("e").Build(), "parameter": base().Param("a", "3").Build(),
		"another parameter": base().Param("c", "3").Build(), "optional": base().Optional().Build(), "field": base().Field("z", schema.BoolSchema).Build(),
		"no version": schema.NewStruct("n").Doc("d").Param("a", "1").Param("b", "2").Field("x", schema.Int32Schema).Field("y", schema.OptionalString).Build(),
		"order":      schema.NewStruct("n").Version(1).Doc("d").Param("a", "1").Param("b", "2").Field("y", schema.OptionalString).Field("x", schema.Int32Schema).Build(),
	} {
		if schema.Equal(s, o) {
			t.Errorf("%s is not compared", name)
		}
	}
	if schema.Equal(str("a"), str("b")) || schema.Equal(str("a"), schema.StringSchema) || !schema.Equal(str("a"), str("a")) {
		t.Error("defaults are not compared")
	}
	if schema.Equal(schema.ArrayOf(schema.Int8Schema).Build(), schema.ArrayOf(schema.Int16Schema).Build()) {
		t.Error("elements are not compared")
	}
	if schema.Equal(schema.MapOf(schema.StringSchema, schema.Int8Schema).Build(), schema.MapOf(schema.Int8Schema, schema.Int8Schema).Build()) {
		t.Error("keys are not compared")
	}
}

func TestEqualValues(t *testing.T) {
	entry := func(k string, v int64) schema.Entry {
		return schema.Entry{Key: schema.StringValue(k), Value: schema.Int64Value(v)}
	}
	var many, reversed []schema.Entry
	for i := range 40 {
		many = append(many, entry(fmt.Sprint(i), int64(i)))
		reversed = append([]schema.Entry{entry(fmt.Sprint(i), int64(i))}, reversed...)
	}
	other := append([]schema.Entry(nil), many...)
	other[39] = entry("x", 39)
	f := schema.Float64Value
	for _, c := range []struct {
		name string
		a, b schema.Value
		want bool
	}{
		{"NaN is NaN", f(math.NaN()), f(math.Float64frombits(0x7ff8000000000123)), true},
		{"zero is not minus zero", f(0), f(math.Copysign(0, -1)), false},
		{"kinds count", schema.Int32Value(1), schema.Int64Value(1), false},
		{"null is null", schema.Value{}, schema.Value{}, true},
		{"null is not zero", schema.Value{}, schema.Int8Value(0), false},
		{"a map's order does not count", schema.MapValue(many[:5]), schema.MapValue(reversed[35:]), true},
		{"a large map's order does not count", schema.MapValue(many), schema.MapValue(reversed), true},
		{"a large map's keys count", schema.MapValue(many), schema.MapValue(other), false},
		{"an array's order counts", schema.ArrayValue([]schema.Value{f(1), f(2)}), schema.ArrayValue([]schema.Value{f(2), f(1)}), false},
		{"scales count", schema.DecimalInt64(10, 1), schema.DecimalInt64(1, 0), false},
		{"a string is no bytes", schema.StringValue("a"), schema.BytesValue([]byte("a")), false},
	} {
		if schema.EqualValues(c.a, c.b) != c.want || schema.EqualValues(c.b, c.a) != c.want {
			t.Errorf("%s: not so", c.name)
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		b    *schema.Builder
		want string
	}{
		{"a field twice", schema.NewStruct("s").Field("a", schema.Int8Schema).Field("a", schema.Int8Schema), `field "a" twice`},
		{"a field without a schema", schema.NewStruct("s").Field("a", nil), `field "a": no schema`},
		{"a field of a string", schema.New(schema.String).Field("a", schema.Int8Schema), "has no fields"},
		{"a logical kind", schema.New(schema.Date), "want a primitive kind"},
		{"an array by its kind", schema.New(schema.Array), "want a primitive kind"},
		{"a null kind", schema.New(schema.Null), "want a primitive kind"},
		{"a default of another kind", schema.New(schema.Int32).Default(schema.Int64Value(1)), "default"},
		{"a default that breaks a field", schema.NewStruct("s").Field("a", schema.Int8Schema).Default(schema.StructValue(schema.NewStruct("").Field("a", schema.Int8Schema).Build(), make([]schema.Value, 1))), "required"},
		{"a default of other fields", schema.NewStruct("s").Field("a", schema.Int8Schema).Default(schema.StructValue(schema.NewStruct("").Build(), nil)), "other fields"},
		{"a decimal without a scale", schema.New(schema.Bytes).Name(schema.DecimalName), "scale"},
		{"a decimal of a wrong scale", schema.New(schema.Bytes).Name(schema.DecimalName).Param("scale", "x"), "scale"},
	} {
		if _, err := c.b.TryBuild(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Build does not panic")
		}
	}()
	schema.New(schema.Null).Build()
}

func TestStructDefaults(t *testing.T) {
	inner := schema.NewStruct("s").Field("a", schema.Int8Schema).Build()
	make := func(n int8) *schema.Schema {
		return schema.NewStruct("s").Field("a", schema.Int8Schema).Optional().Default(schema.StructValue(inner, []schema.Value{schema.Int8Value(n)})).Build()
	}
	s := make(7)
	def, ok := s.Default()
	if !ok || def.Schema() != s || def.Get("a").Int() != 7 {
		t.Errorf("default %v", def.Kind())
	}
	if err := schema.Validate(s, def); err != nil {
		t.Error(err)
	}
	if !schema.Equal(s, make(7)) || schema.Equal(s, make(8)) {
		t.Error("struct defaults are not compared by their fields")
	}
}

func TestValidateNamesThePlace(t *testing.T) {
	in := schema.NewStruct("in").Field("n", schema.Int32Schema).Build()
	s := schema.NewStruct("s").Field("list", schema.ArrayOf(in).Build()).Field("map", schema.MapOf(schema.StringSchema, schema.OptionalInt8).Optional().Build()).
		Field("dec", schema.DecimalOf(2).Optional().Build()).Build()
	list := func(v schema.Value) schema.Value {
		return schema.ArrayValue([]schema.Value{schema.StructValue(in, []schema.Value{schema.Int32Value(1)}), schema.StructValue(in, []schema.Value{v})})
	}
	ok := list(schema.Int32Value(2))
	for _, c := range []struct {
		name   string
		fields []schema.Value
		path   string
	}{
		{"all is well", []schema.Value{ok, {}, {}}, "-"},
		{"a null inside a list", []schema.Value{list(schema.Value{}), {}, {}}, "list[1].n"},
		{"another kind", []schema.Value{list(schema.Int64Value(2)), {}, {}}, "list[1].n"},
		{"a required null", []schema.Value{{}, {}, {}}, "list"},
		{"a map's value", []schema.Value{ok, schema.MapValue([]schema.Entry{{Key: schema.StringValue("k"), Value: schema.StringValue("x")}}), {}}, `map["k"]`},
		{"a map's key", []schema.Value{ok, schema.MapValue([]schema.Entry{{Key: schema.Int8Value(1)}}), {}}, "map[key]"},
		{"a decimal's scale", []schema.Value{ok, {}, schema.DecimalInt64(1, 3)}, "dec"},
	} {
		err := schema.Validate(s, schema.StructValue(s, c.fields))
		var data *schema.DataError
		if errors.As(err, &data) && data.Path == c.path || err == nil && c.path == "-" {
			continue
		}
		t.Errorf("%s: %v, want the path %s", c.name, err, c.path)
	}
	if err := schema.Validate(in, schema.StructValue(schema.NewStruct("in").Field("n", schema.Int64Schema).Build(), []schema.Value{schema.Int64Value(1)})); err == nil {
		t.Error("a struct of another schema is taken")
	}
	if schema.Validate(nil, ok) != nil {
		t.Error("the nil schema refuses something")
	}
}

func TestIndexOfManyFields(t *testing.T) {
	for _, n := range []int{0, 1, 6, 7, 300} {
		b := schema.NewStruct("s")
		for i := range n {
			b.Field(fmt.Sprintf("f%d", i), schema.Int32Schema)
		}
		s := b.Build()
		for i := range n {
			if s.Index(fmt.Sprintf("f%d", i)) != i {
				t.Fatalf("f%d of %d is at %d", i, n, s.Index(fmt.Sprintf("f%d", i)))
			}
		}
		if s.Index("f") != -1 || s.Field("nope") != nil {
			t.Error("a field that is not there")
		}
	}
}

func TestFromCopiesAllButFields(t *testing.T) {
	schematest.Rounds(t, 300, func(t *testing.T, r *rand.Rand) {
		s := schematest.Schema(r, 2)
		b := schema.From(s)
		for _, f := range s.Fields() {
			b.Field(f.Name, f.Schema)
		}
		if c := b.Build(); !schema.Equal(s, c) {
			t.Errorf("a copy of %s differs", s)
		}
		before := len(s.Params())
		schema.From(s).Param("new", "x").Param("p", "y")
		if len(s.Params()) != before {
			t.Error("changing a copy changed the schema")
		}
	})
}

func TestRecordHeaders(t *testing.T) {
	shared := make([]schema.Header, 1, 8)
	shared[0] = schema.Header{Key: "a", Value: schema.Int8Value(1)}
	r := schema.Record{Headers: shared}
	q := r
	r.WithHeaders(schema.Header{Key: "a", Value: schema.Int8Value(2)})
	q.WithHeaders(schema.Header{Key: "b"})
	if h, ok := r.Header("a"); !ok || h.Value.Int() != 2 {
		t.Error("the last header of a key is the one")
	}
	if h, ok := q.Header("a"); !ok || h.Value.Int() != 1 {
		t.Error("records that shared headers see each other's")
	}
	if _, ok := r.Header("b"); ok {
		t.Error("a header that is not there")
	}
}

func TestArenaPartsAreApart(t *testing.T) {
	schematest.Rounds(t, 50, func(t *testing.T, r *rand.Rand) {
		var a schema.Arena
		type piece struct {
			values []schema.Value
			bytes  []byte
			mark   int64
		}
		var all []piece
		for i := range 300 {
			p := piece{values: a.Values(r.IntN(40)), bytes: a.Bytes(r.IntN(400)), mark: int64(i)}
			if r.IntN(40) == 0 {
				p.values, p.bytes = a.Values(3000), a.Bytes(100_000)
			}
			for j := range p.values {
				if !p.values[j].IsNull() {
					t.Fatal("a value that is not null")
				}
				p.values[j] = schema.Int64Value(p.mark)
			}
			for j := range p.bytes {
				if p.bytes[j] != 0 {
					t.Fatal("a byte that is not zero")
				}
				p.bytes[j] = byte(p.mark)
			}
			if cap(p.values) != len(p.values) || cap(p.bytes) != len(p.bytes) {
				t.Fatal("room behind a piece: appending would write over the next")
			}
			all = append(all, p)
		}
		for _, p := range all {
			for _, v := range p.values {
				if v.Int() != p.mark {
					t.Fatal("a piece was written over")
				}
			}
			for _, b := range p.bytes {
				if b != byte(p.mark) {
					t.Fatal("bytes were written over")
				}
			}
		}
	})
}

func TestRowsTakeNoAllocationPerField(t *testing.T) {
	s := schema.NewStruct("row").Field("id", schema.Int32Schema).Field("name", schema.OptionalString).Field("amount", schema.OptionalFloat64).
		Field("price", schema.DecimalOf(2).Optional().Build()).Field("flag", schema.OptionalBool).Field("raw", schema.OptionalBytes).Field("at", schema.TimestampOf().Build()).Build()
	name, raw := []byte("Ann Example"), []byte{1, 2, 3}
	var sum int64
	rows := 0
	allocs := testing.AllocsPerRun(20, func() {
		var a schema.Arena
		for range 500 {
			f := a.Values(7)
			f[0], f[1], f[2] = schema.Int32Value(int32(rows)), a.String(name), schema.Float64Value(1.5)
			f[3], f[4], f[5], f[6] = schema.DecimalInt64(156, 2), schema.BoolValue(true), schema.BytesValue(a.Copy(raw)), schema.TimestampValue(5)
			row := a.Struct(s, f)
			sum += row.At(0).Int() + int64(len(row.Get("name").Str())) + int64(len(row.At(5).Bytes()))
			if n, ok := row.At(3).Unscaled64(); ok {
				sum += n
			}
			rows++
		}
	})
	if allocs > 6 { // slabs of values, structs and bytes
		t.Errorf("%v allocations for 500 rows, want the slabs alone", allocs)
	}
}

func BenchmarkRow(b *testing.B) {
	s := schema.NewStruct("row").Field("id", schema.Int32Schema).Field("name", schema.OptionalString).Field("amount", schema.OptionalFloat64).Build()
	name := []byte("Ann Example")
	var a schema.Arena
	b.ReportAllocs()
	for b.Loop() {
		f := a.Values(3)
		f[0], f[1], f[2] = schema.Int32Value(1), a.String(name), schema.Float64Value(1.5)
		if a.Struct(s, f).IsNull() {
			b.Fatal()
		}
	}
}
