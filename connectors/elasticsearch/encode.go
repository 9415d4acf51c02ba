package elasticsearch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/converters"
	"millrace/schema/javatext"
)

// An encoder turns values into JSON documents. It compiles each schema once and is
// used by one goroutine.
//
// Numbers stand as they are, decimals with all their digits, dates, times and
// timestamps as milliseconds, bytes in base64, NaN and infinities as texts (the server
// refuses them in number fields). A null field with a default is that default.
type encoder struct {
	compact bool     // maps with texts for keys become objects
	leave   string   // with partial: fields with this text are left out
	partial bool     // documents are partial updates
	stamps  []string // of a data stream: fields that may be its @timestamp; none: the record's timestamp is
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
	n, err := e.plan(s, v)
	if err != nil {
		return dst, err
	}
	return e.append(dst, n, v)
}

// plan is the plan of a value that becomes a document; nil without a schema.
func (e *encoder) plan(s *schema.Schema, v schema.Value) (*node, error) {
	if k := v.Kind(); k != schema.Struct && k != schema.Map {
		return nil, &schema.DataError{Reason: fmt.Sprintf("the value is %v; a document is a struct or a map", k)}
	}
	if v.Kind() == schema.Struct {
		s = v.Schema() // what the value really is
	}
	if s == nil {
		return nil, nil
	}
	n, err := e.plans.Get(s, e.compile)
	if err == nil && n.kind == schema.Map && !n.object {
		err = &schema.DataError{Reason: "the value is a map that does not become an object; see compact.map.entries"}
	}
	return n, err
}

const stampField = "@timestamp"

// streamDocument is document for a data stream, whose documents have a time: what stands in the first of e.stamps that the
// value has, or where there are no such fields the record's timestamp. A field @timestamp of the value's own gives way.
func (e *encoder) streamDocument(dst []byte, s *schema.Schema, v schema.Value, millis int64) ([]byte, error) {
	n, err := e.plan(s, v)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `{"@timestamp":`...)
	switch {
	case len(e.stamps) > 0:
		if dst, err = e.appendStamp(dst, n, v); err != nil {
			return dst, err
		}
	case millis < 0:
		return dst, &schema.DataError{Reason: "the record has no timestamp, and a document of a data stream has one; name a field in " + streamTimestamp.Name}
	default:
		dst = strconv.AppendInt(dst, millis, 10)
	}
	dst = append(dst, ',')
	start := len(dst)
	if v.Kind() == schema.Struct {
		dst, err = e.appendFields(dst, n, v, stampField)
	} else {
		dst, err = e.appendEntries(dst, n, v, stampField)
	}
	if len(dst) == start { // nothing else
		dst = dst[:start-1]
	}
	return append(dst, '}'), err
}

// appendStamp appends the first of e.stamps that v has.
func (e *encoder) appendStamp(dst []byte, n *node, v schema.Value) ([]byte, error) {
	for _, name := range e.stamps {
		if v.Kind() == schema.Struct {
			if i := slices.IndexFunc(n.s.Fields(), func(f schema.Field) bool { return f.Name == name }); i >= 0 && !v.At(i).IsNull() {
				return e.append(dst, n.fields[i].node, v.At(i))
			}
			continue
		}
		for _, entry := range v.Entries() {
			if entry.Key.Kind() == schema.String && entry.Key.Str() == name && !entry.Value.IsNull() {
				var elem *node
				if n != nil {
					elem = n.elem
				}
				return e.append(dst, elem, entry.Value)
			}
		}
	}
	return dst, &schema.DataError{Reason: fmt.Sprintf("the value has none of the fields %s (%s), and a document of a data stream has a timestamp", strings.Join(e.stamps, ", "), streamTimestamp.Name)}
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
			n.fields = append(n.fields, field{append(javatext.AppendJSONUTF8(nil, []byte(f.Name)), ':'), part})
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
		return strconv.AppendInt(dst, v.Int()*javatext.MillisPerDay, 10), nil
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
	dst, err := e.appendFields(append(dst, '{'), n, v, "")
	return append(dst, '}'), err
}

// appendFields appends the fields of a struct, parted by commas, without the one called except.
func (e *encoder) appendFields(dst []byte, n *node, v schema.Value, except string) ([]byte, error) {
	first := true
	for i, x := range v.Fields() {
		f := &n.fields[i]
		if e.partial && e.unavailable(x) || except != "" && n.s.Fields()[i].Name == except {
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
	return dst, nil
}

func (e *encoder) appendMap(dst []byte, n *node, v schema.Value) ([]byte, error) {
	open, end := byte('{'), byte('}')
	if n != nil && !n.object { // without a schema it is one always
		open, end = '[', ']'
	}
	dst, err := e.appendEntries(append(dst, open), n, v, "")
	return append(dst, end), err
}

// appendEntries appends the entries of a map, parted by commas, without the one whose key is except.
func (e *encoder) appendEntries(dst []byte, n *node, v schema.Value, except string) ([]byte, error) {
	var key, elem *node
	object := true
	if n != nil {
		key, elem, object = n.key, n.elem, n.object
	}
	first := true
	for _, entry := range v.Entries() {
		if object && e.partial && e.unavailable(entry.Value) || except != "" && entry.Key.Kind() == schema.String && entry.Key.Str() == except {
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
			dst = append(javatext.AppendJSONUTF8(dst, entry.Key.StrBytes()), ':')
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
	return dst, nil
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
