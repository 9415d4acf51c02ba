package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// roots allows what lies below one folder.
type roots string

func (r roots) Check(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if !strings.HasPrefix(abs, string(r)+"/") {
		return "", fmt.Errorf("%s lies outside the allowed folders (%s)", path, r)
	}
	return abs, nil
}

// tempDir is a folder whose path has no links in it.
func tempDir(tb testing.TB) string {
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// memory is a topic and an offset store: what a source emitted is in both at once.
type memory struct {
	mu      sync.Mutex
	lines   []string
	batches []int // records in each
	offset  schema.Value
	fail    error
	changed chan struct{}
}

func newMemory() *memory { return &memory{changed: make(chan struct{}, 1)} }

func (m *memory) Emit(ctx context.Context, b connectors.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for i, r := range b.Records {
		if r.ValueSchema != schema.StringSchema || !r.Key.IsNull() || r.KeySchema != nil || r.Topic != "lines" || r.Timestamp <= 0 {
			return fmt.Errorf("record %d is %+v", i, r)
		}
		if b.Describe != nil && !strings.HasPrefix(b.Describe(i), "file ") {
			return errors.New("Describe says " + b.Describe(i))
		}
		m.lines = append(m.lines, strings.Clone(r.Value.Str()))
	}
	m.batches = append(m.batches, len(b.Records))
	for _, o := range b.Offsets {
		m.offset = o.Position
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
	return nil
}

func (m *memory) Stored(_ context.Context, partition schema.Value) (schema.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name, ok := partition.Lookup("filename"); !ok || name.Str() == "" || len(partition.Entries()) != 1 {
		return schema.Value{}, errors.New("the source partition is not {\"filename\":…}")
	}
	return m.offset, nil
}

func (m *memory) All(context.Context) ([]connectors.Offset, error) { return nil, nil }

func (m *memory) got() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.lines...)
}

// position is the stored position, -1 where there is none.
func (m *memory) position() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.offset.Lookup("position"); ok {
		return v.Int()
	}
	return -1
}

// waitFor waits until the condition holds for the lines that arrived.
func (m *memory) waitFor(tb testing.TB, what string, ok func(lines []string) bool) {
	tb.Helper()
	end := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		lines := m.got()
		if ok(lines) {
			return
		}
		select {
		case <-m.changed:
		case <-tick.C:
		case <-end:
			tb.Fatalf("%s: not within 30 s; the last of %d lines are %q", what, len(lines), lines[max(0, len(lines)-5):])
		}
	}
}

func count(n int) func([]string) bool { return func(l []string) bool { return len(l) >= n } }

// running is a source task that runs.
type running struct {
	tb   testing.TB
	stop context.CancelFunc
	done chan error
	over bool
}

func startSource(tb testing.TB, m *memory, root string, conf map[string]string) *running {
	tb.Helper()
	v, errs := Source.Config.Parse(conf)
	if len(errs) > 0 {
		tb.Fatal(errs)
	}
	task, err := Source.NewTask(connectors.Context{Connector: "c", Log: quiet(), Files: roots(root), Offsets: m}, v)
	if err != nil {
		tb.Fatal(err)
	}
	task.(*sourceTask).times = times{poll: 2 * time.Millisecond, grace: 30 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{tb: tb, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- task.Run(ctx, m) }()
	tb.Cleanup(cancel)
	return r
}

// end stops the task and fails the test where it did not end well.
func (r *running) end() {
	r.tb.Helper()
	if r.over {
		return
	}
	r.over = true
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			r.tb.Fatalf("the task failed: %v", err)
		}
	case <-time.After(30 * time.Second):
		r.tb.Fatal("the task does not end")
	}
}

// fails waits for the task's own end and returns why.
func (r *running) fails() error {
	r.tb.Helper()
	select {
	case err := <-r.done:
		if err == nil {
			r.tb.Fatal("the task ended without an error")
		}
		return err
	case <-time.After(30 * time.Second):
		r.tb.Fatal("the task does not fail")
	}
	return nil
}
