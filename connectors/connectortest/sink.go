package connectortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// SinkCase is a sink connector with a target that the suite can look into.
type SinkCase struct {
	Plugin connectors.SinkPlugin
	Files  connectors.Files // for the tasks' Context; may be nil

	// New makes an empty target, for one test.
	New func(tb testing.TB) SinkTarget
}

// SinkTarget is a target and what the suite needs to know of it.
type SinkTarget struct {
	Config map[string]string // the connector's settings
	Topic  string            // where not empty, the records' topic instead of the suite's

	// Record makes the record that stores text under key; the suite gives it topic,
	// partition, offset and origin. Where nil, key and value are plain strings.
	Record func(key, text string) schema.Record

	// Stored are the texts that the target holds and that a reader would see.
	Stored func(tb testing.TB) []string

	// Ordered says that Stored is in the order in which the target took them.
	Ordered bool
	// Idempotent says that a record which comes twice is stored once.
	Idempotent bool

	// Break makes the target refuse everything until mend is called. Nil: the suite
	// leaves faults out.
	Break func(tb testing.TB) (mend func())

	// Poison makes a record that the target refuses for ever. Nil: there is none.
	Poison func() schema.Record
}

// Sink runs the suite that every sink passes: order, what Flush returns, redelivery,
// partitions that are lost, replay, records that are refused.
func Sink(t *testing.T, c SinkCase) {
	tests := []struct {
		name string
		run  func(*sinkTest)
	}{
		{"records are stored in order per partition", (*sinkTest).order},
		{"Flush returns only what is stored", (*sinkTest).flushed},
		{"nothing is lost while the target refuses", (*sinkTest).broken},
		{"a partition that is lost is neither flushed nor committed", (*sinkTest).lost},
		{"partitions come and go while others are written", (*sinkTest).rebalance},
		{"replay adds nothing", (*sinkTest).replay},
		{"a refused record is reported once and passed", (*sinkTest).poison},
		{"an idle task takes empty puts", (*sinkTest).idle},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			target := c.New(t)
			if target.Topic == "" {
				target.Topic = "suite"
			}
			s := &sinkTest{TB: t, c: c, target: target}
			test.run(s)
		})
	}
}

// sinkTest is one test of the suite.
type sinkTest struct {
	testing.TB
	c      SinkCase
	target SinkTarget
}

// SinkRun drives one sink task as the runtime does. Tests of a connector's own use
// it, too.
type SinkRun struct {
	testing.TB
	Task connectors.SinkTask

	// Committed are the offsets that Flush returned, the newest per partition.
	Committed map[connectors.TopicPartition]int64

	// Start is where the task said to start. What comes before is not put, as the runtime does not read it.
	Start map[connectors.TopicPartition]int64

	mu       sync.Mutex
	reported []Reported
	refuse   bool // errors.tolerance=none
}

// Reported is a record that the task reported.
type Reported struct {
	Record schema.Record
	Cause  error
}

// NewSinkRun makes a task of the settings and opens it with the partitions.
// intolerant is errors.tolerance=none: a reported record fails the task.
func NewSinkRun(tb testing.TB, p connectors.SinkPlugin, files connectors.Files, conf map[string]string, intolerant bool, parts ...connectors.TopicPartition) *SinkRun {
	tb.Helper()
	r := &SinkRun{TB: tb, Committed: map[connectors.TopicPartition]int64{}, Start: map[connectors.TopicPartition]int64{}, refuse: intolerant}
	v, errs := p.Config.Parse(conf)
	if len(errs) > 0 {
		tb.Fatalf("settings: %v", errs)
	}
	var err error
	r.Task, err = p.NewTask(connectors.Context{
		Connector: "suite", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Files: files,
		Report: func(_ context.Context, rec schema.Record, cause error) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reported = append(r.reported, Reported{rec, cause})
			if r.refuse {
				return cause
			}
			return nil
		},
	}, v)
	if err != nil {
		tb.Fatalf("make the task: %v", err)
	}
	if len(parts) > 0 {
		if err := r.Open(parts...); err != nil {
			tb.Fatalf("open: %v", err)
		}
	}
	return r
}

// Open gives the task more partitions.
func (r *SinkRun) Open(parts ...connectors.TopicPartition) error {
	start, err := r.Task.Open(context.Background(), parts)
	for tp, o := range start {
		r.Start[tp] = o
		r.Committed[tp] = max(r.Committed[tp], o)
	}
	return err
}

// Reported are the records that the task has reported so far.
func (r *SinkRun) Reported() []Reported {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reported)
}

// TryPut puts the records once; taken is how many of them need not come again.
func (r *SinkRun) TryPut(records []schema.Record) (taken int, err error) {
	before := 0 // in a run of one partition's records
	for before < len(records) && records[before].Origin.Offset < r.Start[connectors.TopicPartition{Topic: records[before].Origin.Topic, Partition: records[before].Origin.Partition}] {
		before++
	}
	records = records[before:]
	defer func() { taken += before }()
	err = r.Task.Put(context.Background(), slices.Clone(records))
	var put *connectors.PutError
	switch {
	case err == nil:
		return len(records), nil
	case errors.As(err, &put):
		if put.Taken < 0 || put.Taken > len(records) {
			r.Fatalf("a PutError says that %d of %d records were taken", put.Taken, len(records))
		}
		return put.Taken, put.Err
	}
	return 0, err
}

// Put puts the records and delivers again what was not taken while errors are
// retriable.
func (r *SinkRun) Put(records []schema.Record) {
	r.Helper()
	for end := time.Now().Add(time.Minute); ; {
		n, err := r.TryPut(records)
		if records = records[n:]; err == nil {
			return
		}
		if !connectors.IsRetriable(err) || time.Now().After(end) {
			r.Fatalf("put: %v", err)
		}
	}
}

// TryFlush flushes once and notes the offsets.
func (r *SinkRun) TryFlush() error {
	r.Helper()
	done, err := r.Task.Flush(context.Background())
	if err != nil {
		return err
	}
	for tp, o := range done {
		if o < r.Committed[tp] {
			r.Fatalf("the offset of %v goes back from %d to %d", tp, r.Committed[tp], o)
		}
		r.Committed[tp] = o
	}
	return nil
}

// FlushTo flushes, with empty puts in between as the runtime makes them, until the
// partition's offset is reached.
func (r *SinkRun) FlushTo(tp connectors.TopicPartition, offset int64) {
	r.Helper()
	for end := time.Now().Add(time.Minute); ; {
		if err := r.TryFlush(); err != nil && !connectors.IsRetriable(err) {
			r.Fatalf("flush: %v", err)
		}
		if r.Committed[tp] >= offset {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("%v is flushed up to %d after a minute, want %d", tp, r.Committed[tp], offset)
		}
		r.Put(nil)
	}
}

// Close closes the partitions.
func (r *SinkRun) Close(lost bool, parts ...connectors.TopicPartition) {
	r.Helper()
	if err := r.Task.Close(context.Background(), parts, lost); err != nil {
		r.Errorf("close: %v", err)
	}
}

// record makes the record of an offset.
func (s *sinkTest) record(tp connectors.TopicPartition, offset int64) schema.Record {
	var r schema.Record
	key, text := fmt.Sprintf("k-%d-%d", tp.Partition, offset), text(tp, offset)
	if s.target.Record != nil {
		r = s.target.Record(key, text)
	} else {
		r = schema.Record{KeySchema: schema.StringSchema, Key: schema.StringValue(key), ValueSchema: schema.StringSchema, Value: schema.StringValue(text)}
	}
	return At(r, tp, offset)
}

// At gives a record its place in the log.
func At(r schema.Record, tp connectors.TopicPartition, offset int64) schema.Record {
	r.Topic, r.Partition, r.Timestamp = tp.Topic, tp.Partition, 1_700_000_000_000+offset
	r.Origin = &schema.Origin{Topic: tp.Topic, Partition: tp.Partition, Offset: offset, Timestamp: r.Timestamp}
	return r
}

func text(tp connectors.TopicPartition, offset int64) string {
	return fmt.Sprintf("text %d/%d", tp.Partition, offset)
}

func (s *sinkTest) part(n int32) connectors.TopicPartition {
	return connectors.TopicPartition{Topic: s.target.Topic, Partition: n}
}

func (s *sinkTest) records(tp connectors.TopicPartition, from, to int64) []schema.Record {
	var out []schema.Record
	for o := from; o < to; o++ {
		out = append(out, s.record(tp, o))
	}
	return out
}

func (s *sinkTest) open(parts ...connectors.TopicPartition) *SinkRun {
	s.Helper()
	return NewSinkRun(s, s.c.Plugin, s.c.Files, s.target.Config, false, parts...)
}

// stored counts the texts in the target.
func (s *sinkTest) stored() map[string]int {
	s.Helper()
	out := map[string]int{}
	for _, t := range s.target.Stored(s) {
		out[t]++
	}
	return out
}

// holds fails the test where a text of [0, to) is missing, or there twice although
// the target is idempotent or nothing came twice.
func (s *sinkTest) holds(tp connectors.TopicPartition, to int64, once bool) {
	s.Helper()
	stored := s.stored()
	for o := range to {
		switch n := stored[text(tp, o)]; {
		case n == 0:
			s.Errorf("%v: the record at offset %d of %d that are flushed is not stored", tp, o, to)
			return
		case n > 1 && (once || s.target.Idempotent):
			s.Errorf("%v: the record at offset %d is stored %d times", tp, o, n)
			return
		}
	}
}

func (s *sinkTest) order() {
	a, b := s.part(0), s.part(1)
	run := s.open(a, b)
	const n = 3000
	for o := int64(0); o < n; o += 100 {
		run.Put(append(s.records(a, o, o+100), s.records(b, o, o+100)...))
	}
	run.FlushTo(a, n)
	run.FlushTo(b, n)
	s.holds(a, n, true)
	s.holds(b, n, true)
	if s.target.Ordered {
		next := map[int32]int64{}
		for _, t := range s.target.Stored(s) {
			var p int32
			var o int64
			if _, err := fmt.Sscanf(t, "text %d/%d", &p, &o); err != nil {
				s.Fatalf("stored %q", t)
			}
			if o != next[p] {
				s.Fatalf("partition %d: offset %d is stored where %d belongs", p, o, next[p])
			}
			next[p]++
		}
	}
	run.Close(false, a, b)
}

func (s *sinkTest) flushed() {
	a, b := s.part(0), s.part(1)
	run := s.open(a, b)
	for o := int64(0); o < 1000; o += 50 {
		run.Put(s.records(a, o, o+50))
		if o%200 == 0 {
			run.Put(s.records(b, o/200*10, o/200*10+10))
		}
		if o%250 == 0 {
			if err := run.TryFlush(); err != nil {
				s.Fatalf("flush: %v", err)
			}
			for tp, to := range run.Committed {
				if tp == a && to > o+50 || tp == b && to > o/200*10+10 {
					s.Fatalf("%v is flushed up to %d, which was not put", tp, to)
				}
				s.holds(tp, to, true)
			}
		}
	}
	run.FlushTo(a, 1000)
	run.Close(false, a, b)
}

func (s *sinkTest) broken() {
	if s.target.Break == nil {
		s.Skip("this target has no faults")
	}
	a := s.part(0)
	run := s.open(a)
	run.Put(s.records(a, 0, 100))
	run.FlushTo(a, 100)
	mend := s.target.Break(s)
	records := s.records(a, 100, 400)
	failed := false
	for end := time.Now().Add(time.Minute); !failed; {
		n, err := run.TryPut(records)
		records = records[n:]
		if err == nil {
			err = run.TryFlush()
		}
		if run.Committed[a] > 100 {
			s.Fatalf("flushed up to %d while the target refuses", run.Committed[a])
		}
		if err != nil && connectors.RetryOf(err) != connectors.RetryHelps {
			s.Fatalf("the error is not one that a retry can help: %v", err)
		}
		if failed = err != nil; !failed && time.Now().After(end) {
			s.Fatal("no error in a minute, though the target refuses everything")
		}
	}
	mend()
	run.Put(records)
	run.FlushTo(a, 400)
	s.holds(a, 400, false)
	run.Close(false, a)
}

func (s *sinkTest) lost() {
	a, b := s.part(0), s.part(1)
	run := s.open(a, b)
	run.Put(append(s.records(a, 0, 10), s.records(b, 0, 10)...))
	run.FlushTo(a, 10)
	run.FlushTo(b, 10)
	run.Put(append(s.records(a, 10, 20), s.records(b, 10, 20)...))
	run.Close(true, a)
	run.FlushTo(b, 20)
	if run.Committed[a] != 10 {
		s.Errorf("Flush returned offset %d of a partition that was lost", run.Committed[a])
	}
	s.holds(b, 20, true)
	run.Close(true, b)

	// Whoever has it now starts where it was committed.
	next := s.open(a)
	next.Put(s.records(a, 10, 20))
	next.FlushTo(a, 20)
	s.holds(a, 20, false)
	next.Close(false, a)
}

func (s *sinkTest) rebalance() {
	a, b := s.part(0), s.part(1)
	run := s.open(a)
	run.Put(s.records(a, 0, 50))
	if err := run.Open(b); err != nil {
		s.Fatalf("open another partition: %v", err)
	}
	run.Put(append(s.records(a, 50, 100), s.records(b, 0, 50)...))
	run.FlushTo(a, 100)
	run.Close(false, a)
	run.Put(s.records(b, 50, 100))
	run.FlushTo(b, 100)
	run.Close(false, b)
	if err := run.Open(a); err != nil {
		s.Fatalf("open after the last partition was closed: %v", err)
	}
	run.Put(s.records(a, 100, 150))
	run.FlushTo(a, 150)
	run.Close(false, a)
	s.holds(a, 150, true)
	s.holds(b, 100, true)
}

func (s *sinkTest) replay() {
	a := s.part(0)
	run := s.open(a)
	run.Put(s.records(a, 0, 200))
	run.FlushTo(a, 200)
	run.Close(false, a)
	before := maps.Clone(s.stored())
	again := s.open(a)
	again.Put(s.records(a, 0, 200))
	again.FlushTo(a, 200)
	again.Close(false, a)
	s.holds(a, 200, false)
	if after := s.stored(); s.target.Idempotent && !maps.Equal(before, after) {
		s.Errorf("the target held %d texts before and %d after", len(before), len(after))
	}
}

func (s *sinkTest) poison() {
	if s.target.Poison == nil {
		s.Skip("this target refuses nothing")
	}
	a := s.part(0)
	run := s.open(a)
	records := s.records(a, 0, 20)
	records[7] = At(s.target.Poison(), a, 7)
	run.Put(records)
	run.FlushTo(a, 20)
	stored := s.stored()
	for o := range int64(20) {
		if n := stored[text(a, o)]; (n == 1) != (o != 7) {
			s.Errorf("the record at offset %d is stored %d times", o, n)
		}
	}
	got := run.Reported()
	if len(got) != 1 || got[0].Record.Origin == nil || got[0].Record.Origin.Offset != 7 || got[0].Cause == nil {
		s.Errorf("reported %+v, want the record at offset 7, once", got)
	}
	run.Close(false, a)

	strict := NewSinkRun(s, s.c.Plugin, s.c.Files, s.target.Config, true, a)
	records = s.records(a, 20, 40)
	records[7] = At(s.target.Poison(), a, 27)
	_, err := strict.TryPut(records)
	for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); {
		if err = strict.TryFlush(); err == nil {
			_, err = strict.TryPut(nil)
		}
	}
	if err == nil {
		s.Error("Report's error does not reach the runtime")
	}
	if strict.Committed[a] > 27 {
		s.Errorf("flushed up to %d, past a record that Report did not take", strict.Committed[a])
	}
	strict.Close(false, a)
}

func (s *sinkTest) idle() {
	a := s.part(0)
	run := s.open(a)
	for range 3 {
		run.Put(nil)
		if err := run.TryFlush(); err != nil {
			s.Fatalf("flush: %v", err)
		}
	}
	if len(run.Committed) > 0 {
		s.Errorf("flushed %v, though nothing came", run.Committed)
	}
	run.Put(s.records(a, 0, 1))
	run.FlushTo(a, 1)
	run.Close(false, a)
}
