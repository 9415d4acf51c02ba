package schema

import "fmt"

// A schema is recursive when a struct is a part of itself, directly or through other
// structs, arrays and maps: a tree's node has nodes. Then pointers lead in a circle.
// Whoever follows a value comes to an end, since values are finite. Whoever follows
// the schema alone asks [Schema.Recursive] first, or remembers where it was.

// Recursive reports whether what s describes has no end: s, or a part of it, is a
// part of itself.
func (s *Schema) Recursive() bool { return s != nil && s.recursive }

// Self is the struct schema that is being built, as a part of itself: give it to
// ArrayOf, MapOf, Field or the builder of another struct. It differs from what
// TryBuild makes in its optionality, which is asked for here, and has no default.
// Until then it has no fields. What was made with it belongs into this builder's
// fields, and nowhere else. It panics where the struct is built already, since then
// there is the schema itself.
func (b *Builder) Self(optional bool) *Schema {
	if b.built {
		panic("schema: Self of the struct " + b.s.String() + ", which is built already")
	}
	if b.s.kind != Struct && b.err == nil {
		b.err = fmt.Errorf("schema of kind %v: structs alone are parts of themselves", b.s.kind)
	}
	m := &b.self[mention(optional)]
	if *m == nil {
		*m = &Schema{kind: Struct, valueKind: Struct, optional: optional, recursive: true, open: true}
	}
	return *m
}

func mention(optional bool) int {
	if optional {
		return 1
	}
	return 0
}

// close fills what Self has given out with what was built, and is the schema to
// return: the same pointer, where the two are the same.
func (b *Builder) close(s *Schema) (*Schema, error) {
	b.built = true
	if b.self == [2]*Schema{} {
		return s, nil
	}
	if !b.mentioned(s, map[*Schema]bool{}) {
		return nil, fmt.Errorf("schema %s: it was asked for as a part of itself, and is none", s)
	}
	for i, m := range b.self {
		if m == nil || !m.open {
			continue
		}
		*m = *s
		m.optional, m.hasDefault, m.def = i == mention(true), false, Value{}
		m.hash = hashOf(m)
	}
	if m := b.self[mention(s.optional)]; m != nil && !s.hasDefault {
		return m, nil
	}
	return s, nil
}

// mentioned reports whether a part of s is what Self has given out.
func (b *Builder) mentioned(s *Schema, seen map[*Schema]bool) bool {
	found := false
	s.eachPart(func(part *Schema) {
		switch {
		case found || !part.recursive || seen[part]:
		case part == b.self[0] || part == b.self[1]:
			found = true
		default:
			seen[part] = true
			found = b.mentioned(part, seen)
		}
	})
	return found
}

// eachPart calls visit for the schemas that s consists of.
func (s *Schema) eachPart(visit func(*Schema)) {
	for _, f := range s.fields {
		visit(f.Schema)
	}
	if s.key != nil {
		visit(s.key)
	}
	if s.elem != nil {
		visit(s.elem)
	}
}

func (s *Schema) hasRecursivePart() bool {
	yes := false
	s.eachPart(func(part *Schema) { yes = yes || part.recursive })
	return yes
}
