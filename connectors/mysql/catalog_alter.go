package mysql

import (
	"fmt"
	"slices"
	"strings"
)

// alter runs ALTER TABLE. Names in its clauses are those that columns had before it: the
// server first goes through the old columns, in their order, and then adds what is new or
// has a place.
func (c *catalog) alter(a *alterTable, d dialect) ([]change, string, error) {
	old := c.tables[a.id]
	if old == nil {
		return nil, "", &unknownTableError{a.id}
	}
	t := *old
	t.Columns, t.PrimaryKey, t.UniqueKeys = nil, slices.Clone(old.PrimaryKey), slices.Clone(old.UniqueKeys)
	wrong := func(format string, args ...any) error { return &mismatchError{a.id, fmt.Sprintf(format, args...)} }

	// The table's own character set comes first: new columns have it. CONVERT says what the
	// old ones get.
	convert := false
	var converted databaseDef
	for _, s := range a.specs {
		if s.kind == alterConvert {
			outer := databaseDef{old.Charset, old.Collation}
			if s.charset == "default" {
				outer = c.databaseOf(a.id.Database, d)
			}
			t.Charset, t.Collation = resolveCharset(s.charset, s.collation, outer.charset, outer.collation, d.mariadb)
			convert, converted = true, databaseDef{t.Charset, t.Collation}
		}
	}
	if a.opts.charset != "" || a.opts.collation != "" {
		outer := databaseDef{old.Charset, old.Collation}
		if a.opts.charset == "default" {
			outer = c.databaseOf(a.id.Database, d)
		}
		t.Charset, t.Collation = resolveCharset(a.opts.charset, a.opts.collation, outer.charset, outer.collation, d.mariadb)
	}
	if a.opts.comment != nil {
		t.Comment = *a.opts.comment
	}

	// What is said of old columns, by their names.
	dropped, changed := map[string]bool{}, map[string]*alterSpec{}
	visible, defaults := map[string]*alterSpec{}, map[string]*alterSpec{}
	dropPrimary, dropVersioning := false, false
	result := change{TableChange: TableChange{Kind: "ALTER", ID: a.id}}
	further := map[TableID]*Table{}
	var changes []change
	for i := range a.specs {
		s := &a.specs[i]
		name := strings.ToLower(s.name)
		switch s.kind {
		case alterDropColumn, alterChangeColumn, alterRenameColumn, alterSetDefault, alterDropDefault, alterVisible:
			if old.Column(s.name) == nil {
				if s.kind == alterSetDefault && a.defines(s.name, i) { // MariaDB takes it for the new column
					break
				}
				if add := a.adds(s.def.name); d.mariadb && s.kind == alterChangeColumn && add != nil {
					// MariaDB takes it for one of the column that the statement adds, in its place.
					add.kind, s.kind = alterNothing, alterAddColumn
					continue
				}
				if s.ifExists {
					s.kind = alterNothing
					continue
				}
				return nil, "", wrong("has no column %s, which the statement names", s.name)
			}
		}
		switch s.kind {
		case alterDropColumn:
			dropped[name] = true
		case alterChangeColumn, alterRenameColumn:
			if changed[name] != nil {
				return nil, "", wrong("has column %s changed twice by one statement", s.name)
			}
			changed[name] = s
		case alterSetDefault, alterDropDefault:
			defaults[name] = s
		case alterVisible:
			visible[name] = s
		case alterDropPrimary:
			dropPrimary = true
		case alterDropKey, alterDropAny:
			if strings.EqualFold(s.name, "PRIMARY") {
				dropPrimary = true
			}
			t.dropKey(s.name)
		case alterRenameKey:
			for k := range t.UniqueKeys {
				if strings.EqualFold(t.UniqueKeys[k].Name, s.name) {
					t.UniqueKeys[k].Name = s.to
				}
			}
		case alterRenameTable:
			result.ID, result.Was = s.table, a.id
		case alterDropPeriod:
			dropVersioning = true
		case alterPartitionTo:
			n := *old
			n.ID = s.table
			further[s.table] = &n
			changes = append(changes, change{TableChange: TableChange{Kind: "CREATE", ID: s.table, Table: &n}})
		case alterTableToPart:
			further[s.table] = nil
			changes = append(changes, change{TableChange: TableChange{Kind: "DROP", ID: s.table}})
		}
	}
	if dropPrimary {
		t.PrimaryKey = nil
	}

	// The old columns in their order.
	renamed := map[string]string{}
	placed := map[*alterSpec]Column{}
	for i := range old.Columns {
		col := old.Columns[i]
		name := strings.ToLower(col.Name)
		if dropped[name] || dropVersioning && col.typed.implicit {
			continue
		}
		s := changed[name]
		switch {
		case s == nil:
			if v := defaults[name]; v != nil {
				col.setDefault(v)
			}
		case s.kind == alterRenameColumn:
			renamed[name] = s.to
			col.Name = s.to
		default:
			n, err := newColumn(&s.def, t.Charset, t.Collation, d)
			if err != nil {
				return nil, "", err
			}
			renamed[name] = n.Name
			col = n
			if s.first || s.after != "" {
				placed[s] = col
				continue
			}
		}
		if v := visible[name]; v != nil {
			col.Invisible = v.invisible
		}
		t.Columns = append(t.Columns, col)
	}

	// What is new or has a place, in the statement's order.
	for i := range a.specs {
		s := &a.specs[i]
		col, moved := placed[s]
		switch {
		case moved:
		case s.kind == alterAddColumn:
			if s.ifExists && (old.Column(s.def.name) != nil || a.defines(s.def.name, i)) {
				// MariaDB looks at the old table, whatever the statement's other clauses do to it.
				s.kind = alterNothing
				continue
			}
			n, err := newColumn(&s.def, t.Charset, t.Collation, d)
			if err != nil {
				return nil, "", err
			}
			col = n
			if v := defaults[strings.ToLower(col.Name)]; v != nil && old.Column(col.Name) == nil {
				col.setDefault(v)
			}
		default:
			continue
		}
		at := len(t.Columns)
		switch {
		case s.first:
			at = 0
		case s.after != "":
			if at = 1 + slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, s.after) }); at == 0 {
				return nil, "", wrong("has no column %s, behind which the statement puts %s", s.after, col.Name)
			}
		default:
			for at > 0 && t.Columns[at-1].typed.implicit {
				at-- // the columns of versioning stay behind all others
			}
		}
		t.Columns = slices.Insert(t.Columns, at, col)
	}
	for i := range t.Columns {
		for j := range t.Columns[:i] {
			if strings.EqualFold(t.Columns[i].Name, t.Columns[j].Name) {
				return nil, "", wrong("would have two columns named %s", t.Columns[i].Name)
			}
		}
	}
	if len(t.Columns) == 0 {
		return nil, "", wrong("would have no columns")
	}
	if convert {
		for i := range t.Columns {
			t.Columns[i].convert(converted.charset, converted.collation, d)
		}
	}

	for i := range a.specs { // a column that is dropped and made anew keeps its place in the keys
		if s := &a.specs[i]; s.kind == alterAddColumn {
			delete(dropped, strings.ToLower(s.def.name))
		}
	}
	t.followKeys(dropped, renamed)
	for _, s := range a.specs {
		switch s.kind {
		case alterAddKey:
			if s.ifExists && t.hasKey(s.key.name) || s.ofColumn && s.key.primary && slices.Equal(t.PrimaryKey, []string{s.key.columns[0].column}) {
				continue
			}
			if err := t.addKey(s.key); err != nil {
				return nil, "", err
			}
		case alterAddVersioning:
			t.version()
		}
	}
	if a.opts.versioned != nil && *a.opts.versioned {
		t.version()
	}
	for _, name := range t.PrimaryKey {
		if col := t.Column(name); col != nil && col.Nullable {
			col.notNull()
		}
	}

	t.ID = result.ID
	if result.Was != (TableID{}) {
		delete(c.tables, a.id)
	}
	result.Table = &t
	c.tables[t.ID] = &t
	c.put(further)
	return append([]change{result}, changes...), a.opts.moves, nil
}

// adds is the clause that adds a column of that name, or nil.
func (a *alterTable) adds(name string) *alterSpec {
	for i := range a.specs {
		if s := &a.specs[i]; s.kind == alterAddColumn && strings.EqualFold(s.def.name, name) {
			return s
		}
	}
	return nil
}

// defines reports whether another clause than the i-th makes a column of that name.
func (a *alterTable) defines(name string, i int) bool {
	for j, s := range a.specs {
		if j != i && (s.kind == alterAddColumn || s.kind == alterChangeColumn) && strings.EqualFold(s.def.name, name) {
			return true
		}
	}
	return false
}

// followKeys takes what became of columns over into the keys: new names, and parts that
// are gone.
func (t *Table) followKeys(dropped map[string]bool, renamed map[string]string) {
	follow := func(names []string) []string {
		var out []string
		for _, n := range names {
			low := strings.ToLower(n)
			if n != "" && dropped[low] {
				continue
			}
			if to := renamed[low]; to != "" {
				n = to
			}
			out = append(out, n)
		}
		return out
	}
	t.PrimaryKey = follow(t.PrimaryKey)
	t.UniqueKeys = slices.Clone(t.UniqueKeys)
	kept := t.UniqueKeys[:0]
	for _, k := range t.UniqueKeys {
		var lengths []int
		for i, n := range k.Columns {
			if n == "" || !dropped[strings.ToLower(n)] {
				lengths = append(lengths, k.lengths[i])
			}
		}
		k.lengths = lengths
		if k.Columns = follow(k.Columns); len(k.Columns) > 0 {
			kept = append(kept, k)
		}
	}
	t.UniqueKeys = kept
	t.findPrefixes()
}

// setDefault applies SET DEFAULT and DROP DEFAULT.
func (c *Column) setDefault(s *alterSpec) {
	c.HasDefault, c.Default, c.DefaultNull, c.DefaultExpr = false, "", false, false
	c.typed.def, c.typed.hasDef = "", false
	if s.kind == alterSetDefault {
		c.takeDefault(&s.def.def)
	}
}
