package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
)

var hoistedField = config.Key[string]{Name: "field", Required: true, Doc: "Name of the one field."}

// HoistField wraps a key or value.
var HoistField = pair("hoist-field", "HoistField", "Wraps the %s, a null as well, in a struct or map of one field.", config.Define(hoistedField), newHoistField)

type hoistField struct {
	arena schema.Arena
	half
	field   string
	schemas schema.Cache[*schema.Schema]
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
	out, err := t.schemas.Get(s, func(s *schema.Schema) (*schema.Schema, error) {
		return schema.NewStruct("").Field(t.field, s).TryBuild()
	})
	if err != nil {
		return r, false, err
	}
	fields := t.arena.Values(1)
	fields[0] = v
	t.set(&r, out, t.arena.Struct(out, fields))
	return r, true, nil
}
