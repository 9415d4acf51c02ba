//go:build synctests

package runtimetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/connectors"
	"millrace/log/logtest"
	"millrace/runtime"
)

// In fake time: the work of a worker that left waits five minutes for its return, then
// the other takes it.
func TestSimTheWorkOfALostWorkerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logtest.New(t)
		s1, s2 := NewSource(), NewSource()
		for _, s := range []*Source{s1, s2} {
			s.Pause.Store(int64(time.Second))
		}
		settings := []string{"scheduled.rebalance.max.delay.ms", "300000", "heartbeat.interval.ms", "3000", "offset.flush.interval.ms", "5000"}
		h1 := Worker(t, l, Plugins(t, s1.Plugin("Numbers")), settings...)
		h2 := Worker(t, l, Plugins(t, s2.Plugin("Numbers")), settings...)
		Create(t, h1, "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "4", "tasks", "4", "batch", "1")
		time.Sleep(time.Minute)
		if !spread(h1, "c", 4, 2) {
			t.Fatalf("the tasks are not shared out: %v", owners(h1, "c"))
		}
		Close(t, h2)
		time.Sleep(4 * time.Minute)
		if n := len(owners(h1, "c")); n != 2 {
			t.Errorf("%d tasks run four minutes after a worker left, want its own two", n)
		}
		time.Sleep(2 * time.Minute)
		if !spread(h1, "c", 4, 1) {
			t.Errorf("six minutes after a worker left the other has not all tasks: %v", owners(h1, "c"))
		}
		checkNumbers(t, l, "n", 100)
		Close(t, h1)
	})
}

// In fake time: a database that is away for an hour is tried again every minute at
// most; a failure that nobody knows ten times in all.
func TestSimAutomaticRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logtest.New(t)
		known, unknown := NewSource(), NewSource()
		gone := connectors.Retriable(errors.New("the database is gone"))
		known.Error.Store(&gone)
		known.FailAt.Store(0)
		unknown.FailAt.Store(0)
		h := Worker(t, l, Plugins(t, known.Plugin("Known"), unknown.Plugin("Unknown")), "heartbeat.interval.ms", "3000", "offset.flush.interval.ms", "60000")
		Create(t, h, "k", "connector.class", "Known", "topic", "k", "count", "10")
		Create(t, h, "u", "connector.class", "Unknown", "topic", "u", "count", "10")
		time.Sleep(time.Hour)
		if n := known.Runs.Load(); n < 60 || n > 75 {
			t.Errorf("what a retry helps was tried %d times in an hour", n)
		}
		time.Sleep(2 * time.Hour)
		if n := unknown.Runs.Load(); n != 11 {
			t.Errorf("an unknown failure was tried %d times, want once and ten times more", n)
		}
		st, err := h.Status(context.Background(), "u")
		if err != nil || st.Tasks[0].State != runtime.Failed || st.Tasks[0].Restarts != 10 || !st.Tasks[0].Next.IsZero() {
			t.Errorf("%+v, %v", st.Tasks, err)
		}
		known.FailAt.Store(-1)
		time.Sleep(2 * time.Minute)
		if State(h, "k", 0) != runtime.Running {
			t.Error("the task did not recover")
		}
		Close(t, h)
	})
}
