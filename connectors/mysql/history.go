package mysql

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// schemas are the definitions of tables that follow the statements of the log, kept in a
// journal.
type schemas struct {
	s       *settings
	lg      *slog.Logger
	journal connectors.Journal
	where   string // what messages call the journal
	cat     *catalog
	topic   *changeTopic // nil: no schema change topic
	// reread asks the server for SHOW CREATE TABLE of tables, and where its log ended behind
	// that. "" for a table that is not there.
	reread func(ctx context.Context, ids []TableID) (create []string, at Place, err error)

	// written are the statements that the journal has behind the place where the stream
	// resumed: when the stream comes to them they are not written again.
	written map[[16]byte]bool
	// sinceRecords and sinceBytes are what the journal has behind its last snapshot.
	sinceRecords, sinceBytes, nextSnapshot int
	every                                  int   // see snapshotEvery
	last                                   Place // of the last statement applied
}

var _ Schemas = (*schemas)(nil)

// How often a snapshot of the definitions is written: behind so many statements, once
// they take more room than it does.
const (
	snapshotEvery = 1000
	pendingBytes  = 8 << 20
)

// newSchemas opens the history of a task.
func (t *task) newSchemas(ctx context.Context) (Schemas, error) {
	ss, err := t.s.open(ctx, t.cc.Files)
	if err != nil {
		return nil, err
	}
	defer ss.close()
	rows, err := ss.query(ctx, "SELECT @@lower_case_table_names")
	if err != nil {
		return nil, err
	}
	h := &schemas{s: t.s, lg: t.lg, cat: newCatalog(dialect{mariadb: ss.sv.mariadb, version: ss.sv.number, lowerCase: rows[0][0].text == "1"}), reread: t.reread, every: snapshotEvery}
	if t.s.history.file != "" {
		h.where = fmt.Sprintf("file %q", t.s.history.file)
		h.journal, err = openFileJournal(t.cc.Files, t.s.history.file)
	} else {
		h.where = fmt.Sprintf("topic %q", t.s.history.at.Topic)
		h.journal, err = t.cc.Journal(ctx, t.s.history.at)
	}
	if err != nil {
		return nil, fmt.Errorf("open the schema history in %s: %w", h.where, err)
	}
	if t.s.schemaChanges {
		h.topic = newChangeTopic(t.s, t.headers)
	}
	return h, nil
}

// reread is schemas.reread of a task.
func (t *task) reread(ctx context.Context, ids []TableID) (create []string, at Place, err error) {
	ss, err := t.s.open(ctx, t.cc.Files)
	if err != nil {
		return nil, at, err
	}
	defer ss.close()
	for _, id := range ids {
		rows, err := ss.query(ctx, "SHOW CREATE TABLE "+id.quoted())
		switch code := errorCode(err); {
		case code == erNoSuchTable || code == erBadDatabase:
			create = append(create, "")
			continue
		case err != nil:
			return nil, at, err
		}
		text := ""
		if len(rows[0]) == 2 { // a view has more
			text = rows[0][1].text
		}
		create = append(create, text)
	}
	place, err := ss.place(ctx)
	if err != nil {
		return nil, at, err
	}
	return create, Place{File: place.file, Pos: place.pos, GTIDs: place.gtids.String()}, nil
}

// recoverSchemas writes a new history out of the definitions as they are: those that hold
// at the stored position, if nothing has changed since.
func (t *task) recoverSchemas(ctx context.Context, ss *session, pos position) error {
	_, init, err := t.readSchemas(ctx, ss, pos)
	if err != nil {
		return err
	}
	return t.schemas.Begin(ctx, init, noBlock, nil)
}

// noBlock is a SourceOf where no records are asked for.
func noBlock(string, string) schema.Value { return schema.Value{} }

const erNoSuchTable, erBadDatabase = 1146, 1049

// Table implements Schemas.
func (h *schemas) Table(id TableID) *Table { return h.cat.tables[h.cat.fold(id)] }

func (c *catalog) fold(id TableID) TableID {
	if c.d.lowerCase {
		id.Database, id.Name = strings.ToLower(id.Database), strings.ToLower(id.Name)
	}
	return id
}

// digest names a record, to know it again.
func digest(at Place, database, ddl string) (out [16]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s %v\x00%s\x00%s", at.File, at.Pos, at.Event, at.GTIDs, at.Snapshot, database, ddl))
	copy(out[:], sum[:])
	return out
}

// Begin implements Schemas. The records come in Debezium's order: the server's settings;
// a drop of each table; for each database its drop, its creation, and its tables.
func (h *schemas) Begin(ctx context.Context, init InitialSchema, source SourceOf, emit func(schema.Record) error) error {
	h.cat = newCatalog(h.cat.d)
	h.written = nil
	var entries [][]byte
	size := 0
	flush := func() error {
		err := h.append(ctx, entries...)
		entries, size = entries[:0], 0
		return err
	}
	add := func(db, table, ddl string, changes []change, x extras) error {
		e := &historyEntry{server: h.s.prefix, place: init.Place, tsMs: init.At.UnixMilli(), database: db, ddl: ddl, changes: plain(changes), comments: h.s.comments, extras: x}
		b := e.print()
		entries = append(entries, b)
		if size += len(b); size > partBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if h.topic == nil {
			return nil
		}
		if block := source(db, table); !block.IsNull() {
			return emit(h.topic.record(e, block))
		}
		return nil
	}
	run := func(db, table, ddl string, d dialect) error {
		d.anyVersion = true
		var changes []change
		for _, one := range parseDDL(ddl, db, d) {
			err := one.err
			var some []change
			if err == nil {
				some, _, err = h.cat.apply(one.statement, d)
			}
			if err != nil {
				at := fmt.Sprintf("the definition of %s.%s as the server prints it cannot be read", db, table)
				if !h.s.captures(TableID{db, table}) || h.s.history.skipUnparseable {
					h.lg.Warn(at+": it is left out", "error", err, "statement", clip(ddl))
					return nil
				}
				return connectors.Failed(reasonDDL, err, at, "")
			}
			changes = append(changes, some...)
		}
		return add(db, table, ddl, changes, extras{SQLMode: d.modeBits()})
	}
	d := h.cat.d
	if err := run("", "", fmt.Sprintf("SET character_set_server=%s, collation_server=%s", init.Charset, init.Collation), d); err != nil {
		return err
	}
	for _, db := range init.Databases {
		for _, t := range db.Tables {
			id := TableID{db.Name, t.Name}
			if err := add(db.Name, t.Name, "DROP TABLE IF EXISTS "+id.quoted(), []change{{TableChange: TableChange{Kind: "DROP", ID: id}}}, extras{}); err != nil {
				return err
			}
		}
	}
	for _, db := range init.Databases {
		for _, ddl := range []string{"DROP DATABASE IF EXISTS " + quoteName(db.Name), fmt.Sprintf("CREATE DATABASE %s CHARSET %s COLLATE %s", quoteName(db.Name), db.Charset, db.Collation), "USE " + quoteName(db.Name)} {
			if err := run(db.Name, "", ddl, d); err != nil {
				return err
			}
		}
		for _, t := range db.Tables {
			if t.Create == "" {
				continue
			}
			own := d
			own.ansiQuotes = strings.HasPrefix(t.Create, `CREATE TABLE "`)
			if err := run(db.Name, t.Name, t.Create, own); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	h.last = init.Place
	h.sinceRecords, h.sinceBytes, h.nextSnapshot = 0, 0, 0
	return nil
}

func plain(changes []change) []TableChange {
	out := make([]TableChange, len(changes))
	for i, c := range changes {
		out[i] = c.TableChange
	}
	return out
}

// modeBits are those of sql_mode that the reading of a statement hangs on.
func (d dialect) modeBits() (mode uint64) {
	for _, f := range []struct {
		on  bool
		bit uint64
	}{{d.realIsFloat, modeRealAsFloat}, {d.ansiQuotes, modeANSIQuotes}, {d.oracle, modeOracle}, {d.noBackslash, modeNoBackslash}} {
		if f.on {
			mode |= f.bit
		}
	}
	return mode
}

// append writes entries and counts them.
func (h *schemas) append(ctx context.Context, entries ...[]byte) error {
	if len(entries) == 0 {
		return nil
	}
	if err := h.journal.Append(ctx, entries...); err != nil {
		return fmt.Errorf("write the schema history in %s: %w", h.where, err)
	}
	for _, e := range entries {
		h.sinceRecords++
		h.sinceBytes += len(e)
	}
	return nil
}

// rest writes a snapshot of the definitions where it is time for one.
func (h *schemas) rest(ctx context.Context) error {
	if h.sinceRecords < max(h.nextSnapshot, h.every) || len(h.written) > 0 {
		return nil
	}
	now := time.Now()
	parts, err := h.cat.snapshot(h.s.prefix, h.last, now.UnixNano(), now.UnixMilli())
	if err != nil {
		return err
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > h.sinceBytes {
		h.nextSnapshot = 2 * h.sinceRecords
		return nil
	}
	for _, p := range parts {
		if err := h.journal.Append(ctx, p); err != nil {
			return fmt.Errorf("write the schema history in %s: %w", h.where, err)
		}
	}
	h.lg.Debug("the definitions of all tables were written into the schema history", "in", h.where, "tables", len(h.cat.tables), "bytes", size)
	h.sinceRecords, h.sinceBytes, h.nextSnapshot = 0, 0, 0
	return nil
}

// Apply implements Schemas.
func (h *schemas) Apply(ctx context.Context, s Statement, source SourceOf) (Applied, error) {
	var out Applied
	sql, err := decodeStatement(s.SQL, s.ClientCharset)
	if err != nil {
		return out, connectors.Failed(reasonDDL, err, fmt.Sprintf("a statement at %s cannot be read", s.Place), "")
	}
	d := h.cat.d.withMode(s.SQLMode)
	rows := h.rowsOf(sql, s.Database, d)
	if rows == (TableID{}) && quiet(sql) || h.s.history.filter.Match(strings.TrimSpace(sql)) {
		return out, nil
	}
	if out.RowsOf = rows; rows != (TableID{}) {
		return out, nil
	}
	d.implicitStamps = s.ExplicitTimestamps < 0
	d.server.charset, d.server.collation = collationOfID(s.ServerCollation)
	d.database = s.Database
	d.inherits.charset, d.inherits.collation = collationOfID(s.DBCollation)

	var entries [][]byte
	for _, one := range parseDDL(sql, s.Database, d) {
		if err := one.err; err != nil {
			if one.statement, err = h.unreadable(ctx, &s, one.text, one.ids, err, d); err != nil {
				return out, err
			}
		}
		if s.ErrorCode != 0 {
			one.statement = failed(one.statement)
		}
		if h.leftOut(one.statement) {
			continue
		}
		before := h.cat.charsetState(one.statement, d)
		changes, moves, err := h.cat.apply(one.statement, d)
		if err != nil {
			ids := idsOf(one.statement)
			again, err := h.unreadable(ctx, &s, one.text, ids, err, d)
			if err != nil {
				return out, err
			}
			if changes, moves, err = h.cat.apply(again, d); err != nil {
				return out, h.cannot(&s, one.text, err)
			}
			one.statement = again
		}
		if changes, err = h.resolve(ctx, &s, one.text, changes, d); err != nil {
			return out, err
		}
		if h.concerns(one.statement, changes) {
			out.MovesRows = moves
		}
		out.Changes = append(out.Changes, plain(changes)...)
		for _, e := range h.entries(&s, &one, changes, before, d) {
			h.last = s.Place
			b := e.print()
			if key := digest(e.place, e.database, e.ddl); h.written[key] {
				delete(h.written, key)
			} else {
				entries = append(entries, b)
			}
			if h.topic != nil {
				out.Records = append(out.Records, h.topic.record(&e.historyEntry, source(e.database, e.tables)))
			}
		}
	}
	if err := h.append(ctx, entries...); err != nil {
		return out, err
	}
	if len(entries) > 0 {
		return out, h.rest(ctx)
	}
	return out, nil
}

// rowsOf is a captured table that a statement names, where it is one that changes rows.
func (h *schemas) rowsOf(sql, database string, d dialect) TableID {
	l := lexer{d: d, text: sql}
	if first := l.next(); !slices.ContainsFunc([]string{"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH"}, first.is) {
		return TableID{}
	}
	qualifier, dotted := "", false
	for t := l.next(); t.kind != tokenEnd; t = l.next() {
		switch {
		case t.mark('.'):
			dotted = true
			continue
		case t.kind == tokenWord || t.kind == tokenName:
			id := TableID{database, t.text}
			if dotted {
				id.Database = qualifier
			}
			if def := h.Table(id); def != nil && h.s.captures(def.ID) {
				return def.ID
			}
			qualifier = t.text
		}
		dotted = false
	}
	return TableID{}
}

// quiet reports whether a statement is one of those that logs are full of and that are
// never DDL, by its first word, so that it is not looked at further.
func quiet(sql string) bool {
	word := strings.TrimLeft(sql, " \t\r\n(")
	if i := strings.IndexAny(word, " \t\r\n/;("); i >= 0 {
		word = word[:i]
	}
	switch strings.ToUpper(word) {
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "SAVEPOINT", "ROLLBACK", "RELEASE", "BEGIN", "COMMIT", "XA", "GRANT", "REVOKE", "FLUSH", "ANALYZE", "OPTIMIZE", "CALL", "LOAD", "#":
		return true
	}
	return false
}

// idsOf are the tables that a statement changes.
func idsOf(st statement) []TableID {
	switch s := st.(type) {
	case createTable:
		return []TableID{s.id}
	case alterTable:
		ids := []TableID{s.id}
		for _, spec := range s.specs {
			if spec.kind == alterRenameTable || spec.kind == alterPartitionTo {
				ids = append(ids, spec.table)
			}
		}
		return ids
	case createIndex:
		return []TableID{s.id}
	case dropIndex:
		return []TableID{s.id}
	case truncateTable:
		return []TableID{s.id}
	case dropTables:
		return s.ids
	case renameTables:
		var ids []TableID
		for _, p := range s.pairs {
			ids = append(ids, p.from, p.to)
		}
		return ids
	}
	return nil
}

// leftOut reports whether a statement is none of the history's business.
func (h *schemas) leftOut(st statement) bool {
	switch s := st.(type) {
	case otherStatement, useDatabase:
		return true
	case createDatabase:
		return h.leavesDatabase(s.name)
	case dropDatabase:
		return h.leavesDatabase(s.name)
	}
	ids := idsOf(st)
	for _, id := range ids {
		if h.s.keeps(id) {
			return false
		}
	}
	return len(ids) > 0
}

func (h *schemas) leavesDatabase(name string) bool {
	return (h.s.history.capturedTables || h.s.history.capturedDatabases) && !h.s.capturesDatabase(name)
}

// concerns reports whether a statement changes rows of captured tables.
func (h *schemas) concerns(st statement, changes []change) bool {
	for _, id := range idsOf(st) {
		if h.s.captures(id) {
			return true
		}
	}
	for _, c := range changes {
		if h.s.captures(c.ID) {
			return true
		}
	}
	return false
}

// entry is a record to be written, with the names that its source block has.
type entry struct {
	historyEntry
	tables string
}

// entries are a statement's records: one for each table it changes, with the text that
// changes this one alone.
func (h *schemas) entries(s *Statement, one *parsed, changes []change, x extras, d dialect) []*entry {
	x.SQLMode = d.modeBits()
	x.ImplicitTimestamps = d.implicitStamps && strings.Contains(strings.ToUpper(one.text), "TIMESTAMP")
	make1 := func(db, tables, ddl string, changes []TableChange) *entry {
		x := x
		if db != s.Database && len(changes) > 0 {
			x.Database = s.Database
		}
		return &entry{historyEntry{server: h.s.prefix, place: s.Place, tsMs: s.At.UnixMilli(), database: db, ddl: ddl, changes: changes, comments: h.s.comments, extras: x}, tables}
	}
	switch st := one.statement.(type) {
	case truncateTable:
		return nil // no record, as in Debezium: the definition stays
	case createDatabase:
		return []*entry{make1(st.name, "", one.text, nil)}
	case dropDatabase:
		return []*entry{make1(st.name, "", one.text, nil)}
	case setServer:
		return []*entry{make1("", "", one.text, nil)}
	}
	if len(changes) == 0 {
		ids := idsOf(one.statement)
		if c, ok := one.statement.(createTable); ok && c.ifNotExists || len(ids) == 0 {
			return nil
		}
		return []*entry{make1(ids[0].Database, "", one.text, nil)}
	}
	var out []*entry
	byDatabase := map[string][]TableID{}
	for _, c := range changes {
		byDatabase[c.ID.Database] = append(byDatabase[c.ID.Database], c.ID)
	}
	joined := ""
	for _, c := range changes {
		if c.Kind == "ALTER" && c.Table == nil { // a table that is not known got a name
			continue
		}
		ddl := c.text
		switch {
		case ddl != "":
		case joined == one.text: // one text changes several tables: it is written once, with all
			last := out[len(out)-1]
			last.changes = append(last.changes, c.TableChange)
			continue
		default:
			ddl, joined = one.text, one.text
		}
		out = append(out, make1(c.ID.Database, tablesOf(byDatabase[c.ID.Database]), ddl, []TableChange{c.TableChange}))
	}
	return out
}

// charsetState is what a record must say of the session besides: a database or table
// that inherits what only the session knew.
func (c *catalog) charsetState(st statement, d dialect) (x extras) {
	switch s := st.(type) {
	case createDatabase:
		if !s.alter && d.server.collation != "" && d.server.collation != c.collation && s.charset == "" && s.collation == "" {
			x.ServerCollation = d.server.collation
		}
	case createTable:
		if _, known := c.databases[s.id.Database]; !known && d.database == s.id.Database && d.inherits.collation != "" && d.inherits.collation != c.collation {
			x.DatabaseCollation = d.inherits.collation
		}
	}
	return x
}

// String is where a statement stands, for messages.
func (p Place) String() string {
	text := fmt.Sprintf("%s:%d", p.File, p.Pos)
	if p.Event > 0 {
		text += fmt.Sprintf(" event %d", p.Event)
	}
	if p.GTIDs != "" {
		text += " (behind " + p.GTIDs + ")"
	}
	return text
}

func (h *schemas) cannot(s *Statement, text string, err error) error {
	return connectors.Failed(reasonDDL, err, fmt.Sprintf("the statement %q at %s cannot be followed", clip(text), s.Place), "")
}

// unreadable is asked about a statement that cannot be read or does not fit. It returns
// one to apply in its place: nothing where no captured table is concerned or the settings
// say so; or the tables as the server has them, where its log shows that they are still as
// the statement left them.
func (h *schemas) unreadable(ctx context.Context, s *Statement, text string, ids []TableID, cause error, d dialect) (statement, error) {
	captured := false
	for _, id := range ids {
		captured = captured || h.s.captures(id)
	}
	var unknown *unknownTableError
	switch {
	case len(ids) > 0 && !captured:
		if !errors.As(cause, &unknown) {
			h.lg.Warn("a statement about tables that are not captured cannot be followed: their definitions are forgotten", "statement", clip(text), "at", s.Place.String(), "error", cause)
		}
		for _, id := range ids {
			delete(h.cat.tables, id)
		}
		return otherStatement{}, nil
	case h.s.history.skipUnparseable:
		h.lg.Warn("a statement is passed over: it cannot be followed, and schema.history.internal.skip.unparseable.ddl=true", "statement", clip(text), "at", s.Place.String(), "error", cause)
		return otherStatement{}, nil
	case len(ids) == 0:
		return nil, h.cannot(s, text, cause)
	}
	again, err := h.asTheyAre(ctx, s, ids, d)
	if err != nil {
		return nil, fmt.Errorf("%w (the statement %q at %s: %w)", err, clip(text), s.Place, cause)
	}
	if again == nil {
		return nil, h.cannot(s, text, cause)
	}
	h.lg.Warn("a statement cannot be followed: the definitions of its tables were read from the server, which has logged nothing since", "statement", clip(text), "at", s.Place.String(), "error", cause)
	return again, nil
}

// asTheyAre are tables as the server has them now; nil where it has logged something since
// the statement, which may have changed them once more.
func (h *schemas) asTheyAre(ctx context.Context, s *Statement, ids []TableID, d dialect) (statement, error) {
	if h.reread == nil {
		return nil, nil
	}
	creates, at, err := h.reread(ctx, ids)
	if err != nil {
		return nil, err
	}
	if at.File != s.Place.File || at.Pos != s.Place.Pos || s.Place.Event != 0 {
		return nil, nil
	}
	again := replaceTables{}
	for i, id := range ids {
		if creates[i] == "" {
			again.gone = append(again.gone, id)
			continue
		}
		own := h.cat.d
		own.anyVersion = true
		own.ansiQuotes = strings.HasPrefix(creates[i], `CREATE TABLE "`)
		list := parseDDL(creates[i], id.Database, own)
		if len(list) != 1 || list[0].err != nil {
			return nil, nil
		}
		c, ok := list[0].statement.(createTable)
		if !ok {
			again.gone = append(again.gone, id)
			continue
		}
		again.tables, again.texts = append(again.tables, c), append(again.texts, creates[i])
	}
	return again, nil
}

// resolve finds the definitions of tables that got a captured name and were not known
// under their old one.
func (h *schemas) resolve(ctx context.Context, s *Statement, text string, changes []change, d dialect) ([]change, error) {
	var ids []TableID
	var cause error
	for _, c := range changes {
		if c.Kind == "ALTER" && c.Table == nil && h.s.captures(c.ID) {
			ids, cause = append(ids, c.ID), &unknownTableError{c.Was}
		}
	}
	if len(ids) == 0 {
		return changes, nil
	}
	again, err := h.unreadable(ctx, s, text, ids, cause, d)
	if err != nil {
		return nil, err
	}
	more, _, err := h.cat.apply(again, d)
	return append(changes, more...), err
}
