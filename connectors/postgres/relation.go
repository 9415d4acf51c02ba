package postgres

import (
	"fmt"
	"slices"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

// A relation is one version of a table's shape: of a relation message of the stream,
// or of the catalog for a snapshot.
type relation struct {
	oid          uint32
	schema, name string
	identity     byte // d default, n nothing, f full, i index
	columns      []relColumn
}

type relColumn struct {
	name string
	typ  uint32
	mod  int32
	key  bool // part of the replica identity
}

// A described is what the catalog knows of a table beyond its shape in the stream.
type described struct {
	columns map[string]catColumn
	pk      []string // the primary key's columns in its order
	index   []string // those of the index that is the replica identity
}

type catColumn struct {
	typ     uint32
	notNull bool
	def     string // the default's expression, or ""
	comment string
}

// A column is how one column of a relation becomes a field.
type column struct {
	name   string
	field  int // its place in the row; -1: left out
	decode decoder
	null   schema.Value // what stands for NULL: null, or the zero of a required column without default
	held   schema.Value // stands for a large value that the server did not send
	needed bool         // NULL is no value of it
}

// A table is one version of a captured table, ready to make events of its rows.
type table struct {
	cdc.Table
	oid          uint32
	schema, name string
	identity     byte
	columns      []column
	schemaValue  schema.Value
	nameValue    schema.Value
	shape        string // what it was compiled from, to recognise it
	reselect     *reselection
	unkeyed      string // a column of the key that deletes come without; "": none
}

// String is schema.name.
func (t *table) String() string { return t.schema + "." + t.name }

// compile makes a table of a relation: names and types from the relation itself,
// which is the shape that the rows to come have, and what the catalog adds where it
// still has a column of that name and type.
func (s *settings) compile(rel *relation, cat *described, types map[uint32]*typeInfo, source *schema.Schema) (t *table, skipped []string, err error) {
	t = &table{
		oid: rel.oid, schema: rel.schema, name: rel.name, identity: rel.identity,
		schemaValue: schema.StringValue(rel.schema), nameValue: schema.StringValue(rel.name),
	}
	keyNames := s.keyOf(rel, cat)
	var fields []schema.Field
	for _, c := range rel.columns {
		col := column{name: c.name, field: -1}
		full := rel.schema + "." + rel.name + "." + c.name
		if slices.Contains(keyNames, c.name) || s.columns.Match(rel.schema, rel.name, c.name) {
			m, ok := s.mapType(types, c.typ, c.mod)
			if !ok {
				skipped = append(skipped, c.name)
			} else {
				known, have := cat.columns[c.name]
				if !have || known.typ != c.typ {
					known = catColumn{}
				}
				known.notNull = known.notNull || slices.Contains(keyNames, c.name)
				sc := s.fieldSchema(m, known, s.sourceType(types, rel, c, known.comment))
				col.field, col.decode = len(fields), m.decode(sc)
				if m.text {
					col.decode = s.changeText(full, m.length, col.decode)
				}
				if col.held = s.held(sc); m.held != nil {
					col.held = m.held(s)
				}
				if _, hasDefault := sc.Default(); known.notNull && !hasDefault {
					col.needed = !sc.Optional()
					if col.null = zeroOf(sc); m.zero != nil {
						col.null = m.zero(sc)
					}
				}
				fields = append(fields, schema.Field{Name: s.naming.Fields.Name(c.name), Schema: sc})
			}
		}
		t.columns = append(t.columns, col)
	}
	t.Topic, t.Name = s.naming.Topic(rel.schema, rel.name), t.String()
	name := s.naming.Schemas.Name(t.Topic)
	if t.Layout, err = envelope.NewLayout(name, fields, source); err != nil {
		return nil, nil, fmt.Errorf("table %s: %w", t, err)
	}
	t.unkeyed = rel.withoutKey(keyNames)
	if len(keyNames) > 0 {
		b := schema.NewStruct(name + envelope.KeySuffix)
		for _, k := range keyNames {
			i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == k })
			if i < 0 || t.columns[i].field < 0 {
				return nil, nil, fmt.Errorf("table %s: its key column %q cannot be sent", t, k)
			}
			f := fields[t.columns[i].field]
			b.Field(f.Name, cdc.Untold(f.Schema))
			t.KeyIndex = append(t.KeyIndex, t.columns[i].field)
		}
		if t.Key, err = b.TryBuild(); err != nil {
			return nil, nil, fmt.Errorf("table %s: key: %w", t, err)
		}
	}
	return t, skipped, nil
}

// keyOf are the names of a relation's key columns, in the key's order: what
// message.key.columns says; the replica identity's index where one is chosen, since
// deletes have its columns alone; else the primary key. A key of the catalog that
// the relation does not have (any more) is none, but for the flags of the stream.
func (s *settings) keyOf(rel *relation, cat *described) []string {
	has := func(names []string) bool {
		for _, n := range names {
			if !slices.ContainsFunc(rel.columns, func(c relColumn) bool { return c.name == n }) {
				return false
			}
		}
		return len(names) > 0
	}
	if own := s.keys.Of(rel.schema, rel.name); has(own) {
		return own
	}
	var flagged []string
	if rel.identity != 'f' {
		for _, c := range rel.columns {
			if c.key {
				flagged = append(flagged, c.name)
			}
		}
	}
	known := cat.pk
	if rel.identity == 'i' {
		known = cat.index
	}
	switch {
	case len(flagged) == 0 && has(known):
		return known
	case len(flagged) > 0 && len(known) == len(flagged) && has(known) &&
		!slices.ContainsFunc(known, func(n string) bool { return !slices.Contains(flagged, n) }):
		return known // the same columns, in the key's own order
	}
	return flagged
}

// withoutKey is a column of the key that is no part of the replica identity, so that the server does not send it with the old row
// of a change; "" where there is none.
func (rel *relation) withoutKey(key []string) string {
	if rel.identity == 'f' {
		return ""
	}
	for _, c := range rel.columns {
		if !c.key && slices.Contains(key, c.name) {
			return c.name
		}
	}
	return ""
}

// fieldSchema is a column's schema with what the catalog knows of it; told is nil
// unless the column's type is to be told.
func (s *settings) fieldSchema(m mapping, known catColumn, told *cdc.SourceType) *schema.Schema {
	b := m.schema.SetOptional(!known.notNull || m.always)
	if s.comments && known.comment != "" {
		b.Doc(known.comment)
	}
	if told != nil {
		told.Tell(b)
	}
	sc := b.Build()
	if def, ok := defaultOf(known.def, m, sc); ok {
		if with, err := schema.From(sc).Default(def).TryBuild(); err == nil {
			return with
		}
	}
	return sc
}

// changeText puts the rules for masks, hashes and cuts behind a column's decoder.
func (s *settings) changeText(full string, length int, d decoder) decoder {
	for _, r := range s.texts {
		if r.Columns.Match(full) {
			change := r.Change
			return func(a *schema.Arena, b []byte) (schema.Value, error) { return change(a, b, length), nil }
		}
	}
	return d
}

// A valueError names the column whose value cannot be read.
type valueError struct {
	column string
	err    error
}

func (e *valueError) Error() string { return fmt.Sprintf("column %q %v", e.column, e.err) }
func (e *valueError) Unwrap() error { return e.err }

// value makes a column's value of its text. What its schema cannot say (NaN in a
// decimal, a time beyond 64 bits, see lossError) is null where null may stand, which
// lossy reports; in a required column it is what comes nearest, if anything does.
func (c *column) value(a *schema.Arena, text []byte) (v schema.Value, lossy bool, err error) {
	v, err = c.decode(a, text)
	switch {
	case err == nil:
		return v, false, nil
	case !lost(err):
	case !c.needed:
		return schema.Value{}, true, nil
	case !v.IsNull():
		return v, true, nil
	}
	return schema.Value{}, false, &valueError{c.name, err}
}
