package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/store"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

// The tests' source emits numbered records, from its stored offset on.
type numbers struct {
	cc   connectors.Context
	v    config.Values
	mu   sync.Mutex
	told int64
}

var (
	countKey = config.Key[int64]{Name: "count", Doc: "Records to emit, then wait."}
	topicKey = config.Key[string]{Name: "topic", Doc: "Topic.", Default: "numbers"}
	modeKey  = config.Key[string]{Name: "mode", Doc: "How it misbehaves.", EmptyDefault: true}
)

func partition() schema.Value {
	return schema.MapValue([]schema.Entry{{Key: schema.StringValue("source"), Value: schema.StringValue("numbers")}})
}

func at(n int64) schema.Value {
	return schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.Int64Value(n)}})
}

func (s *numbers) Tasks(context.Context, int) ([]map[string]string, error) {
	return []map[string]string{s.v.Raw}, nil
}

func (s *numbers) Run(ctx context.Context, out connectors.Out) error {
	from := int64(0)
	stored, err := s.cc.Offsets.Stored(ctx, partition())
	if err != nil {
		return err
	}
	if n, ok := stored.Lookup("n"); ok {
		from = n.Int()
	}
	for n := from; n < countKey.Get(s.v); {
		var b connectors.Batch
		for ; len(b.Records) < 100 && n < countKey.Get(s.v); n++ {
			v := schema.Int64Value(n)
			if modeKey.Get(s.v) == "bad" && n%10 == 3 {
				v = schema.ArrayValue([]schema.Value{schema.StructValue(schema.NewStruct("").Build(), nil)})
			}
			b.Records = append(b.Records, schema.Record{Topic: topicKey.Get(s.v), Partition: schema.NoPartition, Timestamp: 5,
				KeySchema: schema.StringSchema, Key: schema.StringValue(fmt.Sprint(n)), ValueSchema: schema.Int64Schema, Value: v})
		}
		b.Offsets = []connectors.Offset{{Partition: partition(), Position: at(n)}}
		if err := out.Emit(ctx, b); err != nil {
			return err
		}
	}
	switch modeKey.Get(s.v) {
	case "panic":
		panic("as the test wants it")
	case "fail":
		return connectors.Retriable(errors.New("as the test wants it"))
	case "deaf":
		select {}
	}
	<-ctx.Done()
	return nil
}

func (s *numbers) Commit(_ context.Context, done []connectors.Offset) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range done {
		n, _ := o.Position.Lookup("n")
		s.told = n.Int()
	}
	return nil
}

// The tests' sink remembers what it took.
type memory struct {
	mu      sync.Mutex
	got     []string
	offsets map[connectors.TopicPartition]int64
	refuse  string // a value that is reported
	again   int    // Puts that fail with a retriable error
	down    error  // what every Put fails with
	cc      connectors.Context
}

func (m *memory) Open(context.Context, []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	return nil, nil
}

func (m *memory) Put(ctx context.Context, records []schema.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down != nil && len(records) > 0 {
		return &connectors.PutError{Err: m.down}
	}
	for i, r := range records {
		if m.again > 0 && i == 2 {
			m.again--
			return &connectors.PutError{Taken: i, Err: connectors.Retriable(errors.New("not now"))}
		}
		text := fmt.Sprint(r.Value.Int())
		if r.Value.Kind() == schema.String {
			text = r.Value.Str()
		}
		if text == m.refuse {
			if err := m.cc.Report(ctx, r, errors.New("the target refuses it")); err != nil {
				return err
			}
		} else {
			m.got = append(m.got, text)
		}
		if m.offsets == nil {
			m.offsets = map[connectors.TopicPartition]int64{}
		}
		m.offsets[connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}] = r.Origin.Offset + 1
	}
	return nil
}

func (m *memory) Flush(context.Context) (map[connectors.TopicPartition]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.offsets
	m.offsets = nil
	return out, nil
}

func (m *memory) Close(context.Context, []connectors.TopicPartition, bool) error { return nil }

func (m *memory) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.got...)
}

// bench is a worker on a log in memory, with the tests' connectors.
type bench struct {
	*Worker
	log    *log.Log
	sink   *memory
	source *numbers // the last that was made
	mu     sync.Mutex
	events []event
	tasks  map[runtime.TaskID]*Task
}

type event struct {
	id    runtime.TaskID
	state runtime.State
	err   error
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{log: logtest.New(t), sink: &memory{}, tasks: map[runtime.TaskID]*Task{}}
	lg := slog.New(slog.DiscardHandler)
	offsets, err := store.OpenOffsets(t.Context(), b.log, runtime.InternalTopic{Name: "connect-offsets", Partitions: 1, Replication: -1}, lg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(offsets.Close)
	list := []plugin.Plugin{
		connectors.SourcePlugin{
			Info: plugin.Info{Name: "numbers", Config: config.Define(countKey, topicKey, modeKey)},
			New: func(cc connectors.Context, v config.Values) (connectors.Source, error) {
				return &numbers{cc: cc, v: v}, nil
			},
			NewTask: func(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
				n := &numbers{cc: cc, v: v}
				b.mu.Lock()
				defer b.mu.Unlock()
				b.source = n
				return n, nil
			},
		},
		connectors.SinkPlugin{
			Info: plugin.Info{Name: "memory"},
			NewTask: func(cc connectors.Context, _ config.Values) (connectors.SinkTask, error) {
				b.sink.cc = cc
				return b.sink, nil
			},
		},
	}
	for _, c := range converters.All() {
		list = append(list, c)
	}
	plugins, err := runtime.NewPlugins(list...)
	if err != nil {
		t.Fatal(err)
	}
	settings, errs := runtime.ParseWorker(runtime.WithDefaults(map[string]string{"offset.flush.interval.ms": "20", "task.shutdown.graceful.timeout.ms": "2000"}, runtime.StandaloneDefaults()))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b.Worker = New(Config{Log: b.log, Plugins: plugins, Worker: settings, Offsets: offsets, Logger: lg})
	t.Cleanup(func() { StopAll(slices.Collect(maps.Values(b.tasks)), 2*time.Second) })
	return b
}

func (b *bench) start(name string, raw map[string]string) runtime.TaskID {
	id := runtime.TaskID{Connector: name}
	raw["name"] = name
	b.tasks[id] = b.Start(TaskSpec{ID: id, Connector: raw, Task: raw, State: func(_ *Task, s runtime.State, err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, event{id, s, err})
	}})
	return id
}

func (b *bench) stop(id runtime.TaskID) { StopAll([]*Task{b.tasks[id]}, b.cfg.Worker.TaskGrace) }

func (b *bench) failure(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.id.Connector == name && e.state == runtime.Failed {
			return e.err
		}
	}
	return nil
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
	}
}

func (b *bench) topic(t testing.TB, topic string, atLeast int) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(append(b.log.ClientOpts(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < atLeast {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("topic %s has %d records, want %d", topic, len(out), atLeast)
		}
		out = append(out, f.Records()...)
	}
	return out
}

func TestASourcesRecordsAndOffsetsReachTheLog(t *testing.T) {
	b := newBench(t)
	id := b.start("src", map[string]string{"connector.class": "numbers", "count": "1000"})
	got := b.topic(t, "numbers", 1000)
	for i, r := range got {
		if string(r.Value) != fmt.Sprint(i) || string(r.Key) != fmt.Sprintf(`"%d"`, i) || r.Timestamp.UnixMilli() != 5 {
			t.Fatalf("record %d: key %s, value %s, timestamp %v", i, r.Key, r.Value, r.Timestamp)
		}
	}
	eventually(t, "the source is told of its offset", func() bool {
		b.mu.Lock()
		source := b.source
		b.mu.Unlock()
		source.mu.Lock()
		defer source.mu.Unlock()
		return source.told == 1000
	})
	b.stop(id)
	b.start("src", map[string]string{"connector.class": "numbers", "count": "1010"})
	if got := b.topic(t, "numbers", 1010); len(got) != 1010 {
		t.Errorf("%d records after a restart, want 1010: the offset was not honoured", len(got))
	}
}

func TestASinkTakesRecordsAndCommits(t *testing.T) {
	b := newBench(t)
	b.sink.again = 2
	b.start("src", map[string]string{"connector.class": "numbers", "count": "500"})
	id := b.start("snk", map[string]string{"connector.class": "memory", "topics": "numbers"})
	eventually(t, "all records are in the sink", func() bool { return len(b.sink.taken()) == 500 })
	for i, v := range b.sink.taken() {
		if v != fmt.Sprint(i) {
			t.Fatalf("record %d: %s", i, v)
		}
	}
	committed := func() int64 {
		offsets, err := b.log.Admin().FetchOffsets(t.Context(), "connect-snk")
		if err != nil {
			return -1
		}
		o, _ := offsets.Lookup("numbers", 0)
		return o.At
	}
	eventually(t, "the offset is committed", func() bool { return committed() == 500 })
	b.stop(id)
	b.start("src2", map[string]string{"connector.class": "numbers", "count": "10"})
	b.start("snk", map[string]string{"connector.class": "memory", "topics": "numbers"})
	eventually(t, "new records alone come after a restart", func() bool { return len(b.sink.taken()) >= 510 })
	if n := len(b.sink.taken()); n != 510 {
		t.Errorf("%d records, want 510", n)
	}
}

func TestAPausedTaskHoldsItsRecordsBack(t *testing.T) {
	b := newBench(t)
	id := runtime.TaskID{Connector: "snk"}
	b.start("src", map[string]string{"connector.class": "numbers", "count": "10"})
	b.start("snk", map[string]string{"connector.class": "memory", "topics": "numbers"})
	eventually(t, "the first records come", func() bool { return len(b.sink.taken()) == 10 })
	b.tasks[id].SetPaused(true)
	time.Sleep(1500 * time.Millisecond) // a poll that had begun before may last a second and still bring something
	b.start("src2", map[string]string{"connector.class": "numbers", "count": "5"})
	b.topic(t, "numbers", 15)
	time.Sleep(300 * time.Millisecond)
	if n := len(b.sink.taken()); n != 10 {
		t.Errorf("%d records while paused, want 10", n)
	}
	b.tasks[id].SetPaused(false)
	eventually(t, "the others come", func() bool { return len(b.sink.taken()) == 15 })
}

func TestATaskThatFailsSaysWhyAndNeighboursGoOn(t *testing.T) {
	b := newBench(t)
	b.start("good", map[string]string{"connector.class": "numbers", "count": "100", "topic": "good"})
	b.start("panics", map[string]string{"connector.class": "numbers", "count": "10", "mode": "panic"})
	b.start("fails", map[string]string{"connector.class": "numbers", "count": "10", "mode": "fail", "topic": "fails"})
	eventually(t, "both have failed", func() bool { return b.failure("panics") != nil && b.failure("fails") != nil })
	if err := b.failure("panics"); !strings.Contains(err.Error(), "as the test wants it") || !strings.Contains(err.Error(), "panic") {
		t.Errorf("panic: %v", err)
	}
	if err := b.failure("fails"); !connectors.IsRetriable(err) {
		t.Errorf("the mark of the source's error is lost: %v", err)
	}
	if got := b.topic(t, "fails", 10); len(got) != 10 {
		t.Errorf("what was emitted before the failure: %d records, want 10", len(got))
	}
	b.topic(t, "good", 100)
	if err := b.failure("good"); err != nil {
		t.Errorf("the neighbour failed: %v", err)
	}
}

func TestASourceThatIgnoresItsContextIsCutOff(t *testing.T) {
	b := newBench(t)
	b.cfg.Worker.TaskGrace = 100 * time.Millisecond
	id := b.start("deaf", map[string]string{"connector.class": "numbers", "count": "10", "mode": "deaf"})
	b.topic(t, "numbers", 10)
	begun := time.Now()
	b.stop(id)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("stop took %v", took)
	}
}

func TestRecordsThatFailAreSkippedOrEndTheTask(t *testing.T) {
	b := newBench(t)
	b.start("strict", map[string]string{"connector.class": "numbers", "count": "10", "mode": "bad", "topic": "strict"})
	eventually(t, "the strict one has failed", func() bool { return b.failure("strict") != nil })
	b.start("lenient", map[string]string{"connector.class": "numbers", "count": "100", "mode": "bad", "topic": "lenient", "errors.tolerance": "all"})
	if got := b.topic(t, "lenient", 90); len(got) != 90 {
		t.Errorf("%d records, want 90", len(got))
	}
	b.sink.refuse = "7"
	b.start("snk", map[string]string{"connector.class": "memory", "topics": "lenient", "errors.tolerance": "all",
		"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.context.headers.enable": "true"})
	dead := b.topic(t, "dead", 1)
	if string(dead[0].Value) != "7" || len(dead[0].Headers) != 10 {
		t.Errorf("dead letter: value %s, headers %v", dead[0].Value, dead[0].Headers)
	}
	eventually(t, "the others are in the sink", func() bool { return len(b.sink.taken()) == 89 })
}

func TestASinkWhoseTargetStaysAwayFailsVisibly(t *testing.T) {
	gone := &connectors.Reason{Code: "memory.gone", Retry: connectors.RetryHelps}
	for _, c := range []struct {
		name string
		err  error
	}{
		{"with a declared reason, at once", connectors.Failed(gone, nil, "the target is gone", "start it")},
		{"without one, after some tries", connectors.Retriable(errors.New("not now"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.sink.down = c.err
			b.start("src", map[string]string{"connector.class": "numbers", "count": "10"})
			b.start("snk", map[string]string{"connector.class": "memory", "topics": "numbers"})
			eventually(t, "the task has failed", func() bool { return b.failure("snk") != nil })
			if err := b.failure("snk"); !errors.Is(err, c.err) && connectors.FailureOf(err) == nil || !connectors.IsRetriable(err) {
				t.Errorf("failed with %v, want the sink's own error, which a restart may mend", err)
			}
			offsets, err := b.log.Admin().FetchOffsets(t.Context(), "connect-snk")
			if o, ok := offsets.Lookup("numbers", 0); err == nil && ok && o.At > 0 {
				t.Errorf("offset %d is committed, though nothing was taken", o.At)
			}
		})
	}
}
