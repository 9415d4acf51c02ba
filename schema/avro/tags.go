package avro

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema/registry"
)

const tagsProp = "confluent:tags"

// Tags are the tags of all records and fields that have some, in the order of the schema.
func (s *Schema) Tags() []registry.EntityTags {
	var all []registry.EntityTags
	seen := map[string]bool{}
	take := func(path, kind string, tags *JSON) {
		if list := texts(tags); len(list) > 0 {
			all = append(all, registry.EntityTags{Path: path, Kind: kind, Tags: list})
		}
	}
	var walk func(*Type)
	walk = func(t *Type) {
		for _, b := range t.Branches {
			walk(b)
		}
		if t.Elem != nil {
			walk(t.Elem)
		}
		name := t.FullName()
		if t.Kind != Record || seen[name] {
			return
		}
		seen[name] = true
		take(name, "sr_record", t.Prop(tagsProp))
		for i := range t.Fields {
			f := &t.Fields[i]
			take(name+"."+f.Name, "sr_field", f.Prop(tagsProp))
			walk(f.Type)
		}
	}
	walk(s.root)
	return all
}

func (s *Schema) json() (*JSON, error) {
	p := &parser{text: s.canonical, depthLimit: s.limits.Depth, partsLimit: s.limits.Nodes * partsPerNode}
	return p.document()
}

func tagsOf(j *JSON) []string { return texts(j.Get(tagsProp)) }

// texts are the texts of an array, each once.
func texts(j *JSON) []string {
	var all []string
	for _, t := range j.Items() {
		if t.IsString() && !slices.Contains(all, t.text) {
			all = append(all, t.text)
		}
	}
	return all
}

// Tagged is the schema with tags added at and removed from records and fields.
func (s *Schema) Tagged(add, remove []registry.EntityTags) (registry.Schema, error) {
	j, err := s.json()
	if err != nil {
		return nil, err
	}
	for _, e := range add {
		part, err := find(j, e)
		if err != nil {
			return nil, err
		}
		tags := tagsOf(part)
		for _, t := range e.Tags {
			if !slices.Contains(tags, t) {
				tags = append(tags, t)
			}
		}
		setTags(part, tags)
	}
	for _, e := range remove {
		part, err := find(j, e)
		if err != nil {
			return nil, err
		}
		setTags(part, slices.DeleteFunc(tagsOf(part), func(t string) bool { return slices.Contains(e.Tags, t) }))
	}
	tagged, err := Parse(j.String(), registry.ParseOptions{Dependencies: s.deps, New: s.strict, Limits: s.limits})
	if err != nil {
		return nil, err
	}
	return tagged, nil
}

// setTags changes a part of a text that was just parsed for that.
func setTags(j *JSON, tags []string) {
	at := slices.Index(j.keys, tagsProp)
	if len(tags) == 0 {
		if at >= 0 {
			j.keys, j.kids = slices.Delete(j.keys, at, at+1), slices.Delete(j.kids, at, at+1)
		}
		return
	}
	v := &JSON{Kind: JSONArray}
	for _, t := range tags {
		v.kids = append(v.kids, StringJSON(t))
	}
	if at >= 0 {
		j.kids[at] = v
		return
	}
	j.keys, j.kids = append(j.keys, tagsProp), append(j.kids, v)
}

// find is the record or the field at a path such as n.R.a, the nearest one to the root.
func find(root *JSON, e registry.EntityTags) (*JSON, error) {
	record, field := e.Path, ""
	switch e.Kind {
	case "sr_record":
	case "sr_field":
		i := strings.LastIndexByte(e.Path, '.')
		if i < 0 {
			return nil, noPath(e.Path)
		}
		record, field = e.Path[:i], e.Path[i+1:]
	default:
		return nil, fmt.Errorf("tags of a %q: an entity is a sr_record or a sr_field", e.Kind)
	}
	want := NameOf(record, "")
	type place struct {
		j     *JSON
		space string
	}
	todo := []place{{root, ""}}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if p.j.Kind == JSONArray {
			for _, k := range p.j.kids {
				todo = append(todo, place{k, p.space})
			}
			continue
		}
		if own := textOf(p.j, "namespace"); own != nil {
			p.space = *own
		}
		switch kind := p.j.Get("type"); kind.Str() {
		case "record", "error":
			fields := p.j.Get("fields").Items()
			if (want.Space == "" || want.Space == p.space) && want.Local == p.j.Get("name").Str() {
				if field == "" {
					return p.j, nil
				}
				for _, f := range fields {
					if f.Get("name").Str() == field {
						return f, nil
					}
				}
				continue
			}
			for _, f := range fields {
				todo = append(todo, place{f.Get("type"), p.space})
			}
		case "array":
			todo = append(todo, place{p.j.Get("items"), p.space})
		case "map":
			todo = append(todo, place{p.j.Get("values"), p.space})
		case "":
			if kind != nil {
				todo = append(todo, place{kind, p.space})
			}
		}
	}
	return nil, noPath(e.Path)
}

func noPath(path string) error {
	return fmt.Errorf("no matching path %s found in the schema", quote(path))
}
