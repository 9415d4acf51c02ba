package file

import (
	"strconv"
	"time"

	"millrace/schema"
	"millrace/schema/javatext"
)

// appendText appends a value as Java's println prints it: "null" for null,
// {a=1, b=x} for a map, [1, 2] for a list, Struct{a=1,b=x} for a struct, whose null
// fields are left out. Two things are ours: bytes stand as they are, where Java
// prints its array's address, and dates are in UTC, not in the process's zone.
func appendText(dst []byte, v schema.Value) []byte {
	switch v.Kind() {
	case schema.Null:
		return append(dst, "null"...)
	case schema.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case schema.Float32:
		return javatext.AppendFloat(dst, float32(v.Float()))
	case schema.Float64:
		return javatext.AppendDouble(dst, v.Float())
	case schema.String:
		return append(dst, v.StrBytes()...)
	case schema.Bytes:
		return append(dst, v.Bytes()...)
	case schema.Decimal:
		return v.AppendDecimal(dst)
	case schema.Date:
		return appendDate(dst, time.Unix(v.Int()*86400, 0))
	case schema.Time, schema.Timestamp:
		return appendDate(dst, time.UnixMilli(v.Int()))
	case schema.Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendText(dst, e)
		}
		return append(dst, ']')
	case schema.Map:
		dst = append(dst, '{')
		for i, e := range v.Entries() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendText(append(appendText(dst, e.Key), '='), e.Value)
		}
		return append(dst, '}')
	case schema.Struct:
		dst = append(dst, "Struct{"...)
		first := true
		for i, f := range v.Schema().Fields() {
			x := v.Fields()[i]
			if x.IsNull() {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendText(append(append(dst, f.Name...), '='), x)
		}
		return append(dst, '}')
	}
	return dst
}

// appendDate appends a java.util.Date in UTC.
func appendDate(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "Mon Jan 02 15:04:05 UTC 2006")
}
