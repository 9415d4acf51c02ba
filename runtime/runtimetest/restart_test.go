package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/line"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

// rest/2: a restart of failed tasks restarts these alone, each on its own worker.
func TestARestartOfFailedTasksLeavesTheOthers(t *testing.T) {
	ctx := context.Background()
	l := listening(t)
	failing := func(task int) bool { return task == 1 || task == 4 }
	s1, s2 := NewSource(), NewSource()
	for _, s := range []*Source{s1, s2} {
		s.FailTask = failing
		s.FailAt.Store(3)
		s.Pause.Store(int64(time.Millisecond))
	}
	h1 := Worker(t, l, Plugins(t, s1.Plugin("Numbers")), "auto.restart", "false")
	h2 := Worker(t, overTCP(t, l, line.New(t)), Plugins(t, s2.Plugin("Numbers")), "auto.restart", "false")
	Create(t, h1, "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "6", "tasks", "6", "batch", "1")
	settled := func() bool {
		by := map[string]bool{}
		for i := range 6 {
			want := runtime.Running
			if failing(i) && s1.FailAt.Load() >= 0 {
				want = runtime.Failed
			}
			if State(h1, "c", i) != want {
				return false
			}
		}
		for _, w := range owners(h1, "c") {
			by[w] = true
		}
		return len(by) == 2
	}
	Until(t, "four tasks to run on both, two to fail", settled)
	runs := func() (out [6]int) {
		for i := range out {
			out[i] = s1.RunsOf("c", i) + s2.RunsOf("c", i)
		}
		return out
	}
	before := runs()
	st, err := h1.Restart(ctx, "c", true, true)
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
	s1.FailAt.Store(-1)
	s2.FailAt.Store(-1)
	before = runs()
	if _, err := h1.Restart(ctx, "c", true, false); err != nil {
		t.Fatal(err)
	}
	Until(t, "all six to have run again", func() bool {
		for i, n := range runs() {
			if n != before[i]+1 {
				return false
			}
		}
		return settled()
	})
	if s1.Twice() || s2.Twice() {
		t.Error("a task ran twice at once")
	}
	// What is paused is restarted and stays paused.
	if err := h2.SetTargetState(ctx, "c", runtime.PausedTarget); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		AwaitState(t, h1, "c", i, runtime.Paused)
	}
	before = runs()
	if _, err := h1.Restart(ctx, "c", true, false); err != nil {
		t.Fatal(err)
	}
	Until(t, "all six to have run again", func() bool { return runs()[0] == before[0]+1 && runs()[5] == before[5]+1 })
	AwaitState(t, h1, "c", 0, runtime.Paused)
}

// Who asked for a restart is never shown the state of before.
func TestAfterARestartWasAskedForNothingIsShownAsRunning(t *testing.T) {
	ctx := t.Context()
	source := NewSource()
	source.Pause.Store(int64(time.Millisecond))
	// On a busy machine the questions may come later than a task is waited for: then it is away, and neither running nor restarting.
	h := Worker(t, logtest.New(t), Plugins(t, source.Plugin("Numbers")), "task.shutdown.graceful.timeout.ms", "120000")
	const many = 30
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
