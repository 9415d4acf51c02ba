package worker

import (
	"cmp"
	"context"
	"sync"
	"time"

	"millrace/connectors"
)

// inflight follows a task's batches from the log's client to their acknowledgement.
// Batches may be acknowledged in any order; an offset becomes committable when its
// batch and all batches before it are acknowledged, since that is what a source
// promises with it.
type inflight struct {
	most   int64         // bytes on their way; a larger batch travels alone
	broken chan struct{} // closed when a record has failed: nothing is acknowledged behind it
	some   chan struct{} // of one: there are offsets in ready where there were none

	mu      sync.Mutex // guards the fields below
	queue   []*flight  // in the order of emission; the first one is not acknowledged
	bytes   int64
	err     error          // why broken is closed
	ready   []keyed        // committable, one per source partition
	at      map[string]int // index in ready by key
	changed chan struct{}  // closed and replaced whenever a batch is acknowledged
}

// flight is a batch on its way.
type flight struct {
	bytes   int64
	offsets []keyed
	acked   bool

	batches         int // of the source
	polled, written int // records: what the source emitted, what of it goes to the log
	m               *Meter
	a               *activity
}

// keyed is an offset with the bytes that name its source partition.
type keyed struct {
	key string
	connectors.Offset
}

func newInflight(most int64) *inflight {
	return &inflight{most: most, broken: make(chan struct{}), some: make(chan struct{}, 1), at: map[string]int{}, changed: make(chan struct{})}
}

// add waits until there is room for a batch and puts it at the end.
func (f *inflight) add(ctx context.Context, fl *flight) error {
	var waits time.Time
	err := f.when(ctx, func() bool {
		if f.bytes > 0 && f.bytes+fl.bytes > f.most {
			if waits.IsZero() {
				waits = time.Now()
			}
			return false
		}
		f.push(fl)
		return true
	})
	if err != nil {
		return err
	}
	var waited time.Duration
	if !waits.IsZero() {
		waited = time.Since(waits)
	}
	fl.departs(waited)
	return nil
}

// drain waits until every batch is acknowledged.
func (f *inflight) drain(ctx context.Context) error {
	return f.when(ctx, func() bool { return len(f.queue) == 0 })
}

// when waits until try, which is called under the lock, has succeeded. It ends early
// with the failure of a record or with ctx.
func (f *inflight) when(ctx context.Context, try func() bool) error {
	for {
		f.mu.Lock()
		done, err, changed := false, f.err, f.changed
		if err == nil {
			done = try()
		}
		f.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-f.broken:
		case <-ctx.Done():
			return cmp.Or(f.failure(), ctx.Err()) // a record's failure explains more
		}
	}
}

// push puts a batch at the end, whether there is room or not. The caller has the lock.
func (f *inflight) push(fl *flight) {
	f.bytes += fl.bytes
	f.queue = append(f.queue, fl)
}

// force is add for what must not wait.
func (f *inflight) force(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.push(fl)
}

// ack says that all records of a batch are acknowledged.
func (f *inflight) ack(fl *flight) {
	fl.arrived()
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.acked = true
	f.bytes -= fl.bytes
	n := 0
	for n < len(f.queue) && f.queue[n].acked {
		f.merge(f.queue[n].offsets)
		f.queue[n] = nil
		n++
	}
	f.queue = f.queue[n:]
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail says that a record could not be produced. The first one is remembered.
func (f *inflight) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.broken)
	}
}

// failure is why broken is closed.
func (f *inflight) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *inflight) merge(offsets []keyed) {
	if len(f.ready) == 0 && len(offsets) > 0 {
		select {
		case f.some <- struct{}{}:
		default:
		}
	}
	for _, o := range offsets {
		if i, ok := f.at[o.key]; ok {
			f.ready[i] = o
			continue
		}
		f.at[o.key] = len(f.ready)
		f.ready = append(f.ready, o)
	}
}

// settle adds offsets to those that take returns.
func (f *inflight) settle(offsets []keyed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.merge(offsets)
}

// take returns the committable offsets and forgets them.
func (f *inflight) take() []keyed {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.ready
	f.ready, f.at = nil, map[string]int{}
	return out
}

// giveBack returns offsets that could not be committed; newer ones of the same source
// partitions stay.
func (f *inflight) giveBack(offsets []keyed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newer := f.ready
	f.ready, f.at = nil, map[string]int{}
	f.merge(offsets)
	f.merge(newer)
}
