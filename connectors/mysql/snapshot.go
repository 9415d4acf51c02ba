package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

// A snapshot reads the captured tables in one transaction. The last row read stays in
// the batch in the making, since only what follows tells whether it is the last of its
// table, or of all.
type snapshot struct {
	t      *task
	ss     *session
	queue  *cdc.Queue
	build  *cdc.Builder
	events cdc.Events
	block  *sourceBlock
	clock  cdc.Clock
	pos    position

	first bool   // no row of any table came yet
	table string // that is read
	rows  int64  // of it,
	told  int64  // of which so many were shown
	total int64
}

// A snapshotTable is a table to read.
type snapshotTable struct {
	id       TableID
	rows     int64 // as the server estimates
	sequence bool
	create   string
}

// snapshot reads what is captured as it stands at one place of the log, and returns the
// place.
func (t *task) snapshot(ctx context.Context, queue *cdc.Queue, ss *session) (position, error) {
	s := t.s
	began := time.Now()
	for _, sql := range []string{
		fmt.Sprintf("SET SESSION lock_wait_timeout = %d", max(1, int64(s.lockTimeout/time.Second))),
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	} {
		if err := ss.exec(ctx, sql); err != nil {
			return position{}, err
		}
	}
	held, unlock, err := t.lock(ctx, ss)
	if err != nil {
		return position{}, err
	}
	defer unlock()
	place, err := ss.beginSnapshot(ctx, held)
	if err != nil {
		return position{}, err
	}
	now := time.Now()
	sn := &snapshot{t: t, ss: ss, queue: queue, build: cdc.NewBuilder(s.maxBatch), block: newSourceBlock(s), first: true,
		pos: position{snapshot: true, file: place.file, pos: place.pos, gtids: place.gtids.String(), sec: now.Unix()}}
	sn.events = t.newEvents(sn.build, nil)
	sn.block.fields[srcFile] = schema.StringValue(place.file)
	sn.block.snapshot(envelope.SnapshotTrue)
	tables, initial, err := t.readSchemas(ctx, ss, sn.pos)
	if err != nil {
		return position{}, err
	}
	if n := len(tables); n == 0 {
		t.lg.Warn("no table is captured: the lists of databases and tables match none")
	} else if s.guardrail > 0 && n > s.guardrail {
		if s.guardrailFails {
			return position{}, connectors.BadConfig(fmt.Errorf("%d tables are captured, more than %s=%d", n, cdc.KeyGuardrailCollectionsMax.Name, s.guardrail))
		}
		t.lg.Warn("more tables are captured than guardrail.collections.max", "tables", n, "max", s.guardrail)
	}
	if s.lockingMode != "extended" {
		if err := unlock(); err != nil {
			return position{}, err
		}
	}
	t.lg.Info("snapshot begins", "tables", len(tables), "file", place.file, "pos", place.pos, "gtids", place.gtids.String(), "locked", time.Since(began).Round(time.Millisecond).String())
	// The position says that a snapshot is under way before its first row does.
	if err := queue.Put(ctx, connectors.Batch{Offsets: sn.offsets()}, 0, time.Minute, idle); err != nil {
		return position{}, err
	}
	sn.block.time(envelope.MomentOf(time.Now()))
	source := func(db, table string) schema.Value {
		name := schema.Value{}
		if table != "" {
			name = schema.StringValue(table)
		}
		sn.block.time(envelope.MomentOf(time.Now()))
		return sn.block.at(&sn.build.Arena, schema.StringValue(db), name, sn.pos.pos, 0)
	}
	if err := t.schemas.Begin(ctx, initial, source, func(r schema.Record) error {
		size := rowOverhead + 4*len(r.Value.Get("ddl").Str()) // its description takes as much again and more
		if sn.build.Full(size) {
			if err := sn.flush(ctx); err != nil {
				return err
			}
		}
		sn.build.Add(r)
		sn.build.Grow(size)
		return nil
	}); err != nil {
		return position{}, err
	}
	if sn.build.Len() > 0 { // they never are the snapshot's last row
		if err := sn.flush(ctx); err != nil {
			return position{}, err
		}
	}
	sn.block.time(envelope.MomentOfMicros(now.Unix() * microsPerSec))
	if !s.snapshot.Reads(false) {
		tables = nil
	}
	if err := sn.readTables(ctx, s.ordered(tables)); err != nil {
		return position{}, err
	}
	if err := ss.exec(ctx, "COMMIT"); err != nil {
		return position{}, err
	}
	if sn.build.Len() > 0 {
		sn.mark(envelope.SnapshotLast)
	}
	sn.pos.snapshot, sn.pos.completed = false, true
	if err := sn.flush(ctx); err != nil {
		return position{}, err
	}
	t.lg.Info("snapshot complete", "tables", len(tables), "rows", sn.total, "took", time.Since(began).Round(time.Millisecond).String())
	return sn.pos, nil
}

// readTables reads the rows of tables, and shows how far that is.
func (sn *snapshot) readTables(ctx context.Context, tables []snapshotTable) error {
	scan := &sn.t.scan
	if len(tables) == 0 {
		scan.Skip()
		return nil
	}
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].id.String()
	}
	scan.Begin(names, func(i int) int64 { return tables[i].rows })
	complete := false
	defer func() { scan.End(complete) }()
	for i := range tables {
		sn.table, sn.rows, sn.told = names[i], 0, 0
		scan.Read(sn.table, 0)
		if err := sn.readTable(ctx, &tables[i]); err != nil {
			return err
		}
		sn.tell()
		scan.Done(sn.table)
		sn.total += sn.rows
	}
	complete = true
	return nil
}

// tell shows how far the table is that is read.
func (sn *snapshot) tell() {
	sn.t.scan.Read(sn.table, sn.rows-sn.told)
	sn.told = sn.rows
	sn.t.metrics.Snapshotted(&sn.events.Seen)
}

// lock keeps changes away until unlock is called, once or more often. held: no captured table's rows change under it, either.
func (t *task) lock(ctx context.Context, ss *session) (held bool, unlock func() error, err error) {
	if t.s.lockingMode == "none" {
		return false, func() error { return nil }, nil
	}
	ls, err := t.s.open(ctx, t.cc.Files)
	if err != nil {
		return false, nil, err
	}
	err = ls.exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", max(1, int64(t.s.lockTimeout/time.Second))))
	if err == nil {
		held, err = t.lockIn(ctx, ls)
	}
	if err != nil {
		ls.close()
		return false, nil, err
	}
	t.seen.locked.Store(true)
	return held, func() error {
		if !t.seen.locked.Swap(false) {
			return nil
		}
		defer ls.close()
		return ls.exec(context.WithoutCancel(ctx), "UNLOCK TABLES")
	}, nil
}

// backupLock is Percona Server's lock against statements that change tables, and against changes of rows without transactions.
const backupLock = "LOCK TABLES FOR BACKUP"

// lockIn takes the lock that snapshot.locking.mode asks for, or where the user lacks the right for it, one of each captured table.
func (t *task) lockIn(ctx context.Context, ls *session) (held bool, err error) {
	backup := t.s.backupLocks()
	sql, right := "FLUSH TABLES WITH READ LOCK", "RELOAD"
	if backup {
		sql, right = backupLock, "BACKUP_ADMIN"
	}
	err = ls.exec(ctx, sql)
	switch code := errorCode(err); {
	case code == erSyntax && backup:
		return false, ls.noBackupLocks()
	case code != erSpecificAccessDenied && code != erAccessDenied:
		return !backup, err
	case t.s.lockingMode == lockPerconaOnly:
		return false, connectors.Failed(reasonRights, err, "take the backup lock", fmt.Sprintf("GRANT %s ON *.* TO the user, or set snapshot.locking.mode=%s, which locks the captured tables one by one then", right, lockPercona))
	}
	t.lg.Info("the user lacks the right for a lock of all tables: the captured ones are locked one by one", "right", right)
	return true, t.lockTables(ctx, ls)
}

// noBackupLocks is the error of a server that is no Percona Server.
func (ss *session) noBackupLocks() error {
	return connectors.BadConfig(fmt.Errorf("%s=%s takes a lock that Percona Server alone has (%s), and the server %s (%s) does not know it; set %[1]s=minimal", keySnapshotLockingMode.Name, ss.s.lockingMode, backupLock, ss.s.host, ss.sv.version))
}

func (t *task) lockTables(ctx context.Context, ls *session) error {
	tables, err := t.listTables(ctx, ls, t.s.captures)
	if err != nil || len(tables) == 0 {
		return err
	}
	var parts []string
	for _, tab := range tables {
		parts = append(parts, tab.id.quoted()+" READ")
	}
	return ls.exec(ctx, "LOCK TABLES "+strings.Join(parts, ", "))
}

// listTables are the tables that pass, by name.
func (t *task) listTables(ctx context.Context, ss *session, pass func(TableID) bool) ([]snapshotTable, error) {
	rows, err := ss.query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')")
	if err != nil {
		return nil, err
	}
	var out []snapshotTable
	for _, r := range rows {
		tab := snapshotTable{id: TableID{r[0].text, r[1].text}, rows: -1, sequence: r[3].text == "SEQUENCE"}
		if !pass(tab.id) {
			continue
		}
		if n, err := strconv.ParseInt(r[2].text, 10, 64); err == nil {
			tab.rows = n
		}
		out = append(out, tab)
	}
	slices.SortFunc(out, func(a, b snapshotTable) int {
		return strings.Compare(a.id.Database+"\x00"+a.id.Name, b.id.Database+"\x00"+b.id.Name)
	})
	return out, nil
}

// readSchemas reads the definitions that the history keeps, which may be more than what
// is captured.
func (t *task) readSchemas(ctx context.Context, ss *session, pos position) ([]snapshotTable, InitialSchema, error) {
	init := InitialSchema{Place: pos.place(), At: time.Now()}
	init.Place.Snapshot, init.Place.ServerID = true, 0
	rows, err := ss.query(ctx, "SELECT @@global.character_set_server, @@global.collation_server")
	if err != nil {
		return nil, init, err
	}
	init.Charset, init.Collation = rows[0][0].text, rows[0][1].text
	kept, err := t.listTables(ctx, ss, t.s.keeps)
	if err != nil {
		return nil, init, err
	}
	var tables []snapshotTable
	for i := range kept {
		id := kept[i].id
		rows, err := ss.query(ctx, "SHOW CREATE TABLE "+id.quoted())
		if err != nil && !t.s.captures(id) {
			t.lg.Warn("the definition of a table that is not captured cannot be read and is left out of the schema history", "table", id.String(), "error", err)
			continue
		}
		if err != nil {
			return nil, init, err
		}
		kept[i].create = rows[0][1].text
		if t.s.captures(id) && !kept[i].sequence {
			tables = append(tables, kept[i])
		}
		n := len(init.Databases)
		if n == 0 || init.Databases[n-1].Name != id.Database {
			rows, err := ss.query(ctx, "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = "+quoteText(id.Database))
			if err != nil {
				return nil, init, err
			}
			db := InitialDatabase{Name: id.Database, Charset: init.Charset, Collation: init.Collation}
			if len(rows) > 0 {
				db.Charset, db.Collation = rows[0][0].text, rows[0][1].text
			}
			init.Databases = append(init.Databases, db)
			n++
		}
		db := &init.Databases[n-1]
		db.Tables = append(db.Tables, InitialTable{Name: id.Name, Create: kept[i].create})
	}
	return tables, init, nil
}

// ordered are the tables whose rows are read, in their order.
func (s *settings) ordered(tables []snapshotTable) []snapshotTable {
	if s.snapshotTables != nil {
		tables = slices.DeleteFunc(slices.Clone(tables), func(t snapshotTable) bool { return !s.snapshotTables.Match(t.id.String()) })
	}
	switch s.tableOrder {
	case "ascending":
		slices.SortStableFunc(tables, func(x, y snapshotTable) int { return int(max(-1, min(1, x.rows-y.rows))) })
	case "descending":
		slices.SortStableFunc(tables, func(x, y snapshotTable) int { return int(max(-1, min(1, y.rows-x.rows))) })
	}
	return tables
}

func idle() error { return nil }

// readTable reads one table, by the definition that the history has of it.
func (sn *snapshot) readTable(ctx context.Context, st *snapshotTable) error {
	t := sn.t
	def := t.schemas.Table(st.id)
	if def == nil {
		return connectors.Failed(reasonSchema, nil, fmt.Sprintf("the definition of the table %s is not known after reading it", st.id), "")
	}
	tab, err := t.compile(ctx, def)
	if err != nil {
		return err
	}
	var columns []*column
	var names []string
	for i := range tab.columns {
		if c := &tab.columns[i]; c.field >= 0 {
			columns = append(columns, c)
			names = append(names, quoteName(c.Name))
		}
	}
	from := st.id.quoted()
	if stmt := t.s.selects[st.id.String()]; stmt != "" {
		from = "(" + strings.TrimRight(strings.TrimSpace(stmt), "; \n") + ") AS q"
	}
	sql := "SELECT " + strings.Join(names, ", ") + " FROM " + from
	doing := fmt.Sprintf("read table %s", tab)
	rows, err := sn.ss.stream(ctx, sql, len(columns))
	if err != nil {
		return t.s.classify(err, doing)
	}
	defer rows.stop()
	sn.block.snapshot(envelope.SnapshotTrue)
	// All rows but the first and the last share it, in memory that is no batch's: it would keep the first batch alive.
	mid := sn.block.at(&schema.Arena{}, tab.dbValue, tab.name, sn.pos.pos, 0)
	only := sn.first
	for {
		p, owned, err := rows.next()
		if err != nil {
			return t.s.classify(err, doing)
		}
		if p == nil {
			break
		}
		if sn.build.Full(len(p) + rowOverhead) {
			if err := sn.flush(ctx); err != nil {
				return err
			}
		}
		size := len(p)
		if !owned {
			p = sn.build.Arena.Copy(p)
		}
		row, err := tab.snapRow(&sn.build.Arena, p, columns)
		var wrong *valueError
		if errors.As(err, &wrong) {
			if err := t.refuse(tab, wrong, "the snapshot"); err != nil {
				return err
			}
			sn.events.Seen.Erroneous++
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		src := mid
		if sn.rows++; sn.rows == 1 {
			mark := envelope.SnapshotFirstInTable
			if sn.first {
				mark, sn.first = envelope.SnapshotFirst, false
			}
			sn.block.snapshot(mark)
			src = sn.block.at(&sn.build.Arena, tab.dbValue, tab.name, sn.pos.pos, 0)
		}
		sn.events.Read(&cdc.Change{Table: &tab.Table, After: row, Source: src, At: sn.clock.Moment()})
		sn.build.Grow(size + rowOverhead)
	}
	if sn.rows > 1 || sn.rows == 1 && !only {
		sn.mark(envelope.SnapshotLastInTable)
	}
	return nil
}

// mark gives the last row its place in the snapshot.
func (sn *snapshot) mark(place string) {
	r := sn.build.Last()
	fields := slices.Clone(r.Value.Fields())
	at := r.ValueSchema.Index(envelope.SourceField)
	src := slices.Clone(fields[at].Fields())
	src[envelope.SourceSnapshot] = schema.StringValue(place)
	fields[at] = schema.StructValue(sn.block.schema, src)
	r.Value = schema.StructValue(r.ValueSchema, fields)
}

func (sn *snapshot) offsets() []connectors.Offset {
	return []connectors.Offset{{Partition: sn.t.partition, Position: sn.pos.value()}}
}

func (sn *snapshot) flush(ctx context.Context) error {
	records, size := sn.build.Take()
	b := connectors.Batch{Records: records, Offsets: sn.offsets()}
	if len(records) > 0 {
		b.Describe = func(i int) string { return "snapshot, " + describe(records, i) }
	}
	sn.clock.Reset()
	if sn.table != "" {
		sn.tell()
	}
	return sn.queue.Put(ctx, b, size, time.Minute, idle)
}

// A rowStream is the rows of a query in the protocol's binary form, as the server sends
// them.
type rowStream struct {
	w    *wire
	stop func() bool
	ctx  context.Context // the stream is as short as the call that reads it
}

// stream runs a query of so many columns whose rows are not held.
func (ss *session) stream(ctx context.Context, sql string, columns int) (*rowStream, error) {
	w := newWire(ss.c.Conn.Conn)
	rs := &rowStream{w: w, ctx: ctx}
	rs.stop = context.AfterFunc(ctx, ss.cut)
	fail := func(err error) (*rowStream, error) {
		rs.stop()
		return nil, err
	}
	if err := w.send(append([]byte{comStmtPrepare}, sql...)); err != nil {
		return fail(err)
	}
	p, err := rs.packet()
	if err != nil {
		return fail(err)
	}
	c := cursor{b: p}
	c.u8()
	id := c.u32()
	got, params := int(c.u16()), int(c.u16())
	if c.bad || got != columns || params != 0 {
		return fail(fmt.Errorf("the server prepared a query of %d columns and %d parameters where %d and none were asked for", got, params, columns))
	}
	if err := rs.skip(columns + 1); err != nil { // their descriptions and an end
		return fail(err)
	}
	command := append(binary.LittleEndian.AppendUint32([]byte{comStmtExecute}, id), 0, 1, 0, 0, 0)
	if err := w.send(command); err != nil {
		return fail(err)
	}
	if p, err = rs.packet(); err != nil {
		return fail(err)
	}
	c = cursor{b: p}
	if n := c.size(); c.bad || n != columns {
		return fail(fmt.Errorf("the server answered a query with %d columns where %d were asked for", n, columns))
	}
	if err := rs.skip(columns + 1); err != nil {
		return fail(err)
	}
	return rs, nil
}

func (rs *rowStream) packet() ([]byte, error) {
	p, _, err := rs.read()
	return p, err
}

func (rs *rowStream) read() ([]byte, bool, error) {
	p, owned, err := rs.w.packet(time.Time{})
	switch {
	case err != nil && rs.ctx.Err() != nil:
		return nil, false, rs.ctx.Err()
	case err != nil:
		return nil, false, err
	case len(p) == 0:
		return nil, false, errShort
	case p[0] == 0xff:
		return nil, false, serverError(p)
	}
	return p, owned, nil
}

func (rs *rowStream) skip(n int) error {
	for range n {
		if _, err := rs.packet(); err != nil {
			return err
		}
	}
	return nil
}

// next is the next row; nil: there is none any more.
func (rs *rowStream) next() (row []byte, owned bool, err error) {
	p, owned, err := rs.read()
	switch {
	case err != nil:
		return nil, false, err
	case p[0] == 0xfe && len(p) < 9:
		return nil, false, nil
	case p[0] != 0:
		return nil, false, fmt.Errorf("the server sent a packet of the unknown kind %d among rows", p[0])
	}
	return p, owned, nil
}
