package rest

import (
	"fmt"
	"net/http"
	"time"

	"millrace/runtime"
)

func (s *Server) connectorStatus(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	return s.status(r, name)
}

// status is a connector's status, as plain or detailed as the client wants it.
func (s *Server) status(r *http.Request, name string) (*statusBody, error) {
	ask, detail := s.herder.Status, detailed(r)
	if detail {
		ask = s.herder.StatusDetail
	}
	status, err := ask(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return newStatusBody(status, detail)
}

func (s *Server) taskStatus(r *http.Request) (any, error) {
	id, err := taskID(r)
	if err != nil {
		return nil, err
	}
	ask, detail := s.herder.TaskStatus, detailed(r)
	if detail {
		ask = s.herder.TaskStatusDetail
	}
	st, err := ask(r.Context(), id)
	if err != nil {
		return nil, err
	}
	part, err := newPartBody(st.PartStatus, detail)
	return taskBody{st.ID, part}, err
}

// detailed reports whether the client asked for what goes beyond Connect's answers.
func detailed(r *http.Request) bool { return r.URL.Query().Get("detail") == "full" }

// statusBody is a connector's status as Connect shows it.
type statusBody struct {
	Name      string       `json:"name"`
	Connector partBody     `json:"connector"`
	Tasks     []taskBody   `json:"tasks"`
	Type      runtime.Type `json:"type"`
}

type taskBody struct {
	ID int `json:"id"`
	partBody
}

type partBody struct {
	State    runtime.State `json:"state"`
	WorkerID string        `json:"worker_id"`
	Version  string        `json:"version,omitempty"`
	Trace    string        `json:"trace,omitempty"`
	*detailBody
}

// Where a part's detail comes from.
const (
	fromWorker      = "worker"       // the worker that answers runs it
	fromStatusTopic = "status_topic" // another one does: no more than its state is known here
)

// detailBody is what ?detail=full adds. Of another worker's parts From alone is there,
// and Ask names that worker.
type detailBody struct {
	From     string                  `json:"from"`
	Ask      string                  `json:"ask,omitempty"`
	Since    *time.Time              `json:"since,omitempty"`
	Reason   *runtime.FailureDetail  `json:"reason,omitempty"`
	Restarts *int                    `json:"restarts,omitempty"`
	Most     int                     `json:"restarts_most,omitempty"`
	Next     *time.Time              `json:"next_restart,omitempty"`
	GivesUp  *time.Time              `json:"gives_up_at,omitempty"`
	Stalled  *runtime.StallDetail    `json:"stalled,omitempty"`
	Moved    *time.Time              `json:"last_progress,omitempty"`
	Reading  *runtime.SourceProgress `json:"reading,omitempty"`
	Lag      *int64                  `json:"lag,omitempty"`
	Offsets  []offsetBody            `json:"offsets,omitempty"`
	Position []runtime.PartProgress  `json:"position,omitempty"`
	More     int                     `json:"more,omitempty"`
	Figures  []runtime.Figure        `json:"metrics,omitempty"`
}

func newPartBody(p runtime.PartStatus, detail bool) (partBody, error) {
	b := partBody{State: p.State, WorkerID: p.WorkerID, Version: p.Version, Trace: p.Trace}
	if !detail {
		return b, nil
	}
	if !p.Here {
		b.detailBody = &detailBody{From: fromStatusTopic, Ask: p.WorkerID}
		return b, nil
	}
	d := &detailBody{From: fromWorker, Since: at(p.Since), Reason: p.Failure, Restarts: &p.Restarts, Most: p.Most,
		Next: at(p.Next), GivesUp: at(p.GivesUp), Stalled: p.Stall}
	b.detailBody = d
	g := p.Progress
	if g == nil {
		return b, nil
	}
	d.Moved, d.Reading, d.Position, d.More, d.Figures = at(g.Moved), g.Reading, g.Parts, g.More, g.Figures
	if g.Lag >= 0 {
		d.Lag = &g.Lag
	}
	if len(g.Offsets) == 0 {
		return b, nil
	}
	offsets, err := newOffsetsBody(g.Offsets)
	d.Offsets = offsets.Offsets
	return b, err
}

// at is a time in UTC; nil where there is none.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func newStatusBody(st runtime.Status, detail bool) (*statusBody, error) {
	b := &statusBody{Name: st.Name, Type: st.Type, Tasks: []taskBody{}}
	var err error
	if b.Connector, err = newPartBody(st.Connector, detail); err != nil {
		return nil, err
	}
	for _, t := range st.Tasks {
		part, err := newPartBody(t.PartStatus, detail)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", t.ID, err)
		}
		b.Tasks = append(b.Tasks, taskBody{t.ID, part})
	}
	return b, nil
}
