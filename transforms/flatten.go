package transforms

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

var delimiter = config.Key[string]{Name: "delimiter", Default: ".", Doc: "What stands between the names."}

// Flatten makes one level of nested data.
var Flatten = pair("flatten", "Flatten", "Puts the fields of nested structs and maps of the %s on one level, with their names joined. Lists are kept whole. A null stays null.",
	config.Define(delimiter), newFlatten)

type flatten struct {
	programs
	half
	delimiter string
}

func newFlatten(v config.Values, h half) (Transform, error) {
	return &flatten{half: h, delimiter: delimiter.Get(v)}, nil
}

const flattening = "flattening"

func (t *flatten) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if v.IsNull() {
		return r, true, nil
	}
	if s == nil {
		if err := requireMap(v, flattening); err != nil {
			return r, false, err
		}
		f := flatMap{delimiter: t.delimiter, seen: map[string]bool{}}
		if err := f.add("", v, 0); err != nil {
			return r, false, err
		}
		t.set(&r, nil, schema.MapValue(f.out))
		return r, true, nil
	}
	if err := requireStruct(v, flattening); err != nil {
		return r, false, err
	}
	return t.apply(t, &r)
}

func (t *flatten) plan(p *plan) error {
	s, from, err := p.openRead(t.half, true)
	if err != nil {
		return err
	}
	out, err := t.flat(s)
	if err != nil {
		return err
	}
	p.set(t.half, out, leaves(p, nil, s, from))
	return nil
}

// flatMap collects the leaves of nested maps.
type flatMap struct {
	delimiter string
	seen      map[string]bool
	out       []schema.Entry
}

// maxNesting is how deep maps may nest.
const maxNesting = 1000

func (f *flatMap) add(prefix string, v schema.Value, depth int) error {
	if depth > maxNesting {
		return &schema.DataError{Reason: fmt.Sprintf("maps nested deeper than %d", maxNesting)}
	}
	for _, e := range v.Entries() {
		name := prefix + e.Key.Str()
		if e.Value.Kind() == schema.Map {
			if err := f.add(name+f.delimiter, e.Value, depth+1); err != nil {
				return err
			}
			continue
		}
		if f.seen[name] {
			return twice(name)
		}
		f.seen[name] = true
		f.out = append(f.out, schema.Entry{Key: schema.StringValue(name), Value: e.Value})
	}
	return nil
}

// twice says that two fields would have one name; neither may be lost silently.
func twice(name string) error {
	return &schema.DataError{Reason: fmt.Sprintf("two fields are called %s when flattened; take another delimiter", name)}
}

// flat is the schema of flattened structs.
func (t *flatten) flat(s *schema.Schema) (*schema.Schema, error) {
	b := basics(s)
	def, _ := s.Default()
	f := flatSchema{delimiter: t.delimiter, b: b, seen: map[string]bool{}, open: map[*schema.Schema]bool{}}
	if err := f.add("", s, s.Optional(), def); err != nil {
		return nil, err
	}
	return b.TryBuild()
}

// flatSchema is a schema that is being flattened.
type flatSchema struct {
	delimiter string
	b         *schema.Builder
	seen      map[string]bool         // names of fields so far
	open      map[*schema.Schema]bool // structs around the one whose fields are added
}

func (t *flatSchema) add(prefix string, s *schema.Schema, optional bool, parent schema.Value) error {
	if t.open[s] {
		return &schema.DataError{Reason: fmt.Sprintf("Flatten transformation does not support the %s, which is a part of itself (at %s): its fields have no end", s, prefix)}
	}
	t.open[s] = true
	defer delete(t.open, s)
	for _, f := range s.Fields() {
		name := prefix + f.Name
		optional := optional || f.Schema.Optional()
		def, has := f.Schema.Default()
		if !has {
			def = parent.Get(f.Name) // null where the parent has no default
		}
		switch f.Schema.Kind() {
		case schema.Struct:
			if err := t.add(name+t.delimiter, f.Schema, optional, def); err != nil {
				return err
			}
			continue
		case schema.Map:
			return &schema.DataError{Reason: fmt.Sprintf("Flatten transformation does not support MAP for record with schemas (for field %s).", name)}
		}
		if t.seen[name] {
			return twice(name)
		}
		t.seen[name] = true
		leaf, err := schema.From(f.Schema).SetOptional(optional).Default(def).TryBuild()
		if err != nil {
			return err
		}
		t.b.Field(name, leaf)
	}
	return nil
}

// leaves appends where the leaves of a struct are, in the order of the flat schema; from has its fields, with their defaults. Those of
// a struct that is null are null, whatever their defaults.
func leaves(p *plan, out []ref, s *schema.Schema, from []ref) []ref {
	for i, f := range s.Fields() {
		field := from[i]
		if f.Schema.Kind() != schema.Struct {
			out = append(out, field)
			continue
		}
		inner := make([]ref, len(f.Schema.Fields()))
		for j := range inner {
			inner[j] = p.compute(field, f.Name, func(v schema.Value) (schema.Value, error) {
				if n := len(v.Fields()); n != len(inner) && !v.IsNull() {
					return v, &schema.DataError{Reason: fmt.Sprintf("the value is not what its schema says: %s of %d fields, want a struct of %d", javatext.ClassName(v.Kind()), n, len(inner))}
				}
				return v.At(j), nil
			})
		}
		out = leaves(p, out, f.Schema, inner)
	}
	return out
}
