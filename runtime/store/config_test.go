package store

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log/logtest"
	"millrace/runtime"
)

// topic applies records as the config topic brings them.
func topic(rs ...*kgo.Record) *Snapshot {
	c := newConfigs(slog.New(slog.DiscardHandler), Changes{})
	for i, r := range rs {
		r.Offset = int64(i)
		c.apply([]*kgo.Record{r})
	}
	return c.Now()
}

func conf(kv ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func TestConfigTopic(t *testing.T) {
	c1, c2 := conf("a", "1"), conf("a", "2")
	task := func(n int) *kgo.Record { return taskRecord("c", n, conf("n", fmt.Sprint(n))) }
	for _, tc := range []struct {
		name         string
		records      []*kgo.Record
		there        bool
		tasks        int
		inconsistent bool
		applied      bool // the tasks were made for the present configuration
		target       runtime.TargetState
	}{
		{"a connector without tasks", []*kgo.Record{connectorRecord("c", c1)}, true, 0, false, false, runtime.Started},
		{"tasks count with their commit", []*kgo.Record{connectorRecord("c", c1), task(0), task(1)}, true, 0, false, false, runtime.Started},
		{"then they are there", []*kgo.Record{connectorRecord("c", c1), task(0), task(1), commitRecord("c", 2)}, true, 2, false, true, runtime.Started},
		{"a set with a gap is none", []*kgo.Record{connectorRecord("c", c1), task(1), commitRecord("c", 2)}, true, 0, true, false, runtime.Started},
		{"neither is the last one then", []*kgo.Record{connectorRecord("c", c1), task(0), commitRecord("c", 1), task(1), commitRecord("c", 2)}, true, 0, true, true, runtime.Started},
		{"a later one mends it", []*kgo.Record{connectorRecord("c", c1), commitRecord("c", 2), task(0), commitRecord("c", 1)}, true, 1, false, true, runtime.Started},
		{"compaction leaves tasks of a larger set", []*kgo.Record{connectorRecord("c", c1), task(2), task(0), commitRecord("c", 1)}, true, 1, false, true, runtime.Started},
		{"compaction leaves the connector behind its tasks", []*kgo.Record{task(0), commitRecord("c", 1), connectorRecord("c", c1)}, true, 1, false, false, runtime.Started},
		{"a changed configuration", []*kgo.Record{connectorRecord("c", c1), task(0), commitRecord("c", 1), connectorRecord("c", c2)}, true, 1, false, false, runtime.Started},
		{"stopping takes the tasks away", []*kgo.Record{connectorRecord("c", c1), task(0), commitRecord("c", 1), commitRecord("c", 0), targetRecord("c", runtime.StoppedTarget)}, true, 0, false, true, runtime.StoppedTarget},
		{"born paused", []*kgo.Record{targetRecord("c", runtime.PausedTarget), connectorRecord("c", c1)}, true, 0, false, false, runtime.PausedTarget},
		{"an old worker's PAUSED", []*kgo.Record{connectorRecord("c", c1), record("target-state-c", []byte(`{"state":"PAUSED"}`))}, true, 0, false, false, runtime.PausedTarget},
		{"a deleted one", []*kgo.Record{connectorRecord("c", c1), task(0), commitRecord("c", 1), record("connector-c", nil), record("target-state-c", nil)}, false, 0, false, false, ""},
		{"one that comes again begins anew", []*kgo.Record{connectorRecord("c", c1), task(0), commitRecord("c", 1), targetRecord("c", runtime.PausedTarget),
			record("connector-c", nil), record("target-state-c", nil), connectorRecord("c", c1)}, true, 0, false, false, runtime.Started},
		{"records that nobody understands are passed over", []*kgo.Record{record("connector-c", []byte("{")), record("x", []byte("{}")), record("task-c-x", []byte("{}")),
			record("commit-c", []byte("{}")), record("target-state-c", []byte(`{"state":"FLYING"}`)), connectorRecord("c", c1)}, true, 0, false, false, runtime.Started},
	} {
		s := topic(tc.records...)
		c, there := s.Connectors["c"]
		if there != tc.there {
			t.Errorf("%s: there is %v", tc.name, s.Connectors)
			continue
		}
		if s.Offset != int64(len(tc.records)) {
			t.Errorf("%s: offset %d", tc.name, s.Offset)
		}
		if !there {
			continue
		}
		applied := c.Applied != nil && c.Applied["a"] == c.Config["a"]
		if len(c.Tasks) != tc.tasks || c.Inconsistent != tc.inconsistent || applied != tc.applied || c.Target != tc.target {
			t.Errorf("%s: %d tasks, inconsistent %v, applied %v, target %s", tc.name, len(c.Tasks), c.Inconsistent, applied, c.Target)
		}
		for n, task := range c.Tasks {
			if task["n"] != fmt.Sprint(n) {
				t.Errorf("%s: task %d is %v", tc.name, n, task)
			}
		}
	}
}

// A task's number follows the last dash: names hold dashes, too.
func TestNamesWithDashes(t *testing.T) {
	s := topic(connectorRecord("a-1", conf("x", "y")), taskRecord("a-1", 0, conf("n", "0")), commitRecord("a-1", 1), connectorRecord("a", conf()))
	if len(s.Connectors["a-1"].Tasks) != 1 || len(s.Connectors["a"].Tasks) != 0 {
		t.Errorf("%+v", s.Connectors)
	}
	if id, ok := parseTaskKey("status-task-a-1-0"); !ok || id != (runtime.TaskID{Connector: "a-1"}) {
		t.Errorf("%v %v", id, ok)
	}
}

// Reports are seen at once, survive, and a late word of an old owner does not count.
func TestStatuses(t *testing.T) {
	l := logtest.New(t)
	as := runtime.InternalTopic{Name: "status", Partitions: 3, Replication: -1}
	open := func() *Statuses {
		s, err := OpenStatuses(t.Context(), l, as, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(), open()
	id := runtime.TaskID{Connector: "c", Task: 1}
	for i := range 100 {
		a.PutTask(id, Status{State: runtime.Running, WorkerID: "a", Generation: int32(i), Version: "1"})
		if st, ok := a.Task(id); !ok || st.Generation != int32(i) {
			t.Fatalf("report %d is not seen: %+v", i, st)
		}
	}
	a.PutConnector("c", Status{State: runtime.Failed, Trace: "why\n\tat", WorkerID: "a"})
	a.PutTopic(TopicUse{Topic: "t", Connector: "c", Task: 1, Discovered: 5})
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the other does not see %s", what)
			}
		}
	}
	seen("the task", func() bool { st, _ := b.Task(id); return st.Generation == 99 })
	seen("the connector", func() bool { st, _ := b.Connector("c"); return st.Trace == "why\n\tat" })
	seen("the topic", func() bool { return len(b.Topics("c")) == 1 })
	// b takes the task over; a, which hears of it, then says that it has it no more.
	b.PutTask(id, Status{State: runtime.Running, WorkerID: "b", Generation: 100})
	seen("the new owner", func() bool { st, _ := a.Task(id); return st.WorkerID == "b" })
	a.PutTask(id, Status{State: runtime.Unassigned, WorkerID: "a", Generation: 99})
	if st, _ := a.Task(id); st.State != runtime.Running {
		t.Errorf("the old owner's word counts: %+v", st)
	}
	b.RemoveTask(id)
	b.RemoveConnector("c")
	if _, ok := b.Task(id); ok {
		t.Error("a removed state is seen")
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := open()
	if conns, tasks := c.Known(); len(conns) != 0 || len(tasks) != 0 || len(c.Topics("c")) != 0 {
		t.Errorf("left: %v %v %v", conns, tasks, c.Topics("c"))
	}
	for _, s := range []*Statuses{a, b, c} {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
