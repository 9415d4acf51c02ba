package elasticsearch

import (
	"millrace/schema"
	"millrace/schema/converters"
	"millrace/schema/javatext"
)

// appendMapping appends the mapping of a schema: {"properties":{…}} of a struct.
func appendMapping(dst []byte, s *schema.Schema, compact bool) []byte {
	switch s.ValueKind() {
	case schema.Struct:
		dst = append(dst, `{"properties":{`...)
		for i, f := range s.Fields() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(converters.AppendJSONString(dst, []byte(f.Name)), ':')
			dst = appendMapping(dst, f.Schema, compact)
		}
		return append(dst, "}}"...)
	case schema.Map:
		if compact && (s.Key() == nil || s.Key().Kind() == schema.String) {
			return append(dst, `{"type":"object"}`...)
		}
		dst = append(dst, `{"properties":{"key":`...)
		dst = appendPart(dst, s.Key(), compact)
		dst = append(dst, `,"value":`...)
		dst = appendPart(dst, s.Elem(), compact)
		return append(dst, "}}"...)
	case schema.Array: // an array is mapped as its elements are
		return appendPart(dst, s.Elem(), compact)
	case schema.String: // a text has no null_value
		return append(dst, `{"type":"text","fields":{"keyword":{"type":"keyword","ignore_above":256}}}`...)
	case schema.Bytes:
		return append(dst, `{"type":"binary"}`...)
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, mappingTypes[s.ValueKind()]...)
	dst = append(dst, '"')
	if def, ok := s.Default(); ok {
		dst = append(dst, `,"null_value":`...)
		if def.Kind() == schema.Date {
			def = schema.Int64Value(def.Int() * javatext.MillisPerDay)
		}
		dst = converters.AppendJSONScalar(dst, def)
	}
	return append(dst, '}')
}

var mappingTypes = map[schema.Kind]string{
	schema.Bool: "boolean", schema.Int8: "byte", schema.Int16: "short", schema.Int32: "integer", schema.Int64: "long",
	schema.Float32: "float", schema.Float64: "double", schema.Decimal: "double",
	schema.Date: "date", schema.Time: "date", schema.Timestamp: "date",
}

// appendPart is appendMapping for a part that may have no schema: the server decides.
func appendPart(dst []byte, s *schema.Schema, compact bool) []byte {
	if s == nil {
		return append(dst, `{"type":"object","dynamic":true}`...)
	}
	return appendMapping(dst, s, compact)
}
