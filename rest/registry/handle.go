package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"millrace/rest"
	rules "millrace/schema/registry"
)

// A call is a request with its body, where the route takes one.
type call struct {
	*http.Request
	body []byte
	uri  string // as it was sent
}

// A handler decodes a call, asks the registry and returns what to answer: any value as JSON with status 200, text as it is, or an answer.
type handler func(c *call) (any, error)

// text is answered as it is.
type text string

// answer is a status with a body that is JSON already, or none.
type answer struct {
	status int
	media  string // "" for the one that the client prefers
	body   []byte
}

func (s *Server) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, &call{Request: r, uri: r.RequestURI}, h)
	}
}

// Media types of bodies and answers; the first is the one that is answered where the client has no wish.
var (
	mediaTypes = []string{"application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry+json", "application/json"}
	bodyTypes  = append(slices.Clone(mediaTypes), "application/octet-stream")
)

// handleBody is handle for routes that take a body.
func (s *Server) handleBody(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if given := r.Header.Get("Content-Type"); given != "" {
			media, _, err := mime.ParseMediaType(given)
			if err != nil || !slices.Contains(bodyTypes, media) {
				writeError(w, r, httpError(http.StatusUnsupportedMediaType))
				return
			}
		}
		body, release, err := s.bodies.Read(r)
		defer release()
		if err != nil {
			writeError(w, r, err)
			return
		}
		s.serve(w, r, &call{Request: r, body: body, uri: r.RequestURI}, h)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, c *call, h handler) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	c.Request = r.WithContext(ctx)
	v, err := h(c)
	if err != nil {
		writeError(w, r, err)
		return
	}
	switch v := v.(type) {
	case answer:
		media := v.media
		if media == "" {
			media = preferred(r)
		}
		writeBody(w, media, v.status, v.body)
	case text:
		writeBody(w, preferred(r), http.StatusOK, []byte(v))
	default:
		body, err := encode(v)
		if err != nil {
			writeError(w, r, fmt.Errorf("encode the answer: %w", err))
			return
		}
		writeBody(w, preferred(r), http.StatusOK, body)
	}
}

// recovered answers a request whose handler panicked, which is a bug, and goes on.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.Log.Error("request handler of the schema registry panicked", "method", r.Method, "panic", p)
			writeError(w, r, errors.New("internal error: a bug, see the worker's log"))
		}()
		next.ServeHTTP(w, r)
	})
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

func writeBody(w http.ResponseWriter, media string, status int, body []byte) {
	if body != nil {
		w.Header().Set("Content-Type", media)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is no error of ours
}

// httpError is the answer to a request that found no handler, in the original's words.
func httpError(status int) error {
	return &rules.Error{Code: status, Message: fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))}
}

// writeError is the one place where errors become statuses and bodies.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	var known *rules.Error
	code := rest.StatusOf(err)
	status := code
	if errors.As(err, &known) {
		code, status = known.Code, known.Status()
	} else if errors.Is(err, context.DeadlineExceeded) {
		code, status = rules.CodeTimeout, http.StatusInternalServerError
	}
	body, _ := encode(struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}{code, err.Error()}) // an int and a string always encode
	writeBody(w, preferred(r), status, body)
}

// acceptable refuses clients that take none of the media types.
func acceptable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if choose(r.Header.Values("Accept")) == "" {
			writeError(w, r, httpError(http.StatusNotAcceptable))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func preferred(r *http.Request) string {
	if m := choose(r.Header.Values("Accept")); m != "" {
		return m
	}
	return mediaTypes[2]
}

// choose is the media type that Accept headers like best, ours where they like several as much; "" where they take none.
func choose(accept []string) string {
	best, weight := "", 0.0
	any := false
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			fields := strings.Split(part, ";")
			media := strings.ToLower(strings.TrimSpace(fields[0]))
			if media == "" {
				continue
			}
			any = true
			q := 1.0
			for _, f := range fields[1:] {
				if v, ok := strings.CutPrefix(strings.ReplaceAll(f, " ", ""), "q="); ok {
					if n, err := strconv.ParseFloat(v, 64); err == nil {
						q = n
					}
				}
			}
			for i, m := range mediaTypes {
				if media == m || media == "*/*" || media == "application/*" {
					// Of those that a client likes as much the order is ours.
					if w := q - float64(i)*1e-9; q > 0 && w > weight {
						best, weight = m, w
					}
				}
			}
		}
	}
	if !any {
		return mediaTypes[0]
	}
	return best
}

// decode reads a body, in which fields that there are not are ignored.
func decode[T any](c *call) (*T, error) {
	if len(bytes.TrimSpace(c.body)) == 0 || string(bytes.TrimSpace(c.body)) == "null" {
		return nil, &rules.Error{Code: rules.CodeUnprocessable, Message: "the request must not be empty: send a JSON object"}
	}
	if err := rest.Bounded(c.body); err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(c.body, v); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) && typed.Field != "" {
			return nil, &rules.Error{Code: rules.CodeBadRequest, Message: fmt.Sprintf("field %.100q may not be a JSON %s", typed.Field, typed.Value)}
		}
		return nil, &rules.Error{Code: rules.CodeBadRequest, Message: fmt.Sprintf("the body is not the JSON that this call takes: %.300s", err)}
	}
	return v, nil
}

// param is a decoded part of the path.
func (c *call) param(name string) (string, error) { return rest.Param(c.Request, name) }

// subject is the path's subject; "" where it has none, as in settings of the registry as a whole.
func (c *call) subject() (string, error) {
	if chi.URLParam(c.Request, "subject") == "" {
		if strings.Contains(c.URL.RawPath, "subjects/") {
			return "", httpError(http.StatusNotFound)
		}
		return "", nil
	}
	return c.param("subject")
}

// number is the path's version.
func (c *call) number() (int, error) {
	v, err := c.param("version")
	if err != nil {
		return 0, err
	}
	return rules.ParseVersion(v)
}

// subjectVersion is the path's subject and version.
func (c *call) subjectVersion() (subject string, version int, err error) {
	if subject, err = c.subject(); err == nil {
		version, err = c.number()
	}
	return subject, version, err
}

// subjectBody is the path's subject and what the request brings for it.
func subjectBody[T any](c *call) (subject string, body *T, err error) {
	if subject, err = c.subject(); err == nil {
		body, err = decode[T](c)
	}
	return subject, body, err
}

// id is the path's id.
func (c *call) id() (int32, error) {
	id, err := strconv.ParseInt(chi.URLParam(c.Request, "id"), 10, 32)
	if err != nil {
		return 0, httpError(http.StatusNotFound)
	}
	return int32(id), nil
}

// flag is a boolean parameter.
func (c *call) flag(name string) bool { return strings.EqualFold(c.URL.Query().Get(name), "true") }

func (c *call) query(name string) string { return c.URL.Query().Get(name) }

// page is the part of a list that is asked for.
func (c *call) page() (p rules.Page, err error) {
	for name, into := range map[string]*int{"offset": &p.Offset, "limit": &p.Limit} {
		if text := c.query(name); text != "" {
			n, bad := strconv.ParseInt(text, 10, 32)
			if bad != nil {
				return p, &rules.Error{Code: rules.CodeBadRequest, Message: fmt.Sprintf("%s=%.40s: want a number", name, text)}
			}
			*into = int(n)
		}
	}
	return p, nil
}

// forwarded is the header of a request that an instance hands on.
const forwarded = "X-Forward"

// write has the instance that writes decide: this one, or another, to which the request is handed on.
func (s *Server) write(c *call, shared bool, prepare func() error, decide func(b *rules.Batch) (any, error)) (any, error) {
	var last error
	for range 3 {
		leader, self, err := s.Instance.Leader(c.Context())
		switch {
		case err != nil:
			return nil, &rules.Error{Code: rules.CodeUnknownLeader, Message: "Leader not known."}
		case self:
			if prepare != nil {
				if err := prepare(); err != nil {
					return nil, err
				}
			}
			var v any
			err := s.Instance.Decide(c.Context(), shared, func(b *rules.Batch) (err error) {
				v, err = decide(b)
				return err
			})
			if err == nil || !errors.Is(err, s.NotHere) {
				return v, err
			}
			last = &rules.Error{Code: rules.CodeUnknownLeader, Message: "Leader not known: " + err.Error()}
		case c.Header.Get(forwarded) != "":
			return nil, &rules.Error{Code: rules.CodeForwarding, Message: "A request was handed on to this instance, which does not write: the instances agree anew on the one that does; try again"}
		default:
			a, again, err := s.forward(c, leader)
			if !again {
				return a, err
			}
			if last = err; err == nil {
				last = &rules.Error{Code: rules.CodeForwarding, Message: "Error while forwarding the request to the leader " + leader + ": it does not write any more; try again"}
			}
		}
	}
	return nil, last
}

// forward hands a request on. again says that the instance there does not write any more.
func (s *Server) forward(c *call, leader string) (a answer, again bool, err error) {
	f, err := rest.Forward(s.Client, c.Request, leader+c.uri, c.body, http.Header{forwarded: {"true"}})
	if err != nil {
		return answer{}, false, &rules.Error{Code: rules.CodeForwarding, Message: "Error while forwarding the request to the leader: " + err.Error()}
	}
	var refused struct {
		Code int `json:"error_code"`
	}
	if f.Status >= 500 && json.Unmarshal(f.Body, &refused) == nil && (refused.Code == rules.CodeForwarding || refused.Code == rules.CodeUnknownLeader) {
		return answer{}, true, nil
	}
	return answer{f.Status, f.Header.Get("Content-Type"), f.Body}, false, nil
}
