package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

const (
	// rowOverhead is what an event holds beside its row's bytes, about.
	rowOverhead = 512
	// linger bounds how long a batch waits for company while much comes.
	linger = 2 * time.Millisecond
	// offsetPause bounds how often an offset moves without records.
	offsetPause = time.Second
	// stalled is how long a full queue may hold the connection.
	stalled = 30 * time.Second
)

// A mapped is a table as the log's last map of its number describes it.
type mapped struct {
	m        *tableMap
	captured bool
	def      *Table // the definition that rows was made for
	rows     *logRow
}

// A reader decodes the binary log of one connection. It is used by the goroutine that
// owns the connection, which never emits: batches go into the queue.
type reader struct {
	t      *task
	w      *wire
	sv     server
	queue  *cdc.Queue
	events cdc.Events
	build  *cdc.Builder
	block  *sourceBlock
	clock  cdc.Clock
	zstd   *zstd.Decoder

	tables   map[uint64]*mapped
	compiled map[TableID]*table

	resume position // where the stream was to begin; its transaction's part is done once that has ended
	pos    position // behind the last event or row taken; without gtids, which set has
	queued position // behind the last batch in the queue
	set    *gtidSet // executed; nil: without GTIDs, or it is not known
	before *gtidSet // what was executed before the file began, until set is made of it

	established bool
	checksums   bool
	file        string
	at          int64 // the end of the last event in file

	inTx     bool
	skipping bool // this transaction's front is done
	sameLog  bool // it stands where the stored position says
	gtid     gtidEvent
	gtidText string // of the open transaction; "" without
	micros   int64  // of the transaction's commit; 0: not said
	dropped  bool   // its server is one of those that are left out

	undo      undo
	open      *openXA      // a distributed transaction is being prepared: its rows are left alone
	replaying bool         // one's rows are read again
	query     schema.Value // the statement behind the rows to come
	txID      schema.Value // the open transaction's, where transactions are numbered

	passedOver schema.Arena // takes the rows of one event that are read and not sent, since they were before

	flushAt time.Time // the batch in the making goes, at the latest; zero: it is empty
	movedAt time.Time // when an offset last went into the queue
	beatAt  time.Time // the next heartbeat is due; zero: none
	last    time.Time // when the server was last heard
}

// run reads until the connection or ctx ends.
func (r *reader) run(ctx context.Context) error {
	r.t.metrics.Connected(true)
	defer func() {
		r.t.metrics.Connected(false)
		r.t.seen.streaming.Store(false)
		if r.zstd != nil {
			r.zstd.Close()
		}
	}()
	for {
		now := time.Now()
		if err := r.chores(ctx, now); err != nil {
			return err
		}
		deadline := now.Add(time.Second)
		if s := r.t.s.silence; s > 0 && r.t.s.keepAlive {
			if now.Sub(r.last) > s {
				return connectors.Failed(reasonUnreachable, nil, fmt.Sprintf("the server %s has sent nothing for %s, not even a sign of life", r.t.s.host, s), "")
			}
			if at := r.last.Add(s); at.Before(deadline) {
				deadline = at
			}
		}
		if !r.w.buffered() {
			if r.build.Len() > 0 && !r.holds() && r.queue.Hungry() {
				if err := r.flush(ctx); err != nil {
					return err
				}
			}
			for _, at := range []time.Time{r.goesAt(), r.beatAt, r.moveAt()} {
				if !at.IsZero() && at.Before(deadline) {
					deadline = at
				}
			}
			r.clock.Reset()
		}
		if err := r.drain(ctx, deadline); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
}

// drain reads events until none is at hand any more, or some hundred were.
func (r *reader) drain(ctx context.Context, deadline time.Time) error {
	n, received := uint64(0), r.w.received
	defer func() { r.show(n) }()
	for range 256 {
		p, owned, err := r.w.packet(deadline)
		if err == errIdle {
			if r.w.received != received { // a part of a large one
				r.last = time.Now()
			}
			return nil
		}
		if err != nil {
			return r.t.s.classify(err, "read the binary log")
		}
		n++
		if err := r.packet(ctx, p, owned); err != nil {
			return err
		}
		if !r.w.buffered() {
			break
		}
	}
	r.last = time.Now()
	return nil
}

// packet takes one packet of the dump.
func (r *reader) packet(ctx context.Context, p []byte, owned bool) error {
	h, body, start, err := r.open1(p)
	if err != nil {
		return err
	}
	r.established = true
	return r.event(ctx, h, body, start, owned)
}

// open1 takes a packet with an event apart, checks its sum and follows the position.
func (r *reader) open1(p []byte) (h header, body []byte, start int64, err error) {
	if len(p) == 0 {
		return h, nil, 0, errShort
	}
	switch p[0] {
	case 0:
	case 0xff:
		return h, nil, 0, r.t.s.classify(serverError(p), "read the binary log")
	case 0xfe:
		return h, nil, 0, r.t.s.classify(io.EOF, "the server ended the stream of its binary log")
	default:
		return h, nil, 0, fmt.Errorf("the server sent a packet of the unknown kind %d within its binary log", p[0])
	}
	event := p[1:]
	if h, _, err = parseHeader(event); err != nil {
		return h, nil, 0, r.broken(err)
	}
	if int(h.size) != len(event) {
		return h, nil, 0, r.broken(fmt.Errorf("an event of %d bytes says that it has %d", len(event), h.size))
	}
	switch {
	case h.kind == evFormat: // its own last bytes say whether it, and what follows, has a sum
		if len(event) > headerSize+checksumSize+1 {
			r.checksums = event[len(event)-checksumSize-1] == 1
		}
		if r.checksums {
			var ok bool
			if event, ok = checksum(event); !ok {
				return h, nil, 0, r.broken(errors.New("an event's checksum is wrong"))
			}
		}
	case h.kind == evRotate && h.flags&flagArtificial != 0:
		// One that the server makes up has a sum or not, whatever its file has.
		if without, ok := checksum(event); ok {
			event = without
		}
	case r.checksums:
		var ok bool
		if event, ok = checksum(event); !ok {
			return h, nil, 0, r.broken(errors.New("an event's checksum is wrong"))
		}
	}
	return h, event[headerSize:], r.locate(h), nil
}

// broken is an error about the log itself.
func (r *reader) broken(err error) error {
	if connectors.FailureOf(err) != nil {
		return err
	}
	return connectors.Failed(reasonLog, err, "the binary log at "+placeText(r.file, r.at), "")
}

func placeText(file string, pos int64) string { return file + ":" + strconv.FormatInt(pos, 10) }

// locate follows the position in the file and returns where the event begins. The header
// has 32 bits of where it ends: beyond 4 GiB the rest is known from the event before it.
func (r *reader) locate(h header) int64 {
	if h.flags&flagArtificial != 0 || h.kind == evHeartbeat || h.kind == evHeartbeat2 || h.kind == evFormat && h.end == 0 {
		return r.at
	}
	r.at = endOf(r.at, h)
	return r.at - int64(h.size)
}

func endOf(at int64, h header) int64 {
	if h.end == 0 { // MariaDB leaves it out within transactions
		return at + int64(h.size)
	}
	const wrap = 1 << 32
	end := at&^(wrap-1) | int64(h.end)
	if end < at-wrap/2 {
		end += wrap
	}
	return end
}

// chores does what is due by the clock.
func (r *reader) chores(ctx context.Context, now time.Time) error {
	if !r.beatAt.IsZero() && !now.Before(r.beatAt) {
		if err := r.beat(ctx, now); err != nil {
			return err
		}
	}
	for _, at := range []time.Time{r.goesAt(), r.moveAt()} {
		if !at.IsZero() && !now.Before(at) {
			return r.flush(ctx)
		}
	}
	return nil
}

// goesAt is when the batch in the making must go; zero: it is empty, or held back.
func (r *reader) goesAt() time.Time {
	if r.holds() {
		return time.Time{}
	}
	return r.flushAt
}

// moveAt is when the position must go on its way without records; zero: it has not
// moved.
func (r *reader) moveAt() time.Time {
	if r.build.Len() > 0 || r.inTx || r.pos.file == r.queued.file && r.pos.pos == r.queued.pos && r.pos.events == r.queued.events {
		return time.Time{}
	}
	return r.movedAt.Add(offsetPause)
}

// room sees to it that a change of so many bytes fits into the batch.
func (r *reader) room(ctx context.Context, size int) error {
	if r.build.Full(size + rowOverhead) {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.lingers()
	return nil
}

// lingers says when the batch, which is not empty any more, goes at the latest.
func (r *reader) lingers() {
	if r.flushAt.IsZero() {
		r.flushAt = time.Now().Add(linger)
	}
}

// flush puts the batch in the making and the position into the queue, or holds them back.
func (r *reader) flush(ctx context.Context) error {
	records, size := r.build.Take()
	r.pos.gtids = r.set.String()
	r.pos.tx = r.events.Tx.State()
	r.flushAt = time.Time{}
	h := heldBatch{records, size, r.pos}
	if r.holds() {
		return r.hold(ctx, h)
	}
	return r.put(ctx, h)
}

// put puts a batch and the position behind it into the queue. A queue that is full for
// long costs the connection, since the server must not wait for ever: it is made anew
// behind what is queued.
func (r *reader) put(ctx context.Context, h heldBatch) error {
	records := h.records
	b := connectors.Batch{
		Records: records,
		Offsets: []connectors.Offset{{Partition: r.t.partition, Position: h.pos.value()}},
	}
	if len(records) > 0 {
		b.Describe = func(i int) string { return describe(records, i) }
	}
	r.queued, r.movedAt = h.pos, time.Now()
	return r.queue.Put(ctx, b, h.size, stalled, func() error {
		_ = r.w.conn.Close()
		return nil
	})
}

// describe names a record's place in the log.
func describe(records []schema.Record, i int) string {
	for ; i >= 0; i-- { // a tombstone has its delete's place
		if src := records[i].Value.Get("source"); src.Kind() == schema.Struct {
			return placeText(src.Get("file").Str(), src.Get("pos").Int()) + ", row " + strconv.FormatInt(src.Get("row").Int(), 10) +
				" (" + src.Get("db").Str() + "." + src.Get("table").Str() + ")"
		}
	}
	return "an unknown place"
}

// event takes one event, which began at start. body is without header and checksum; it
// may be kept where owned.
func (r *reader) event(ctx context.Context, h header, body []byte, start int64, owned bool) error {
	var err error
	switch h.kind {
	case evWriteRows, evUpdateRows, evDeleteRows, evWriteRows1, evUpdateRows1, evDeleteRows1, evPartialUpdateRows,
		evMariaWritePacked1, evMariaUpdatePacked1, evMariaDelPacked1, evMariaWritePacked, evMariaUpdatePacked, evMariaDeletePacked:
		err = r.rows(ctx, h, body, start, owned)
	case evTableMap:
		err = r.tableMap(body)
	case evQuery:
		err = r.statement(ctx, h, body, start)
	case evMariaQueryPacked:
		err = r.packedStatement(ctx, h, body, start)
	case evXID:
		return r.commit(ctx, h)
	case evGTID, evTaggedGTID:
		parse := parseGTID
		if h.kind == evTaggedGTID {
			parse = parseTaggedGTID
		}
		if r.gtid, err = parse(body); err == nil {
			r.announced()
			r.gtidText = r.gtid.source.String() + ":" + strconv.FormatInt(r.gtid.number, 10)
			r.dropped = r.t.s.gtidFilterRows && !r.t.s.takesSource(formatUUID(r.gtid.source.uuid))
		}
	case evAnonymousGTID:
		if r.gtid, err = parseGTID(body); err == nil {
			r.announced()
			r.gtidText, r.gtid.number = "", 0
			r.set, r.before = nil, nil // which would pass over it
		}
	case evMariaGTID:
		var xid string
		if r.gtid, xid, err = parseMariaGTIDEvent(body, h.server); err == nil {
			r.announced()
			r.gtidText = r.gtid.maria.String()
			r.dropped = r.t.s.gtidFilterRows && !r.t.s.takesSource(r.gtid.maria.origin())
			r.micros = int64(h.sec) * microsPerSec
			if r.gtid.flags&mariaStandalone == 0 {
				err = r.begin(ctx, h, start, 0, r.gtid.flags&mariaPreparedXA == 0)
				if r.gtid.flags&mariaPreparedXA != 0 {
					r.opensXA(xid, start)
				}
			}
		}
	case evRotate:
		c := cursor{b: body}
		at := c.u64()
		if c.bad {
			return r.broken(errShort)
		}
		r.file, r.at = string(c.b), int64(at)
		if h.flags&flagArtificial == 0 && !r.inTx {
			r.pos.file, r.pos.pos, r.pos.events, r.pos.rows = r.file, r.at, 0, 0
		}
		return nil
	case evPayload:
		return r.payload(ctx, h, body, start)
	case evRowsQuery, evMariaAnnotateRows:
		if r.t.s.query {
			c := cursor{b: body}
			if h.kind == evRowsQuery {
				c.u8() // a length that is cut to one byte
			}
			r.query = r.build.Arena.String(c.b)
		}
	case evXAPrepare:
		onePhase, err := prepareEvent(body)
		if err != nil {
			return r.failed(err, start)
		}
		return r.prepared(ctx, h, onePhase)
	case evIncident:
		return connectors.Failed(reasonLog, nil, "the server says at "+placeText(r.file, start)+" that changes are missing in its log", "delete the connector's offsets for a new snapshot")
	case evExecuteLoadQuery:
		var q queryEvent
		if q, err = parseLoadQuery(body); err == nil {
			err = r.query1(ctx, h, &q, start)
		}
	case evPreviousGTIDs:
		if r.set == nil && r.sv.gtids {
			r.before, err = decodeGTIDs(body)
		}
	case evFormat, evStop, evHeartbeat, evHeartbeat2, evMariaGTIDList, evMariaCheckpoint, evTransactionContext, evViewChange,
		evIgnorable, evIntVar, evRand, evUserVar, evBeginLoad, evAppendBlock, evDeleteFile:
	case evMariaStartEncryption:
		// The dump thread decrypts; the event itself says nothing to a reader.
	default:
		if h.flags&flagIgnorable == 0 {
			err = fmt.Errorf("an event of the unknown kind %d", h.kind)
		}
	}
	if err != nil {
		return r.failed(err, start)
	}
	if r.inTx && !r.replaying && h.flags&flagArtificial == 0 && h.kind != evHeartbeat && h.kind != evHeartbeat2 {
		r.pos.events++
		r.pos.rows = 0
	}
	return nil
}

// failed gives an error of an event its place.
func (r *reader) failed(err error, start int64) error {
	if err == errShort || errors.Is(err, errPayload) {
		return r.broken(fmt.Errorf("the event at %d: %w", start, err))
	}
	return err
}

// announced takes the event that numbers the transaction behind it.
func (r *reader) announced() {
	r.micros, r.dropped = r.gtid.micros, false
}

// resumesHere reports whether the transaction that begins is the one of the stored
// position.
func (r *reader) resumesHere() bool { return r.resume.gtid == "" || r.resume.gtid == r.gtidText }

// begin takes the beginning of a transaction. tell: its metadata tells of it.
func (r *reader) begin(ctx context.Context, h header, start int64, thread uint32, tell bool) error {
	if err := r.abandon(ctx); err != nil {
		return err
	}
	if err := r.room(ctx, 0); err != nil { // before the position moves on
		return err
	}
	r.inTx = true
	r.sameLog = r.file == r.resume.file && start == r.resume.pos
	r.skipping = r.resume.events > 0 && r.resumesHere()
	if r.skipping && !r.sameLog && r.resume.rowsDone < 0 {
		r.t.lg.Warn("a transaction is resumed in another server's log, and the stored offset does not count its rows: those that were sent come again", "at", placeText(r.file, start), "gtid", r.gtidText)
	}
	r.pos.file, r.pos.pos, r.pos.events, r.pos.rows, r.pos.rowsDone = r.file, start, 0, 0, r.passed()
	r.pos.completed = false
	r.pos.gtid = r.gtidText
	r.pos.serverID = h.server
	r.undo = undo{}
	r.mark("")
	r.query = schema.Value{}
	r.moment(h)
	r.block.fields[srcThread] = schema.Value{}
	if thread != 0 {
		r.block.fields[srcThread] = schema.Int64Value(int64(thread))
	}
	if tell {
		return r.tell()
	}
	return nil
}

// passed is how many rows of the transaction that begins stand in events that are passed over as a whole, uncounted, since it resumes in the
// log in which it was left.
func (r *reader) passed() int64 {
	switch {
	case !r.skipping || !r.sameLog:
		return 0
	case r.resume.rowsDone < 0:
		return -1
	}
	return max(0, r.resume.rowsDone-r.resume.rows)
}

// tell begins the metadata of the open transaction. There is room for it.
func (r *reader) tell() error {
	if !r.t.s.transactions {
		return nil
	}
	id := r.gtidText
	if id == "" {
		id = fmt.Sprintf("file=%s,pos=%d", r.file, r.pos.pos)
	}
	r.txID = schema.StringValue(id)
	if r.skipping && r.resume.tx.ID != "" {
		r.events.Tx.Resume(r.resume.tx) // its beginning was told
	} else {
		r.events.Tx.Begin(r.build, id, r.millis())
		r.build.Grow(rowOverhead)
	}
	return nil
}

// millis is the time of the open transaction.
func (r *reader) millis() int64 { return r.block.fields[envelope.SourceMillis].Int() }

// moment sets what the source blocks of a transaction share.
func (r *reader) moment(h header) {
	micros := r.micros
	if micros == 0 {
		micros = int64(h.sec) * microsPerSec
	}
	r.pos.sec = micros / microsPerSec
	r.block.time(envelope.MomentOfMicros(micros))
	r.block.fields[srcServerID] = schema.Int64Value(int64(h.server))
	r.block.fields[srcFile] = schema.StringValue(r.file)
	r.block.fields[srcGTID] = schema.Value{}
	if r.gtidText != "" {
		r.block.fields[srcGTID] = schema.StringValue(r.gtidText)
	}
}

// commit takes the end of a transaction: the position stands behind it.
func (r *reader) commit(ctx context.Context, h header) error {
	if r.inTx && r.events.Tx.Open() {
		if err := r.room(ctx, 0); err != nil {
			return err
		}
		r.events.Tx.End(r.build, r.txID.Str(), r.millis())
		r.build.Grow(rowOverhead)
	}
	if r.inTx {
		r.events.Seen.Commits++
	}
	r.executed()
	r.txID = schema.Value{}
	r.inTx = false
	if r.skipping {
		r.skipping = false
		r.resume = position{}
	}
	r.pos.file, r.pos.pos, r.pos.events, r.pos.rows, r.pos.rowsDone, r.pos.gtid = r.file, r.at, 0, 0, 0, ""
	r.pos.completed = false
	r.pos.serverID = h.server
	if r.micros == 0 {
		r.pos.sec = int64(h.sec)
	}
	r.gtidText, r.micros = "", 0
	err := r.release(ctx)
	r.undo = undo{}
	return err
}

// executed puts the transaction that just ended into the set.
func (r *reader) executed() {
	switch {
	case r.gtidText == "":
	case r.sv.mariadb:
		if r.set == nil {
			r.set = &gtidSet{mariadb: true}
		}
		r.set.advance(r.gtid.maria)
	default:
		if r.set == nil {
			r.set, r.before = r.before, nil
		}
		if r.set != nil { // else what was executed before this one is not known until a file begins
			r.set.add(r.gtid.source, interval{r.gtid.number, r.gtid.number + 1})
		}
	}
}

// payload takes a compressed transaction: the events in it have no place of their own.
func (r *reader) payload(ctx context.Context, h header, body []byte, start int64) error {
	return r.unpack(h, body, start, func(in header, body []byte) error { return r.event(ctx, in, body, start, true) })
}

// unpack calls each for the events in a compressed transaction.
func (r *reader) unpack(h header, body []byte, start int64, each func(h header, body []byte) error) error {
	p, err := parsePayload(body)
	if err != nil {
		return r.failed(err, start)
	}
	data := p.data
	if p.compressed {
		if p.size > maxPayload {
			return r.failed(fmt.Errorf("%w: of %d bytes", errPayload, p.size), start)
		}
		if r.zstd == nil {
			r.zstd = newZstd()
		}
		if data, err = r.zstd.DecodeAll(p.data, nil); err != nil {
			return r.failed(fmt.Errorf("%w: %w", errPayload, err), start)
		}
	} else {
		data = bytes.Clone(data)
	}
	for len(data) > 0 {
		in, rest, err := parseHeader(data)
		if err != nil || int64(in.size) > int64(len(data)) {
			return r.failed(errPayload, start)
		}
		if in.kind == evPayload {
			return r.failed(fmt.Errorf("%w: one within another", errPayload), start)
		}
		size := int(in.size) - headerSize
		in.flags &^= flagArtificial
		in.server = h.server
		if err := each(in, rest[:size:size]); err != nil {
			return err
		}
		data = data[in.size:]
	}
	return nil
}

// packedStatement takes MariaDB's compressed statement.
func (r *reader) packedStatement(ctx context.Context, h header, body []byte, start int64) error {
	q, err := parseQuery(body)
	if err != nil {
		return err
	}
	if q.sql, err = unpackMaria(q.sql); err != nil {
		return err
	}
	return r.query1(ctx, h, &q, start)
}

// statement takes a query event: the borders of transactions, and DDL.
func (r *reader) statement(ctx context.Context, h header, body []byte, start int64) error {
	q, err := parseQuery(body)
	if err != nil {
		return err
	}
	return r.query1(ctx, h, &q, start)
}

func (r *reader) query1(ctx context.Context, h header, q *queryEvent, start int64) error {
	switch {
	case bytes.EqualFold(q.sql, []byte("BEGIN")):
		return r.begin(ctx, h, start, q.thread, true)
	case bytes.EqualFold(q.sql, []byte("COMMIT")):
		return r.commit(ctx, h)
	case bytes.EqualFold(q.sql, []byte("ROLLBACK")):
		r.rolledBack(start)
		return r.commit(ctx, h)
	}
	if verb, id, ok := xaStatement(q.sql); ok {
		return r.xa(ctx, h, verb, id, start, q.thread)
	}
	if verb, name, ok := savepointOf(q.sql); ok {
		return r.savepoint(ctx, verb, name)
	}
	return r.ddl(ctx, h, q, start)
}

// ddl follows a statement that may change tables.
func (r *reader) ddl(ctx context.Context, h header, q *queryEvent, start int64) error {
	if r.inTx && r.done() {
		return nil // it was followed before
	}
	st := Statement{Database: string(q.db), SQL: string(q.sql), ErrorCode: q.errCode, At: time.Now()}
	q.session(&st)
	thread := r.block.fields[srcThread]
	if !r.inTx {
		r.pos.gtids, r.pos.completed = r.set.String(), false
		r.moment(h)
		r.block.fields[srcThread] = schema.Value{}
		st.Place = Place{TimeSec: r.pos.sec, File: r.file, Pos: r.at, GTIDs: r.set.String(), ServerID: h.server}
	} else {
		st.Place = Place{TimeSec: r.pos.sec, File: r.pos.file, Pos: r.pos.pos, Event: r.pos.events, GTIDs: r.set.String(), ServerID: h.server}
	}
	r.block.fields[srcQuery] = schema.Value{}
	source := func(db, table string) schema.Value {
		name := schema.Value{}
		if table != "" {
			name = schema.StringValue(table)
		}
		return r.block.at(&r.build.Arena, schema.StringValue(db), name, start, 0)
	}
	applied, err := r.t.schemas.Apply(ctx, st, source)
	if err != nil {
		return err
	}
	if applied.RowsOf != (TableID{}) && !r.dropped {
		if err := r.unseen(applied.RowsOf, start); err != nil {
			return err
		}
	}
	if applied.MovesRows != "" {
		r.t.lg.Warn("a statement changed rows of captured tables without events in the log", "clause", applied.MovesRows, "statement", clip(st.SQL), "at", placeText(r.file, start))
	}
	for _, rec := range applied.Records {
		if err := r.room(ctx, len(st.SQL)); err != nil {
			return err
		}
		r.build.Add(rec)
		r.build.Grow(len(st.SQL) + rowOverhead)
	}
	for _, ch := range applied.Changes {
		if !strings.EqualFold(ch.Kind, "TRUNCATE") || !r.t.s.captures(ch.ID) || ch.Table == nil {
			continue
		}
		tab, err := r.table(ctx, ch.Table)
		if err != nil {
			return err
		}
		if err := r.room(ctx, 0); err != nil {
			return err
		}
		r.events.Truncate(&cdc.Change{Table: &tab.Table, Source: source(ch.ID.Database, ch.ID.Name), At: r.clock.Moment()})
		r.build.Grow(rowOverhead)
	}
	if !r.inTx {
		return r.commit(ctx, h)
	}
	r.block.fields[srcThread] = thread
	return nil
}

// unseen decides about a statement that changed rows of a captured table and stands in the log without them. Its text is not shown: it
// holds data.
func (r *reader) unseen(id TableID, start int64) error {
	what := fmt.Sprintf("a statement at %s changes rows of the table %s, and the log has its text in place of its rows", placeText(r.file, start), id)
	switch r.t.s.failure {
	case "warn":
		r.t.lg.Warn("changes left out: " + what)
	case "skip", "ignore":
		r.t.lg.Debug("changes left out: " + what)
	default:
		return connectors.Failed(reasonNoLog, nil, what+": its session had set binlog_format to STATEMENT or MIXED",
			"let no session set binlog_format, and delete the connector's offsets for a new snapshot; or go on without such changes with event.processing.failure.handling.mode=warn")
	}
	r.events.Seen.Erroneous++
	return nil
}

// done reports whether the event at hand, as a whole, is in the log already.
func (r *reader) done() bool {
	return r.skipping && r.sameLog && !r.replaying && r.pos.events < r.resume.events
}
