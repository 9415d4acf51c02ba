package avro

import (
	"fmt"
	"math"
)

// walker visits the types of a schema, each once.
type walker struct {
	seen, done map[*Type]bool // done: with all its parts
	defaults   bool
}

// each calls visit for every type, parts first. Types nest as deep as the text and the chain of its names do; both are bounded.
func (w *walker) each(t *Type, visit func(*Type) error) error {
	if w.seen[t] {
		return nil
	}
	w.seen[t] = true
	for i := range t.Fields {
		if err := w.each(t.Fields[i].Type, visit); err != nil {
			return err
		}
	}
	for _, b := range t.Branches {
		if err := w.each(b, visit); err != nil {
			return err
		}
	}
	if t.Elem != nil {
		if err := w.each(t.Elem, visit); err != nil {
			return err
		}
	}
	return visit(t)
}

// check looks at what can be judged when all names have their types: unions and, where they count, defaults.
func (w *walker) check(root *Type) error {
	return w.each(root, func(t *Type) error {
		switch t.Kind {
		case Union:
			seen := make(map[string]bool, len(t.Branches))
			for _, b := range t.Branches {
				if b.Kind == Union {
					return fmt.Errorf("a union directly inside a union")
				}
				name := b.FullName()
				if seen[name] {
					return fmt.Errorf("duplicate in a union: %s", quote(name))
				}
				seen[name] = true
			}
		case Record:
			if w.defaults {
				for i := range t.Fields {
					f := &t.Fields[i]
					if f.Default == nil {
						continue
					}
					v := defaultCheck{w: w, known: map[defaultPair]bool{}}
					if !v.valid(f.Type, f.Default) || v.recursive != "" {
						if v.recursive != "" {
							return fmt.Errorf("record %s: field %s: the default %s holds the type %s, which is not complete there", quote(t.FullName()), quote(f.Name), short(f.Default), quote(v.recursive))
						}
						return fmt.Errorf("record %s: invalid default for field %s: %s is no %s", quote(t.FullName()), quote(f.Name), short(f.Default), describe(f.Type))
					}
				}
			}
		}
		w.done[t] = true
		return nil
	})
}

// describe names a type for a message.
func describe(t *Type) string {
	switch {
	case t == nil:
		return "type that is defined before it"
	case t.Kind == Union:
		s := "any of ["
		for i, b := range t.Branches {
			if i > 0 {
				s += ", "
			}
			if i == 8 {
				s += "…"
				break
			}
			if b == nil {
				s += "a type that is defined later"
				continue
			}
			s += b.FullName()
		}
		return s + "]"
	case t.Kind.Named():
		return t.Kind.String() + " " + quote(t.FullName())
	}
	return t.Kind.String()
}

// defaultCheck validates one default. What a record's default leaves out is taken from its fields' own, so that one value may be
// asked for many times; each answer is kept.
type defaultCheck struct {
	w         *walker // nil while the text is being read
	known     map[defaultPair]bool
	recursive string // the record that was reached before it was complete, which ends the search
}

type defaultPair struct {
	t *Type
	j *JSON
}

func (c *defaultCheck) valid(t *Type, j *JSON) bool {
	if j == nil || c.recursive != "" {
		return false
	}
	if t == nil { // a name that is not known yet, which the Java library takes for a record without fields
		return j.Kind == JSONObject
	}
	switch t.Kind {
	case String, Bytes, Enum, Fixed:
		return j.Kind == JSONString
	case Int:
		n, ok := j.Int()
		return ok && n >= math.MinInt32 && n <= math.MaxInt32
	case Long:
		_, ok := j.Int()
		return ok
	case Float, Double:
		return j.Kind == JSONInt || j.Kind == JSONFloat
	case Boolean:
		return j.Kind == JSONBool
	case Null:
		return j.Kind == JSONNull
	case Array:
		if j.Kind != JSONArray {
			return false
		}
		for _, k := range j.kids {
			if !c.valid(t.Elem, k) {
				return false
			}
		}
		return true
	case Map:
		if j.Kind != JSONObject {
			return false
		}
		for _, k := range j.kids {
			if !c.valid(t.Elem, k) {
				return false
			}
		}
		return true
	case Union:
		for _, b := range t.Branches {
			if c.valid(b, j) {
				return true
			}
		}
		return false
	}
	if j.Kind != JSONObject {
		return false
	}
	if c.w != nil && !c.w.done[t] {
		c.recursive = t.FullName()
		return false
	}
	pair := defaultPair{t, j}
	ok, known := c.known[pair]
	if !known {
		ok = true
		for i := range t.Fields {
			f := &t.Fields[i]
			v := j.Get(f.Name)
			if v == nil {
				v = f.Default
			}
			if !c.valid(f.Type, v) {
				ok = false
				break
			}
		}
		c.known[pair] = ok
	}
	return ok
}

// ValidDefault reports whether j is a default for fields of type t, whose parts are complete. What is no number (NaN, the infinities)
// is one for fields that are floats themselves alone, since JSON has it as text.
func ValidDefault(t *Type, j *JSON) bool {
	w := walker{seen: map[*Type]bool{}, done: map[*Type]bool{}}
	if err := w.each(t, func(t *Type) error { w.done[t] = true; return nil }); err != nil {
		return false
	}
	c := defaultCheck{w: &w, known: map[defaultPair]bool{}}
	return c.valid(t, j) && (t.Kind == Float || t.Kind == Double || j.finite())
}

func (j *JSON) finite() bool {
	for _, k := range j.kids {
		if !k.finite() {
			return false
		}
	}
	return j.Kind != JSONFloat || !math.IsNaN(j.num) && !math.IsInf(j.num, 0)
}
