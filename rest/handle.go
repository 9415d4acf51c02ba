package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"millrace/runtime"
)

// A handler decodes a request, calls the herder and returns what to answer: any
// value as JSON with status 200, or an answer with a status of its own.
type handler func(r *http.Request) (any, error)

// An answer is a value with a status and headers. A nil body is no body.
type answer struct {
	status   int
	body     any
	location string
}

func (s *Server) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.lg.Error("request handler panicked", "method", r.Method, "route", chi.RouteContext(r.Context()).RoutePattern(), "panic", p)
			writeError(w, errors.New("internal error: a bug, see the worker's log"))
		}()
		r = r.WithContext(ctx)
		v, err := h(r)
		if to := (*runtime.ForwardError)(nil); errors.As(err, &to) {
			v, err = s.forward(r, to)
		}
		if err != nil {
			writeError(w, err)
			return
		}
		a, ok := v.(answer)
		if !ok {
			a = answer{status: http.StatusOK, body: v}
		}
		if a.location != "" {
			w.Header().Set("Location", a.location)
		}
		if a.body == nil {
			w.WriteHeader(a.status)
			return
		}
		body, err := encode(a.body)
		if err != nil {
			writeError(w, fmt.Errorf("encode the answer: %w", err))
			return
		}
		writeJSON(w, a.status, body)
	}
}

// handleBody is handle for routes that take a JSON body.
func (s *Server) handleBody(h handler) http.HandlerFunc {
	inner := s.handle(h)
	return func(w http.ResponseWriter, r *http.Request) {
		media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || media != "application/json" {
			writeError(w, httpError(http.StatusUnsupportedMediaType))
			return
		}
		release, err := s.readBody(r)
		defer release()
		if err != nil {
			writeError(w, err)
			return
		}
		inner(w, r)
	}
}

// encode writes JSON as Jackson does: <, > and & as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// Param is a decoded part of the path.
func Param(r *http.Request, name string) (string, error) {
	text, err := url.PathUnescape(chi.URLParam(r, name))
	if err != nil {
		return "", runtime.BadRequest("the path's %s is not correctly encoded: %s", name, err)
	}
	if !utf8.ValidString(text) {
		return "", runtime.BadRequest("the path's %s is not valid UTF-8", name)
	}
	return text, nil
}

// flag is a boolean query parameter; like in Connect, whatever is not "true" is false.
func flag(r *http.Request, name string) bool { return r.URL.Query().Get(name) == "true" }

// required is the configuration of a call that needs one and takes no nulls.
func required(c *runtime.FlatConfig) (map[string]string, error) {
	switch {
	case c == nil || c.Values == nil:
		return nil, runtime.BadRequest(`no configuration was sent; send an object of texts ("config" when creating a connector)`)
	case len(c.Nulls) > 0:
		return nil, runtime.BadRequest("Connector configuration is invalid and contains the following %d error(s):%s\n"+
			"You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`",
			len(c.Nulls), strings.Repeat("\nNull value can not be supplied as the configuration value.", len(c.Nulls)))
	}
	return c.Values, nil
}
