package elasticsearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v8/esapi"

	"millrace/connectors"
	"millrace/schema/config"
	"millrace/schema/config/javatls"
)

// maxAnswer bounds what is read of an answer. A bulk's takes some 100 bytes a document.
const maxAnswer = 64 << 20

// client sends requests to the nodes in turn. It does not try again: its callers
// know what may be.
type client struct {
	transport *elastictransport.Client
	http      *http.Transport
	dialer    *net.Dialer
	nodes     string // for messages: no passwords
	read      time.Duration
}

// answer is what a server said.
type answer struct {
	status int
	wait   time.Duration // of Retry-After
	body   []byte
}

func parseURLs(texts []string) ([]*url.URL, error) {
	var out []*url.URL
	for _, t := range texts {
		u, err := url.Parse(t)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is no address; write it as http://host:9200 or https://host:9200", redact(t))
		}
		out = append(out, u)
	}
	return out, nil
}

// redact hides what may be a password in an address, well formed or not. Without a
// scheme and a colon what stands before an @ is all hidden: it may be the second half
// of a password with a comma.
func redact(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, named := strings.Cut(rest[:at], ":")
		if named || ok {
			return scheme + user + ":" + config.Hidden + rest[at:]
		}
		return config.Hidden + rest[at:]
	}
	host, _, _ := strings.Cut(rest, "/")
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		if _, err := strconv.ParseUint(host[colon+1:], 10, 64); err != nil { // no port: the first half, then
			return scheme + host[:colon] + ":" + config.Hidden
		}
	}
	return text
}

// redactList hides passwords in a list of addresses as a configuration holds it. A
// comma in a password is no end of an address.
func redactList(text string) string {
	var out []string
	for _, part := range strings.Split(text, ",") {
		if last := len(out) - 1; last >= 0 && strings.Contains(part, "@") && !strings.Contains(part, "://") && !strings.Contains(out[last], "@") {
			out[last] += "," + part
			continue
		}
		out = append(out, part)
	}
	for i, t := range out {
		out[i] = redact(t)
	}
	return strings.Join(out, ",")
}

// newClient makes a client of the settings for these nodes.
func newClient(files connectors.Files, v config.Values, urls []string) (*client, error) {
	nodes, err := parseURLs(urls)
	if err != nil {
		return nil, connectors.BadConfig(fmt.Errorf("%s: %w", connectionURL.Name, err))
	}
	dialer := &net.Dialer{Timeout: connectTimeout.Get(v)}
	t := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   max(connectTimeout.Get(v), 10*time.Second),
		ResponseHeaderTimeout: readTimeout.Get(v),
		IdleConnTimeout:       idleTime.Get(v),
		MaxIdleConnsPerHost:   int(maxInFlight.Get(v)) + 1,
		ForceAttemptHTTP2:     false,
	}
	if host := proxyHost.Get(v); host != "" {
		proxy := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(proxyPort.Get(v))))}
		if user := proxyUser.Get(v); user != "" {
			proxy.User = url.UserPassword(user, proxyPassword.Get(v).Reveal())
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	if strings.EqualFold(securityProtocol.Get(v), "SSL") {
		if err := secure(t, files, v); err != nil {
			return nil, connectors.BadConfig(err)
		}
	}
	cl := &client{http: t, dialer: dialer, nodes: redactList(strings.Join(urls, ",")), read: readTimeout.Get(v)}
	options := []elastictransport.Option{
		elastictransport.WithURLs(nodes...),
		elastictransport.WithBasicAuth(username.Get(v), password.Get(v).Reveal()),
		elastictransport.WithTransport(t),
		elastictransport.WithDisableRetry(),
	}
	if key := apiKey.Get(v).Reveal(); key != "" {
		options = append(options, elastictransport.WithAPIKey(key))
	}
	if compression.Get(v) {
		options = append(options, elastictransport.WithCompression())
	}
	cl.transport, err = elastictransport.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", cl.nodes, err)
	}
	return cl, nil
}

// secure makes t speak TLS as the settings say. Renewed files are seen by the next connection; what goes through a proxy
// keeps what they held at the start.
func secure(t *http.Transport, files connectors.Files, v config.Values) error {
	var open javatls.Open
	if files != nil {
		open = javatls.Checked(files.Check)
	}
	m, errs := tlsKeys.ReadClient(v.Raw, open, nil)
	if len(errs) > 0 {
		return errs[0]
	}
	m.Secure(t)
	return nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// Perform implements esapi.Transport. The client of go-elasticsearch itself would
// refuse to talk to OpenSearch, so its requests go over its transport alone.
func (c *client) Perform(req *http.Request) (*http.Response, error) {
	req.Header.Set("Accept", "application/json")
	return c.transport.Perform(req)
}

// do sends a request and reads its answer. An error means that there is none: the
// server may have done what was asked or not.
func (c *client) do(ctx context.Context, r esapi.Request) (answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := r.Do(ctx, c)
	if err != nil {
		return answer{}, plainError(err)
	}
	defer resp.Body.Close()
	if c.read > 0 { // what follows the head may take as long again for every 10 MiB
		timer := time.AfterFunc(c.read*(1+maxAnswer/(10<<20)), func() { cancel(errSlow) })
		defer timer.Stop()
	}
	a := answer{status: resp.StatusCode, wait: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return answer{}, plainError(err)
	}
	return a, nil
}

var errSlow = errors.New("the answer began and did not end within read.timeout.ms")

// plainError is err without the URL that net/http puts before it.
func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the header of that name: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n > 0 {
		return min(time.Duration(n)*time.Second, maxWait)
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return min(at.Sub(now), maxWait)
	}
	return 0
}

// serverError is what a server says of a request or a document that it refuses.
type serverError struct {
	Type     string       `json:"type"`
	Reason   string       `json:"reason"`
	CausedBy *serverError `json:"caused_by"`
}

// String is the whole chain: "mapper_parsing_exception: failed to parse field [total] …:
// illegal_argument_exception: For input string …".
func (e *serverError) String() string {
	var parts []string
	for at := e; at != nil && len(parts) < 8; at = at.CausedBy {
		switch text := at.Type + ": " + at.Reason; {
		case at.Type == "":
			parts = append(parts, at.Reason)
		case at.Reason == "":
			parts = append(parts, at.Type)
		default:
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ": ")
}

// blocks reports whether an index or the whole cluster takes no writes for now, as while a disk is full. It is said with 403 or 429.
func (e *serverError) blocks() bool { return e.Type == "cluster_block_exception" }

// UnmarshalJSON takes the object that servers send and the bare text that some
// errors are.
func (e *serverError) UnmarshalJSON(b []byte) error {
	type object serverError
	if json.Unmarshal(b, (*object)(e)) == nil {
		return nil
	}
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	*e = serverError{Reason: text}
	return nil
}

// said is the server's own words in the body of an answer that is no success.
func (a answer) said() *serverError {
	var body struct {
		Error *serverError `json:"error"`
	}
	if json.Unmarshal(a.body, &body) == nil && body.Error != nil {
		return body.Error
	}
	text := strings.TrimSpace(string(a.body[:min(len(a.body), 300)]))
	if text == "" {
		text = http.StatusText(a.status)
	}
	return &serverError{Reason: text}
}

// passing reports whether a status says that the same request may succeed later.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// failure is the Failure of an answer that is no success, to what was being done.
func (c *client) failure(doing string, a answer) error {
	cause := fmt.Sprintf("%s: %s answers %d: %s", doing, c.nodes, a.status, a.said())
	switch {
	case passing(a.status) || a.said().blocks():
		return connectors.Failed(&unavailable, nil, cause, "")
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		return connectors.Failed(&unauthorized, nil, cause, "")
	}
	return connectors.Failed(&refused, nil, cause, "")
}

// silent is the Failure of a request without an answer.
func (c *client) silent(doing string, err error) error {
	return connectors.Failed(&unreachable, err, fmt.Sprintf("%s: no answer from %s", doing, c.nodes), "")
}
