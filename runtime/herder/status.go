package herder

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/store"
	"millrace/runtime/worker"
)

// Status is the state of a connector and its tasks, with what this worker knows of its
// own parts but their progress.
func (h *Herder) Status(ctx context.Context, name string) (runtime.Status, error) {
	st, _, err := h.status(ctx, name)
	return st, err
}

// StatusDetail is Status with the progress of this worker's own tasks. A source may be asked
// where it is.
func (h *Herder) StatusDetail(ctx context.Context, name string) (runtime.Status, error) {
	st, meters, err := h.status(ctx, name)
	if err != nil {
		return st, err
	}
	for i := range st.Tasks {
		if m := meters[st.Tasks[i].ID]; m != nil {
			st.Tasks[i].Progress = h.progress(ctx, name, m, len(st.Tasks) == 1)
		}
	}
	return st, nil
}

// status is Status, and the meters of the tasks that are here.
func (h *Herder) status(ctx context.Context, name string) (runtime.Status, map[int]*worker.Meter, error) {
	c := h.configs.Now().Connectors[name]
	st, ok := h.statuses.Connector(name)
	if c == nil || !ok {
		return runtime.Status{}, nil, runtime.NotFound("No status found for connector %s", name)
	}
	out := runtime.Status{Name: name, Type: h.typeOf(c.Config), Connector: partOf(st), Tasks: []runtime.TaskStatus{}}
	for n := range c.Tasks {
		if st, ok := h.statuses.Task(runtime.TaskID{Connector: name, Task: n}); ok {
			out.Tasks = append(out.Tasks, runtime.TaskStatus{ID: n, PartStatus: partOf(st)})
		}
	}
	// What this worker knows of its own parts beyond what the topic says.
	meters := map[int]*worker.Meter{}
	err := h.peek(ctx, func() {
		if s := h.conns[name]; s != nil {
			detail(&out.Connector, &s.outcome)
		}
		for i := range out.Tasks {
			t := &out.Tasks[i]
			s := h.tasks[runtime.TaskID{Connector: name, Task: t.ID}]
			if s == nil {
				continue
			}
			detail(&t.PartStatus, &s.outcome)
			meters[t.ID] = s.meter
			if s.stall != nil {
				t.Stall = &runtime.StallDetail{Code: s.stall.Reason.Code, Reason: s.stall.Cause, Since: s.stall.Since.UTC(), Remedy: s.stall.Reason.Remedy}
				if s.limit > 0 {
					at := s.stall.Since.Add(s.limit).UTC()
					t.Stall.Restart = &at
				}
			}
		}
	})
	return out, meters, err
}

func partOf(st store.Status) runtime.PartStatus {
	return runtime.PartStatus{State: st.State, WorkerID: st.WorkerID, Version: st.Version, Trace: st.Trace}
}

// detail adds what is known of a part that is here.
func detail(p *runtime.PartStatus, o *outcome) {
	p.Here, p.Restarts, p.Next, p.Since = true, o.restarts, o.next, o.started
	if o.err == nil {
		return
	}
	p.Since = o.failed
	p.Failure = failureOf(o.err, o.failed)
	if connectors.RetryOf(o.err) == connectors.RetryUnknown {
		p.Most = unknownTimes
		if !o.next.IsZero() {
			p.GivesUp = lastRestart(o.next, o.restarts)
		}
	}
}

// failureOf is an error for all to read.
func failureOf(err error, since time.Time) *runtime.FailureDetail {
	d := &runtime.FailureDetail{Code: runtime.UnknownReason, Summary: err.Error(), Since: since.UTC(), Retry: "unknown"}
	switch connectors.RetryOf(err) {
	case connectors.RetryHelps:
		d.Retry, d.Remedy = "helps", "nothing here: the cause passes by itself, and the part is started again until it has"
	case connectors.RetryNever:
		d.Retry, d.Remedy = "never", "correct the configuration; a restart alone does not help"
	default:
		d.Remedy = "the reason is unknown: mend what the text names, then restart the part"
	}
	if f := connectors.FailureOf(err); f != nil {
		d.Summary, d.Remedy = f.Cause, f.Do()
		if f.Reason != nil {
			d.Code = f.Reason.Code
		}
	}
	return d
}

// mostShown is how many partitions of one task a status shows.
const mostShown = 100

// progress is where a task is. alone says that it is its connector's only one: then all
// the connector's stored offsets are its own.
func (h *Herder) progress(ctx context.Context, name string, m *worker.Meter, alone bool) *runtime.TaskProgress {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	p, ok := m.Progress(ctx)
	if !ok {
		return nil
	}
	out := &runtime.TaskProgress{Moved: p.Moved.UTC(), Lag: p.Lag, More: p.More}
	offsets := p.Offsets
	if len(offsets) == 0 && alone && p.Type == runtime.SourceType {
		offsets = h.offsets.All(name) // of earlier runs
	}
	for i, o := range offsets {
		if i == mostShown {
			out.More += len(offsets) - i
			break
		}
		out.Offsets = append(out.Offsets, runtime.OffsetInfo{Partition: o.Partition, Offset: o.Position})
	}
	if s := p.Source; s != nil {
		out.Reading = &runtime.SourceProgress{Position: s.Position}
		if s.Behind >= 0 {
			out.Reading.Behind = &s.Behind
		}
		out.Reading.Snapshot = snapshotOf(s.Snapshot)
	}
	out.Figures = figuresOf(m.Samples(ctx))
	for i, at := range p.Parts {
		if i == mostShown {
			out.More += len(p.Parts) - i
			break
		}
		one := runtime.PartProgress{Topic: at.Topic, Partition: at.Partition, Position: at.Position, Done: at.Done}
		if at.Committed >= 0 {
			one.Committed = &at.Committed
		}
		if at.Lag >= 0 {
			one.End, one.Lag = &at.End, &at.Lag
		}
		out.Parts = append(out.Parts, one)
	}
	return out
}

// mostFigures is how many of a connector's own figures a status shows; /metrics has all.
const mostFigures = 200

// figuresOf are a connector's own figures for all to read, without those that JSON cannot say.
func figuresOf(samples []connectors.Sample) (out []runtime.Figure) {
	for _, s := range samples {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		if len(out) == mostFigures {
			break
		}
		f := runtime.Figure{Name: s.Name, Value: s.Value}
		if len(s.Labels) > 0 {
			f.Labels = make(map[string]string, len(s.Labels))
		}
		for _, l := range s.Labels {
			f.Labels[l.Name] = strings.ToValidUTF8(l.Value, "\uFFFD")
		}
		out = append(out, f)
	}
	return out
}

// snapshotOf is a snapshot for all to read.
func snapshotOf(s *connectors.Snapshot) *runtime.SnapshotProgress {
	if s == nil {
		return nil
	}
	out := &runtime.SnapshotProgress{State: s.State, Rows: s.Rows, TableCount: len(s.Tables), Tables: []runtime.SnapshotTable{}}
	if !s.Began.IsZero() {
		at := s.Began.UTC()
		out.Began = &at
		end := time.Now()
		if !s.Ended.IsZero() {
			end = s.Ended
			at := s.Ended.UTC()
			out.Ended = &at
		}
		out.Seconds = end.Sub(s.Began).Seconds()
	}
	for _, t := range s.Tables {
		if t.State == "done" {
			out.TablesDone++
		}
		if len(out.Tables) == mostShown {
			out.More++
			continue
		}
		one := runtime.SnapshotTable{Table: t.Table, State: t.State, Rows: t.Rows}
		if t.Expected >= 0 {
			one.Expected = &t.Expected
		}
		out.Tables = append(out.Tables, one)
	}
	return out
}

// TaskStatus is the state of a task, as Status has it.
func (h *Herder) TaskStatus(ctx context.Context, id runtime.TaskID) (runtime.TaskStatus, error) {
	st, err := h.Status(ctx, id.Connector)
	return taskOf(st, err, id)
}

// TaskStatusDetail is the state of a task, as StatusDetail has it.
func (h *Herder) TaskStatusDetail(ctx context.Context, id runtime.TaskID) (runtime.TaskStatus, error) {
	st, meters, err := h.status(ctx, id.Connector)
	t, err := taskOf(st, err, id)
	if m := meters[id.Task]; err == nil && m != nil {
		t.Progress = h.progress(ctx, id.Connector, m, len(st.Tasks) == 1)
	}
	return t, err
}

func taskOf(st runtime.Status, err error, id runtime.TaskID) (runtime.TaskStatus, error) {
	if err == nil {
		for _, t := range st.Tasks {
			if t.ID == id.Task {
				return t, nil
			}
		}
	} else if !errors.As(err, new(*runtime.NotFoundError)) {
		return runtime.TaskStatus{}, err
	}
	return runtime.TaskStatus{}, runtime.NotFound("No status found for task %s", id)
}
