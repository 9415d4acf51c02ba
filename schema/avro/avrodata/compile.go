package avrodata

import (
	"fmt"
	"io"

	hamba "github.com/hamba/avro/v2"

	"millrace/schema"
	"millrace/schema/avro"
)

// encoderCompiler makes an encoder's nodes.
type encoderCompiler struct {
	o    Options
	made map[place]*node // of recursive structs
}

// node makes the node for values of s where t is written.
func (c *encoderCompiler) node(s *schema.Schema, t *avro.Type) (*node, error) {
	n := &node{s: s, branch: -1}
	if s.Recursive() && s.Kind() == schema.Struct {
		if made := c.made[place{t, s}]; made != nil {
			return made, nil
		}
		c.made[place{t, s}] = n
	}
	if t.Kind == avro.Union {
		for i, b := range t.Branches {
			if b.Kind == avro.Null {
				n.null = appendLong(nil, int64(i))
			}
		}
		if isUnion(s) {
			return n, c.union(n, t)
		}
		at := c.pick(s, t.Branches, nil)
		if at < 0 {
			return nil, wrong("the schema %s fits no branch of the union that is written", s)
		}
		n.branch = int64(at)
		t = t.Branches[at]
	}
	if isUnion(s) {
		return nil, wrong("the schema %s is a union, but %s is written", s, t.FullName())
	}
	if c.fit(s, t) == 0 {
		return nil, wrong("the schema %s cannot be written as %s", s, t.FullName())
	}
	if s == nil {
		n.op = opAny
		return n, nil
	}
	n.kind, n.to = s.ValueKind(), t.Kind
	var err error
	switch n.kind {
	case schema.String:
		if t.Kind == avro.Enum {
			n.op, n.enum = opEnum, make(map[string]int64, len(t.Symbols))
			for i, symbol := range t.Symbols {
				n.enum[symbol] = int64(i)
			}
		}
	case schema.Bytes:
		if t.Kind == avro.Fixed {
			n.op, n.size = opFixed, t.Size
		}
	case schema.Decimal:
		if n.op = opDecimal; t.Kind == avro.Fixed {
			n.op, n.size = opDecimalFixed, t.Size
		}
	case schema.Array:
		n.op = opArray
		if n.elem, err = c.node(s.Elem(), t.Elem); err != nil {
			return nil, schema.Under("[]", err)
		}
	case schema.Map:
		n.op = opMap
		value := t.Elem
		if t.Kind == avro.Array {
			n.op = opEntries
			if n.key, err = c.node(s.Key(), t.Elem.Fields[0].Type); err != nil {
				return nil, schema.Under("[key]", err)
			}
			value = t.Elem.Fields[1].Type
		}
		if n.elem, err = c.node(s.Elem(), value); err != nil {
			return nil, schema.Under("[value]", err)
		}
	case schema.Struct:
		n.op = opStruct
		err = c.record(n, t)
	}
	if err != nil {
		return nil, err
	}
	return n, c.defaults(n)
}

// defaults computes what stands for null.
func (c *encoderCompiler) defaults(n *node) error {
	def, has := n.s.Default()
	if !has || c.o.KeepNulls && n.s.Optional() {
		return nil
	}
	e := &Encoder{root: n, w: newWriter()}
	if err := e.value(n, def); err != nil {
		return fmt.Errorf("the default of the schema %s: %w", n.s, err)
	}
	n.def = append([]byte{}, e.w.Buffer()...)
	return nil
}

// appendLong appends a number as Avro writes it.
func appendLong(dst []byte, n int64) []byte {
	w := hamba.NewWriter(io.Discard, 10)
	w.WriteLong(n)
	return append(dst, w.Buffer()...)
}

// union maps the fields of a struct that is a union to the branches.
func (c *encoderCompiler) union(n *node, t *avro.Type) error {
	n.op, n.kind = opUnion, schema.Struct
	taken := map[int]bool{}
	for _, f := range n.s.Fields() {
		at := -1
		for i, b := range t.Branches {
			if !taken[i] && b.Kind != avro.Null && c.o.memberOf(b, i) == f.Name && c.fit(f.Schema, b) > 0 {
				at = i
				break
			}
		}
		if at < 0 {
			at = c.pick(f.Schema, t.Branches, taken)
		}
		if at < 0 {
			return schema.Under(f.Name, wrong("the schema %s fits no branch of the union that is written", f.Schema))
		}
		taken[at] = true
		member, err := c.node(f.Schema, t.Branches[at])
		if err != nil {
			return schema.Under(f.Name, err)
		}
		n.fields = append(n.fields, fieldNode{node: member, at: at})
	}
	return nil
}

func (c *encoderCompiler) record(n *node, t *avro.Type) error {
	at := make(map[string]int, len(n.s.Fields()))
	for i, f := range n.s.Fields() {
		name := f.Name
		if c.o.Scrub {
			name = scrubbed(name)
		}
		at[name] = i
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		from, ok := at[f.Name]
		if !ok {
			if f.Default == nil {
				return schema.Under(f.Name, wrong("the written schema has this field, without a default, and the data does not"))
			}
			w := newWriter()
			if err := writeDefault(w, f.Type, f.Default); err != nil {
				return schema.Under(f.Name, err)
			}
			n.fields = append(n.fields, fieldNode{at: -1, constant: append([]byte{}, w.Buffer()...)})
			continue
		}
		part, err := c.node(n.s.Fields()[from].Schema, f.Type)
		if err != nil {
			return schema.Under(f.Name, err)
		}
		n.fields = append(n.fields, fieldNode{at: from, node: part})
	}
	return nil
}

// pick is the branch that fits s best, or -1.
func (c *encoderCompiler) pick(s *schema.Schema, branches []*avro.Type, taken map[int]bool) int {
	at, best := -1, 0
	for i, b := range branches {
		if taken[i] {
			continue
		}
		if how := c.fit(s, b); how > best {
			at, best = i, how
		}
	}
	return at
}

// fit says how well values of s fit a type: not at all, after a promotion, by their kind, or by their name as well.
func (c *encoderCompiler) fit(s *schema.Schema, t *avro.Type) int {
	const no, promoted, kind, exact = 0, 1, 2, 3
	if s == nil {
		if isAnything(t) {
			return exact
		}
		return no
	}
	named := func() int {
		if splitName(s.Name(), c.o.Scrub) == t.Name {
			return exact
		}
		return kind
	}
	switch s.ValueKind() {
	case schema.Bool:
		if t.Kind == avro.Boolean {
			return exact
		}
	case schema.Int8, schema.Int16, schema.Int32, schema.Date, schema.Time:
		switch t.Kind {
		case avro.Int:
			return exact
		case avro.Long, avro.Float, avro.Double:
			return promoted
		}
	case schema.Int64, schema.Timestamp:
		switch t.Kind {
		case avro.Long:
			return exact
		case avro.Float, avro.Double:
			return promoted
		}
	case schema.Float32:
		switch t.Kind {
		case avro.Float:
			return exact
		case avro.Double:
			return promoted
		}
	case schema.Float64:
		if t.Kind == avro.Double {
			return exact
		}
	case schema.String:
		switch t.Kind {
		case avro.Enum:
			for _, param := range []string{typeEnum, generalEnum} {
				if name, ok := s.Param(param); ok && name == t.FullName() {
					return exact
				}
			}
			return promoted
		case avro.String:
			return kind
		case avro.Bytes:
			return promoted
		}
	case schema.Bytes:
		switch t.Kind {
		case avro.Fixed:
			if isFixed(s) {
				return named()
			}
			return promoted
		case avro.Bytes:
			return kind
		}
	case schema.Decimal:
		switch t.Kind {
		case avro.Fixed:
			if isFixed(s) {
				return exact
			}
			return promoted
		case avro.Bytes:
			return kind
		}
	case schema.Array:
		if t.Kind == avro.Array && !isEntry(t.Elem) {
			return exact
		}
	case schema.Map:
		switch {
		case t.Kind == avro.Map && s.Key() != nil && s.Key().Kind() == schema.String:
			return exact
		case t.Kind == avro.Array && isEntry(t.Elem) && len(t.Elem.Fields) == 2 && t.Elem.Fields[0].Name == keyField && t.Elem.Fields[1].Name == valueField:
			return kind
		}
	case schema.Struct:
		if t.Kind == avro.Record {
			return named()
		}
	}
	return no
}

// writeDefault writes a field's default.
func writeDefault(w *hamba.Writer, t *avro.Type, j *avro.JSON) error {
	switch t.Kind {
	case avro.Null:
	case avro.Boolean:
		w.WriteBool(j.Bool())
	case avro.Int, avro.Long:
		n, _ := j.Int()
		w.WriteLong(n)
	case avro.Float:
		w.WriteFloat(float32(j.Float()))
	case avro.Double:
		w.WriteDouble(j.Float())
	case avro.String:
		w.WriteString(j.Str())
	case avro.Bytes:
		w.WriteBytes(fromLatin1(j.Str()))
	case avro.Fixed:
		b := fromLatin1(j.Str())
		if len(b) != t.Size {
			return wrong("a default of %d bytes for a fixed of %d", len(b), t.Size)
		}
		_, _ = w.Write(b)
	case avro.Enum:
		i := t.Symbol(j.Str())
		if i < 0 {
			return wrong("the default %q is no symbol", j.Str())
		}
		w.WriteLong(int64(i))
	case avro.Array:
		if n := len(j.Items()); n > 0 {
			w.WriteLong(int64(n))
		}
		for _, k := range j.Items() {
			if err := writeDefault(w, t.Elem, k); err != nil {
				return err
			}
		}
		w.WriteLong(0)
	case avro.Map:
		if n := len(j.Names()); n > 0 {
			w.WriteLong(int64(n))
		}
		for i, k := range j.Names() {
			w.WriteString(k)
			if err := writeDefault(w, t.Elem, j.At(i)); err != nil {
				return err
			}
		}
		w.WriteLong(0)
	case avro.Union:
		for i, b := range t.Branches {
			if avro.ValidDefault(b, j) {
				w.WriteLong(int64(i))
				return writeDefault(w, b, j)
			}
		}
		return wrong("the default %s fits no branch of its union", j)
	case avro.Record:
		for i := range t.Fields {
			f := &t.Fields[i]
			k := j.Get(f.Name)
			if k == nil {
				k = f.Default
			}
			if k == nil || w.Buffered() > 1<<20 {
				return wrong("the default %s has no value for the field %q, or is too large", j, f.Name)
			}
			if err := writeDefault(w, f.Type, k); err != nil {
				return schema.Under(f.Name, err)
			}
		}
	}
	return nil
}
