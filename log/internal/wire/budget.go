package wire

import (
	"context"
	"sync"
)

// Budget bounds the memory that requests hold which have not been carried out yet. It is taken as
// bytes arrive. When it is used up, one request at a time may go on beyond it, so that half-received
// requests cannot wait for each other and a request larger than the budget is admitted alone. The
// most memory ever held is the budget and one request.
type Budget struct {
	size    int64
	mu      sync.Mutex // guards the fields below
	free    int64
	exempt  bool // a lease is going on beyond the budget
	waiters []*waiter
}

type waiter struct {
	lease *Lease
	n     int64
	ready chan struct{}
}

// Lease is what one request holds of a budget. The zero value of a lease holds nothing.
type Lease struct {
	b      *Budget
	held   int64
	exempt bool
}

// NewBudget returns a budget of that many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{size: bytes, free: bytes} }

// Lease starts a lease that holds nothing. It must be released. It is not safe for concurrent use.
func (b *Budget) Lease() Lease { return Lease{b: b} }

// InUse is what leases hold together, without the one that went beyond the budget.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free
}

// waiting is how many leases wait.
func (b *Budget) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)
}

// Take adds n bytes to the lease, waiting while the budget is used up. It fails only with ctx.
func (l *Lease) Take(ctx context.Context, n int64) error {
	b := l.b
	b.mu.Lock()
	if l.exempt {
		b.mu.Unlock()
		return nil
	}
	if len(b.waiters) == 0 {
		if n <= b.free {
			b.free -= n
			l.held += n
			b.mu.Unlock()
			return nil
		}
		if !b.exempt {
			b.exempt, l.exempt = true, true
			b.mu.Unlock()
			return nil
		}
	}
	w := &waiter{lease: l, n: n, ready: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.waiters {
		if o == w {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.admit() // the next one may need less
			break
		}
	}
	return ctx.Err()
}

// Release gives everything back. Calling it again does nothing.
func (l *Lease) Release() {
	if l.b == nil || l.held == 0 && !l.exempt {
		return
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += l.held
	l.held = 0
	if l.exempt {
		l.exempt, b.exempt = false, false
	}
	b.admit()
}

// admit serves waiters in order as far as it can. b.mu is held.
func (b *Budget) admit() {
	for len(b.waiters) > 0 {
		w := b.waiters[0]
		switch {
		case w.n <= b.free:
			b.free -= w.n
			w.lease.held += w.n
		case !b.exempt:
			b.exempt, w.lease.exempt = true, true
		default:
			return
		}
		b.waiters = b.waiters[1:]
		close(w.ready)
	}
}
