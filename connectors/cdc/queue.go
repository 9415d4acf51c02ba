package cdc

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/connectors"
)

// A Queue carries batches from the goroutine that owns a database's connection to
// the one that emits them. It is bounded by records and by bytes; a batch larger
// than the bound is taken when the queue is empty, so at most one such waits.
type Queue struct {
	maxRecords, maxBytes int

	mu             sync.Mutex // guards what follows
	batches        []sized
	records, bytes int
	waiting        bool // the emitter has nothing to do
	closed         bool // nothing comes any more

	filled chan struct{} // holds a token when a batch came
	freed  chan struct{} // holds a token when a batch went
}

type sized struct {
	connectors.Batch
	bytes int
}

// DefaultQueueBytes bounds the queue where a configuration does not: a few full batches of small
// rows. More is of no use, since whoever is slower holds the other up all the same, and the collector goes
// through all that waits.
const DefaultQueueBytes = 4 << 20

// NewQueue makes a queue; maxBytes of 0 means DefaultQueueBytes.
func NewQueue(maxRecords, maxBytes int) *Queue {
	if maxBytes <= 0 {
		maxBytes = DefaultQueueBytes
	}
	return &Queue{maxRecords: maxRecords, maxBytes: maxBytes, filled: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// Offer puts a batch in where there is room, and reports whether it did.
func (q *Queue) Offer(b connectors.Batch, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) > 0 && (q.records+len(b.Records) > q.maxRecords || q.bytes+bytes > q.maxBytes) {
		return false
	}
	q.batches = append(q.batches, sized{b, bytes})
	q.records += len(b.Records)
	q.bytes += bytes
	token(q.filled)
	return true
}

// Put waits for room, and while it waits calls alive every so often: that is where
// the owner of a connection answers its server. An error of alive ends the wait.
func (q *Queue) Put(ctx context.Context, b connectors.Batch, bytes int, every time.Duration, alive func() error) error {
	if q.Offer(b, bytes) {
		return ctx.Err()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.freed:
			if q.Offer(b, bytes) {
				return nil
			}
		case <-tick.C:
			if err := alive(); err != nil {
				return err
			}
		}
	}
}

// A QueueUse is how full a queue is, and may be.
type QueueUse struct{ Records, MaxRecords, Bytes, MaxBytes int }

// Use is how full the queue is.
func (q *Queue) Use() QueueUse {
	q.mu.Lock()
	defer q.mu.Unlock()
	return QueueUse{q.records, q.maxRecords, q.bytes, q.maxBytes}
}

// Hungry reports whether the emitter waits for a batch: then a small one is better
// than none.
func (q *Queue) Hungry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting && len(q.batches) == 0
}

// Close says that nothing comes any more: Emit ends when it has handed on all there is.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	token(q.filled)
}

// errDrained ends the emitter of a closed queue.
var errDrained = errors.New("the queue is closed and empty")

// take waits for the next batch.
func (q *Queue) take(ctx context.Context) (connectors.Batch, error) {
	for {
		q.mu.Lock()
		if len(q.batches) > 0 {
			b := q.batches[0]
			q.batches[0] = sized{}
			q.batches = q.batches[1:]
			q.records -= len(b.Records)
			q.bytes -= b.bytes
			q.waiting = false
			token(q.freed)
			q.mu.Unlock()
			return b.Batch, nil
		}
		if q.closed {
			q.mu.Unlock()
			return connectors.Batch{}, errDrained
		}
		q.waiting = true
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return connectors.Batch{}, ctx.Err()
		case <-q.filled:
		}
	}
}

// Emit hands the queue's batches to out until ctx ends or out refuses one, or until a
// closed queue is empty: then it returns nil.
func (q *Queue) Emit(ctx context.Context, out connectors.Out) error {
	for {
		b, err := q.take(ctx)
		switch {
		case err == errDrained:
			return nil
		case err != nil:
			return err
		}
		if err := out.Emit(ctx, b); err != nil {
			return err
		}
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
