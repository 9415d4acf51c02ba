package debezium

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var (
	valueHeaders = config.Key[[]string]{Name: "headers", Required: true, Importance: config.High, Width: config.Long, Order: 1, Display: "Header names list",
		Check: required[[]string]("headers", func(l []string) bool { return len(l) == 0 }), Doc: "Keys of the headers to take, the last one of each."}
	headerFields = config.Key[[]string]{Name: "fields", Required: true, Importance: config.High, Width: config.Long, Order: 1, Display: "Field names list",
		Check: required[[]string]("fields", func(l []string) bool { return len(l) == 0 }),
		Doc:   "Fields of the value that take them, as many as there are headers; a dot leads into a struct, which is made where there is none."}
	headerOperation = config.Key[string]{Name: "operation", Required: true, Importance: config.High, Width: config.Long, Order: 1, Display: "Operation: mover or copy",
		Check: config.OneOf("move", "copy"), Doc: "move takes the headers away, copy leaves them."}
)

// HeaderToValue makes fields of headers.
var HeaderToValue = transforms.Plugin{
	Info: plugin.Info{
		Name: "header-to-value", Class: "io.debezium.transforms.HeaderToValue", Version: schema.DebeziumVersion,
		Doc:    "Moves or copies headers into fields of the value. A header that a record does not have is passed over; a null value stays.",
		Config: config.Define(valueHeaders, headerFields, headerOperation),
	},
	New: newHeaderToValue,
}

type headerToValue struct {
	headers []string
	paths   [][]string
	move    bool
	plans   schema.Cache[*headerFieldPlans]
}

// headerFieldPlans are the new schemas of one value schema, by the schemas of the
// headers that a record has.
type headerFieldPlans struct{ list []*headerFieldPlan }

type headerFieldPlan struct {
	of []*schema.Schema // by header; nil where the record has none
	to *fieldTree
}

// maxHeaderPlans bounds the combinations of headers that are remembered per schema.
const maxHeaderPlans = 64

// A fieldTree is a struct with new fields in it.
type fieldTree struct {
	to     *schema.Schema
	from   []int // position of each old field in the new struct
	header []int // of each new field: the header that it takes, -1 for none
	inner  []*fieldTree
}

func newHeaderToValue(v config.Values) (transforms.Transform, error) {
	t := &headerToValue{headers: valueHeaders.Get(v), move: strings.EqualFold(headerOperation.Get(v), "move")}
	for _, f := range headerFields.Get(v) {
		t.paths = append(t.paths, strings.Split(f, "."))
	}
	if len(t.paths) != len(t.headers) {
		return nil, &config.Error{Key: headerFields.Name, Text: "'fields' config must have the same number of elements as 'headers' config."}
	}
	return t, nil
}

func (t *headerToValue) Apply(r schema.Record) (schema.Record, bool, error) {
	if r.Value.IsNull() {
		return r, true, nil
	}
	found := make([]schema.Header, len(t.headers))
	of := make([]*schema.Schema, len(t.headers))
	any := false
	for i, key := range t.headers {
		if h, ok := r.Header(key); ok {
			if found[i], of[i] = h, h.Schema; of[i] == nil {
				of[i] = noSchema
			}
			any = true
		}
	}
	switch {
	case !any:
		return r, true, nil
	case r.ValueSchema == nil && r.Value.Kind() == schema.Map:
		for i, h := range found {
			if of[i] != nil {
				r.Value = withEntry(r.Value, t.paths[i], h.Value)
			}
		}
	case r.Value.Kind() != schema.Struct:
		return r, false, &schema.DataError{Reason: "Only Struct objects supported for [Header field insertion], found: " + javatext.ClassName(r.Value.Kind())}
	default:
		tree, err := t.tree(r.ValueSchema, of)
		if err != nil {
			return r, false, err
		}
		r.ValueSchema, r.Value = tree.to, tree.fill(r.Value, found)
	}
	if t.move {
		r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h schema.Header) bool { return slices.Contains(t.headers, h.Key) })
	}
	return r, true, nil
}

// noSchema stands for that of a header without one.
var noSchema = schema.OptionalString

// withEntry is a schemaless map with a value at a path; maps on the way are made.
func withEntry(m schema.Value, path []string, v schema.Value) schema.Value {
	if len(path) > 1 {
		inner, _ := m.Lookup(path[0])
		if inner.Kind() != schema.Map {
			inner = schema.MapValue(nil)
		}
		v = withEntry(inner, path[1:], v)
	}
	return schema.MapValue(put(slices.Clone(m.Entries()), path[0], v))
}

func (t *headerToValue) tree(s *schema.Schema, of []*schema.Schema) (*fieldTree, error) {
	known, err := t.plans.Get(s, func(*schema.Schema) (*headerFieldPlans, error) { return &headerFieldPlans{}, nil })
	if err != nil {
		return nil, err
	}
	for _, p := range known.list {
		if slices.EqualFunc(p.of, of, schema.Equal) {
			return p.to, nil
		}
	}
	var adds []headerField
	for i, h := range of {
		if h != nil {
			adds = append(adds, headerField{t.paths[i], i, h})
		}
	}
	tree, err := grow(s, adds)
	if err != nil {
		return nil, err
	}
	if len(known.list) >= maxHeaderPlans {
		known.list = nil
	}
	known.list = append(known.list, &headerFieldPlan{of, tree})
	return tree, nil
}

// A headerField is a header on its way into a struct.
type headerField struct {
	path   []string
	header int
	s      *schema.Schema
}

// grow is the struct s, nil for a new one, with the fields added. A field that is
// there already is replaced in its place.
func grow(s *schema.Schema, adds []headerField) (*fieldTree, error) {
	t, b := &fieldTree{}, schema.NewStruct("").Optional()
	if s != nil {
		b = schema.From(s)
	}
	into := map[string][]headerField{} // by struct that they lead into
	here := map[string]headerField{}
	var order []string
	for _, a := range adds {
		name := a.path[0]
		if _, known := here[name]; !known && into[name] == nil {
			order = append(order, name)
		}
		if len(a.path) == 1 {
			here[name] = a
			continue
		}
		into[name] = append(into[name], headerField{a.path[1:], a.header, a.s})
	}
	add := func(name string, old *schema.Schema, from int) error {
		header, inner, to := -1, (*fieldTree)(nil), old
		if a, ok := here[name]; ok {
			header, to = a.header, a.s
		} else if list := into[name]; list != nil {
			if old != nil && old.Kind() != schema.Struct {
				return &schema.DataError{Reason: fmt.Sprintf("field %s is a %v, which has no fields: headers cannot go into it", name, old.Kind())}
			}
			var err error
			if inner, err = grow(old, list); err != nil {
				return err
			}
			to = inner.to
		}
		b.Field(name, to)
		t.from, t.header, t.inner = append(t.from, from), append(t.header, header), append(t.inner, inner)
		return nil
	}
	if s != nil {
		for i, f := range s.Fields() {
			if err := add(f.Name, f.Schema, i); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range order {
		if s == nil || s.Index(name) < 0 {
			if err := add(name, nil, -1); err != nil {
				return nil, err
			}
		}
	}
	var err error
	t.to, err = b.TryBuild()
	return t, err
}

// fill is the new struct of an old one, null for none. A struct that is null stays so:
// it has no place for a field.
func (t *fieldTree) fill(old schema.Value, headers []schema.Header) schema.Value {
	fields := make([]schema.Value, len(t.from))
	for i, from := range t.from {
		v := schema.Value{}
		if from >= 0 && !old.IsNull() {
			v = old.Fields()[from]
		}
		switch {
		case t.header[i] >= 0:
			v = headers[t.header[i]].Value
		case t.inner[i] != nil && (from < 0 || !v.IsNull()):
			v = t.inner[i].fill(v, headers)
		}
		fields[i] = v
	}
	return schema.StructValue(t.to, fields)
}
