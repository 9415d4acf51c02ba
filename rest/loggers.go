package rest

import (
	"net/http"

	"millrace/runtime"
)

func (s *Server) loggers(*http.Request) (any, error) { return s.herder.Loggers(), nil }

func (s *Server) logger(r *http.Request) (any, error) {
	name, err := Param(r, "logger")
	if err != nil {
		return nil, err
	}
	return s.herder.Logger(name)
}

// levelRequest is the body of PUT /admin/loggers/{logger}.
type levelRequest struct {
	Level *string `json:"level"`
}

func (s *Server) putLogger(r *http.Request) (any, error) {
	name, err := Param(r, "logger")
	if err != nil {
		return nil, err
	}
	var body levelRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if body.Level == nil {
		return nil, runtime.BadRequest("Desired 'level' parameter was not specified in request.")
	}
	scope := r.URL.Query().Get("scope")
	if scope == "cluster" {
		return answer{status: http.StatusNoContent}, s.herder.SetClusterLogger(r.Context(), name, *body.Level)
	}
	if scope != "" && scope != "worker" {
		s.lg.Warn("an unknown scope of a logger's level is taken as worker; there are worker and cluster", "scope", cut(scope))
	}
	return s.herder.SetLogger(name, *body.Level)
}

// cut bounds a client's text for a log line.
func cut(text string) string {
	if len(text) <= 64 {
		return text
	}
	return text[:64] + "…"
}
