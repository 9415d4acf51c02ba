package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
)

// A task captures one server.
type task struct {
	s         *settings
	cc        connectors.Context
	lg        *slog.Logger
	partition schema.Value
	headers   []schema.Header
	schemas   Schemas
	charsets  map[string]charset // what the server said; of the goroutine that reads
	seen      seen
	scan      cdc.Scan
	metrics   cdc.Metrics
}

func newTask(cc connectors.Context, v config.Values, mariadb bool) (connectors.SourceTask, error) {
	s, errs := parse(v, mariadb)
	if len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	t := &task{s: s, cc: cc, lg: cc.Log, partition: cdc.ServerPartition(s.prefix), charsets: map[string]charset{}}
	t.metrics = cdc.Metrics{Plugin: s.connector(), Name: s.prefix, Tags: s.tags, Statistics: s.statistics, Scan: &t.scan}
	if t.lg == nil {
		t.lg = slog.New(slog.DiscardHandler)
	}
	if s.headers {
		t.headers = cdc.ContextHeaders(s.prefix, max(0, cc.Task), s.connector())
	}
	return t, nil
}

// newEvents makes the events of a reader or a snapshot; tx numbers those of
// transactions, or is nil.
func (t *task) newEvents(b *cdc.Builder, tx *cdc.Transactions) cdc.Events {
	return cdc.Events{Tombstones: t.s.tombstones, Skip: t.s.skip, Context: t.headers, Tx: tx, Out: b}
}

// Run reads until ctx ends. The goroutine that calls it owns the connections; another
// emits.
func (t *task) Run(parent context.Context, out connectors.Out) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	queue := cdc.NewQueue(t.s.maxQueue, t.s.maxQueueBytes)
	t.metrics.Queue(queue)
	emitted := make(chan error, 1)
	go func() {
		defer cancel()
		emitted <- queue.Emit(ctx, out)
	}()
	err := t.read(ctx, queue)
	cancel()
	refused := <-emitted
	switch {
	case parent.Err() != nil:
		return nil
	case refused != nil && !errors.Is(refused, context.Canceled):
		return refused
	}
	return t.s.retries.Limit(err, t.cc.Restarts)
}

// Commit has nothing to do: a server keeps its log by its own rules.
func (t *task) Commit(context.Context, []connectors.Offset) error { return nil }

// stored is the position to resume at, with the transaction that was open there; false:
// there is none.
func (t *task) stored(ctx context.Context) (position, bool, error) {
	if t.cc.Offsets == nil {
		return position{}, false, nil
	}
	v, err := t.cc.Offsets.Stored(ctx, t.partition)
	if err != nil {
		return position{}, false, fmt.Errorf("read the stored offset: %w", err)
	}
	p, ok, err := parsePosition(v)
	if err != nil {
		return position{}, false, connectors.BadConfig(err)
	}
	return p, ok && !p.snapshot, nil
}

// read is Run's reading half.
func (t *task) read(ctx context.Context, queue *cdc.Queue) error {
	pos, have, err := t.stored(ctx)
	if err != nil {
		return err
	}
	if t.schemas, err = t.newSchemas(ctx); err != nil {
		return err
	}
	if pos, err = t.prepare(ctx, queue, pos, have); err != nil {
		return err
	}
	if !t.s.snapshot.Stream {
		t.lg.Info("the snapshot is complete, and snapshot.mode asks for no changes: the task idles", "mode", t.s.snapshot.Name)
		<-ctx.Done()
		return ctx.Err()
	}
	if !have && !pause(ctx, t.s.streamingDelay) {
		return ctx.Err()
	}
	// A connection that breaks is replaced at once, since most come back at once. What
	// does not is the worker's, who shows the failure and tries again with pauses.
	const quick, lived = 3, 10 * time.Second
	for broken := 0; ; {
		began := time.Now()
		established, err := t.stream(ctx, queue, &pos)
		if f := connectors.FailureOf(err); f != nil && f.Reason == reasonLogLost && t.s.snapshot.Anew && ctx.Err() == nil {
			// MariaDB says it only now.
			t.lg.Warn("the position is lost, and a new snapshot is taken, as snapshot.mode says", "error", err)
			if pos, err = t.anew(ctx, queue); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil || !established || !connectors.IsRetriable(err) {
			return err
		}
		if time.Since(began) > lived {
			broken = 0
		}
		t.seen.disconnects.Add(1)
		if broken++; broken > quick {
			return err
		}
		t.lg.Warn("connection lost, connecting again", "server", t.s.host, "error", err)
		if err := t.schemas.Rewind(ctx, pos.place()); err != nil {
			return err
		}
		if !pause(ctx, time.Duration(broken-1)*200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// prepare looks at the server and, where the task has no position, takes the snapshot.
// It returns where to stream from.
func (t *task) prepare(ctx context.Context, queue *cdc.Queue, pos position, have bool) (position, error) {
	s := t.s
	ss, err := s.open(ctx, t.cc.Files)
	if err != nil {
		return pos, err
	}
	defer ss.close()
	if err := ss.fit(); err != nil {
		return pos, err
	}
	if have {
		lost, err := ss.lost(ctx, &pos)
		if err != nil {
			return pos, err
		}
		switch {
		case lost == nil && s.snapshot.Rebuild:
			t.lg.Info("the definitions of tables are read anew: no table may have changed since the stored position", "file", pos.file, "pos", pos.pos)
			t.scan.Skip()
			return pos, t.recoverSchemas(ctx, ss, pos)
		case lost == nil && !s.snapshot.Every():
			err := t.schemas.Recover(ctx, pos.place())
			if err != nil && ctx.Err() == nil && s.snapshot.RebuildOnError {
				t.lg.Warn("the history of definitions cannot be read and is written anew, as snapshot.mode.configuration.based.snapshot.on.schema.error says", "error", err)
				err = t.recoverSchemas(ctx, ss, pos)
			}
			if err != nil {
				return pos, err
			}
			t.scan.Skip()
			t.lg.Info("streaming resumes", "file", pos.file, "pos", pos.pos, "event", pos.events, "gtids", pos.gtids)
			return pos, nil
		case lost != nil && !s.snapshot.Anew:
			return pos, lost
		case lost != nil:
			t.lg.Warn("the stored position is lost, and a new snapshot is taken, as snapshot.mode says", "error", lost)
		}
	}
	if !pause(ctx, s.snapshotDelay) {
		return pos, ctx.Err()
	}
	return t.snapshot(ctx, queue, ss)
}

// anew takes a snapshot where a position was lost.
func (t *task) anew(ctx context.Context, queue *cdc.Queue) (position, error) {
	ss, err := t.s.open(ctx, t.cc.Files)
	if err != nil {
		return position{}, err
	}
	defer ss.close()
	return t.snapshot(ctx, queue, ss)
}

// place is the position as the history knows it.
func (p position) place() Place {
	return Place{TimeSec: p.sec, File: p.file, Pos: p.pos, Event: p.events, GTIDs: p.gtids, ServerID: p.serverID}
}

// fit reports a server that cannot be captured at all.
func (ss *session) fit() error {
	sv, s := ss.sv, ss.s
	switch {
	case sv.mariadb != s.mariadb:
		is, class := "MySQL", Source.Class
		if sv.mariadb {
			is, class = "MariaDB", "io.debezium.connector.mariadb.MariaDbConnector"
		}
		return connectors.BadConfig(fmt.Errorf("the server %s is %s (%s); set connector.class=%s", s.host, is, sv.version, class))
	case !sv.logBin:
		return connectors.Failed(reasonNoLog, nil, fmt.Sprintf("the server %s writes no binary log", s.host), "")
	case !strings.EqualFold(sv.format, "ROW"):
		return connectors.Failed(reasonNoLog, nil, fmt.Sprintf("binlog_format of the server %s is %q, must be \"ROW\"", s.host, sv.format), "SET GLOBAL binlog_format = 'ROW', and in the server's configuration")
	}
	return nil
}

// lost looks whether the server still has what comes after a position; the error says
// what is missing. It also fits the position's set of transactions to the settings.
func (ss *session) lost(ctx context.Context, pos *position) (lost, err error) {
	s := ss.s
	if ss.sv.gtids && pos.gtids != "" && !s.gtidIgnore {
		set, err := parseGTIDs(pos.gtids, ss.sv.mariadb)
		if err != nil {
			return nil, connectors.BadConfig(fmt.Errorf("the stored offset: %w", err))
		}
		if ss.sv.mariadb {
			return nil, nil // the server says it when it is asked for the log
		}
		rows, err := ss.query(ctx, "SELECT @@global.gtid_executed, @@global.gtid_purged")
		if err != nil {
			return nil, err
		}
		executed, err := parseGTIDs(rows[0][0].text, false)
		if err != nil {
			return nil, err
		}
		purged, err := parseGTIDs(rows[0][1].text, false)
		if err != nil {
			return nil, err
		}
		// Of servers that are left out, all counts as read.
		for src, list := range executed.sources {
			if !s.takesSource(formatUUID(src.uuid)) {
				for _, iv := range list {
					set.add(src, iv)
				}
			}
		}
		pos.gtids = set.String()
		if gone := purged.minus(set); !gone.empty() {
			return connectors.Failed(reasonLogLost, nil, fmt.Sprintf("the server %s has purged transactions that were not read: %s", s.host, gone), ""), nil
		}
		return nil, nil
	}
	rows, err := ss.query(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r[0].text == pos.file {
			if size, err := strconv.ParseInt(r[1].text, 10, 64); err == nil && size < pos.pos {
				return connectors.Failed(reasonLogLost, nil, fmt.Sprintf("the file %s of the server %s ends at %d, before the stored position %d: it is another server's, or it was reset", pos.file, s.host, size, pos.pos), ""), nil
			}
			return nil, nil
		}
	}
	return connectors.Failed(reasonLogLost, nil, fmt.Sprintf("the server %s has no file %s of its binary log any more", s.host, pos.file), ""), nil
}

// takesSource reports whether the transactions of an origin are read: of a server's UUID, or MariaDB's domain-server.
func (s *settings) takesSource(name string) bool {
	return (s.gtidIncludes == nil || s.gtidIncludes.Match(name)) && !s.gtidExcludes.Match(name)
}

// stream reads one connection from pos on, and moves pos with what it queued.
// established says that the server did stream.
func (t *task) stream(ctx context.Context, queue *cdc.Queue, pos *position) (established bool, err error) {
	s := t.s
	var set *gtidSet
	if pos.gtids != "" {
		if set, err = parseGTIDs(pos.gtids, s.mariadb); err != nil {
			return false, connectors.BadConfig(fmt.Errorf("the stored offset: %w", err))
		}
	}
	from := set
	if s.gtidIgnore {
		from = nil
	}
	w, sv, err := s.dump(ctx, t.cc.Files, pos.file, pos.pos, from, false)
	if err != nil {
		return false, err
	}
	defer w.conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	defer stop()
	build := cdc.NewBuilder(s.maxBatch)
	t.seen.gtids.Store(sv.gtids)
	if !sv.gtids {
		set = nil // it would pass over the transactions that have no number, once the server numbers them again
	}
	r := &reader{
		t: t, w: w, sv: sv, queue: queue, build: build, block: newSourceBlock(s), tables: map[uint64]*mapped{}, compiled: map[TableID]*table{},
		resume: *pos, pos: *pos, queued: *pos, set: set, file: pos.file, at: pos.pos, last: time.Now(),
	}
	var tx *cdc.Transactions
	if s.transactions {
		tx = cdc.NewTransactions(s.transactionTopic)
	}
	r.events = t.newEvents(build, tx)
	if s.heartbeat > 0 {
		r.beatAt = time.Now()
	}
	err = r.run(ctx)
	*pos = r.queued // what is in the making is read again
	return r.established, err
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
		ss, err := s.open(ctx, r.t.cc.Files)
		if err == nil {
			err = ss.exec(ctx, s.heartbeatAction)
			ss.close()
		}
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

// pause waits; false: ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
