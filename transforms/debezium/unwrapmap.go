package debezium

import (
	"slices"

	"millrace/schema"
)

// isEnvelope reports whether schemaless data is a change event: it has an operation
// and a source, and images that are rows or null.
func isEnvelope(v schema.Value) bool {
	op, ok := v.Lookup("op")
	if !ok || !slices.Contains([]string{"c", "r", "u", "d", "t"}, op.Str()) {
		return false
	}
	if source, ok := v.Lookup("source"); !ok || source.Kind() != schema.Map {
		return false
	}
	images := 0
	for _, name := range []string{"before", "after"} {
		image, ok := v.Lookup(name)
		if !ok {
			continue
		}
		images++
		if image.Kind() != schema.Map && !image.IsNull() {
			return false
		}
	}
	return images > 0 || op.Str() == "t"
}

// schemaless is Apply for data without a schema, which Debezium's own transform
// lets pass.
func (t *unwrap) schemaless(r schema.Record) (schema.Record, bool, error) {
	envelope := r.Value
	if envelope.Kind() != schema.Map || !isEnvelope(envelope) {
		return r, true, nil
	}
	before, _ := envelope.Lookup("before")
	after, _ := envelope.Lookup("after")
	if before.IsNull() && after.IsNull() {
		return r, false, nil // a truncate
	}
	dropped, err := t.dropList(&r)
	if err != nil {
		return r, false, err
	}
	var add []schema.Header
	for _, h := range t.headers {
		if v, ok := h.in(envelope); ok {
			add = append(add, schema.Header{Key: h.name, Value: v})
		}
	}
	if len(add) > 0 {
		r.WithHeaders(add...)
	}
	row, deleted := after, after.IsNull()
	if deleted {
		row = before
	}
	if err := t.address(&r, row, dropped); err != nil {
		return r, false, err
	}
	if deleted && !t.rewrites() {
		r.Value = schema.Value{}
		return r, t.mode != modeDrop, nil
	}
	if len(dropped) > 0 {
		row = without(row, dropped)
	}
	if t.rewrites() || len(t.fields) > 0 {
		m := slices.Clone(row.Entries())
		if t.rewrites() {
			m = put(m, deletedField, deletedText(deleted))
		}
		for _, f := range t.fields {
			if v, ok := f.in(envelope); ok {
				m = put(m, f.name, v)
			}
		}
		row = schema.MapValue(m)
	}
	r.Value = row
	return r, true, nil
}

func put(m []schema.Entry, name string, v schema.Value) []schema.Entry {
	for i := range m {
		if m[i].Key.Str() == name {
			m[i].Value = v
			return m
		}
	}
	return append(m, schema.Entry{Key: schema.StringValue(name), Value: v})
}

// in is what the reference leads to in a schemaless envelope, and whether there is
// such a field; a null on the way is a null there.
func (f *reference) in(envelope schema.Value) (schema.Value, bool) {
	v, ok := envelope, true
	for _, name := range f.path {
		if v.IsNull() {
			return v, true
		}
		if v, ok = v.Lookup(name); !ok {
			break
		}
	}
	if !ok && len(f.path) == 1 {
		source, _ := envelope.Lookup("source")
		v, ok = source.Lookup(f.path[0])
	}
	return v, ok
}
