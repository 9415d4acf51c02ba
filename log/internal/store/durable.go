package store

import (
	"context"
	"sync"
)

// waitList has those who wait for offsets to become durable, and the parked
// fetches that want to hear of any movement.
type waitList struct {
	mu    sync.Mutex
	waits []durableWait // by end, rising
	subs  map[*Waiter]struct{}
}

type durableWait struct {
	end  int64
	done func(error)
}

// Waiter is woken by the partitions it is subscribed to.
type Waiter struct{ C chan struct{} }

// NewWaiter makes a waiter; receive from C, which holds one pending wake-up.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// Wake makes C ready.
func (w *Waiter) Wake() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// Subscribe wakes w whenever the high watermark, the last stable offset or the
// log start moves, and when the partition goes away. Look once after subscribing.
func (p *Partition) Subscribe(w *Waiter) {
	p.waits.mu.Lock()
	defer p.waits.mu.Unlock()
	if p.waits.subs == nil {
		p.waits.subs = map[*Waiter]struct{}{}
	}
	p.waits.subs[w] = struct{}{}
}

// Unsubscribe ends Subscribe.
func (p *Partition) Unsubscribe(w *Waiter) {
	p.waits.mu.Lock()
	defer p.waits.mu.Unlock()
	delete(p.waits.subs, w)
}

// AfterDurable calls done once: at once if everything below end is durable by
// the partition's fsync mode, else later from a goroutine of the store, in order
// of end. done must not block. Its error is nil, ErrOutcomeUnknown, ErrClosed,
// or a *batch.Error of UnknownTopicOrPartition when the partition was deleted meanwhile.
func (p *Partition) AfterDurable(end int64, done func(error)) {
	w := &p.waits
	w.mu.Lock()
	if err := p.failed(end); err != nil || p.HighWatermark() >= end {
		w.mu.Unlock()
		done(err)
		return
	}
	i := len(w.waits)
	for i > 0 && w.waits[i-1].end > end {
		i--
	}
	w.waits = append(w.waits, durableWait{})
	copy(w.waits[i+1:], w.waits[i:])
	w.waits[i] = durableWait{end, done}
	w.mu.Unlock()
	p.hurry()
}

// failed is why end will never become durable, nil if it may.
func (p *Partition) failed(end int64) error {
	if p.HighWatermark() >= end {
		return nil
	}
	if p.s.offline.Load() != nil {
		return ErrOutcomeUnknown
	}
	if p.gone.Load() {
		return p.errGone()
	}
	if p.s.closed.Load() {
		return ErrClosed
	}
	return nil
}

// WaitDurable blocks until everything below end is durable. It may run the sync itself, which ctx does not end, and call back others who wait
// for it. Errors: ctx's, and AfterDurable's.
func (p *Partition) WaitDurable(ctx context.Context, end int64) error {
	if p.HighWatermark() >= end {
		return nil
	}
	p.hurry()
	p.s.syncer.serve(p)
	if p.HighWatermark() >= end {
		return nil
	}
	c := make(chan error, 1)
	p.AfterDurable(end, func(err error) { c <- err })
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publish recomputes what depends on durable and end, and wakes who waits for
// it. The caller does not hold p.mu, since those who wait are called back.
func (p *Partition) publish() {
	p.mu.Lock()
	p.settle()
	p.mu.Unlock()
	p.notify()
}

// settle brings the last stable offset up to date. It needs p.mu.
func (p *Partition) settle() { p.settleAt(p.HighWatermark()) }

// settleAt is settle for a high watermark that is about to be published.
func (p *Partition) settleAt(hw int64) {
	p.lso.Store(max(p.prod.settle(hw), p.logStart.Load()))
}

func (p *Partition) notify() {
	w := &p.waits
	w.mu.Lock()
	hw := p.HighWatermark()
	n := 0
	for n < len(w.waits) && w.waits[n].end <= hw {
		n++
	}
	var ready []durableWait
	if n > 0 {
		ready = append(ready, w.waits[:n]...)
		rest := copy(w.waits, w.waits[n:])
		clear(w.waits[rest:])
		w.waits = w.waits[:rest]
	}
	for s := range w.subs {
		s.Wake()
	}
	w.mu.Unlock()
	for _, r := range ready {
		r.done(nil)
	}
}

// fail ends all waits with the reason that failed gives, and wakes parked fetches.
func (p *Partition) fail() {
	w := &p.waits
	w.mu.Lock()
	waits := w.waits
	w.waits = nil
	for s := range w.subs {
		s.Wake()
	}
	w.mu.Unlock()
	for _, r := range waits {
		r.done(p.failed(r.end))
	}
}
