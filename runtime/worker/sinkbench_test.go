package worker

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/store"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

// counting takes records and remembers where it is.
type counting struct {
	n  *atomic.Int64
	at map[connectors.TopicPartition]int64
}

func (c *counting) Open(context.Context, []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	return nil, nil
}

func (c *counting) Put(_ context.Context, rs []schema.Record) error {
	if len(rs) > 0 {
		o := rs[len(rs)-1].Origin
		c.at[connectors.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.Offset + 1
		c.n.Add(int64(len(rs)))
	}
	return nil
}

func (c *counting) Flush(context.Context) (map[connectors.TopicPartition]int64, error) {
	return c.at, nil
}
func (c *counting) Close(context.Context, []connectors.TopicPartition, bool) error { return nil }

// BenchmarkSinkPipeline carries records of 950 bytes of JSON from a log in memory into
// a sink; ns/op is a record's whole way.
func BenchmarkSinkPipeline(b *testing.B) {
	l := logtest.New(b)
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		b.Fatal(err)
	}
	value := []byte(`{"id":1,"name":"` + strings.Repeat("x", 900) + `","n":12.5}`)
	for range b.N {
		cl.Produce(b.Context(), &kgo.Record{Topic: "flood", Key: []byte(`{"id":1}`), Value: value, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("b")}}}, nil)
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	cl.Close()
	lg := slog.New(slog.DiscardHandler)
	offsets, err := store.OpenOffsets(b.Context(), l, runtime.InternalTopic{Name: "connect-offsets", Partitions: 1, Replication: -1}, lg)
	if err != nil {
		b.Fatal(err)
	}
	defer offsets.Close()
	var n atomic.Int64
	list := []plugin.Plugin{connectors.SinkPlugin{
		Info: plugin.Info{Name: "count"},
		NewTask: func(connectors.Context, config.Values) (connectors.SinkTask, error) {
			return &counting{&n, map[connectors.TopicPartition]int64{}}, nil
		},
	}}
	for _, c := range converters.All() {
		list = append(list, c)
	}
	plugins, err := runtime.NewPlugins(list...)
	if err != nil {
		b.Fatal(err)
	}
	settings, errs := runtime.ParseWorker(runtime.StandaloneDefaults())
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	w := New(Config{Log: l, Plugins: plugins, Worker: settings, Offsets: offsets, Logger: lg})
	b.SetBytes(950)
	b.ReportAllocs()
	b.ResetTimer()
	raw := map[string]string{"name": "count", "connector.class": "count", "topics": "flood"}
	task := w.Start(TaskSpec{ID: runtime.TaskID{Connector: "count"}, Connector: raw, Task: raw, State: func(_ *Task, _ runtime.State, err error) {
		if err != nil {
			b.Error(err)
		}
	}})
	eventually(b, "all is in the sink", func() bool { return n.Load() == int64(b.N) })
	b.StopTimer()
	StopAll([]*Task{task}, time.Second)
}
