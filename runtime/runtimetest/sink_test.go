package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/schema"
)

// produce writes records and waits for them.
func produce(t testing.TB, l *log.Log, rs ...*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// texts are JSON strings "0" to "n-1" for a topic's partition.
func texts(topic string, partition int32, from, n int) []*kgo.Record {
	out := make([]*kgo.Record, n)
	for i := range out {
		out[i] = &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, `"%d"`, from+i)}
	}
	return out
}

func makeTopic(t testing.TB, l *log.Log, topic string, partitions int32) {
	t.Helper()
	if err := l.EnsureTopic(context.Background(), topic, partitions, -1, nil); err != nil {
		t.Fatal(err)
	}
}

// committed is a sink's committed offset, -1 for none.
func committed(t testing.TB, h *herder.Herder, name, topic string, partition int64) int64 {
	t.Helper()
	offsets, err := h.Offsets(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offsets {
		tp, _ := o.Partition.Lookup("kafka_topic")
		p, _ := o.Partition.Lookup("kafka_partition")
		at, _ := o.Offset.Lookup("kafka_offset")
		if tp.Str() == topic && p.Int() == partition {
			return at.Int()
		}
	}
	return -1
}

func TestASinkRedeliversWhatWasNotTaken(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 1)
	sink := NewSink()
	refused := 0
	sink.Refuse = func(r *schema.Record) error {
		if r.Value.Str() == "5" && refused < 3 {
			refused++
			return ErrRefused
		}
		return nil
	}
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	produce(t, l, texts("n", 0, 0, 10)...)
	Create(t, h, "m", "connector.class", "Memory", "topics", "n")
	Until(t, "all records", func() bool { return len(sink.Values()) >= 10 })
	for i, v := range sink.Values() {
		if v != fmt.Sprint(i) {
			t.Fatalf("record %d is %s: %v", i, v, sink.Values())
		}
	}
	if refused != 3 {
		t.Errorf("refused %d times", refused)
	}
	Until(t, "the commit", func() bool { return committed(t, h, "m", "n", 0) == 10 })
	Until(t, "an empty batch when nothing comes", func() bool { return sink.Empty.Load() > 0 })
}

func TestASinkCommitsOnlyWhatIsFlushed(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 1)
	sink := NewSink()
	sink.HoldFlush.Store(true)
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	produce(t, l, texts("n", 0, 0, 10)...)
	Create(t, h, "m", "connector.class", "Memory", "topics", "n")
	Until(t, "all records", func() bool { return len(sink.Values()) == 10 })
	flushes := sink.Flushes.Load()
	Until(t, "some commits", func() bool { return sink.Flushes.Load() > flushes+2 })
	if at := committed(t, h, "m", "n", 0); at > 0 {
		t.Fatalf("offset %d is committed, nothing was flushed", at)
	}
	// What was not flushed comes again.
	if err := h.RestartTask(context.Background(), runtime.TaskID{Connector: "m"}); err != nil {
		t.Fatal(err)
	}
	Until(t, "all records again", func() bool { return len(sink.Values()) == 20 })
	sink.HoldFlush.Store(false)
	Until(t, "the commit", func() bool { return committed(t, h, "m", "n", 0) == 10 })
	if err := h.RestartTask(context.Background(), runtime.TaskID{Connector: "m"}); err != nil {
		t.Fatal(err)
	}
	produce(t, l, texts("n", 0, 10, 1)...)
	Until(t, "the new record", func() bool { return slices.Contains(sink.Values(), "10") })
	if n := len(sink.Values()); n != 21 {
		t.Errorf("%d records, want 21", n)
	}
}

// Records that no sink sees, because they are filtered or dead letters, do not hold
// the commit back.
func TestSkippedRecordsAreCommittedOver(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 1)
	sink := NewSink()
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	bad := func() *kgo.Record { return &kgo.Record{Topic: "n", Value: []byte("not json")} } // of each its own: the client writes into them
	produce(t, l, append(texts("n", 0, 0, 2), bad(), bad())...)
	Create(t, h, "m", "connector.class", "Memory", "topics", "n", "errors.tolerance", "all")
	Until(t, "the commit", func() bool { return committed(t, h, "m", "n", 0) == 4 })
	if got := sink.Values(); !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("taken: %v", got)
	}
}

// worker-log/2 and 3: without tolerance the task fails and the offset stays before
// the record; with it the record goes to the dead-letter topic as it was read, and
// says what failed.
func TestDeadLetters(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 1)
	sink := NewSink()
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	stamp := time.UnixMilli(1700000000123)
	large := []byte(`{"open": "` + strings.Repeat("x", 900<<10))
	bad := []*kgo.Record{
		{Topic: "n", Value: []byte("not json"), Timestamp: stamp},
		{Topic: "n", Key: []byte("\x00\x01"), Value: []byte(`"fine"`), Timestamp: stamp,
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "null", Value: nil}}},
		{Topic: "n", Value: large, Timestamp: stamp},
	}
	produce(t, l, append(texts("n", 0, 0, 1), bad...)...)
	conf := []string{"connector.class", "Memory", "topics", "n", "key.converter", "org.apache.kafka.connect.json.JsonConverter",
		"key.converter.schemas.enable", "false", "auto.restart", "false",
		"errors.deadletterqueue.topic.name", "dead", "errors.deadletterqueue.context.headers.enable", "true"}
	Create(t, h, "m", conf...)
	AwaitState(t, h, "m", 0, runtime.Failed)
	st, _ := h.Status(context.Background(), "m")
	if trace := st.Tasks[0].Trace; !strings.Contains(trace, "topic n, partition 0, offset 1") || !strings.Contains(trace, "VALUE_CONVERTER") {
		t.Errorf("trace %q does not say where and what", trace)
	}
	if at := committed(t, h, "m", "n", 0); at > 1 {
		t.Errorf("offset %d is committed behind the record that failed", at)
	}
	if topics, _ := l.Admin().ListTopics(context.Background(), "dead"); topics["dead"].Err == nil {
		t.Error("a dead letter without tolerance")
	}

	Create(t, h, "m", append(conf, "errors.tolerance", "all")...)
	Until(t, "the commit", func() bool { return committed(t, h, "m", "n", 0) == 4 })
	letters := Records(t, l, "dead")
	if len(letters) != 3 {
		t.Fatalf("%d dead letters, want 3", len(letters))
	}
	for i, r := range letters {
		want := bad[i]
		if string(r.Key) != string(want.Key) || (r.Key == nil) != (want.Key == nil) || string(r.Value) != string(want.Value) || !r.Timestamp.Equal(stamp) {
			t.Errorf("letter %d: key %q, %d bytes of value, time %v", i, r.Key, len(r.Value), r.Timestamp)
		}
		for j, hd := range want.Headers {
			if r.Headers[j].Key != hd.Key || string(r.Headers[j].Value) != string(hd.Value) || (r.Headers[j].Value == nil) != (hd.Value == nil) {
				t.Errorf("letter %d: header %d is %+v, want %+v", i, j, r.Headers[j], hd)
			}
		}
		got := map[string]string{}
		for _, hd := range r.Headers[len(want.Headers):] {
			got[strings.TrimPrefix(hd.Key, "__connect.errors.")] = string(hd.Value)
		}
		stage := "VALUE_CONVERTER"
		if i == 1 {
			stage = "KEY_CONVERTER"
		}
		for k, v := range map[string]string{"topic": "n", "partition": "0", "offset": fmt.Sprint(i + 1), "connector.name": "m", "task.id": "0", "stage": stage,
			"class.name": "org.apache.kafka.connect.json.JsonConverter", "exception.class.name": "org.apache.kafka.connect.errors.DataException"} {
			if got[k] != v {
				t.Errorf("letter %d: %s is %q, want %q", i, k, got[k], v)
			}
		}
		if len(got) != 10 || got["exception.message"] == "" || got["exception.stacktrace"] == "" {
			t.Errorf("letter %d: headers %v", i, got)
		}
	}
}

// A letter that its topic cannot take is logged and counted: no endless loop.
func TestADeadLetterThatIsTooLarge(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 1)
	if err := l.EnsureTopic(context.Background(), "dead", 1, -1, map[string]string{"max.message.bytes": "1000"}); err != nil {
		t.Fatal(err)
	}
	h := Worker(t, l, Plugins(t, NewSink().Plugin("Memory")))
	produce(t, l, &kgo.Record{Topic: "n", Value: []byte("no json " + strings.Repeat("x", 5000))}, &kgo.Record{Topic: "n", Value: []byte("nor this")})
	Create(t, h, "m", "connector.class", "Memory", "topics", "n", "errors.tolerance", "all", "errors.deadletterqueue.topic.name", "dead")
	Until(t, "the commit", func() bool { return committed(t, h, "m", "n", 0) == 2 })
	if n := len(Records(t, l, "dead")); n != 1 {
		t.Errorf("%d dead letters, want the small one", n)
	}
	if State(h, "m", 0) != runtime.Running {
		t.Error("the task failed")
	}
}

// worker-log/4: retention passes the consumer, or the log ends before the committed offset. Both are decided by
// auto.offset.reset, and never in silence.
func TestRetentionPassesTheConsumer(t *testing.T) {
	const passed, cut = "retention took 100-499", "the committed offset lies behind the end"
	for _, c := range []struct {
		what, reset string
		first       int    // the first record that comes; negative: the task fails
		said        string // in the worker's log, or in the failed task's trace
	}{
		{passed, "earliest", 500, `msg="records are gone before they were read" connector=m task=0 topic=n partition=0 lost=100-499 continues=500`},
		{passed, "latest", 600, `msg="records are gone before they were read" connector=m task=0 topic=n partition=0 lost=100-599 continues=600`},
		{passed, "none", -1, "records 100-499 of n-0 are gone before they were read (retention), and auto.offset.reset is none"},
		{cut, "earliest", 0, `msg="the committed offset lies behind the end of the log, which lost records or was made anew" connector=m task=0 topic=n partition=0 committed=100 end=50 continues=0`},
		{cut, "latest", 50, `msg="the committed offset lies behind the end of the log, which lost records or was made anew" connector=m task=0 topic=n partition=0 committed=100 end=50 continues=50`},
		{cut, "none", -1, "the committed offset 100 of n-0 lies behind the end 50 of the log"},
	} {
		t.Run(c.what+", reset "+c.reset, func(t *testing.T) {
			ctx := context.Background()
			l := logtest.New(t)
			makeTopic(t, l, "n", 1)
			sink := NewSink()
			said := &listener{TB: t}
			h := Worker(said, l, Plugins(t, sink.Plugin("Memory")))
			produce(t, l, texts("n", 0, 0, 100)...)
			Create(t, h, "m", "connector.class", "Memory", "topics", "n", "auto.restart", "false")
			Until(t, "the commit", func() bool { return committed(t, h, "m", "n", 0) == 100 })
			if err := h.SetTargetState(ctx, "m", runtime.StoppedTarget); err != nil {
				t.Fatal(err)
			}
			AwaitState(t, h, "m", -1, runtime.Stopped)
			Until(t, "the task to be gone", func() bool { return State(h, "m", 0) == "" && groupEmpty(t, l, "connect-m") })
			end := 600
			if c.what == passed {
				produce(t, l, texts("n", 0, 100, 500)...)
				offsets := kadm.Offsets{}
				offsets.AddOffset("n", 0, 500, -1)
				if _, err := l.Admin().DeleteRecords(ctx, offsets); err != nil {
					t.Fatal(err)
				}
			} else {
				// As after a loss that the log could not help: a topic of that name, shorter than what was committed.
				if _, err := l.Admin().DeleteTopics(ctx, "n"); err != nil {
					t.Fatal(err)
				}
				makeTopic(t, l, "n", 1)
				produce(t, l, texts("n", 0, 0, 50)...)
				commitAt(t, l, "connect-m", "n", 100)
				end = 50
			}
			Create(t, h, "m", "connector.class", "Memory", "topics", "n", "auto.restart", "false", "consumer.override.auto.offset.reset", c.reset)
			before := len(sink.Values())
			if err := h.SetTargetState(ctx, "m", runtime.Started); err != nil {
				t.Fatal(err)
			}
			if c.first < 0 {
				AwaitState(t, h, "m", 0, runtime.Failed)
				st, _ := h.Status(ctx, "m")
				if !strings.Contains(st.Tasks[0].Trace, c.said) {
					t.Errorf("trace %q does not say %q", st.Tasks[0].Trace, c.said)
				}
				if at := committed(t, h, "m", "n", 0); at != 100 {
					t.Errorf("a task that failed moved the committed offset to %d", at)
				}
				return
			}
			Until(t, "what is said", func() bool { return strings.Contains(said.String(), c.said) })
			Until(t, "the new position", func() bool { return committed(t, h, "m", "n", 0) == int64(end) })
			produce(t, l, texts("n", 0, end, 1)...)
			Until(t, "the next record", func() bool { return slices.Contains(sink.Values()[before:], fmt.Sprint(end)) })
			if got := sink.Values()[before]; got != fmt.Sprint(c.first) {
				t.Errorf("it goes on with %s, want %d", got, c.first)
			}
			if n := strings.Count(said.String(), c.said); n != 1 {
				t.Errorf("said %d times:\n%s", n, said.String())
			}
		})
	}
}

// Records that the disk lost are a failure with a name, not a task that waits for ever: clients take the broker's answer
// for something that passes.
func TestDamagedRecordsFailTheTask(t *testing.T) {
	ctx := context.Background()
	disk := logtest.NewDisk()
	l := disk.Open(t, func(c *log.Config) { c.Limits.ScrubRate = 1 << 30 })
	if err := l.EnsureTopic(ctx, "n", 1, 1, map[string]string{"segment.bytes": "1024"}); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		produce(t, l, texts("n", 0, i, 1)...)
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	disk.Damage(t, "n", 0, 20)
	l = disk.Open(t, func(c *log.Config) { c.Limits.ScrubRate = 1 << 30 })
	const file = "offsets 20 to 20 of n-0 are damaged (/log/n-0/000000000000000000"
	Until(t, "the scrub", func() bool { return strings.Contains(l.Health(ctx).Message, file) })
	if s := l.Health(ctx).State; s != log.Yellow {
		t.Errorf("health is %s", s)
	}
	sink := NewSink()
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	Create(t, h, "m", "connector.class", "Memory", "topics", "n", "auto.restart", "false")
	AwaitState(t, h, "m", 0, runtime.Failed)
	st, _ := h.Status(ctx, "m")
	if got := st.Tasks[0].Trace; !strings.Contains(got, "records of n-0 from offset 20 on are damaged") {
		t.Errorf("trace %q", got)
	}
	if n := len(sink.Values()); n != 20 {
		t.Errorf("%d records came, want the 20 before the range", n)
	}
	// Its offset behind the range, and it goes on.
	if err := h.SetTargetState(ctx, "m", runtime.StoppedTarget); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "m", -1, runtime.Stopped)
	Until(t, "the task to be gone", func() bool { return groupEmpty(t, l, "connect-m") })
	commitAt(t, l, "connect-m", "n", 21)
	if err := h.SetTargetState(ctx, "m", runtime.Started); err != nil {
		t.Fatal(err)
	}
	Until(t, "the rest", func() bool { return committed(t, h, "m", "n", 0) == 60 })
	if n := len(sink.Values()); n != 59 {
		t.Errorf("%d records, want all but one of 60", n)
	}
}

// listener is a test that remembers what is logged to it.
type listener struct {
	testing.TB
	mu sync.Mutex
	b  strings.Builder
}

func (l *listener) Log(args ...any) {
	l.mu.Lock()
	fmt.Fprintln(&l.b, args...)
	l.mu.Unlock()
	l.TB.Log(args...)
}

func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func commitAt(t testing.TB, l *log.Log, group, topic string, offset int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, offset, -1)
	r, err := l.Admin().CommitOffsets(context.Background(), group, offsets)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func groupEmpty(t testing.TB, l *log.Log, group string) bool {
	t.Helper()
	g, err := l.Admin().DescribeGroups(context.Background(), group)
	return err == nil && len(g[group].Members) == 0
}

func TestTasksOfASinkShareItsPartitions(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 4)
	sink := NewSink()
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	Create(t, h, "m", "connector.class", "Memory", "topics.regex", "n|other.*", "tasks.max", "2")
	var rs []*kgo.Record
	for p := range int32(4) {
		rs = append(rs, texts("n", p, 0, 50)...)
	}
	produce(t, l, rs...)
	Until(t, "all records", func() bool { return len(sink.Values()) >= 200 })
	AwaitState(t, h, "m", 1, runtime.Running)
	if len(sink.Values()) != 200 {
		t.Errorf("%d records, want 200: some came twice", len(sink.Values()))
	}
	if len(sink.Lost()) > 0 {
		t.Errorf("lost: %v", sink.Lost())
	}
	if sink.Overlap() {
		t.Error("two methods of one task ran at once")
	}
	// A topic that appears later is found.
	makeTopic(t, l, "other", 1)
	produce(t, l, texts("other", 0, 0, 1)...)
	Until(t, "the other topic's record", func() bool { return len(sink.Values()) > 200 })
	if err := h.Delete(context.Background(), "m"); err != nil {
		t.Fatal(err)
	}
	Until(t, "all partitions to be closed", func() bool { return groupEmpty(t, l, "connect-m") })
}

// A sink that knows better than the group where to start is believed.
func TestASinkMayChooseWhereToStart(t *testing.T) {
	l := logtest.New(t)
	makeTopic(t, l, "n", 1)
	sink := NewSink()
	sink.Start = func(parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
		return map[connectors.TopicPartition]int64{parts[0]: 7}, nil
	}
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	produce(t, l, texts("n", 0, 0, 10)...)
	Create(t, h, "m", "connector.class", "Memory", "topics", "n")
	Until(t, "the records", func() bool { return len(sink.Values()) == 3 })
	if sink.Values()[0] != "7" {
		t.Errorf("%v", sink.Values())
	}
	broken := errors.New("no such directory")
	sink.Start = func([]connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
		return nil, connectors.BadConfig(broken)
	}
	Create(t, h, "b", "connector.class", "Memory", "topics", "n")
	AwaitState(t, h, "b", 0, runtime.Failed)
	if st, _ := h.Status(context.Background(), "b"); st.Tasks[0].Trace != broken.Error() {
		t.Errorf("trace %q", st.Tasks[0].Trace)
	}
}

// A topic that is made after the sink is found soon.
func TestASinkWaitsForItsTopic(t *testing.T) {
	l := logtest.New(t)
	sink := NewSink()
	h := Worker(t, l, Plugins(t, sink.Plugin("Memory")))
	Create(t, h, "m", "connector.class", "Memory", "topics", "later")
	AwaitState(t, h, "m", 0, runtime.Running)
	makeTopic(t, l, "later", 1)
	produce(t, l, texts("later", 0, 0, 1)...)
	begun := time.Now()
	Until(t, "the record", func() bool { return len(sink.Values()) == 1 })
	t.Logf("found after %v", time.Since(begun))
}
