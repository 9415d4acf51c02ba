package javatext

import "millrace/schema"

var classes = [...]string{
	schema.Null: "null", schema.Bool: "java.lang.Boolean", schema.Int8: "java.lang.Byte", schema.Int16: "java.lang.Short", schema.Int32: "java.lang.Integer",
	schema.Int64: "java.lang.Long", schema.Float32: "java.lang.Float", schema.Float64: "java.lang.Double", schema.String: "java.lang.String", schema.Bytes: "[B",
	schema.Array: "java.util.ArrayList", schema.Map: "java.util.HashMap", schema.Struct: "org.apache.kafka.connect.data.Struct",
	schema.Decimal: "java.math.BigDecimal", schema.Date: "java.util.Date", schema.Time: "java.util.Date", schema.Timestamp: "java.util.Date",
}

// ClassName is the Java class of values of a kind, for messages that people search
// for as the originals word them.
func ClassName(k schema.Kind) string {
	if int(k) < len(classes) {
		return classes[k]
	}
	return k.String()
}
