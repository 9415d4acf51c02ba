package warehouse

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A budget is shared by all tasks of the process. Who waits for a part of it waits for others, who may be tasks with much to do: as long as
// one of them gets on, so does the wait.
type budget struct {
	*semaphore.Weighted

	mu    sync.Mutex
	moves chan struct{} // closed and replaced when somebody who has a part got on
}

func newBudget(size int64) *budget {
	return &budget{Weighted: semaphore.NewWeighted(size), moves: make(chan struct{})}
}

// acquire waits for a part, until ctx ends, and calls moving whenever the others have got on.
func (b *budget) acquire(ctx context.Context, part int64, moving func()) error {
	if b.TryAcquire(part) {
		return nil
	}
	got := make(chan error, 1)
	go func() { got <- b.Acquire(ctx, part) }()
	for {
		moves := b.next()
		select {
		case err := <-got:
			return err
		case <-moves:
			moving()
		}
	}
}

func (b *budget) release(part int64) {
	b.Release(part)
	b.moved()
}

// moved says that somebody who has a part got on.
func (b *budget) moved() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.moves)
	b.moves = make(chan struct{})
}

func (b *budget) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moves
}
