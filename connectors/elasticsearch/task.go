package elasticsearch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
)

const (
	maxUnderWay = 32 << 20         // bytes of bulks under way; a larger one is under way alone
	flushWait   = time.Second      // how long Flush waits for what is under way, unless flush.synchronously
	maxWait     = 10 * time.Minute // no server's Retry-After is believed beyond
)

// task is a sink task. The goroutine that calls its methods makes the bulks; as many
// senders as max.in.flight.requests send them.
type task struct {
	cc    connectors.Context
	lg    *slog.Logger
	v     config.Values
	set   set
	actor actor
	wait  func(ctx context.Context, d time.Duration) error // tests shorten it

	client  *client // nil while no partition is open
	indices map[string]*index
	cur     *batch             // being made
	keys    map[uint64]bool    // documents in cur, where one may be in it only once
	spare   chan *batch        // emptied ones, for their memory
	work    chan *job          // to the senders; a place for each job under way
	wake    chan struct{}      // a sender has got on
	stop    context.CancelFunc // ends the senders
	senders sync.WaitGroup

	most      atomic.Int64 // bytes, after the server refused a larger bulk with 413; 0 before
	conflicts conflicts
	left      leftOut

	mu       sync.Mutex // guards the following and all partitions
	parts    map[connectors.TopicPartition]*partition
	underWay int            // jobs, parked ones included
	bytes    int            // of theirs
	waiting  int            // records that are taken and not done
	busy     map[uint64]int // documents of theirs
	refusals []refusal      // for the task's goroutine to report
	parked   []*job         // given up for now, and why
	parkedBy error
	failed   error // for ever
}

// A refusal is a record that the server refused.
type refusal struct {
	item  item
	cause error
}

func newTask(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
	if errs := crossRules(v); len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	s := newSet(v)
	return &task{
		cc: cc, lg: cc.Log, v: v, set: s, wait: pause,
		actor: actor{set: s, enc: encoder{compact: s.compact, partial: s.upsert, leave: placeholder.Get(v), stamps: streamTimestamp.Get(v)}},
		parts: map[connectors.TopicPartition]*partition{},
	}, nil
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Open implements connectors.SinkTask. The group's offsets are as good as any.
func (t *task) Open(ctx context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	if t.client == nil {
		cl, err := newClient(t.cc.Files, t.v, connectionURL.Get(t.v))
		if err != nil {
			return nil, err
		}
		t.start(ctx, cl)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tp := range parts {
		t.parts[tp] = &partition{tp: tp}
	}
	return nil, nil
}

// start starts the senders. They outlive Open's ctx and end with Close.
func (t *task) start(ctx context.Context, cl *client) {
	n := t.set.maxInFlight
	t.client, t.indices = cl, map[string]*index{}
	t.cur, t.keys = nil, map[uint64]bool{}
	t.spare, t.work, t.wake = make(chan *batch, n), make(chan *job, n), make(chan struct{}, 1)
	t.underWay, t.bytes, t.waiting = 0, 0, 0
	t.busy, t.refusals, t.parked, t.parkedBy, t.failed = map[uint64]int{}, nil, nil, nil, nil
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	for range n {
		t.senders.Go(func() {
			for j := range t.work {
				t.send(sending, j)
			}
		})
	}
}

// Close implements connectors.SinkTask.
func (t *task) Close(_ context.Context, parts []connectors.TopicPartition, _ bool) error {
	if t.client == nil {
		return nil
	}
	t.mu.Lock()
	for _, tp := range parts {
		if p := t.parts[tp]; p != nil {
			p.gone = true
			delete(t.parts, tp)
		}
	}
	last := len(t.parts) == 0
	t.mu.Unlock()
	if !last {
		return nil
	}
	t.stop()
	close(t.work)
	t.senders.Wait()
	t.client.close()
	t.client = nil
	t.conflicts.flush(t.lg)
	t.left.flush(t.lg)
	return nil
}

// forget takes the records of partitions that are gone out of a batch that is under
// way. The caller holds the mutex.
func (t *task) forget(b *batch) {
	b.keep(func(i int) bool {
		if !b.items[i].part.gone {
			return true
		}
		t.over(&b.items[i])
		return false
	})
}

// over takes a record that was under way out of the account, whether it is stored or
// not. The caller holds the mutex.
func (t *task) over(it *item) {
	t.waiting--
	if it.hash == 0 {
		return
	}
	if n := t.busy[it.hash]; n > 1 {
		t.busy[it.hash] = n - 1
	} else {
		delete(t.busy, it.hash)
	}
}

// done is over for a record that was under way and needs nothing more.
func (t *task) done(it *item) {
	t.over(it)
	if !it.part.gone {
		it.part.finish(it.number)
	}
}

// Put implements connectors.SinkTask.
func (t *task) Put(ctx context.Context, records []schema.Record) error {
	if t.client == nil {
		if len(records) == 0 {
			return nil
		}
		return fmt.Errorf("put %d records: no partition is open", len(records))
	}
	if err := t.settle(ctx); err != nil {
		return &connectors.PutError{Err: err}
	}
	if len(records) == 0 {
		t.release()
	}
	for i := range records {
		if err := t.take(ctx, &records[i]); err != nil {
			return &connectors.PutError{Taken: i, Err: err}
		}
	}
	// What is not full goes when it has waited for long enough and there is a place for it.
	if t.cur != nil && time.Since(t.cur.since) >= t.set.linger-5*time.Millisecond {
		t.dispatch()
	}
	if err := t.settle(ctx); err != nil {
		return &connectors.PutError{Taken: len(records), Err: err}
	}
	t.conflicts.sometimes(t.lg)
	t.left.sometimes(t.lg)
	return nil
}

// take puts a record into the batch that is being made, and sends that when it is full.
func (t *task) take(ctx context.Context, r *schema.Record) error {
	tp := connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}
	t.mu.Lock()
	part := t.parts[tp]
	many := t.waiting >= t.set.maxBuffered
	t.mu.Unlock()
	if part == nil {
		return fmt.Errorf("a record at %s, whose partition is not open", where(r))
	}
	if many || t.full() {
		if err := t.sendCur(ctx); err != nil {
			return err
		}
	}
	if many {
		if err := t.await(ctx, func() bool { return t.waiting < t.set.maxBuffered }); err != nil {
			return err
		}
	}
	ts := t.actor.topic(r.Topic)
	act, err := action{}, ts.err
	if err != nil {
		err = bad(r, err)
	} else {
		act, err = t.actor.action(r, ts)
	}
	if err == nil && act.skip != "" {
		return t.skip(ctx, part, r, act)
	}
	if err != nil {
		return t.invalid(ctx, part, r, err)
	}
	var hash uint64
	if act.id != "" && !ts.keyIgnore {
		hash = hashID(ts.index, act.id)
	}
	if hash != 0 && !act.versioned && t.keys[hash] { // without versions, one change of a document per bulk
		if err := t.sendCur(ctx); err != nil {
			return err
		}
	}
	b := t.batch()
	start := len(b.body)
	b.body, err = t.actor.append(b.body, act, ts.index, r)
	if err != nil {
		b.body = b.body[:start]
		return t.invalid(ctx, part, r, err)
	}
	if err := t.ensure(ctx, ts, r); err != nil {
		b.body = b.body[:start]
		return err
	}
	if len(b.items) > 0 && len(b.body) > t.bulkBytes() { // it is the next batch's first
		lines := append([]byte(nil), b.body[start:]...)
		b.body = b.body[:start]
		if err := t.sendCur(ctx); err != nil {
			return err
		}
		if b = t.batch(); cap(b.body) < len(lines) {
			b.body = lines
		} else {
			b.body = append(b.body, lines...)
		}
		start = 0
	}
	if len(b.items) == 0 {
		b.since = time.Now()
	}
	it := item{part: part, hash: hash, start: start, end: len(b.body), op: act.op, versioned: act.versioned, version: act.version,
		id: act.id, index: ts.index, record: *r}
	t.mu.Lock()
	it.number = part.take(r.Origin.Offset)
	t.waiting++
	t.mu.Unlock()
	b.items = append(b.items, it)
	if hash != 0 && !act.versioned {
		t.keys[hash] = true
	}
	if t.full() {
		t.dispatch() // where there is no place, the next record waits: this one is taken
	}
	return nil
}

// full reports whether the batch that is being made takes no more.
func (t *task) full() bool {
	return t.cur != nil && (len(t.cur.items) >= t.set.batchSize || len(t.cur.body) >= t.bulkBytes())
}

// bulkBytes is how large a bulk may be: what is set, or what the server has shown to
// take.
func (t *task) bulkBytes() int {
	if most := int(t.most.Load()); most > 0 && most < t.set.bulkBytes {
		return most
	}
	return t.set.bulkBytes
}

// batch is the batch that is being made.
func (t *task) batch() *batch {
	if t.cur != nil {
		return t.cur
	}
	select {
	case t.cur = <-t.spare:
	default:
		t.cur = &batch{}
	}
	return t.cur
}

// release lets go of the memory of emptied batches while nothing comes.
func (t *task) release() {
	for {
		select {
		case <-t.spare:
		default:
			return
		}
	}
}

// pass notes a record for which nothing is asked of the server.
func (t *task) pass(part *partition, r *schema.Record) {
	t.mu.Lock()
	part.finish(part.take(r.Origin.Offset))
	t.mu.Unlock()
}

// skip leaves out a record that asks nothing of the server.
func (t *task) skip(ctx context.Context, part *partition, r *schema.Record, act action) error {
	if act.report && t.set.tolerant {
		if err := t.cc.Report(ctx, *r, connectors.Failed(&nullValue, nil, fmt.Sprintf("the record at %s is left out: %s", where(r), act.skip), "")); err != nil {
			return err
		}
	}
	t.left.add(where(r), act.skip)
	t.pass(part, r)
	return nil
}

// invalid leaves out a record that makes no document, as the settings say.
func (t *task) invalid(ctx context.Context, part *partition, r *schema.Record, err error) error {
	if t.set.dropInvalid {
		t.left.add(where(r), err.Error())
		if t.set.tolerant {
			if err := t.cc.Report(ctx, *r, err); err != nil {
				return err
			}
		}
	} else if err := t.cc.Report(ctx, *r, err); err != nil {
		return err
	}
	t.pass(part, r)
	return nil
}

// sendCur hands the batch that is being made to the senders, and waits for a place.
func (t *task) sendCur(ctx context.Context) error {
	for t.cur != nil && len(t.cur.items) > 0 {
		if t.dispatch() {
			return nil
		}
		if err := t.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dispatch hands the batch that is being made to the senders where there is a place
// for it, and reports whether there was. Two batches with the same document are never
// under way at once.
func (t *task) dispatch() bool {
	b := t.cur
	if b == nil || len(b.items) == 0 {
		return true
	}
	t.mu.Lock()
	free := t.reserve(b)
	t.mu.Unlock()
	if !free {
		return false
	}
	t.work <- &job{batches: []*batch{b}, bytes: len(b.body)} // has room for all that may be under way
	t.cur = nil
	clear(t.keys)
	return true
}

// reserve takes a place for a batch, and its documents, if they are free. The caller
// holds the mutex.
func (t *task) reserve(b *batch) bool {
	if t.underWay >= t.set.maxInFlight || t.underWay > 0 && t.bytes+len(b.body) > maxUnderWay || len(t.parked) > 0 || t.failed != nil {
		return false
	}
	for i := range b.items {
		if h := b.items[i].hash; h != 0 && t.busy[h] > 0 {
			return false
		}
	}
	for i := range b.items {
		if h := b.items[i].hash; h != 0 {
			t.busy[h]++
		}
	}
	t.underWay++
	t.bytes += len(b.body)
	return true
}

// next waits until a sender has got on, and settles what it left.
func (t *task) next(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.wake:
		return t.settle(ctx)
	}
}

// await waits until a condition on what the mutex guards holds.
func (t *task) await(ctx context.Context, ok func() bool) error {
	for {
		t.mu.Lock()
		now := ok()
		t.mu.Unlock()
		if now {
			return nil
		}
		if err := t.next(ctx); err != nil {
			return err
		}
	}
}

// settle does what the senders leave to the task's goroutine: it reports refused
// records, returns what failed, and sends what was given up again.
func (t *task) settle(ctx context.Context) error {
	for {
		t.mu.Lock()
		refusals := t.refusals
		t.refusals = nil
		t.mu.Unlock()
		if len(refusals) == 0 {
			break
		}
		for i := range refusals {
			rf := &refusals[i]
			if err := t.refuse(ctx, rf); err != nil {
				t.mu.Lock()
				t.refusals = append(refusals[i:], t.refusals...)
				t.mu.Unlock()
				return err
			}
			t.mu.Lock()
			t.done(&rf.item)
			t.mu.Unlock()
		}
	}
	t.mu.Lock()
	err, again := t.failed, []*job(nil)
	if err == nil && t.parkedBy != nil { // said once; whoever goes on wants it tried again
		err, t.parkedBy = t.parkedBy, nil
	} else if err == nil {
		again, t.parked = t.parked, nil
	}
	t.mu.Unlock()
	for _, j := range again {
		t.work <- j // each still has its place
	}
	return err
}

// refuse treats a record that the server refused, as the settings say.
func (t *task) refuse(ctx context.Context, rf *refusal) error {
	switch t.set.onMalformed {
	case warn:
		t.lg.Warn("the server refused a document, which is left out", "record", where(&rf.item.record), "cause", rf.cause)
	case ignore:
		t.left.add(where(&rf.item.record), rf.cause.Error())
	default:
		return t.cc.Report(ctx, rf.item.record, rf.cause)
	}
	if t.set.tolerant {
		return t.cc.Report(ctx, rf.item.record, rf.cause)
	}
	return nil
}

// Flush implements connectors.SinkTask.
func (t *task) Flush(ctx context.Context) (map[connectors.TopicPartition]int64, error) {
	if t.client == nil {
		return nil, nil
	}
	limit := flushWait
	if t.set.flushSync {
		limit = t.set.flushTimeout
	}
	waiting, cancel := context.WithTimeoutCause(ctx, limit, errFlushTime)
	defer cancel()
	err := t.settle(ctx)
	if err == nil {
		err = t.sendCur(waiting)
	}
	if err == nil {
		err = t.await(waiting, func() bool { return t.underWay == 0 && len(t.refusals) == 0 })
	}
	switch {
	case err == nil:
	case ctx.Err() == nil && context.Cause(waiting) == errFlushTime && errors.Is(err, context.DeadlineExceeded):
		if t.set.flushSync {
			return nil, connectors.Failed(&unavailable, nil, fmt.Sprintf("not everything is stored after flush.timeout.ms (%v)", limit), "")
		}
	default:
		return nil, err
	}
	t.conflicts.sometimes(t.lg)
	t.left.sometimes(t.lg)
	out := map[connectors.TopicPartition]int64{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for tp, p := range t.parts {
		if p.moved {
			out[tp], p.moved = p.next, false
		}
	}
	return out, nil
}

var errFlushTime = errors.New("flush took too long")
