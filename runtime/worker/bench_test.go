package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/store"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

// flood emits records of about 950 bytes as fast as they are taken.
type flood struct{ n int }

func (f *flood) Run(ctx context.Context, out connectors.Out) error {
	value := schema.StringValue(strings.Repeat("x", 940))
	headers := []schema.Header{{Key: "a", Schema: schema.StringSchema, Value: schema.StringValue("b")}}
	for sent := 0; sent < f.n; {
		b := connectors.Batch{Records: make([]schema.Record, 0, 1000), Offsets: []connectors.Offset{{Partition: partition(), Position: at(int64(sent))}}}
		for ; len(b.Records) < 1000 && sent < f.n; sent++ {
			b.Records = append(b.Records, schema.Record{Topic: "flood", Partition: schema.NoPartition, Timestamp: 5, Key: schema.StringValue("key"), Value: value, Headers: headers})
		}
		if err := out.Emit(ctx, b); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (f *flood) Commit(context.Context, []connectors.Offset) error { return nil }

// BenchmarkSourcePipeline carries records of 950 bytes through a task into an
// embedded log on disk, synced; ns/op is a record's whole way.
func BenchmarkSourcePipeline(b *testing.B) {
	for _, support := range []string{"enabled", "disabled"} {
		b.Run("exactly.once="+support, func(b *testing.B) { benchmarkSource(b, support) })
	}
}

func benchmarkSource(b *testing.B, support string) {
	l, err := log.Open(b.Context(), log.Config{DataDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	lg := slog.New(slog.DiscardHandler)
	offsets, err := store.OpenOffsets(b.Context(), l, runtime.InternalTopic{Name: "connect-offsets", Partitions: 1, Replication: -1}, lg)
	if err != nil {
		b.Fatal(err)
	}
	defer offsets.Close()
	list := []plugin.Plugin{connectors.SourcePlugin{
		Info:    plugin.Info{Name: "flood"},
		NewTask: func(connectors.Context, config.Values) (connectors.SourceTask, error) { return &flood{b.N}, nil },
	}}
	for _, c := range converters.All() {
		list = append(list, c)
	}
	plugins, err := runtime.NewPlugins(list...)
	if err != nil {
		b.Fatal(err)
	}
	settings, errs := runtime.ParseWorker(runtime.WithDefaults(map[string]string{"exactly.once.source.support": support}, runtime.StandaloneDefaults()))
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	w := New(Config{Log: l, Plugins: plugins, Worker: settings, Offsets: offsets, Logger: lg})
	b.SetBytes(950)
	b.ReportAllocs()
	b.ResetTimer()
	raw := map[string]string{"name": "flood", "connector.class": "flood"}
	id := runtime.TaskID{Connector: "flood"}
	task := w.Start(TaskSpec{ID: id, Connector: raw, Task: raw, State: func(_ *Task, _ runtime.State, err error) {
		if err != nil {
			b.Error(err)
		}
	}})
	eventually(b, "all is in the log", func() bool {
		ends, err := l.Admin().ListEndOffsets(b.Context(), "flood")
		if err != nil {
			return false
		}
		end, _ := ends.Lookup("flood", 0)
		return end.Offset >= int64(b.N)
	})
	b.StopTimer()
	StopAll([]*Task{task}, time.Second)
}
