package transforms

import (
	"errors"

	"millrace/schema"
)

// A planner is a transform whose work on structs follows from their schemas: which fields go where, and what is computed of
// which field. Such transforms say it once for a schema, in a plan, and the plans of several that stand behind each other in a
// chain become one program: what they move through the chain is moved once, and structs that none but the next transform
// would have seen are never made. Apply runs the same program, of one transform; what is no struct it does itself.
type planner interface {
	Transform

	// plan adds the transform's work to the plan. Its errors are those that every record of these schemas has;
	// errUnplanned is none: only Apply can do it.
	plan(p *plan) error

	// uses is what the transform does with a half of the record: only where it reads one does its plan depend on the
	// schema that the half has.
	uses(h half) use
}

type use uint8

const (
	unused use = iota
	reads
	replaces // without looking at it
)

// errUnplanned says that what a half has become is known at run time alone.
var errUnplanned = errors.New("no plan")

// A plan is what becomes of the records of one pair of schemas, as far as it has been told.
type plan struct {
	halves [2]form // by half.index
	ops    []op
	consts []schema.Value
	regs   int            // how many
	filled map[int32]bool // registers that a default made other than null
	step   int            // whose work is being added
}

// A form is what a half of the record is at a point of the chain.
type form struct {
	schema *schema.Schema
	shape  shape
	fields []ref // of a struct that was made
	one    ref   // of a single value
	opened bool  // the incoming struct's fields are read
}

type shape uint8

const (
	asItCame shape = iota
	made           // a struct of fields
	single         // one value
)

// A ref is where a value is found: a field of an incoming struct, a register, a constant.
type ref struct {
	from source
	at   int32
}

type source uint8

const (
	fromValue source = iota // in the order of half.index
	fromKey
	fromRegister
	fromConstant
	sources
)

// An op computes a register. The ops of a program run in the order of its transforms.
type op struct {
	what  opKind
	step  int32
	to    int32
	arg   ref
	field string // of make, for errors
	def   schema.Value
	make  func(schema.Value) (schema.Value, error)
	route func(topic string, timestamp int64) (string, error)
	heads func([]schema.Header) []schema.Header // in a slice of their own where they differ
	add   []fieldHeader
	build *product
}

// A fieldHeader is a header that a field becomes.
type fieldHeader struct {
	key    string
	schema *schema.Schema
	at     ref
}

type opKind uint8

const (
	opMake         opKind = iota // make(arg)
	opDefault                    // arg, or def where that is null
	opRoute                      // changes the topic
	opHeaders                    // changes the headers
	opFieldHeaders               // adds headers
	opTopic                      // the topic as it is by now
	opPartition                  // null where the record has none
	opOffset
	opTimestamp
	opWholeKey // a half as it came
	opWholeValue
	opBuild // a struct that becomes a part of another
)

func newPlan(key, value *schema.Schema) *plan {
	p := &plan{}
	p.halves[keyHalf.index()].schema, p.halves[valueHalf.index()].schema = key, value
	return p
}

// open is the struct that a half is by now, its schema and where its fields are.
func (p *plan) open(h half) (*schema.Schema, []ref, error) {
	f := &p.halves[h.index()]
	if f.schema == nil || f.schema.Kind() != schema.Struct || f.shape == single {
		return nil, nil, errUnplanned
	}
	if f.shape == made {
		return f.schema, f.fields, nil
	}
	f.opened = true
	refs := make([]ref, len(f.schema.Fields()))
	for i := range refs {
		refs[i] = ref{source(h.index()), int32(i)}
	}
	return f.schema, refs, nil
}

// openRead is open, with nulls replaced by their defaults where that is asked for.
func (p *plan) openRead(h half, defaults bool) (*schema.Schema, []ref, error) {
	s, refs, err := p.open(h)
	if err != nil || !defaults {
		return s, refs, err
	}
	read := make([]ref, len(refs))
	for i, r := range refs {
		read[i] = p.read(r, s.Fields()[i].Schema, true)
	}
	return s, read, nil
}

// read is a field's value, a null replaced by the default where that is asked for.
func (p *plan) read(r ref, s *schema.Schema, defaults bool) ref {
	def, ok := s.Default()
	if !ok || !defaults || r.from == fromRegister && p.filled[r.at] {
		return r
	}
	filled := p.result(op{what: opDefault, arg: r, def: def})
	if p.filled == nil {
		p.filled = map[int32]bool{}
	}
	p.filled[filled.at] = true
	return filled
}

func (p *plan) add(o op) {
	o.step = int32(p.step)
	p.ops = append(p.ops, o)
}

// result adds an op; its result has a register of its own.
func (p *plan) result(o op) ref {
	o.to = int32(p.regs)
	p.regs++
	p.add(o)
	return ref{fromRegister, o.to}
}

// of is what an op takes of the record itself.
func (p *plan) of(what opKind) ref { return p.result(op{what: what}) }

// constant is a value that is the same for all records.
func (p *plan) constant(v schema.Value) ref {
	p.consts = append(p.consts, v)
	return ref{fromConstant, int32(len(p.consts) - 1)}
}

// compute is what the function makes of a value; its errors are the named field's.
func (p *plan) compute(arg ref, field string, make func(schema.Value) (schema.Value, error)) ref {
	return p.result(op{what: opMake, arg: arg, field: field, make: make})
}

// whole is all of a half, as one value.
func (p *plan) whole(h half) ref {
	f := &p.halves[h.index()]
	switch {
	case f.shape == single:
		return f.one
	case f.shape == made:
		return p.result(op{what: opBuild, build: newProduct(f.schema, f.fields)})
	case h == keyHalf:
		return p.of(opWholeKey)
	}
	return p.of(opWholeValue)
}

// set makes a half a struct of these fields.
func (p *plan) set(h half, s *schema.Schema, fields []ref) {
	f := &p.halves[h.index()]
	f.schema, f.shape, f.fields = s, made, fields
}

// setOne makes a half one value.
func (p *plan) setOne(h half, s *schema.Schema, one ref) {
	f := &p.halves[h.index()]
	f.schema, f.shape, f.one = s, single, one
}
