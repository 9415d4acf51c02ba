package javatext

import (
	"encoding/base64"
	"strconv"

	"millrace/schema"
)

// AppendValue appends a value as Java's toString prints it: {a=1, b=[x, null]},
// Struct{id=1,name=Ann}. Bytes, for which Java prints an address, are base64.
func AppendValue(dst []byte, v schema.Value) []byte {
	switch v.Kind() {
	case schema.String:
		return append(dst, v.StrBytes()...)
	case schema.Bytes:
		return base64.StdEncoding.AppendEncode(dst, v.Bytes())
	case schema.Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = AppendValue(dst, e)
		}
		return append(dst, ']')
	case schema.Map:
		dst = append(dst, '{')
		for i, e := range v.Entries() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = AppendValue(append(AppendValue(dst, e.Key), '='), e.Value)
		}
		return append(dst, '}')
	case schema.Struct:
		dst = append(dst, "Struct{"...)
		first := true
		for i, f := range v.Fields() {
			if f.IsNull() {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = AppendValue(append(append(dst, v.Schema().Fields()[i].Name...), '='), f)
		}
		return append(dst, '}')
	}
	return AppendScalar(dst, v)
}

// AppendScalar is AppendValue for what has no parts and is no text.
func AppendScalar(dst []byte, v schema.Value) []byte {
	switch v.Kind() {
	case schema.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case schema.Float32:
		return AppendFloat(dst, float32(v.Float()))
	case schema.Float64:
		return AppendDouble(dst, v.Float())
	case schema.Decimal:
		return v.AppendDecimal(dst)
	case schema.Date:
		return AppendDateString(dst, v.Int()*MillisPerDay)
	case schema.Time, schema.Timestamp:
		return AppendDateString(dst, v.Int())
	}
	return append(dst, "null"...)
}

// DateMillis is the moment of a DATE, TIME or TIMESTAMP as a java.util.Date holds
// it: a day's midnight, a time on 1970-01-01.
func DateMillis(v schema.Value) int64 {
	if v.Kind() == schema.Date {
		return v.Int() * MillisPerDay
	}
	return v.Int()
}

// AppendDateByValue appends a DATE, TIME or TIMESTAMP as Connect's Values does,
// which goes by the number and not by the kind: what lies before the end of
// 1970-01-01 is a time, whole days are dates, the rest timestamps.
func AppendDateByValue(dst []byte, v schema.Value) []byte {
	ms := DateMillis(v)
	switch {
	case ms < MillisPerDay:
		_, ofDay := SplitMillis(ms)
		return AppendTime(dst, ofDay)
	case ms%MillisPerDay == 0:
		return AppendDate(dst, ms/MillisPerDay)
	}
	return AppendTimestamp(dst, ms)
}
