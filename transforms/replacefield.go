package transforms

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
)

var (
	excluded = config.Key[[]string]{Name: "exclude", EmptyDefault: true, Doc: "Fields to leave out. Wins over include."}
	included = config.Key[[]string]{Name: "include", EmptyDefault: true, Doc: "Fields to keep; all where it is empty."}
	renames  = config.Key[[]string]{Name: "renames", EmptyDefault: true, Check: checkRenames,
		Doc: "Fields to rename, as old:new. The other two lists know a field by its old name."}
)

// ReplaceField filters and renames fields.
var ReplaceField = pair("replace-field", "ReplaceField", "Leaves out and renames fields of the %s. A null stays null.",
	config.Define(excluded, included, renames, replaceNull), newReplaceField)

func checkRenames(list []string) error {
	for _, pair := range list {
		if strings.Count(pair, ":") != 1 {
			return fmt.Errorf("Invalid rename mapping: %s", pair)
		}
	}
	return nil
}

type replaceField struct {
	programs
	half
	exclude, include []string
	renames          map[string]string
	defaults         bool
}

func newReplaceField(v config.Values, h half) (Transform, error) {
	t := &replaceField{half: h, exclude: excluded.Get(v), include: included.Get(v), renames: map[string]string{}, defaults: replaceNull.Get(v)}
	for _, pair := range renames.Get(v) {
		old, new, _ := strings.Cut(pair, ":")
		t.renames[old] = new
	}
	return t, nil
}

func (t *replaceField) keeps(name string) bool {
	return !slices.Contains(t.exclude, name) && (len(t.include) == 0 || slices.Contains(t.include, name))
}

func (t *replaceField) renamed(name string) string {
	if to, ok := t.renames[name]; ok {
		return to
	}
	return name
}

const replacing = "field replacement"

func (t *replaceField) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if v.IsNull() {
		return r, true, nil
	}
	if s == nil {
		if err := requireMap(v, replacing); err != nil {
			return r, false, err
		}
		m := make([]schema.Entry, 0, len(v.Entries()))
		for _, e := range v.Entries() {
			if name := e.Key.Str(); t.keeps(name) {
				m = put(m, t.renamed(name), e.Value)
			}
		}
		t.set(&r, nil, schema.MapValue(m))
		return r, true, nil
	}
	if err := requireStruct(v, replacing); err != nil {
		return r, false, err
	}
	return t.apply(t, &r)
}

func (t *replaceField) plan(p *plan) error {
	s, from, err := p.open(t.half)
	if err != nil {
		return err
	}
	var fields []ref
	b := basics(s)
	for i, f := range s.Fields() {
		if t.keeps(f.Name) {
			b.Field(t.renamed(f.Name), f.Schema)
			fields = append(fields, p.read(from[i], f.Schema, t.defaults))
		}
	}
	out, err := b.TryBuild()
	p.set(t.half, out, fields)
	return err
}
