package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"millrace/runtime"
)

// A statusError is an answer that is not what the client wanted.
type statusError struct {
	status int
	msg    string
}

func (e *statusError) Error() string { return e.msg }

// httpError is the answer to a request that found no handler, in Connect's words.
func httpError(status int) error {
	return &statusError{status, fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))}
}

// StatusOf is the one place where errors become statuses.
func StatusOf(err error) int {
	var (
		status   *statusError
		notFound *runtime.NotFoundError
		exists   *runtime.ExistsError
		bad      *runtime.BadRequestError
		conflict *runtime.ConflictError
		tooLarge *http.MaxBytesError

		forbidden   *runtime.ForbiddenError
		unavailable *runtime.UnavailableError
	)
	switch {
	case errors.As(err, &status):
		return status.status
	case errors.As(err, &notFound):
		return http.StatusNotFound
	case errors.As(err, &exists), errors.As(err, &conflict):
		return http.StatusConflict
	case errors.As(err, &forbidden):
		return http.StatusForbidden
	case errors.As(err, &unavailable):
		return http.StatusServiceUnavailable
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusInternalServerError
}

// writeError writes Connect's error body: {"error_code", "message"}.
func writeError(w http.ResponseWriter, err error) {
	status, msg := StatusOf(err), err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		msg = "Request timed out. " + msg
	}
	body, _ := json.Marshal(struct {
		Code int    `json:"error_code"`
		Msg  string `json:"message"`
	}{status, msg}) // an int and a string always encode
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // a client that went away is no error of ours
}
