package avrodata

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	hamba "github.com/hamba/avro/v2"

	"millrace/schema"
	"millrace/schema/avro"
)

// Bounds of what one datum may become, whatever its bytes say: a few bytes can announce a great many values.
const (
	maxValues = 4 << 20 // elements of arrays and pairs of maps
	maxEmpty  = 64 << 10
)

// maxNesting is how deep structs may stand in each other: as deep as Jackson reads what they become in JSON.
const maxNesting = 1000

func tooDeep() error { return wrong("structs in each other, deeper than %d", maxNesting) }

// part reads the values of one type.
type part struct {
	op       op
	from     avro.Kind
	kind     schema.Kind // of the values
	s        *schema.Schema
	fields   []*part // of a record; the branches of a union
	at       []int   // of a union that is a struct: the field of each branch; -1 is null
	flat     bool    // a union whose branches need no struct
	key      *part
	elem     *part
	size     int
	symbols  []schema.Value
	smallest int // bytes of the shortest value: 0 or 1
}

// A Decoder reads data of one Avro schema into values of the Connect schema that [Mapper.ToConnect] made of it. It is used by one
// goroutine at a time.
type Decoder struct {
	root   *part
	r      *hamba.Reader
	arena  schema.Arena
	most   int // bytes of the datum
	values int // elements so far
	empty  int // of them those that took no byte
}

// NewDecoder makes the program that reads data of t into values of s.
func NewDecoder(t *avro.Type, s *schema.Schema) (*Decoder, error) {
	root, err := (&decoderCompiler{made: map[place]*part{}}).part(t, s)
	if err != nil {
		return nil, err
	}
	return &Decoder{root: root, r: hamba.NewReader(nil, 0)}, nil
}

// Value reads one datum. What it returns shares nothing with data. Errors are data errors that name the field.
func (d *Decoder) Value(data []byte) (schema.Value, error) {
	d.r.Error = nil
	d.r.Reset(data)
	d.most, d.values, d.empty = len(data), 0, 0
	v, err := d.value(d.root, 0)
	if err == nil && d.r.Error != nil {
		err = d.short()
	}
	if err != nil {
		return schema.Value{}, err
	}
	return v, nil
}

func (d *Decoder) short() error {
	return wrong("the data does not fit the schema that it names: %v", d.r.Error)
}

// decoderCompiler makes a decoder's parts.
type decoderCompiler struct {
	made map[place]*part // of recursive structs
}

// place is a type with the schema of its values.
type place struct {
	t *avro.Type
	s *schema.Schema
}

func (c *decoderCompiler) part(t *avro.Type, s *schema.Schema) (*part, error) {
	p := &part{from: t.Kind, s: s, smallest: 1}
	if t.Kind == avro.Record && s.Recursive() {
		if made := c.made[place{t, s}]; made != nil {
			return made, nil
		}
		c.made[place{t, s}] = p
	}
	if isAnything(t) {
		p.op = opAny
		return p, nil
	}
	if t.Kind == avro.Union {
		return p, c.union(p, t)
	}
	if s == nil {
		return nil, fmt.Errorf("avrodata: no schema for %s", t.FullName())
	}
	p.kind = s.ValueKind()
	var err error
	switch t.Kind {
	case avro.Bytes:
		if p.kind == schema.Decimal {
			p.op = opDecimal
		}
	case avro.Fixed:
		if p.op, p.size = opFixed, t.Size; p.kind == schema.Decimal {
			p.op = opDecimalFixed
		}
		p.smallest = min(1, t.Size)
	case avro.Enum:
		p.op = opEnum
		for _, symbol := range t.Symbols {
			p.symbols = append(p.symbols, schema.StringValue(symbol))
		}
	case avro.Array:
		if s.Kind() == schema.Map {
			p.op = opEntries
			k, v := t.Elem.Field(keyField), t.Elem.Field(valueField)
			if p.key, err = c.part(t.Elem.Fields[k].Type, s.Key()); err != nil {
				return nil, err
			}
			p.elem, err = c.part(t.Elem.Fields[v].Type, s.Elem())
			p.flat = k > v // the pair's value comes first
		} else {
			p.op = opArray
			p.elem, err = c.part(t.Elem, s.Elem())
		}
	case avro.Map:
		p.op = opMap
		p.elem, err = c.part(t.Elem, s.Elem())
	case avro.Record:
		p.op, p.smallest = opStruct, 0
		for i := range t.Fields {
			f, err := c.part(t.Fields[i].Type, s.Fields()[i].Schema)
			if err != nil {
				return nil, err
			}
			p.fields = append(p.fields, f)
			p.smallest = max(p.smallest, f.smallest)
		}
	}
	return p, err
}

func (c *decoderCompiler) union(p *part, t *avro.Type) error {
	p.op, p.flat = opUnion, !isUnion(p.s)
	field := 0
	for _, b := range t.Branches {
		if b.Kind == avro.Null {
			p.fields, p.at = append(p.fields, nil), append(p.at, -1)
			continue
		}
		s := p.s
		if !p.flat {
			s = p.s.Fields()[field].Schema
		}
		one, err := c.part(b, s)
		if err != nil {
			return err
		}
		p.fields, p.at = append(p.fields, one), append(p.at, field)
		field++
	}
	return nil
}

func (d *Decoder) value(p *part, depth int) (schema.Value, error) {
	switch p.op {
	case opScalar:
		return d.scalar(p)
	case opEnum:
		i := d.r.ReadLong()
		if d.r.Error != nil {
			return schema.Value{}, d.short()
		}
		if i < 0 || i >= int64(len(p.symbols)) {
			return schema.Value{}, wrong("symbol %d of an enum of %d", i, len(p.symbols))
		}
		return p.symbols[i], nil
	case opFixed, opDecimalFixed:
		return d.sized(p, int64(p.size))
	case opDecimal:
		return d.sized(p, d.r.ReadLong())
	case opStruct:
		if depth++; depth > maxNesting {
			return schema.Value{}, tooDeep()
		}
		values := d.arena.Values(len(p.fields))
		for i, f := range p.fields {
			v, err := d.value(f, depth)
			if err != nil {
				return v, schema.Under(p.s.Fields()[i].Name, err)
			}
			values[i] = v
		}
		return d.arena.Struct(p.s, values), nil
	case opUnion:
		return d.union(p, depth)
	case opArray:
		return d.array(p, depth)
	case opMap, opEntries:
		return d.mapping(p, depth)
	}
	return d.anything(depth)
}

func (d *Decoder) scalar(p *part) (schema.Value, error) {
	var v schema.Value
	switch p.from {
	case avro.Boolean:
		v = schema.BoolValue(d.r.ReadBool())
	case avro.Int, avro.Long:
		n := d.r.ReadLong()
		switch p.kind {
		case schema.Int64:
			v = schema.Int64Value(n)
		case schema.Timestamp:
			v = schema.TimestampValue(n)
		default:
			var err error
			if v, err = intValue(p.kind, n); err != nil {
				return v, err
			}
		}
	case avro.Float:
		v = schema.Float32Value(d.r.ReadFloat())
	case avro.Double:
		v = schema.Float64Value(d.r.ReadDouble())
	case avro.String, avro.Bytes:
		return d.sized(p, d.r.ReadLong())
	}
	if d.r.Error != nil {
		return v, d.short()
	}
	return v, nil
}

// sized reads what is n bytes long. No memory is taken before it is known that the datum could have them.
func (d *Decoder) sized(p *part, n int64) (schema.Value, error) {
	if d.r.Error != nil {
		return schema.Value{}, d.short()
	}
	if n < 0 || n > int64(d.most) {
		return schema.Value{}, wrong("a length of %d in a datum of %d bytes", n, d.most)
	}
	b := d.arena.Bytes(int(n))
	if d.r.Read(b); d.r.Error != nil {
		return schema.Value{}, d.short()
	}
	switch p.kind {
	case schema.String:
		if !utf8.Valid(b) {
			b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
		}
		return schema.StringOfBytes(b), nil
	case schema.Decimal:
		return schema.DecimalBytes(b, p.s.Scale()), nil
	}
	return schema.BytesValue(b), nil
}

func (d *Decoder) union(p *part, depth int) (schema.Value, error) {
	i := d.r.ReadLong()
	if d.r.Error != nil {
		return schema.Value{}, d.short()
	}
	if i < 0 || i >= int64(len(p.fields)) {
		return schema.Value{}, wrong("branch %d of a union of %d", i, len(p.fields))
	}
	if p.at[i] < 0 {
		return schema.Value{}, nil
	}
	v, err := d.value(p.fields[i], depth)
	if err != nil || p.flat {
		return v, err
	}
	values := d.arena.Values(len(p.s.Fields()))
	values[p.at[i]] = v
	return d.arena.Struct(p.s, values), nil
}

// block reads how many elements follow; none is the end.
func (d *Decoder) block(smallest int) (int, error) {
	n := d.r.ReadLong()
	if n < 0 {
		n = -n
		d.r.ReadLong() // the block's bytes
	}
	if d.r.Error != nil {
		return 0, d.short()
	}
	if n < 0 || smallest > 0 && n > int64(d.most) {
		return 0, wrong("a block of %d elements in a datum of %d bytes", n, d.most)
	}
	if smallest == 0 {
		if n > maxEmpty-int64(d.empty) {
			return 0, wrong("more than %d elements that take no bytes", maxEmpty)
		}
		d.empty += int(n)
	}
	if n > maxValues-int64(d.values) {
		return 0, wrong("more than %d elements of arrays and maps in one value", maxValues)
	}
	d.values += int(n)
	return int(n), nil
}

// atOnce is for how many announced elements room is made before they are read.
const atOnce = 1024

func (d *Decoder) array(p *part, depth int) (schema.Value, error) {
	elems := []schema.Value{}
	for {
		n, err := d.block(p.elem.smallest)
		if err != nil || n == 0 {
			return schema.ArrayValue(elems), err
		}
		if len(elems) == 0 {
			elems = make([]schema.Value, 0, min(n, atOnce))
		}
		for range n {
			v, err := d.value(p.elem, depth)
			if err != nil {
				return v, schema.Under(fmt.Sprintf("[%d]", len(elems)), err)
			}
			elems = append(elems, v)
		}
	}
}

var mapKey = &part{from: avro.String, kind: schema.String}

func (d *Decoder) mapping(p *part, depth int) (schema.Value, error) {
	entries := []schema.Entry{}
	var at map[string]int // of a map with many string keys; a key read twice keeps its last value
	for {
		n, err := d.block(1)
		if err != nil || n == 0 {
			return schema.MapValue(entries), err
		}
		if len(entries) == 0 {
			entries = make([]schema.Entry, 0, min(n, atOnce))
		}
		for range n {
			e, err := d.pair(p, depth)
			if err != nil {
				return schema.Value{}, err
			}
			if e.Key.Kind() == schema.String {
				if at == nil {
					at = make(map[string]int, min(n, atOnce))
				}
				if i, twice := at[e.Key.Str()]; twice {
					entries[i].Value = e.Value
					continue
				}
				at[e.Key.Str()] = len(entries)
			}
			entries = append(entries, e)
		}
	}
}

func (d *Decoder) pair(p *part, depth int) (e schema.Entry, err error) {
	switch {
	case p.op == opMap:
		if e.Key, err = d.scalar(mapKey); err == nil {
			if e.Value, err = d.value(p.elem, depth); err != nil {
				err = schema.Under(step(e.Key), err)
			}
		}
	case p.flat:
		if e.Value, err = d.value(p.elem, depth); err == nil {
			e.Key, err = d.value(p.key, depth)
		}
	default:
		if e.Key, err = d.value(p.key, depth); err == nil {
			if e.Value, err = d.value(p.elem, depth); err != nil {
				err = schema.Under(step(e.Key), err)
			}
		}
	}
	return e, err
}

// The parts of Anything's fields, in their order.
var anyParts = func() []*part {
	ps := []*part{
		{from: avro.Boolean, kind: schema.Bool}, {from: avro.Bytes, kind: schema.Bytes}, {from: avro.Double, kind: schema.Float64},
		{from: avro.Float, kind: schema.Float32}, {from: avro.Int, kind: schema.Int32}, {from: avro.Long, kind: schema.Int64}, {from: avro.String, kind: schema.String},
	}
	one := &part{op: opAny, smallest: 1}
	return append(ps, &part{op: opArray, elem: one}, &part{op: opEntries, key: one, elem: one})
}()

// anything reads data that has no schema: the first field that is set counts, as in the original.
func (d *Decoder) anything(depth int) (schema.Value, error) {
	if depth > maxDepth {
		return schema.Value{}, wrong("data without a schema nests deeper than %d", maxDepth)
	}
	var found schema.Value
	for _, p := range anyParts {
		switch i := d.r.ReadLong(); {
		case d.r.Error != nil:
			return found, d.short()
		case i == 0:
		case i == 1:
			v, err := d.value(p, depth+1)
			if err != nil {
				return v, err
			}
			if found.IsNull() {
				found = v
			}
		default:
			return found, wrong("branch %d of a union of 2", i)
		}
	}
	return found, nil
}
