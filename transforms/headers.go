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
	r.Headers = t.without(r.Headers)
	return r, true, nil
}

func (t dropHeaders) uses(half) use { return unused }

func (t dropHeaders) plan(p *plan) error {
	p.add(op{what: opHeaders, heads: t.without})
	return nil
}

func (t dropHeaders) without(all []schema.Header) []schema.Header {
	drops := func(h schema.Header) bool { return slices.Contains(t, h.Key) }
	if slices.ContainsFunc(all, drops) {
		all = slices.DeleteFunc(slices.Clone(all), drops)
	}
	return all
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
	r.Headers = t.with(r.Headers)
	return r, true, nil
}

func (t insertHeader) uses(half) use { return unused }

func (t insertHeader) plan(p *plan) error {
	p.add(op{what: opHeaders, heads: t.with})
	return nil
}

func (t insertHeader) with(all []schema.Header) []schema.Header { return append(slices.Clip(all), t.h) }

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
	programs
	half
	fields, headers []string
	move, defaults  bool
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
	if s == nil {
		if err := requireMap(v, makingHeaders); err != nil {
			return r, false, err
		}
		add := make([]schema.Header, len(t.fields))
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
	return t.apply(t, &r)
}

func (t *headerFrom) plan(p *plan) error {
	s, from, err := p.open(t.half)
	if err != nil {
		return err
	}
	add := make([]fieldHeader, len(t.fields))
	for i, name := range t.fields {
		at := s.Index(name)
		if at < 0 {
			return &schema.DataError{Reason: fmt.Sprintf("Unknown field: %s", name)}
		}
		of := s.Fields()[at].Schema
		add[i] = fieldHeader{t.headers[i], of, p.read(from[at], of, t.defaults)}
	}
	p.add(op{what: opFieldHeaders, add: add})
	if !t.move {
		return nil
	}
	b := basics(s)
	var rest []ref
	for i, f := range s.Fields() {
		if !slices.Contains(t.fields, f.Name) {
			b.Field(f.Name, f.Schema)
			rest = append(rest, p.read(from[i], f.Schema, t.defaults))
		}
	}
	out, err := b.TryBuild()
	p.set(t.half, out, rest)
	return err
}
