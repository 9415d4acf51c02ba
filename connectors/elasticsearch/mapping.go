package elasticsearch

import (
	"millrace/schema"
	"millrace/schema/converters"
	"millrace/schema/javatext"
)

// appendMapping appends the mapping of a schema: {"properties":{…}} of a struct.
func appendMapping(dst []byte, s *schema.Schema, compact bool) []byte {
	m := mapping{compact, map[*schema.Schema]bool{}}
	return m.append(dst, s)
}

// mapping is a mapping that is being written.
type mapping struct {
	compact bool
	open    map[*schema.Schema]bool // recursive structs around what is written
}

func (m *mapping) append(dst []byte, s *schema.Schema) []byte {
	switch s.ValueKind() {
	case schema.Struct:
		if s.Recursive() {
			if m.open[s] { // a mapping has an end: what is below is mapped when it comes
				return append(dst, dynamicObject...)
			}
			m.open[s] = true
			defer delete(m.open, s)
		}
		dst = append(dst, `{"properties":{`...)
		for i, f := range s.Fields() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(javatext.AppendJSONUTF8(dst, []byte(f.Name)), ':')
			dst = m.append(dst, f.Schema)
		}
		return append(dst, "}}"...)
	case schema.Map:
		if m.compact && (s.Key() == nil || s.Key().Kind() == schema.String) {
			return append(dst, `{"type":"object"}`...)
		}
		dst = append(dst, `{"properties":{"key":`...)
		dst = m.part(dst, s.Key())
		dst = append(dst, `,"value":`...)
		dst = m.part(dst, s.Elem())
		return append(dst, "}}"...)
	case schema.Array: // an array is mapped as its elements are
		return m.part(dst, s.Elem())
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

// dynamicObject lets the server decide.
const dynamicObject = `{"type":"object","dynamic":true}`

// part is append for a part that may have no schema.
func (m *mapping) part(dst []byte, s *schema.Schema) []byte {
	if s == nil {
		return append(dst, dynamicObject...)
	}
	return m.append(dst, s)
}
