package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

// A column is how one column of a table becomes a field.
type column struct {
	*Column
	mapping
	field int          // its place in the row; -1: left out
	held  schema.Value // stands for a large value that the log does not hold
}

// A table is one version of a captured table, ready to make events of its rows.
type table struct {
	cdc.Table
	def     *Table
	columns []column // all of them, in the log's order
	fields  int
	dbValue schema.Value
	name    schema.Value
	id      string // database.table
	keyed   []bool // of the columns: part of the key
}

func (t *table) String() string { return t.def.ID.String() }

// compile makes a table of its definition.
func (t *task) compile(ctx context.Context, def *Table) (*table, error) {
	s := t.s
	tab := &table{def: def, dbValue: schema.StringValue(def.ID.Database), name: schema.StringValue(def.ID.Name), id: def.ID.String()}
	keys := s.keys.Of(def.ID.Database, def.ID.Name)
	if slices.ContainsFunc(keys, func(k string) bool { return def.Column(k) == nil }) {
		keys = nil
	}
	if len(keys) == 0 {
		keys = def.Key()
	}
	isKey := func(name string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, name) })
	}
	var fields []schema.Field
	for i := range def.Columns {
		c := &def.Columns[i]
		col := column{Column: c, field: -1}
		cs, err := t.charset(ctx, c.Charset)
		if err != nil {
			return nil, fmt.Errorf("table %s: column %q: %w", tab, c.Name, err)
		}
		if col.mapping, err = t.mapColumn(c, cs, s.change(def.ID.String()+"."+c.Name, c)); err != nil {
			return nil, connectors.BadConfig(fmt.Errorf("table %s: %w; leave it out with column.exclude.list", tab, err))
		}
		if isKey(c.Name) || s.columns.Match(def.ID.Database, def.ID.Name, c.Name) {
			sc, err := s.fieldSchema(def.ID, c, col.mapping)
			if err != nil {
				return nil, fmt.Errorf("table %s: column %q: %w", tab, c.Name, err)
			}
			if col.bind != nil {
				col.bind(sc)
			}
			col.held = s.held(c, sc)
			col.field = len(fields)
			fields = append(fields, schema.Field{Name: s.naming.Fields.Name(c.Name), Schema: sc})
		}
		tab.columns = append(tab.columns, col)
		tab.keyed = append(tab.keyed, isKey(c.Name))
	}
	tab.fields = len(fields)
	tab.Topic, tab.Name = s.naming.Topic(def.ID.Database, def.ID.Name), def.ID.String()
	name := s.naming.Schemas.Name(tab.Topic)
	var err error
	if tab.Layout, err = envelope.NewLayout(name, fields, s.sourceSchema()); err != nil {
		return nil, connectors.BadConfig(fmt.Errorf("table %s: %w", tab, err))
	}
	if len(keys) > 0 {
		b := schema.NewStruct(name + envelope.KeySuffix)
		for _, k := range keys {
			i := slices.IndexFunc(tab.columns, func(c column) bool { return strings.EqualFold(c.Name, k) })
			if i < 0 || tab.columns[i].field < 0 {
				return nil, connectors.BadConfig(fmt.Errorf("table %s: its key column %q cannot be sent", tab, k))
			}
			f := fields[tab.columns[i].field]
			b.Field(f.Name, cdc.Untold(f.Schema))
			tab.KeyIndex = append(tab.KeyIndex, tab.columns[i].field)
		}
		if tab.Key, err = b.TryBuild(); err != nil {
			return nil, connectors.BadConfig(fmt.Errorf("table %s: key: %w", tab, err))
		}
	}
	return tab, nil
}

// change is what a mask, a hash or a cut makes of a column's text; nil: nothing.
func (s *settings) change(full string, c *Column) textChange {
	for _, r := range s.texts {
		if c.Text() && r.Columns.Match(full) {
			change, length := r.Change, max(c.Length, 0)
			return func(a *schema.Arena, text []byte) schema.Value { return change(a, text, length) }
		}
	}
	return nil
}

// fieldSchema is a column's schema with its default and comment.
func (s *settings) fieldSchema(id TableID, c *Column, m mapping) (*schema.Schema, error) {
	b := m.schema.SetOptional(c.Nullable)
	if s.told.Match(id.Database, id.Name, c.Name, c.TypeName) || s.told.Types.Match(c.TypeName) {
		told := cdc.SourceType{Name: c.Name, Type: c.TypeName, Length: c.Length, Scale: c.Scale, HasScale: c.Scale >= 0}
		if s.comments {
			told.Comment = c.Comment
		}
		told.Tell(b)
	}
	if s.comments && c.Comment != "" {
		b.Doc(c.Comment)
	}
	sc, err := b.TryBuild()
	if err != nil {
		return nil, err
	}
	if !c.HasDefault || c.DefaultNull {
		return sc, nil
	}
	v, err := s.defaultOf(c, sc, m)
	if err != nil || v.IsNull() {
		return sc, nil // what cannot be said as a constant is none
	}
	if with, err := schema.From(sc).Default(v).TryBuild(); err == nil {
		return with, nil
	}
	return sc, nil
}

// A logRow decodes one table's rows as one table map describes them.
type logRow struct {
	t       *table
	decoder []decoder // by column

	documents int // columns of JSON
}

var errColumns = errors.New("the definition does not fit")

// plan makes the decoders of a table's rows in the log. An error says that the rows were
// not written with this definition.
func (t *table) plan(m *tableMap) (*logRow, error) {
	if len(m.codes) != len(t.columns) {
		return nil, fmt.Errorf("%w: the rows have %d columns, the table %d", errColumns, len(m.codes), len(t.columns))
	}
	p := &logRow{t: t, decoder: make([]decoder, len(t.columns))}
	for i := range t.columns {
		c := &t.columns[i]
		d, err := c.log(m.codes[i], m.meta[i])
		if err != nil {
			return nil, fmt.Errorf("%w: column %q is %s, the rows have the type %d there", errColumns, c.Name, c.Full, m.codes[i])
		}
		p.decoder[i] = d
		if c.Type == JSON {
			p.documents++
		}
	}
	return p, nil
}

// A valueError names the column whose value cannot be read.
type valueError struct {
	column string
	err    error
}

func (e *valueError) Error() string { return fmt.Sprintf("column %q %v", e.column, e.err) }
func (e *valueError) Unwrap() error { return e.err }

// An imageError is a row that lacks a column that no value can stand for.
type imageError struct{ column string }

func (e *imageError) Error() string { return fmt.Sprintf("column %q is not in the row", e.column) }

// row decodes one image of a row. present has a bit for each column that the image
// holds. other is the image that stands for what this one leaves out: of an update's new
// row its old one; null where there is none. A wrong value comes back as a *valueError when the row was read
// to its end, so that the next one can be.
//
// part is for partial updates, else nil: of an old row it takes the documents, of a new one it says which are changes.
func (p *logRow) row(a *schema.Arena, c *cursor, present []byte, all bool, other schema.Value, part *partialRow) (schema.Value, error) {
	n := len(p.decoder)
	if !all {
		n = 0
		for i := range p.decoder {
			if present[i/8]&(1<<(i%8)) != 0 {
				n++
			}
		}
	}
	nulls := c.take((n + 7) / 8)
	if c.bad {
		return schema.Value{}, errShort
	}
	fields := a.Values(p.t.fields)
	var wrong error
	at, documents := 0, 0
	for i, d := range p.decoder {
		col := &p.t.columns[i]
		document := -1
		if part != nil && col.Type == JSON {
			document = documents
			documents++
		}
		if !all && present[i/8]&(1<<(i%8)) == 0 {
			if col.field < 0 {
				continue
			}
			switch {
			case !other.IsNull():
				fields[col.field] = other.Fields()[col.field]
			case col.large:
				fields[col.field] = col.held
			default:
				wrong = &imageError{col.Name}
			}
			continue
		}
		null := nulls[at/8]&(1<<(at%8)) != 0
		at++
		if null {
			continue
		}
		var v schema.Value
		var err error
		changed := false
		if document >= 0 {
			v, changed, err = part.json(a, c, i, document)
		}
		if !changed {
			before := c.b
			v, err = d(a, c)
			if document >= 0 && part.bits == nil && len(before)-len(c.b) >= 4 {
				part.old[i] = before[4 : len(before)-len(c.b)] // behind their length
			}
		}
		if c.bad {
			return schema.Value{}, errShort
		}
		if col.field < 0 {
			continue
		}
		if err != nil {
			wrong = &valueError{col.Name, err}
			continue
		}
		fields[col.field] = v
	}
	if wrong != nil {
		return schema.Value{}, wrong
	}
	return a.Struct(p.t.Layout.Row, fields), nil
}

// snapRow decodes one row of the protocol's binary form: a zero, a bitmap of nulls that
// begins at its third bit, the values. columns are those that were asked for.
func (t *table) snapRow(a *schema.Arena, b []byte, columns []*column) (schema.Value, error) {
	c := cursor{b: b}
	c.u8()
	nulls := c.take((len(columns) + 9) / 8)
	if c.bad {
		return schema.Value{}, errShort
	}
	fields := a.Values(t.fields)
	for i, col := range columns {
		if nulls[(i+2)/8]&(1<<((i+2)%8)) != 0 {
			continue
		}
		v, err := col.row(a, &c)
		if c.bad {
			return schema.Value{}, errShort
		}
		if err != nil {
			return schema.Value{}, &valueError{col.Name, err}
		}
		fields[col.field] = v
	}
	return a.Struct(t.Layout.Row, fields), nil
}

// charset is the decoder of a character set, which is asked of the server once where it
// needs a table.
func (t *task) charset(ctx context.Context, name string) (charset, error) {
	if cs := builtinCharset(name); cs != nil {
		return cs, nil
	}
	if cs := t.charsets[name]; cs != nil {
		return cs, nil
	}
	ss, err := t.s.open(ctx, t.cc.Files)
	if err != nil {
		return nil, err
	}
	defer ss.close()
	cs, err := ss.readCharset(ctx, name)
	if err != nil {
		return nil, err
	}
	t.charsets[name] = cs
	return cs, nil
}
