package mysql

import (
	"slices"
	"strings"
)

// createTable reads what stands behind CREATE TABLE.
func (p *parser) createTable(orReplace bool, ids *[]TableID) statement {
	c := createTable{orReplace: orReplace, ifNotExists: p.ifNotExists()}
	c.id = p.table()
	*ids = append(*ids, c.id)
	if p.accept("LIKE") {
		like := p.table()
		c.like = &like
		return c
	}
	if p.tok.mark('(') && p.peek.is("LIKE") {
		p.advance()
		p.advance()
		like := p.table()
		c.like = &like
		p.expectMark(')')
		return c
	}
	if p.tok.mark('(') && !p.peek.is("SELECT") && !p.peek.is("WITH") && !p.peek.mark('(') {
		p.advance()
		p.definitions(&c.def)
	}
	p.tableOptions(&c.def.opts, true)
	switch {
	case p.oneOf("SELECT", "AS", "IGNORE", "REPLACE", "WITH", "VALUES", "TABLE") || p.tok.mark('('):
		c.query = true
		p.skipStatement()
	case p.accept("START", "TRANSACTION"): // CREATE … SELECT, as MySQL logs it
	}
	return c
}

// definitions reads the list of columns and keys up to its closing parenthesis.
func (p *parser) definitions(def *tableDef) {
	for {
		if k, column := p.keyOrColumn(); column {
			c := p.column()
			def.columns = append(def.columns, c)
			def.keys = append(def.keys, c.keys()...)
		} else if k.primary || k.unique {
			def.keys = append(def.keys, k)
		}
		if p.acceptMark(',') {
			continue
		}
		p.expectMark(')')
		return
	}
}

// keyOrColumn reads a key, constraint or period, or says that a column stands here.
func (p *parser) keyOrColumn() (k keyDef, column bool) {
	if p.tok.kind != tokenWord {
		return k, true
	}
	if p.accept("CONSTRAINT") {
		if !p.oneOf("PRIMARY", "UNIQUE", "FOREIGN", "CHECK") {
			k.name = p.name()
		}
	}
	switch {
	case p.tok.is("PRIMARY") && p.peek.is("KEY"):
		p.advance()
		p.advance()
		if p.tok.kind == tokenName || p.tok.kind == tokenWord && !p.oneOf("USING", "TYPE") {
			p.name() // a name that says nothing
		}
		p.indexType()
		k.primary, k.name = true, "PRIMARY"
		k.columns = p.keyParts()
		p.skipOptions()
	case p.tok.is("UNIQUE"):
		p.advance()
		_ = p.accept("KEY") || p.accept("INDEX")
		p.ifNotExists()
		if p.tok.kind == tokenName || p.tok.kind == tokenWord && !p.oneOf("USING") && !(p.tok.is("TYPE") && p.peek.kind == tokenWord) {
			k.name = p.name()
		}
		p.indexType()
		k.unique = true
		k.columns = p.keyParts()
		p.skipOptions()
	case p.oneOf("KEY", "INDEX", "FOREIGN", "CHECK"),
		p.oneOf("FULLTEXT", "SPATIAL") && (p.peek.is("KEY") || p.peek.is("INDEX") || p.peek.kind == tokenName || p.peek.mark('(') || p.peek.kind == tokenWord && p.oneOf("FULLTEXT")),
		p.tok.is("SPATIAL"), // reserved, as is FULLTEXT
		p.tok.is("VECTOR") && (p.peek.is("KEY") || p.peek.is("INDEX")),
		p.tok.is("PERIOD") && p.peek.is("FOR"):
		p.skipOptions()
	default:
		return k, true
	}
	return k, false
}

// tableOptions reads the options of a table up to the statement's end, or a comma where
// they stand in a clause of ALTER TABLE, or what begins a query.
func (p *parser) tableOptions(o *tableOptions, create bool) {
	for !p.atEnd() {
		switch {
		case p.tok.mark(','):
			if !create {
				return
			}
			p.advance()
		case p.accept("DEFAULT"):
		case p.accept("CHARSET"), p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"):
			p.acceptMark('=')
			o.charset = strings.ToLower(p.nameOrText())
		case p.accept("COLLATE"):
			p.acceptMark('=')
			o.collation = strings.ToLower(p.nameOrText())
		case p.accept("COMMENT"):
			p.acceptMark('=')
			if p.tok.kind != tokenString {
				p.fail("want a text")
			}
			text := p.tok.text
			o.comment = &text
			p.advance()
		case p.tok.is("WITH") && p.peek.is("SYSTEM"):
			p.advance()
			p.advance()
			p.expect("VERSIONING")
			yes := true
			o.versioned = &yes
		case p.tok.is("PARTITION") && p.peek.is("BY"):
			p.partitions()
		case p.tok.is("SEQUENCE"):
			p.advance()
			p.acceptMark('=')
			o.sequence = p.tok.text != "0"
			p.advance()
		case p.oneOf("UNION") && (p.peek.mark('=') || p.peek.mark('(')): // of MERGE
			p.advance()
			p.acceptMark('=')
			p.parens()
		case create && (p.oneOf("SELECT", "AS", "IGNORE", "REPLACE", "VALUES") || p.tok.is("WITH") || p.tok.is("TABLE") || p.tok.mark('(')):
			return
		case create && p.tok.is("START") && p.peek.is("TRANSACTION"):
			return
		case p.tok.kind == tokenWord, p.tok.kind == tokenName: // NAME [=] value
			p.advance()
			for p.tok.is("DIRECTORY") { // DATA DIRECTORY, INDEX DIRECTORY
				p.advance()
			}
			if p.acceptMark('=') || !p.startsOption() {
				p.optionValue()
			}
		default:
			p.fail("want an option of the table")
		}
	}
}

// optionValue goes over the value of an option we do not know.
func (p *parser) optionValue() {
	switch {
	case p.tok.kind == tokenNumber, p.tok.kind == tokenString, p.tok.kind == tokenHex:
		p.advance()
	case p.tok.mark('-'), p.tok.mark('@'):
		p.advance()
		p.advance()
	case p.tok.mark('('):
		p.parens()
	case p.tok.kind == tokenWord || p.tok.kind == tokenName:
		p.advance()
	}
}

// startsOption reports whether the token begins the next option, behind one that has no
// value (a name of an engine in a trailing place, a word we do not know).
func (p *parser) startsOption() bool {
	return p.peek.mark('=') || p.oneOf("SELECT", "AS", "PARTITION", "WITH") ||
		p.tok.is("DEFAULT") && (p.peek.is("CHARSET") || p.peek.is("CHARACTER") || p.peek.is("COLLATE"))
}

// partitions goes over PARTITION BY … and the list of partitions.
func (p *parser) partitions() {
	for !p.atEnd() {
		switch {
		case p.tok.mark('('):
			p.parens()
			if !p.oneOf("SUBPARTITION", "SUBPARTITIONS", "PARTITIONS", "INTERVAL", "STARTS", "LIMIT", "AUTO", "CURRENT", "HISTORY") && !p.tok.mark('(') {
				return
			}
		case p.oneOf("SELECT", "IGNORE", "REPLACE", "AS"):
			return
		case p.tok.mark(','):
			return
		default:
			p.advance()
		}
	}
}

// createSequence stands for the table that MariaDB keeps a sequence in.
func (p *parser) createSequence(orReplace bool, ids *[]TableID) statement {
	c := createTable{orReplace: orReplace, ifNotExists: p.ifNotExists()}
	c.id = p.table()
	*ids = append(*ids, c.id)
	p.skipStatement()
	c.def.opts.sequence = true
	no := false
	for _, name := range []string{"next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size", "cycle_option", "cycle_count"} {
		d := columnDef{name: name, typ: BigInt, words: "BIGINT", length: NoLength, scale: NoLength, srid: NoLength, null: &no}
		switch name {
		case "cache_size":
			d.words, d.unsigned = "BIGINT UNSIGNED", true
		case "cycle_option":
			d.typ, d.words, d.unsigned, d.length = TinyInt, "TINYINT UNSIGNED", true, 1
		}
		c.def.columns = append(c.def.columns, d)
	}
	return c
}

// alterTable reads the clauses of ALTER TABLE.
func (p *parser) alterTable(id TableID, ids *[]TableID) statement {
	a := alterTable{id: id}
	p.waits()
	for !p.atEnd() {
		p.alterClause(&a, ids)
		if !p.acceptMark(',') && !p.atEnd() {
			// Options follow each other without commas, and PARTITION BY behind the last clause.
			if !p.oneOf("PARTITION", "REMOVE", "DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT", "ENGINE", "WITH", "WITHOUT", "ORDER") && p.tok.kind != tokenWord {
				p.fail("want a comma or the statement's end")
			}
		}
	}
	return a
}

func (p *parser) alterClause(a *alterTable, ids *[]TableID) {
	add := func(s alterSpec) { a.specs = append(a.specs, s) }
	switch {
	case p.tok.is("ADD"):
		p.advance()
		p.addClause(a)
	case p.tok.is("DROP"):
		p.advance()
		p.dropClause(a)
	case p.tok.is("CHANGE"):
		p.advance()
		p.accept("COLUMN")
		s := alterSpec{kind: alterChangeColumn, ifExists: p.ifExists()}
		s.name = p.name()
		s.def = p.column()
		p.position(&s)
		add(s)
		addKeys(a, s.def)
	case p.tok.is("MODIFY"):
		p.advance()
		p.accept("COLUMN")
		s := alterSpec{kind: alterChangeColumn, ifExists: p.ifExists()}
		s.def = p.column()
		s.name = s.def.name
		p.position(&s)
		add(s)
		addKeys(a, s.def)
	case p.tok.is("RENAME"):
		p.advance()
		switch {
		case p.tok.is("COLUMN") && !p.peek.mark('.'):
			p.advance()
			s := alterSpec{kind: alterRenameColumn, ifExists: p.ifExists()}
			s.name = p.name()
			p.expect("TO")
			s.to = p.name()
			add(s)
		case p.oneOf("INDEX", "KEY"):
			p.advance()
			s := alterSpec{kind: alterRenameKey, ifExists: p.ifExists()}
			s.name = p.name()
			p.expect("TO")
			s.to = p.name()
			add(s)
		default:
			_ = p.accept("TO") || p.accept("AS") || p.acceptMark('=')
			s := alterSpec{kind: alterRenameTable, table: p.table()}
			*ids = append(*ids, s.table)
			add(s)
		}
	case p.tok.is("ALTER"):
		p.advance()
		p.alterColumn(a)
	case p.tok.is("CONVERT"):
		p.advance()
		p.convert(a, ids)
	case p.tok.is("ORDER") && p.peek.is("BY"):
		for !p.atEnd() && !p.oneOf("PARTITION", "REMOVE") {
			p.advance()
		}
	case p.tok.is("EXCHANGE"), p.tok.is("TRUNCATE"), p.tok.is("COALESCE") || p.tok.is("REORGANIZE"),
		p.oneOf("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR", "DISCARD", "IMPORT", "REMOVE", "UPGRADE", "FORCE", "ENABLE", "DISABLE", "SECONDARY_LOAD", "SECONDARY_UNLOAD"):
		p.upkeep(a)
	case p.oneOf("WITH", "WITHOUT") && p.peek.is("VALIDATION"):
		p.advance()
		p.advance()
	case p.tok.is("PARTITION") && p.peek.is("BY"):
		p.partitions()
	case p.oneOf("ALGORITHM", "LOCK"):
		p.advance()
		p.acceptMark('=')
		p.name()
	default:
		at := p.tok.pos
		p.tableOptions(&a.opts, false)
		if p.tok.pos == at {
			p.fail("want a clause of ALTER TABLE")
		}
	}
}

// upkeep goes over clauses that change no column, and remembers those that change rows.
func (p *parser) upkeep(a *alterTable) {
	words := strings.ToUpper(p.tok.text)
	if p.peek.is("PARTITION") && p.oneOf("EXCHANGE", "TRUNCATE") || p.tok.is("IMPORT") && p.peek.is("TABLESPACE") {
		a.opts.moves = words + " " + strings.ToUpper(p.peek.text)
	}
	if p.tok.is("IMPORT") && p.peek.is("PARTITION") {
		a.opts.moves = "IMPORT PARTITION … TABLESPACE"
	}
	// Names of partitions stand in a list with commas.
	list := p.peek.is("PARTITION")
	for !p.atEnd() {
		switch {
		case p.tok.mark('('):
			p.parens()
		case p.tok.mark(',') && !list:
			return
		default:
			p.advance()
		}
	}
}

func (p *parser) addClause(a *alterTable) {
	add := func(s alterSpec) { a.specs = append(a.specs, s) }
	switch {
	case p.tok.is("PARTITION") && !p.startsColumn():
		p.advance()
		for !p.atEnd() {
			if p.tok.mark('(') {
				p.parens()
				continue
			}
			p.advance()
		}
		return
	case p.tok.is("SYSTEM") && p.peek.is("VERSIONING"):
		p.advance()
		p.advance()
		add(alterSpec{kind: alterAddVersioning})
		return
	}
	column := p.accept("COLUMN")
	ifNot := p.ifNotExists()
	if p.tok.mark('(') {
		p.advance()
		var def tableDef
		p.definitions(&def)
		for _, c := range def.columns {
			add(alterSpec{kind: alterAddColumn, def: c, ifExists: ifNot})
		}
		for _, k := range def.keys {
			add(alterSpec{kind: alterAddKey, key: k})
		}
		return
	}
	if !column {
		k, isColumn := p.keyOrColumn()
		if !isColumn {
			if k.primary || k.unique {
				add(alterSpec{kind: alterAddKey, key: k, ifExists: ifNot})
			}
			return
		}
	}
	s := alterSpec{kind: alterAddColumn, ifExists: ifNot}
	s.def = p.column()
	p.position(&s)
	add(s)
	addKeys(a, s.def)
}

// addKeys adds the keys that a column's own definition asks for.
func addKeys(a *alterTable, c columnDef) {
	for _, k := range c.keys() {
		a.specs = append(a.specs, alterSpec{kind: alterAddKey, key: k, ofColumn: true})
	}
}

// startsColumn reports whether a word that has a meaning of its own here is yet the name
// of a column: a type stands behind it.
func (p *parser) startsColumn() bool { return p.peek.kind == tokenWord && isType(p.peek.text) }

func (p *parser) dropClause(a *alterTable) {
	add := func(s alterSpec) { a.specs = append(a.specs, s) }
	switch {
	case p.accept("PRIMARY", "KEY"):
		add(alterSpec{kind: alterDropPrimary})
	case p.tok.is("FOREIGN") && p.peek.is("KEY"):
		p.advance()
		p.advance()
		p.ifExists()
		p.name()
	case p.oneOf("INDEX", "KEY"):
		p.advance()
		s := alterSpec{kind: alterDropKey, ifExists: p.ifExists()}
		s.name = p.name()
		add(s)
	case p.oneOf("CONSTRAINT"):
		p.advance()
		s := alterSpec{kind: alterDropAny, ifExists: p.ifExists()}
		s.name = p.name()
		add(s)
	case p.tok.is("CHECK"):
		p.advance()
		p.ifExists()
		p.name()
	case p.tok.is("SYSTEM") && p.peek.is("VERSIONING"):
		p.advance()
		p.advance()
		add(alterSpec{kind: alterDropPeriod})
	case p.tok.is("PERIOD") && p.peek.is("FOR"):
		p.skipOptions()
	case p.tok.is("PARTITION") && (p.peek.kind == tokenWord || p.peek.kind == tokenName) && !p.peek.is("RESTRICT") && !p.peek.is("CASCADE"):
		a.opts.moves = "DROP PARTITION"
		for !p.atEnd() {
			p.advance()
		}
	default:
		p.accept("COLUMN")
		s := alterSpec{kind: alterDropColumn, ifExists: p.ifExists()}
		s.name = p.name()
		_ = p.accept("RESTRICT") || p.accept("CASCADE")
		add(s)
	}
}

// alterColumn reads ALTER [COLUMN] c …, ALTER INDEX i … and ALTER CHECK c ….
func (p *parser) alterColumn(a *alterTable) {
	if p.oneOf("INDEX", "KEY", "CHECK", "CONSTRAINT") {
		p.skipOptions()
		return
	}
	p.accept("COLUMN")
	s := alterSpec{ifExists: p.ifExists()}
	s.name = p.name()
	switch {
	case p.accept("DROP", "DEFAULT"):
		s.kind = alterDropDefault
	case p.accept("SET", "DEFAULT"):
		s.kind = alterSetDefault
		p.defaultValue(&s.def)
	case p.accept("SET", "VISIBLE"):
		s.kind = alterVisible
	case p.accept("SET", "INVISIBLE"):
		s.kind, s.invisible = alterVisible, true
	default:
		p.fail("want SET DEFAULT, DROP DEFAULT, SET VISIBLE or SET INVISIBLE")
	}
	a.specs = append(a.specs, s)
}

// convert reads CONVERT TO CHARACTER SET, and MariaDB's CONVERT of partitions and tables.
func (p *parser) convert(a *alterTable, ids *[]TableID) {
	s := alterSpec{}
	switch {
	case p.accept("PARTITION"):
		p.name()
		p.expect("TO")
		p.expect("TABLE")
		s.kind, s.table = alterPartitionTo, p.table()
		*ids = append(*ids, s.table)
		a.opts.moves = "CONVERT PARTITION"
		p.skipOptions()
	case p.accept("TABLE"):
		s.kind, s.table = alterTableToPart, p.table()
		*ids = append(*ids, s.table)
		a.opts.moves = "CONVERT TABLE"
		p.skipOptions()
	default:
		p.expect("TO")
		s.kind = alterConvert
		if !p.accept("CHARSET") {
			_ = p.accept("CHARACTER") || p.accept("CHAR")
			p.expect("SET")
		}
		if p.accept("DEFAULT") {
			s.charset = "default"
		} else {
			s.charset = strings.ToLower(p.nameOrText())
		}
		if p.accept("COLLATE") {
			p.acceptMark('=')
			s.collation = strings.ToLower(p.nameOrText())
		}
	}
	a.specs = append(a.specs, s)
}

// position reads FIRST and AFTER.
func (p *parser) position(s *alterSpec) {
	switch {
	case p.accept("FIRST"):
		s.first = true
	case p.accept("AFTER"):
		s.after = p.name()
	}
}

// isType reports whether a word names a type.
func isType(word string) bool {
	_, ok := typeWords[strings.ToUpper(word)]
	return ok || slices.Contains([]string{"NATIONAL", "LONG", "SERIAL", "DOUBLE"}, strings.ToUpper(word))
}
