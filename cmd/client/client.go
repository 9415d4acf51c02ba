package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options say where the API is and how to get in.
type Options struct {
	URL      string // http://host:port, and a path where a proxy adds one
	User     string // empty: no sign-in
	Password string
	CA       string        // file of the certificates to trust, PEM; empty: the system's
	Timeout  time.Duration // of a call, with the time the workers take to settle
	Notify   func(string)  // told once when a call has to wait; nil: nobody
	Curl     io.Writer     // requests are printed there instead of being sent; nil: they are sent
	Agent    string        // User-Agent
	Registry bool          // it is a schema registry
}

func (o Options) what() string {
	if o.Registry {
		return "schema registry"
	}
	return "REST API"
}

// Client calls the API. Its methods may be called concurrently, but for a client that
// prints.
type Client struct {
	opt  Options
	base string // without a slash at its end
	http *http.Client
}

// maxAnswer bounds an answer: more than any worker has to say.
const maxAnswer = 256 << 20

// New makes a client. It does not connect.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("address %q of the %s: want http://host:port or https://host:port", o.URL, o.what())
	}
	if u.User != nil {
		return nil, errors.New("the address of the " + o.what() + " holds a password: give the user with --user and the password with --password-stdin or MILLRACE_PASSWORD")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", o.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{opt: o, base: strings.TrimSuffix(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"),
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func (c *Client) kind() string {
	if c.opt.Registry {
		return "schema registry"
	}
	return "Connect REST API"
}

// flag is the command line's that names another API.
func (c *Client) flag() string {
	if c.opt.Registry {
		return "--registry"
	}
	return "--url"
}

// Printing reports whether requests are printed and not sent: nothing comes back.
func (c *Client) Printing() bool { return c.opt.Curl != nil }

// URL is the address of the API.
func (c *Client) URL() string { return c.base }

// An Error is an answer that is no success.
type Error struct {
	Status  int
	Code    int    // the body's error_code; 0 for none
	Message string // the API's own words
	Server  string // who answered
}

func (e *Error) Error() string { return e.Message }

// An UnreachableError says that nobody answered.
type UnreachableError struct {
	URL  string
	Flag string // that names another
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from %s: %v; start a worker there, or name another with %s", e.URL, e.Err, e.Flag)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// path joins parts into a path, each of them encoded.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// settling reports whether an answer says that the workers are not ready to serve the
// call, and will be.
func settling(e *Error) bool {
	return e.Status == http.StatusConflict && !strings.Contains(e.Message, "already exists")
}

// call sends a request and decodes the answer into out, unless that is nil or the
// client prints. in is encoded as JSON; nil is no body. Conflicts while the workers
// settle are tried again until the timeout.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = marshal(in); err != nil {
			return err
		}
	}
	if c.Printing() {
		return c.print(method, path, in)
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.Timeout)
	defer cancel()
	told := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := c.once(ctx, method, path, body, out)
		var refused *Error
		if !errors.As(err, &refused) || c.opt.Registry || !settling(refused) {
			return err
		}
		if !told && c.opt.Notify != nil {
			c.opt.Notify("the workers are settling; waiting")
			told = true
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.opt.Agent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.opt.User != "" {
		r.SetBasicAuth(c.opt.User, c.opt.Password)
	}
	res, err := c.http.Do(r)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // without the method and the address, which are told anyway
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("nothing within %v", c.opt.Timeout)
		}
		return &UnreachableError{c.base, c.flag(), err}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return &UnreachableError{c.base, c.flag(), fmt.Errorf("the answer broke off: %w", err)}
	}
	if len(data) > maxAnswer {
		return fmt.Errorf("%s answered with more than %d MiB", c.base, maxAnswer>>20)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return failure(res, data)
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s is no %s: %s %s answered %w", c.base, c.kind(), method, path, err)
	}
	return nil
}

// failure reads an error of the API; what others answer is told with its status.
func failure(res *http.Response, data []byte) error {
	e := &Error{Status: res.StatusCode, Server: res.Header.Get("Server")}
	var body struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &body) == nil && body.Message != "" {
		e.Code, e.Message = body.Code, body.Message
	} else {
		e.Message = fmt.Sprintf("%s %s answered %s", res.Request.Method, res.Request.URL.Redacted(), res.Status)
	}
	switch res.StatusCode {
	case http.StatusUnauthorized:
		e.Message = "the API wants a sign-in: give --user, and the password with --password-stdin or MILLRACE_PASSWORD"
		if u, _, ok := res.Request.BasicAuth(); ok {
			e.Message = fmt.Sprintf("the API does not accept user %q with this password", u)
		}
	case http.StatusForbidden:
		e.Message = "not allowed: " + e.Message
	}
	return e
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
