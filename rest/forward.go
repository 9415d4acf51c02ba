package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"millrace/runtime"
)

// maxForwarded bounds another worker's answer.
const maxForwarded = 64 << 20

// PeerClient makes the client that calls other workers' listeners. Where this worker's own listeners speak TLS it trusts, and shows, what
// they do. It follows no redirect: a worker has no reason to send one, and credentials, elsewhere.
func PeerClient(c runtime.RESTConfig, lg *slog.Logger) (*http.Client, error) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute}
	m, err := c.ClientTLS(lg)
	if err != nil {
		return nil, err
	}
	if m != nil {
		transport.TLSClientConfig = m.ClientTLS()
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Forwarded is another worker's answer.
type Forwarded struct {
	Status int
	Header http.Header
	Body   []byte // nil for none
}

// Forward sends a client's request to another worker at url, with the body that was read of it, the client's sign-in and the headers of
// extra, and returns what that worker answers.
func Forward(client *http.Client, r *http.Request, url string, body []byte, extra http.Header) (f Forwarded, err error) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, url, bytes.NewReader(body))
	if err != nil {
		return f, err
	}
	for _, h := range []string{"Content-Type", "Accept", "Authorization", signatureHeader, algorithmHeader} {
		if v := r.Header.Values(h); len(v) > 0 {
			out.Header[h] = v
		}
	}
	for h, v := range extra {
		out.Header[h] = v
	}
	resp, err := client.Do(out)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxForwarded+1))
	switch {
	case err != nil:
		return f, err
	case len(body) > maxForwarded:
		return f, fmt.Errorf("its answer has more than %d bytes", maxForwarded)
	case len(body) == 0:
		body = nil
	}
	return Forwarded{resp.StatusCode, resp.Header, body}, nil
}

// hopParam is Connect's: absent in what a client sends, true where the worker that gets the request may hand it on once more, false where
// it must serve it. So a request finds the leader, and through it the owner of a task, and never goes in circles.
const hopParam = "forward"

// forward has the worker serve a request that this one may not.
func (s *Server) forward(r *http.Request, to *runtime.ForwardError) (any, error) {
	query := r.URL.Query()
	first := !query.Has(hopParam)
	switch {
	case !first && query.Get(hopParam) != "true":
		return nil, runtime.Conflict("Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
	case to.URL == "":
		return nil, runtime.Conflict("Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.")
	}
	query.Del(hopParam)
	url := strings.TrimSuffix(to.URL, "/") + r.URL.EscapedPath() + "?" + hopParam + "=" + fmt.Sprint(first)
	if more := query.Encode(); more != "" {
		url += "&" + more
	}
	var body []byte
	if whole, ok := r.Body.(wholeBody); ok {
		body = whole.data
	}
	f, err := Forward(s.client, r, url, body, nil)
	if err == nil && f.Body != nil && !json.Valid(f.Body) {
		err = errors.New("its answer is not JSON; another program listens there")
	}
	if err != nil {
		return nil, fmt.Errorf("IO Error trying to forward REST request to the worker at %s: %w", to.URL, err)
	}
	a := answer{status: f.Status, location: f.Header.Get("Location")}
	if f.Body != nil {
		a.body = json.RawMessage(f.Body)
	}
	return a, nil
}
