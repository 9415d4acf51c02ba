package herder

import (
	"context"
	"errors"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/store"
)

// Status is the state of a connector and its tasks.
func (h *Herder) Status(ctx context.Context, name string) (runtime.Status, error) {
	c := h.configs.Now().Connectors[name]
	st, ok := h.statuses.Connector(name)
	if c == nil || !ok {
		return runtime.Status{}, runtime.NotFound("No status found for connector %s", name)
	}
	out := runtime.Status{Name: name, Type: h.typeOf(c.Config), Connector: partOf(st), Tasks: []runtime.TaskStatus{}}
	for n := range c.Tasks {
		if st, ok := h.statuses.Task(runtime.TaskID{Connector: name, Task: n}); ok {
			out.Tasks = append(out.Tasks, runtime.TaskStatus{ID: n, PartStatus: partOf(st)})
		}
	}
	// What this worker knows of its own parts beyond what the topic says.
	err := h.peek(ctx, func() {
		if s := h.conns[name]; s != nil {
			detail(&out.Connector, &s.outcome)
		}
		for i := range out.Tasks {
			if s := h.tasks[runtime.TaskID{Connector: name, Task: out.Tasks[i].ID}]; s != nil {
				detail(&out.Tasks[i].PartStatus, &s.outcome)
			}
		}
	})
	return out, err
}

func partOf(st store.Status) runtime.PartStatus {
	return runtime.PartStatus{State: st.State, WorkerID: st.WorkerID, Version: st.Version, Trace: st.Trace}
}

func detail(p *runtime.PartStatus, o *outcome) {
	p.Restarts, p.Next = o.restarts, o.next
	if o.err == nil {
		return
	}
	d := runtime.FailureDetail{Summary: o.err.Error(), Retry: "unknown"}
	switch connectors.RetryOf(o.err) {
	case connectors.RetryHelps:
		d.Retry = "helps"
	case connectors.RetryNever:
		d.Retry = "never"
	}
	if f := connectors.FailureOf(o.err); f != nil {
		d.Summary, d.Remedy = f.Cause, f.Do()
		if f.Reason != nil {
			d.Code = f.Reason.Code
		}
	}
	p.Failure = &d
}

// TaskStatus is the state of a task.
func (h *Herder) TaskStatus(ctx context.Context, id runtime.TaskID) (runtime.TaskStatus, error) {
	st, err := h.Status(ctx, id.Connector)
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
