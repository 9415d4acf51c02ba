package debezium

import (
	"fmt"
	"strings"

	"millrace/schema"
)

// plan is what is known of an envelope's schema.
type plan struct {
	before, after   int
	row             *schema.Schema // as the envelope has it, optional
	fields, headers []addition
	rows            map[string]*shape // of after, by the fields left out
	deletedRows     map[string]*shape // of before
}

// addition is a field of the envelope on its way to the row or a header.
type addition struct {
	name string
	path []int
	s    *schema.Schema // optional, without a default
}

// of is the field's value in an envelope; a null on the way is the result.
func (a *addition) of(v schema.Value) schema.Value {
	for _, i := range a.path {
		if v.IsNull() {
			return v
		}
		v = v.At(i)
	}
	if v.Kind() == schema.Struct { // its schema is another one now
		v = schema.StructValue(a.s, v.Fields())
	}
	return v
}

// envelopeSuffix is what the names of envelopes' schemas end with.
const envelopeSuffix = ".Envelope"

// plan is nil for a schema that is no envelope's.
func (t *unwrap) plan(s *schema.Schema) (*plan, error) {
	if s.Kind() != schema.Struct || !strings.HasSuffix(s.Name(), envelopeSuffix) {
		return nil, nil
	}
	p := &plan{before: s.Index("before"), after: s.Index("after"), rows: map[string]*shape{}, deletedRows: map[string]*shape{}}
	if p.after < 0 {
		return nil, &schema.DataError{Reason: "Unknown field: after"}
	}
	p.row = s.Fields()[p.after].Schema
	for i := range 2 {
		if at := []int{p.before, p.after}[i]; at >= 0 && s.Fields()[at].Schema.Kind() != schema.Struct {
			return nil, nil
		}
	}
	p.fields, p.headers = additions(t.fields, s), additions(t.headers, s)
	return p, nil
}

// additions are the references that the envelope has.
func additions(refs []reference, s *schema.Schema) []addition {
	var out []addition
	for _, r := range refs {
		path, of := resolve(s, r.path)
		if of == nil && len(r.path) == 1 {
			path, of = resolve(s, []string{"source", r.path[0]})
		}
		if of == nil {
			continue
		}
		out = append(out, addition{r.name, path, optional(of)})
	}
	return out
}

func resolve(s *schema.Schema, names []string) (path []int, of *schema.Schema) {
	for _, name := range names {
		if s.Kind() != schema.Struct {
			return nil, nil
		}
		i := s.Index(name)
		if i < 0 {
			return nil, nil
		}
		path, s = append(path, i), s.Fields()[i].Schema
	}
	return path, s
}

// optional is s as an optional schema without a default.
func optional(s *schema.Schema) *schema.Schema {
	b := schema.From(s).Optional().Default(schema.Value{})
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	return b.Build() // nothing about it is new but that null is a value
}

// shape is a row's schema as it goes out, and which of the row's fields are in it.
type shape struct {
	s        *schema.Schema
	from     []int
	all      bool // every field, in its place
	defaults bool // some of them have a default
}

// take are the row's fields, in a slice of their own with room for more behind
// them; where nothing is added or changed, the row's own.
func (sh *shape) take(row schema.Value, defaults bool, more int) []schema.Value {
	old := row.Fields()
	if sh.all && len(old) == len(sh.s.Fields()) && !(defaults && sh.defaults) {
		return old[:len(old):len(old)]
	}
	out := make([]schema.Value, len(sh.from), len(sh.from)+more)
	for i, from := range sh.from {
		if defaults {
			out[i] = row.At(from)
		} else {
			out[i] = old[from]
		}
	}
	return out
}

// maxShapes bounds the lists of left-out fields that are remembered per schema.
const maxShapes = 1000

// shapeOf is the shape of rows of the schema s less the dropped fields, with what
// is added. As in Connect the schema is not optional and has no default.
func (t *unwrap) shapeOf(known *map[string]*shape, s *schema.Schema, dropped []string, add []addition, deleted bool) (*shape, error) {
	key := strings.Join(dropped, "\x00")
	if sh := (*known)[key]; sh != nil {
		return sh, nil
	}
	drop := map[string]bool{}
	for _, name := range dropped {
		drop[name] = true
	}
	b := schema.NewStruct(s.Name()).Doc(s.Doc())
	if n, ok := s.Version(); ok {
		b.Version(n)
	}
	for _, p := range s.Params() {
		b.Param(p.Key, p.Value)
	}
	sh := &shape{}
	names := map[string]bool{}
	for i, f := range s.Fields() {
		if drop[f.Name] && (t.dropAll || f.Schema.Optional()) {
			continue
		}
		b.Field(f.Name, f.Schema)
		names[f.Name] = true
		sh.from = append(sh.from, i)
		_, has := f.Schema.Default()
		sh.defaults = sh.defaults || has
	}
	sh.all = len(sh.from) == len(s.Fields())
	extra := add
	if deleted {
		extra = append([]addition{{name: deletedField, s: schema.OptionalString}}, add...)
	}
	for _, a := range extra {
		if names[a.name] {
			return nil, &schema.DataError{Reason: fmt.Sprintf("Cannot create field because of field name duplication %s", a.name)}
		}
		names[a.name] = true
		b.Field(a.name, a.s)
	}
	var err error
	if sh.s, err = b.TryBuild(); err != nil {
		return nil, err
	}
	if len(*known) >= maxShapes {
		clear(*known)
	}
	(*known)[key] = sh
	return sh, nil
}
