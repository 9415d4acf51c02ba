package runtimetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/log/logtest"
	"millrace/runtime"
)

func TestPauseResumeStopRestartDelete(t *testing.T) {
	ctx := context.Background()
	l := logtest.New(t)
	source := NewSource()
	source.Pause.Store(int64(time.Millisecond))
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers")))
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n")
	AwaitState(t, h, "c", 0, runtime.Running)
	Until(t, "records", func() bool { return source.Emitted.Load() > 50 })

	if err := h.SetTargetState(ctx, "c", runtime.PausedTarget); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "c", 0, runtime.Paused)
	AwaitState(t, h, "c", -1, runtime.Paused)
	// A batch may have been past the gate; then nothing comes.
	Until(t, "the source to be held back", func() bool {
		n := source.Emitted.Load()
		time.Sleep(50 * time.Millisecond)
		return source.Emitted.Load() == n
	})
	if source.Runs.Load() != 1 {
		t.Errorf("%d runs: a pause must keep what the task holds", source.Runs.Load())
	}

	if err := h.SetTargetState(ctx, "c", runtime.Started); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "c", 0, runtime.Running)
	n := source.Emitted.Load()
	Until(t, "records after the pause", func() bool { return source.Emitted.Load() > n })

	if err := h.SetTargetState(ctx, "c", runtime.StoppedTarget); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "c", -1, runtime.Stopped)
	Until(t, "no task to be left", func() bool {
		st, err := h.Status(ctx, "c")
		tasks, _ := h.Tasks(ctx, "c")
		return err == nil && len(st.Tasks) == 0 && len(tasks) == 0
	})
	Until(t, "all that was emitted to be committed", func() bool { return source.Committed("c", 0) == int64(len(Records(t, l, "n"))) })

	if err := h.SetTargetState(ctx, "c", runtime.Started); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "c", 0, runtime.Running)
	runs := int64(2) // before the stop, and since; a task is RUNNING a moment before it runs
	Until(t, "the second run", func() bool { return source.Runs.Load() == runs })
	if err := h.RestartTask(ctx, runtime.TaskID{Connector: "c"}); err != nil {
		t.Fatal(err)
	}
	Until(t, "the task to run again", func() bool { return source.Runs.Load() == runs+1 })
	st, err := h.Restart(ctx, "c", true, false)
	if err != nil {
		t.Fatal(err)
	}
	if st.Connector.State != runtime.Restarting || len(st.Tasks) != 1 || st.Tasks[0].State != runtime.Restarting {
		t.Errorf("status of a restart: %+v", st)
	}
	Until(t, "the task to run again", func() bool { return source.Runs.Load() == runs+2 })
	AwaitState(t, h, "c", 0, runtime.Running)
	AwaitState(t, h, "c", -1, runtime.Running)

	// A change of configuration restarts the task, the same one again does not.
	runs = source.Runs.Load()
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "batch", "7")
	Until(t, "the task to run with the new configuration", func() bool { return source.Runs.Load() == runs+1 })
	plans := source.Plans.Load()
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "batch", "7")
	Until(t, "the same configuration to be planned", func() bool { return source.Plans.Load() == plans+1 })
	for _, to := range []struct {
		target runtime.TargetState
		state  runtime.State
	}{{runtime.PausedTarget, runtime.Paused}, {runtime.Started, runtime.Running}} { // what follows a plan is over by then
		if err := h.SetTargetState(ctx, "c", to.target); err != nil {
			t.Fatal(err)
		}
		AwaitState(t, h, "c", 0, to.state)
	}
	if source.Runs.Load() != runs+1 {
		t.Error("the same configuration restarted the task")
	}

	if err := h.Delete(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	Until(t, "the connector to be gone", func() bool {
		_, err := h.Status(ctx, "c")
		return errors.As(err, new(*runtime.NotFoundError))
	})
	if err := h.Delete(ctx, "c"); err == nil || err.Error() != "Connector c not found" {
		t.Errorf("delete again: %v", err)
	}
	if source.Twice() {
		t.Error("the task ran twice at once")
	}
	// Numbers are neither lost nor out of order, whatever was done to the connector.
	checkNumbers(t, l, "n", 0)
}

func TestWhatTheAPIRefuses(t *testing.T) {
	ctx := context.Background()
	h := Worker(t, logtest.New(t), Plugins(t, NewSource().Plugin("Numbers"), NewSink().Plugin("Memory")))
	put := func(name string, kv ...string) error {
		conf := map[string]string{}
		for i := 0; i+1 < len(kv); i += 2 {
			conf[kv[i]] = kv[i+1]
		}
		_, _, err := h.PutConfig(ctx, name, conf, "", false)
		return err
	}
	Create(t, h, "there", "connector.class", "Numbers", "topic", "n")
	for _, c := range []struct {
		what string
		err  error
		as   any
		text string
	}{
		{"a name that is taken", put("there", "connector.class", "Numbers", "topic", "n"), new(*runtime.ExistsError), "Connector there already exists"},
		{"no class", put("x"), new(*runtime.BadRequestError), "Connector config {name=x} contains no connector type"},
		{"another name inside", put("x", "connector.class", "Numbers", "name", "y"), new(*runtime.BadRequestError), "Connector name configuration (y) doesn't match connector name in the URL (x)"},
		{"a missing key", put("x", "connector.class", "Numbers"), new(*runtime.BadRequestError), "Connector configuration is invalid and contains the following 1 error(s):\n" +
			"Missing required configuration \"topic\" which has no default value.\n" +
			"You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"},
		{"the group of the workers", put("x", "connector.class", "Memory", "topics", "a", "consumer.override.group.id", "millrace"), new(*runtime.BadRequestError), "Consumer group for sink connector named x conflicts with Connect worker group millrace"},
		{"pausing what is not there", h.SetTargetState(ctx, "nope", runtime.PausedTarget), new(*runtime.NotFoundError), "Unknown connector nope"},
		{"restarting what is not there", h.RestartConnector(ctx, "nope"), new(*runtime.NotFoundError), "Unknown connector: nope"},
		{"restarting a task that is not there", h.RestartTask(ctx, runtime.TaskID{Connector: "there", Task: 7}), new(*runtime.NotFoundError), "Unknown task: there-7"},
	} {
		if c.err == nil || !errors.As(c.err, c.as) || c.err.Error() != c.text {
			t.Errorf("%s: %T %v\nwant %s", c.what, c.err, c.err, c.text)
		}
	}
	if err := put("x", "connector.class", "Numbers", "topic", "n", "producer.override.linger.ms", "soon"); err == nil || !strings.Contains(err.Error(), "producer.override.linger.ms") {
		t.Errorf("a wrong override: %v", err)
	}
}

func TestAFailedTaskIsRestartedByItself(t *testing.T) {
	l := logtest.New(t)
	source, other := NewSource(), NewSource()
	other.Pause.Store(int64(time.Millisecond))
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), other.Plugin("Other")))
	Create(t, h, "other", "connector.class", "Other", "topic", "o")
	gone := connectors.Retriable(errors.New("the database is gone"))
	source.Error.Store(&gone)
	source.FailAt.Store(20)
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "count", "40")
	AwaitState(t, h, "c", 0, runtime.Failed)
	st, err := h.Status(context.Background(), "c")
	if err != nil {
		t.Fatal(err)
	}
	task := st.Tasks[0]
	if task.Trace != "the database is gone" || task.Failure == nil || task.Failure.Retry != "helps" || task.Next.IsZero() {
		t.Errorf("status %+v, failure %+v", task, task.Failure)
	}
	source.FailAt.Store(-1)
	Until(t, "the task to recover", func() bool { return State(h, "c", 0) == runtime.Running && source.Emitted.Load() >= 40 })
	Until(t, "all records", func() bool { return len(Records(t, l, "n")) >= 40 })
	checkNumbers(t, l, "n", 40)
	if got := other.Runs.Load(); got != 1 {
		t.Errorf("the neighbour ran %d times", got)
	}
}

func TestAWrongConfigurationIsNotTriedAgain(t *testing.T) {
	source := NewSource()
	h := Worker(t, logtest.New(t), Plugins(t, source.Plugin("Numbers")))
	wrong := connectors.BadConfig(errors.New("wal_level is replica"))
	source.Error.Store(&wrong)
	source.FailAt.Store(0)
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "count", "1")
	AwaitState(t, h, "c", 0, runtime.Failed)
	st, _ := h.Status(context.Background(), "c")
	if !st.Tasks[0].Next.IsZero() || st.Tasks[0].Failure.Retry != "never" {
		t.Errorf("%+v", st.Tasks[0])
	}
	source.FailAt.Store(-1)
	// A client's restart helps.
	if err := h.RestartTask(context.Background(), runtime.TaskID{Connector: "c"}); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "c", 0, runtime.Running)
}

func TestAPanicFailsItsTaskAlone(t *testing.T) {
	l := logtest.New(t)
	bad, good := NewSource(), NewSource()
	bad.PanicAt.Store(5)
	h := Worker(t, l, Plugins(t, bad.Plugin("Bad"), good.Plugin("Good")))
	Create(t, h, "good", "connector.class", "Good", "topic", "g")
	Create(t, h, "bad", "connector.class", "Bad", "topic", "b")
	AwaitState(t, h, "bad", 0, runtime.Failed)
	st, _ := h.Status(context.Background(), "bad")
	if !strings.Contains(st.Tasks[0].Trace, "told to panic") || strings.Contains(st.Tasks[0].Trace, "goroutine") {
		t.Errorf("trace %q", st.Tasks[0].Trace)
	}
	n := good.Emitted.Load()
	Until(t, "the neighbour to go on", func() bool { return good.Emitted.Load() > n+1000 })
	if good.Runs.Load() != 1 || State(h, "good", 0) != runtime.Running {
		t.Error("the neighbour noticed")
	}
}

func TestAConnectorThatCannotPlanFails(t *testing.T) {
	source := NewSource()
	source.FailPlan(connectors.Retriable(errors.New("cannot reach the server")))
	h := Worker(t, logtest.New(t), Plugins(t, source.Plugin("Numbers")))
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "count", "1")
	AwaitState(t, h, "c", -1, runtime.Failed)
	source.FailPlan(nil)
	AwaitState(t, h, "c", -1, runtime.Running)
	AwaitState(t, h, "c", 0, runtime.Running)
}

func TestASourceThatIgnoresItsContextIsAbandoned(t *testing.T) {
	l := logtest.New(t)
	source := NewSource()
	source.Deaf.Store(true)
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers")), "task.shutdown.graceful.timeout.ms", "200")
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n")
	Until(t, "records", func() bool { return source.Emitted.Load() > 1000 })
	if err := h.SetTargetState(context.Background(), "c", runtime.StoppedTarget); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "c", -1, runtime.Stopped)
	Until(t, "the task to be let go", func() bool {
		n := len(Records(t, l, "n"))
		time.Sleep(100 * time.Millisecond)
		return len(Records(t, l, "n")) == n
	})
	if n := source.Committed("c", 0); n > int64(len(Records(t, l, "n"))) {
		t.Errorf("offset %d is committed, the topic has %d records", n, len(Records(t, l, "n")))
	}
}
