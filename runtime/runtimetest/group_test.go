package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/line"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
)

// overTCP opens the embedded log as another process does: as a cluster behind an
// address. What it dials goes through a line.
func overTCP(t testing.TB, l *log.Log, via *line.Line) *log.Log {
	t.Helper()
	return throughLine(t, []string{l.Addr()}, via)
}

// throughLine opens a cluster behind a line.
func throughLine(t testing.TB, seeds []string, via *line.Line) *log.Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	remote, err := log.Open(ctx, log.Config{Seeds: seeds, ClientOpts: []kgo.Opt{kgo.Dialer(via.Dial)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Wait)
		defer cancel()
		if err := remote.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return remote
}

// listening is a log in memory with a port.
func listening(t testing.TB) *log.Log {
	return logtest.New(t, func(c *log.Config) { c.Listeners = []string{"127.0.0.1:0"} })
}

// owners are the workers that run a connector's tasks, by task.
func owners(h *herder.Herder, name string) map[int]string {
	out := map[int]string{}
	st, err := h.Status(context.Background(), name)
	if err != nil {
		return out
	}
	for _, ts := range st.Tasks {
		if ts.State == runtime.Running {
			out[ts.ID] = ts.WorkerID
		}
	}
	return out
}

func spread(h *herder.Herder, name string, tasks, workers int) bool {
	by := map[string]int{}
	o := owners(h, name)
	for _, w := range o {
		by[w]++
	}
	return len(o) == tasks && len(by) == workers
}

func TestASecondWorkerJoinsOverTCP(t *testing.T) {
	l := listening(t)
	s1, s2 := NewSource(), NewSource()
	for _, s := range []*Source{s1, s2} {
		s.Pause.Store(int64(time.Millisecond))
	}
	h1 := Worker(t, l, Plugins(t, s1.Plugin("Numbers")))
	Create(t, h1, "c", "connector.class", "Numbers", "topic", "n", "tasks.max", "4", "tasks", "4")
	Until(t, "four tasks to run here", func() bool { return spread(h1, "c", 4, 1) })

	h2 := Worker(t, overTCP(t, l, line.New(t)), Plugins(t, s2.Plugin("Numbers")))
	Until(t, "the tasks to be shared out", func() bool { return spread(h1, "c", 4, 2) && spread(h2, "c", 4, 2) })

	group, err := l.Admin().DescribeGroups(context.Background(), "millrace")
	if err != nil {
		t.Fatal(err)
	}
	if g := group["millrace"]; g.ProtocolType != "connect" || g.Protocol != "sessioned" || len(g.Members) != 2 {
		t.Errorf("group of type %q, protocol %q with %d members, want connect, sessioned, 2", g.ProtocolType, g.Protocol, len(g.Members))
	}
	// Each answers for all; the one that does not lead says who does.
	if st, err := h2.Status(context.Background(), "c"); err != nil || st.Connector.State != runtime.Running || len(st.Tasks) != 4 {
		t.Errorf("the second worker's status: %+v, %v", st, err)
	}
	_, _, err = h2.PutConfig(context.Background(), "d", map[string]string{"connector.class": "Numbers", "topic": "d"}, "", true)
	var forward *runtime.ForwardError
	if !errors.As(err, &forward) || forward.URL != "http://"+h1.WorkerID()+"/" || !errors.As(err, new(*runtime.ConflictError)) {
		t.Errorf("a worker that does not lead answers %v", err)
	}
	// When it goes, its work comes back.
	Close(t, h2)
	Until(t, "the tasks to be back", func() bool { return spread(h1, "c", 4, 1) })
	if s1.Twice() || s2.Twice() {
		t.Error("a task ran twice in one worker")
	}
	for task := range 4 {
		n1, n2 := s1.Committed("c", task), s2.Committed("c", task)
		if max(n1, n2) == 0 {
			t.Errorf("task %d never committed", task)
		}
	}
	checkNumbers(t, l, "n", 100)
}

// A connector that another worker owns is planned there, and its tasks still run.
func TestAConnectorOfAnotherWorkerIsPlannedThere(t *testing.T) {
	l := listening(t)
	source := NewSource()
	p := Plugins(t, source.Plugin("Numbers"))
	h1 := Worker(t, l, p)
	h2 := Worker(t, overTCP(t, l, line.New(t)), p)
	for i := range 4 {
		Create(t, h1, fmt.Sprintf("c%d", i), "connector.class", "Numbers", "topic", "n", "count", "10")
	}
	Until(t, "all connectors and tasks to run, on both", func() bool {
		by := map[string]int{}
		for i := range 4 {
			st, err := h2.Status(context.Background(), fmt.Sprintf("c%d", i))
			if err != nil || st.Connector.State != runtime.Running || len(st.Tasks) != 1 || st.Tasks[0].State != runtime.Running {
				return false
			}
			by[st.Connector.WorkerID]++
		}
		return len(by) == 2
	})
}

// generation is the workers' generation, as one of them counts.
func generation(t *testing.T, h *herder.Herder) int {
	t.Helper()
	n, ok := series(scrape(t, h), "kafka_connect_worker_rebalance_epoch")
	if !ok {
		t.Fatal("no generation is told")
	}
	return int(n)
}

// A worker that dies without a word, and comes back: nothing is lost, in order.
func TestKillAndRestartLosesNothing(t *testing.T) {
	l := listening(t)
	for round := range 3 {
		source := NewSource()
		cable := line.New(t)
		remote := overTCP(t, l, cable)
		h := Start(t, remote, Plugins(t, source.Plugin("Numbers")), "session.timeout.ms", "6000",
			"task.shutdown.graceful.timeout.ms", "200", "offset.flush.timeout.ms", "500")
		select {
		case <-h.Ready():
		case <-time.After(Wait):
			t.Fatal("the worker is not ready")
		}
		if round == 0 {
			Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "batch", "100")
		}
		Until(t, "records and a commit", func() bool {
			return source.Emitted.Load() > 2000 && source.Committed("c", 0) > source.Starts()[0]
		})
		if round > 0 && source.Starts()[0] == 0 {
			t.Error("the source began anew")
		}
		cable.Break() // nothing of it reaches the log any more
		Close(t, h)
	}
	duplicates := checkNumbers(t, l, "n", 2000)
	t.Logf("%d records, %d of them twice", len(Records(t, l, "n")), duplicates)
}
