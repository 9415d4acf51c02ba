package converters

import (
	"fmt"
	"strconv"

	"millrace/schema"
	"millrace/schema/javatext"
)

// AppendJSONScalar appends a value that has no parts: numbers as they are, NaN and
// infinities as strings, bytes in base64, a decimal with all its digits, a DATE, TIME or
// TIMESTAMP as its number of days or milliseconds. Another kind is a bug: it panics.
func AppendJSONScalar(dst []byte, v schema.Value) []byte {
	switch v.Kind() {
	case schema.Null:
		return append(dst, "null"...)
	case schema.Bool:
		return appendJSONBool(dst, v.Bool())
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Date, schema.Time, schema.Timestamp:
		return strconv.AppendInt(dst, v.Int(), 10)
	case schema.Float32, schema.Float64:
		return appendJSONFloat(dst, v)
	case schema.String:
		return javatext.AppendJSONUTF8(dst, v.StrBytes())
	case schema.Bytes:
		return appendJSONBytes(dst, v.Bytes())
	case schema.Decimal:
		return v.AppendDecimalPlain(dst)
	}
	panic(fmt.Sprintf("converters: %v is no scalar", v.Kind()))
}
