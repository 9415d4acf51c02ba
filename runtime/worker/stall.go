package worker

import (
	"context"
	"fmt"
	"time"

	"millrace/connectors"
	"millrace/runtime"
)

// The reasons for which a task that runs gets no further. A restart makes new clients
// and connections, which is what helps against most of them.
var (
	stallLog = &connectors.Reason{Code: "task.log_does_not_answer", Retry: connectors.RetryHelps,
		Doc:    "Records are on their way to the log, which neither takes nor refuses them: its disk is full, or the cluster cannot be reached.",
		Remedy: "look at GET /health and the log's disk, or at the cluster; the task goes on by itself"}
	stallConverting = &connectors.Reason{Code: "task.converting_hangs", Retry: connectors.RetryHelps,
		Doc:    "A transform or a converter does not come to an end with a record: what it asks for, such as a schema registry, does not answer, and errors.retry.timeout lets it ask for long.",
		Remedy: "see whether what the converters and transforms need can be reached; the worker's log and the error metrics tell of their retries"}
	stallSource = &connectors.Reason{Code: "task.source_hangs", Retry: connectors.RetryHelps,
		Doc:    "The source has more than was read of it, but the connector reads no further.",
		Remedy: "look at the source: locks, a disk or network that hangs; the connector's position stands in GET /connectors/<name>/status?detail=full"}
	stallPut = &connectors.Reason{Code: "task.target_hangs", Retry: connectors.RetryHelps,
		Doc:    "The target was given records, and neither takes nor refuses them.",
		Remedy: "look at the target: is it up, overloaded, locked, out of space"}
	stallCommit = &connectors.Reason{Code: "task.commit_fails", Retry: connectors.RetryHelps,
		Doc:    "Offsets cannot be stored: every attempt to flush the target or to commit has failed since.",
		Remedy: "the worker's log says why each attempt fails; look at the target, or at the offsets topic and the group's coordinator"}
	stallReading = &connectors.Reason{Code: "task.reading_hangs", Retry: connectors.RetryHelps,
		Doc:    "The topics have grown since the task last read a record, but it reads no further.",
		Remedy: "look at the cluster, and at the topics' leaders; the task goes on by itself"}
)

// Reasons are the failures that any task may have, whatever its connector.
func Reasons() []*connectors.Reason {
	return []*connectors.Reason{stallLog, stallConverting, stallSource, stallPut, stallCommit, stallReading, Fenced}
}

// A Stall says that a task runs, has something to do, and gets no further.
type Stall struct {
	Reason *connectors.Reason
	Cause  string // a sentence with what is known
	Since  time.Time
}

// Error is the stall as the failure of its task.
func (s *Stall) Error(after time.Duration) error {
	return connectors.Failed(s.Reason, nil, fmt.Sprintf("%s (for %v, task.stall.timeout.ms is %d)", s.Cause, time.Since(s.Since).Round(time.Second), after.Milliseconds()), "")
}

// A Watch looks at one run of a task from time to time and tells whether it has stalled.
// It is used by one goroutine.
type Watch struct {
	t    *Task
	a    *activity
	seen sample
	// Since when what it has under way, its source or its reading stands still.
	stillWork, stillSource, stillRead time.Time
	end                               int64 // of what a sink may read, when it last got on
	fresh                             bool  // nothing was seen yet, or not since a pause
}

// Watch begins to watch the task.
func (t *Task) Watch() *Watch { return &Watch{t: t, fresh: true} }

// sample is what a look sees.
type sample struct {
	now                    time.Time
	emitted, shaped, acked int64
	source                 *connectors.Progress
	silent                 time.Time // since when the source does not say where it is; zero: it does
	stage                  stage
	stageSince, failing    time.Time // zero: not
	pending, done, end     int64
}

// Look reports the stall of the task, or nil where it gets on, is idle or paused. It may
// ask the source, which ctx bounds.
func (w *Watch) Look(ctx context.Context) *Stall {
	a := w.t.Meter.run.Load()
	if a == nil || a.gate != w.t.gate { // not begun
		return nil
	}
	if a != w.a {
		w.a, w.fresh = a, true
	}
	if a.gate.closed() {
		w.fresh = true
		return nil
	}
	return w.judge(a.kind, a.sample(ctx))
}

// Lagging are the partitions whose end the task itself does not learn, since it does not
// read: all of a sink that is busy, paused or has failed.
func (m *Meter) Lagging() []connectors.TopicPartition {
	a := m.run.Load()
	if a == nil || a.kind != runtime.SinkType {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended.Load() && !a.gate.closed() && a.idle() && time.Since(time.Unix(0, a.polled.Load())) < window {
		return nil
	}
	out := make([]connectors.TopicPartition, 0, len(a.parts))
	for tp := range a.parts {
		out = append(out, tp)
	}
	return out
}

// SetEnd notes the end of what may be read of a partition, as the log has said.
func (m *Meter) SetEnd(tp connectors.TopicPartition, end int64) {
	a := m.run.Load()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.parts[tp]; p != nil && end > p.end.Load() {
		p.end.Store(end)
	}
}

func (a *activity) idle() bool {
	s, _ := a.at()
	return s == idle
}

func (a *activity) sample(ctx context.Context) sample {
	at := func(ns int64) time.Time {
		if ns == 0 {
			return time.Time{}
		}
		return time.Unix(0, ns)
	}
	// What is behind is read first: nothing then seems to be under way that has arrived.
	s := sample{acked: a.acked.Load()}
	s.shaped = a.shaped.Load()
	s.emitted = a.emitted.Load()
	s.source = a.progress(ctx)
	s.silent = a.asked.since()
	s.stage, s.stageSince = a.at()
	s.failing, s.pending = at(a.failing.Load()), a.pending.Load()
	a.mu.Lock()
	for _, p := range a.parts {
		s.done += p.done.Load()
		s.end += max(p.end.Load(), p.done.Load())
	}
	a.mu.Unlock()
	s.now = time.Now()
	return s
}

// still is now where something moved, else since.
func still(moved bool, since, now time.Time) time.Time {
	if moved || since.IsZero() {
		return now
	}
	return since
}

// judge compares a look with the one before it.
func (w *Watch) judge(kind runtime.Type, s sample) *Stall {
	was := w.seen
	w.seen = s
	if w.fresh {
		was = sample{done: -1, acked: -1}
		w.stillWork, w.stillSource, w.stillRead, w.fresh = time.Time{}, time.Time{}, time.Time{}, false
	}
	if kind == runtime.SinkType {
		return w.judgeSink(s, was)
	}
	var found oldest
	// A source that still emits proves nothing: what it emits piles up for a while.
	w.stillWork = still(s.acked != was.acked || was.emitted <= was.acked, w.stillWork, s.now)
	if n := s.emitted - s.acked; n > 0 {
		if s.shaped > s.acked {
			found.add(stallLog, w.stillWork, "%d batches wait for the log to take them", n)
		} else {
			found.add(stallConverting, w.stillWork, "a batch does not come out of the transforms and converters")
		}
	}
	if s.stage == committing {
		found.add(stallCommit, s.stageSince, "the commit of a transaction does not come to its end")
	}
	if !s.failing.IsZero() {
		found.add(stallCommit, s.failing, "no commit of offsets succeeds")
	}
	if !s.silent.IsZero() {
		found.add(stallSource, s.silent, "the connector does not say where it is: what it asks does not answer")
	}
	p := s.source
	if p == nil || p.Behind <= 0 || s.emitted > s.acked {
		w.stillSource = time.Time{}
		return found.stall
	}
	w.stillSource = still(was.source == nil || was.source.At != p.At || s.emitted != was.emitted, w.stillSource, s.now)
	found.add(stallSource, w.stillSource, "%d bytes of the source are not read, and it stays at %s", p.Behind, p.Position)
	return found.stall
}

// oldest is the stall that lasts longest.
type oldest struct{ stall *Stall }

func (o *oldest) add(r *connectors.Reason, since time.Time, cause string, args ...any) {
	if o.stall == nil || since.Before(o.stall.Since) {
		o.stall = &Stall{r, fmt.Sprintf(cause, args...), since}
	}
}

var stageNames = map[stage]struct {
	reason *connectors.Reason
	cause  string
}{
	converting: {stallConverting, "records do not come out of the converters and transforms"},
	opening:    {stallPut, "the connector does not return from opening partitions"},
	putting:    {stallPut, "the connector does not return from putting records"},
	flushing:   {stallPut, "the connector does not return from flushing records"},
	closing:    {stallPut, "the connector does not return from closing partitions"},
	committing: {stallCommit, "the group's coordinator does not answer a commit of offsets"},
}

func (w *Watch) judgeSink(s, was sample) *Stall {
	if s.done != was.done || w.stillRead.IsZero() {
		w.stillRead, w.end = s.now, s.end
	}
	var found oldest
	if at, busy := stageNames[s.stage]; busy {
		found.add(at.reason, s.stageSince, "%s", at.cause)
	}
	if s.pending > 0 {
		found.add(stallPut, w.stillRead, "%d records are put again and again", s.pending)
	}
	if !s.failing.IsZero() {
		found.add(stallCommit, s.failing, "no flush and commit of offsets succeeds")
	}
	if found.stall == nil && s.end > w.end && s.end > s.done {
		found.add(stallReading, w.stillRead, "%d records wait in the topics", s.end-s.done)
	}
	return found.stall
}
