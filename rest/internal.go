package rest

import (
	"encoding/base64"
	"io"
	"net/http"

	"millrace/runtime"
)

// The headers that sign a request between workers.
const (
	signatureHeader = "X-Connect-Authorization"
	algorithmHeader = "X-Connect-Request-Signature-Algorithm"
)

// signatureOf reads the headers. What is no base64 is no worker's signature, and wrong
// as any other that does not fit.
func signatureOf(r *http.Request) runtime.Signature {
	text := r.Header.Get(signatureHeader)
	s := runtime.Signature{Algorithm: r.Header.Get(algorithmHeader)}
	var err error
	if s.MAC, err = base64.StdEncoding.DecodeString(text); err != nil {
		s.MAC = []byte(text)
	}
	return s
}

func (s *Server) putTasks(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	body := r.Body.(wholeBody).data // every route with a body has read it
	var tasks []map[string]string
	if err := decode(r, &tasks); err != nil {
		return nil, err
	}
	return answer{status: http.StatusNoContent}, s.herder.PutTasks(r.Context(), name, tasks, body, signatureOf(r))
}

func (s *Server) fence(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, freeBody)) // workers send none
	if err != nil {
		return nil, runtime.BadRequest("the body could not be read: %s", err)
	}
	return answer{status: http.StatusNoContent}, s.herder.Fence(r.Context(), name, body, signatureOf(r))
}
