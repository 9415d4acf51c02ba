package transforms

import (
	"fmt"
	"slices"
	"strconv"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

var (
	maskedFields = config.Key[[]string]{Name: "fields", Required: true, Importance: config.High, Check: noEmpty, Doc: "Fields to mask."}
	maskWith     = config.Key[string]{Name: "replacement", Importance: config.Low, Check: config.NonEmpty,
		Doc: "What text and number fields become; without it a field becomes its type's zero: \"\", 0, false, 1970-01-01, an empty list or map."}
)

// MaskField replaces what is in fields.
var MaskField = pair("mask-field", "MaskField", "Replaces the contents of fields of the %s. Null fields and a null as a whole stay null.",
	config.Define(maskedFields, maskWith, replaceNull), newMaskField)

type maskField struct {
	programs
	half
	fields      []string
	replacement string
	custom      bool
	defaults    bool
}

func newMaskField(v config.Values, h half) (Transform, error) {
	return &maskField{half: h, fields: maskedFields.Get(v), replacement: maskWith.Get(v), custom: maskWith.Has(v), defaults: replaceNull.Get(v)}, nil
}

const masking = "mask fields"

func (t *maskField) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if v.IsNull() {
		return r, true, nil
	}
	if s == nil {
		if err := requireMap(v, masking); err != nil {
			return r, false, err
		}
		m := slices.Clone(v.Entries())
		for _, name := range t.fields {
			old, _ := v.Lookup(name)
			masked, err := t.mask(old, 0)
			if err != nil {
				return r, false, schema.Under(name, err)
			}
			m = put(m, name, masked)
		}
		t.set(&r, nil, schema.MapValue(m))
		return r, true, nil
	}
	if err := requireStruct(v, masking); err != nil {
		return r, false, err
	}
	return t.apply(t, &r)
}

func (t *maskField) plan(p *plan) error {
	s, from, err := p.openRead(t.half, t.defaults)
	if err != nil {
		return err
	}
	fields := slices.Clone(from)
	for i, f := range s.Fields() {
		if slices.Contains(t.fields, f.Name) {
			fields[i] = p.compute(from[i], f.Name, func(v schema.Value) (schema.Value, error) { return t.mask(v, f.Schema.Scale()) })
		}
	}
	p.set(t.half, s, fields)
	return nil
}

func (t *maskField) mask(v schema.Value, scale int32) (schema.Value, error) {
	switch {
	case v.IsNull():
		return v, nil
	case t.custom:
		return t.replaced(v, scale)
	}
	switch v.Kind() {
	case schema.Bool:
		return schema.BoolValue(false), nil
	case schema.String:
		return schema.StringValue(""), nil
	case schema.Array:
		return schema.ArrayValue(nil), nil
	case schema.Map:
		return schema.MapValue(nil), nil
	case schema.Date:
		return schema.DateValue(0), nil
	case schema.Time:
		return schema.TimeValue(0), nil
	case schema.Timestamp:
		return schema.TimestampValue(0), nil
	case schema.Decimal: // of the field's scale: Connect's has none, and no converter takes it then
		return schema.DecimalInt64(0, scale), nil
	case schema.Bytes, schema.Struct:
		return v, &schema.DataError{Reason: "Cannot mask value of type: class " + javatext.ClassName(v.Kind())}
	}
	return t.number("0", v.Kind(), scale)
}

func (t *maskField) replaced(v schema.Value, scale int32) (schema.Value, error) {
	switch v.Kind() {
	case schema.String:
		return schema.StringValue(t.replacement), nil
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Float32, schema.Float64, schema.Decimal:
		return t.number(t.replacement, v.Kind(), scale)
	}
	return v, &schema.DataError{Reason: fmt.Sprintf("Cannot mask value of type class %s with custom replacement.", javatext.ClassName(v.Kind()))}
}

// number is the replacement as a number of this kind.
func (t *maskField) number(text string, k schema.Kind, scale int32) (schema.Value, error) {
	bad := func() error {
		return &schema.DataError{Reason: fmt.Sprintf("Unable to convert %s (class java.lang.String) to a number", text)}
	}
	if k == schema.Decimal {
		d, err := schema.ParseDecimal(text)
		if err != nil {
			return d, bad()
		}
		d, exact := d.Rescale(scale)
		if !exact {
			return d, bad()
		}
		return d, nil
	}
	if k == schema.Float32 || k == schema.Float64 {
		bits := 64
		if k == schema.Float32 {
			bits = 32
		}
		f, err := strconv.ParseFloat(text, bits)
		switch {
		case err != nil:
			return schema.Value{}, bad()
		case bits == 32:
			return schema.Float32Value(float32(f)), nil
		}
		return schema.Float64Value(f), nil
	}
	n, err := strconv.ParseInt(text, 10, 8<<(k-schema.Int8)) // the kinds stand in the order of their sizes
	if err != nil {
		return schema.Value{}, bad()
	}
	switch k {
	case schema.Int8:
		return schema.Int8Value(int8(n)), nil
	case schema.Int16:
		return schema.Int16Value(int16(n)), nil
	case schema.Int32:
		return schema.Int32Value(int32(n)), nil
	}
	return schema.Int64Value(n), nil
}
