package postgres

import (
	"bytes"
	"context"
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

// A snapshot reads the captured tables in one transaction and is the io.Writer of
// their rows. The last row read stays in the batch in the making, since only what
// follows tells whether it is the last of its table, or of all.
type snapshot struct {
	t      *task
	ctx    context.Context
	queue  *cdc.Queue
	build  *cdc.Builder
	events cdc.Events
	block  *sourceBlock
	clock  cdc.Clock
	pos    position

	table *table
	first bool         // no row of another table came before
	rows  int64        // of the table,
	told  int64        // of which so many were shown
	total int64        // of all tables
	mid   schema.Value // the source block of the rows that are neither first nor last
	err   error        // what Write could not take
}

// readSnapshot reads what is captured as it stands in the transaction of c, which is
// set up already.
func (t *task) readSnapshot(ctx context.Context, queue *cdc.Queue, c *session, tables []catalogTable, at lsn) (position, error) {
	s := t.s
	rows, err := c.query(ctx, `SELECT (extract(epoch FROM now()) * 1000000)::bigint, (txid_snapshot_xmax(txid_current_snapshot()) & 4294967295)::bigint`)
	if err != nil {
		return position{}, s.classify(err, "begin the snapshot")
	}
	micros, _ := strconv.ParseInt(rows[0][0].text, 10, 64)
	xid, _ := strconv.ParseInt(rows[0][1].text, 10, 64)
	sn := &snapshot{t: t, ctx: ctx, queue: queue, build: cdc.NewBuilder(s.maxBatch), block: newSourceBlock(s),
		pos: position{snapshot: true, commit: at, last: at, xid: xid, micros: micros}}
	sn.events = t.newEvents(sn.build)
	sn.block.begin(micros, xid, 0)
	types, err := c.readTypes(ctx)
	if err != nil {
		return position{}, err
	}
	// The position says that a snapshot is under way before its first row does.
	if err := queue.Put(ctx, connectors.Batch{Offsets: sn.offsets()}, 0, time.Minute, idle); err != nil {
		return position{}, err
	}
	began := time.Now()
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].String()
	}
	t.scan.Begin(names, func(i int) int64 { return int64(max(-1, tables[i].rows)) })
	complete := false
	defer func() { t.scan.End(complete) }()
	t.lg.Info("snapshot begins", "tables", len(tables), "lsn", at.String())
	for i := range tables {
		if err := sn.readTable(ctx, c, types, &tables[i], sn.total == 0); err != nil {
			return position{}, err
		}
		if err := sn.readRewritten(ctx, c, &tables[i]); err != nil {
			return position{}, err
		}
	}
	if sn.build.Len() > 0 {
		sn.mark(envelope.SnapshotLast)
	}
	sn.pos.snapshot = false
	if err := sn.flush(); err != nil {
		return position{}, err
	}
	complete = true
	t.lg.Info("snapshot complete", "tables", len(tables), "rows", sn.total, "took", time.Since(began).Round(time.Millisecond).String())
	return sn.pos, nil
}

func idle() error { return nil }

// readTable copies one table. Its columns are named, so that what it gains meanwhile
// does not come.
func (sn *snapshot) readTable(ctx context.Context, c *session, types map[uint32]*typeInfo, ct *catalogTable, first bool) error {
	s := sn.t.s
	pub, err := c.publishedOf(ctx, ct)
	if err != nil {
		return err
	}
	rel, err := c.shapeOf(ctx, ct, pub)
	if err != nil {
		return err
	}
	cat, err := c.describe(ctx, ct.oid)
	if err != nil {
		return err
	}
	tab, skipped, err := s.compile(rel, cat, types, sourceSchema)
	if err != nil {
		return connectors.BadConfig(err)
	}
	sn.t.warnSkipped(tab, skipped)
	sn.table, sn.first, sn.rows, sn.told = tab, first, 0, 0
	sn.t.scan.Read(ct.String(), 0)
	sn.block.snapshot(envelope.SnapshotTrue)
	sn.mid = sn.block.at(&sn.build.Arena, tab.schemaValue, tab.nameValue, sn.pos.commit)

	// Columns that events leave out are not even read.
	var names []string
	tab.columns = slices.DeleteFunc(tab.columns, func(c column) bool { return c.field < 0 })
	for _, c := range tab.columns {
		names = append(names, quoteName(c.name))
	}
	list := strings.Join(names, ", ")
	from := ct.quoted()
	if stmt := s.selects[ct.String()]; stmt != "" {
		from = "(" + strings.TrimRight(strings.TrimSpace(stmt), ";") + ") AS q"
	} else if !ct.partitioned {
		from = "ONLY " + from // the rows of tables that inherit come under their own names
	}
	if pub.filter != "" {
		from += " WHERE " + pub.filter
	}
	if _, err := c.CopyTo(ctx, sn, "COPY (SELECT "+list+" FROM "+from+") TO STDOUT"); err != nil {
		if sn.err != nil {
			return sn.err
		}
		return s.classify(err, fmt.Sprintf("read table %s", tab))
	}
	if sn.rows > 0 && !(sn.rows == 1 && sn.first) {
		sn.mark(envelope.SnapshotLastInTable)
	}
	sn.total += sn.rows
	sn.tell()
	sn.t.scan.Done(ct.String())
	return nil
}

// readRewritten reads a table once more, as it is now, where it was written anew behind the snapshot, as ALTER TABLE … TYPE does: the
// snapshot sees no row of it any more, and the stream has none of them. What changed since the snapshot comes by the stream as well, as
// with isolation read_committed. The table stays as it is meanwhile, since COPY has locked it.
func (sn *snapshot) readRewritten(ctx context.Context, c *session, ct *catalogTable) error {
	if sn.rows > 0 && !ct.partitioned {
		return nil // VACUUM FULL and CLUSTER keep what a snapshot sees
	}
	s := sn.t.s
	// The catalog as the snapshot sees it, and as it is.
	rows, err := c.query(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_catalog.pg_class WHERE relkind = 'r' AND relfilenode <> pg_catalog.pg_relation_filenode(oid)
		AND (oid = %[1]d OR oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(%[1]d)))`, ct.oid))
	if err != nil {
		return s.classify(err, fmt.Sprintf("see whether table %s was rewritten", ct))
	}
	if rows[0][0].text == "0" {
		return nil
	}
	sn.t.lg.Warn("a table was rewritten or emptied while the snapshot is under way, and is read as it is now", "table", ct.String())
	now, err := s.open(ctx, sn.t.cc.Files)
	if err != nil {
		return err
	}
	defer now.close()
	// Whoever waits to change the table waits for our own lock, and would hold us up behind it.
	if _, err := now.query(ctx, setLockTimeout); err != nil {
		return s.classify(err, "begin a session")
	}
	types, err := now.readTypes(ctx)
	if err != nil {
		return err
	}
	return sn.readTable(ctx, now, types, ct, sn.total == 0)
}

// tell shows how far the table is.
func (sn *snapshot) tell() {
	sn.t.scan.Read(sn.table.String(), sn.rows-sn.told)
	sn.told = sn.rows
	sn.t.metrics.Snapshotted(&sn.events.Seen)
}

// mark gives the last row its place in the snapshot.
func (sn *snapshot) mark(place string) {
	r := sn.build.Last()
	fields := slices.Clone(r.Value.Fields())
	at := r.ValueSchema.Index(envelope.SourceField)
	src := slices.Clone(fields[at].Fields())
	src[envelope.SourceSnapshot] = schema.StringValue(place)
	fields[at] = schema.StructValue(sourceSchema, src)
	r.Value = schema.StructValue(r.ValueSchema, fields)
}

func (sn *snapshot) offsets() []connectors.Offset {
	return []connectors.Offset{{Partition: sn.t.partition, Position: sn.pos.value()}}
}

func (sn *snapshot) flush() error {
	records, size := sn.build.Take()
	b := connectors.Batch{Records: records, Offsets: sn.offsets()}
	if len(records) > 0 {
		b.Describe = func(i int) string { return "snapshot, " + describe(records, i) }
	}
	sn.clock.Reset()
	if sn.table != nil {
		sn.tell()
	}
	return sn.queue.Put(sn.ctx, b, size, time.Minute, idle)
}

// Write takes one row of COPY's text format. It undoes escapes in the driver's own
// buffer, which the driver does not look at again.
func (sn *snapshot) Write(b []byte) (int, error) {
	if err := sn.take(b); err != nil {
		sn.err = err
		return 0, err
	}
	return len(b), nil
}

func (sn *snapshot) take(b []byte) error {
	if sn.build.Full(len(b) + rowOverhead) {
		if err := sn.flush(); err != nil {
			return err
		}
	}
	size := len(b)
	row, lost, err := sn.table.copyRow(&sn.build.Arena, b)
	var ve *valueError
	if errors.As(err, &ve) {
		if err := sn.t.refuse(sn.table, ve, "the snapshot"); err != nil {
			return err
		}
		sn.events.Seen.Erroneous++
		return nil
	}
	if err != nil {
		return err
	}
	sn.t.warnLossy(sn.table, lost)
	sn.rows++
	src := sn.mid
	if sn.rows == 1 {
		mark := envelope.SnapshotFirstInTable
		if sn.first {
			mark = envelope.SnapshotFirst
		}
		sn.block.snapshot(mark)
		src = sn.block.at(&sn.build.Arena, sn.table.schemaValue, sn.table.nameValue, sn.pos.commit)
	}
	sn.events.Read(&cdc.Change{Table: &sn.table.Table, After: row, Source: src, At: sn.clock.Moment()})
	sn.build.Grow(size + rowOverhead)
	return nil
}

// copyRow makes a row of a line of COPY's text format: fields between tabs, \N for
// null, backslash escapes (Postgres's documentation of COPY). It changes b.
func (t *table) copyRow(a *schema.Arena, b []byte) (v schema.Value, lost int, err error) {
	lost = -1
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	escapes := bytes.IndexByte(b, '\\') >= 0
	fields := a.Values(len(t.Layout.Row.Fields()))
	for i := range t.columns {
		col := &t.columns[i]
		end := bytes.IndexByte(b, '\t')
		last := i == len(t.columns)-1
		if end < 0 != last {
			return v, lost, fmt.Errorf("table %s: a row of another number of columns than %d", t, len(t.columns))
		}
		text := b
		if !last {
			text, b = b[:end], b[end+1:]
		}
		if escapes {
			if len(text) == 2 && text[0] == '\\' && text[1] == 'N' {
				fields[col.field] = col.null
				continue
			}
			text = unescape(text)
		}
		value, lossy, err := col.value(a, text)
		if err != nil {
			return v, lost, err
		}
		if lossy {
			lost = i
		}
		fields[col.field] = value
	}
	return a.Struct(t.Layout.Row, fields), lost, nil
}

// unescape undoes COPY's escapes in place.
func unescape(b []byte) []byte {
	at := bytes.IndexByte(b, '\\')
	if at < 0 {
		return b
	}
	out := b[:at]
	for i := at; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+1 < len(b) {
			i++
			switch c = b[i]; c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'v':
				c = '\v'
			}
		}
		out = append(out, c)
	}
	return out
}
