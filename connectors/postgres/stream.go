package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
)

const (
	// rowOverhead is what an event holds beside its row's text, about.
	rowOverhead = 512
	// linger bounds how long a batch waits for company while much comes.
	linger = 2 * time.Millisecond
	// offsetPause bounds how often an offset moves without records.
	offsetPause = time.Second
)

// A reader decodes one connection's stream. It is used by the goroutine that owns
// the connection, which never emits: batches go into the queue, and while that is
// full the server is answered.
type reader struct {
	t      *task
	rc     *replConn
	meta   *session
	queue  *cdc.Queue
	events cdc.Events
	build  *cdc.Builder
	block  *sourceBlock
	clock  cdc.Clock

	types  map[uint32]*typeInfo
	tables map[uint32]*table // nil: not captured

	resume position // where the stream was to begin
	until  lsn      // where it is to end; 0: nowhere
	pos    position // behind the last message read
	queued position // behind the last batch in the queue

	inTx    bool
	commit  lsn // of the open transaction
	begun   lsn // where its beginning was sent
	xid     int64
	micros  int64
	ordinal int64
	last    lsn // the end of the last commit before it; 0: unknown

	received  uint64
	reportAt  time.Time // the next report to the server is due
	confirmAt time.Time // it is, if there is something to confirm
	reported  uint64
	flushAt   time.Time     // the batch in the making goes, at the latest; zero: it is empty
	movedAt   time.Time     // when an offset last went into the queue
	beatAt    time.Time     // the next heartbeat is due; zero: none
	xminAt    time.Time     // the slot's xmin is to be looked at; zero: never
	xmin      int64         // 0: unknown
	interval  time.Duration // between two reports, at most
	quiet     quiet
}

// errCaughtUp ends a reader that was to read up to a place, once all before it was read.
var errCaughtUp = errors.New("the stream is read up to where it was to end")

// run reads until the connection or ctx ends.
func (r *reader) run(ctx context.Context) error {
	r.reportAt = time.Now()
	r.t.metrics.Connected(true)
	defer func() {
		r.t.metrics.Connected(false)
		r.t.seen.streaming.Store(false)
	}()
	for {
		now := time.Now()
		if err := r.chores(ctx, now); err != nil {
			return err
		}
		deadline := r.reportAt
		if !r.rc.buffered() {
			if r.build.Len() > 0 && r.queue.Hungry() && !r.rc.paced.busy() {
				if err := r.flush(ctx); err != nil {
					return err
				}
			}
			for _, at := range []time.Time{r.flushAt, r.beatAt, r.xminAt, r.moveAt()} {
				if !at.IsZero() && at.Before(deadline) {
					deadline = at
				}
			}
			if uint64(r.queued.commit) > r.reported && deadline.After(now.Add(offsetPause)) {
				deadline = now.Add(offsetPause) // a confirmation is on its way to us
			}
			r.clock.Reset()
		}
		since := time.Now()
		n, err := r.drain(ctx, deadline)
		if err == nil {
			err = r.listen(n, since)
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
}

// drain reads messages until none is at hand any more, or some hundred were.
func (r *reader) drain(ctx context.Context, deadline time.Time) (n int, err error) {
	defer func() { r.show(n) }()
	for range 256 {
		b, err := r.rc.receive(deadline)
		if errors.Is(err, errIdle) {
			return n, nil
		}
		if err != nil {
			return n, r.t.s.classifyStream(err)
		}
		n++
		if err := r.handle(ctx, b); err != nil {
			return n, err
		}
		if !r.rc.buffered() {
			return n, nil
		}
	}
	return n, nil
}

// quiet is how long nothing came while we listened.
type quiet struct {
	listened time.Duration
	began    time.Time
	asked    bool
}

// listen notes what came of listening since a time. A server that says nothing is asked
// for an answer; one that gives none either works on a large transaction, and then its
// sender is still there, or the connection is broken without our having been told.
func (r *reader) listen(messages int, since time.Time) error {
	q := &r.quiet
	if messages > 0 {
		*q = quiet{}
		return nil
	}
	if q.listened == 0 {
		q.began = since
	}
	q.listened += time.Since(since)
	limit := max(r.rc.timeo, minSilence)
	if r.rc.timeo == 0 {
		limit = time.Minute
	}
	if q.listened > limit/2 && !q.asked {
		q.asked = true
		return r.tell(true)
	}
	if q.listened <= limit {
		return nil
	}
	if l, ok := r.t.watch.seen(); ok && l.at.After(q.began.Add(limit/2)) && l.pid == r.rc.pid {
		*q = quiet{} // it is there
		return nil
	} else if q.listened <= 2*limit && !(ok && l.at.After(q.began.Add(limit/2))) {
		return nil // the watcher may yet tell
	}
	return r.t.s.classify(fmt.Errorf("the server has said nothing for %s, asked for an answer, too: %w", q.listened.Round(time.Second), os.ErrDeadlineExceeded), reading)
}

// minSilence is the least silence after which a server is taken for gone.
const minSilence = 2 * time.Second

// chores does what is due by the clock.
func (r *reader) chores(ctx context.Context, now time.Time) error {
	if !now.Before(r.reportAt) || r.t.confirmed.Load() > r.reported && !now.Before(r.confirmAt) {
		if err := r.report(); err != nil {
			return err
		}
	}
	if !r.beatAt.IsZero() && !now.Before(r.beatAt) {
		if err := r.beat(ctx, now); err != nil {
			return err
		}
	}
	if !r.xminAt.IsZero() && !now.Before(r.xminAt) {
		if err := r.fetchXmin(ctx); err != nil {
			return err
		}
	}
	if at := r.moveAt(); !r.flushAt.IsZero() && !now.Before(r.flushAt) || !at.IsZero() && !now.Before(at) {
		return r.flush(ctx)
	}
	return nil
}

// fetchXmin looks at the oldest transaction whose rows the slot keeps, which source blocks
// then tell.
func (r *reader) fetchXmin(ctx context.Context) error {
	err := r.await(func() error {
		rows, err := r.meta.query(ctx, "SELECT catalog_xmin FROM pg_catalog.pg_replication_slots WHERE slot_name = "+quoteText(r.t.s.slot))
		if err != nil || len(rows) == 0 || rows[0][0].null {
			return err
		}
		r.xmin, err = strconv.ParseInt(rows[0][0].text, 10, 64)
		return err
	})
	if err != nil {
		return r.t.s.classify(err, "read the slot's xmin")
	}
	if r.xmin != 0 {
		r.block.fields[srcXmin] = schema.Int64Value(r.xmin)
	}
	r.xminAt = time.Now().Add(r.t.s.xminEvery)
	return nil
}

// moveAt is when the position must go on its way without records; zero: it has not
// moved.
func (r *reader) moveAt() time.Time {
	if r.build.Len() > 0 || !r.queued.before(r.pos) || r.inTx {
		return time.Time{}
	}
	return r.movedAt.Add(offsetPause)
}

// report tells the server our position, which also tells it that we live.
func (r *reader) report() error { return r.tell(false) }

func (r *reader) tell(ask bool) error {
	confirmed := r.t.confirmed.Load()
	if err := r.rc.report(r.received, confirmed, ask); err != nil {
		return r.t.s.classify(err, "report the position to the server")
	}
	r.reported = confirmed
	now := time.Now()
	r.reportAt, r.confirmAt = now.Add(r.interval), now.Add(offsetPause)
	return nil
}

// flush puts the batch in the making and the position into the queue, and answers
// the server while there is no room.
func (r *reader) flush(ctx context.Context) error {
	if r.inTx && r.pos.commit == r.commit {
		r.pos.tx = r.events.Tx.State()
	}
	records, bytes := r.build.Take()
	at := r.pos
	at.xmin = r.xmin
	at.snapshot = r.resume.snapshot // catching up for a snapshot that was broken off: it is still to be taken
	b := connectors.Batch{
		Records: records,
		Offsets: []connectors.Offset{{Partition: r.t.partition, Position: at.value()}},
	}
	if len(records) > 0 {
		b.Describe = func(i int) string { return describe(records, i) }
	}
	r.movedAt, r.flushAt = time.Now(), time.Time{}
	// A connection that breaks while there is no room takes the batch with it: the next one reads it again.
	if err := r.queue.Put(ctx, b, bytes, r.alive(), r.report); err != nil {
		return err
	}
	r.queued = r.pos
	return nil
}

// alive is how often the server must hear from us: well within its patience.
func (r *reader) alive() time.Duration {
	if t := r.rc.timeo; t > 0 {
		return min(r.interval, max(t/4, 10*time.Millisecond))
	}
	return r.interval
}

// await runs f, a query of the catalog that may take its time, and answers the server
// meanwhile.
func (r *reader) await(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(r.alive())
	defer tick.Stop()
	var failed error
	for {
		select {
		case err := <-done:
			return errors.Join(err, failed)
		case <-tick.C:
			if failed == nil {
				failed = r.report()
			}
		}
	}
}

// handle takes one message of the replication protocol.
func (r *reader) handle(ctx context.Context, b []byte) error {
	c := cursor{b: b}
	switch kind := c.u8(); kind {
	case pglogrepl.XLogDataByteID: // start u64, end u64, time u64, payload
		start, end := c.u64(), c.u64()
		c.u64()
		if c.bad || len(c.b) == 0 {
			return errShort
		}
		r.received = max(r.received, start, end)
		return r.message(ctx, lsn(start), c.b)
	case pglogrepl.PrimaryKeepaliveMessageByteID: // end u64, time u64, reply u8
		end := c.u64()
		c.u64()
		reply := c.u8()
		if c.bad {
			return errShort
		}
		r.received = max(r.received, end)
		if !r.inTx && lsn(end) > r.pos.commit {
			// All that committed before end was sent: an idle slot moves on by this.
			if r.past(lsn(end)) {
				end = uint64(r.until) // what lies behind is read once more
			}
			r.pos = position{commit: lsn(end), last: lsn(end), xid: r.pos.xid, micros: max(r.pos.micros, time.Now().UnixMicro()), message: "COMMIT"}
		}
		if reply != 0 {
			if err := r.report(); err != nil {
				return err
			}
		}
		if !r.inTx && r.past(lsn(end)) {
			return errCaughtUp
		}
		return nil
	default:
		return fmt.Errorf("the server sent an unknown message %q within the stream", kind)
	}
}

// message takes one message of pgoutput.
func (r *reader) message(ctx context.Context, at lsn, b []byte) error {
	c := cursor{b: b[1:]}
	switch b[0] {
	case msgInsert, msgUpdate, msgDelete:
		r.ordinal++
		return r.change(ctx, at, b[0], &c, len(b))
	case msgBegin:
		r.commit, r.micros, r.xid = lsn(c.u64()), int64(c.u64())+pgEpoch, int64(c.u32())
		if r.past(r.commit) {
			return errCaughtUp
		}
		r.inTx, r.ordinal, r.begun = true, 0, at
		if c.bad {
			return errShort
		}
		r.block.begin(r.micros, r.xid, r.last)
		return r.begins(ctx, at)
	case msgCommit:
		c.u8()
		c.u64()
		end := lsn(c.u64())
		if c.bad {
			return errShort
		}
		if err := r.ends(ctx, at); err != nil {
			return err
		}
		r.inTx, r.last = false, end
		r.events.Seen.Commits++
		if end > r.pos.commit {
			r.pos = position{commit: end, last: end, xid: r.xid, micros: r.micros, message: "COMMIT"}
		}
	case msgRelation:
		return r.relation(ctx, b[1:])
	case msgTruncate:
		return r.truncate(ctx, at, &c)
	case msgMessage:
		return r.logical(ctx, at, &c)
	case msgType, msgOrigin:
	default:
		return fmt.Errorf("the server sent a change of the unknown kind %q", b[0])
	}
	if c.bad {
		return errShort
	}
	return nil
}

// begins tells that a transaction begins, where that is asked for and was not told
// before. The position then lies within the transaction, before its first row.
func (r *reader) begins(ctx context.Context, at lsn) error {
	tx := r.events.Tx
	if tx == nil || r.commit < r.resume.commit {
		return nil
	}
	own := r.commit == r.resume.commit && r.resume.tx.ID != ""
	if own || r.resume.foreignXID != 0 && r.xid == r.resume.foreignXID && r.resume.tx.ID != "" {
		tx.Resume(r.resume.tx)
		return nil
	}
	if err := r.room(ctx, 0); err != nil {
		return err
	}
	tx.Begin(r.build, r.txID(at), r.micros/1000)
	r.build.Grow(rowOverhead)
	if r.commit != r.resume.commit || r.resume.events == 0 { // else rows of it are done already
		r.moved(at)
	}
	return nil
}

// ends tells that the open transaction ends, where its beginning was told.
func (r *reader) ends(ctx context.Context, at lsn) error {
	if !r.events.Tx.Open() {
		return nil
	}
	if err := r.room(ctx, 0); err != nil {
		return err
	}
	r.events.Tx.End(r.build, r.txID(at), r.micros/1000)
	r.build.Grow(rowOverhead)
	return nil
}

// txID is how Debezium calls a transaction in what it sends at an LSN.
func (r *reader) txID(at lsn) string {
	var b [48]byte
	return string(strconv.AppendUint(append(strconv.AppendInt(b[:0], r.xid, 10), ':'), uint64(at), 10))
}

// blockID is the same for the events' own block, null where none is sent.
func (r *reader) blockID(at lsn) schema.Value {
	if !r.events.Tx.Open() {
		return schema.Value{}
	}
	return schema.StringValue(r.txID(at))
}

// past reports whether a place is where the stream is to end, or behind it.
func (r *reader) past(at lsn) bool { return r.until != 0 && at >= r.until }

// done reports whether the message just counted is in the log already.
func (r *reader) done(at lsn) bool {
	return r.commit < r.resume.commit || r.commit == r.resume.commit && r.ordinal <= r.resume.events ||
		r.resume.foreignXID != 0 && r.xid == r.resume.foreignXID && at < r.resume.foreignRow
}

// moved notes that the messages up to this one of the open transaction were taken.
func (r *reader) moved(at lsn) {
	r.pos = position{commit: r.commit, events: r.ordinal, last: at, begun: r.begun, ended: r.last, xid: r.xid, micros: r.micros, message: "BEGIN"}
}

// room sees to it that a change of so many bytes fits into the batch.
func (r *reader) room(ctx context.Context, size int) error {
	if r.build.Full(size + rowOverhead) {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	if r.flushAt.IsZero() {
		r.flushAt = time.Now().Add(linger)
	}
	return nil
}

// change takes an insert, update or delete.
func (r *reader) change(ctx context.Context, at lsn, kind byte, c *cursor, size int) error {
	oid := c.u32()
	if c.bad {
		return errShort
	}
	if r.done(at) {
		return nil
	}
	t, known := r.tables[oid]
	if !known {
		return fmt.Errorf("the server sent a change of the table with number %d, which it has not announced", oid)
	}
	if t == nil {
		r.events.Seen.Filtered++
		r.moved(at)
		return nil
	}
	if err := r.room(ctx, size); err != nil {
		return err
	}
	err := r.decode(ctx, t, at, kind, c)
	if err != nil {
		var ve *valueError
		if !errors.As(err, &ve) {
			return err
		}
		if err := r.t.refuse(t, ve, fmt.Sprintf("LSN %s, transaction %d", at, r.xid)); err != nil {
			return err
		}
		r.events.Seen.Erroneous++
	} else {
		r.build.Grow(size + rowOverhead)
	}
	r.moved(at)
	return nil
}

// decode makes the events of a change.
func (r *reader) decode(ctx context.Context, t *table, at lsn, kind byte, c *cursor) error {
	a := &r.build.Arena
	var before, after schema.Value
	form := c.u8()
	partial := form == 'K' && t.unkeyed != "" // a key made of it would be another row's
	if partial && kind == msgDelete {
		return &valueError{t.unkeyed, errUnkeyed}
	}
	if form == 'K' || form == 'O' {
		v, lost, err := t.row(a, c, nil)
		if err != nil {
			return err
		}
		r.t.warnLossy(t, lost)
		before = v
	}
	ch := cdc.Change{Table: &t.Table, Source: r.block.at(a, t.schemaValue, t.nameValue, at), At: r.clock.Moment(), TxID: r.blockID(at)}
	if kind == msgDelete {
		if before.IsNull() {
			return fmt.Errorf("table %s: a delete without its row", t)
		}
		ch.Before = before
		r.events.Delete(&ch)
		return nil
	}
	if !before.IsNull() {
		form = c.u8()
	}
	if form != 'N' {
		return fmt.Errorf("table %s: a change in the unknown form %q", t, form)
	}
	var old []schema.Value
	full := t.identity == 'f'
	if full {
		old = before.Fields()
	}
	after, lost, err := t.row(a, c, old)
	if err != nil {
		return err
	}
	r.t.warnLossy(t, lost)
	if err := r.reselect(ctx, t, at, after.Fields()); err != nil {
		return err
	}
	ch.After = after
	if kind == msgInsert {
		r.events.Create(&ch)
		return nil
	}
	if !partial {
		ch.OldKey = before
	}
	if full {
		ch.Before = before
		if r.t.s.skipUnchanged && schema.EqualValues(before, after) {
			r.events.Seen.Unchanged++
			return nil
		}
	}
	r.events.Update(&ch)
	return nil
}

var errUnkeyed = errors.New("is part of the key (message.key.columns), and the server sends a deleted row without it; run ALTER TABLE … REPLICA IDENTITY FULL, which helps for what is deleted from then on")

// truncate takes a TRUNCATE, which may name several tables: it counts as a message for each of them, so that many fit into several batches.
func (r *reader) truncate(ctx context.Context, at lsn, c *cursor) error {
	n := int(c.u32())
	c.u8()
	for i := 0; i < n && !c.bad; i++ {
		t, known := r.tables[c.u32()]
		if c.bad {
			break
		}
		if r.ordinal++; r.done(at) {
			continue
		}
		if !known {
			return errors.New("the server sent the truncation of a table which it has not announced")
		}
		if t == nil {
			r.moved(at)
			continue
		}
		if err := r.room(ctx, 0); err != nil {
			return err
		}
		r.events.Truncate(&cdc.Change{Table: &t.Table, Source: r.block.at(&r.build.Arena, t.schemaValue, t.nameValue, at), At: r.clock.Moment(), TxID: r.blockID(at)})
		r.build.Grow(rowOverhead)
		r.moved(at)
	}
	if c.bad {
		return errShort
	}
	return nil
}

// logical takes a message of pg_logical_emit_message.
func (r *reader) logical(ctx context.Context, at lsn, c *cursor) error {
	inTx := c.u8()&1 != 0
	c.u64()
	prefix := c.text()
	content := c.take(int(c.u32()))
	if c.bad {
		return errShort
	}
	if inTx {
		if r.ordinal++; r.done(at) {
			return nil
		}
	} else if at < r.resume.commit {
		return nil
	} else if r.past(at) {
		return errCaughtUp
	}
	s := r.t.s
	if (s.prefixInclude == nil || s.prefixInclude.Match(prefix)) && !s.prefixExclude.Match(prefix) {
		if err := r.room(ctx, len(content)); err != nil {
			return err
		}
		if !inTx {
			r.block.begin(max(r.micros, r.pos.micros), 0, r.last)
		}
		empty := schema.StringValue("")
		a := &r.build.Arena
		var tx schema.Value
		if inTx {
			tx = r.events.Tx.Number(a, r.blockID(at), messageCollection)
		}
		r.build.Add(r.t.messages.record(a, prefix, a.Copy(content), r.block.at(a, empty, empty, at), tx, r.clock.Moment()))
		r.build.Grow(len(content) + rowOverhead)
	}
	if inTx {
		r.moved(at)
	} else {
		// All that committed before the message is done; the message itself, too.
		r.pos = position{commit: at + 1, last: at, micros: r.pos.micros, message: "MESSAGE"}
	}
	return nil
}

// relation takes the announcement of a table's shape, which holds for the rows
// behind it.
func (r *reader) relation(ctx context.Context, b []byte) error {
	rel, err := parseRelation(b)
	if err != nil {
		return err
	}
	s := r.t.s
	if !s.tables.Match(rel.schema, rel.name) || s.ignoreBuiltin && (rel.schema == "pg_catalog" || rel.schema == "information_schema") {
		r.tables[rel.oid] = nil
		return nil
	}
	var cat *described
	err = r.await(func() error {
		var err error
		if cat, err = r.meta.describe(ctx, rel.oid); err != nil {
			return err
		}
		if !knows(r.types, rel) || hasEnum(r.types, rel) { // made, or given labels, since we last looked
			r.types, err = r.meta.readTypes(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	// A table that is announced again as it was keeps its schemas: the server announces
	// tables anew for many reasons, and all that was compiled for a schema hangs on it.
	shape := fmt.Sprintf("%+v %+v", rel, cat)
	if t := r.tables[rel.oid]; t != nil && t.shape == shape {
		return nil
	}
	t, skipped, err := s.compile(rel, cat, r.types, sourceSchema)
	if err != nil {
		return connectors.BadConfig(err)
	}
	t.shape = shape
	var keyless bool
	if t.reselect, keyless = s.newReselection(t, rel, cat); keyless {
		r.t.warnOnce("reselect "+t.String(), "columns are not read again: the table has no key", slog.String("table", t.String()))
	}
	r.t.warnSkipped(t, skipped)
	if t.unkeyed != "" {
		r.t.warnOnce("unkeyed "+t.String(), "deletes of the table cannot be sent, nor changes of its key be noticed: the key (message.key.columns) has a column that is no part of the replica identity; run ALTER TABLE … REPLICA IDENTITY FULL",
			slog.String("table", t.String()), slog.String("column", t.unkeyed))
	}
	r.tables[rel.oid] = t
	return nil
}

// describe names a record's place in the stream.
func describe(records []schema.Record, i int) string {
	for ; i >= 0; i-- { // a tombstone has its delete's place
		if src := records[i].Value.Get("source"); src.Kind() == schema.Struct {
			return "LSN " + lsn(src.Get("lsn").Int()).String() + " (" + src.Get("schema").Str() + "." + src.Get("table").Str() + ")"
		}
	}
	return "an unknown place"
}

// refuse decides about a change whose value cannot be read: an error stops the task.
func (t *task) refuse(tab *table, err *valueError, where string) error {
	switch t.s.failure {
	case "warn":
		t.lg.Warn("change left out: its value cannot be read", "table", tab.String(), "column", err.column, "where", where, "error", err.err)
		return nil
	case "skip", "ignore":
		t.lg.Debug("change left out: its value cannot be read", "table", tab.String(), "column", err.column, "where", where, "error", err.err)
		return nil
	}
	return connectors.Failed(reasonData, err, fmt.Sprintf("table %s at %s", tab, where), "")
}

// warnLossy says once of a column that it held what its type cannot say.
func (t *task) warnLossy(tab *table, column int) {
	if column < 0 {
		return
	}
	t.warnOnce("lossy "+tab.String()+tab.columns[column].name, "a value was sent as null, or held to the last that can be said: NaN in a decimal (decimal.handling.mode=string has it), or a time beyond 64 bits of its unit",
		slog.String("table", tab.String()), slog.String("column", tab.columns[column].name))
}

// warnSkipped says once a column that it is left out.
func (t *task) warnSkipped(tab *table, columns []string) {
	for _, c := range columns {
		t.warnOnce("skip "+tab.String()+c, "column left out: its type has no mapping; include.unknown.datatypes=true sends its text as bytes",
			slog.String("table", tab.String()), slog.String("column", c))
	}
}

func (t *task) warnOnce(key, msg string, attrs ...slog.Attr) {
	if !t.warned[key] {
		t.warned[key] = true
		t.lg.LogAttrs(context.Background(), slog.LevelWarn, msg, attrs...)
	}
}
