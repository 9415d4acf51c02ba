package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// A DataError says that a value does not fit where it stands, and where that is.
type DataError struct {
	Path   string // "after.total", "tags[3]"; "" for the value itself
	Reason string
}

func (e *DataError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return "field " + strconv.Quote(e.Path) + ": " + e.Reason
}

// Under puts a step (a field's name, "[3]") before the path of a *DataError on its
// way up. Another error is put behind the step's name.
func Under(step string, err error) error {
	e, ok := err.(*DataError)
	if !ok {
		return fmt.Errorf("field %q: %w", step, err)
	}
	path := step
	switch {
	case e.Path == "":
	case strings.HasPrefix(e.Path, "["):
		path += e.Path
	default:
		path += "." + e.Path
	}
	return &DataError{Path: path, Reason: e.Reason}
}

// Validate reports, as a *DataError that names the field, where v is no value of s:
// null where it may not be (a default makes null legal, since readers apply it),
// another kind, a struct of another schema. A nil schema takes everything.
func Validate(s *Schema, v Value) error {
	if s == nil {
		return nil
	}
	if v.kind == Null {
		if s.optional || s.hasDefault {
			return nil
		}
		return &DataError{Reason: fmt.Sprintf("null under the required schema %s", s)}
	}
	if v.kind != s.valueKind {
		return &DataError{Reason: fmt.Sprintf("%v under the schema %s", v.kind, s)}
	}
	switch v.kind {
	case Struct:
		own := v.Schema()
		if !Equal(own, s) {
			return &DataError{Reason: fmt.Sprintf("a struct of the schema %s, which is not the %s that its place has", own, s)}
		}
		for i, f := range v.Fields() {
			if err := Validate(s.fields[i].Schema, f); err != nil {
				return Under(s.fields[i].Name, err)
			}
		}
	case Array:
		for i, e := range v.Elems() {
			if err := Validate(s.elem, e); err != nil {
				return Under("["+strconv.Itoa(i)+"]", err)
			}
		}
	case Map:
		for _, e := range v.Entries() {
			if err := Validate(s.key, e.Key); err != nil {
				return Under("[key]", err)
			}
			if err := Validate(s.elem, e.Value); err != nil {
				return Under("["+strconv.Quote(e.Key.Str())+"]", err)
			}
		}
	case Decimal:
		if v.aux != s.scale {
			return &DataError{Reason: fmt.Sprintf("a decimal of scale %d under the schema's scale %d", v.aux, s.scale)}
		}
	}
	return nil
}
