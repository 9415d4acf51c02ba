package txn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// Topic is the name of the topic that the state of transactional ids is kept in. It has one partition.
const Topic = "__transaction_state"

// ErrClosed is the error of calls that Close cut short.
var ErrClosed = errors.New("transaction coordinator: closed")

// Log is the partition that the coordinator keeps its state in; *store.Partition is one.
type Log interface {
	Append(batches []batch.View, o store.AppendOpts) (store.Appended, error)
	AfterDurable(end int64, done func(error))
	WaitDurable(ctx context.Context, end int64) error
	HighWatermark() int64
	LeaderEpoch() int32
	Replay(from int64, f func(batch.View) error) error
	LogStart() int64
}

// Data are the partitions of all topics.
type Data interface {
	// Partition returns a partition, nil if there is none.
	Partition(topic string, n int32) *store.Partition
	// All are all partitions.
	All() iter.Seq2[Partition, *store.Partition]
}

// Offsets is who keeps the offsets that transactions commit: the coordinator of groups.
type Offsets interface {
	// OffsetsTopic is the topic that they are kept in, in its partition 0.
	OffsetsTopic() string
	// EndTxn writes a marker; then the offsets that its producer committed in the transaction count, or are forgotten.
	EndTxn(marker batch.View) (store.Appended, error)
}

// Limits bound what clients may ask for. The zero value of a field means its default.
type Limits struct {
	MaxTimeout   time.Duration // transaction.max.timeout.ms, 15 min
	ScanEvery    time.Duration // transaction.abort.timed.out.transaction.cleanup.interval.ms; Kafka's is 10 s, ours 1 s
	IDExpiration time.Duration // transactional.id.expiration.ms, 7 days
	MaxIDs       int           // transactional ids at a time, 100,000
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&l.MaxTimeout, 15*time.Minute)
	set(&l.ScanEvery, time.Second)
	set(&l.IDExpiration, 7*24*time.Hour)
	if l.MaxIDs == 0 {
		l.MaxIDs = 100_000
	}
	return l
}

// Options of a coordinator.
type Options struct {
	Limits Limits
	Logger *slog.Logger // default: discards
}

// Coordinator holds all transactional ids. Its methods may be called concurrently.
//
// The methods of requests take a function done, call it exactly once, and do not wait: it may run before the method returns, or later
// on another goroutine, and must not block. Its error is not nil when there can be no true answer (the log went offline, the
// coordinator was closed); then the connection is to be closed without one.
type Coordinator struct {
	lg      *slog.Logger
	log     Log
	data    Data
	offsets Offsets
	ids     func() (int64, error)
	limits  Limits

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ghosts []ghost // found open at the start and not ended yet; the scan's

	mu      sync.Mutex // guards the fields below
	slots   map[string]*slot
	closed  bool
	running sync.WaitGroup
}

// slot is one transactional id with its mutex.
type slot struct {
	// mu guards the fields below. It is held over writes to partitions and never over a sync. The order of locks: this one, those of
	// groups, those of partitions.
	mu     sync.Mutex
	t      txn
	gone   bool        // forgotten: look it up again
	end    int64       // log end after its last record: what answers wait for
	begun  int64       // log end after the record of a transaction that has the epoch of the one before: it is not written in before that is durable
	ending *ending     // of whoever makes the decision durable and writes the markers; nil when nobody does
	left   []Partition // of a decided transaction, where a first try could not write the marker; nil: not tried yet
}

// ending is what others wait for while one carries out a decision. The error, which settle returned, may be read when it is through.
type ending struct {
	through chan struct{} // closed then
	err     error
}

// Open reads the transactional ids from the log, ends what was decided, and aborts what belonged to a process that is gone. It must
// run after topics and groups are known and before requests are served. ids gives producer ids that were never given before.
func Open(log Log, data Data, offsets Offsets, ids func() (int64, error), o Options) (*Coordinator, error) {
	c := &Coordinator{lg: o.Logger, log: log, data: data, offsets: offsets, ids: ids, limits: o.Limits.withDefaults(), slots: map[string]*slot{}}
	if c.lg == nil {
		c.lg = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.load(); err != nil {
		c.cancel()
		return nil, err
	}
	c.running.Go(c.scanLoop)
	return c, nil
}

// Close ends what runs in the background. Nothing is written: transactions that are open stay open.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// background runs f on a goroutine that Close waits for.
func (c *Coordinator) background(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.running.Go(f)
	return nil
}

func (c *Coordinator) nowMs() int64 { return time.Now().UnixMilli() }

// find returns the slot of an id, nil if it is not known.
func (c *Coordinator) find(id string) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots[id]
}

func (c *Coordinator) findOrMake(id string) (*slot, int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[id]
	if s == nil {
		if len(c.slots) >= c.limits.MaxIDs {
			c.lg.Warn("transactional id refused: there are too many", "limit", c.limits.MaxIDs)
			return nil, kerr.PolicyViolation.Code
		}
		s = &slot{t: txn{id: id, state: empty, pid: -1, prevPID: -1, nextPID: -1, epoch: -1, lastEpoch: -1, start: -1, updated: c.nowMs()}}
		c.slots[id] = s
	}
	return s, 0
}

// all lists the slots there are.
func (c *Coordinator) all() []*slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*slot, 0, len(c.slots))
	for _, s := range c.slots {
		out = append(out, s)
	}
	return out
}

// lock returns the slot of a transactional id, locked; nil when the id is not known.
func (c *Coordinator) lock(id string) *slot {
	for {
		s := c.find(id)
		if s == nil {
			return nil
		}
		s.mu.Lock()
		if !s.gone {
			return s
		}
		s.mu.Unlock()
	}
}

// write makes next the state of a slot, whose mutex is held. When the log refuses the record nothing has changed. Of a record that a
// start can do without (lazy) the sync is left to the next decision.
func (c *Coordinator) write(s *slot, next txn, lazy bool) error {
	r := batch.Record{Timestamp: next.updated, Key: stateKey(next.id), Value: stateValue(&next)}
	a, err := c.log.Append([]batch.View{batch.Build(batch.Options{}, r)}, store.AppendOpts{Origin: store.FromCoordinator, Lazy: lazy})
	if err != nil {
		c.lg.Warn("transaction could not be recorded", "transactionalId", next.id, "state", next.state.String(), "error", err)
		return fmt.Errorf("record transaction of %q: %w", next.id, err)
	}
	s.t, s.end = next, a.End
	if !next.preparing() {
		s.left = nil
	}
	return nil
}

// extend begins a transaction with partitions, or adds them to it.
func (c *Coordinator) extend(s *slot, parts []Partition) error {
	apart := s.t.apart()
	if err := c.write(s, s.t.add(parts, c.nowMs()), apart); err != nil {
		return err
	}
	if !apart {
		s.begun = s.end
	}
	return nil
}

// completed notes that all markers of a decided transaction are durable. The record may be lost, and there may be no room for it: a
// start that finds the decision finds the markers as well.
func (c *Coordinator) completed(s *slot) error {
	next := s.t.complete(c.nowMs())
	if err := unknown(c.write(s, next, true)); err != nil {
		return err
	}
	s.t, s.left = next, nil
	return nil
}

// codeOf answers a write to the state's log that was refused. Nothing was changed, and trying again may help.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	return kerr.CoordinatorNotAvailable.Code
}

// unknown is the error of a write whose outcome is not known; nil for a plain refusal.
func unknown(err error) error {
	if _, ok := batch.CodeOf(err); ok {
		return nil
	}
	return err
}
