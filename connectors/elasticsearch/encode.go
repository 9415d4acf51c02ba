package elasticsearch

import (
	"fmt"
	"strconv"

	"millrace/schema"
	"millrace/schema/converters"
)

const dayMillis = 86_400_000

// An encoder turns values into JSON documents. It compiles each schema once and is
// used by one goroutine.
//
// Numbers stand as they are, decimals with all their digits, dates, times and
// timestamps as milliseconds, bytes in base64, NaN and infinities as texts (the server
// refuses them in number fields). A null field with a default is that default.
type encoder struct {
	compact bool   // maps with texts for keys become objects
	leave   string // with partial: fields with this text are left out
	partial bool   // documents are partial updates
	plans   schema.Cache[*node]
}

// A node is the plan of a schema.
type node struct {
	s      *schema.Schema
	kind   schema.Kind
	fields []field
	elem   *node
	key    *node
	object bool // of a map
	def    schema.Value
}

type field struct {
	prefix []byte // `"name":`
	node   *node
}

// document appends the document of a value, which must be a struct or a map.
func (e *encoder) document(dst []byte, s *schema.Schema, v schema.Value) ([]byte, error) {
	if k := v.Kind(); k != schema.Struct && k != schema.Map {
		return dst, &schema.DataError{Reason: fmt.Sprintf("the value is %v; a document is a struct or a map", k)}
	}
	if v.Kind() == schema.Struct {
		s = v.Schema() // what the value really is
	}
	var n *node
	if s != nil {
		var err error
		if n, err = e.plans.Get(s, e.compile); err != nil {
			return dst, err
		}
		if n.kind == schema.Map && !n.object {
			return dst, &schema.DataError{Reason: "the value is a map that does not become an object; see compact.map.entries"}
		}
	}
	return e.append(dst, n, v)
}

func (e *encoder) compile(s *schema.Schema) (*node, error) {
	return e.node(s, map[*schema.Schema]*node{})
}

func (e *encoder) node(s *schema.Schema, seen map[*schema.Schema]*node) (*node, error) {
	if s == nil {
		return nil, nil
	}
	if n := seen[s]; n != nil {
		return n, nil
	}
	n := &node{s: s, kind: s.ValueKind()}
	seen[s] = n
	n.def, _ = s.Default()
	var err error
	switch s.Kind() {
	case schema.Struct:
		for _, f := range s.Fields() {
			part, err := e.node(f.Schema, seen)
			if err != nil {
				return nil, schema.Under(f.Name, err)
			}
			n.fields = append(n.fields, field{append(converters.AppendJSONString(nil, []byte(f.Name)), ':'), part})
		}
	case schema.Array:
		n.elem, err = e.node(s.Elem(), seen)
	case schema.Map:
		n.object = e.compact && (s.Key() == nil || s.Key().Kind() == schema.String)
		if n.key, err = e.node(s.Key(), seen); err == nil {
			n.elem, err = e.node(s.Elem(), seen)
		}
	}
	return n, err
}

// append appends v under n; a nil node is data without a schema.
func (e *encoder) append(dst []byte, n *node, v schema.Value) ([]byte, error) {
	k := v.Kind()
	if n != nil && k != n.kind {
		if k != schema.Null {
			return dst, &schema.DataError{Reason: fmt.Sprintf("%v under the schema %s", k, n.s)}
		}
		if n.def.IsNull() {
			if !n.s.Optional() {
				return dst, &schema.DataError{Reason: fmt.Sprintf("null under the required schema %s", n.s)}
			}
			return append(dst, "null"...), nil
		}
		return e.append(dst, n, n.def)
	}
	switch k {
	case schema.Struct:
		return e.appendStruct(dst, n, v)
	case schema.Map:
		return e.appendMap(dst, n, v)
	case schema.Array:
		var elem *node
		if n != nil {
			elem = n.elem
		}
		dst = append(dst, '[')
		for i, x := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = e.append(dst, elem, x); err != nil {
				return dst, schema.Under("["+strconv.Itoa(i)+"]", err)
			}
		}
		return append(dst, ']'), nil
	case schema.Date:
		return strconv.AppendInt(dst, v.Int()*dayMillis, 10), nil
	}
	return converters.AppendJSONScalar(dst, v), nil
}

func (e *encoder) appendStruct(dst []byte, n *node, v schema.Value) ([]byte, error) {
	if own := v.Schema(); n == nil || own != n.s && !schema.Equal(own, n.s) {
		if n != nil {
			return dst, &schema.DataError{Reason: fmt.Sprintf("a struct of the schema %s, which is not the %s that its place has", own, n.s)}
		}
		var err error
		if n, err = e.plans.Get(own, e.compile); err != nil { // a struct within data without a schema
			return dst, err
		}
	}
	dst = append(dst, '{')
	first := true
	for i, x := range v.Fields() {
		f := &n.fields[i]
		if e.partial && e.unavailable(x) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.prefix...)
		if k := x.Kind(); k == f.node.kind && k < schema.Array && k > schema.Null { // most fields: no call in between
			dst = converters.AppendJSONScalar(dst, x)
			continue
		}
		var err error
		if dst, err = e.append(dst, f.node, x); err != nil {
			return dst, schema.Under(n.s.Fields()[i].Name, err)
		}
	}
	return append(dst, '}'), nil
}

func (e *encoder) appendMap(dst []byte, n *node, v schema.Value) ([]byte, error) {
	var key, elem *node
	object := true // without a schema always
	if n != nil {
		key, elem, object = n.key, n.elem, n.object
	}
	open, end := byte('{'), byte('}')
	if !object {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	first := true
	for _, entry := range v.Entries() {
		if object && e.partial && e.unavailable(entry.Value) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		var err error
		switch {
		case !object:
			dst = append(dst, `{"key":`...)
			if dst, err = e.append(dst, key, entry.Key); err != nil {
				return dst, schema.Under("[key]", err)
			}
			dst = append(dst, `,"value":`...)
		case entry.Key.Kind() == schema.String:
			dst = append(converters.AppendJSONString(dst, entry.Key.StrBytes()), ':')
		case entry.Key.Kind() < schema.Array || entry.Key.Kind() > schema.Struct: // a field's name is a text
			at := len(dst)
			if dst, err = e.append(append(dst, '"'), key, entry.Key); err != nil {
				return dst, schema.Under("[key]", err)
			}
			if dst[at+1] == '"' { // it is one already
				dst = append(dst[:at], dst[at+1:]...)
			} else {
				dst = append(dst, '"')
			}
			dst = append(dst, ':')
		default:
			return dst, &schema.DataError{Path: "[key]", Reason: fmt.Sprintf("%v is no field's name", entry.Key.Kind())}
		}
		if dst, err = e.append(dst, elem, entry.Value); err != nil {
			return dst, schema.Under("["+strconv.Quote(entry.Key.Str())+"]", err)
		}
		if !object {
			dst = append(dst, '}')
		}
	}
	return append(dst, end), nil
}

// unavailable reports whether v is Debezium's stand-in for a large value that the
// database did not log.
func (e *encoder) unavailable(v schema.Value) bool {
	switch v.Kind() {
	case schema.String:
		return v.Str() == e.leave
	case schema.Bytes:
		return string(v.Bytes()) == e.leave
	case schema.Array:
		return len(v.Elems()) == 1 && e.unavailable(v.Elems()[0])
	}
	return false
}
