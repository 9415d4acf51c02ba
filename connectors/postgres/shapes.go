package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
)

// Shapes: points, what PostGIS adds, what the server prints of a shape that has no
// schema of its own, and pgvector's vectors.

// decodePoint reads (x,y).
func decodePoint(s *schema.Schema) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		x, y, rest, ok := cutPoint(b)
		if !ok || len(rest) > 0 {
			return schema.Value{}, fmt.Errorf("%q is no point", clip(b))
		}
		wkb := a.Bytes(21)
		wkb[0], wkb[1], wkb[2], wkb[3], wkb[4] = 1, 1, 0, 0, 0 // little endian; a point
		putFloat(wkb[5:], x)
		putFloat(wkb[13:], y)
		f := a.Values(4)
		f[0], f[1], f[2] = schema.Float64Value(x), schema.Float64Value(y), schema.BytesValue(wkb)
		return a.Struct(s, f), nil
	}
}

func putFloat(dst []byte, f float64) { binary.LittleEndian.PutUint64(dst, math.Float64bits(f)) }

// cutPoint reads (x,y) at the front of b.
func cutPoint(b []byte) (x, y float64, rest []byte, ok bool) {
	end := bytes.IndexByte(b, ')')
	if end < 4 || b[0] != '(' {
		return 0, 0, nil, false
	}
	first, second, ok := bytes.Cut(b[1:end], []byte(","))
	if !ok {
		return 0, 0, nil, false
	}
	x, err1 := strconv.ParseFloat(str(first), 64)
	y, err2 := strconv.ParseFloat(str(second), 64)
	return x, y, b[end+1:], err1 == nil && err2 == nil
}

// shapeText is the text of a box, circle, line, lseg, path or polygon with its numbers
// as Java prints them, which is how Debezium sends those as unknown types.
func shapeText(m cdc.BinaryMode) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		out := make([]byte, 0, 2*len(b))
		for i := 0; i < len(b); {
			n := 0
			for i+n < len(b) && bytes.IndexByte(shapeMarks, b[i+n]) < 0 {
				n++
			}
			if n == 0 {
				out = append(out, b[i])
				i++
				continue
			}
			f, err := strconv.ParseFloat(str(b[i:i+n]), 64)
			if err != nil {
				return schema.Value{}, fmt.Errorf("%q is no shape", clip(b))
			}
			out = javatext.AppendDouble(out, f)
			i += n
		}
		return m.Value(a, a.Copy(out)), nil
	}
}

var shapeMarks = []byte("()[]{}<>,")

var errShape = errors.New("is no shape in PostGIS's extended WKB")

// srid marks the type of an extended WKB that says its coordinate system.
const ewkbSRID = 0x20000000

// decodeGeometry reads the hexadecimal extended WKB of a geometry or geography into
// {wkb, srid}. The WKB stays extended, as in Debezium.
func decodeGeometry(s *schema.Schema) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		if len(b) < 18 || len(b)%2 != 0 {
			return schema.Value{}, errShape
		}
		wkb := a.Bytes(len(b) / 2)
		if _, err := hex.Decode(wkb, b); err != nil {
			return schema.Value{}, errShape
		}
		var order binary.ByteOrder = binary.LittleEndian
		if wkb[0] == 0 {
			order = binary.BigEndian
		}
		f := a.Values(2)
		f[0] = schema.BytesValue(wkb)
		if order.Uint32(wkb[1:])&ewkbSRID != 0 {
			f[1] = schema.Int32Value(int32(order.Uint32(wkb[5:])))
		}
		return a.Struct(s, f), nil
	}
}

// vector decodes [1,2.5]. bits is the size of an element.
func vector(bits int, value func(float64) schema.Value) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		if len(b) < 2 || b[0] != '[' || b[len(b)-1] != ']' {
			return schema.Value{}, fmt.Errorf("%q is no vector", clip(b))
		}
		body := b[1 : len(b)-1]
		if len(body) == 0 {
			return schema.ArrayValue(nil), nil
		}
		vals := a.Values(bytes.Count(body, comma) + 1)
		for i := range vals {
			item, rest, _ := bytes.Cut(body, comma)
			x, err := strconv.ParseFloat(str(item), bits)
			if err != nil {
				return schema.Value{}, fmt.Errorf("%q is no vector", clip(b))
			}
			vals[i], body = value(x), rest
		}
		return schema.ArrayValue(vals), nil
	}
}

var (
	comma        = []byte(",")
	doubleVector = vector(64, schema.Float64Value)
	floatVector  = vector(32, func(x float64) schema.Value { return schema.Float32Value(float32(x)) })
)

// sparseVector decodes {1:1.5,3:-2}/5 into {dimensions, vector}. A vector of more than
// 32,767 dimensions has no place in the schema that Debezium gave it.
func sparseVector(s *schema.Schema) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		bad := func() (schema.Value, error) { return schema.Value{}, fmt.Errorf("%q is no sparse vector", clip(b)) }
		body, size, ok := bytes.Cut(b, []byte("}/"))
		if !ok || len(body) == 0 || body[0] != '{' {
			return bad()
		}
		dims, ok := parseInt(size)
		if !ok || dims < 0 {
			return bad()
		}
		if dims > math.MaxInt16 {
			return schema.Value{}, fmt.Errorf("%q %w", clip(b), errDimensions)
		}
		var entries []schema.Entry
		if body = body[1:]; len(body) > 0 {
			entries = make([]schema.Entry, bytes.Count(body, comma)+1)
			for i := range entries {
				item, rest, _ := bytes.Cut(body, comma)
				index, text, ok := bytes.Cut(item, []byte(":"))
				at, ok2 := parseInt(index)
				x, err := strconv.ParseFloat(str(text), 64)
				if !ok || !ok2 || at < 1 || at > dims || err != nil {
					return bad()
				}
				entries[i] = schema.Entry{Key: schema.Int16Value(int16(at)), Value: schema.Float64Value(x)}
				body = rest
			}
		}
		f := a.Values(2)
		f[0], f[1] = schema.Int16Value(int16(dims)), schema.MapValue(entries)
		return a.Struct(s, f), nil
	}
}

var errDimensions = lossError("has more than 32767 dimensions, which its schema cannot say")

var pointSchema = envelope.Point().Build()
