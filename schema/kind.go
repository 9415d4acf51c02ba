package schema

import "strconv"

// Kind says what a [Value] holds, and, without the last four, what a [Schema]
// describes.
type Kind uint8

// The kinds. The zero kind is Null, so that the zero [Value] is null.
//
// Decimal, Date, Time and Timestamp exist exactly where Java holds a BigDecimal
// or a java.util.Date: under a schema with a name of org.apache.kafka.connect.data,
// and in schemaless data made by a transform. Such a schema's own kind is that of
// its encoding ([Bytes], [Int32], [Int32], [Int64]); see [Schema.ValueKind].
const (
	Null Kind = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Float32
	Float64
	String
	Bytes
	Array
	Map
	Struct
	Decimal   // unscaled two's complement and a scale
	Date      // days since 1970-01-01
	Time      // milliseconds since midnight
	Timestamp // milliseconds since 1970-01-01T00:00:00Z
)

var kindNames = [...]string{
	Null: "NULL", Bool: "BOOLEAN", Int8: "INT8", Int16: "INT16", Int32: "INT32", Int64: "INT64",
	Float32: "FLOAT32", Float64: "FLOAT64", String: "STRING", Bytes: "BYTES", Array: "ARRAY", Map: "MAP",
	Struct: "STRUCT", Decimal: "DECIMAL", Date: "DATE", Time: "TIME", Timestamp: "TIMESTAMP",
}

// String is the kind's name in Connect's spelling, upper case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}
