package transforms

import (
	"fmt"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
)

// fieldSyntax is the setting that says how a field's path is written.
var fieldSyntax = config.Key[string]{
	Name: "field.syntax.version", Default: "V1", Importance: config.High, Check: checkSyntax,
	Doc: "How fields are named: V1 takes the text as a field's name; V2 takes it as a path of names with dots between them, " +
		"names that have dots themselves in backticks.",
}

func checkSyntax(s string) error {
	if strings.EqualFold(s, "V1") || strings.EqualFold(s, "V2") {
		return nil
	}
	return fmt.Errorf("String must be one of (case insensitive): V1, V2")
}

// A fieldPath leads to a field, through structs or maps.
type fieldPath struct {
	text  string
	steps []string
}

// parsePath reads a path of the version that v sets. key is the setting that holds
// it, for errors.
func parsePath(text string, v config.Values, key string) (fieldPath, error) {
	p := fieldPath{text: text}
	if !strings.EqualFold(fieldSyntax.Get(v), "V2") {
		p.steps = []string{text}
		return p, nil
	}
	rest, at := text, 0
	for {
		if !strings.HasPrefix(rest, "`") {
			name, after, more := strings.Cut(rest, ".")
			p.steps = append(p.steps, name)
			if !more {
				return p, nil
			}
			at += len(name) + 1
			rest = after
			continue
		}
		name, used, ok := quotedStep(rest)
		if !ok {
			return p, &config.Error{Key: key, Value: text, Reason: fmt.Sprintf(
				"Incomplete backtick pair in path: [%s], consider adding a backslash before backtick at position %d to escape it", text, at)}
		}
		p.steps = append(p.steps, name)
		if used == len(rest) {
			return p, nil
		}
		at += used + 1 // and the dot
		rest = rest[used+1:]
	}
}

// quotedStep takes a name in backticks from the start of s. The closing backtick
// is one before a dot or at the end, without a backslash before it.
func quotedStep(s string) (name string, used int, ok bool) {
	var b strings.Builder
	start := 1
	for i := 1; i < len(s); i++ {
		if s[i] != '`' {
			continue
		}
		escaped := s[i-1] == '\\' && i > 1
		last := i == len(s)-1
		switch {
		case !last && s[i+1] != '.': // inside of the name
		case escaped && last:
			return "", 0, false
		case escaped:
			b.WriteString(s[start:i-1] + "`")
			start = i + 1
		default:
			b.WriteString(s[start:i])
			return b.String(), i + 1, true
		}
	}
	return "", 0, false
}

// in is the field's schema and position in the innermost struct, nil where the
// path leads nowhere.
func (p fieldPath) in(s *schema.Schema) *schema.Schema {
	for _, step := range p.steps {
		if s == nil || s.Kind() != schema.Struct {
			return nil
		}
		s = s.Field(step)
	}
	return s
}

// structValue is the field's value; a null on the way is the result.
func (p fieldPath) structValue(v schema.Value, defaults bool) schema.Value {
	for _, step := range p.steps {
		if v.Kind() != schema.Struct {
			return schema.Value{}
		}
		if defaults {
			v = v.Get(step)
		} else {
			v = v.GetRaw(step)
		}
	}
	return v
}

// planned is where the field of a struct of the schema s will be, with its schema; nil where the path leads nowhere.
func (p fieldPath) planned(of *plan, s *schema.Schema, from []ref, defaults bool) (*schema.Schema, ref) {
	field := p.in(s)
	if field == nil {
		return nil, ref{}
	}
	i := s.Index(p.steps[0])
	r := of.read(from[i], s.Fields()[i].Schema, defaults)
	if inner := (fieldPath{p.text, p.steps[1:]}); len(inner.steps) > 0 {
		r = of.compute(r, p.steps[0], func(v schema.Value) (schema.Value, error) { return inner.structValue(v, defaults), nil })
	}
	return field, r
}

// mapValue is the value at the path's end in schemaless data, null where the path
// leads nowhere. It is an error where it leads through something that is no map.
func (p fieldPath) mapValue(v schema.Value) (schema.Value, error) {
	for i, step := range p.steps {
		if v.IsNull() {
			return v, nil
		}
		if i > 0 {
			if err := requireMap(v, "nested field access"); err != nil {
				return v, err
			}
		}
		v, _ = v.Lookup(step)
	}
	return v, nil
}
