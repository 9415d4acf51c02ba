package avro

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/schema/javatext"
)

// fits is the schema's text as it is kept. Each type is written out where it is first used, so that the text can be longer and deeper
// than the one that was read; it has to be readable itself.
func (s *Schema) fits(known map[string]bool) (string, error) {
	text := s.print(known)
	size := len(text)
	for _, d := range s.deps {
		size += len(d.Text)
	}
	if size > s.limits.Bytes {
		return "", tooLong(size, s.limits)
	}
	depth, most, inside := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inside = !inside
		case inside && c == '\\':
			i++
		case inside:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	if most > s.limits.Depth {
		return "", fmt.Errorf("nested deeper than %d when each type is written out where it is first used", s.limits.Depth)
	}
	return text, nil
}

// print is the schema's text as Java's Schema.toString prints it: known names are mentioned and not defined.
func (s *Schema) print(known map[string]bool) string {
	p := printer{known: make(map[string]bool, len(known)+4)}
	for n := range known {
		p.known[n] = true
	}
	p.typ(s.root, "")
	return string(p.dst)
}

// String is the type's own text, with all types written out where they are met first.
func (t *Type) String() string { return (&Schema{root: t}).print(nil) }

type printer struct {
	dst   []byte
	known map[string]bool // names that were defined
}

func (p *printer) key(first bool, name string) {
	if !first {
		p.dst = append(p.dst, ',')
	}
	p.dst = append(javatext.AppendJSON(p.dst, name), ':')
}

func (p *printer) text(first bool, name, value string) {
	p.key(first, name)
	p.dst = javatext.AppendJSON(p.dst, value)
}

func (p *printer) props(props []Prop) {
	for i := range props {
		p.key(false, props[i].Name)
		p.dst = props[i].Value.Append(p.dst)
	}
}

func (p *printer) typ(t *Type, space string) {
	switch {
	case t.Kind.Named():
		p.named(t, space)
		return
	case t.Kind == Union:
		p.dst = append(p.dst, '[')
		for i, b := range t.Branches {
			if i > 0 {
				p.dst = append(p.dst, ',')
			}
			p.typ(b, space)
		}
		p.dst = append(p.dst, ']')
		return
	case t.Kind.Primitive() && len(t.Props) == 0:
		p.dst = javatext.AppendJSON(p.dst, t.Kind.String())
		return
	}
	p.dst = append(p.dst, '{')
	p.text(true, "type", t.Kind.String())
	switch t.Kind {
	case Array:
		p.key(false, "items")
		p.typ(t.Elem, space)
	case Map:
		p.key(false, "values")
		p.typ(t.Elem, space)
	}
	p.props(t.Props)
	p.dst = append(p.dst, '}')
}

func (p *printer) named(t *Type, space string) {
	full := t.Name.Full()
	if p.known[full] {
		p.dst = javatext.AppendJSON(p.dst, t.Name.within(space))
		return
	}
	p.known[full] = true
	kind := t.Kind.String()
	if t.IsError {
		kind = "error"
	}
	p.dst = append(p.dst, '{')
	p.text(true, "type", kind)
	p.text(false, "name", t.Name.Local)
	if t.Name.Space != space {
		p.text(false, "namespace", t.Name.Space)
	}
	if t.Doc != nil {
		p.text(false, "doc", *t.Doc)
	}
	switch t.Kind {
	case Record:
		p.key(false, "fields")
		p.fields(t)
	case Enum:
		p.key(false, "symbols")
		p.texts(t.Symbols)
		if t.Default != nil {
			p.text(false, "default", *t.Default)
		}
	case Fixed:
		p.key(false, "size")
		p.dst = strconv.AppendInt(p.dst, int64(t.Size), 10)
	}
	p.props(t.Props)
	if len(t.Aliases) > 0 {
		p.key(false, "aliases")
		all := make([]string, len(t.Aliases))
		for i, a := range t.Aliases {
			all[i] = a.within(t.Name.Space)
		}
		p.texts(all)
	}
	p.dst = append(p.dst, '}')
}

func (p *printer) texts(all []string) {
	p.dst = append(p.dst, '[')
	for i, s := range all {
		if i > 0 {
			p.dst = append(p.dst, ',')
		}
		p.dst = javatext.AppendJSON(p.dst, s)
	}
	p.dst = append(p.dst, ']')
}

func (p *printer) fields(t *Type) {
	p.dst = append(p.dst, '[')
	for i := range t.Fields {
		f := &t.Fields[i]
		if i > 0 {
			p.dst = append(p.dst, ',')
		}
		p.dst = append(p.dst, '{')
		p.text(true, "name", f.Name)
		p.key(false, "type")
		p.typ(f.Type, t.Name.Space)
		if f.Doc != nil {
			p.text(false, "doc", *f.Doc)
		}
		if f.Default != nil {
			p.key(false, "default")
			p.dst = f.Default.Append(p.dst)
		}
		if f.Order != Ascending {
			p.text(false, "order", orderNames[f.Order])
		}
		if len(f.Aliases) > 0 {
			p.key(false, "aliases")
			p.texts(f.Aliases)
		}
		p.props(f.Props)
		p.dst = append(p.dst, '}')
	}
	p.dst = append(p.dst, ']')
}

// normalizer copies types with their properties, aliases and defaults in one order and form: properties by name, the keys of objects in
// them and in defaults by name, a logical type's own first, numbers of defaults as the field's type prints them.
//
// The original writes full names without an empty namespace here, which moves a type without a namespace into the one around it; and
// it loses a default that is not of a union's first branch. Neither is copied.
type normalizer struct{ done map[*Type]*Type }

func (n *normalizer) typ(t *Type) *Type {
	if c := n.done[t]; c != nil {
		return c
	}
	c := *t
	n.done[t] = &c
	c.IsError = false
	c.Props = sortedProps(t.Props)
	if t.Logical.Name != "" {
		c.Props = logicalFirst(c.Props, t.Logical)
	}
	if c.Doc != nil && *c.Doc == "" {
		c.Doc = nil
	}
	c.Aliases = slices.Clone(t.Aliases)
	slices.SortFunc(c.Aliases, func(a, b Name) int { return strings.Compare(a.within(t.Name.Space), b.within(t.Name.Space)) })
	if t.Elem != nil {
		c.Elem = n.typ(t.Elem)
	}
	c.Branches = make([]*Type, len(t.Branches))
	for i, b := range t.Branches {
		c.Branches[i] = n.typ(b)
	}
	c.Fields = slices.Clone(t.Fields)
	for i := range c.Fields {
		f := &c.Fields[i]
		f.Type = n.typ(f.Type)
		f.Aliases = slices.Sorted(slices.Values(f.Aliases))
		f.Props = sortedProps(f.Props)
		if f.Default != nil {
			f.Default = normalDefault(f.Default, f.Type)
		}
	}
	return &c
}

func sortedProps(props []Prop) []Prop {
	c := slices.Clone(props)
	slices.SortFunc(c, func(a, b Prop) int { return strings.Compare(a.Name, b.Name) })
	for i := range c {
		c[i].Value = sortedJSON(c[i].Value)
	}
	return c
}

func logicalFirst(props []Prop, l Logical) []Prop {
	own := []string{"logicalType"}
	if l.Name == "decimal" {
		own = append(own, "precision")
		if l.Scale != 0 {
			own = append(own, "scale")
		}
	}
	out := make([]Prop, 0, len(props))
	for _, k := range own {
		out = append(out, Prop{k, propOf(props, k)})
	}
	for _, p := range props {
		if !slices.Contains(own, p.Name) {
			out = append(out, p)
		}
	}
	return out
}

func sortedJSON(j *JSON) *JSON {
	switch j.Kind {
	case JSONArray:
		c := &JSON{Kind: JSONArray, kids: make([]*JSON, len(j.kids))}
		for i, k := range j.kids {
			c.kids[i] = sortedJSON(k)
		}
		return c
	case JSONObject:
		return sortedObject(j, func(_ string, v *JSON) *JSON { return sortedJSON(v) })
	}
	return j
}

func sortedObject(j *JSON, value func(key string, v *JSON) *JSON) *JSON {
	at := make([]int, len(j.keys))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return strings.Compare(j.keys[a], j.keys[b]) })
	c := &JSON{Kind: JSONObject, keys: make([]string, len(at)), kids: make([]*JSON, len(at))}
	for i, k := range at {
		c.keys[i], c.kids[i] = j.keys[k], value(j.keys[k], j.kids[k])
	}
	return c
}

// normalDefault is a default in its type's form. One that is not of the type (or, in a union, of its first branch) stays.
func normalDefault(j *JSON, t *Type) *JSON {
	if t == nil {
		return sortedJSON(j)
	}
	switch t.Kind {
	case Union:
		if len(t.Branches) == 0 {
			return sortedJSON(j)
		}
		return normalDefault(j, t.Branches[0])
	case Float:
		if _, whole := j.Int(); j.Kind == JSONFloat || whole {
			return Float32JSON(float32(j.Float()))
		}
	case Double:
		if _, whole := j.Int(); whole {
			return FloatJSON(j.Float())
		}
	case Bytes, Fixed:
		if j.Kind == JSONString {
			return StringJSON(strings.Map(func(r rune) rune {
				if r > 0xff {
					return '?'
				}
				return r
			}, j.text))
		}
	case Array:
		if j.Kind == JSONArray {
			c := &JSON{Kind: JSONArray, kids: make([]*JSON, len(j.kids))}
			for i, k := range j.kids {
				c.kids[i] = normalDefault(k, t.Elem)
			}
			return c
		}
	case Map:
		if j.Kind == JSONObject {
			return sortedObject(j, func(_ string, v *JSON) *JSON { return normalDefault(v, t.Elem) })
		}
	case Record:
		if j.Kind == JSONObject {
			return sortedObject(j, func(k string, v *JSON) *JSON {
				if i := t.Field(k); i >= 0 {
					return normalDefault(v, t.Fields[i].Type)
				}
				return sortedJSON(v)
			})
		}
	}
	return sortedJSON(j)
}
