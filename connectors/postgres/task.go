package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
)

// A task captures one database.
type task struct {
	s         *settings
	cc        connectors.Context
	lg        *slog.Logger
	partition schema.Value
	headers   []schema.Header
	messages  messageLayout
	warned    map[string]bool // of the goroutine that reads

	confirmed atomic.Uint64 // the LSN up to which the log has stored everything
	seen      seen
	watch     slotWatch
	scan      cdc.Scan
	metrics   cdc.Metrics
}

func newTask(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
	s, errs := parse(v)
	if len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	t := &task{s: s, cc: cc, lg: cc.Log, partition: cdc.ServerPartition(s.prefix), messages: s.newMessageLayout(), warned: map[string]bool{}}
	t.watch.t = t
	t.metrics = cdc.Metrics{Plugin: "postgres", Name: s.prefix, Tags: s.tags, Statistics: s.statistics, Scan: &t.scan}
	if t.lg == nil {
		t.lg = slog.New(slog.DiscardHandler)
	}
	if s.headers {
		t.headers = cdc.ContextHeaders(s.prefix, max(0, cc.Task), connectorName)
	}
	return t, nil
}

func (t *task) newEvents(b *cdc.Builder) cdc.Events {
	e := cdc.Events{Tombstones: t.s.tombstones, Skip: t.s.skip, Context: t.headers, Out: b}
	if t.s.txTopic != "" {
		e.Tx = cdc.NewTransactions(t.s.txTopic)
	}
	return e
}

// Run reads until ctx ends. The goroutine that calls it owns the connections; another
// emits, a third watches the slot.
func (t *task) Run(parent context.Context, out connectors.Out) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	watched := make(chan error, 1)
	if t.s.watchEvery > 0 {
		go func() {
			var over error
			t.watch.run(ctx, func(err error) { over = err; cancel() })
			watched <- over
		}()
	} else {
		watched <- nil
	}
	queue := cdc.NewQueue(t.s.maxQueue, t.s.maxQueueBytes)
	t.metrics.Queue(queue)
	emitted := make(chan error, 1)
	go func() {
		defer cancel()
		emitted <- queue.Emit(ctx, out)
	}()
	err := t.read(ctx, queue)
	cancel()
	refused, over := <-emitted, <-watched
	switch {
	case parent.Err() != nil:
		if t.s.dropSlot {
			t.dropSlot()
		}
		return nil
	case over != nil:
		if t.s.retainAction == retainDrop {
			t.dropSlot()
		}
		return over
	case refused != nil && !errors.Is(refused, context.Canceled):
		return refused
	}
	return t.s.retries.Limit(err, t.cc.Restarts)
}

// Commit notes what the log has stored: the connection's owner confirms it.
func (t *task) Commit(_ context.Context, done []connectors.Offset) error {
	if !t.s.confirm {
		return nil
	}
	for _, o := range done {
		p, ok, err := parsePosition(o.Position)
		if err != nil {
			return err
		}
		if ok && !p.snapshot {
			t.confirmUpTo(p.commit)
			t.watch.confirmed(p.micros)
		}
	}
	return nil
}

// confirmUpTo only moves forward. Of a transaction that is sent in part, the LSN is
// its commit's: the server sends such a transaction again.
func (t *task) confirmUpTo(at lsn) {
	for {
		now := t.confirmed.Load()
		if uint64(at) <= now || t.confirmed.CompareAndSwap(now, uint64(at)) {
			return
		}
	}
}

// stored is the stored position. begun says that it is one of a snapshot that was not
// finished; complete, that the task can resume at it.
func (t *task) stored(ctx context.Context) (p position, begun, complete bool, err error) {
	if t.cc.Offsets == nil {
		return position{}, false, false, nil
	}
	v, err := t.cc.Offsets.Stored(ctx, t.partition)
	if err != nil {
		return position{}, false, false, fmt.Errorf("read the stored offset: %w", err)
	}
	p, ok, err := parsePosition(v)
	if err != nil {
		return position{}, false, false, connectors.BadConfig(err)
	}
	return p, ok && p.snapshot, ok && !p.snapshot, nil
}

// read is Run's reading half.
func (t *task) read(ctx context.Context, queue *cdc.Queue) error {
	s := t.s
	pos, took, err := t.prepare(ctx, queue)
	if err != nil {
		return s.anew(err)
	}
	if !s.snapshot.Stream {
		t.lg.Info("no changes are read: snapshot.mode says so", "mode", s.snapshot.Name)
		<-ctx.Done()
		return ctx.Err()
	}
	if took && !pause(ctx, s.streamingDelay) {
		return ctx.Err()
	}
	// A connection that breaks is replaced at once, since most come back at once. What
	// does not is the worker's, who shows the failure and tries again with pauses.
	const quick, lived = 3, 10 * time.Second
	for broken := 0; ; {
		began := time.Now()
		established, err := t.stream(ctx, queue, &pos, 0)
		if ctx.Err() != nil || !established || !connectors.IsRetriable(err) {
			return s.anew(err)
		}
		if time.Since(began) > lived {
			broken = 0
		}
		if broken++; broken > quick {
			return err
		}
		t.lg.Warn("connection lost, connecting again", "slot", t.s.slot, "error", err)
		if !pause(ctx, time.Duration(broken-1)*200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// rereads reports whether an error is the loss of the slot, or of what the stored position
// needs of it, or of the server that knew it, and snapshot.mode answers that by reading the tables anew.
func (s *settings) rereads(err error) bool {
	f := connectors.FailureOf(err)
	return f != nil && (f.Reason == reasonSlotLost || f.Reason == reasonAhead) && (s.snapshot.Anew || s.snapshot.Every())
}

// anew marks such an error as mended by the next start.
func (s *settings) anew(err error) error {
	if !s.rereads(err) {
		return err
	}
	f := connectors.FailureOf(err)
	return connectors.Retriable(connectors.Failed(f.Reason, f.Err, f.Cause, "nothing here: snapshot.mode="+s.snapshot.Name+" has the next start read the tables anew"))
}

// prepare sees to the publication and the slot and takes the snapshot where snapshot.mode
// asks for one. It returns where to stream from, and whether it took one.
func (t *task) prepare(ctx context.Context, queue *cdc.Queue) (pos position, took bool, err error) {
	s := t.s
	pos, begun, complete, err := t.stored(ctx)
	if err != nil {
		return pos, false, err
	}
	if complete && !s.snapshot.Stream && !s.snapshot.Reads(true) {
		t.scan.Skip()
		return pos, false, nil
	}
	c, err := s.open(ctx, t.cc.Files)
	if err != nil {
		return pos, false, err
	}
	defer c.close()
	if err := s.checkServer(ctx, c); err != nil {
		return pos, false, err
	}
	all, err := c.listTables(ctx, s.ignoreBuiltin)
	if err != nil {
		return pos, false, err
	}
	tables, roots := s.captured(all)
	if err := s.checkTables(tables, roots); err != nil {
		return pos, false, err
	}
	if len(tables) == 0 {
		t.lg.Warn("no table is captured: the lists of tables match none", "include", fmt.Sprint(s.tables.Include), "exclude", fmt.Sprint(s.tables.Exclude))
	}
	if s.guardrail > 0 && len(tables) > s.guardrail && !s.guardrailFails {
		t.lg.Warn("more tables are captured than guardrail.collections.max", "tables", len(tables), "max", s.guardrail)
	}
	if !s.snapshot.Stream {
		if !pause(ctx, s.snapshotDelay) {
			return pos, false, ctx.Err()
		}
		pos, err = t.snapshotAlone(ctx, queue, c, tables)
		return pos, true, err
	}
	if err := s.prepareTables(ctx, c, tables); err != nil {
		return pos, false, err
	}
	if silent, err := s.unpublished(ctx, c, tables); err != nil {
		return pos, false, err
	} else if len(silent) > 0 {
		t.lg.Warn("changes of captured tables do not come: the publication does not hold them; add them with ALTER PUBLICATION … ADD TABLE, or set publication.autocreate.mode=filtered",
			"publication", s.publication, "tables", silent[:min(len(silent), 20)], "number", len(silent))
	}
	if bare, err := s.withoutIdentity(ctx, c, tables); err != nil {
		return pos, false, err
	} else if len(bare) > 0 {
		t.lg.Warn("the server refuses UPDATE and DELETE of tables that are published and have no replica identity; run ALTER TABLE … REPLICA IDENTITY FULL, or set replica.identity.autoset.values",
			"tables", bare[:min(len(bare), 20)], "number", len(bare))
	}
	st, err := c.slotState(ctx)
	if err != nil {
		return pos, false, err
	}
	if st != nil {
		if err := s.fit(st); err != nil {
			if !s.rereads(err) {
				return pos, false, err
			}
			if st, err = t.replaceSlot(ctx, c, err); err != nil {
				return pos, false, err
			}
		}
	}
	if why := s.withoutFailover(c.version, st); why != "" {
		t.lg.Warn("slot.failover has no effect", "reason", why, "slot", s.slot)
	}
	// What a snapshot finds was changed since some place that the slot may still have. Then the
	// changes up to the snapshot come first, so that none is missing; where another snapshot
	// was broken off, its rows that were deleted since.
	since, reads := &pos, s.snapshot.Reads(complete)
	switch {
	case complete:
		resumed, err := t.resume(ctx, c, st, pos)
		if s.rereads(err) {
			t.lg.Warn("the tables are read anew: the slot no longer has what the stored position needs; what was deleted since then stays in the topics", "slot", s.slot, "position", pos.commit.String(), "reason", connectors.FailureOf(err).Cause)
			since, reads = nil, true
			break
		}
		if err == nil && s.confirm {
			t.confirmUpTo(resumed.commit) // it is stored, and the server has it
			t.watch.confirmed(resumed.micros)
		}
		if err != nil || !reads {
			t.scan.Skip()
			return resumed, false, err
		}
		pos = resumed
		if st, err = c.slotState(ctx); err != nil { // it may have been made just now
			return pos, false, err
		}
	case begun && reads && (st == nil || st.confirmed > pos.commit):
		t.lg.Warn("a snapshot was broken off, and the slot no longer has what changed since: what was deleted since then and had been sent stays in the topics", "slot", s.slot, "begun at", pos.commit.String())
		since = nil
	case !begun:
		since = nil
	}
	if !reads {
		t.scan.Skip()
		pos, err = t.begin(ctx, queue, c, st)
		return pos, false, err
	}
	if !pause(ctx, s.snapshotDelay) {
		return pos, false, ctx.Err()
	}
	pos, err = t.snapshot(ctx, queue, c, st, tables, since)
	return pos, true, err
}

// prepareTables sees to the replica identities and the publication. Both want locks, and whoever comes behind one who waits for a lock
// waits, too: so it does not wait for long.
func (s *settings) prepareTables(ctx context.Context, c *session, tables []catalogTable) error {
	if _, err := c.query(ctx, setLockTimeout); err != nil {
		return s.classify(err, "begin a session")
	}
	if err := s.setIdentities(ctx, c, tables); err != nil {
		return err
	}
	if err := s.preparePublication(ctx, c, tables); err != nil {
		return err
	}
	_, err := c.query(ctx, "RESET lock_timeout")
	return s.classify(err, "begin a session")
}

// setLockTimeout bounds how long a session's next statements wait for locks.
const setLockTimeout = "SET lock_timeout = '10s'"

// replaceSlot drops a slot that the server has invalidated, so that a new one can be made.
func (t *task) replaceSlot(ctx context.Context, c *session, why error) (*slotState, error) {
	t.lg.Warn("the slot is dropped and made anew: the server has invalidated it", "slot", t.s.slot, "reason", connectors.FailureOf(why).Cause)
	if _, err := c.query(ctx, "SELECT pg_catalog.pg_drop_replication_slot("+quoteText(t.s.slot)+")"); err != nil && sqlState(err) != "42704" {
		return nil, t.s.classify(err, fmt.Sprintf("drop slot %q, which the server has invalidated", t.s.slot))
	}
	return nil, nil
}

// resume checks that the slot still has what comes after a stored position.
func (t *task) resume(ctx context.Context, c *session, st *slotState, pos position) (position, error) {
	s := t.s
	if st == nil {
		if !s.dropSlot {
			return pos, connectors.Failed(reasonSlotLost, nil, fmt.Sprintf("slot %q does not exist any more: changes since %s cannot be read", s.slot, pos.commit), "")
		}
		// The slot was dropped on stop, as asked: what changed since is lost, as known.
		conn, _, err := s.openReplication(ctx, t.cc.Files)
		if err != nil {
			return pos, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		made, err := t.makeSlot(ctx, c, conn, s.slot, false)
		if err != nil {
			return pos, err
		}
		t.lg.Warn("slot created anew: slot.drop.on.stop dropped it, and what changed since the stop is not captured", "slot", s.slot, "from", pos.commit.String(), "to", made.begins.String())
		return position{commit: made.begins, last: made.begins, micros: pos.micros, message: "COMMIT"}, nil
	}
	if err := s.behind(st, pos); err != nil {
		return pos, err
	}
	if ahead, err := s.beyond(ctx, c, pos); err != nil {
		return pos, err
	} else if ahead {
		t.lg.Warn("the stored position lies beyond the end of the server's log, and the slot's is taken, as offset.mismatch.strategy=trust_slot asks", "slot", s.slot, "from", pos.commit.String(), "to", st.confirmed.String())
		pos = position{commit: st.confirmed, last: st.confirmed, micros: pos.micros, message: "COMMIT"}
	}
	if st.confirmed > pos.commit {
		t.lg.Warn("slot is ahead of the stored position, and what lies between is not captured", "slot", s.slot, "from", pos.commit.String(), "to", st.confirmed.String())
		pos = position{commit: st.confirmed, last: st.confirmed, micros: pos.micros, message: "COMMIT"}
	}
	t.lg.Info("streaming resumes", "slot", s.slot, "lsn", pos.commit.String(), "events", pos.events)
	return pos, nil
}

// begin starts a stream without a snapshot: at the slot's place, or now.
func (t *task) begin(ctx context.Context, queue *cdc.Queue, c *session, st *slotState) (position, error) {
	s := t.s
	at := lsn(0)
	if st != nil {
		at = st.confirmed
	} else {
		conn, _, err := s.openReplication(ctx, t.cc.Files)
		if err != nil {
			return position{}, err
		}
		defer goodbye(ctx, conn)
		made, err := t.makeSlot(ctx, c, conn, s.slot, false)
		if err != nil {
			return position{}, err
		}
		t.lg.Info("slot created", "slot", s.slot, "lsn", made.begins.String())
		at = made.begins
	}
	pos := position{commit: at, last: at, micros: time.Now().UnixMicro()}
	return pos, t.started(ctx, queue, pos)
}

// snapshot creates the slot where it is missing and reads the tables at the very place
// where the stream will begin. A slot that exists already cannot give its snapshot any
// more: a temporary one gives one, and the stream begins there. since is a place from which
// the lasting slot still has the changes: they come first, up to the snapshot.
func (t *task) snapshot(ctx context.Context, queue *cdc.Queue, c *session, st *slotState, tables []catalogTable, since *position) (position, error) {
	s := t.s
	if since != nil && st != nil {
		now, err := c.currentLSN(ctx)
		if err != nil {
			return position{}, err
		}
		// Most of it comes before the snapshot is made, which keeps the server from cleaning up.
		if err := t.catchUp(ctx, queue, since, now); err != nil {
			return position{}, err
		}
	}
	conn, _, err := s.openReplication(ctx, t.cc.Files)
	if err != nil {
		return position{}, err
	}
	open := true
	defer func() {
		if open {
			goodbye(ctx, conn)
		}
	}()
	name := s.slot
	if st != nil {
		name = fmt.Sprintf("%.40s_snapshot_%d", s.slot, time.Now().UnixNano()%1e9)
	}
	made, err := t.makeSlot(ctx, c, conn, name, st != nil)
	if err != nil {
		return position{}, err
	}
	t.lg.Info("slot created", "slot", name, "lsn", made.begins.String())
	if _, err := c.query(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT "+quoteText(made.snapshot)); err != nil {
		return position{}, s.classify(err, "begin the snapshot's transaction")
	}
	goodbye(ctx, conn) // the snapshot is ours now
	open = false
	if since != nil && st != nil {
		if err := t.catchUp(ctx, queue, since, made.begins); err != nil {
			return position{}, err
		}
	}
	if s.isolation == "read_committed" || s.isolation == "read_uncommitted" {
		if _, err := c.query(ctx, "COMMIT; BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"); err != nil {
			return position{}, s.classify(err, "begin the snapshot's transaction")
		}
	}
	return t.readTables(ctx, queue, c, tables, made.begins)
}

// catchUp reads the stream from a position up to a place, where a snapshot stands: what
// committed before it.
func (t *task) catchUp(ctx context.Context, queue *cdc.Queue, from *position, until lsn) error {
	if from.commit >= until {
		return nil
	}
	t.lg.Info("changes come up to the snapshot's place first", "from", from.commit.String(), "to", until.String())
	begun := from.snapshot
	_, err := t.stream(ctx, queue, from, until)
	from.snapshot = begun
	return err
}

// snapshotAlone reads the tables without a stream behind them: no slot is needed.
func (t *task) snapshotAlone(ctx context.Context, queue *cdc.Queue, c *session, tables []catalogTable) (position, error) {
	s := t.s
	level := map[string]string{"serializable": "SERIALIZABLE READ ONLY DEFERRABLE", "repeatable_read": "REPEATABLE READ READ ONLY"}[s.isolation]
	if level == "" {
		level = "READ COMMITTED READ ONLY"
	}
	if strings.HasPrefix(level, "SERIALIZABLE") {
		standby, err := c.query(ctx, "SELECT pg_catalog.pg_is_in_recovery()")
		if err != nil {
			return position{}, s.classify(err, "ask whether the server is a standby")
		}
		if standby[0][0].text == "t" { // they have no serializable transactions
			level = "REPEATABLE READ READ ONLY"
		}
	}
	if _, err := c.query(ctx, "BEGIN ISOLATION LEVEL "+level); err != nil {
		return position{}, s.classify(err, "begin the snapshot's transaction")
	}
	at, err := c.currentLSN(ctx)
	if err != nil {
		return position{}, err
	}
	return t.readTables(ctx, queue, c, tables, at)
}

// readTables reads the tables that snapshots are asked of, in order, in the transaction that
// is open, and ends it.
func (t *task) readTables(ctx context.Context, queue *cdc.Queue, c *session, tables []catalogTable, at lsn) (position, error) {
	s := t.s
	tables = s.snapshotOf(tables)
	if s.lockTables {
		for i := range tables {
			sql := fmt.Sprintf("SET LOCAL lock_timeout = %d; LOCK TABLE %s IN ACCESS SHARE MODE", s.lockTimeout.Milliseconds(), tables[i].quoted())
			if _, err := c.query(ctx, sql); err != nil {
				return position{}, s.classify(err, fmt.Sprintf("lock table %s", &tables[i]))
			}
		}
	}
	pos, err := t.readSnapshot(ctx, queue, c, tables, at)
	if err == nil {
		_, err = c.query(ctx, "COMMIT")
		err = s.classify(err, "end the snapshot's transaction")
	}
	return pos, err
}

// snapshotOf are the tables that a snapshot reads, in its order.
func (s *settings) snapshotOf(tables []catalogTable) []catalogTable {
	tables = cdc.InOrder(tables, s.tables.Include, func(ct catalogTable) string { return ct.String() })
	if s.snapshotTables != nil {
		tables = slices.DeleteFunc(tables, func(ct catalogTable) bool { return !s.snapshotTables.Match(ct.String()) })
	}
	switch s.tableOrder {
	case "ascending":
		slices.SortStableFunc(tables, func(x, y catalogTable) int { return int(max(-1, min(1, x.rows-y.rows))) })
	case "descending":
		slices.SortStableFunc(tables, func(x, y catalogTable) int { return int(max(-1, min(1, y.rows-x.rows))) })
	}
	return tables
}

// goodbye ends a connection in good order.
func goodbye(ctx context.Context, conn *pgconn.PgConn) {
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = conn.Close(bye)
}

// started stores the position of a stream that begins without a snapshot, so that the
// next start goes on there.
func (t *task) started(ctx context.Context, queue *cdc.Queue, pos position) error {
	return queue.Put(ctx, connectors.Batch{Offsets: []connectors.Offset{{Partition: t.partition, Position: pos.value()}}}, 0, time.Minute, idle)
}

// stream reads one connection from pos on, and moves pos with what it queued.
// established says that the server did stream. until is where to end, before what commits
// there; 0: nowhere.
func (t *task) stream(ctx context.Context, queue *cdc.Queue, pos *position, until lsn) (established bool, err error) {
	s := t.s
	meta, err := s.open(ctx, t.cc.Files)
	if err != nil {
		return false, err
	}
	defer meta.close()
	if _, err := meta.query(ctx, setLockTimeout); err != nil {
		return false, s.classify(err, "begin a session")
	}
	types, err := meta.readTypes(ctx)
	if err != nil {
		return false, err
	}
	// A connection that broke may be answered by another server now.
	if ahead, err := s.beyond(ctx, meta, *pos); err != nil {
		return false, err
	} else if ahead {
		return false, connectors.Retriable(fmt.Errorf("the position %s lies beyond the end of the server's log, and offset.mismatch.strategy=trust_slot has the next start take the slot's", pos.commit))
	}
	rc, err := t.startStream(ctx, meta.version, pos.commit)
	if err != nil {
		return false, err
	}
	defer rc.close()
	// The slot is ours now. What its last reader confirmed a moment ago counts: the server
	// begins there, without a word, even when asked for less.
	st, err := meta.slotState(ctx)
	if err != nil {
		return false, err
	}
	if st != nil {
		if err := s.behind(st, *pos); err != nil {
			return false, err
		}
	}
	stop := context.AfterFunc(ctx, rc.interrupt)
	defer stop()
	build := cdc.NewBuilder(s.maxBatch)
	r := &reader{
		t: t, rc: rc, meta: meta, queue: queue, build: build, events: t.newEvents(build), block: newSourceBlock(s),
		types: types, tables: map[uint32]*table{}, resume: *pos, pos: *pos, queued: *pos, last: pos.lastEnd(),
		received: uint64(pos.commit), interval: s.statusInterval, until: until,
	}
	if pos.snapshot { // the snapshot to come has all rows that there still are
		r.events.Skip['c'], r.events.Skip['u'] = true, true
	}
	if rc.timeo > 0 {
		r.interval = min(r.interval, max(rc.timeo/3, 10*time.Millisecond))
	}
	if s.heartbeat > 0 {
		r.beatAt = time.Now()
	}
	if s.xminEvery > 0 {
		r.xminAt = time.Now()
	}
	if err = r.run(ctx); err == errCaughtUp {
		err = r.flush(ctx)
	}
	*pos = r.queued // what is in the making is read again
	return true, err
}

// startStream connects and starts streaming. A slot that somebody else still reads,
// as our own last connection may for a moment, is waited for.
func (t *task) startStream(ctx context.Context, version int, at lsn) (*replConn, error) {
	s := t.s
	deadline := time.Now().Add(s.slotWait)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		conn, rc, err := s.openReplication(ctx, t.cc.Files)
		if err != nil {
			return nil, err
		}
		err = rc.stream(ctx, conn, s.startSQL(version, at))
		if err == nil {
			return rc, nil
		}
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = conn.Close(bye)
		cancel()
		if sqlState(err) != "55006" || time.Now().After(deadline) {
			return nil, s.classify(err, fmt.Sprintf("start streaming from slot %q at %s", s.slot, at))
		}
		if !pause(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// The records of heartbeats.
var (
	heartbeatKey   = schema.NewStruct("io.debezium.connector.common.ServerNameKey").Version(1).Field("serverName", schema.StringSchema).Build()
	heartbeatValue = schema.NewStruct("io.debezium.connector.common.Heartbeat").Version(1).Field("ts_ms", schema.Int64Schema).Build()
)

// beat sends a heartbeat behind what was read so far.
func (r *reader) beat(ctx context.Context, now time.Time) error {
	s := r.t.s
	r.beatAt = now.Add(s.heartbeat)
	if s.heartbeatAction != "" {
		err := r.await(func() error { _, err := r.meta.query(ctx, s.heartbeatAction); return err })
		if err != nil {
			return s.classify(err, "run heartbeat.action.query")
		}
	}
	if err := r.room(ctx, 0); err != nil {
		return err
	}
	r.build.Add(schema.Record{
		Topic: s.heartbeatTopic, Partition: 0, Timestamp: schema.NoTimestamp,
		KeySchema: heartbeatKey, Key: schema.StructValue(heartbeatKey, []schema.Value{schema.StringValue(s.prefix)}),
		ValueSchema: heartbeatValue, Value: schema.StructValue(heartbeatValue, []schema.Value{envelope.MomentOf(now).Millis}),
	})
	return r.flush(ctx)
}
