package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

// rest/2: a restart of failed tasks restarts these alone, each on its own worker of three.
func TestARestartOfFailedTasksLeavesTheOthers(t *testing.T) {
	ctx := context.Background()
	l := listening(t)
	failing := func(task int) bool { return task == 1 || task == 4 }
	hs, srcs, _ := three(t, []string{l.Addr()}, func(s *Source) {
		s.FailTask = failing
		s.FailAt.Store(3)
	}, "auto.restart", "false")
	leader := hs[0]
	Create(t, leader, "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "6", "tasks", "6", "batch", "1")
	settled := func() bool {
		by := map[string]bool{}
		st, err := leader.Status(ctx, "c")
		if err != nil || len(st.Tasks) != 6 {
			return false
		}
		for _, task := range st.Tasks {
			want := runtime.Running
			if failing(task.ID) && srcs[0].FailAt.Load() >= 0 {
				want = runtime.Failed
			}
			if task.State != want {
				return false
			}
			by[task.WorkerID] = true
		}
		return len(by) == 3
	}
	Until(t, "four tasks to run on all three, two to fail", settled)
	runs := func() (out [6]int) {
		for i := range out {
			for _, s := range srcs {
				out[i] += s.RunsOf("c", i)
			}
		}
		return out
	}
	again := func(more int) func() bool {
		before := runs()
		return func() bool {
			for i, n := range runs() {
				if n != before[i]+more {
					return false
				}
			}
			return settled()
		}
	}
	before := runs()
	st, err := leader.Restart(ctx, "c", true, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range st.Tasks {
		if (task.State == runtime.Restarting) != failing(task.ID) {
			t.Errorf("task %d is shown as %s", task.ID, task.State)
		}
	}
	if st.Connector.State != runtime.Running {
		t.Errorf("the connector is shown as %s", st.Connector.State)
	}
	Until(t, "the two to have run again", func() bool { now := runs(); return now[1] == before[1]+1 && now[4] == before[4]+1 })
	Until(t, "them to fail again", settled)
	for i, n := range runs() {
		if !failing(i) && n != before[i] {
			t.Errorf("task %d was restarted", i)
		}
	}
	for _, s := range srcs {
		s.FailAt.Store(-1)
	}
	all := again(1)
	if _, err := leader.Restart(ctx, "c", true, false); err != nil {
		t.Fatal(err)
	}
	Until(t, "all six to have run again", all)
	before = runs()
	if st, err := leader.Restart(ctx, "c", true, true); err != nil || slices.ContainsFunc(st.Tasks, func(ts runtime.TaskStatus) bool { return ts.State == runtime.Restarting }) {
		t.Errorf("nothing has failed, and the restart of what has: %+v, %v", st, err)
	}
	var twice sync.WaitGroup
	for range 2 {
		twice.Go(func() {
			if _, err := leader.Restart(ctx, "c", true, false); err != nil {
				t.Error(err)
			}
		})
	}
	twice.Wait()
	Until(t, "all six to run again after two restarts at once", func() bool {
		for i, n := range runs() {
			if n == before[i] {
				return false
			}
		}
		return settled()
	})
	for i, s := range srcs {
		Until(t, fmt.Sprintf("worker %d to run its two tasks", i), func() bool { return s.Now() == 2 })
		if s.Twice() {
			t.Errorf("a task of worker %d ran twice at once", i)
		}
	}
	// What is paused is restarted and stays paused; what is stopped stays so; what is unknown is told.
	if err := hs[1].SetTargetState(ctx, "c", runtime.PausedTarget); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		AwaitState(t, leader, "c", i, runtime.Paused)
	}
	before = runs()
	if _, err := leader.Restart(ctx, "c", true, false); err != nil {
		t.Fatal(err)
	}
	running := func(each int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(srcs, func(s *Source) bool { return s.Now() != each })
		}
	}
	Until(t, "all six to have run again", func() bool {
		for i, n := range runs() {
			if n == before[i] {
				return false
			}
		}
		return running(2)()
	})
	for i := range 6 {
		AwaitState(t, leader, "c", i, runtime.Paused)
	}
	if err := leader.SetTargetState(ctx, "c", runtime.StoppedTarget); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, leader, "c", -1, runtime.Stopped)
	Until(t, "all tasks to have ended", running(0))
	before = runs()
	if _, err := leader.Restart(ctx, "c", true, false); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, leader, "c", -1, runtime.Stopped)
	if runs() != before {
		t.Error("a restart of what is stopped runs tasks")
	}
	if _, err := leader.Restart(ctx, "unknown", true, false); !errors.As(err, new(*runtime.NotFoundError)) {
		t.Errorf("a restart of what is unknown: %v", err)
	}
}

// Who asked for a restart is never shown the state of before.
func TestAfterARestartWasAskedForNothingIsShownAsRunning(t *testing.T) {
	ctx := t.Context()
	source := NewSource()
	source.Pause.Store(int64(20 * time.Millisecond))
	// On a busy machine the questions may come later than a task is waited for: then it is away, and neither running nor restarting.
	h := Worker(t, logtest.New(t), Plugins(t, source.Plugin("Numbers")), "task.shutdown.graceful.timeout.ms", "120000")
	const many = 10
	name := func(i int) string { return fmt.Sprintf("c%d", i) }
	for i := range many {
		Create(t, h, name(i), "connector.class", "Numbers", "topic", "n")
	}
	for i := range many {
		AwaitState(t, h, name(i), 0, runtime.Running)
	}
	source.Deaf.Store(true) // or a task would be running again by the time of the question
	defer source.Deaf.Store(false)
	for i := range many {
		if _, err := h.Restart(ctx, name(i), true, false); err != nil {
			t.Fatal(err)
		}
		st, err := h.Status(ctx, name(i))
		if err != nil || len(st.Tasks) != 1 || st.Tasks[0].State != runtime.Restarting {
			t.Fatalf("%s after its restart was asked for: %+v, %v", name(i), st, err)
		}
	}
}

// registry is what a converter needs, and which is away for a time.
type registry struct {
	away  atomic.Bool
	asked atomic.Int64 // while it is away
}

func flaky(away *registry) converters.Plugin {
	return converters.Plugin{
		Info: plugin.Info{Name: "Flaky", Class: "test.FlakyConverter", Version: "1", Config: config.Define()},
		New: func(config.Values, bool) (converters.Converter, error) {
			return flakyConverter{away}, nil
		},
	}
}

type flakyConverter struct{ *registry }

var errRegistry = connectors.Retriable(errors.New("the registry cannot be reached"))

func (c flakyConverter) Encode(dst []byte, _ *converters.Message, _ *schema.Schema, v schema.Value) ([]byte, bool, error) {
	if c.away.Load() {
		c.asked.Add(1)
		return nil, false, errRegistry
	}
	return append(dst, v.Str()...), false, nil
}

func (c flakyConverter) Decode(_ *converters.Message, data []byte) (*schema.Schema, schema.Value, error) {
	if c.away.Load() {
		return nil, schema.Value{}, errRegistry
	}
	return schema.StringSchema, schema.StringOfBytes(data), nil
}

// worker-log/2: a retriable error that outlasts its retries fails the task, and never
// drops the record without tolerance.
func TestARecordIsNotDroppedWhenRetriesAreUsedUp(t *testing.T) {
	for _, timeout := range []string{"0", "500"} {
		t.Run("errors.retry.timeout="+timeout, func(t *testing.T) {
			l := logtest.New(t)
			var reg registry
			source, sink := NewSource(), NewSink()
			h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory"), flaky(&reg)))
			conf := []string{"errors.retry.timeout", timeout, "value.converter", "Flaky", "auto.restart", "false"}
			reg.away.Store(true)
			Create(t, h, "s", append(conf, "connector.class", "Numbers", "topic", "n", "count", "10")...)
			AwaitState(t, h, "s", 0, runtime.Failed)
			if source.Committed("s", 0) != 0 {
				t.Error("the offset passed records that are not in the log")
			}
			reg.away.Store(false)
			if err := h.RestartTask(context.Background(), runtime.TaskID{Connector: "s"}); err != nil {
				t.Fatal(err)
			}
			Until(t, "all records", func() bool { return len(Records(t, l, "n")) == 10 })

			reg.away.Store(true)
			Create(t, h, "m", append(conf, "connector.class", "Memory", "topics", "n")...)
			AwaitState(t, h, "m", 0, runtime.Failed)
			if at := committed(t, h, "m", "n", 0); at > 0 {
				t.Errorf("offset %d is committed", at)
			}
			reg.away.Store(false)
			if err := h.RestartTask(context.Background(), runtime.TaskID{Connector: "m"}); err != nil {
				t.Fatal(err)
			}
			Until(t, "all records", func() bool { return len(sink.Values()) == 10 })

			reg.away.Store(true)
			Create(t, h, "d", append(conf, "connector.class", "Memory", "topics", "n", "errors.tolerance", "all", "errors.deadletterqueue.topic.name", "dead")...)
			Until(t, "the commit", func() bool { return committed(t, h, "d", "n", 0) == 10 })
			if n := len(Records(t, l, "dead")); n != 10 {
				t.Errorf("%d dead letters, want 10", n)
			}
			// A source skips, and goes on behind.
			Create(t, h, "t", append(conf, "connector.class", "Numbers", "topic", "skipped", "count", "10", "errors.tolerance", "all")...)
			Until(t, "the offset", func() bool { return source.Committed("t", 0) == 10 })
			if n := len(sink.Values()); n != 10 {
				t.Errorf("%d values in the sink", n)
			}
			if n := len(Records(t, l, "skipped")); n != 0 {
				t.Errorf("%d of the records that were skipped are in the log", n)
			}
		})
	}
}

// worker-log/2: what comes back in time costs nothing: the record is tried again where
// it is, and the task runs on.
func TestARetriableErrorThatPasses(t *testing.T) {
	l := logtest.New(t)
	var reg registry
	source, sink := NewSource(), NewSink()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory"), flaky(&reg)))
	conf := []string{"errors.retry.timeout", "-1", "errors.retry.delay.max.ms", "310", "value.converter", "Flaky", "auto.restart", "false"}
	reg.away.Store(true)
	Create(t, h, "s", append(conf, "connector.class", "Numbers", "topic", "n", "count", "10")...)
	Create(t, h, "m", append(conf, "connector.class", "Memory", "topics", "n")...)
	Until(t, "the source's record to wait", func() bool { return reg.asked.Load() > 2 })
	reg.away.Store(false)
	Until(t, "all records in the log", func() bool { return len(Records(t, l, "n")) == 10 })
	Until(t, "all records", func() bool { return len(sink.Values()) == 10 })
	if n := source.Runs.Load(); n != 1 || State(h, "s", 0) != runtime.Running || State(h, "m", 0) != runtime.Running {
		t.Errorf("%d runs of the source, which is %s; the sink is %s", n, State(h, "s", 0), State(h, "m", 0))
	}
}

// A name with any character reaches its own connector.
func TestNamesOfConnectors(t *testing.T) {
	ctx := context.Background()
	h := Worker(t, logtest.New(t), Plugins(t, NewSource().Plugin("Numbers")))
	names := []string{"a/b c", "100%", "ü", "..", "x?y#z", "a-0", "a", "b:connector-c"}
	for _, n := range names {
		Create(t, h, n, "connector.class", "Numbers", "topic", "n", "count", "1")
	}
	for _, n := range names {
		AwaitState(t, h, n, 0, runtime.Running)
		if offsets, err := h.Offsets(ctx, n); err != nil || len(offsets) > 1 {
			t.Errorf("%q: offsets %v, %v", n, offsets, err)
		}
	}
	for i, n := range names {
		if err := h.Delete(ctx, n); err != nil {
			t.Errorf("%q: %v", n, err)
		}
		left, _ := h.Connectors(ctx)
		if len(left) != len(names)-i-1 {
			t.Fatalf("after the deletion of %q there are %q", n, left)
		}
	}
	for _, bad := range []string{"", "a\x00b", "a\nb"} {
		_, _, err := h.PutConfig(ctx, bad, map[string]string{"connector.class": "Numbers", "topic": "n"}, "", true)
		if !errors.As(err, new(*runtime.BadRequestError)) {
			t.Errorf("%s: %v", fmt.Sprintf("%q", bad), err)
		}
	}
}
