package envelope

import (
	"strconv"
	"strings"

	"millrace/schema"
)

// The names of Debezium's semantic types. Their values are of the schema's own kind.
const (
	DateName                 = "io.debezium.time.Date"           // INT32: days since 1970-01-01
	TimeName                 = "io.debezium.time.Time"           // INT32: milliseconds since midnight
	MicroTimeName            = "io.debezium.time.MicroTime"      // INT64: microseconds since midnight
	NanoTimeName             = "io.debezium.time.NanoTime"       // INT64: nanoseconds since midnight
	TimestampName            = "io.debezium.time.Timestamp"      // INT64: milliseconds, as if the local time were UTC
	MicroTimestampName       = "io.debezium.time.MicroTimestamp" // INT64: microseconds
	NanoTimestampName        = "io.debezium.time.NanoTimestamp"  // INT64: nanoseconds
	ZonedTimeName            = "io.debezium.time.ZonedTime"      // STRING, in UTC
	ZonedTimestampName       = "io.debezium.time.ZonedTimestamp" // STRING, in UTC
	IsoDateName              = "io.debezium.time.IsoDate"        // STRING: 2024-01-02Z
	IsoTimeName              = "io.debezium.time.IsoTime"        // STRING: 04:05:06.123456Z
	IsoTimestampName         = "io.debezium.time.IsoTimestamp"   // STRING: 2024-01-02T03:04:05.123456Z
	IntervalName             = "io.debezium.time.Interval"       // STRING: ISO 8601
	MicroDurationName        = "io.debezium.time.MicroDuration"  // INT64: microseconds
	YearName                 = "io.debezium.time.Year"           // INT32
	BitsName                 = "io.debezium.data.Bits"           // BYTES, little endian
	EnumName                 = "io.debezium.data.Enum"           // STRING
	EnumSetName              = "io.debezium.data.EnumSet"        // STRING
	JSONName                 = "io.debezium.data.Json"           // STRING
	XMLName                  = "io.debezium.data.Xml"            // STRING
	UUIDName                 = "io.debezium.data.Uuid"           // STRING
	LtreeName                = "io.debezium.data.Ltree"          // STRING
	TsvectorName             = "io.debezium.data.Tsvector"       // STRING
	VariableScaleDecimalName = "io.debezium.data.VariableScaleDecimal"
	PointName                = "io.debezium.data.geometry.Point"
	GeometryName             = "io.debezium.data.geometry.Geometry"
	GeographyName            = "io.debezium.data.geometry.Geography"
	DoubleVectorName         = "io.debezium.data.DoubleVector" // ARRAY of FLOAT64
	FloatVectorName          = "io.debezium.data.FloatVector"  // ARRAY of FLOAT32
	SparseDoubleVectorName   = "io.debezium.data.SparseDoubleVector"

	AllowedParam = "allowed" // of enums: the labels, joined with commas
	LengthParam  = "length"  // of bits
)

// Semantic starts the schema of a primitive kind under one of these names, version 1.
func Semantic(k schema.Kind, name string) *schema.Builder {
	return schema.New(k).Name(name).Version(1)
}

// Enum starts the schema of an enumeration with these labels.
func Enum(labels []string) *schema.Builder {
	return Semantic(schema.String, EnumName).Param(AllowedParam, strings.Join(labels, ","))
}

// Bits starts the schema of a bit string of at most n bits.
func Bits(n int) *schema.Builder {
	return Semantic(schema.Bytes, BitsName).Param(LengthParam, strconv.Itoa(n))
}

// VariableScaleDecimal starts the schema of a number with a scale of its own: a
// struct of scale and the unscaled number's bytes.
func VariableScaleDecimal() *schema.Builder {
	return schema.NewStruct(VariableScaleDecimalName).Version(1).Doc("Variable scaled decimal").
		Field("scale", schema.Int32Schema).Field("value", schema.BytesSchema)
}

// Point starts the schema of a point: x, y, its WKB and its SRID.
func Point() *schema.Builder {
	return schema.NewStruct(PointName).Version(1).Doc("Geometry (POINT)").
		Field("x", schema.Float64Schema).Field("y", schema.Float64Schema).
		Field("wkb", schema.OptionalBytes).Field("srid", schema.OptionalInt32)
}

// Geometry starts the schema of a shape in WKB, under GeometryName or GeographyName.
func Geometry(name, doc string) *schema.Builder {
	return schema.NewStruct(name).Version(1).Doc(doc).
		Field("wkb", schema.BytesSchema).Field("srid", schema.OptionalInt32)
}

// DoubleVector starts the schema of a vector of doubles.
func DoubleVector() *schema.Builder {
	return schema.ArrayOf(schema.Float64Schema).Name(DoubleVectorName).Version(1)
}

// FloatVector starts the schema of a vector of floats.
func FloatVector() *schema.Builder {
	return schema.ArrayOf(schema.Float32Schema).Name(FloatVectorName).Version(1)
}

var sparseElements = schema.MapOf(schema.Int16Schema, schema.Float64Schema).Build()

// SparseDoubleVector starts the schema of a vector of which only the elements that
// are not zero are given: a struct of the number of dimensions and a map from index,
// which begins at 1, to element.
func SparseDoubleVector() *schema.Builder {
	return schema.NewStruct(SparseDoubleVectorName).Version(1).Doc("Sparse double vector").
		Field("dimensions", schema.Int16Schema).Field("vector", sparseElements)
}
