package worker

import (
	"context"
	goruntime "runtime"
	"testing"
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
