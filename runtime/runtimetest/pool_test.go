package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/line"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
)

// three starts three workers of a group on a log, each with a source and a line of its own.
func three(t *testing.T, seeds []string, prepare func(s *Source), settings ...string) (hs []*herder.Herder, srcs []*Source, lines []*line.Line) {
	t.Helper()
	for range 3 {
		s, l := NewSource(), line.New(t)
		s.Pause.Store(int64(time.Millisecond))
		if prepare != nil {
			prepare(s)
		}
		srcs, lines = append(srcs, s), append(lines, l)
		hs = append(hs, Worker(t, throughLine(t, seeds, l), Plugins(t, s.Plugin("Numbers")), settings...))
	}
	return hs, srcs, lines
}

// mostRebalances are those that a return may cost: one to give up work and one to take it. In real time, on a busy machine, a member may take
// its assignment later than herder's othersSync, and a rebalance begin anew: tests over TCP take twice as many.
const mostRebalances = 2

// worker-log/1, over TCP: a worker that is cut off stops within its session, and after its return each task runs once.
func TestAWorkerThatIsCutOffStops(t *testing.T) {
	l := listening(t)
	hs, srcs, lines := three(t, []string{l.Addr()}, nil, "session.timeout.ms", "6000", "heartbeat.interval.ms", "100", "task.shutdown.graceful.timeout.ms", "500")
	Create(t, hs[0], "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "3", "tasks", "3")
	Until(t, "a task on each", func() bool { return spread(hs[0], "c", 3, 3) })
	var moved int
	for task, w := range owners(hs[0], "c") {
		if w == hs[1].WorkerID() {
			moved = task
		}
	}

	lines[1].Break()
	Until(t, "another worker to take over", func() bool {
		w := owners(hs[0], "c")[moved]
		return w == hs[0].WorkerID() || w == hs[2].WorkerID()
	})
	Until(t, "the cut off worker to have let go", func() bool { return srcs[1].Now() == 0 })
	told := srcs[1].Committed("c", moved)
	Until(t, "the task to go on elsewhere", func() bool { return max(srcs[0].Committed("c", moved), srcs[2].Committed("c", moved)) > told })

	before := generation(t, hs[0])
	lines[1].Heal()
	Until(t, "a task on each again", func() bool {
		return !slices.ContainsFunc(hs, func(h *herder.Herder) bool { return !spread(h, "c", 3, 3) })
	})
	if n := generation(t, hs[0]) - before; n > 2*mostRebalances {
		t.Errorf("%d rebalances after the return, want %d at most", n, 2*mostRebalances)
	}
	for i, s := range srcs {
		Until(t, fmt.Sprintf("worker %d to run one task", i), func() bool { return s.Now() == 1 }) // it is told of before it runs
		if s.Twice() {
			t.Errorf("worker %d ran a task twice at once", i)
		}
	}
	checkNumbers(t, l, "n", 100)
	// What the old owner had committed was not written over what the new one did.
	offsets, err := hs[0].Offsets(context.Background(), "c")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offsets {
		task, _ := o.Partition.Lookup("task")
		n, _ := o.Offset.Lookup("n")
		if n.Int() < told && int(task.Int()) == moved {
			t.Errorf("the offset went back to %d from %d", n.Int(), told)
		}
	}
}

// Whatever a line does to connections, but cut them off for a session, is no matter: the work stays where it is.
func TestLinesThatAreBadForAMoment(t *testing.T) {
	l := listening(t)
	hs, srcs, lines := three(t, []string{l.Addr()}, nil, "session.timeout.ms", "60000", "heartbeat.interval.ms", "100")
	Create(t, hs[0], "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "3", "tasks", "3")
	Until(t, "a task on each", func() bool { return spread(hs[0], "c", 3, 3) })
	before := generation(t, hs[0])
	for name, hurt := range map[string]func(l *line.Line){
		"resets":                     (*line.Line).Reset,
		"ends what is sent":          func(l *line.Line) { l.HalfClose(line.Out) },
		"ends what is answered":      func(l *line.Line) { l.HalfClose(line.In) },
		"keeps what is sent":         func(l *line.Line) { l.Silence(line.Out) },
		"keeps what is answered":     func(l *line.Line) { l.Silence(line.In) },
		"brings all a moment later":  func(l *line.Line) { l.Delay(20 * time.Millisecond) },
		"lets nobody in for a while": (*line.Line).Break,
	} {
		for _, one := range lines {
			hurt(one)
			time.Sleep(20 * time.Millisecond) // while it is so
			one.Heal()
		}
		for i, s := range srcs {
			at := s.Emitted.Load()
			Until(t, fmt.Sprintf("worker %d to go on after its line %s", i, name), func() bool { return s.Emitted.Load() > at+300 })
		}
	}
	if now := generation(t, hs[0]); now != before || !spread(hs[0], "c", 3, 3) {
		t.Errorf("%d rebalances", now-before)
	}
	checkNumbers(t, l, "n", 1000)
}

// What a worker tells late of a connector that was deleted meanwhile, the leader has forgotten.
func TestALateWordOfWhatWasDeletedIsForgotten(t *testing.T) {
	l := logtest.New(t)
	h := Worker(t, l, Plugins(t, NewSource().Plugin("Numbers")))
	Create(t, h, "kept", "connector.class", "Numbers", "topic", "n", "count", "1")
	AwaitState(t, h, "kept", 0, runtime.Running)
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("connect-status"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const running = `{"state":"RUNNING","trace":null,"worker_id":"late:8083","generation":1,"version":null}`
	for key, value := range map[string]string{
		"status-connector-gone":              running,
		"status-task-gone-3":                 running,
		"status-task-kept-7":                 running,
		"status-topic-n:connector-gone":      `{"topic":{"name":"n","connector":"gone","task":0,"discoverTimestamp":1}}`,
		"status-topic-n:connector-long-gone": `{"topic":{"name":"n","connector":"long-gone","task":0,"discoverTimestamp":1}}`,
	} {
		if err := cl.ProduceSync(t.Context(), kgo.KeyStringRecord(key, value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]bool{}
	Until(t, "the topic to tell of what there is alone", func() bool {
		for _, r := range Records(t, l, "connect-status") {
			known[string(r.Key)] = r.Value != nil
		}
		n := 0
		for _, there := range known {
			if there {
				n++
			}
		}
		return n == 3 && known["status-connector-kept"] && known["status-task-kept-0"] && known["status-topic-n:connector-kept"]
	})
}
