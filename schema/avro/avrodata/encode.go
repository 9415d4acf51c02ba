package avrodata

import (
	"io"
	"strconv"

	hamba "github.com/hamba/avro/v2"

	"millrace/schema"
	"millrace/schema/avro"
)

// The places of Anything's fields.
const (
	anyBoolean = iota
	anyBytes
	anyDouble
	anyFloat
	anyInt
	anyLong
	anyString
	anyArray
	anyMap
	anyFields
)

type op uint8

const (
	opScalar op = iota // null, boolean, int, long, float, double, string, bytes: see node.to
	opEnum
	opFixed
	opDecimal
	opDecimalFixed
	opArray
	opMap
	opEntries // a map as an array of pairs
	opStruct
	opUnion // a struct of which one field is set
	opAny   // data without a schema
)

// node writes the values of one schema at one place.
type node struct {
	op     op
	kind   schema.Kind // of the values
	to     avro.Kind   // of what is written
	branch int64       // written before a value; -1 outside unions
	null   []byte      // what null is written as; nil: it is an error
	def    []byte      // what a null field is written as, where the schema has a default that stands for it
	s      *schema.Schema
	alias  *schema.Schema // the last other pointer found equal to s
	fields []fieldNode
	key    *node
	elem   *node
	size   int              // of a fixed
	enum   map[string]int64 // symbols
}

type fieldNode struct {
	at       int // in the struct; -1 for a field that only the written schema has. Of a union's member: its branch
	node     *node
	constant []byte // of such a field: its default
}

// An Encoder writes the values of one Connect schema with one Avro schema. It is used by one goroutine at a time.
type Encoder struct {
	root  *node
	w     *hamba.Writer
	depth int // of structs
}

// keepBuffer is the largest buffer that an encoder keeps between values.
const keepBuffer = 256 << 10

// NewEncoder makes the program that writes values of s with t, which is the schema made of s, or another that the values fit: fields
// are found by their names, and those that only t has are written as their defaults.
func NewEncoder(s *schema.Schema, t *avro.Type, o Options) (*Encoder, error) {
	e := &Encoder{w: newWriter()}
	c := &encoderCompiler{o: o, made: map[place]*node{}}
	var err error
	e.root, err = c.node(s, t)
	return e, err
}

func newWriter() *hamba.Writer { return hamba.NewWriter(io.Discard, 1024) }

// Append appends v. null says that v is null and has no bytes: null without a default is a tombstone. Errors are data errors that name
// the field; then nothing is appended.
func (e *Encoder) Append(dst []byte, v schema.Value) (out []byte, null bool, err error) {
	n := e.root
	if v.IsNull() {
		switch {
		case n.def != nil:
			return append(dst, n.def...), false, nil
		case n.s == nil || n.s.Optional():
			return dst, true, nil
		}
		return dst, false, nullUnderRequired(n.s)
	}
	if cap(e.w.Buffer()) > keepBuffer {
		e.w = newWriter()
	} else {
		e.w.Reset(io.Discard)
	}
	e.depth = 0
	if err := e.value(n, v); err != nil {
		return dst, false, err
	}
	return append(dst, e.w.Buffer()...), false, nil
}

func nullUnderRequired(s *schema.Schema) error {
	return wrong("null under the required schema %s, which has no default", s)
}

func (e *Encoder) value(n *node, v schema.Value) error {
	if n.op == opAny {
		if n.branch >= 0 {
			e.w.WriteLong(n.branch)
		}
		return e.anything(v, 0)
	}
	if v.Kind() != n.kind {
		if !v.IsNull() {
			return wrong("%v under the schema %s", v.Kind(), n.s)
		}
		if n.null == nil {
			return nullUnderRequired(n.s)
		}
		_, _ = e.w.Write(n.null)
		return nil
	}
	if n.branch >= 0 {
		e.w.WriteLong(n.branch)
	}
	switch n.op {
	case opScalar:
		e.scalar(n, v)
		return nil
	case opStruct:
		return e.structure(n, v)
	case opUnion:
		return e.union(n, v)
	case opEnum:
		i, ok := n.enum[v.Str()]
		if !ok {
			return wrong("%q is no symbol of the enum that the schema %s is written as", v.Str(), n.s)
		}
		e.w.WriteLong(i)
	case opFixed:
		b := v.Bytes()
		if len(b) != n.size {
			return wrong("%d bytes where the schema has %d", len(b), n.size)
		}
		_, _ = e.w.Write(b)
	case opDecimal, opDecimalFixed:
		return e.decimal(n, v)
	case opArray:
		elems := v.Elems()
		if len(elems) > 0 {
			e.w.WriteLong(int64(len(elems)))
		}
		for i, one := range elems {
			if err := e.value(n.elem, one); err != nil {
				return schema.Under("["+strconv.Itoa(i)+"]", err)
			}
		}
		e.w.WriteLong(0)
	case opMap, opEntries:
		return e.mapping(n, v)
	}
	return nil
}

// scalar writes a value whose kind was looked at.
func (e *Encoder) scalar(n *node, v schema.Value) {
	switch n.to {
	case avro.Boolean:
		e.w.WriteBool(v.Bool())
	case avro.Int, avro.Long: // of the same form
		e.w.WriteLong(v.Int())
	case avro.Float:
		if n.kind == schema.Float32 {
			e.w.WriteFloat(float32(v.Float()))
		} else {
			e.w.WriteFloat(float32(v.Int()))
		}
	case avro.Double:
		if n.kind == schema.Float32 || n.kind == schema.Float64 {
			e.w.WriteDouble(v.Float())
		} else {
			e.w.WriteDouble(float64(v.Int()))
		}
	case avro.String, avro.Bytes: // of the same form
		if n.kind == schema.String {
			e.w.WriteBytes(v.StrBytes())
		} else {
			e.w.WriteBytes(v.Bytes())
		}
	}
}

func (e *Encoder) structure(n *node, v schema.Value) error {
	if own := v.Schema(); own != n.s && own != n.alias {
		if !schema.Equal(own, n.s) {
			return wrong("Mismatching struct schema: a struct of the schema %s, which is not the %s that its place has", own, n.s)
		}
		n.alias = own
	}
	if e.depth++; e.depth > maxNesting {
		return tooDeep()
	}
	values := v.Fields()
	for i := range n.fields {
		f := &n.fields[i]
		if f.at < 0 {
			_, _ = e.w.Write(f.constant)
			continue
		}
		one, to := values[f.at], f.node
		switch k := one.Kind(); {
		case k == to.kind && to.op == opScalar: // most fields: no call in between
			if to.branch >= 0 {
				e.w.WriteLong(to.branch)
			}
			e.scalar(to, one)
			continue
		case k == schema.Null && to.op != opAny:
			switch {
			case to.def != nil:
				_, _ = e.w.Write(to.def)
			case to.null != nil:
				_, _ = e.w.Write(to.null)
			default:
				return schema.Under(n.s.Fields()[f.at].Name, nullUnderRequired(to.s))
			}
			continue
		}
		if err := e.value(to, one); err != nil {
			return schema.Under(n.s.Fields()[f.at].Name, err)
		}
	}
	e.depth--
	return nil
}

func (e *Encoder) union(n *node, v schema.Value) error {
	if own := v.Schema(); own != n.s && own != n.alias {
		if !schema.Equal(own, n.s) {
			return wrong("Mismatching struct schema: a struct of the schema %s, which is not the %s that its place has", own, n.s)
		}
		n.alias = own
	}
	for i, one := range v.Fields() {
		if one.IsNull() {
			continue
		}
		e.w.WriteLong(int64(n.fields[i].at))
		if err := e.value(n.fields[i].node, one); err != nil {
			return schema.Under(n.s.Fields()[i].Name, err)
		}
		return nil
	}
	if n.null == nil {
		return wrong("a union without a value under the required schema %s", n.s)
	}
	_, _ = e.w.Write(n.null)
	return nil
}

func (e *Encoder) decimal(n *node, v schema.Value) error {
	if v.Scale() != n.s.Scale() {
		return wrong("a decimal of scale %d under the schema's scale %d", v.Scale(), n.s.Scale())
	}
	var room [32]byte
	b := v.AppendUnscaled(room[:0])
	if n.op == opDecimal {
		e.w.WriteBytes(b)
		return nil
	}
	if len(b) > n.size {
		return wrong("a decimal of %d bytes where the schema has room for %d", len(b), n.size)
	}
	var sign [1]byte
	if b[0] >= 0x80 {
		sign[0] = 0xff
	}
	for range n.size - len(b) {
		_, _ = e.w.Write(sign[:])
	}
	_, _ = e.w.Write(b)
	return nil
}

func (e *Encoder) mapping(n *node, v schema.Value) error {
	entries := v.Entries()
	if len(entries) > 0 {
		e.w.WriteLong(int64(len(entries)))
	}
	for _, one := range entries {
		if n.op == opMap {
			if one.Key.Kind() != schema.String {
				return wrong("a map's key is %v under the schema %s", one.Key.Kind(), n.s)
			}
			e.w.WriteBytes(one.Key.StrBytes())
		} else if err := e.value(n.key, one.Key); err != nil {
			return schema.Under("[key]", err)
		}
		if err := e.value(n.elem, one.Value); err != nil {
			return schema.Under(step(one.Key), err)
		}
	}
	e.w.WriteLong(0)
	return nil
}

func step(key schema.Value) string {
	if key.Kind() == schema.String {
		return "[" + strconv.Quote(key.Str()) + "]"
	}
	return "[…]"
}

// maxDepth is how deep data without a schema may nest.
const maxDepth = 200

// anything writes a value without a schema: a record that has a field for each kind, of which one is set.
func (e *Encoder) anything(v schema.Value, depth int) error {
	if depth > maxDepth {
		return wrong("data without a schema nests deeper than %d", maxDepth)
	}
	at := -1
	switch v.Kind() {
	case schema.Null:
	case schema.Bool:
		at = anyBoolean
	case schema.Bytes:
		at = anyBytes
	case schema.Float64:
		at = anyDouble
	case schema.Float32:
		at = anyFloat
	case schema.Int8, schema.Int16, schema.Int32:
		at = anyInt
	case schema.Int64:
		at = anyLong
	case schema.String:
		at = anyString
	case schema.Array:
		at = anyArray
	case schema.Map:
		at = anyMap
	default:
		return wrong("%v without a schema has no form in Avro", v.Kind())
	}
	for i := range anyFields {
		if i != at {
			e.w.WriteLong(0)
			continue
		}
		e.w.WriteLong(1)
		switch at {
		case anyBoolean:
			e.w.WriteBool(v.Bool())
		case anyBytes:
			e.w.WriteBytes(v.Bytes())
		case anyDouble:
			e.w.WriteDouble(v.Float())
		case anyFloat:
			e.w.WriteFloat(float32(v.Float()))
		case anyInt, anyLong:
			e.w.WriteLong(v.Int())
		case anyString:
			e.w.WriteBytes(v.StrBytes())
		case anyArray:
			if n := len(v.Elems()); n > 0 {
				e.w.WriteLong(int64(n))
			}
			for k, one := range v.Elems() {
				if err := e.anything(one, depth+1); err != nil {
					return schema.Under("["+strconv.Itoa(k)+"]", err)
				}
			}
			e.w.WriteLong(0)
		case anyMap:
			if n := len(v.Entries()); n > 0 {
				e.w.WriteLong(int64(n))
			}
			for _, one := range v.Entries() {
				if err := e.anything(one.Key, depth+1); err != nil {
					return schema.Under("[key]", err)
				}
				if err := e.anything(one.Value, depth+1); err != nil {
					return schema.Under(step(one.Key), err)
				}
			}
			e.w.WriteLong(0)
		}
	}
	return nil
}
