package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
)

var hoistedField = config.Key[string]{Name: "field", Required: true, Doc: "Name of the one field."}

// HoistField wraps a key or value.
var HoistField = pair("hoist-field", "HoistField", "Wraps the %s, a null as well, in a struct or map of one field.", config.Define(hoistedField), newHoistField)

type hoistField struct {
	programs
	half
	field string
}

func newHoistField(v config.Values, h half) (Transform, error) {
	return &hoistField{half: h, field: hoistedField.Get(v)}, nil
}

func (t *hoistField) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if s == nil {
		t.set(&r, nil, schema.MapValue([]schema.Entry{{Key: schema.StringValue(t.field), Value: v}}))
		return r, true, nil
	}
	return t.apply(t, &r)
}

func (t *hoistField) plan(p *plan) error {
	s := p.halves[t.index()].schema
	if s == nil {
		return errUnplanned
	}
	out, err := schema.NewStruct("").Field(t.field, s).TryBuild()
	if err != nil {
		return err
	}
	p.set(t.half, out, []ref{p.whole(t.half)})
	return nil
}
