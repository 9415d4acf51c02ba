package worker

import (
	"context"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"millrace/connectors"
)

// The stage ends with what it is fed from, whatever produce takes at that moment: a task whose source has failed would otherwise run for ever.
func TestTheStageThatShapesEndsWithItsSource(t *testing.T) {
	limit := time.NewTimer(time.Minute)
	for round := range 40_000 {
		limit.Reset(time.Minute)
		task := &sourceTask{shaper: &shaper{}}
		from, to, ended := make(chan connectors.Batch, 1), make(chan *slab), make(chan error, 1)
		go func() {
			err := task.shape(context.Background(), from, to)
			close(to)
			ended <- err
		}()
		from <- connectors.Batch{}
		go func() {
			for range round % 8 {
				goruntime.Gosched()
			}
			for range to {
			}
		}()
		close(from)
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-limit.C:
			t.Fatalf("round %d: the source has ended, and the stage has not", round)
		}
	}
}

// A source at rest costs no memory: what the log acknowledges later than its last batch is let go of, too, and the batches behind
// the rest use their memory again.
func TestATaskWhoseSourceRestsKeepsNoSlabs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := &sourceTask{shaper: &shaper{}, inflight: newInflight(1 << 20)}
		from, to := make(chan connectors.Batch), make(chan *slab)
		go func() {
			defer close(to)
			if err := task.shape(t.Context(), from, to); err != nil {
				t.Error(err)
			}
		}()
		shaped := func() *slab {
			from <- connectors.Batch{}
			return <-to
		}
		kept := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			task.spares.mu.Lock()
			defer task.spares.mu.Unlock()
			if got := len(task.spares.slabs); got != want {
				t.Errorf("%s: %d slabs are kept, want %d", when, got, want)
			}
		}
		soon, late := shaped(), shaped()
		task.done(soon)
		kept("acknowledged while batches come", 1)
		time.Sleep(restAfter + time.Second)
		kept("when the source rests", 0)
		task.done(late)
		kept("acknowledged while it rests", 0)
		s := shaped()
		task.done(s)
		kept("acknowledged behind the next batch", 1)
		if shaped() != s {
			t.Error("the memory of a batch that was acknowledged is not used again")
		}
		close(from)
		<-to
	})
}
