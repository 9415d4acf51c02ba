package runtimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

// Wait is how long a test waits for what must come about. It is far more than needed.
const Wait = 30 * time.Second

// Until waits for a condition, and fails the test with what says where it stuck.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(Wait); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", Wait, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Plugins are the given ones and all converters.
func Plugins(t testing.TB, list ...plugin.Plugin) *runtime.Plugins {
	t.Helper()
	for _, c := range converters.All() {
		list = append(list, c)
	}
	p, err := runtime.NewPlugins(list...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var ports atomic.Int32

// Worker starts a worker on the log and waits until it is ready. Settings are those
// of a worker on the embedded log, with a fast clock, and what is given. It is closed
// when the test ends.
func Worker(t testing.TB, l *log.Log, p *runtime.Plugins, settings ...string) *herder.Herder {
	t.Helper()
	h := Start(t, l, p, settings...)
	select {
	case <-h.Ready():
	case <-time.After(Wait):
		t.Fatal("the worker is not ready")
	}
	return h
}

// WorkerLogging is Worker with a log of the test's own.
func WorkerLogging(t testing.TB, l *log.Log, p *runtime.Plugins, lg *slog.Logger, settings ...string) *herder.Herder {
	t.Helper()
	h, err := openLogging(t, l, p, lg, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, h) })
	select {
	case <-h.Ready():
	case <-time.After(Wait):
		t.Fatal("the worker is not ready")
	}
	return h
}

// Start is Worker without waiting.
func Start(t testing.TB, l *log.Log, p *runtime.Plugins, settings ...string) *herder.Herder {
	t.Helper()
	h, err := open(t, l, p, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, h) })
	return h
}

func open(t testing.TB, l *log.Log, p *runtime.Plugins, settings ...string) (*herder.Herder, error) {
	t.Helper()
	return openLogging(t, l, p, Logger(t), settings...)
}

func openLogging(t testing.TB, l *log.Log, p *runtime.Plugins, lg *slog.Logger, settings ...string) (*herder.Herder, error) {
	t.Helper()
	own := map[string]string{"offset.flush.interval.ms": "50", "heartbeat.interval.ms": "100"}
	for i := 0; i+1 < len(settings); i += 2 {
		own[settings[i]] = settings[i+1]
	}
	defaults := runtime.StandaloneDefaults()
	// Most tests look at offsets, between which the marks of transactions would stand. Those about
	// exactly-once turn it on themselves.
	defaults["exactly.once.source.support"] = "disabled"
	w, errs := runtime.ParseWorker(runtime.WithDefaults(own, defaults))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	files, err := runtime.NewFileRoots([]string{t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	url := fmt.Sprintf("http://worker-%d:8083/", ports.Add(1))
	h, err := herder.Open(ctx, herder.Config{Log: l, Plugins: p, Worker: w, Files: files, Logger: lg, AdvertisedURL: url, PutTasks: putTasks})
	if err == nil {
		opened.Store(url, h)
	}
	return h, err
}

// opened are the workers by their addresses, for the calls between them.
var opened sync.Map

// putTasks is the leader's API for the workers of tests.
func putTasks(ctx context.Context, url, name string, version int64, body []byte, s runtime.Signature) error {
	h, ok := opened.Load(url)
	if !ok {
		return fmt.Errorf("nobody listens at %s", url)
	}
	var tasks []map[string]string
	if err := json.Unmarshal(body, &tasks); err != nil {
		return err
	}
	return h.(*herder.Herder).PutTasks(ctx, name, version, tasks, body, s)
}

// Close closes a worker, which must not take long.
func Close(t testing.TB, h *herder.Herder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Errorf("close worker: %v", err)
	}
}

// Logger writes to the test's log until the test has ended.
func Logger(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(func() { w.over.Store(true) })
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct {
	t    testing.TB
	over atomic.Bool
}

func (w *testWriter) Write(b []byte) (int, error) {
	if !w.over.Load() {
		w.t.Log(strings.TrimSuffix(string(b), "\n"))
	}
	return len(b), nil
}

// Create makes a connector of the settings.
func Create(t testing.TB, h *herder.Herder, name string, settings ...string) {
	t.Helper()
	conf := map[string]string{}
	for i := 0; i+1 < len(settings); i += 2 {
		conf[settings[i]] = settings[i+1]
	}
	if _, _, err := h.PutConfig(context.Background(), name, conf, "", true); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
}

// State is the state of a connector (task -1) or task, "" where there is none.
func State(h *herder.Herder, name string, task int) runtime.State {
	st, err := h.Status(context.Background(), name)
	if err != nil {
		return ""
	}
	if task < 0 {
		return st.Connector.State
	}
	for _, ts := range st.Tasks {
		if ts.ID == task {
			return ts.State
		}
	}
	return ""
}

// AwaitState waits for a state.
func AwaitState(t testing.TB, h *herder.Herder, name string, task int, want runtime.State) {
	t.Helper()
	Until(t, fmt.Sprintf("%s task %d to be %s (is %s)", name, task, want, State(h, name, task)), func() bool { return State(h, name, task) == want })
}

// Records reads what is in a topic now, in the order of partitions and offsets.
func Records(t testing.TB, l *log.Log, topic string) []*kgo.Record {
	t.Helper()
	return slices.DeleteFunc(read(t, l, topic, kgo.ReadUncommitted()), func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

// Committed is Records without those of transactions that are open or were aborted.
func Committed(t testing.TB, l *log.Log, topic string) []*kgo.Record {
	t.Helper()
	return slices.DeleteFunc(read(t, l, topic, kgo.ReadCommitted()), func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

// Markers are the ends of transactions in a topic: true for a commit, false for an abort.
func Markers(t testing.TB, l *log.Log, topic string) (commits []bool) {
	t.Helper()
	for _, r := range read(t, l, topic, kgo.ReadUncommitted()) {
		if r.Attrs.IsControl() {
			commits = append(commits, len(r.Key) >= 4 && r.Key[3] == 1)
		}
	}
	return commits
}

// read reads a topic with its control records.
func read(t testing.TB, l *log.Log, topic string, level kgo.IsolationLevel) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	// A cluster answers the end of a transaction before its markers are written.
	Until(t, "transactions that are being ended", func() bool {
		ending, err := l.Admin().ListTransactions(ctx, nil, []string{"PrepareCommit", "PrepareAbort"})
		if err != nil {
			t.Fatal(err)
		}
		return len(ending) == 0
	})
	ends, err := l.Admin().ListCommittedOffsets(ctx, topic)
	if level == kgo.ReadUncommitted() {
		ends, err = l.Admin().ListEndOffsets(ctx, topic)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := map[int32]int64{}
	starts, err := l.Admin().ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[int32]kgo.Offset{}
	want := map[int32]int64{}
	for _, e := range ends[topic] {
		s, _ := starts.Lookup(topic, e.Partition)
		if e.Err != nil || e.Offset == s.Offset {
			continue
		}
		parts[e.Partition], want[e.Partition], at[e.Partition] = kgo.NewOffset().At(s.Offset), e.Offset, s.Offset
	}
	if len(parts) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var out []*kgo.Record
	for !maps.EqualFunc(at, want, func(a, b int64) bool { return a >= b }) {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("read topic %s: at %v of %v", topic, at, want)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset < want[r.Partition] {
				out = append(out, r)
			}
			at[r.Partition] = r.Offset + 1
		})
	}
	slices.SortFunc(out, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return out
}
