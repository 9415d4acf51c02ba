package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/runtime"
)

// What a status in detail tells of a part only the worker that runs it knows. The worker that a client asks has the others tell theirs.

const (
	partsLimit  = 3 * time.Second // for all of them
	askedAtOnce = 8               // workers
	partsPath   = "connectors/status"
)

// partsRequest asks a worker for its parts of connectors.
type partsRequest struct {
	Connectors []string `json:"connectors"`
}

// parts answers another worker: what this one knows of connectors.
func (s *Server) parts(r *http.Request) (any, error) {
	body := r.Body.(wholeBody).data // every route with a body has read it
	if err := s.herder.VerifyWorker(body, signatureOf(r)); err != nil {
		return nil, err
	}
	var asked partsRequest
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	out := map[string]*statusBody{}
	for _, name := range asked.Connectors {
		status, err := s.herder.StatusDetail(r.Context(), name)
		if StatusOf(err) == http.StatusNotFound {
			continue // deleted meanwhile
		}
		if err == nil {
			out[name], err = newStatusBody(status, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// away is a part that another worker runs.
type away struct {
	connector string
	task      int // -1: the connector itself
	part      *partBody
}

// complete has the workers that run parts of these connectors tell of them. It takes a bounded time; of a worker that does not answer the
// parts say so.
func (s *Server) complete(ctx context.Context, statuses []*statusBody) {
	owners := map[string][]away{}
	add := func(a away) {
		if d := a.part.PartDetail; d != nil && d.From == fromStatusTopic && a.part.WorkerID != s.herder.WorkerID() && a.part.State != runtime.Unassigned {
			owners[a.part.WorkerID] = append(owners[a.part.WorkerID], a)
		}
	}
	for _, st := range statuses {
		add(away{st.Name, -1, &st.Connector})
		for i := range st.Tasks {
			add(away{st.Name, st.Tasks[i].ID, &st.Tasks[i].partBody})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, partsLimit)
	defer cancel()
	var asked sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for worker, list := range owners {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := s.ask(ctx, worker, list); err != nil {
				for _, a := range list {
					a.part.NoAnswer = fmt.Sprintf("the worker at %s does not tell: %.300s", worker, err)
				}
			}
		})
	}
	asked.Wait()
}

// ask fills in what one worker tells of its parts.
func (s *Server) ask(ctx context.Context, worker string, list []away) error {
	var request partsRequest
	for _, a := range list {
		request.Connectors = append(request.Connectors, a.connector)
	}
	slices.Sort(request.Connectors)
	request.Connectors = slices.Compact(request.Connectors)
	body, err := encode(request)
	if err != nil {
		return err
	}
	signature, err := s.herder.Sign(body)
	if err != nil {
		return err
	}
	url, err := s.herder.WorkerURL(worker)
	if err != nil {
		return err
	}
	data, err := askWorker(ctx, s.client, url+partsPath, body, signature)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("no answer within %s", partsLimit)
	case err != nil:
		return err
	}
	told := map[string]*statusBody{}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&told); err != nil {
		return fmt.Errorf("its answer is none to this question: %w", err)
	}
	for _, a := range list {
		part := told[a.connector].part(a.task)
		if part == nil || part.PartDetail == nil || part.From != fromWorker {
			a.part.NoAnswer = fmt.Sprintf("the worker at %s does not run it any more, or not yet", worker)
			continue
		}
		*a.part = *part
	}
	return nil
}

// part is one part of a status, the connector for -1; nil where there is none.
func (b *statusBody) part(task int) *partBody {
	switch {
	case b == nil:
		return nil
	case task < 0:
		return &b.Connector
	}
	i := slices.IndexFunc(b.Tasks, func(t taskBody) bool { return t.ID == task })
	if i < 0 {
		return nil
	}
	return &b.Tasks[i].partBody
}

// isParts reports whether a request is one of another worker for parts.
func isParts(method, path string) bool {
	return method == http.MethodPost && strings.Trim(path, "/") == partsPath
}
