package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

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

// versionParam says which configuration a plan is of; only our workers send and read it.
const versionParam = "version"

// PutTasks hands plans to other workers' APIs: see herder.Config.
func PutTasks(client *http.Client) func(ctx context.Context, url, name string, version int64, body []byte, s runtime.Signature) error {
	return func(ctx context.Context, url, name string, version int64, body []byte, s runtime.Signature) error {
		path := fmt.Sprintf("connectors/%s/tasks?%s=false&%s=%d", pathName(name), hopParam, versionParam, version)
		_, err := askWorker(ctx, client, strings.TrimSuffix(url, "/")+"/"+path, body, s)
		return err
	}
}

// maxTold bounds another worker's answer.
const maxTold = 8 << 20

// askWorker posts a signed body to another worker and returns its answer. What it refuses is an error in its own words.
func askWorker(ctx context.Context, client *http.Client, url string, body []byte, s runtime.Signature) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if s.Algorithm != "" {
		r.Header.Set(signatureHeader, base64.StdEncoding.EncodeToString(s.MAC))
		r.Header.Set(algorithmHeader, s.Algorithm)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	told, err := io.ReadAll(io.LimitReader(resp.Body, maxTold+1))
	switch {
	case err != nil:
		return nil, err
	case len(told) > maxTold:
		return nil, fmt.Errorf("its answer has more than %d bytes", maxTold)
	case resp.StatusCode/100 == 2:
		return told, nil
	}
	var e struct{ Message string }
	if err := json.Unmarshal(told, &e); err != nil || e.Message == "" {
		e.Message = "another program listens there, or a proxy"
	}
	return nil, fmt.Errorf("%s: %.2000s", resp.Status, e.Message)
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
	version := int64(-1)
	if text := r.URL.Query().Get(versionParam); text != "" {
		if version, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, runtime.BadRequest("%s=%.40q is no number", versionParam, text)
		}
	}
	return answer{status: http.StatusNoContent}, s.herder.PutTasks(r.Context(), name, version, tasks, body, signatureOf(r))
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
