package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/line"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/schema"
	"millrace/schema/config"
)

// said is a log that can be searched.
type said struct {
	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

// count is in how many lines all the texts stand.
func (s *said) count(texts ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
next:
	for line := range strings.Lines(s.out.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		n++
	}
	return n
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

func stallOf(h *herder.Herder, name string) *runtime.StallDetail {
	st, err := h.StatusDetail(context.Background(), name)
	if err != nil || len(st.Tasks) == 0 {
		return nil
	}
	return st.Tasks[0].Stall
}

// A sink whose Put hangs and heeds nothing is shown, told of once, and restarted: the
// new run does the work, the old one is abandoned.
func TestASinkThatHangsIsRestarted(t *testing.T) {
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	var hang atomic.Bool
	hang.Store(true)
	sink.Refuse = func(r *schema.Record) error {
		if r.Origin.Offset == 5 && hang.CompareAndSwap(true, false) {
			<-held
		}
		return nil
	}
	var out said
	h := WorkerLogging(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")), out.logger(),
		"task.stall.timeout.ms", "2000", "task.shutdown.graceful.timeout.ms", "100")
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "10")
	Until(t, "the records", func() bool { return source.Committed("from", 0) == 10 })
	Create(t, h, "to", "connector.class", "Memory", "topics", "n")
	var seen *runtime.StallDetail
	Until(t, "the stall to be shown", func() bool { seen = stallOf(h, "to"); return seen != nil })
	if seen.Code != "task.target_hangs" || seen.Remedy == "" || seen.Restart == nil || seen.Restart.Sub(seen.Since) != 2*time.Second || time.Since(seen.Since) > Wait {
		t.Errorf("%+v", seen)
	}
	if State(h, "to", 0) == runtime.Running {
		if v, ok := series(scrape(t, h), "millrace_connector_task_stalled", "connector", "to"); ok && v != 1 && stallOf(h, "to") != nil {
			t.Errorf("the metric says %v", v)
		}
	}
	Until(t, "the new run to take all", func() bool { return committed(t, h, "to", "n", 0) == 10 })
	got := scrape(t, h)
	if v, _ := series(got, "millrace_connector_task_stall_restarts_total", "connector", "to"); v != 1 {
		t.Errorf("%v restarts are counted", v)
	}
	st, err := h.Status(context.Background(), "to")
	if err != nil || st.Tasks[0].Restarts != 1 || st.Tasks[0].Stall != nil {
		t.Errorf("%+v, %v", st.Tasks, err)
	}
	if n := out.count("gets no further", "connector=to", "code=task.target_hangs", "remedy="); n != 1 {
		t.Errorf("the stall is told of %d times", n)
	}
	if n := out.count("level=ERROR", "connector=to", "restarted"); n != 1 {
		t.Errorf("the restart is told of %d times", n)
	}
	release()
}

// The log's disk is full: the source is held back, which is shown; it goes on by itself
// when there is room, and nothing is lost.
func TestASourceBeforeAFullDisk(t *testing.T) {
	for _, exactly := range []string{"disabled", "enabled"} {
		t.Run("exactly.once.source.support="+exactly, func(t *testing.T) {
			disk := logtest.NewDisk()
			l := disk.Open(t)
			source := NewSource()
			var out said
			h := WorkerLogging(t, l, Plugins(t, source.Plugin("Numbers")), out.logger(), "task.stall.timeout.ms", "3000",
				"task.shutdown.graceful.timeout.ms", "100", "exactly.once.source.support", exactly)
			source.Pause.Store(int64(time.Millisecond))
			Create(t, h, "c", "connector.class", "Numbers", "topic", "n")
			Until(t, "records", func() bool { return source.Emitted.Load() > 200 })
			disk.SetSize(1)
			var seen *runtime.StallDetail
			Until(t, "the stall to be shown", func() bool { seen = stallOf(h, "c"); return seen != nil })
			if seen.Code != "task.log_does_not_answer" && seen.Code != "task.commit_fails" || !strings.Contains(seen.Remedy, "disk") && seen.Code == "task.log_does_not_answer" {
				t.Errorf("%+v", seen)
			}
			// It is restarted, which does not help yet, and again.
			Until(t, "a restart", func() bool {
				n, _ := series(scrape(t, h), "millrace_connector_task_stall_restarts_total", "connector", "c")
				return n > 0
			})
			disk.SetSize(1 << 30)
			n := source.Emitted.Load()
			Until(t, "it to get on", func() bool { return source.Emitted.Load() > n+200 && State(h, "c", 0) == runtime.Running })
			Until(t, "no stall to be shown", func() bool { return stallOf(h, "c") == nil })
			Until(t, "commits", func() bool { return source.Committed("c", 0) > 0 })
			checkNumbers(t, l, "n", 200)
		})
	}
}

// Not stalled are: a paused task, an idle one, one whose target is slow and says so,
// one that holds back what it flushes.
func TestWhatIsNoStall(t *testing.T) {
	ctx := context.Background()
	l := logtest.New(t)
	source, idle, paused := NewSource(), NewSource(), NewSource()
	slow, holding := NewSink(), NewSink()
	holding.HoldFlush.Store(true)
	slow.Slow.Store(int64(7 * time.Second)) // a Put, longer than the limit, with words in between
	var out said
	h := WorkerLogging(t, l, Plugins(t, source.Plugin("Numbers"), idle.Plugin("Idle"), paused.Plugin("Paused"), slow.Plugin("Slow"), holding.Plugin("Holding")), out.logger(),
		"task.stall.timeout.ms", "6000", "task.shutdown.graceful.timeout.ms", "100")
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "20")
	Create(t, h, "idle", "connector.class", "Idle", "topic", "i", "count", "1")
	Create(t, h, "paused", "connector.class", "Paused", "topic", "p")
	AwaitState(t, h, "paused", 0, runtime.Running)
	if err := h.SetTargetState(ctx, "paused", runtime.PausedTarget); err != nil {
		t.Fatal(err)
	}
	Create(t, h, "slow", "connector.class", "Slow", "topics", "n")
	Create(t, h, "holding", "connector.class", "Holding", "topics", "n")
	AwaitState(t, h, "holding", 0, runtime.Running)
	Until(t, "the slow one's records", func() bool { return len(slow.Values()) == 20 })
	for _, name := range []string{"from", "idle", "paused", "slow", "holding"} {
		if s := stallOf(h, name); s != nil {
			t.Errorf("%s: %+v", name, s)
		}
		if st, err := h.Status(ctx, name); err != nil || st.Tasks[0].Restarts > 0 || st.Tasks[0].State == runtime.Failed {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	if n := out.count("gets no further"); n > 0 {
		t.Errorf("%d stalls are told of", n)
	}
}

// A connector's own limit goes before the worker's, and 0 restarts nothing.
func TestTheLimitOfAConnector(t *testing.T) {
	l := logtest.New(t)
	source, a, b := NewSource(), NewSink(), NewSink()
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	hang := func(*schema.Record) error { <-held; return nil }
	a.Refuse, b.Refuse = hang, hang
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), a.Plugin("A"), b.Plugin("B")), "task.stall.timeout.ms", "500", "task.shutdown.graceful.timeout.ms", "100")
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "10")
	Create(t, h, "a", "connector.class", "A", "topics", "n", "task.stall.timeout.ms", "3600000")
	Create(t, h, "b", "connector.class", "B", "topics", "n")
	restarts := func(name string) int {
		st, err := h.Status(context.Background(), name)
		if err != nil || len(st.Tasks) == 0 {
			return -1
		}
		return st.Tasks[0].Restarts
	}
	Until(t, "the one to be restarted", func() bool { return restarts("b") >= 1 })
	if n := restarts("a"); n != 0 {
		t.Errorf("the other was restarted %d times", n)
	}
}

// telling is a source that can tell where it is, and then hangs.
type telling struct {
	hangs, said, runs *atomic.Int64
}

func (s telling) Run(ctx context.Context, out connectors.Out) error {
	s.runs.Add(1)
	<-ctx.Done()
	return nil
}
func (telling) Commit(context.Context, []connectors.Offset) error { return nil }
func (s telling) Progress(context.Context) connectors.Progress {
	s.said.Add(1)
	return connectors.Progress{Position: "byte 7 of a file", At: 7, Behind: s.hangs.Load()}
}

func TestASourceThatReadsNoFurther(t *testing.T) {
	l := logtest.New(t)
	var hangs, told, runs atomic.Int64
	p := NewSource().Plugin("Telling")
	p.NewTask = func(connectors.Context, config.Values) (connectors.SourceTask, error) {
		return telling{&hangs, &told, &runs}, nil
	}
	h := Worker(t, l, Plugins(t, p), "task.stall.timeout.ms", "1500")
	Create(t, h, "c", "connector.class", "Telling", "topic", "n")
	Until(t, "some looks", func() bool { return told.Load() > 3 })
	if s := stallOf(h, "c"); s != nil || runs.Load() != 1 {
		t.Fatalf("nothing to read is a stall: %+v, %d runs", s, runs.Load())
	}
	hangs.Store(1234)
	var seen *runtime.StallDetail
	Until(t, "the stall to be shown", func() bool { seen = stallOf(h, "c"); return seen != nil })
	if seen.Code != "task.source_hangs" || !strings.Contains(seen.Reason, "1234 bytes") || !strings.Contains(seen.Reason, "byte 7 of a file") {
		t.Errorf("%+v", seen)
	}
	Until(t, "a restart", func() bool { return runs.Load() > 1 })
	st, err := h.StatusDetail(context.Background(), "c")
	if err != nil || st.Tasks[0].Progress == nil || st.Tasks[0].Progress.Reading == nil || *st.Tasks[0].Progress.Reading.Behind != 1234 {
		t.Errorf("%+v, %v", st.Tasks, err)
	}
}

func TestTheDetailOfAStatus(t *testing.T) {
	ctx := context.Background()
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	declared := &connectors.Reason{Code: "test.broken", Doc: "It is broken.", Remedy: "mend it"}
	known := connectors.Failed(declared, errors.New("the driver's words"), `table "a" is broken`, "mend table a")
	unknown := errors.New("something odd")
	source.Error.Store(&known)
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")))
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "30")
	Create(t, h, "to", "connector.class", "Memory", "topics", "n")
	Until(t, "the commit", func() bool { return source.Committed("from", 0) == 30 && committed(t, h, "to", "n", 0) == 30 })

	detail := func(name string) runtime.TaskStatus {
		t.Helper()
		ts, err := h.TaskStatusDetail(ctx, runtime.TaskID{Connector: name})
		if err != nil {
			t.Fatal(err)
		}
		st, err := h.StatusDetail(ctx, name)
		if err != nil || len(st.Tasks) != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
		return ts
	}
	ts := detail("from")
	if !ts.Here || ts.Since.IsZero() || ts.Failure != nil || ts.Progress == nil || len(ts.Progress.Offsets) != 1 || ts.Progress.Moved.IsZero() {
		t.Fatalf("%+v", ts)
	}
	if n, ok := ts.Progress.Offsets[0].Offset.Lookup("n"); !ok || n.Int() != 30 {
		t.Errorf("offset %v", ts.Progress.Offsets)
	}
	// The log knows of a commit before the task has its answer.
	Until(t, "the sink's progress to show what it has read and committed", func() bool {
		p := detail("to").Progress
		if p == nil || p.Lag != 0 || len(p.Parts) != 1 {
			return false
		}
		at, is := p.Parts[0], func(n *int64, want int64) bool { return n != nil && *n == want }
		return at.Topic == "n" && at.Position == 30 && at.Done == 30 && is(at.Committed, 30) && is(at.End, 30) && is(at.Lag, 0)
	})

	source.FailAt.Store(30)
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "60")
	AwaitState(t, h, "from", 0, runtime.Failed)
	ts = detail("from")
	f := ts.Failure
	if f == nil || f.Code != "test.broken" || f.Summary != `table "a" is broken` || f.Remedy != "mend table a" || f.Retry != "unknown" || time.Since(f.Since) > Wait || !ts.Since.UTC().Equal(f.Since) {
		t.Errorf("%+v, since %v", f, ts.Since)
	}
	// 10 s doubling to 10 min, ten times: the last one 45 minutes after the first.
	if ts.Most != 10 || ts.Next.IsZero() || ts.GivesUp.Sub(ts.Next) < 40*time.Minute || ts.GivesUp.Sub(ts.Next) > 55*time.Minute {
		t.Errorf("next %v, given up %v later, of %d", ts.Next, ts.GivesUp.Sub(ts.Next), ts.Most)
	}
	if ts.Progress == nil || len(ts.Progress.Offsets) != 1 {
		t.Errorf("a failed task does not say where it is: %+v", ts.Progress)
	}
	source.Error.Store(&unknown)
	if err := h.RestartTask(ctx, runtime.TaskID{Connector: "from"}); err != nil {
		t.Fatal(err)
	}
	Until(t, "the other failure", func() bool { f := detail("from").Failure; return f != nil && f.Code == runtime.UnknownReason })
	if f := detail("from").Failure; f.Summary != "something odd" || !strings.Contains(f.Remedy, "unknown") {
		t.Errorf("%+v", f)
	}
	retriable := connectors.Retriable(unknown)
	source.Error.Store(&retriable)
	if err := h.RestartTask(ctx, runtime.TaskID{Connector: "from"}); err != nil {
		t.Fatal(err)
	}
	Until(t, "the retriable failure", func() bool { f := detail("from").Failure; return f != nil && f.Retry == "helps" })
	if ts := detail("from"); ts.Most != 0 || !ts.GivesUp.IsZero() || ts.Next.IsZero() {
		t.Errorf("what is tried without end: %+v", ts.PartStatus)
	}
}

// Of another worker's task no more is said than its state.
func TestTheDetailOfAnotherWorkersTask(t *testing.T) {
	l := listening(t)
	source := NewSource()
	source.Pause.Store(int64(time.Millisecond))
	h1 := Worker(t, l, Plugins(t, source.Plugin("Numbers")))
	h2 := Worker(t, overTCP(t, l, line.New(t)), Plugins(t, source.Plugin("Numbers")))
	Create(t, h1, "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "4", "tasks", "4")
	Until(t, "the tasks to be shared out", func() bool {
		by := owners(h1, "c")
		here := 0
		for _, w := range by {
			if w == h1.WorkerID() {
				here++
			}
		}
		return len(by) == 4 && here == 2
	})
	for _, h := range []*herder.Herder{h1, h2} {
		Until(t, "each to know its own alone", func() bool {
			st, err := h.StatusDetail(context.Background(), "c")
			if err != nil || len(st.Tasks) != 4 {
				return false
			}
			for _, ts := range st.Tasks {
				own := ts.WorkerID == h.WorkerID()
				if ts.State != runtime.Running || ts.Here != own || (ts.Progress != nil) != own || !own && (ts.Restarts != 0 || !ts.Since.IsZero()) {
					return false
				}
			}
			return true
		})
	}
}
