package transforms

import (
	"fmt"

	"millrace/schema"
)

// A program is a plan in the form in which it is run.
type program struct {
	steps  int // how many transforms it is the work of
	ops    []op
	consts []schema.Value
	regs   int    // how many it needs
	opened [2]int // by half: the number of fields of an incoming struct that is read, -1: none is
	out    [2]*product
}

// A product is what a half becomes: a struct, or one value.
type product struct {
	schema *schema.Schema
	one    bool
	at     ref    // of the one value
	moves  []move // of a struct's fields
	n      int    // of fields
}

// A move takes n values that stand behind each other both where they are and where they go.
type move struct {
	from       source
	at, src, n int32
}

func newProduct(s *schema.Schema, fields []ref) *product {
	d := &product{schema: s, n: len(fields)}
	for i, r := range fields {
		if last := len(d.moves) - 1; last >= 0 && d.moves[last].from == r.from && d.moves[last].src+d.moves[last].n == r.at {
			d.moves[last].n++
			continue
		}
		d.moves = append(d.moves, move{from: r.from, at: int32(i), src: r.at, n: 1})
	}
	return d
}

// program is the plan made ready; key and value are the schemas that it is for.
func (p *plan) program(key, value *schema.Schema, steps int) *program {
	g := &program{steps: steps, ops: p.ops, consts: p.consts, regs: max(p.regs, 1), opened: [2]int{-1, -1}}
	for h, came := range map[half]*schema.Schema{keyHalf: key, valueHalf: value} {
		f := &p.halves[h.index()]
		if f.opened {
			g.opened[h.index()] = len(came.Fields())
		}
		switch f.shape {
		case made:
			g.out[h.index()] = newProduct(f.schema, f.fields)
		case single:
			g.out[h.index()] = &product{schema: f.schema, one: true, at: f.one}
		}
	}
	return g
}

// fits reports whether the record has the structs that the program reads.
func (g *program) fits(r *schema.Record) bool {
	return (g.opened[0] < 0 || g.opened[0] == len(r.Value.Fields()) && r.Value.Kind() == schema.Struct) &&
		(g.opened[1] < 0 || g.opened[1] == len(r.Key.Fields()) && r.Key.Kind() == schema.Struct)
}

// run changes a record that fits. An error is the transform's whose number is returned;
// the record is as it was then.
func (g *program) run(r *schema.Record, regs []schema.Value, a *schema.Arena) (step int, err error) {
	in := operands{r.Value.Fields(), r.Key.Fields(), regs, g.consts}
	topic, headers := r.Topic, r.Headers
	for i := range g.ops {
		o := &g.ops[i]
		to := &regs[o.to]
		switch o.what {
		case opMake:
			v, err := o.make(in[o.arg.from][o.arg.at])
			if err != nil {
				return int(o.step), schema.Under(o.field, err)
			}
			*to = v
		case opDefault:
			if *to = in[o.arg.from][o.arg.at]; to.IsNull() {
				*to = o.def
			}
		case opRoute:
			if topic, err = o.route(topic, r.Timestamp); err != nil {
				return int(o.step), err
			}
		case opHeaders:
			headers = o.heads(headers)
		case opFieldHeaders:
			headers = append(make([]schema.Header, 0, len(headers)+len(o.add)), headers...)
			for _, h := range o.add {
				headers = append(headers, schema.Header{Key: h.key, Schema: h.schema, Value: in[h.at.from][h.at.at]})
			}
		case opBuild:
			*to = o.build.make(&in, a)
		default:
			if *to, err = o.what.of(r, topic); err != nil {
				return int(o.step), err
			}
		}
	}
	r.Topic, r.Headers = topic, headers
	key := g.out[1]
	if d := g.out[0]; d != nil {
		r.ValueSchema, r.Value = d.schema, d.make(&in, a)
	}
	if key != nil {
		r.KeySchema, r.Key = key.schema, key.make(&in, a)
	}
	return 0, nil
}

// of is what an op takes of a record whose topic is this by now; null where the record does not have it.
func (k opKind) of(r *schema.Record, topic string) (schema.Value, error) {
	switch k {
	case opTopic:
		return schema.StringValue(topic), nil
	case opPartition:
		if r.Partition != schema.NoPartition {
			return schema.Int32Value(r.Partition), nil
		}
	case opOffset:
		if r.Origin == nil {
			return schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("Only SinkRecord supported for [%s], found: org.apache.kafka.connect.source.SourceRecord", inserting)}
		}
		return schema.Int64Value(r.Origin.Offset), nil
	case opTimestamp:
		if r.Timestamp != schema.NoTimestamp {
			return schema.TimestampValue(r.Timestamp), nil
		}
	case opWholeKey:
		return r.Key, nil
	case opWholeValue:
		return r.Value, nil
	}
	return schema.Value{}, nil
}

// operands are what refs point into, by source.
type operands [sources][]schema.Value

// make is the product of the operands.
func (d *product) make(in *operands, a *schema.Arena) schema.Value {
	if d.one {
		return in[d.at.from][d.at.at]
	}
	if len(d.moves) == 1 {
		// All of an incoming struct under another schema: values are immutable, and can be shared.
		if m := &d.moves[0]; m.from <= fromKey && int(m.n) == len(in[m.from]) {
			return a.Struct(d.schema, in[m.from])
		}
	}
	fields := a.Values(d.n)
	for i := range d.moves {
		m := &d.moves[i]
		if m.n == 1 {
			fields[m.at] = in[m.from][m.src]
			continue
		}
		copy(fields[m.at:m.at+m.n], in[m.from][m.src:m.src+m.n])
	}
	return a.Struct(d.schema, fields)
}

// programs are the programs of one or more transforms that stand behind each other. The zero value is ready.
type programs struct {
	ts    []planner
	arena schema.Arena
	regs  []schema.Value
	reads [2]bool                               // halves whose schemas the programs depend on
	one   schema.Cache[*program]                // by the schema of the half that they depend on
	both  schema.Cache[*schema.Cache[*program]] // by the value's, then the key's
}

func (ps *programs) init(ts ...planner) {
	ps.ts = ts
	for _, h := range []half{valueHalf, keyHalf} {
		for _, t := range ts {
			if u := t.uses(h); u != unused {
				ps.reads[h.index()] = u == reads
				break
			}
		}
	}
}

// keysPerValue is how many schemas of keys are remembered for each schema of values: with the bound of the outer cache it bounds the
// programs of a chain that reads both.
const keysPerValue = 8

// find is the program for the record's schemas, of as many of the transforms as can be planned: of none, where the first cannot.
// The error is the first one's.
func (ps *programs) find(r *schema.Record) (*program, error) {
	key, value := r.KeySchema, r.ValueSchema
	compile := func(*schema.Schema) (*program, error) { return ps.compile(key, value) }
	switch {
	case ps.reads[0] && ps.reads[1]:
		byKey, err := ps.both.Get(value, func(*schema.Schema) (*schema.Cache[*program], error) {
			return &schema.Cache[*program]{Limit: keysPerValue}, nil
		})
		if err != nil {
			return nil, err
		}
		return byKey.Get(key, compile)
	case ps.reads[1]:
		return ps.one.Get(key, compile)
	}
	return ps.one.Get(value, compile)
}

func (ps *programs) compile(key, value *schema.Schema) (*program, error) {
	p := newPlan(key, value)
	n := 0
	for ; n < len(ps.ts); n++ {
		before := *p
		p.step = n
		if err := ps.ts[n].plan(p); err != nil {
			if n == 0 && err != errUnplanned {
				return nil, err
			}
			*p = before // what it had said of itself by then is taken back
			break
		}
	}
	g := p.program(key, value, n)
	if g.regs > len(ps.regs) {
		ps.regs = make([]schema.Value, g.regs)
	}
	return g, nil
}

func (ps *programs) run(g *program, r *schema.Record) (step int, err error) {
	return g.run(r, ps.regs, &ps.arena)
}

// together does the work of as many of the transforms as are one program for such a record, and returns their number; 0
// where that is not more than one. With an error the number is that of the transform that has it, and the record is as it was.
func (ps *programs) together(r *schema.Record) (int, error) {
	g, err := ps.find(r)
	if err != nil || g.steps < 2 || !g.fits(r) {
		return 0, nil // Apply says what is wrong
	}
	step, err := ps.run(g, r)
	if err != nil {
		return step, err
	}
	return g.steps, nil
}

// apply is the work of one transform on a record whose half it changes is a struct under a schema.
func (ps *programs) apply(t planner, r *schema.Record) (schema.Record, bool, error) {
	if ps.ts == nil {
		ps.init(t)
	}
	g, err := ps.find(r)
	if err != nil {
		return *r, false, err
	}
	if g.steps == 0 || !g.fits(r) {
		return *r, false, misfit(r)
	}
	_, err = ps.run(g, r)
	return *r, err == nil, err
}

// misfit says that a value is not what its schema says.
func misfit(r *schema.Record) error {
	return &schema.DataError{Reason: fmt.Sprintf("the record is not what its schemas say: a key of %d fields under %v, a value of %d fields under %v",
		len(r.Key.Fields()), r.KeySchema, len(r.Value.Fields()), r.ValueSchema)}
}
