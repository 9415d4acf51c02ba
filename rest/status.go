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
	b, err := s.status(r, name)
	if err == nil && detailed(r) {
		s.complete(r.Context(), []*statusBody{b})
	}
	return b, err
}

// status is a connector's status, as plain or detailed as the client wants it and this worker knows it.
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
	if err != nil {
		return nil, err
	}
	// As one of its connector's parts, so that whoever runs it is asked.
	b := &statusBody{Name: id.Connector, Tasks: []taskBody{{st.ID, part}}}
	if detail {
		s.complete(r.Context(), []*statusBody{b})
	}
	return b.Tasks[0], nil
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
	*PartDetail
}

// Where a part's detail comes from.
const (
	fromWorker      = "worker"       // the worker that runs it
	fromStatusTopic = "status_topic" // no worker tells more than the state
)

// PartDetail is what ?detail=full adds to a part. Of a part whose worker does not tell, From, Ask, which names that worker, and NoAnswer are there alone.
type PartDetail struct {
	From     string                  `json:"from"`
	Ask      string                  `json:"ask,omitempty"`
	NoAnswer string                  `json:"no_answer,omitempty"`
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
		b.PartDetail = &PartDetail{From: fromStatusTopic, Ask: p.WorkerID}
		return b, nil
	}
	d := &PartDetail{From: fromWorker, Since: at(p.Since), Reason: p.Failure, Restarts: &p.Restarts, Most: p.Most,
		Next: at(p.Next), GivesUp: at(p.GivesUp), Stalled: p.Stall}
	b.PartDetail = d
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
