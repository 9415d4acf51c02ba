package transforms

import (
	"fmt"
	"slices"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

var keyFields = config.Key[[]string]{Name: "fields", Required: true, Importance: config.High, Check: noEmpty,
	Doc: "Fields of the value that become the key, in this order; see field.syntax.version."}

// ValueToKey makes the key of fields of the value.
var ValueToKey = Plugin{
	Info: plugin.Info{
		Name: "value-to-key", Class: javaPackage + "ValueToKey", Version: schema.ConnectVersion,
		Doc:    "Replaces the key by one made of fields of the value. A null value is an error: guard the transform with a predicate.",
		Config: config.Define(keyFields, replaceNull, fieldSyntax),
	},
	New: newValueToKey,
}

type valueToKey struct {
	programs
	paths    []fieldPath
	defaults bool
}

func newValueToKey(v config.Values) (Transform, error) {
	t := &valueToKey{defaults: replaceNull.Get(v)}
	for _, text := range keyFields.Get(v) {
		p, err := parsePath(text, v, keyFields.Name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(t.paths, func(o fieldPath) bool { return o.text == text }) { // twice is once, as in Connect
			t.paths = append(t.paths, p)
		}
	}
	return t, nil
}

const toKey = "copying fields from value to key"

func (t *valueToKey) Apply(r schema.Record) (schema.Record, bool, error) {
	if r.ValueSchema == nil {
		if err := requireMap(r.Value, toKey); err != nil {
			return r, false, err
		}
		key := make([]schema.Entry, len(t.paths))
		for i, p := range t.paths {
			field, err := p.mapValue(r.Value)
			if err != nil {
				return r, false, err
			}
			key[i] = schema.Entry{Key: schema.StringValue(p.text), Value: field}
		}
		r.KeySchema, r.Key = nil, schema.MapValue(key)
		return r, true, nil
	}
	if err := requireStruct(r.Value, toKey); err != nil {
		return r, false, err
	}
	return t.apply(t, &r)
}

func (t *valueToKey) uses(h half) use {
	if h == keyHalf {
		return replaces
	}
	return reads
}

func (t *valueToKey) plan(p *plan) error {
	s, from, err := p.open(valueHalf)
	if err != nil {
		return err
	}
	b := schema.NewStruct("")
	var fields []ref
	for _, path := range t.paths {
		field, r := path.planned(p, s, from, t.defaults)
		if field == nil {
			return &schema.DataError{Reason: fmt.Sprintf("Field does not exist: %s", path.text)}
		}
		b.Field(path.text, field)
		fields = append(fields, r)
	}
	key, err := b.TryBuild()
	p.set(keyHalf, key, fields)
	return err
}
