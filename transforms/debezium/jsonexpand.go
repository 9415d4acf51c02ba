package debezium

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/javatext"
)

// A jsonExpander makes values with schemas of JSON texts, as Debezium infers them:
// whole numbers are INT32 or INT64, others FLOAT64; all is optional; the elements of
// an array have one schema, which for objects has the fields of them all.
type jsonExpander struct {
	nulls bool           // null fields are kept as optional bytes
	last  *schema.Schema // the newest schema, used again while texts have its shape
}

// maxJSONDepth bounds the nesting of a text.
const maxJSONDepth = 100

// errNoSchema says that a text has no one schema, so that it stays a text.
var errNoSchema = errors.New("no schema fits all of it")

// expand is the value of a text, or the text itself where it is no object or array or
// none that a schema fits.
func (e *jsonExpander) expand(s *schema.Schema, text schema.Value) (*schema.Schema, schema.Value) {
	raw := text.StrBytes()
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return s, text
	}
	node, err := parseNode(raw)
	if err != nil {
		return s, text
	}
	if node.kind == schema.Array && len(node.elems) == 0 {
		return nil, text // as Debezium has it
	}
	to, err := e.infer(node, "payload")
	if err != nil || to == nil {
		return s, text
	}
	if e.last != nil && schema.Equal(e.last, to) {
		to = e.last // one pointer for all that are alike
	}
	e.last = to
	return to, e.fill(to, node)
}

// A jsonNode is a parsed text. Names keep their order, a later one of a name wins.
type jsonNode struct {
	kind   schema.Kind // Null, Bool, Int64, Float64, String, Array, Struct
	value  schema.Value
	names  []string
	fields []*jsonNode // of names
	elems  []*jsonNode
}

func (n *jsonNode) field(name string) *jsonNode {
	for i := len(n.names) - 1; i >= 0; i-- {
		if n.names[i] == name {
			return n.fields[i]
		}
	}
	return nil
}

func parseNode(text []byte) (*jsonNode, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := readNode(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return n, nil
}

func readNode(d *json.Decoder, depth int) (*jsonNode, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxJSONDepth {
		return nil, errors.New("nested too deeply")
	}
	switch t := t.(type) {
	case nil:
		return &jsonNode{kind: schema.Null}, nil
	case bool:
		return &jsonNode{kind: schema.Bool, value: schema.BoolValue(t)}, nil
	case string:
		return &jsonNode{kind: schema.String, value: schema.StringValue(t)}, nil
	case json.Number:
		return number(string(t)), nil
	case json.Delim:
		n := &jsonNode{kind: schema.Struct}
		if t == '[' {
			n.kind = schema.Array
		}
		for d.More() {
			if n.kind == schema.Array {
				e, err := readNode(d, depth+1)
				if err != nil {
					return nil, err
				}
				n.elems = append(n.elems, e)
				continue
			}
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			f, err := readNode(d, depth+1)
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if old := n.field(name); old != nil {
				*old = *f
				continue
			}
			n.names, n.fields = append(n.names, name), append(n.fields, f)
		}
		_, err := d.Token()
		return n, err
	}
	return nil, errors.New("not JSON")
}

func number(text string) *jsonNode {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return &jsonNode{kind: schema.Int64, value: schema.Int64Value(i)}
		}
	}
	f, ok := javatext.ParseFloat(text, 64)
	if !ok {
		f = math.NaN()
	}
	return &jsonNode{kind: schema.Float64, value: schema.Float64Value(f)}
}

// infer is the schema of a node, nil for what has none: a null, an empty array.
func (e *jsonExpander) infer(n *jsonNode, name string) (*schema.Schema, error) {
	switch n.kind {
	case schema.Null:
		if e.nulls {
			return schema.OptionalBytes, nil
		}
		return nil, nil
	case schema.Bool:
		return schema.OptionalBool, nil
	case schema.String:
		return schema.OptionalString, nil
	case schema.Int64:
		if i := n.value.Int(); i >= math.MinInt32 && i <= math.MaxInt32 {
			return schema.OptionalInt32, nil
		}
		return schema.OptionalInt64, nil
	case schema.Float64:
		return schema.OptionalFloat64, nil
	case schema.Array:
		elem, err := e.inferElems(n.elems, name)
		if err != nil || elem == nil {
			return nil, err
		}
		return schema.ArrayOf(elem).Optional().Build(), nil
	}
	b := schema.NewStruct(name).Optional()
	for i, f := range n.fields {
		at := n.names[i]
		if name != "" {
			at = name + "." + at
		}
		s, err := e.infer(f, at)
		if err != nil {
			return nil, err
		}
		if s != nil {
			b.Field(n.names[i], s)
		}
	}
	return b.TryBuild()
}

// inferElems is the one schema of an array's elements.
func (e *jsonExpander) inferElems(elems []*jsonNode, name string) (*schema.Schema, error) {
	var one *schema.Schema
	nulls := false
	for _, n := range elems {
		if n.kind == schema.Null {
			nulls = true
			continue
		}
		s, err := e.infer(n, name)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		if one == nil {
			one = s
		} else if one, err = merge(one, s); err != nil {
			return nil, err
		}
	}
	switch {
	case one == nil && nulls && e.nulls:
		return schema.OptionalBytes, nil
	case one == nil && nulls, nulls && !e.nulls:
		return nil, errNoSchema
	}
	return one, nil
}

// merge is the schema of two elements of one array.
func merge(a, b *schema.Schema) (*schema.Schema, error) {
	switch {
	case a == b || schema.Equal(a, b):
		return a, nil
	case a.Kind() == schema.Int32 && b.Kind() == schema.Int64, a.Kind() == schema.Int64 && b.Kind() == schema.Int32:
		return schema.OptionalInt64, nil
	case a.Kind() == schema.Struct && b.Kind() == schema.Struct:
		m := schema.NewStruct(a.Name())
		for _, f := range b.Fields() {
			s := f.Schema
			if old := a.Field(f.Name); old != nil {
				var err error
				if s, err = merge(old, s); err != nil {
					return nil, err
				}
			}
			m.Field(f.Name, s)
		}
		for _, f := range a.Fields() {
			if b.Index(f.Name) < 0 {
				m.Field(f.Name, f.Schema)
			}
		}
		return m.TryBuild()
	case a.Kind() == schema.Array && b.Kind() == schema.Array:
		elem, err := merge(a.Elem(), b.Elem())
		if err != nil {
			return nil, err
		}
		return schema.ArrayOf(elem).Optional().Build(), nil
	}
	return nil, errNoSchema
}

func (e *jsonExpander) fill(s *schema.Schema, n *jsonNode) schema.Value {
	if n == nil || n.kind == schema.Null {
		return schema.Value{}
	}
	switch s.Kind() {
	case schema.Struct:
		fields := make([]schema.Value, len(s.Fields()))
		for i, f := range s.Fields() {
			fields[i] = e.fill(f.Schema, n.field(f.Name))
		}
		return schema.StructValue(s, fields)
	case schema.Array:
		elems := make([]schema.Value, len(n.elems))
		for i, c := range n.elems {
			elems[i] = e.fill(s.Elem(), c)
		}
		return schema.ArrayValue(elems)
	case schema.Int32:
		return schema.Int32Value(int32(n.value.Int()))
	}
	return n.value
}
