package worker

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/runtime/tolerance"
)

// A Meter counts what a task does, over all its runs on this worker: whoever starts it
// again gives it its old Meter, so that a task that failed keeps its figures. The zero
// value is ready. Everything is added once a batch, a request or a commit.
type Meter struct {
	kind atomic.Pointer[runtime.Type]

	// Sources: polled from the source, acknowledged by the log. Sinks: read from topics,
	// given to the target. Settled is what needs nothing more of what was polled.
	polled, written, settled atomic.Int64
	pollTime, putTime        Recent // milliseconds
	batchSize                Recent // records
	active                   Recent // records
	writeRate, pollRate      Recent // records
	transaction              Recent // records

	commitTime                    Recent // milliseconds
	commits, skipped, failed, seq atomic.Int64
	commitRate, skipRate          Recent
	commitOK                      Recent // 1 or 0
	bufferWait                    Recent // milliseconds

	run atomic.Pointer[activity] // of the present run, or the last one

	mu      sync.Mutex // guards the fields below
	errors  Errors     // of earlier runs
	op      *tolerance.Operator
	letters *tolerance.DeadLetters
	clients []*ClientMeter
	states  map[runtime.State]time.Duration // before the present state
	state   runtime.State
	since   time.Time // of the present state
}

// Errors are what went wrong with records.
type Errors struct {
	Failures, Errors, Skipped, Retries, Logged int64
	DeadLetters, DeadLettersFailed             int64
	Last                                       time.Time // of the last error; zero for none
}

func (e *Errors) add(op *tolerance.Operator, l *tolerance.DeadLetters) {
	if op != nil {
		errs, retries := op.Failures.Load(), op.Retries.Load()
		e.Failures += errs + retries // each retry follows an attempt that failed
		e.Errors += errs
		e.Retries += retries
		e.Skipped += op.Skipped.Load()
		e.Logged += op.Logged.Load()
		if at := op.Last.Load(); at > 0 {
			e.Last = time.UnixMilli(at)
		}
	}
	if l != nil {
		e.DeadLetters += l.Sent.Load()
		e.DeadLettersFailed += l.Lost.Load()
	}
}

// begin makes the meter ready for a run.
func (m *Meter) begin(kind runtime.Type, g *gate) *activity {
	a := &activity{kind: kind, gate: g, began: time.Now()}
	a.moved.Store(a.began.UnixNano())
	m.kind.Store(&kind)
	m.run.Store(a)
	m.settled.Store(m.polled.Load()) // what the last run had under way is read again
	return a
}

// operates says who handles the run's errors.
func (m *Meter) operates(op *tolerance.Operator, l *tolerance.DeadLetters) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors.add(m.op, m.letters)
	m.op, m.letters = op, l
}

// Is notes the task's state, for the shares of time.
func (m *Meter) Is(s runtime.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.states == nil {
		m.states = map[runtime.State]time.Duration{}
	}
	if m.state == s {
		return
	}
	if m.state != "" {
		m.states[m.state] += now.Sub(m.since)
	}
	m.state, m.since = s, now
}

// Share is the part of the time since its first start that the task has been in a state.
func (m *Meter) Share(s runtime.State) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == "" {
		return 0
	}
	present := time.Since(m.since)
	of, all := m.states[s], present
	if m.state == s {
		of += present
	}
	for _, d := range m.states {
		all += d
	}
	if all <= 0 {
		return 0
	}
	return float64(of) / float64(all)
}

// client is the meter of one of the task's clients; runs share it.
func (m *Meter) client(kind ClientKind, id string) *ClientMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.clients {
		if c.Kind == kind && c.ID == id {
			return c
		}
	}
	c := NewClientMeter(kind, id)
	m.clients = append(m.clients, c)
	return c
}

// Clients are the meters of the task's clients.
func (m *Meter) Clients() []*ClientMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.clients)
}

// Figures are what a meter shows at one moment. Percentages are shares between 0 and 1.
type Figures struct {
	Type                       runtime.Type // "" before the first run
	Running, Paused            float64      // shares of time
	Polled, Written, Active    int64        // records
	PollRate, WriteRate        float64      // records a second
	PollTime, PutTime          Summary      // ms
	BatchSize, ActiveOf        Summary      // records
	Transaction                Summary      // records
	CommitTime, BufferWait     Summary      // ms
	Commits, Skipped, Seq      int64
	CommitRate, SkipRate       float64
	CommitSuccess, CommitFails float64
	Buffered                   int64 // bytes on their way to the log
	Errors                     Errors
	Parts                      []PartPosition // of a sink, by topic and partition
	Assigned                   int            // partitions that a sink has
	Moved                      time.Time      // when it last got on; zero before the first run
}

// Figures reads the meter.
func (m *Meter) Figures() Figures {
	f := Figures{
		Running: m.Share(runtime.Running), Paused: m.Share(runtime.Paused),
		Polled: m.polled.Load(), Written: m.written.Load(),
		PollRate: m.pollRate.Read().PerSecond(), WriteRate: m.writeRate.Read().PerSecond(),
		PollTime: m.pollTime.Read(), PutTime: m.putTime.Read(), BatchSize: m.batchSize.Read(), ActiveOf: m.active.Read(),
		Transaction: m.transaction.Read(), CommitTime: m.commitTime.Read(), BufferWait: m.bufferWait.Read(),
		Commits: m.commits.Load(), Skipped: m.skipped.Load(), Seq: m.seq.Load(),
		CommitRate: m.commitRate.Read().PerSecond(), SkipRate: m.skipRate.Read().PerSecond(),
	}
	if k := m.kind.Load(); k != nil {
		f.Type = *k
	}
	if ok := m.commitOK.Read(); ok.Count > 0 {
		f.CommitSuccess, _ = ok.Avg()
		f.CommitFails = 1 - f.CommitSuccess
	}
	f.Active = max(0, f.Polled-m.settled.Load())
	if a := m.run.Load(); a != nil {
		f.Buffered, f.Moved = max(0, a.buffered.Load()), time.Unix(0, a.moved.Load())
		f.Parts, f.Assigned = a.positions()
		if f.Type == runtime.SinkType {
			f.Active = 0
			for _, p := range f.Parts {
				f.Active += max(0, p.Done-max(p.Committed, p.Start))
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f.Errors = m.errors
	f.Errors.add(m.op, m.letters)
	return f
}

// commit notes a commit of offsets.
func (m *Meter) commit(took time.Duration, ok bool) {
	m.commitTime.addMillis(took)
	a := m.run.Load()
	if ok {
		m.commits.Add(1)
		m.commitRate.Add(1)
		m.commitOK.Add(1)
		if a != nil {
			a.failing.Store(0)
			a.move()
		}
		return
	}
	m.failed.Add(1)
	m.commitOK.Add(0)
	if a != nil {
		a.failing.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// A PartPosition is where a sink task is in one of its partitions.
type PartPosition struct {
	connectors.TopicPartition
	Start     int64 // of the log, as the last fetch said
	Position  int64 // of the next record to read
	Done      int64 // behind what needs nothing more of Put
	Committed int64 // negative: nothing is committed
	End       int64 // of what may be read, as far as is known
	Lag       int64 // End - Done; -1: unknown
	Assigned  bool  // false: it was, when the task failed
}

// shownPart is a partition's place for all to see. The task's goroutine writes.
type shownPart struct {
	start, position, done, committed, end atomic.Int64
	gone                                  atomic.Bool
}

// stage is what a sink's goroutine does.
type stage int32

const (
	idle stage = iota // reading, or waiting
	converting
	opening
	putting
	flushing
	committing
	closing
)

// activity is what one run of a task shows of itself. A run that was abandoned goes on
// with its own, which nobody reads any more.
type activity struct {
	kind  runtime.Type
	gate  *gate
	began time.Time
	moved atomic.Int64 // when it last got on, in ns since the epoch

	secrets  *provider.Secrets // set before source is
	source   atomic.Pointer[connectors.SourceTask]
	asked    asking // where the source is
	sink     atomic.Pointer[connectors.SinkTask]
	sampled  asking       // what the task's own figures are
	emitted  atomic.Int64 // batches of a source: given to us,
	shaped   atomic.Int64 // in the log's form,
	acked    atomic.Int64 // and acknowledged
	buffered atomic.Int64 // bytes on their way

	busy    atomic.Int64 // the stage and since when, in one: see enter
	polled  atomic.Int64 // ns since the epoch: the last poll
	ended   atomic.Bool  // the run is over
	pending atomic.Int64 // records that the target did not take yet
	failing atomic.Int64 // ns since the epoch: since when no commit or flush succeeds; 0

	mu      sync.Mutex // guards the fields below
	parts   map[connectors.TopicPartition]*shownPart
	offsets []connectors.Offset // of a source: the last that are stored, by source partition
	more    int                 // source partitions beyond these
}

func (a *activity) move() { a.moved.Store(time.Now().UnixNano()) }

// enter begins a stage and returns what ends it. Stage and time are one word, since
// whoever looks must not see one of them without the other.
func (a *activity) enter(s stage) (leave func()) {
	was := a.busy.Load()
	a.busy.Store(time.Now().UnixMicro()<<stageBits | int64(s))
	return func() { a.busy.Store(was) }
}

const stageBits = 4

// at is the stage and since when.
func (a *activity) at() (stage, time.Time) {
	b := a.busy.Load()
	return stage(b & (1<<stageBits - 1)), time.UnixMicro(b >> stageBits)
}

// beat says that the stage got on. Another goroutine than the stage's may call it.
func (a *activity) beat() {
	a.move()
	if b := a.busy.Load(); b != 0 {
		a.busy.CompareAndSwap(b, time.Now().UnixMicro()<<stageBits|b&(1<<stageBits-1))
	}
}

// part is a partition's place, made where there is none.
func (a *activity) part(tp connectors.TopicPartition) *shownPart {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parts[tp]
	if p == nil {
		p = &shownPart{}
		if a.parts == nil {
			a.parts = map[connectors.TopicPartition]*shownPart{}
		}
		a.parts[tp] = p
	}
	p.gone.Store(false)
	return p
}

// drop forgets partitions, or keeps them to be seen where the task fails with them.
func (a *activity) drop(gone []connectors.TopicPartition, keep bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tp := range gone {
		if p := a.parts[tp]; p != nil && keep {
			p.gone.Store(true)
		} else {
			delete(a.parts, tp)
		}
	}
}

// positions are all partitions' places, in order, and how many are assigned.
func (a *activity) positions() (out []PartPosition, assigned int) {
	a.mu.Lock()
	parts := maps.Clone(a.parts)
	a.mu.Unlock()
	for tp, p := range parts {
		at := PartPosition{TopicPartition: tp, Start: p.start.Load(), Position: p.position.Load(), Done: p.done.Load(),
			Committed: p.committed.Load(), End: p.end.Load(), Lag: -1, Assigned: !p.gone.Load()}
		if at.End >= 0 {
			at.Lag = max(0, at.End-at.Done)
		}
		if at.Assigned {
			assigned++
		}
		out = append(out, at)
	}
	slices.SortFunc(out, func(x, y PartPosition) int { return compareParts(x.TopicPartition, y.TopicPartition) })
	return out, assigned
}

// mostOffsets is how many source partitions of a task are shown.
const mostOffsets = 20
