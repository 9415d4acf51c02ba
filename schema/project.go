package schema

import (
	"fmt"
	"slices"
)

// A Projection turns data of one schema into data of another one of the same
// meaning, as Connect's SchemaProjector does: numbers are widened, fields that the
// target has not are left out, fields that the source has not are the target's
// default, or null where the target is optional. Versions are not compared. It is
// immutable and safe for concurrent use.
type Projection struct {
	source, target *Schema
	same           bool // equal schemas: nothing to do
	fields         []projectedField
	key, elem      *Projection
}

type projectedField struct {
	from int // position in the source, -1: not there
	p    *Projection
}

// NewProjection checks that data of source can become data of target and prepares
// it. Errors are *DataError and name the field.
func NewProjection(source, target *Schema) (*Projection, error) {
	return projector{}.projection(source, target)
}

// projector makes projections: of recursive structs one for each pair of schemas.
type projector map[[2]*Schema]*Projection

func (r projector) projection(source, target *Schema) (*Projection, error) {
	pair := [2]*Schema{source, target}
	if p := r[pair]; p != nil {
		return p, nil
	}
	if err := projectable(source, target); err != nil {
		return nil, err
	}
	p := &Projection{source: source, target: target, same: Equal(source, target)}
	if p.same {
		return p, nil
	}
	if target.recursive && target.kind == Struct {
		r[pair] = p
	}
	var err error
	switch target.kind {
	case Struct:
		for _, f := range target.fields {
			from := source.Index(f.Name)
			if from < 0 {
				if !f.Schema.optional && !f.Schema.hasDefault {
					return nil, Under(f.Name, &DataError{Reason: fmt.Sprintf("Required field `%s` is missing from source schema: %s", f.Name, source)})
				}
				p.fields = append(p.fields, projectedField{-1, nil})
				continue
			}
			part, err := r.projection(source.fields[from].Schema, f.Schema)
			if err != nil {
				return nil, Under(f.Name, err)
			}
			p.fields = append(p.fields, projectedField{from, part})
		}
	case Array, Map:
		if p.elem, err = r.parts(source.elem, target.elem); err != nil {
			return nil, Under("[]", err)
		}
		if p.key, err = r.parts(source.key, target.key); err != nil {
			return nil, Under("[key]", err)
		}
	}
	return p, nil
}

func (r projector) parts(source, target *Schema) (*Projection, error) {
	switch {
	case target == nil:
		return nil, nil // schemaless parts take everything
	case source == nil:
		return nil, &DataError{Reason: fmt.Sprintf("Schema type mismatch. source has no schema and target type: %s", target.kind)}
	}
	return r.projection(source, target)
}

// promotable reports whether numbers of kind a are numbers of kind b.
func promotable(a, b Kind) bool { return a >= Int8 && b <= Float64 && a < b }

func projectable(source, target *Schema) error {
	switch {
	case source.kind != target.kind && !promotable(source.kind, target.kind):
		return &DataError{Reason: fmt.Sprintf("Schema type mismatch. source type: %s and target type: %s", source.kind, target.kind)}
	case source.name != target.name:
		return &DataError{Reason: fmt.Sprintf("Schema name mismatch. source name: %q and target name: %q", source.name, target.name)}
	case len(source.params) != len(target.params) || slices.ContainsFunc(source.params, func(p Param) bool {
		v, ok := target.Param(p.Key)
		return !ok || v != p.Value
	}):
		return &DataError{Reason: fmt.Sprintf("Schema parameters not equal. source parameters: %v and target parameters: %v", source.params, target.params)}
	case source.optional && !target.optional && !target.hasDefault:
		return &DataError{Reason: "Writer schema is optional, however, target schema does not provide a default value."}
	}
	return nil
}

// Target is the schema of what Apply returns.
func (p *Projection) Target() *Schema { return p.target }

// Apply projects one value.
func (p *Projection) Apply(v Value) (Value, error) {
	if p == nil || p.same {
		return v, nil
	}
	if v.kind == Null {
		if p.target.optional {
			return v, nil
		}
		if p.target.hasDefault {
			return p.target.def, nil
		}
		return v, &DataError{Reason: fmt.Sprintf("null under the required schema %s", p.target)}
	}
	if v.kind != p.source.valueKind {
		return v, &DataError{Reason: fmt.Sprintf("%v under the schema %s", v.kind, p.source)}
	}
	switch p.target.kind {
	case Struct:
		return p.structValue(v)
	case Array:
		elems := make([]Value, len(v.Elems()))
		for i, e := range v.Elems() {
			var err error
			if elems[i], err = p.elem.Apply(e); err != nil {
				return v, Under(fmt.Sprintf("[%d]", i), err)
			}
		}
		return ArrayValue(elems), nil
	case Map:
		entries := make([]Entry, len(v.Entries()))
		for i, e := range v.Entries() {
			var err error
			if entries[i].Key, err = p.key.Apply(e.Key); err != nil {
				return v, Under("[key]", err)
			}
			if entries[i].Value, err = p.elem.Apply(e.Value); err != nil {
				return v, Under(fmt.Sprintf("[%q]", e.Key.Str()), err)
			}
		}
		return MapValue(entries), nil
	}
	return promote(v, p.target.valueKind), nil
}

func (p *Projection) structValue(v Value) (Value, error) {
	fields := make([]Value, len(p.fields))
	for i, f := range p.fields {
		to := p.target.fields[i]
		if f.from < 0 {
			fields[i] = to.Schema.def // null where there is none: then it is optional
			continue
		}
		var err error
		if fields[i], err = f.p.Apply(v.At(f.from)); err != nil {
			return v, Under(to.Name, err)
		}
	}
	return StructValue(p.target, fields), nil
}

// promote is a number as one of a wider kind.
func promote(v Value, to Kind) Value {
	if v.kind == to {
		return v
	}
	f := float64(v.Int())
	if v.kind == Float32 || v.kind == Float64 {
		f = v.Float()
	}
	switch to {
	case Int16:
		return Int16Value(int16(v.Int()))
	case Int32:
		return Int32Value(int32(v.Int()))
	case Int64:
		return Int64Value(v.Int())
	case Float32:
		return Float32Value(float32(f))
	case Float64:
		return Float64Value(f)
	case Date:
		return DateValue(v.Int())
	case Time:
		return TimeValue(v.Int())
	case Timestamp:
		return TimestampValue(v.Int())
	}
	return v
}
