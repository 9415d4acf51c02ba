package mysql

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A catalog is the definitions of all tables that are known, as they are behind the last
// statement that was applied. Tables in it are immutable.
type catalog struct {
	d                  dialect // the server's; each statement adds its session's
	charset, collation string  // of the server
	databases          map[string]databaseDef
	tables             map[TableID]*Table
}

// A databaseDef is what tables of a database have where they say nothing.
type databaseDef struct{ charset, collation string }

func newCatalog(d dialect) *catalog {
	c := &catalog{d: d, databases: map[string]databaseDef{}, tables: map[TableID]*Table{}}
	c.charset, c.collation = "utf8mb4", defaultCollation("utf8mb4", d.mariadb)
	if d.mariadb {
		c.charset, c.collation = "latin1", "latin1_swedish_ci"
	}
	return c
}

// An unknownTableError is a statement about a table that is not in the catalog.
type unknownTableError struct{ id TableID }

func (e *unknownTableError) Error() string {
	return fmt.Sprintf("the definition of table %s is not known", e.id)
}

// A mismatchError is a statement that cannot have been run on a table as the catalog has it.
type mismatchError struct {
	id   TableID
	what string
}

func (e *mismatchError) Error() string { return fmt.Sprintf("table %s %s", e.id, e.what) }

// A change is a TableChange with the text that the history has for it.
type change struct {
	TableChange
	text string // "": the statement's
}

// apply runs a statement on the catalog. It changes nothing where it returns an error.
func (c *catalog) apply(st statement, d dialect) (changes []change, moves string, err error) {
	one := func(kind string, id TableID, t *Table) []change {
		return []change{{TableChange: TableChange{Kind: kind, ID: id, Table: t}}}
	}
	switch s := st.(type) {
	case createTable:
		if s.ifNotExists && c.tables[s.id] != nil {
			return nil, "", nil
		}
		var t *Table
		if s.like != nil {
			from := c.tables[*s.like]
			if from == nil {
				return nil, "", &unknownTableError{*s.like}
			}
			copied := *from
			copied.ID, copied.Comment = s.id, ""
			t = &copied
		} else {
			if s.query && d.version != 0 && len(s.def.columns) == 0 {
				return nil, "", &mismatchError{s.id, "was created out of a query, which does not say its columns"}
			}
			if s.query {
				return nil, "", &mismatchError{s.id, "was created out of a query, which adds columns that the statement does not name"}
			}
			if t, err = c.build(s.id, &s.def, d); err != nil {
				return nil, "", err
			}
		}
		c.tables[s.id] = t
		return one("CREATE", s.id, t), s.def.opts.moves, nil
	case alterTable:
		return c.alter(&s, d)
	case renameTables:
		return c.rename(s.pairs)
	case dropTables:
		for _, id := range s.ids {
			delete(c.tables, id)
			changes = append(changes, change{TableChange{Kind: "DROP", ID: id}, s.prefix + id.quoted() + s.suffix})
		}
		return changes, "", nil
	case truncateTable:
		return one("TRUNCATE", s.id, c.tables[s.id]), "", nil
	case replaceTables:
		for _, id := range s.gone {
			delete(c.tables, id)
			changes = append(changes, change{TableChange{Kind: "DROP", ID: id}, "DROP TABLE IF EXISTS " + id.quoted()})
		}
		for i := range s.tables {
			t, err := c.build(s.tables[i].id, &s.tables[i].def, d)
			if err != nil {
				return nil, "", err
			}
			c.tables[t.ID] = t
			changes = append(changes, change{TableChange{Kind: "CREATE", ID: t.ID, Table: t}, s.texts[i]})
		}
		return changes, "", nil
	case createIndex:
		t := c.tables[s.id]
		if !s.key.unique {
			return nil, "", nil
		}
		if t == nil {
			return nil, "", &unknownTableError{s.id}
		}
		n := *t
		if err := n.addKey(s.key); err != nil {
			return nil, "", err
		}
		c.tables[s.id] = &n
		return one("ALTER", s.id, &n), "", nil
	case dropIndex:
		t := c.tables[s.id]
		primary := strings.EqualFold(s.name, "PRIMARY")
		if t == nil || !primary && !t.hasKey(s.name) {
			return nil, "", nil
		}
		n := *t
		n.dropKey(s.name)
		if primary {
			n.PrimaryKey = nil
		}
		c.tables[s.id] = &n
		return one("ALTER", s.id, &n), "", nil
	case createDatabase:
		c.database(&s, d)
	case dropDatabase:
		delete(c.databases, s.name)
		for _, id := range slices.SortedFunc(maps.Keys(c.tables), compareIDs) {
			if id.Database == s.name {
				delete(c.tables, id)
				changes = append(changes, change{TableChange: TableChange{Kind: "DROP", ID: id}})
			}
		}
		return changes, "", nil
	case setServer:
		c.charset, c.collation = resolveCharset(s.charset, s.collation, c.charset, c.collation, c.d.mariadb)
	}
	return nil, "", nil
}

// failed is what is left of a statement that the server has logged with an error: tables
// that it had dropped before it failed.
func failed(st statement) statement {
	switch s := st.(type) {
	case dropTables:
		return s
	case createTable:
		if s.orReplace {
			return dropTables{ids: []TableID{s.id}, prefix: "DROP TABLE IF EXISTS "}
		}
	}
	return otherStatement{}
}

func compareIDs(a, b TableID) int {
	if n := strings.Compare(a.Database, b.Database); n != 0 {
		return n
	}
	return strings.Compare(a.Name, b.Name)
}

func (c *catalog) database(s *createDatabase, d dialect) {
	was, known := c.databases[s.name]
	switch {
	case s.alter && !known:
		was = databaseDef{c.charset, c.collation}
	case s.alter:
	case s.ifNotExists && known:
		return
	default:
		was = databaseDef{c.charset, c.collation}
		if d.server.charset != "" {
			was = d.server
		}
	}
	was.charset, was.collation = resolveCharset(s.charset, s.collation, was.charset, was.collation, c.d.mariadb)
	c.databases[s.name] = was
}

// databaseOf is what tables of a database have where they say nothing.
func (c *catalog) databaseOf(name string, d dialect) databaseDef {
	if def, ok := c.databases[name]; ok {
		return def
	}
	if d.database == name && d.inherits.charset != "" {
		return d.inherits
	}
	return databaseDef{c.charset, c.collation}
}

// build makes a table of its CREATE TABLE.
func (c *catalog) build(id TableID, def *tableDef, d dialect) (*Table, error) {
	outer := c.databaseOf(id.Database, d)
	t := &Table{ID: id, Sequence: def.opts.sequence}
	t.Charset, t.Collation = resolveCharset(def.opts.charset, def.opts.collation, outer.charset, outer.collation, c.d.mariadb)
	if def.opts.comment != nil {
		t.Comment = *def.opts.comment
	}
	for i := range def.columns {
		col, err := newColumn(&def.columns[i], t.Charset, t.Collation, d)
		if err != nil {
			return nil, err
		}
		if t.Column(col.Name) != nil {
			return nil, &mismatchError{id, fmt.Sprintf("has two columns named %s", col.Name)}
		}
		t.Columns = append(t.Columns, col)
	}
	if def.opts.versioned != nil && *def.opts.versioned {
		t.version()
	}
	for _, k := range def.keys {
		if err := t.addKey(k); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// version adds the columns of a system-versioned table that names none itself.
func (t *Table) version() {
	for i := range t.Columns {
		if t.Columns[i].typed.stamp {
			return
		}
	}
	for _, name := range []string{"row_start", "row_end"} {
		t.Columns = append(t.Columns, Column{
			Name: name, Type: Timestamp, TypeName: "TIMESTAMP", Full: "timestamp(6)", Length: 6, Scale: NoLength, SRID: NoLength,
			Generated: true, Stored: true, Invisible: true, typed: typed{length: 6, scale: NoLength, stamp: true, implicit: true},
		})
	}
}

// addKey adds a primary or unique key; the columns of a primary one cannot be null.
func (t *Table) addKey(k keyDef) error {
	key := Key{Name: k.name}
	for _, p := range k.columns {
		key.lengths = append(key.lengths, p.length)
		if p.column == "" {
			key.Columns = append(key.Columns, "")
			continue
		}
		col := t.Column(p.column)
		if col == nil {
			return &mismatchError{t.ID, fmt.Sprintf("has no column %s, which a key holds", p.column)}
		}
		key.Columns = append(key.Columns, col.Name)
	}
	if k.primary {
		if len(t.PrimaryKey) > 0 {
			return &mismatchError{t.ID, "has a primary key already"}
		}
		t.PrimaryKey = key.Columns
		t.Columns = slices.Clone(t.Columns)
		for _, name := range t.PrimaryKey {
			if col := t.Column(name); col != nil && col.Nullable {
				col.notNull()
			}
		}
		return nil
	}
	if key.Name == "" {
		key.Name = t.keyName(key.Columns[0])
	}
	t.UniqueKeys = append(slices.Clip(t.UniqueKeys), key)
	t.findPrefixes()
	return nil
}

// findPrefixes says which keys hold only the fronts of columns. A front as long as the
// column is the column, and of a number there is none.
func (t *Table) findPrefixes() {
	for i := range t.UniqueKeys {
		k := &t.UniqueKeys[i]
		k.Prefix = false
		for j, name := range k.Columns {
			if c := t.Column(name); c != nil && k.lengths[j] > 0 {
				k.Prefix = k.Prefix || c.frontOnly(k.lengths[j])
			}
		}
	}
}

// frontOnly reports whether so many characters or bytes are less than the column may hold.
func (c *Column) frontOnly(length int) bool {
	switch c.Type {
	case Char, VarChar, Binary, VarBinary:
		return length < c.Length
	case TinyText, Text, MediumText, LongText, TinyBlob, Blob, MediumBlob, LongBlob:
		return true
	}
	return false
}

// notNull makes a nullable column one that is not; a default NULL goes with it.
func (c *Column) notNull() {
	c.Nullable = false
	if c.DefaultNull {
		c.HasDefault, c.DefaultNull = false, false
	}
}

// keyName is the name that the server gives to a key without one: its first column's, with
// a number where there is such a key.
func (t *Table) keyName(column string) string {
	if column == "" {
		column = "functional_index"
	}
	name := column
	for n := 2; t.hasKey(name) || strings.EqualFold(name, "PRIMARY"); n++ {
		name = fmt.Sprintf("%s_%d", column, n)
	}
	return name
}

func (t *Table) hasKey(name string) bool {
	return slices.ContainsFunc(t.UniqueKeys, func(k Key) bool { return strings.EqualFold(k.Name, name) })
}

func (t *Table) dropKey(name string) {
	t.UniqueKeys = slices.DeleteFunc(slices.Clone(t.UniqueKeys), func(k Key) bool { return strings.EqualFold(k.Name, name) })
}

func (c *catalog) rename(pairs []renamePair) ([]change, string, error) {
	// All pairs or none: they may swap tables through a third name.
	moved := map[TableID]*Table{}
	at := func(id TableID) *Table {
		if t, ok := moved[id]; ok {
			return t
		}
		return c.tables[id]
	}
	var changes []change
	for _, p := range pairs {
		t := at(p.from)
		if t == nil {
			// What is not known may be a view; a known table must not keep an old definition under
			// that name.
			moved[p.to] = nil
			changes = append(changes, change{TableChange{Kind: "ALTER", ID: p.to, Was: p.from}, p.text})
			continue
		}
		n := *t
		n.ID = p.to
		moved[p.from], moved[p.to] = nil, &n
		changes = append(changes, change{TableChange{Kind: "ALTER", ID: p.to, Was: p.from, Table: &n}, p.text})
	}
	c.put(moved)
	return changes, "", nil
}

// put takes tables over; nil removes one.
func (c *catalog) put(tables map[TableID]*Table) {
	for id, t := range tables {
		if t == nil {
			delete(c.tables, id)
		} else {
			c.tables[id] = t
		}
	}
}
