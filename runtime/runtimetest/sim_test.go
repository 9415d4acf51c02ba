//go:build synctests

package runtimetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/connectors"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/schema"
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

// In fake time: what has run for ten minutes has its failures counted anew, and
// auto.restart=false, of a worker or of a connector, restarts nothing.
func TestSimRestartsAreCountedAnewAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logtest.New(t)
		source, off := NewSource(), NewSource()
		source.Pause.Store(int64(time.Second))
		off.FailAt.Store(0)
		h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), off.Plugin("Off")), "heartbeat.interval.ms", "3000", "offset.flush.interval.ms", "60000")
		Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "batch", "1")
		Create(t, h, "off", "connector.class", "Off", "topic", "o", "count", "1", "auto.restart", "false")
		status := func(name string) runtime.PartStatus {
			st, err := h.Status(context.Background(), name)
			if err != nil || len(st.Tasks) != 1 {
				t.Fatalf("%+v, %v", st, err)
			}
			return st.Tasks[0].PartStatus
		}
		fail := func() {
			source.FailAt.Store(source.Emitted.Load() + 1)
			time.Sleep(3 * time.Second)
			source.FailAt.Store(-1)
			if st := status("c"); st.State != runtime.Failed {
				t.Fatalf("%+v", st)
			}
		}
		time.Sleep(time.Minute)
		for want := range 3 { // in a row
			fail()
			if st := status("c"); st.Restarts != want {
				t.Errorf("%d restarts in a row, want %d", st.Restarts, want)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(11 * time.Minute)
		fail()
		if st := status("c"); st.Restarts != 0 || time.Until(st.Next) > 10*time.Second {
			t.Errorf("after ten minutes of running: %d restarts in a row, the next in %v", st.Restarts, time.Until(st.Next))
		}
		time.Sleep(time.Hour)
		if st := status("off"); off.Runs.Load() != 1 || st.State != runtime.Failed || !st.Next.IsZero() {
			t.Errorf("auto.restart=false: %d runs, %+v", off.Runs.Load(), st)
		}
		Close(t, h)
	})
}

// In fake time, with the time limits as they are by default: a sink whose Put hangs is shown
// after a minute and restarted after ten; a slow one, a paused one and an idle one are not.
func TestSimTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		l := logtest.New(t)
		source, hangs, slow, idle := NewSource(), NewSink(), NewSink(), NewSink()
		held := make(chan struct{})
		var once atomic.Bool
		hangs.Refuse = func(r *schema.Record) error {
			if r.Origin.Offset == 3 && once.CompareAndSwap(false, true) {
				<-held
			}
			return nil
		}
		slow.Refuse = func(*schema.Record) error { time.Sleep(4 * time.Minute); return nil } // a record
		source.Pause.Store(int64(5 * time.Minute))
		h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), hangs.Plugin("Hangs"), slow.Plugin("Slow"), idle.Plugin("Idle")),
			"heartbeat.interval.ms", "9000", "session.timeout.ms", "30000", "offset.flush.interval.ms", "60000", "exactly.once.source.support", "disabled")
		Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "5", "batch", "1")
		Create(t, h, "hangs", "connector.class", "Hangs", "topics", "n")
		Create(t, h, "slow", "connector.class", "Slow", "topics", "n")
		Create(t, h, "idle", "connector.class", "Idle", "topics", "nothing")
		task := func(name string) runtime.TaskStatus {
			ts, err := h.TaskStatus(ctx, runtime.TaskID{Connector: name})
			if err != nil {
				t.Fatal(err)
			}
			return ts
		}
		time.Sleep(15*time.Minute + 30*time.Second) // the fourth record hangs since 30 s
		if ts := task("hangs"); ts.Stall != nil || ts.State != runtime.Running {
			t.Errorf("after half a minute: %+v, %+v", ts, ts.Stall)
		}
		time.Sleep(time.Minute)
		if ts := task("hangs"); ts.Stall == nil || ts.Stall.Code != "task.target_hangs" || ts.Restarts != 0 {
			t.Errorf("after one and a half: %+v, %+v", ts, ts.Stall)
		}
		time.Sleep(8 * time.Minute)
		if ts := task("hangs"); ts.Stall == nil || ts.Restarts != 0 || ts.State != runtime.Running {
			t.Errorf("after nine and a half: %+v, %+v", ts, ts.Stall)
		}
		time.Sleep(time.Minute)
		if ts := task("hangs"); ts.Stall != nil || ts.Restarts != 1 || ts.State != runtime.Running {
			t.Errorf("after ten and a half: %+v, %+v", ts, ts.Stall)
		}
		if err := h.SetTargetState(ctx, "idle", runtime.PausedTarget); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		for _, name := range []string{"from", "slow", "idle"} {
			if ts := task(name); ts.Restarts != 0 || ts.Failure != nil {
				t.Errorf("%s: %+v", name, ts)
			}
		}
		if n := len(hangs.Values()); n < 5 {
			t.Errorf("%d of 5 records", n)
		}
		close(held)
		Close(t, h)
	})
}
