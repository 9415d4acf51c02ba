package transforms

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

var castSpec = config.Key[[]string]{Name: "spec", Required: true, Importance: config.High, Check: castIsThere,
	Doc: "What to cast, as field:type, or a type alone for the whole. Types: int8, int16, int32, int64, float32, float64, boolean, string."}

func castIsThere(list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("Must specify at least one field to cast.")
	}
	return nil
}

// Cast changes the types of fields.
var Cast = pair("cast", "Cast", "Casts fields of the %s, or the whole of it, to other types. A null stays null.", config.Define(castSpec, replaceNull), newCast)

type cast struct {
	programs
	half
	whole    schema.Kind // Null: fields
	fields   map[string]schema.Kind
	order    []string
	defaults bool
	wholes   schema.Cache[*schema.Schema]
	text     []byte
}

// castTypes are the types that a value can be cast to.
var castTypes = map[string]schema.Kind{
	"INT8": schema.Int8, "INT16": schema.Int16, "INT32": schema.Int32, "INT64": schema.Int64, "FLOAT32": schema.Float32, "FLOAT64": schema.Float64,
	"BOOLEAN": schema.Bool, "STRING": schema.String,
}

func newCast(v config.Values, h half) (Transform, error) {
	t := &cast{half: h, fields: map[string]schema.Kind{}, defaults: replaceNull.Get(v)}
	spec := castSpec.Get(v)
	for _, mapping := range spec {
		field, text, named := strings.Cut(mapping, ":")
		if !named {
			text = mapping
		}
		field, text = strings.TrimSpace(field), strings.TrimSpace(text)
		if strings.Contains(text, ":") {
			return nil, castSpec.Errorf(v, "Invalid rename mapping: %s", mapping)
		}
		kind, err := castType(text)
		if err != nil {
			return nil, err
		}
		if !named {
			if len(spec) > 1 {
				return nil, &config.Error{Key: castSpec.Name, Text: "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"}
			}
			t.whole = kind
			continue
		}
		if _, twice := t.fields[field]; !twice {
			t.order = append(t.order, field)
		}
		t.fields[field] = kind
	}
	return t, nil
}

func castType(text string) (schema.Kind, error) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	if k, ok := castTypes[upper]; ok {
		return k, nil
	}
	switch upper {
	case "BYTES", "ARRAY", "MAP", "STRUCT":
		return 0, &config.Error{Key: castSpec.Name, Text: fmt.Sprintf(
			"Cast transformation does not support casting to %s; supported types are [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]", upper)}
	}
	return 0, &config.Error{Key: castSpec.Name, Text: fmt.Sprintf(
		"Invalid value java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.%s for configuration Invalid type found in casting spec: %s", upper, text)}
}

const casting = "cast types"

func (t *cast) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if v.IsNull() {
		return r, true, nil
	}
	if s == nil {
		out, err := t.schemaless(v)
		if err != nil {
			return r, false, err
		}
		t.set(&r, nil, out)
		return r, true, nil
	}
	if t.whole == schema.Null {
		if err := requireStruct(v, casting); err != nil {
			return r, false, err
		}
		return t.apply(t, &r)
	}
	to, err := t.wholes.Get(s, func(s *schema.Schema) (*schema.Schema, error) { return castSchema(s, t.whole) })
	if err != nil {
		return r, false, err
	}
	out, err := castValue(v, t.whole)
	if err != nil {
		return r, false, err
	}
	t.set(&r, to, out)
	return r, true, nil
}

func (t *cast) schemaless(v schema.Value) (schema.Value, error) {
	if t.whole != schema.Null {
		return castValue(v, t.whole)
	}
	if err := requireMap(v, casting); err != nil {
		return v, err
	}
	m := append([]schema.Entry(nil), v.Entries()...)
	for _, name := range t.order {
		old, _ := v.Lookup(name)
		to, err := castValue(old, t.fields[name])
		if err != nil {
			return v, schema.Under(name, err)
		}
		m = put(m, name, to)
	}
	return schema.MapValue(m), nil
}

func (t *cast) plan(p *plan) error {
	if t.whole != schema.Null {
		return errUnplanned
	}
	s, from, err := p.openRead(t.half, t.defaults)
	if err != nil {
		return err
	}
	fields := slices.Clone(from)
	b := basics(s).SetOptional(s.Optional())
	for i, f := range s.Fields() {
		fs := f.Schema
		if to, ok := t.fields[f.Name]; ok {
			if fs, err = castSchema(f.Schema, to); err != nil {
				return schema.Under(f.Name, err)
			}
			fields[i] = p.compute(from[i], f.Name, func(v schema.Value) (schema.Value, error) { return t.value(v, to) })
		}
		b.Field(f.Name, fs)
	}
	out, err := b.TryBuild()
	p.set(t.half, out, fields)
	return err
}

// value is castValue, which makes the texts of numbers in the arena.
func (t *cast) value(v schema.Value, to schema.Kind) (schema.Value, error) {
	if to == schema.String {
		switch v.Kind() {
		case schema.String:
			return v, nil
		case schema.Bool, schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Float32, schema.Float64:
			t.text = javatext.AppendValue(t.text[:0], v)
			return t.arena.String(t.text), nil
		}
	}
	return castValue(v, to)
}

// castSchema is the schema of what is cast: optional as it was, its default cast.
func castSchema(s *schema.Schema, to schema.Kind) (*schema.Schema, error) {
	b := schema.New(to).SetOptional(s.Optional())
	if def, ok := s.Default(); ok {
		def, err := castValue(def, to)
		if err != nil {
			return nil, err
		}
		b.Default(def)
	}
	return b.TryBuild()
}

// castValue casts as Java does: numbers wrap around and lose their fractions, NaN
// is 0, text is parsed, a logical type is the number that encodes it.
func castValue(v schema.Value, to schema.Kind) (schema.Value, error) {
	switch v.Kind() {
	case schema.Null:
		return v, nil
	case schema.Array, schema.Map, schema.Struct:
		return v, &schema.DataError{Reason: fmt.Sprintf(
			"Cast transformation does not support casting from %v; supported types are [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]", v.Kind())}
	}
	if to == schema.String {
		return schema.StringOfBytes(castText(v)), nil
	}
	if v.Kind() == schema.Bytes {
		return v, &schema.DataError{Reason: "Unexpected type in Cast transformation: class [B"}
	}
	if v.Kind() == schema.String {
		return parseText(v.Str(), to)
	}
	switch to {
	case schema.Float32, schema.Float64:
		f := floatOf(v)
		if to == schema.Float32 {
			if v.Kind() >= schema.Int8 && v.Kind() <= schema.Int64 {
				return schema.Float32Value(float32(v.Int())), nil // not by way of a double: rounded once
			}
			return schema.Float32Value(float32(f)), nil
		}
		return schema.Float64Value(f), nil
	case schema.Bool:
		return schema.BoolValue(longOf(v) != 0), nil
	case schema.Int64:
		return schema.Int64Value(longOf(v)), nil
	}
	n := longOf(v)
	if v.Kind() == schema.Float32 || v.Kind() == schema.Float64 {
		n = min(max(n, math.MinInt32), math.MaxInt32) // Java goes by way of an int
	}
	return integer(n, to), nil
}

// integer is n as a kind of fewer bits, wrapped around.
func integer(n int64, to schema.Kind) schema.Value {
	switch to {
	case schema.Int8:
		return schema.Int8Value(int8(n))
	case schema.Int16:
		return schema.Int16Value(int16(n))
	case schema.Int32:
		return schema.Int32Value(int32(n))
	}
	return schema.Int64Value(n)
}

func castText(v schema.Value) []byte {
	switch v.Kind() {
	case schema.Bytes:
		return base64.StdEncoding.AppendEncode(nil, v.Bytes())
	case schema.Date, schema.Time, schema.Timestamp:
		return javatext.AppendDateByValue(nil, v)
	}
	return javatext.AppendValue(nil, v)
}

// longOf is a number or boolean as Java's longValue has it.
func longOf(v schema.Value) int64 {
	switch v.Kind() {
	case schema.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case schema.Float32, schema.Float64:
		switch f := v.Float(); {
		case f != f:
			return 0
		case f >= math.MaxInt64:
			return math.MaxInt64
		case f <= math.MinInt64:
			return math.MinInt64
		default:
			return int64(f)
		}
	case schema.Decimal:
		return decimalLong(v)
	}
	return v.Int()
}

// decimalLong is the whole part of a decimal, its lowest 64 bits.
func decimalLong(v schema.Value) int64 {
	x := v.Unscaled()
	switch scale := int64(v.Scale()); {
	case scale > int64(x.BitLen())*302/1000+1:
		return 0 // less than one
	case scale > 0:
		x.Quo(x, new(big.Int).Exp(big.NewInt(10), big.NewInt(scale), nil))
	case scale <= -64:
		return 0 // a multiple of 2^64
	case scale < 0:
		x.Mul(x, new(big.Int).Exp(big.NewInt(10), big.NewInt(-scale), nil))
	}
	low := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64))
	return int64(low.Uint64())
}

func floatOf(v schema.Value) float64 {
	switch v.Kind() {
	case schema.Float32, schema.Float64:
		return v.Float()
	case schema.Decimal:
		f, _ := strconv.ParseFloat(string(v.AppendDecimal(nil)), 64) // infinite where it is too large, as in Java
		return f
	case schema.Bool:
		return float64(longOf(v))
	}
	return float64(v.Int())
}

// parseText reads a number or boolean as Java's parse methods do.
func parseText(text string, to schema.Kind) (schema.Value, error) {
	bad := func() (schema.Value, error) {
		shown := text
		if len(shown) > 100 {
			shown = shown[:100] + "…"
		}
		return schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("Value (%s) was out of range for requested data type", shown)}
	}
	switch to {
	case schema.Bool:
		return schema.BoolValue(strings.EqualFold(text, "true")), nil
	case schema.Float32, schema.Float64:
		bits := 64
		if to == schema.Float32 {
			bits = 32
		}
		f, ok := javatext.ParseFloat(text, bits)
		switch {
		case !ok:
			return bad()
		case bits == 32:
			return schema.Float32Value(float32(f)), nil
		}
		return schema.Float64Value(f), nil
	}
	n, err := strconv.ParseInt(text, 10, 8<<(to-schema.Int8))
	if err != nil {
		return bad()
	}
	return integer(n, to), nil
}
