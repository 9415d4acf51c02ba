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
	arena    schema.Arena
	paths    []fieldPath
	defaults bool
	keys     schema.Cache[*keyPlan]
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
	p, err := t.keys.Get(r.ValueSchema, t.plan)
	if err != nil {
		return r, false, err
	}
	key := t.arena.Values(len(t.paths))
	for i, path := range p.from {
		v := r.Value
		for _, at := range path {
			if v.IsNull() {
				break
			}
			if t.defaults {
				v = v.At(at)
			} else {
				v = v.Fields()[at]
			}
		}
		key[i] = v
	}
	r.KeySchema, r.Key = p.s, t.arena.Struct(p.s, key)
	return r, true, nil
}

// A keyPlan is the key of values of one schema.
type keyPlan struct {
	s    *schema.Schema
	from [][]int // where each of its fields stands in the value: positions, from the outside in
}

func (t *valueToKey) plan(value *schema.Schema) (*keyPlan, error) {
	p, b := &keyPlan{}, schema.NewStruct("")
	for _, path := range t.paths {
		f := path.in(value)
		if f == nil {
			return nil, &schema.DataError{Reason: fmt.Sprintf("Field does not exist: %s", path.text)}
		}
		b.Field(path.text, f)
		var at []int
		for s, i := value, 0; i < len(path.steps); i++ {
			at = append(at, s.Index(path.steps[i]))
			s = s.Field(path.steps[i])
		}
		p.from = append(p.from, at)
	}
	var err error
	p.s, err = b.TryBuild()
	return p, err
}
