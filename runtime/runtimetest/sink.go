package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A Sink remembers what it is given. The fields say how it misbehaves.
type Sink struct {
	// Refuse is asked about each record before it is taken: an error is what Put
	// returns, with the number of records taken before.
	Refuse func(r *schema.Record) error
	// Report is asked about each record: an error is reported as the record's, which
	// then counts as taken.
	Report func(r *schema.Record) error
	// Start is what Open returns.
	Start func(parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error)
	// HoldFlush makes Flush return nothing.
	HoldFlush atomic.Bool
	// Slow is how long a Put of records takes, in nanoseconds. Meanwhile it says that it
	// gets on.
	Slow    atomic.Int64
	Puts    atomic.Int64
	Flushes atomic.Int64
	Empty   atomic.Int64 // puts without records

	mu      sync.Mutex // guards the fields below
	taken   []schema.Record
	opened  []connectors.TopicPartition
	closed  []connectors.TopicPartition
	lost    []connectors.TopicPartition
	overlap bool
}

// NewSink makes a sink that behaves.
func NewSink() *Sink { return &Sink{} }

// Values are the values taken so far, in order.
func (s *Sink) Values() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, len(s.taken))
	for i, r := range s.taken {
		out[i] = textOf(r.Value)
	}
	return out
}

func textOf(v schema.Value) string {
	if v.Kind() == schema.String {
		return v.Str()
	}
	return fmt.Sprint(v)
}

// Records are the records taken so far.
func (s *Sink) Records() []schema.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.taken)
}

// Opened, Closed and Lost are the partitions that were opened, closed in order, and lost.
func (s *Sink) Opened() []connectors.TopicPartition { return s.list(&s.opened) }

// Closed see Opened.
func (s *Sink) Closed() []connectors.TopicPartition { return s.list(&s.closed) }

// Lost see Opened.
func (s *Sink) Lost() []connectors.TopicPartition { return s.list(&s.lost) }

func (s *Sink) list(l *[]connectors.TopicPartition) []connectors.TopicPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(*l)
}

// Overlap reports whether two methods of one task ever ran at once.
func (s *Sink) Overlap() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlap
}

// Plugin is the sink as a plugin of that name.
func (s *Sink) Plugin(name string) connectors.SinkPlugin {
	return connectors.SinkPlugin{
		Info:      plugin.Info{Name: name, Class: "test." + name + "Connector", Version: "1.0", Doc: "Remembers.", Config: config.Define()},
		TaskClass: "test." + name + "Task",
		New: func(_ connectors.Context, v config.Values) (connectors.Sink, error) {
			return copies{v}, nil
		},
		NewTask: func(cc connectors.Context, _ config.Values) (connectors.SinkTask, error) {
			return &rememberingTask{s: s, cc: cc, at: map[connectors.TopicPartition]int64{}}, nil
		},
	}
}

type copies struct{ v config.Values }

// Tasks implements connectors.Sink.
func (c copies) Tasks(_ context.Context, most int) ([]map[string]string, error) {
	out := make([]map[string]string, most)
	for i := range out {
		out[i] = maps.Clone(c.v.Raw)
	}
	return out, nil
}

type rememberingTask struct {
	s    *Sink
	cc   connectors.Context
	at   map[connectors.TopicPartition]int64
	busy atomic.Bool
}

func (t *rememberingTask) enter() func() {
	if t.busy.Swap(true) {
		t.s.mu.Lock()
		t.s.overlap = true
		t.s.mu.Unlock()
	}
	return func() { t.busy.Store(false) }
}

// Open implements connectors.SinkTask.
func (t *rememberingTask) Open(_ context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	defer t.enter()()
	t.s.mu.Lock()
	t.s.opened = append(t.s.opened, parts...)
	t.s.mu.Unlock()
	if t.s.Start != nil {
		return t.s.Start(parts)
	}
	return nil, nil
}

// Put implements connectors.SinkTask.
func (t *rememberingTask) Put(ctx context.Context, records []schema.Record) error {
	defer t.enter()()
	t.s.Puts.Add(1)
	if len(records) == 0 {
		t.s.Empty.Add(1)
	}
	for end := time.Now().Add(time.Duration(t.s.Slow.Load())); len(records) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
			t.cc.Moving()
		}
	}
	for i := range records {
		r := &records[i]
		if t.s.Refuse != nil {
			if err := t.s.Refuse(r); err != nil {
				return &connectors.PutError{Taken: i, Err: err}
			}
		}
		tp := connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}
		t.at[tp] = r.Origin.Offset + 1
		if t.s.Report != nil {
			if cause := t.s.Report(r); cause != nil {
				if err := t.cc.Report(ctx, *r, cause); err != nil {
					return err
				}
				continue
			}
		}
		t.s.mu.Lock()
		t.s.taken = append(t.s.taken, *r)
		t.s.mu.Unlock()
	}
	return nil
}

// Flush implements connectors.SinkTask.
func (t *rememberingTask) Flush(context.Context) (map[connectors.TopicPartition]int64, error) {
	defer t.enter()()
	t.s.Flushes.Add(1)
	if t.s.HoldFlush.Load() {
		return nil, nil
	}
	return maps.Clone(t.at), nil
}

// Close implements connectors.SinkTask.
func (t *rememberingTask) Close(_ context.Context, parts []connectors.TopicPartition, lost bool) error {
	defer t.enter()()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, tp := range parts {
		delete(t.at, tp)
	}
	if lost {
		t.s.lost = append(t.s.lost, parts...)
	} else {
		t.s.closed = append(t.s.closed, parts...)
	}
	return nil
}

// ErrRefused is a refusal that a retry may mend.
var ErrRefused = connectors.Retriable(errors.New("the sink was told to refuse"))
