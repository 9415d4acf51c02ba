package transforms

import (
	"fmt"
	"slices"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

var (
	droppedHeaders = config.Key[[]string]{Name: "headers", Required: true, Importance: config.High, Check: noEmpty, Doc: "Keys of the headers to remove."}
	insertedHeader = config.Key[string]{Name: "header", Required: true, Importance: config.High, Doc: "Key of the header to add."}
	headerLiteral  = config.Key[string]{Name: "value.literal", Required: true, Importance: config.High,
		Doc: "The header's value as text: numbers, true and false, dates, [lists] and {maps} become such, all else a string."}
)

// DropHeaders removes headers by their keys.
var DropHeaders = Plugin{
	Info: plugin.Info{
		Name: "drop-headers", Class: javaPackage + "DropHeaders", Version: schema.ConnectVersion,
		Doc: "Removes all headers of the given keys.", Config: config.Define(droppedHeaders),
	},
	New: func(v config.Values) (Transform, error) { return dropHeaders(droppedHeaders.Get(v)), nil },
}

type dropHeaders []string

func (t dropHeaders) Apply(r schema.Record) (schema.Record, bool, error) {
	drops := func(h schema.Header) bool { return slices.Contains(t, h.Key) }
	if slices.ContainsFunc(r.Headers, drops) {
		r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), drops)
	}
	return r, true, nil
}

// InsertHeader adds a header.
var InsertHeader = Plugin{
	Info: plugin.Info{
		Name: "insert-header", Class: javaPackage + "InsertHeader", Version: schema.ConnectVersion,
		Doc: "Adds a header to each record, behind those that it has.", Config: config.Define(insertedHeader, headerLiteral),
	},
	New: func(v config.Values) (Transform, error) {
		s, value := converters.ParseText(headerLiteral.Get(v))
		return insertHeader{schema.Header{Key: insertedHeader.Get(v), Schema: s, Value: value}}, nil
	},
}

type insertHeader struct{ h schema.Header }

func (t insertHeader) Apply(r schema.Record) (schema.Record, bool, error) {
	r.WithHeaders(t.h)
	return r, true, nil
}

var (
	fromFields  = config.Key[[]string]{Name: "fields", Required: true, Importance: config.High, Check: noEmpty, Doc: "Fields to make headers of."}
	toHeaders   = config.Key[[]string]{Name: "headers", Required: true, Importance: config.High, Check: noEmpty, Doc: "Keys of the headers, as many as there are fields."}
	headerMoves = config.Key[string]{Name: "operation", Required: true, Importance: config.High, Check: exactlyOneOf("move", "copy"),
		Doc: "move takes the fields out of where they were, copy leaves them."}
)

func exactlyOneOf(allowed ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(allowed, s) {
			return nil
		}
		return fmt.Errorf("String must be one of: %s", commaList(allowed))
	}
}

func commaList(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += ", "
		}
		out += s
	}
	return out
}

// HeaderFrom makes headers of fields.
var HeaderFrom = pair("header-from", "HeaderFrom", "Moves or copies fields of the %s into headers. A null is an error: guard the transform with a predicate.",
	config.Define(fromFields, toHeaders, headerMoves, replaceNull), newHeaderFrom)

type headerFrom struct {
	arena schema.Arena
	half
	fields, headers []string
	move, defaults  bool
	plans           schema.Cache[*headerPlan]
}

type headerPlan struct {
	fields []int          // of the headers
	rest   *schema.Schema // without them, where they move
	from   []int          // of the rest
}

func newHeaderFrom(v config.Values, h half) (Transform, error) {
	t := &headerFrom{half: h, fields: fromFields.Get(v), headers: toHeaders.Get(v), move: headerMoves.Get(v) == "move", defaults: replaceNull.Get(v)}
	if len(t.fields) != len(t.headers) {
		return nil, &config.Error{Key: toHeaders.Name, Text: "'fields' config must have the same number of elements as 'headers' config."}
	}
	return t, nil
}

const makingHeaders = "header creation"

func (t *headerFrom) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	add := make([]schema.Header, len(t.fields))
	if s == nil {
		if err := requireMap(v, makingHeaders); err != nil {
			return r, false, err
		}
		for i, name := range t.fields {
			value, _ := v.Lookup(name)
			add[i] = schema.Header{Key: t.headers[i], Value: value}
		}
		if t.move {
			rest := slices.DeleteFunc(slices.Clone(v.Entries()), func(e schema.Entry) bool { return slices.Contains(t.fields, e.Key.Str()) })
			t.set(&r, nil, schema.MapValue(rest))
		}
		r.WithHeaders(add...)
		return r, true, nil
	}
	if err := requireStruct(v, makingHeaders); err != nil {
		return r, false, err
	}
	p, err := t.plans.Get(s, t.plan)
	if err != nil {
		return r, false, err
	}
	for i, f := range p.fields {
		add[i] = schema.Header{Key: t.headers[i], Schema: s.Fields()[f].Schema, Value: at(v, f, t.defaults)}
	}
	if t.move {
		fields := t.arena.Values(len(p.from))
		for i, from := range p.from {
			fields[i] = at(v, from, t.defaults)
		}
		t.set(&r, p.rest, t.arena.Struct(p.rest, fields))
	}
	r.WithHeaders(add...)
	return r, true, nil
}

func (t *headerFrom) plan(s *schema.Schema) (*headerPlan, error) {
	p := &headerPlan{}
	for _, name := range t.fields {
		i := s.Index(name)
		if i < 0 {
			return nil, &schema.DataError{Reason: fmt.Sprintf("Unknown field: %s", name)}
		}
		p.fields = append(p.fields, i)
	}
	b := basics(s)
	for i, f := range s.Fields() {
		if !slices.Contains(t.fields, f.Name) {
			b.Field(f.Name, f.Schema)
			p.from = append(p.from, i)
		}
	}
	var err error
	p.rest, err = b.TryBuild()
	return p, err
}
