package mysql

import (
	"fmt"
	"strconv"
	"strings"
)

// A parser reads DDL. It knows the statements that change tables and databases word by
// word, and of all others only where they end. What says nothing about columns (options,
// partitions, expressions) is gone over by its parentheses, so that new options of new
// servers do not stop it.
type parser struct {
	l         lexer
	tok, peek token
	database  string
	done      int // where the token that was read last ends
}

// A syntaxError is a statement that cannot be read.
type syntaxError struct {
	at   int
	near string
	want string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("at character %d, before %q: %s", e.at+1, e.near, e.want)
}

// A parsed is a statement with its own text.
type parsed struct {
	statement
	text string
	err  error     // it cannot be read
	ids  []TableID // with err: the tables that its head names
}

// parseDDL reads the statements of a text, one or more, separated by semicolons. USE
// within the text counts for what follows.
func parseDDL(text, database string, d dialect) []parsed {
	p := &parser{l: lexer{d: d, text: text}, database: database}
	p.advance()
	p.advance()
	var out []parsed
	for {
		for p.tok.mark(';') {
			p.advance()
		}
		if p.tok.kind == tokenEnd {
			if p.l.err != nil {
				out = append(out, parsed{text: text, err: p.l.err})
			}
			return out
		}
		start := p.tok.pos
		one := p.statement()
		if one.err == nil && p.l.err != nil {
			one.err = p.l.err
		}
		if one.err != nil {
			// Nothing behind it can be trusted to be a statement of its own.
			one.text = strings.TrimSpace(text[start:])
			return append(out, one)
		}
		one.text = strings.TrimSpace(text[start:p.before()])
		if u, ok := one.statement.(useDatabase); ok {
			p.database = u.name
		}
		out = append(out, one)
	}
}

func (p *parser) advance() {
	p.done = p.tok.end
	p.tok = p.peek
	p.peek = p.l.next()
}

// bail ends the reading of a statement; statement catches it.
type bail struct{ err error }

func (p *parser) fail(want string) {
	near := p.l.text[min(p.tok.pos, len(p.l.text)):]
	if len(near) > 40 {
		near = strings.ToValidUTF8(near[:40], "") + "…"
	}
	panic(bail{&syntaxError{p.tok.pos, near, want}})
}

// statement reads one statement. Behind it stands its end: a semicolon or the text's.
func (p *parser) statement() (one parsed) {
	var ids []TableID
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(bail)
			if !ok {
				panic(r)
			}
			one = parsed{err: b.err, ids: ids}
		}
	}()
	one.statement = p.top(&ids)
	if _, other := one.statement.(otherStatement); !other && !p.atEnd() {
		p.fail("want the statement's end")
	}
	p.skipStatement()
	return one
}

func (p *parser) atEnd() bool { return p.tok.kind == tokenEnd || p.tok.mark(';') }

// skipStatement goes to the end of what is no business of ours. The body of a procedure,
// trigger or event has semicolons of its own, which end nothing: such a statement goes to
// the text's end, as a server logs it.
func (p *parser) skipStatement() {
	body := false
	for named := false; !p.atEnd(); p.advance() {
		named = named || p.tok.mark('(') || p.oneOf("AS", "VIEW", "FROM")
		if !named && p.oneOf("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE", "BEGIN") {
			body = true
			break
		}
	}
	for body && p.tok.kind != tokenEnd {
		p.advance()
	}
}

func (p *parser) accept(words ...string) bool {
	switch {
	case !p.tok.is(words[0]):
		return false
	case len(words) == 2:
		if !p.peek.is(words[1]) {
			return false
		}
		p.advance()
	}
	p.advance()
	return true
}

func (p *parser) acceptMark(c byte) bool {
	if p.tok.mark(c) {
		p.advance()
		return true
	}
	return false
}

func (p *parser) expect(word string) {
	if !p.accept(word) {
		p.fail("want " + strings.ToUpper(word))
	}
}

func (p *parser) expectMark(c byte) {
	if !p.acceptMark(c) {
		p.fail(fmt.Sprintf("want %q", c))
	}
}

// oneOf reports whether the token is one of these words.
func (p *parser) oneOf(words ...string) bool {
	for _, w := range words {
		if p.tok.is(w) {
			return true
		}
	}
	return false
}

// name reads an identifier. MySQL takes a text for one where a column or alias stands
// in quotes under no ANSI_QUOTES in few places only; those are not in DDL.
func (p *parser) name() string {
	if p.tok.kind != tokenWord && p.tok.kind != tokenName {
		p.fail("want a name")
	}
	s := p.tok.text
	p.advance()
	return s
}

// nameOrText reads what may be a name or a text: character sets, collations.
func (p *parser) nameOrText() string {
	if p.tok.kind == tokenString {
		s := p.tok.text
		p.advance()
		return s
	}
	return p.name()
}

// table reads a table's name, with its database before a point or without.
func (p *parser) table() TableID {
	var id TableID
	if p.acceptMark('.') { // ".t" is a table of the default database
		id = TableID{p.database, p.name()}
	} else if first := p.name(); p.acceptMark('.') {
		id = TableID{first, p.name()}
	} else {
		id = TableID{p.database, first}
	}
	if id.Database == "" {
		p.fail("the statement names a table without its database, and the session has no default database")
	}
	return p.fold(id)
}

func (p *parser) fold(id TableID) TableID {
	if p.l.d.lowerCase {
		id.Database, id.Name = strings.ToLower(id.Database), strings.ToLower(id.Name)
	}
	return id
}

func (p *parser) databaseName() string {
	s := p.name()
	if p.l.d.lowerCase {
		s = strings.ToLower(s)
	}
	return s
}

// parens goes over a list in parentheses, whatever it holds, and returns its text
// without the outer ones.
func (p *parser) parens() string {
	if !p.tok.mark('(') {
		p.fail(`want "("`)
	}
	start, depth := p.tok.end, 0
	for {
		switch {
		case p.tok.kind == tokenEnd:
			p.fail(`want ")"`)
		case p.tok.mark('('):
			depth++
		case p.tok.mark(')'):
			if depth--; depth == 0 {
				text := p.l.text[start:p.tok.pos]
				p.advance()
				return strings.TrimSpace(text)
			}
		}
		p.advance()
	}
}

func (p *parser) ifExists() bool {
	if p.tok.is("IF") && p.peek.is("EXISTS") {
		p.advance()
		p.advance()
		return true
	}
	return false
}

func (p *parser) ifNotExists() bool {
	if p.tok.is("IF") && p.peek.is("NOT") {
		p.advance()
		p.advance()
		p.expect("EXISTS")
		return true
	}
	return false
}

// top reads a statement by its first words. ids are the tables it names, as soon as they
// are known: for a statement whose rest cannot be read.
func (p *parser) top(ids *[]TableID) statement {
	head := strings.ToUpper(p.tok.text)
	switch {
	case p.tok.kind != tokenWord:
		return otherStatement{head}
	case p.accept("SET"):
		return p.set(ids)
	case p.accept("USE"):
		return useDatabase{p.databaseName()}
	case p.accept("CREATE"):
		return p.create(ids)
	case p.accept("ALTER"):
		return p.alter(ids)
	case p.tok.is("DROP"):
		start := p.tok.pos
		p.advance()
		return p.drop(start, ids)
	case p.tok.is("RENAME") && (p.peek.is("TABLE") || p.peek.is("TABLES")):
		start := p.tok.pos
		p.advance()
		p.advance()
		p.ifExists()
		return p.rename(start, ids)
	case p.accept("TRUNCATE"):
		p.accept("TABLE")
		id := p.table()
		*ids = append(*ids, id)
		p.waits()
		return truncateTable{id}
	}
	return otherStatement{head}
}

// waits goes over MariaDB's WAIT n and NOWAIT.
func (p *parser) waits() {
	if p.accept("NOWAIT") {
		return
	}
	if p.tok.is("WAIT") && p.peek.kind == tokenNumber {
		p.advance()
		p.advance()
	}
}

// set reads SET character_set_server=…; SET STATEMENT … FOR statement; others say
// nothing to us.
func (p *parser) set(ids *[]TableID) statement {
	if p.tok.is("STATEMENT") {
		for !p.atEnd() && !p.tok.is("FOR") {
			p.advance()
		}
		p.expect("FOR")
		return p.top(ids)
	}
	var s setServer
	for !p.atEnd() {
		if p.oneOf("character_set_server", "collation_server") {
			name := strings.ToLower(p.tok.text)
			p.advance()
			p.acceptMark(':')
			if p.acceptMark('=') && (p.tok.kind == tokenWord || p.tok.kind == tokenString) {
				if name == "collation_server" {
					s.collation = strings.ToLower(p.tok.text)
				} else {
					s.charset = strings.ToLower(p.tok.text)
				}
			}
			continue
		}
		p.advance()
	}
	if s != (setServer{}) {
		return s
	}
	return otherStatement{"SET"}
}

func (p *parser) create(ids *[]TableID) statement {
	orReplace := false
	if p.tok.is("OR") {
		p.advance()
		p.expect("REPLACE")
		orReplace = true
	}
	if p.accept("TEMPORARY") {
		return otherStatement{"CREATE TEMPORARY"}
	}
	switch {
	case p.accept("TABLE"):
		return p.createTable(orReplace, ids)
	case p.accept("SEQUENCE"):
		return p.createSequence(orReplace, ids)
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		c := createDatabase{ifNotExists: p.ifNotExists()}
		c.name = p.databaseName()
		c.charset, c.collation = p.databaseOptions()
		return c
	}
	if p.oneOf("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE", "INDEX") {
		unique := false
		for p.oneOf("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE") {
			unique = unique || p.tok.is("UNIQUE")
			p.advance()
		}
		p.expect("INDEX")
		p.ifNotExists()
		k := keyDef{unique: unique, name: p.name()}
		p.indexType()
		p.expect("ON")
		id := p.table()
		*ids = append(*ids, id)
		k.columns = p.keyParts()
		p.skipOptions()
		return createIndex{id, k}
	}
	return otherStatement{"CREATE " + strings.ToUpper(p.tok.text)}
}

// databaseOptions reads the options of CREATE and ALTER DATABASE.
func (p *parser) databaseOptions() (charset, collation string) {
	for !p.atEnd() {
		switch {
		case p.accept("DEFAULT"):
		case p.accept("CHARSET"), p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"):
			p.acceptMark('=')
			charset = strings.ToLower(p.nameOrText())
		case p.accept("COLLATE"):
			p.acceptMark('=')
			collation = strings.ToLower(p.nameOrText())
		default: // ENCRYPTION, READ ONLY, COMMENT
			p.advance()
		}
	}
	return charset, collation
}

func (p *parser) alter(ids *[]TableID) statement {
	for p.oneOf("ONLINE", "OFFLINE", "IGNORE") {
		p.advance()
	}
	switch {
	case p.accept("TABLE"):
		p.ifExists()
		id := p.table()
		*ids = append(*ids, id)
		return p.alterTable(id, ids)
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		c := createDatabase{alter: true}
		if p.oneOf("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "COMMENT") && !p.peek.is("DEFAULT") && !p.peek.is("CHARACTER") && !p.peek.is("COLLATE") {
			c.name = p.database // ALTER DATABASE without a name is the default one
		} else {
			c.name = p.databaseName()
		}
		c.charset, c.collation = p.databaseOptions()
		return c
	}
	return otherStatement{"ALTER " + strings.ToUpper(p.tok.text)}
}

func (p *parser) drop(start int, ids *[]TableID) statement {
	if p.accept("TEMPORARY") {
		return otherStatement{"DROP TEMPORARY"}
	}
	switch {
	case p.accept("TABLE"), p.accept("TABLES"), p.accept("SEQUENCE"):
		p.ifExists()
		d := dropTables{prefix: p.l.text[start:p.tok.pos]}
		for {
			id := p.table()
			*ids = append(*ids, id)
			d.ids = append(d.ids, id)
			if !p.acceptMark(',') {
				break
			}
		}
		p.waits()
		if p.oneOf("RESTRICT", "CASCADE") {
			d.suffix = " " + p.tok.text
			p.advance()
		}
		return d
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		p.ifExists()
		return dropDatabase{p.databaseName()}
	case p.accept("INDEX"), p.accept("ONLINE", "INDEX"), p.accept("OFFLINE", "INDEX"):
		p.ifExists()
		name := p.name()
		p.expect("ON")
		id := p.table()
		*ids = append(*ids, id)
		p.skipOptions()
		return dropIndex{id, name}
	}
	return otherStatement{"DROP " + strings.ToUpper(p.tok.text)}
}

// rename reads the pairs of RENAME TABLE. Each pair's text is that of a statement of its
// own, as Debezium writes it down.
func (p *parser) rename(start int, ids *[]TableID) statement {
	prefix := p.l.text[start:p.tok.pos]
	var r renameTables
	for {
		at := p.tok.pos
		from := p.table()
		p.waits()
		p.expect("TO")
		to := p.table()
		*ids = append(*ids, from, to)
		r.pairs = append(r.pairs, renamePair{from, to, prefix + p.l.text[at:p.before()]})
		if !p.acceptMark(',') {
			return r
		}
	}
}

// before is where what was read last ends, without the comments behind it, but with the
// end of a version comment it stands in.
func (p *parser) before() int { return max(p.done, min(p.tok.closed, p.tok.pos)) }

// indexType goes over USING BTREE and TYPE RTREE.
func (p *parser) indexType() {
	if p.accept("USING") || p.tok.is("TYPE") && p.peek.kind == tokenWord {
		if p.tok.is("TYPE") {
			p.advance()
		}
		p.name()
	}
}

// keyParts reads the columns of a key: names with a length of their front, order, or
// expressions in parentheses.
func (p *parser) keyParts() []keyPart {
	p.expectMark('(')
	var out []keyPart
	for {
		if p.tok.mark('(') {
			p.parens()
			out = append(out, keyPart{})
		} else {
			part := keyPart{column: p.name()}
			if p.acceptMark('(') {
				part.length = p.number()
				p.expectMark(')')
			}
			out = append(out, part)
		}
		for p.tok.kind == tokenWord { // ASC, DESC; WITHOUT OVERLAPS behind a period
			p.advance()
		}
		if p.acceptMark(',') {
			continue
		}
		p.expectMark(')')
		return out
	}
}

// skipOptions goes over what stands behind a key or a statement: up to a comma or a
// closing parenthesis of the list around it, or the statement's end.
func (p *parser) skipOptions() {
	for !p.atEnd() && !p.tok.mark(',') && !p.tok.mark(')') {
		if p.tok.mark('(') {
			p.parens()
			continue
		}
		p.advance()
	}
}

// number reads a whole number.
func (p *parser) number() int {
	if p.tok.kind != tokenNumber {
		p.fail("want a number")
	}
	text, _, _ := strings.Cut(p.tok.text, ".")
	n, err := strconv.Atoi(text)
	if err != nil {
		p.fail("want a number that is not as large")
	}
	p.advance()
	return n
}
