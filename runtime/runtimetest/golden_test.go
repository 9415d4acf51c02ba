package runtimetest

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/schema"
)

// fill writes the first records of a topic that a JVM worker wrote, to offset last of
// each partition; -1 for all.
func fill(t testing.TB, l *log.Log, file, topic string, partitions int32, last int64) {
	t.Helper()
	if err := l.EnsureTopic(context.Background(), topic, partitions, -1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rs []*kgo.Record
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var g struct {
			Partition  int32
			Offset     int64
			Key, Value *string
		}
		if err := json.Unmarshal(sc.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		if last >= 0 && g.Offset > last {
			continue
		}
		r := &kgo.Record{Topic: topic, Partition: g.Partition, Key: []byte(*g.Key)}
		if g.Value != nil {
			r.Value = []byte(*g.Value)
		}
		rs = append(rs, r)
	}
	produce(t, l, rs...)
}

// A worker starts from the topics of a JVM worker: connectors, tasks, target states and
// offsets are those that were left there.
func TestAWorkerStartsFromTheTopicsOfConnect(t *testing.T) {
	ctx := context.Background()
	l := logtest.New(t)
	fill(t, l, "../store/testdata/configs-end.jsonl", "connect-configs", 1, 31)
	fill(t, l, "../store/testdata/offsets-end.jsonl", "connect-offsets", 25, 0)
	fill(t, l, "../store/testdata/status-end.jsonl", "connect-status", 5, 3)

	source, sink := NewSource(), NewSink()
	file := source.Plugin("FileStreamSource")
	file.Class, file.Aliases = "org.apache.kafka.connect.file.FileStreamSourceConnector", nil
	file.TaskClass = "org.apache.kafka.connect.file.FileStreamSourceTask"
	out := sink.Plugin("FileStreamSink")
	out.Class = "org.apache.kafka.connect.file.FileStreamSinkConnector"
	out.TaskClass = "org.apache.kafka.connect.file.FileStreamSinkTask"
	h := Worker(t, l, Plugins(t, file, out), "offset.storage.partitions", "25", "status.storage.partitions", "5")

	names, err := h.Connectors(ctx)
	if want := []string{"born stopped ü", "numbers", "paused", "sink", "src", "viaput"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("connectors %v, want %v", names, want)
	}
	conf, err := h.Config(ctx, "src")
	if want := map[string]string{"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": "/tmp/connect-rest-golden/in.txt",
		"tasks.max": "1", "extra": "1", "name": "src", "topic": "restfile"}; err != nil || !maps.Equal(conf, want) {
		t.Errorf("src: %v, %v", conf, err)
	}
	AwaitState(t, h, "born stopped ü", -1, runtime.Stopped)
	AwaitState(t, h, "paused", -1, runtime.Paused)
	AwaitState(t, h, "src", -1, runtime.Running)
	AwaitState(t, h, "src", 0, runtime.Running)
	AwaitState(t, h, "sink", 0, runtime.Running)
	AwaitState(t, h, "sink", 1, runtime.Running)
	Until(t, "all to run here", func() bool { // the topic still holds what the other worker said
		for _, name := range []string{"src", "sink", "numbers", "viaput"} {
			st, err := h.Status(ctx, name)
			if err != nil || st.Connector.WorkerID != h.WorkerID() || len(st.Tasks) == 0 || st.Tasks[0].WorkerID != h.WorkerID() {
				return false
			}
		}
		return true
	})
	if tasks, err := h.Tasks(ctx, "paused"); err != nil || len(tasks) != 0 {
		t.Errorf("a connector that was born paused has tasks: %v, %v", tasks, err)
	}
	offsets, err := h.Offsets(ctx, "src")
	if err != nil || len(offsets) != 1 {
		t.Fatalf("offsets %v, %v", offsets, err)
	}
	name, _ := offsets[0].Partition.Lookup("filename")
	at, _ := offsets[0].Offset.Lookup("position")
	if name.Str() != "/tmp/connect-rest-golden/in.txt" || at.Kind() != schema.Int64 || at.Int() != 14 {
		t.Errorf("offset %v of %v", at, name)
	}
	// What was stored is what a plan gives: nothing was written anew.
	for _, r := range Records(t, l, "connect-configs")[32:] {
		if string(r.Key) == "commit-src" || string(r.Key) == "commit-sink" {
			t.Errorf("%s was written anew, though the plan is the same", r.Key)
		}
	}
	// The states that the topic holds afterwards are in Connect's form.
	Until(t, "the state of src-0 in Connect's form", func() bool {
		for _, r := range Records(t, l, "connect-status") {
			if string(r.Key) == "status-task-src-0" && string(r.Value) == `{"state":"RUNNING","trace":null,"worker_id":"`+h.WorkerID()+`","generation":1,"version":"1.0"}` {
				return true
			}
		}
		return false
	})
}

// A topic whose records would be deleted by age is no place for configurations.
func TestAnInternalTopicMustBeCompacted(t *testing.T) {
	l := logtest.New(t)
	if err := l.EnsureTopic(context.Background(), "connect-configs", 1, -1, map[string]string{"cleanup.policy": "delete"}); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, l, Plugins(t))
	if err == nil {
		t.Fatal("a worker starts on a config topic that is not compacted")
	}
	t.Log(err)
}
