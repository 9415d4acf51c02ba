package schematest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"millrace/deploy/trial"
	"millrace/schema"
)

// Rounds runs a property with as many random sources as trial.Effort makes of rounds, up to the first failure, whose seed it prints.
func Rounds(t *testing.T, rounds int, property func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	for _, seed := range trial.Seeds(rounds) {
		if round(t, seed, property); t.Failed() {
			return
		}
	}
}

func round(t *testing.T, seed uint64, property func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	defer func() { // a Fatal of the property's ends this goroutine
		if t.Failed() {
			t.Logf("failed with MILLRACE_SEED=%d", seed)
		}
	}()
	property(t, rand.New(rand.NewPCG(seed, 1)))
}

var texts = []string{"", "a", "name", "order id", "ä", "日本", "😀", "a\"b", "back\\slash", "line\nend", "\x00\x1f\x7f", "null", "true", "1", "\u2028", "<&>", "  ", "__debezium_unavailable_value"}

// Text is a random string of valid UTF-8, often one with something awkward in it.
func Text(r *rand.Rand) string {
	s := texts[r.IntN(len(texts))]
	for range r.IntN(4) {
		s += texts[r.IntN(len(texts))]
	}
	if r.IntN(4) == 0 {
		for range r.IntN(20) {
			s += string(rune(r.IntN(0xD800)))
		}
	}
	return s
}

// Int is a random number of any size up to 64 bits.
func Int(r *rand.Rand) int64 {
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return math.MaxInt64
	case 2:
		return math.MinInt64
	}
	return int64(r.Uint64()) >> r.IntN(64)
}

var floats = []float64{0, math.Copysign(0, -1), 1, -1.5, 0.1, 1e-3, 1e7, 1e21, 4.9e-324, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 123456.789}

// Float is a random number, often a special one.
func Float(r *rand.Rand) float64 {
	switch r.IntN(3) {
	case 0:
		return floats[r.IntN(len(floats))]
	case 1:
		return float64(r.IntN(100000)) / 100
	}
	return math.Float64frombits(r.Uint64())
}

// Big is a random whole number of up to 200 bits.
func Big(r *rand.Rand) *big.Int {
	x := new(big.Int)
	for range r.IntN(4) {
		x.Lsh(x, 60).Or(x, new(big.Int).SetUint64(r.Uint64()>>4))
	}
	if x.Rsh(x, uint(r.IntN(64))); r.IntN(2) == 0 {
		x.Neg(x)
	}
	return x
}

var primitives = []schema.Kind{schema.Bool, schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Float32, schema.Float64, schema.String, schema.Bytes}

// Schema is a random schema at most depth levels deep.
func Schema(r *rand.Rand, depth int) *schema.Schema {
	var b *schema.Builder
	n := r.IntN(10)
	if depth <= 0 {
		n %= 7
	}
	switch {
	case n == 5:
		b = schema.DecimalOf(int32(r.IntN(12) - 2))
	case n == 6:
		b = []func() *schema.Builder{schema.DateOf, schema.TimeOf, schema.TimestampOf}[r.IntN(3)]()
	case n == 7:
		b = schema.ArrayOf(Schema(r, depth-1))
	case n == 8:
		key := schema.StringSchema
		if r.IntN(3) == 0 {
			key = []*schema.Schema{schema.Int32Schema, schema.Int64Schema, schema.BoolSchema}[r.IntN(3)]
		}
		b = schema.MapOf(key, Schema(r, depth-1))
	case n == 9:
		b = schema.NewStruct("")
		for i := range r.IntN(12) {
			b.Field(fmt.Sprintf("f%d:%s", i, Text(r)), Schema(r, depth-1))
		}
	default:
		b = schema.New(primitives[r.IntN(len(primitives))])
	}
	if n > 6 || n < 5 {
		if r.IntN(3) == 0 {
			b.Name("x." + Text(r))
		}
		if r.IntN(4) == 0 {
			b.Version(int32(r.IntN(5)))
		}
	}
	if r.IntN(5) == 0 {
		b.Doc(Text(r))
	}
	for range r.IntN(3) {
		if r.IntN(3) == 0 {
			b.Param("p"+Text(r), Text(r)) // the same one twice is one
		}
	}
	b.SetOptional(r.IntN(2) == 0)
	if r.IntN(4) == 0 {
		s, err := b.TryBuild()
		if err != nil {
			panic(err)
		}
		if v := Value(r, s); !v.IsNull() {
			b.Default(v)
		}
	}
	return b.Build()
}

// Recursive is a random struct that is a part of itself: through its own optional
// fields, arrays and maps, or through a struct within it.
func Recursive(r *rand.Rand) *schema.Schema {
	name := func(i int) string { return fmt.Sprintf("n.R%d", i) }
	var nest func(i int, around []*schema.Builder) *schema.Schema
	nest = func(i int, around []*schema.Builder) *schema.Schema {
		b := schema.NewStruct(name(i))
		around = append(around, b)
		if r.IntN(3) == 0 {
			b.Doc(Text(r)).Version(int32(r.IntN(3)))
		}
		for f := range 1 + r.IntN(3) {
			b.Field(fmt.Sprintf("f%d", f), Schema(r, 1))
		}
		for k := range r.IntN(3) {
			mentioned := around[r.IntN(len(around))]
			field := fmt.Sprintf("m%d", k)
			switch r.IntN(4) {
			case 0:
				b.Field(field, mentioned.Self(true))
			case 1:
				b.Field(field, schema.ArrayOf(mentioned.Self(r.IntN(2) == 0)).SetOptional(r.IntN(2) == 0).Build())
			case 2:
				b.Field(field, schema.MapOf(schema.StringSchema, mentioned.Self(r.IntN(2) == 0)).Build())
			case 3:
				if len(around) < 4 {
					b.Field(field, nest(10*i+k, around[:len(around):len(around)]))
				}
			}
		}
		b.Field("self", b.Self(true)) // each of them at least
		return b.Build()
	}
	return nest(1, nil)
}

// deepValue is how deep values of a recursive schema are.
const deepValue = 4

// Value is a random value of s.
func Value(r *rand.Rand, s *schema.Schema) schema.Value { return value(r, s, deepValue) }

func value(r *rand.Rand, s *schema.Schema, depth int) schema.Value {
	last := s.Recursive() && depth <= 0
	if last && s.Optional() {
		return schema.Value{}
	}
	if _, has := s.Default(); (s.Optional() || has) && r.IntN(4) == 0 {
		return schema.Value{}
	}
	switch s.ValueKind() {
	case schema.Bool:
		return schema.BoolValue(r.IntN(2) == 0)
	case schema.Int8:
		return schema.Int8Value(int8(Int(r)))
	case schema.Int16:
		return schema.Int16Value(int16(Int(r)))
	case schema.Int32:
		return schema.Int32Value(int32(Int(r)))
	case schema.Int64:
		return schema.Int64Value(Int(r))
	case schema.Float32:
		return schema.Float32Value(float32(Float(r)))
	case schema.Float64:
		return schema.Float64Value(Float(r))
	case schema.String:
		return schema.StringValue(Text(r))
	case schema.Bytes:
		return schema.BytesValue([]byte(Text(r)))
	case schema.Decimal:
		return schema.DecimalBig(Big(r), s.Scale())
	case schema.Date:
		return schema.DateValue(int64(int32(Int(r)) / 500))
	case schema.Time:
		return schema.TimeValue(r.Int64N(86_400_000))
	case schema.Timestamp:
		return schema.TimestampValue(Int(r) >> 10)
	case schema.Array:
		elems := make([]schema.Value, length(r, last))
		for i := range elems {
			elems[i] = value(r, s.Elem(), depth)
		}
		return schema.ArrayValue(elems)
	case schema.Map:
		var entries []schema.Entry
		for range length(r, last) {
			k := value(r, s.Key(), depth)
			taken := k.IsNull()
			for _, e := range entries {
				taken = taken || schema.EqualValues(e.Key, k)
			}
			if !taken {
				entries = append(entries, schema.Entry{Key: k, Value: value(r, s.Elem(), depth)})
			}
		}
		return schema.MapValue(entries)
	}
	fields := make([]schema.Value, len(s.Fields()))
	for i, f := range s.Fields() {
		fields[i] = value(r, f.Schema, depth-1)
	}
	return schema.StructValue(s, fields)
}

// length is that of an array or map; the last level of a recursive value has none.
func length(r *rand.Rand, last bool) int {
	if last {
		return 0
	}
	return r.IntN(5)
}

// Schemaless is random data without a schema, of the kinds that JSON gives.
func Schemaless(r *rand.Rand, depth int) schema.Value {
	n := r.IntN(7)
	if depth <= 0 {
		n %= 5
	}
	switch n {
	case 0:
		return schema.Value{}
	case 1:
		return schema.BoolValue(r.IntN(2) == 0)
	case 2:
		return schema.Int64Value(Int(r))
	case 3:
		f := Float(r)
		if f-f != 0 {
			f = 1.5
		}
		return schema.Float64Value(f)
	case 4:
		return schema.StringValue(Text(r))
	case 5:
		elems := make([]schema.Value, r.IntN(5))
		for i := range elems {
			elems[i] = Schemaless(r, depth-1)
		}
		return schema.ArrayValue(elems)
	}
	entries := make([]schema.Entry, r.IntN(25))
	for i := range entries {
		entries[i] = schema.Entry{Key: schema.StringValue(fmt.Sprintf("k%d:%s", i, Text(r))), Value: Schemaless(r, depth-1)}
	}
	return schema.MapValue(entries)
}

// Copy is a schema equal to s that shares no pointer with it.
func Copy(s *schema.Schema) *schema.Schema {
	return copier{}.copy(s)
}

// copier knows the recursive structs that are being copied.
type copier map[*schema.Schema]*schema.Builder

func (c copier) copy(s *schema.Schema) *schema.Schema {
	if s == nil {
		return nil
	}
	if b := c[s]; b != nil {
		return b.Self(s.Optional())
	}
	var b *schema.Builder
	switch s.Kind() {
	case schema.Array:
		b = schema.ArrayOf(c.copy(s.Elem()))
	case schema.Map:
		b = schema.MapOf(c.copy(s.Key()), c.copy(s.Elem()))
	case schema.Struct:
		b = schema.New(s.Kind())
		if _, has := s.Default(); s.Recursive() && !has {
			c[s] = b
			defer delete(c, s)
		}
	default:
		b = schema.New(s.Kind())
	}
	b.Name(s.Name()).Doc(s.Doc()).SetOptional(s.Optional())
	if n, ok := s.Version(); ok {
		b.Version(n)
	}
	for _, p := range s.Params() {
		b.Param(p.Key, p.Value)
	}
	for _, f := range s.Fields() {
		b.Field(f.Name, c.copy(f.Schema))
	}
	if def, ok := s.Default(); ok {
		b.Default(def)
	}
	return b.Build()
}
