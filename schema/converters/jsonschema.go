package converters

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/javatext"
)

// appendScalar appends a value that has no parts.
func (c *jsonConverter) appendScalar(dst []byte, v schema.Value) []byte {
	switch v.Kind() {
	case schema.String:
		return javatext.AppendJSONUTF8(dst, v.StrBytes())
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Date, schema.Time, schema.Timestamp:
		return strconv.AppendInt(dst, v.Int(), 10)
	case schema.Float32, schema.Float64:
		return appendJSONFloat(dst, v)
	case schema.Bool:
		return appendJSONBool(dst, v.Bool())
	case schema.Bytes:
		return appendJSONBytes(dst, v.Bytes())
	case schema.Decimal:
		if c.numeric {
			return v.AppendDecimal(dst)
		}
		var room [32]byte
		return appendJSONBytes(dst, v.AppendUnscaled(room[:0]))
	}
	return append(dst, "null"...)
}

// appendSchemaless appends data that has no schema. A struct in it is written by
// its own schema. Java has no place for a Date without a schema in JSON; such a
// value is a data error, as there. A decimal (a whole number beyond 64 bits) is a
// number.
func (c *jsonConverter) appendSchemaless(dst []byte, v schema.Value) ([]byte, error) {
	var err error
	switch v.Kind() {
	case schema.Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = c.appendSchemaless(dst, e); err != nil {
				return dst, schema.Under("["+strconv.Itoa(i)+"]", err)
			}
		}
		return append(dst, ']'), nil
	case schema.Map:
		return c.appendMap(dst, &schemalessMap, v)
	case schema.Struct:
		plan, err := c.plans.Get(v.Schema(), c.compile)
		if err != nil {
			return dst, err
		}
		return c.append(dst, plan.root, v)
	case schema.Date, schema.Time, schema.Timestamp:
		return dst, &schema.DataError{Reason: fmt.Sprintf("a %v without a schema has no form in JSON (Java class class java.util.Date does not have corresponding schema type.); "+
			"convert it to unix or string first, or use a schema", v.Kind())}
	case schema.Decimal:
		return v.AppendDecimal(dst), nil
	}
	return c.appendScalar(dst, v), nil
}

var schemalessMap = jsonNode{kind: schema.Map}

// jsonTypes are the names of kinds in a schema's JSON.
var jsonTypes = [...]string{
	schema.Bool: "boolean", schema.Int8: "int8", schema.Int16: "int16", schema.Int32: "int32", schema.Int64: "int64",
	schema.Float32: "float", schema.Float64: "double", schema.String: "string", schema.Bytes: "bytes",
	schema.Array: "array", schema.Map: "map", schema.Struct: "struct",
}

// appendSchema appends a schema's JSON, in the order of Connect's: type, parts,
// optional, name, version, doc, parameters, default, and the field's name that it
// stands for in its struct.
func (c *jsonConverter) appendSchema(dst []byte, s *schema.Schema, field string, nodes map[*schema.Schema]*jsonNode) ([]byte, error) {
	return c.appendSchemaAs(dst, s, field, false, nodes)
}

func (c *jsonConverter) appendSchemaAs(dst []byte, s *schema.Schema, field string, isField bool, nodes map[*schema.Schema]*jsonNode) ([]byte, error) {
	if s == nil {
		return append(dst, "null"...), nil
	}
	text := func(key, value string) {
		dst = append(dst, key...)
		dst = javatext.AppendJSONUTF8(dst, []byte(value))
	}
	var err error
	text(`{"type":`, jsonTypes[s.Kind()])
	switch s.Kind() {
	case schema.Array:
		dst = append(dst, `,"items":`...)
		dst, err = c.appendSchema(dst, s.Elem(), "", nodes)
	case schema.Map:
		dst = append(dst, `,"keys":`...)
		if dst, err = c.appendSchema(dst, s.Key(), "", nodes); err == nil {
			dst = append(dst, `,"values":`...)
			dst, err = c.appendSchema(dst, s.Elem(), "", nodes)
		}
	case schema.Struct:
		dst = append(dst, `,"fields":[`...)
		for i, f := range s.Fields() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = c.appendSchemaAs(dst, f.Schema, f.Name, true, nodes); err != nil {
				break
			}
		}
		dst = append(dst, ']')
	}
	if err != nil {
		return dst, err
	}
	dst = appendJSONBool(append(dst, `,"optional":`...), s.Optional())
	if s.Name() != "" {
		text(`,"name":`, s.Name())
	}
	if n, ok := s.Version(); ok {
		dst = strconv.AppendInt(append(dst, `,"version":`...), int64(n), 10)
	}
	if s.Doc() != "" {
		text(`,"doc":`, s.Doc())
	}
	for i, p := range s.Params() {
		if i == 0 {
			dst = append(dst, `,"parameters":{`...)
		} else {
			dst = append(dst, ',')
		}
		dst = javatext.AppendJSONUTF8(dst, []byte(p.Key))
		text(":", p.Value)
	}
	if len(s.Params()) > 0 {
		dst = append(dst, '}')
	}
	if def, ok := s.Default(); ok {
		n, err := c.node(s, nodes)
		if err != nil {
			return dst, err
		}
		if dst, err = c.append(append(dst, `,"default":`...), n, def); err != nil {
			return dst, err
		}
	}
	if isField {
		text(`,"field":`, field)
	}
	return append(dst, '}'), nil
}

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }
