package rest

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"millrace/runtime"
	"millrace/schema"
)

// commit is what Connect shows as the commit it was built from; ours is in the
// Server header and in `millrace version`.
const commit = "millrace"

type rootBody struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	ClusterID string `json:"kafka_cluster_id"`
	Kafka     string `json:"kafka,omitempty"`    // with ?detail=full, where the log listens
	Registry  string `json:"registry,omitempty"` // with ?detail=full, where the schema registry does
	// Topics are those in which the worker keeps its state, with ?detail=full.
	Topics []string `json:"internal_topics,omitempty"`
}

func (s *Server) root(r *http.Request) (any, error) {
	b := rootBody{Version: schema.ConnectVersion, Commit: commit, ClusterID: s.herder.ClusterID()}
	if detailed(r) {
		b.Kafka, b.Registry, b.Topics = s.kafka, s.registry, s.internal
	}
	return b, nil
}

func (s *Server) health(r *http.Request) (any, error) {
	h := s.herder.Health(r.Context())
	status := http.StatusOK
	switch h.Status {
	case "starting":
		status = http.StatusServiceUnavailable
	case "unhealthy":
		status = http.StatusInternalServerError
	}
	return answer{status: status, body: h}, nil
}

// expanded is one connector of a list with expand.
type expanded struct {
	Info   *runtime.ConnectorInfo `json:"info,omitempty"`
	Status *statusBody            `json:"status,omitempty"`
}

func (s *Server) connectors(r *http.Request) (any, error) {
	names, err := s.herder.Connectors(r.Context())
	if err != nil {
		return nil, err
	}
	expand := r.URL.Query()["expand"]
	if len(expand) == 0 {
		if names == nil {
			names = []string{}
		}
		return names, nil
	}
	out := make(map[string]expanded, len(names))
	var gone *runtime.NotFoundError
	for _, name := range names {
		var e expanded
		if slices.Contains(expand, "info") {
			info, err := s.herder.Connector(r.Context(), name)
			if errors.As(err, &gone) {
				continue // deleted meanwhile
			} else if err != nil {
				return nil, err
			}
			e.Info = infoBody(info)
		}
		if slices.Contains(expand, "status") {
			body, err := s.status(r, name)
			if errors.As(err, &gone) {
				continue
			} else if err != nil {
				return nil, err
			}
			e.Status = body
		}
		out[name] = e
	}
	if detailed(r) {
		var statuses []*statusBody
		for _, e := range out {
			if e.Status != nil {
				statuses = append(statuses, e.Status)
			}
		}
		s.complete(r.Context(), statuses)
	}
	return out, nil
}

// createRequest is the body of POST /connectors.
type createRequest struct {
	Name    string              `json:"name"`
	Config  *runtime.FlatConfig `json:"config"`
	Initial *string             `json:"initial_state"`
}

func (s *Server) createConnector(r *http.Request) (any, error) {
	var body createRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	config, err := required(body.Config)
	if err != nil {
		return nil, err
	}
	initial, err := initialState(body.Initial)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSpace(body.Name)
	if err := s.checkName(r, name, config); err != nil {
		return nil, err
	}
	return s.put(r, name, config, initial, false)
}

func (s *Server) putConnectorConfig(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	var body runtime.FlatConfig
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	config, err := required(&body)
	if err != nil {
		return nil, err
	}
	if err := s.checkName(r, name, config); err != nil {
		return nil, err
	}
	return s.put(r, name, config, "", true)
}

func (s *Server) patchConnectorConfig(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	var body configPatch
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if body.Values == nil {
		return nil, runtime.BadRequest("no settings were sent; send an object of texts, with null for a setting that shall be removed")
	}
	info, err := s.herder.PatchConfig(r.Context(), name, body.FlatConfig)
	if err != nil {
		return nil, err
	}
	return infoBody(info), nil
}

func (s *Server) put(r *http.Request, name string, config map[string]string, initial runtime.TargetState, replace bool) (any, error) {
	info, created, err := s.herder.PutConfig(r.Context(), name, config, initial, replace)
	if err != nil {
		return nil, err
	}
	a := answer{status: http.StatusOK, body: infoBody(info)}
	if created {
		a.status, a.location = http.StatusCreated, "http://"+r.Host+"/connectors/"+pathName(name)
		if r.TLS != nil {
			a.location = "https" + strings.TrimPrefix(a.location, "http")
		}
	}
	return a, nil
}

func initialState(text *string) (runtime.TargetState, error) {
	if text == nil {
		return "", nil
	}
	return runtime.InitialState(*text)
}

// infoBody is a connector's info with a list of tasks that is never null.
func infoBody(i runtime.ConnectorInfo) *runtime.ConnectorInfo {
	if i.Tasks == nil {
		i.Tasks = []runtime.TaskID{}
	}
	return &i
}

func (s *Server) connector(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	info, err := s.herder.Connector(r.Context(), name)
	return infoBody(info), err
}

func (s *Server) connectorConfig(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	return s.herder.Config(r.Context(), name)
}

func (s *Server) deleteConnector(r *http.Request) (any, error) {
	return s.act(r, http.StatusNoContent, func(name string) error { return s.herder.Delete(r.Context(), name) })
}

func (s *Server) pauseConnector(r *http.Request) (any, error) {
	return s.target(r, http.StatusAccepted, runtime.PausedTarget)
}

func (s *Server) resumeConnector(r *http.Request) (any, error) {
	return s.target(r, http.StatusAccepted, runtime.Started)
}

func (s *Server) stopConnector(r *http.Request) (any, error) {
	return s.target(r, http.StatusNoContent, runtime.StoppedTarget)
}

func (s *Server) target(r *http.Request, status int, state runtime.TargetState) (any, error) {
	return s.act(r, status, func(name string) error { return s.herder.SetTargetState(r.Context(), name, state) })
}

// act does something to the named connector and answers without a body.
func (s *Server) act(r *http.Request, status int, do func(name string) error) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	return answer{status: status}, do(name)
}

func (s *Server) restartConnector(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	tasks, failed := flag(r, "includeTasks"), flag(r, "onlyFailed")
	if !tasks && !failed {
		return answer{status: http.StatusNoContent}, s.herder.RestartConnector(r.Context(), name)
	}
	status, err := s.herder.Restart(r.Context(), name, tasks, failed)
	if err != nil {
		return nil, err
	}
	body, err := newStatusBody(status, detailed(r))
	return answer{status: http.StatusAccepted, body: body}, err
}
