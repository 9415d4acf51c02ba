package worker

import (
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
	most int64 // bytes on their way; a larger batch travels alone

	mu      sync.Mutex // guards the fields below
	queue   []*flight  // in the order of emission; the first one is not acknowledged
	bytes   int64
	ready   []keyed        // committable, one per source partition
	at      map[string]int // index in ready by key
	changed chan struct{}  // closed and replaced whenever a batch is acknowledged
}

// flight is a batch on its way.
type flight struct {
	bytes   int64
	offsets []keyed
	acked   bool

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
	return &inflight{most: most, at: map[string]int{}, changed: make(chan struct{})}
}

// add waits until there is room for a batch and puts it at the end.
func (f *inflight) add(ctx context.Context, fl *flight) error {
	var waits time.Time
	for {
		f.mu.Lock()
		if f.bytes == 0 || f.bytes+fl.bytes <= f.most {
			f.bytes += fl.bytes
			f.queue = append(f.queue, fl)
			f.mu.Unlock()
			var waited time.Duration
			if !waits.IsZero() {
				waited = time.Since(waits)
			}
			fl.departs(waited)
			return nil
		}
		changed := f.changed
		f.mu.Unlock()
		if waits.IsZero() {
			waits = time.Now()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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

func (f *inflight) merge(offsets []keyed) {
	for _, o := range offsets {
		if i, ok := f.at[o.key]; ok {
			f.ready[i] = o
			continue
		}
		f.at[o.key] = len(f.ready)
		f.ready = append(f.ready, o)
	}
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

// drain waits until every batch is acknowledged.
func (f *inflight) drain(ctx context.Context) error {
	for {
		f.mu.Lock()
		if len(f.queue) == 0 {
			f.mu.Unlock()
			return nil
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
