package store

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log/logtest"
	"millrace/runtime"
)

// A worker that was cut off has reports waiting; when it comes back they are written
// behind those of the worker that took over.
func TestALateWordOfTheLastOwnerIsNotTheLast(t *testing.T) {
	l := logtest.New(t)
	topic := runtime.InternalTopic{Name: "status", Partitions: 1, Replication: 1}
	open := func() *Statuses {
		s, err := OpenStatuses(t.Context(), l, topic, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		return s
	}
	old, owner, other := open(), open(), open()
	id := runtime.TaskID{Connector: "c"}
	mine := Status{State: runtime.Running, WorkerID: "new", Generation: 6}
	owner.PutTask(id, mine)
	if err := owner.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	old.PutTask(id, Status{State: runtime.Failed, Trace: "the line is cut", WorkerID: "old", Generation: 4})
	if err := old.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Whoever opens the topic from now on reads the late word, and soon the owner's behind it.
	for deadline := time.Now().Add(30 * time.Second); ; {
		fresh := open()
		got, _ := fresh.Task(id)
		if err := fresh.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got == mine {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the topic ends with %+v, want %+v", got, mine)
		}
	}
	// What moves on in good order is the next owner's.
	next := Status{State: runtime.Running, WorkerID: "next", Generation: 7}
	other.PutTask(id, next)
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := open().Task(id); got != next {
		t.Errorf("the topic ends with %+v, want %+v", got, next)
	}
}

// What was removed and is told of again while that is being written (a worker's late word) is hidden until it is written:
// whoever watches is told then, or nobody would remove it.
func TestALateWordDuringARemovalIsTold(t *testing.T) {
	task := runtime.TaskID{Connector: "gone", Task: 3}
	const running = `{"state":"RUNNING","trace":null,"worker_id":"late:8083","generation":1,"version":null}`
	for _, c := range []struct {
		key, late string
		part      runtime.TaskID
	}{
		{connectorKey("gone"), running, runtime.TaskID{Connector: "gone", Task: -1}},
		{taskKey(task), running, task},
		{topicKey("n", "gone"), `{"topic":{"name":"n","connector":"gone","task":0,"discoverTimestamp":1}}`, runtime.TaskID{Connector: "gone", Task: -1}},
	} {
		for _, after := range []bool{true, false} {
			s := newStatuses(slog.New(slog.DiscardHandler))
			known := func() bool {
				connectors, tasks := s.Known()
				return len(connectors)+len(tasks) > 0
			}
			told := false
			s.Watch(func(id runtime.TaskID) { told = told || id == c.part && known() })
			s.remove(c.key)
			sent := map[string]int64{c.key: s.ours[c.key].seq}
			if after {
				s.apply([]*kgo.Record{record(c.key, nil), record(c.key, []byte(c.late))})
			} else {
				s.apply([]*kgo.Record{record(c.key, []byte(c.late)), record(c.key, nil)})
			}
			s.written(sent)
			if told != after || known() != after {
				t.Errorf("%s, late word after the removal %v: told %v, known %v", c.key, after, told, known())
			}
		}
	}
}
