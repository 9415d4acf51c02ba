package postgres

import (
	"crypto/md5"
	"encoding/hex"
	"strings"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
)

// held is what stands for a large value that an update left alone: the placeholder in
// the form of the column's schema. Numbers hold its bytes: each element of an array
// one of them, a decimal all of them.
func (s *settings) held(sc *schema.Schema) schema.Value {
	text := string(s.placeholder)
	switch sc.ValueKind() {
	case schema.String:
		if sc.Name() == envelope.UUIDName { // an element of an array: a uuid is never large
			return schema.StringValue(nameUUID(s.placeholder))
		}
		return schema.StringValue(text)
	case schema.Bytes:
		return schema.BytesValue(s.placeholder)
	case schema.Decimal:
		return schema.DecimalBytes(s.placeholder, sc.Scale())
	case schema.Map:
		return schema.MapValue([]schema.Entry{{Key: schema.StringValue(text), Value: schema.StringValue(text)}})
	case schema.Struct:
		f := make([]schema.Value, len(sc.Fields()))
		for i, part := range sc.Fields() {
			if part.Schema.Kind() == schema.Bytes {
				f[i] = schema.BytesValue(s.placeholder)
			} else if !part.Schema.Optional() {
				f[i] = zeroOf(part.Schema)
			}
		}
		return schema.StructValue(sc, f)
	case schema.Array:
		elem := sc.Elem()
		var of func(b byte) schema.Value
		switch elem.ValueKind() {
		case schema.Int16:
			of = func(b byte) schema.Value { return schema.Int16Value(int16(b)) }
		case schema.Int32:
			of = func(b byte) schema.Value { return schema.Int32Value(int32(b)) }
		case schema.Int64:
			of = func(b byte) schema.Value { return schema.Int64Value(int64(b)) }
		case schema.Float32:
			of = func(b byte) schema.Value { return schema.Float32Value(float32(b)) }
		case schema.Float64:
			of = func(b byte) schema.Value { return schema.Float64Value(float64(b)) }
		case schema.Bool:
			of = func(b byte) schema.Value { return schema.BoolValue(b&1 == 1) }
		case schema.Date:
			of = func(b byte) schema.Value { return schema.DateValue(int64(b)) }
		case schema.Time:
			of = func(b byte) schema.Value { return schema.TimeValue(int64(b)) }
		case schema.Timestamp:
			of = func(b byte) schema.Value { return schema.TimestampValue(int64(b)) }
		default:
			return schema.ArrayValue([]schema.Value{s.held(elem)})
		}
		vals := make([]schema.Value, len(s.placeholder))
		for i, b := range s.placeholder {
			vals[i] = of(b)
		}
		return schema.ArrayValue(vals)
	}
	return zeroOf(sc) // never stored out of line
}

// zeroOf is the value of a required column that has none, as in the old row of a
// delete, which holds the key alone: what Debezium falls back to.
func zeroOf(s *schema.Schema) schema.Value {
	switch s.ValueKind() {
	case schema.Bool:
		return schema.BoolValue(false)
	case schema.Int8:
		return schema.Int8Value(0)
	case schema.Int16:
		return schema.Int16Value(0)
	case schema.Int32:
		return schema.Int32Value(0)
	case schema.Int64:
		return schema.Int64Value(0)
	case schema.Float32:
		return schema.Float32Value(0)
	case schema.Float64:
		return schema.Float64Value(0)
	case schema.String:
		return schema.StringValue(zeroText(s.Name()))
	case schema.Bytes:
		return schema.BytesValue(nil)
	case schema.Decimal:
		return schema.DecimalInt64(0, s.Scale())
	case schema.Date:
		return schema.DateValue(0)
	case schema.Time:
		return schema.TimeValue(0)
	case schema.Timestamp:
		return schema.TimestampValue(0)
	case schema.Array:
		return schema.ArrayValue(nil)
	case schema.Map:
		return schema.MapValue(nil)
	case schema.Struct:
		f := make([]schema.Value, len(s.Fields()))
		for i, part := range s.Fields() {
			if !part.Schema.Optional() {
				f[i] = zeroOf(part.Schema)
			}
		}
		return schema.StructValue(s, f)
	}
	return schema.Value{}
}

// zeroText is a semantic type's zero where its schema is text.
func zeroText(name string) string {
	switch name {
	case envelope.ZonedTimestampName, envelope.IsoTimestampName:
		return "1970-01-01T00:00:00Z"
	case envelope.ZonedTimeName, envelope.IsoTimeName:
		return "00:00:00Z"
	case envelope.IsoDateName:
		return "1970-01-01Z"
	case envelope.IntervalName:
		return "P0Y0M0DT0H0M0S"
	}
	return ""
}

// zeroDecimalText is the zero of decimal.handling.mode=string.
func zeroDecimalText(scale int) func(*schema.Schema) schema.Value {
	text := "0"
	if scale > 0 {
		text += "." + strings.Repeat("0", scale)
	}
	return func(*schema.Schema) schema.Value { return schema.StringValue(text) }
}

func zeroVariable(s *schema.Schema) schema.Value {
	return schema.StructValue(s, []schema.Value{schema.Int32Value(0), schema.BytesValue([]byte{0})})
}

func zeroPoint(s *schema.Schema) schema.Value {
	v, _ := decodePoint(s)(&schema.Arena{}, []byte("(0,0)")) // a constant that is read
	return v
}

// zeroShape is GEOMETRYCOLLECTION EMPTY.
func zeroShape(s *schema.Schema) schema.Value {
	return schema.StructValue(s, []schema.Value{schema.BytesValue([]byte{1, 7, 0, 0, 0, 0, 0, 0, 0}), {}})
}

// heldBinary is the placeholder in the form of binary.handling.mode; with hex it is the
// text as it is, which no hexadecimal text can be.
func heldBinary(s *settings) schema.Value {
	if s.binary == cdc.BinaryHex {
		return schema.StringValue(string(s.placeholder))
	}
	return s.binary.Value(&schema.Arena{}, s.placeholder)
}

// heldHstore is the placeholder as the key and the value of an hstore's JSON.
func heldHstore(s *settings) schema.Value {
	word := string(javatext.AppendJSON(nil, string(s.placeholder)))
	return schema.StringValue("{" + word + ":" + word + "}")
}

// nameUUID is the UUID, version 3, that Java makes of bytes.
func nameUUID(b []byte) string {
	sum := md5.Sum(b)
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
