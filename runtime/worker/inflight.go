package worker

import (
	"context"
	"sync"

	"millrace/connectors"
	"millrace/schema"
)

// producerBytes is how many bytes of records the producer of a task may hold; a
// larger batch travels alone.
const producerBytes = 8 << 20

// inflight keeps the batches that were handed to the producer, in source order, and
// follows their acknowledgements. Offsets follow acknowledgements: an offset may be
// stored only when every record of its batch and of all batches before it is in the
// log.
type inflight struct {
	limit  int64
	failed chan struct{} // closed at the first failure
	ended  chan struct{} // closed when nothing more comes and all is acknowledged, or the task failed

	mu      sync.Mutex // guards the fields below
	bytes   int64
	batches []*shaped // a queue: the oldest first
	ready   []connectors.Offset
	moved   chan struct{} // closed and replaced when bytes shrink
	first   error
}

func newInflight(limit int64) *inflight {
	return &inflight{limit: limit, failed: make(chan struct{}), ended: make(chan struct{}), moved: make(chan struct{})}
}

// admit takes a batch in once there is room for it: nothing is before it, or its
// bytes fit beside what is.
func (f *inflight) admit(ctx context.Context, s *shaped) error {
	for {
		f.mu.Lock()
		if f.first != nil {
			defer f.mu.Unlock()
			return f.first
		}
		if f.bytes == 0 || f.bytes+s.bytes <= f.limit {
			f.bytes += s.bytes
			s.open = len(s.records) + 1 // taken back by whoever sends them
			f.batches = append(f.batches, s)
			f.mu.Unlock()
			return nil
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-f.failed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// acked notes that a record of s is in the log, or will never be.
func (f *inflight) acked(s *shaped, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.first == nil {
		f.first = err
		close(f.failed)
	}
	s.open--
	if s.open > 0 {
		return
	}
	f.bytes -= s.bytes
	close(f.moved)
	f.moved = make(chan struct{})
	if f.first != nil {
		return // no offset moves any more
	}
	n := 0
	for n < len(f.batches) && f.batches[n].open == 0 {
		done := f.batches[n]
		f.ready = mergeOffsets(f.ready, done.offsets)
		f.batches[n] = nil
		done.free()
		n++
	}
	f.batches = f.batches[n:]
	if len(f.batches) == 0 {
		f.batches = nil // give up what the queue has grown to
	}
}

// mergeOffsets puts offsets behind those that are ready, one for each source
// partition: a later one replaces an earlier one.
func mergeOffsets(ready, more []connectors.Offset) []connectors.Offset {
next:
	for _, o := range more {
		for i := len(ready) - 1; i >= 0; i-- {
			if schema.EqualValues(ready[i].Partition, o.Partition) {
				ready[i] = o
				continue next
			}
		}
		ready = append(ready, o)
	}
	return ready
}

// take returns the offsets that may be stored and forgets them.
func (f *inflight) take() []connectors.Offset {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.ready
	f.ready = nil
	return r
}

func (f *inflight) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

// wait returns when everything that was admitted is acknowledged.
func (f *inflight) wait(ctx context.Context) error {
	for {
		f.mu.Lock()
		first, left, moved := f.first, len(f.batches), f.moved
		f.mu.Unlock()
		if first != nil || left == 0 {
			return first
		}
		select {
		case <-moved:
		case <-f.failed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end says that nothing more is admitted.
func (f *inflight) end() { close(f.ended) }
