package transforms

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
)

var extractedField = config.Key[string]{Name: "field", Required: true, Doc: "The field to extract; see field.syntax.version."}

// ExtractField makes one field the whole key or value.
var ExtractField = pair("extract-field", "ExtractField", "Makes one field of the %s the whole of it.",
	config.Define(extractedField, replaceNull, fieldSyntax), newExtractField)

type extractField struct {
	programs
	half
	path     fieldPath
	defaults bool
	nulls    schema.Cache[*schema.Schema]
}

func newExtractField(v config.Values, h half) (Transform, error) {
	path, err := parsePath(extractedField.Get(v), v, extractedField.Name)
	return &extractField{half: h, path: path, defaults: replaceNull.Get(v)}, err
}

const extracting = "field extraction"

// Apply keeps a null null: with a schema it is a null of the field's schema.
func (t *extractField) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if s == nil {
		if !v.IsNull() {
			if err := requireMap(v, extracting); err != nil {
				return r, false, err
			}
		}
		field, err := t.path.mapValue(v)
		if err != nil {
			return r, false, err
		}
		t.set(&r, nil, field)
		return r, true, nil
	}
	if !v.IsNull() {
		if err := requireStruct(v, extracting); err != nil {
			return r, false, err
		}
		return t.apply(t, &r)
	}
	field, err := t.nulls.Get(s, t.find)
	if err != nil {
		return r, false, err
	}
	t.set(&r, field, v)
	return r, true, nil
}

func (t *extractField) plan(p *plan) error {
	s, from, err := p.open(t.half)
	if err != nil {
		return err
	}
	if _, err := t.find(s); err != nil {
		return err
	}
	field, r := t.path.planned(p, s, from, t.defaults)
	p.setOne(t.half, field, r)
	return nil
}

func (t *extractField) find(s *schema.Schema) (*schema.Schema, error) {
	f := t.path.in(s)
	if f == nil {
		return nil, &schema.DataError{Reason: fmt.Sprintf("Unknown field: %s", t.path.text)}
	}
	return f, nil
}
