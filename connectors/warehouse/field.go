package warehouse

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/javatext"
)

// A fieldPath leads to a field of a record's value: a name, or names with dots between them.
type fieldPath struct {
	text  string
	steps []string
}

func newFieldPath(text string) fieldPath { return fieldPath{text, strings.Split(text, ".")} }

// find is the field's value and its schema, nil where it has none. A field that is not there is a data error; one below a
// null is null.
func (f fieldPath) find(r *schema.Record) (schema.Value, *schema.Schema, error) {
	if v, s, ok := child(r.Value, r.ValueSchema, f.text); ok { // a name with dots in it
		return v, s, nil
	}
	v, s := r.Value, r.ValueSchema
	for i, name := range f.steps {
		if v.IsNull() && i > 0 {
			return schema.Value{}, nil, nil
		}
		var ok bool
		if v, s, ok = child(v, s, name); !ok {
			return v, nil, &schema.DataError{Path: f.text, Reason: "the value has no such field"}
		}
	}
	return v, s, nil
}

// child is the field of that name of a struct or map.
func child(v schema.Value, s *schema.Schema, name string) (schema.Value, *schema.Schema, bool) {
	switch v.Kind() {
	case schema.Struct:
		if i := v.Schema().Index(name); i >= 0 {
			return v.At(i), v.Schema().Fields()[i].Schema, true
		}
	case schema.Map:
		for _, e := range v.Entries() {
			if e.Key.Kind() == schema.String && e.Key.Str() == name {
				if s != nil {
					s = s.Elem()
				}
				return e.Value, s, true
			}
		}
	}
	return schema.Value{}, nil, false
}

// appendFieldText appends a value as it stands in a path, escaped.
func appendFieldText(dst []byte, f fieldPath, v schema.Value) ([]byte, error) {
	switch v.Kind() {
	case schema.Null:
		return append(dst, nullText...), nil
	case schema.String:
		return appendEscaped(dst, v.Str()), nil
	case schema.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case schema.Float32, schema.Float64, schema.Decimal:
		return appendEscaped(dst, string(javatext.AppendValue(nil, v))), nil
	case schema.Date:
		return javatext.AppendDate(dst, v.Int()), nil
	case schema.Time:
		return appendEscaped(dst, string(javatext.AppendTime(nil, v.Int()))), nil
	case schema.Timestamp:
		return appendEscaped(dst, string(javatext.AppendTimestamp(nil, v.Int()))), nil
	}
	return dst, &schema.DataError{Path: f.text, Reason: fmt.Sprintf("%v makes no folder's name; a text, a number, a boolean or a date does", v.Kind())}
}
