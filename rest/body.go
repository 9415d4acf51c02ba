package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"unicode/utf8"

	"millrace/runtime"
)

// Bounds of bodies beside maxBody: what a body becomes in memory stays a small multiple
// of its size, and what all of them together take stays bounded.
const (
	freeBody     = 64 << 10 // of each request; what is beyond it counts
	bodiesAtOnce = 64 << 20 // all that is beyond it
	maxDepth     = 64       // objects and arrays within each other
	maxValues    = 100_000  // in one body
)

// A wholeBody is a body that was read, in place of the connection's.
type wholeBody struct {
	*bytes.Reader
	data []byte
}

func (wholeBody) Close() error { return nil }

// Bodies are those that a server holds at a time. What all of them take beyond a little is bounded.
type Bodies struct {
	held atomic.Int64 // bytes beyond what each body has free
}

// Read reads a request's body whole. release must be called when the request is
// answered.
func (b *Bodies) Read(r *http.Request) (data []byte, release func(), err error) {
	held := int64(0)
	release = func() { b.held.Add(-held) }
	fail := func(err error) ([]byte, func(), error) {
		release()
		return nil, func() {}, err
	}
	buf := make([]byte, 0, 4<<10)
	for {
		if len(buf) == cap(buf) {
			size := 2 * cap(buf)
			if more := int64(size) - max(held, freeBody); more > 0 {
				held += more
				if b.held.Add(more) > bodiesAtOnce {
					return fail(&statusError{http.StatusServiceUnavailable, "too many large requests at once; try again"})
				}
			}
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var tooLarge *http.MaxBytesError
		switch {
		case err == io.EOF:
			return buf, release, nil
		case errors.As(err, &tooLarge):
			return fail(fmt.Errorf("the body is larger than the allowed %d bytes: %w", tooLarge.Limit, err))
		case err != nil:
			return fail(runtime.BadRequest("the body could not be read: %s", err))
		}
	}
}

// readBody reads a request's body whole, in place of the connection's. release must be called when the request is
// answered.
func (s *Server) readBody(r *http.Request) (release func(), err error) {
	data, release, err := s.bodies.Read(r)
	if err == nil {
		r.Body = wholeBody{bytes.NewReader(data), data}
	}
	return release, err
}

// decode reads a request's JSON body into v. Unknown fields, a second value and no
// value at all are errors of the client.
func decode(r *http.Request, v any) error {
	body, ok := r.Body.(wholeBody)
	if !ok || len(bytes.TrimSpace(body.data)) == 0 {
		return runtime.BadRequest("the request has no body; send a JSON object")
	}
	if err := Bounded(body.data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body.data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) {
			what := "the body"
			if typed.Field != "" {
				what = fmt.Sprintf("field %.100q", typed.Field)
			}
			return runtime.BadRequest("the body is not the JSON that this call takes: %s may not be a JSON %s", what, typed.Value)
		}
		return runtime.BadRequest("the body is not the JSON that this call takes: %.300s", err) // it may quote the body
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return runtime.BadRequest("the body holds more than one JSON value")
	}
	return nil
}

// Bounded refuses, before anything is made of it, a body that would become large or
// deep. It need not be JSON.
func Bounded(data []byte) error {
	if !utf8.Valid(data) {
		return runtime.BadRequest("the body is not valid UTF-8")
	}
	depth, values, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			values++
			if depth++; depth > maxDepth {
				return runtime.BadRequest("the body's objects and arrays are nested deeper than %d", maxDepth)
			}
		case c == '}', c == ']':
			depth--
		case c == ',':
			values++
		}
	}
	if values > maxValues {
		return &statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body holds more than the allowed %d values", maxValues)}
	}
	return nil
}
