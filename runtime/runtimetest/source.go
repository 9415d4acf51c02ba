package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

var (
	sourceTopic = config.Key[string]{Name: "topic", Doc: "Topic to write to.", Required: true}
	sourceCount = config.Key[int64]{Name: "count", Doc: "How many records there are; 0 for no end.", Default: 0}
	sourceBatch = config.Key[int32]{Name: "batch", Doc: "Records of one batch.", Default: 10}
	sourceTasks = config.Key[int32]{Name: "tasks", Doc: "Tasks to plan, tasks.max at most.", Default: 1}
	sourceValue = config.Key[string]{Name: "value", Doc: "What values begin with.", Default: "v"}
)

// A Source counts: record n of a task has the key "TASK" and the value "vN", and
// moves the source partition {"task":TASK} to {"n":N+1}. The fields say how it
// misbehaves; they are read as it runs, by the numbers of records.
type Source struct {
	// FailAt, PanicAt: the record before which it fails or panics, once for each run; -1 never.
	FailAt, PanicAt atomic.Int64
	// Value, where set before it runs, is the value of record n.
	Value func(n int64) string
	// Keyless makes records without keys.
	Keyless atomic.Bool
	// FailNow makes a run fail before its next batch.
	FailNow atomic.Bool
	// FailTask, where set before it runs, says which tasks fail and panic; all otherwise.
	FailTask func(task int) bool
	// Error is what it fails with.
	Error atomic.Pointer[error]
	// Deaf makes Run ignore its context.
	Deaf atomic.Bool
	// Pause is the time between two batches, in nanoseconds.
	Pause atomic.Int64
	// Txn, where set before it runs, says what a batch that ends before record n means for
	// the open transaction.
	Txn func(n int64) connectors.Txn

	Plans   atomic.Int64
	Runs    atomic.Int64
	Emitted atomic.Int64
	Late    atomic.Int64 // batches that were emitted after the task's context had ended

	mu        sync.Mutex // guards the fields below
	committed map[string]int64
	starts    []int64
	runs      map[string]int // of each task, by "connector-task"
	running   map[int]int
	twice     bool
	plan      error
}

// NewSource makes a source that behaves.
func NewSource() *Source {
	s := &Source{committed: map[string]int64{}, runs: map[string]int{}, running: map[int]int{}}
	s.FailAt.Store(-1)
	s.PanicAt.Store(-1)
	return s
}

// Committed is the position that the source was last told is stored, for a task.
func (s *Source) Committed(connector string, task int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed[fmt.Sprintf("%s-%d", connector, task)]
}

// Starts are the positions at which runs began.
func (s *Source) Starts() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int64(nil), s.starts...)
}

// RunsOf is how often a task was run.
func (s *Source) RunsOf(connector string, task int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[fmt.Sprintf("%s-%d", connector, task)]
}

// Twice reports whether a task ever ran twice at once.
func (s *Source) Twice() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twice
}

// Now is how many tasks run.
func (s *Source) Now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, running := range s.running {
		n += running
	}
	return n
}

// FailPlan makes the connector fail to plan its tasks; nil mends it.
func (s *Source) FailPlan(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = err
}

// Plugin is the source as a plugin of that name.
func (s *Source) Plugin(name string) connectors.SourcePlugin {
	return connectors.SourcePlugin{
		Info: plugin.Info{
			Name: name, Class: "test." + name + "Connector", Version: "1.0", Doc: "Counts.",
			Config: config.Define(sourceTopic, sourceCount, sourceBatch, sourceTasks, sourceValue),
		},
		TaskClass: "test." + name + "Task",
		New: func(_ connectors.Context, v config.Values) (connectors.Source, error) {
			return &counting{s, v}, nil
		},
		NewTask: func(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
			return &countingTask{s: s, cc: cc, v: v}, nil
		},
	}
}

type counting struct {
	s *Source
	v config.Values
}

var _ connectors.Guarantees = (*counting)(nil)

// ExactlyOnce implements connectors.Guarantees.
func (c *counting) ExactlyOnce() bool { return true }

// Boundaries implements connectors.Guarantees.
func (c *counting) Boundaries() bool { return c.s.Txn != nil }

// Tasks implements connectors.Source.
func (c *counting) Tasks(_ context.Context, most int) ([]map[string]string, error) {
	c.s.Plans.Add(1)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.plan != nil {
		return nil, c.s.plan
	}
	out := make([]map[string]string, min(most, int(sourceTasks.Get(c.v))))
	for i := range out {
		out[i] = maps.Clone(c.v.Raw)
	}
	return out, nil
}

type countingTask struct {
	s  *Source
	cc connectors.Context
	v  config.Values
}

func partition(task int) schema.Value {
	return schema.MapValue([]schema.Entry{{Key: schema.StringValue("task"), Value: schema.Int64Value(int64(task))}})
}

func position(n int64) schema.Value {
	return schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.Int64Value(n)}})
}

// Run implements connectors.SourceTask.
func (t *countingTask) Run(ctx context.Context, out connectors.Out) error {
	s := t.s
	s.Runs.Add(1)
	s.mu.Lock()
	s.runs[fmt.Sprintf("%s-%d", t.cc.Connector, t.cc.Task)]++
	s.running[t.cc.Task]++
	s.twice = s.twice || s.running[t.cc.Task] > 1
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[t.cc.Task]--
	}()
	stored, err := t.cc.Offsets.Stored(ctx, partition(t.cc.Task))
	if err != nil {
		return err
	}
	n := int64(0)
	if at, ok := stored.Lookup("n"); ok {
		n = at.Int()
	}
	s.mu.Lock()
	s.starts = append(s.starts, n)
	s.mu.Unlock()
	count := sourceCount.Get(t.v)
	key := schema.StringValue(fmt.Sprint(t.cc.Task))
	prefix := sourceValue.Get(t.v)
	for {
		if s.FailNow.Load() {
			return errors.New("the source was told to fail now")
		}
		var b connectors.Batch
		for i := int32(0); i < sourceBatch.Get(t.v) && (count == 0 || n < count); i++ {
			mayFail := s.FailTask == nil || s.FailTask(t.cc.Task)
			if mayFail && s.PanicAt.Load() == n {
				panic("the source was told to panic")
			}
			if mayFail && s.FailAt.Load() == n {
				if e := s.Error.Load(); e != nil {
					return *e
				}
				return errors.New("the source was told to fail")
			}
			b.Records = append(b.Records, schema.Record{
				Topic: sourceTopic.Get(t.v), Partition: schema.NoPartition, Timestamp: schema.NoTimestamp,
				KeySchema: schema.StringSchema, Key: key,
				ValueSchema: schema.StringSchema, Value: schema.StringValue(fmt.Sprintf("%s%d", prefix, n)),
			})
			r := &b.Records[len(b.Records)-1]
			if s.Value != nil {
				r.Value = schema.StringValue(s.Value(n))
			}
			if s.Keyless.Load() {
				r.KeySchema, r.Key = nil, schema.Value{}
			}
			n++
		}
		if len(b.Records) > 0 {
			b.Offsets = []connectors.Offset{{Partition: partition(t.cc.Task), Position: position(n)}}
			if s.Txn != nil {
				b.Txn = s.Txn(n)
			}
			emitting := ctx
			if s.Deaf.Load() {
				emitting = context.Background()
			}
			if ctx.Err() != nil {
				s.Late.Add(1)
			}
			if err := out.Emit(emitting, b); err != nil {
				if s.Deaf.Load() {
					select {} // never lets go
				}
				return err
			}
			s.Emitted.Add(int64(len(b.Records)))
		}
		pause := time.Duration(s.Pause.Load())
		if len(b.Records) == 0 {
			pause = 5 * time.Millisecond
		}
		if pause > 0 {
			select {
			case <-ctx.Done():
				if !s.Deaf.Load() {
					return nil
				}
			case <-time.After(pause):
			}
		} else if ctx.Err() != nil && !s.Deaf.Load() {
			return nil
		}
	}
}

// Commit implements connectors.SourceTask.
func (t *countingTask) Commit(_ context.Context, done []connectors.Offset) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, o := range done {
		task, _ := o.Partition.Lookup("task")
		n, _ := o.Position.Lookup("n")
		key := fmt.Sprintf("%s-%d", t.cc.Connector, task.Int())
		if n.Int() < t.s.committed[key] {
			panic(fmt.Sprintf("commits go back: from %d to %d", t.s.committed[key], n.Int()))
		}
		t.s.committed[key] = n.Int()
	}
	return nil
}
