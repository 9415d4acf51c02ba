package worker

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/schema"
)

func compareParts(a, b connectors.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// meteredSource is a source task whose batches and commits are counted.
type meteredSource struct {
	connectors.SourceTask
	m *Meter
	a *activity
}

// source meters a task; what it says of itself is told without the values that its providers gave.
func (m *Meter) source(t connectors.SourceTask, a *activity, secrets *provider.Secrets) connectors.SourceTask {
	a.secrets = secrets
	a.source.Store(&t)
	return &meteredSource{t, m, a}
}

// Run implements connectors.SourceTask.
func (s *meteredSource) Run(ctx context.Context, out connectors.Out) error {
	return s.SourceTask.Run(ctx, &meteredOut{out: out, m: s.m, a: s.a, back: time.Now()})
}

// Commit implements connectors.SourceTask.
func (s *meteredSource) Commit(ctx context.Context, done []connectors.Offset) error {
	s.a.stored(done)
	return s.SourceTask.Commit(ctx, done)
}

// stored remembers offsets that are stored, for all to see.
func (a *activity) stored(done []connectors.Offset) {
	a.mu.Lock()
	defer a.mu.Unlock()
next:
	for _, o := range done {
		for i := range a.offsets {
			if schema.EqualValues(a.offsets[i].Partition, o.Partition) {
				a.offsets[i] = o
				continue next
			}
		}
		if len(a.offsets) == mostOffsets {
			a.more++
			continue
		}
		a.offsets = append(a.offsets, o)
	}
}

// meteredOut counts what is emitted. It is used by one goroutine at a time.
type meteredOut struct {
	out  connectors.Out
	m    *Meter
	a    *activity
	back time.Time // when the last Emit returned
}

// Emit implements connectors.Out.
func (o *meteredOut) Emit(ctx context.Context, b connectors.Batch) error {
	n := int64(len(b.Records))
	if n > 0 {
		o.m.pollTime.addMillis(time.Since(o.back))
		o.m.batchSize.Add(float64(n))
		o.m.pollRate.Add(float64(n))
	}
	o.m.active.Add(float64(o.m.polled.Add(n) - o.m.settled.Load()))
	o.a.emitted.Add(1)
	err := o.out.Emit(ctx, b)
	if err != nil { // it was not taken
		o.m.polled.Add(-n)
		o.a.emitted.Add(-1)
	} else {
		o.a.move()
	}
	o.back = time.Now()
	return err
}

// shapedOne notes that a batch is in the log's form.
func (a *activity) shapedOne() {
	if a != nil {
		a.shaped.Add(1)
		a.move()
	}
}

// departs notes that a batch of a source is on its way to the log, and how long it
// waited for room.
func (fl *flight) departs(waited time.Duration) {
	if fl.a == nil {
		return
	}
	fl.a.buffered.Add(fl.bytes)
	if waited > 0 {
		fl.m.bufferWait.addMillis(waited)
	}
}

// arrived notes that the log has acknowledged a batch.
func (fl *flight) arrived() {
	if fl.a == nil {
		return
	}
	fl.a.buffered.Add(-fl.bytes)
	fl.a.acked.Add(int64(fl.batches))
	fl.a.move()
	fl.m.written.Add(int64(fl.written))
	fl.m.writeRate.Add(float64(fl.written))
	fl.m.active.Add(float64(fl.m.polled.Load() - fl.m.settled.Add(int64(fl.polled))))
}

// meteredSink is a sink task whose calls are timed.
type meteredSink struct {
	connectors.SinkTask
	m *Meter
	a *activity
}

func (m *Meter) sink(t connectors.SinkTask, a *activity, secrets *provider.Secrets) connectors.SinkTask {
	a.secrets = secrets
	a.sink.Store(&t)
	return &meteredSink{t, m, a}
}

// Open implements connectors.SinkTask.
func (s *meteredSink) Open(ctx context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	defer s.a.enter(opening)()
	return s.SinkTask.Open(ctx, parts)
}

// Put implements connectors.SinkTask.
func (s *meteredSink) Put(ctx context.Context, records []schema.Record) error {
	leave := s.a.enter(putting)
	begun := time.Now()
	err := s.SinkTask.Put(ctx, records)
	leave()
	if n := int64(len(records)); n > 0 {
		s.m.putTime.addMillis(time.Since(begun))
		if err == nil {
			s.m.written.Add(n)
			s.m.writeRate.Add(float64(n))
			s.a.move()
		}
	}
	return err
}

// Flush implements connectors.SinkTask.
func (s *meteredSink) Flush(ctx context.Context) (map[connectors.TopicPartition]int64, error) {
	leave := s.a.enter(flushing)
	begun := time.Now()
	at, err := s.SinkTask.Flush(ctx)
	leave()
	if err != nil {
		s.m.commit(time.Since(begun), false)
	}
	return at, err
}

// Close implements connectors.SinkTask.
func (s *meteredSink) Close(ctx context.Context, parts []connectors.TopicPartition, lost bool) error {
	defer s.a.enter(closing)()
	return s.SinkTask.Close(ctx, parts, lost)
}

// read notes a batch that a sink read from its topics.
func (m *Meter) read(n int) {
	m.polled.Add(int64(n))
	m.pollRate.Add(float64(n))
	m.batchSize.Add(float64(n))
}

// Progress is what a task shows of where it is.
type Progress struct {
	Type    runtime.Type
	Moved   time.Time // when it last got on
	Offsets []connectors.Offset
	More    int // source partitions beyond those of Offsets
	Source  *connectors.Progress
	Parts   []PartPosition
	Lag     int64 // of all partitions; -1: unknown
}

// Progress reads the meter, and asks the source where it is if it can tell. The bool
// is false before the first run.
func (m *Meter) Progress(ctx context.Context) (Progress, bool) {
	a := m.run.Load()
	if a == nil {
		return Progress{}, false
	}
	p := Progress{Type: a.kind, Moved: time.Unix(0, a.moved.Load()), Lag: -1}
	a.mu.Lock()
	p.Offsets = append(p.Offsets, a.offsets...)
	p.More = a.more
	a.mu.Unlock()
	p.Source = a.progress(ctx)
	p.Parts, _ = a.positions()
	for _, at := range p.Parts {
		if at.Lag >= 0 {
			p.Lag = max(0, p.Lag) + at.Lag
		}
	}
	return p, true
}

// progress is what the source says of itself; nil where it cannot tell.
func (a *activity) progress(ctx context.Context) (out *connectors.Progress) {
	t := a.source.Load()
	if t == nil {
		return nil
	}
	teller, ok := (*t).(connectors.ProgressTeller)
	if !ok {
		return nil
	}
	p, ok := ask(ctx, &a.asked, "progress", func() connectors.Progress { return teller.Progress(ctx) })
	if !ok {
		return nil
	}
	p.Position = a.secrets.Text(p.Position)
	if p.Snapshot != nil {
		for i := range p.Snapshot.Tables {
			p.Snapshot.Tables[i].Table = a.secrets.Text(p.Snapshot.Tables[i].Table)
		}
	}
	return &p
}

// Samples are the figures of the task's own, told without the values that its providers gave.
func (m *Meter) Samples(ctx context.Context) []connectors.Sample {
	a := m.run.Load()
	if a == nil {
		return nil
	}
	var sampler connectors.Sampler
	if t := a.source.Load(); t != nil {
		sampler, _ = (*t).(connectors.Sampler)
	} else if t := a.sink.Load(); t != nil {
		sampler, _ = (*t).(connectors.Sampler)
	}
	if sampler == nil {
		return nil
	}
	samples, _ := ask(ctx, &a.sampled, "samples", sampler.Samples)
	for i := range samples {
		for j := range samples[i].Labels {
			samples[i].Labels[j].Value = a.secrets.Text(samples[i].Labels[j].Value)
		}
	}
	return samples
}

// mostAsked is how many questions may be open at once: a status and a scrape want the same
// thing at the same time, but one that hangs must not gather goroutines.
const mostAsked = 4

// asking are the open questions of one kind to a task.
type asking struct {
	mu    sync.Mutex // guards the others
	open  int
	first time.Time // when the first of them was asked; zero: none is open
}

func (q *asking) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == mostAsked {
		return false
	}
	if q.open++; q.open == 1 {
		q.first = time.Now()
	}
	return true
}

func (q *asking) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open--; q.open == 0 {
		q.first = time.Time{}
	}
}

// since is since when a question is open; zero: none is.
func (q *asking) since() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first
}

// ask asks a task, which may hang, in a file system for one, and must not take us with it.
// false: it has not answered, or too many wait for an answer already.
func ask[T any](ctx context.Context, q *asking, what string, question func() T) (answer T, ok bool) {
	if !q.begin() {
		return answer, false
	}
	told := make(chan T, 1)
	go func() {
		defer close(told)
		var a T
		err := guard(what, func() error { a = question(); return nil })
		q.end()
		if err == nil {
			told <- a
		}
	}()
	select {
	case answer, ok = <-told:
	case <-ctx.Done():
	}
	return answer, ok
}

// late notes a commit that is left to the next, because what goes before it takes long.
func (m *Meter) late(took time.Duration) {
	m.skipped.Add(1)
	m.skipRate.Add(1)
	m.commit(took, false)
}
