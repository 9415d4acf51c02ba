package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/schema/registry"
)

// Options are a client's. The zero values of times and numbers are taken as they are.
type Options struct {
	URLs      []string
	User      string // basic sign-in; empty: what an address has before its host
	Password  string
	Token     func(context.Context) (string, error) // of a bearer, instead of a user; nil: none
	Headers   map[string]string                     // more headers of each request
	Transport http.RoundTripper
	Timeout   time.Duration // of one request with its answer
	Retries   int           // of a request after the first try
	Wait      time.Duration // before the first of them
	MostWait  time.Duration
	Shuffle   bool // begin at a random address
}

// A Client asks one registry. It may be used by many goroutines at once.
type Client struct {
	o     Options
	bases []base
	http  http.Client
}

// base is an address.
type base struct {
	url            string // without a sign-in, without a slash at the end
	user, password string
	signed         bool
}

// mostAnswer is the longest answer that is read.
const mostAnswer = 32 << 20

// New makes a client. No connection is made yet. An error names the address, without what signs in.
func New(o Options) (*Client, error) {
	c := &Client{o: o}
	for _, text := range o.URLs {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil {
			return nil, errors.New("an address cannot be read; it is such as https://registry:8081")
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("the address %q is none; it is such as https://registry:8081", u.Redacted())
		}
		b := base{user: o.User, password: o.Password, signed: o.User != ""}
		if u.User != nil && !b.signed && o.Token == nil {
			b.user, b.signed = u.User.Username(), true
			b.password, _ = u.User.Password()
		}
		u.User = nil
		b.url = strings.TrimRight(u.String(), "/")
		c.bases = append(c.bases, b)
	}
	if len(c.bases) == 0 {
		return nil, errors.New("no address of a registry")
	}
	if o.Shuffle {
		rand.Shuffle(len(c.bases), func(i, k int) { c.bases[i], c.bases[k] = c.bases[k], c.bases[i] })
	}
	c.http.Transport = o.Transport
	return c, nil
}

// Close gives up connections that wait.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// An Error is a registry's refusal, or the lack of an answer.
type Error struct {
	What    string // what was asked: "register a schema under \"orders-value\""
	Where   string // the address
	Status  int    // of HTTP; 0: there was no answer
	Code    int    // the registry's own, such as 40401
	Message string
	Err     error // why there was none
}

func (e *Error) Error() string {
	switch {
	case e.Status == 0:
		return fmt.Sprintf("%s: no answer of the schema registry at %s: %v", e.What, e.Where, e.Err)
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return fmt.Sprintf("%s: the schema registry at %s refuses the sign-in (status %d: %s); check the settings of basic.auth or bearer.auth", e.What, e.Where, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: the schema registry at %s answers %d (code %d): %s", e.What, e.Where, e.Status, e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// MayPass reports whether the cause may pass by itself: no answer, or a server in trouble. A retry can help then.
func (e *Error) MayPass() bool {
	return e.Status == 0 || e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
}

const contentType = "application/vnd.schemaregistry.v1+json"

// ask sends a request until it is answered for good, and reads the answer into out.
func (c *Client) ask(ctx context.Context, what, method, path string, body, out any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	wait := min(c.o.Wait, c.o.MostWait)
	for try := 0; ; try++ {
		var last *Error
		for _, b := range c.bases {
			last = c.once(ctx, b, what, method, path, data, out)
			if last == nil {
				return nil
			}
			if !last.MayPass() || ctx.Err() != nil {
				return last
			}
		}
		if try >= c.o.Retries {
			return last
		}
		pause := time.NewTimer(wait/2 + time.Duration(rand.Int64N(int64(wait/2)+1)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return last
		case <-pause.C:
		}
		wait = min(2*wait, c.o.MostWait)
	}
}

// once sends a request to one address.
func (c *Client) once(ctx context.Context, b base, what, method, path string, body []byte, out any) *Error {
	fail := func(err error) *Error {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // its text holds the whole address again
		}
		return &Error{What: what, Where: b.url, Err: err}
	}
	if c.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.o.Timeout, fmt.Errorf("none within %v", c.o.Timeout))
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Accept", contentType+", application/json; q=0.5")
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	for k, v := range c.o.Headers {
		req.Header.Set(k, v)
	}
	switch {
	case c.o.Token != nil:
		token, err := c.o.Token(ctx)
		if err != nil {
			return fail(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	case b.signed:
		req.SetBasicAuth(b.user, b.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fail(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fail(fmt.Errorf("the answer broke off: %w", err))
	case len(answer) > mostAnswer:
		return &Error{What: what, Where: b.url, Status: resp.StatusCode, Message: fmt.Sprintf("an answer of more than %d bytes", mostAnswer)}
	case resp.StatusCode/100 != 2:
		e := &Error{What: what, Where: b.url, Status: resp.StatusCode}
		var said struct {
			Code    int    `json:"error_code"`
			Message string `json:"message"`
		}
		if json.Unmarshal(answer, &said) == nil {
			e.Code, e.Message = said.Code, said.Message
		}
		if e.Message == "" {
			e.Message = http.StatusText(resp.StatusCode)
		}
		if len(e.Message) > 4096 {
			e.Message = strings.ToValidUTF8(e.Message[:4096], "") + "…"
		}
		return e
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return &Error{What: what, Where: b.url, Status: resp.StatusCode, Message: "the answer is no JSON of a schema registry; is this its address?"}
	}
	return nil
}

// Schema is a schema with what it refers to.
type Schema struct {
	Text       string      `json:"schema"`
	Type       string      `json:"schemaType,omitempty"` // empty is AVRO
	References []Reference `json:"references,omitempty"`
}

// Reference is a version under the name by which a schema refers to it.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int32  `json:"version"`
}

// Known is a schema as the registry knows it. What a registry does not tell is zero.
type Known struct {
	Schema
	Subject string `json:"subject"`
	Version int32  `json:"version"`
	ID      int32  `json:"id"`
	GUID    string `json:"guid"`

	Rules *registry.RuleSet `json:"ruleSet"`
}

// Use is a version that has a schema.
type Use struct {
	Subject string `json:"subject"`
	Version int32  `json:"version"`
}

func escape(subject string) string { return url.PathEscape(subject) }

func flag(path, name string, on bool) string {
	if !on {
		return path
	}
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	return path + sep + name + "=true"
}

// Register registers a schema, or finds it registered already. Only the id is certain in the answer.
func (c *Client) Register(ctx context.Context, subject string, s Schema, normalize bool) (Known, error) {
	var k Known
	err := c.ask(ctx, fmt.Sprintf("register a schema under %q", subject), http.MethodPost, flag("/subjects/"+escape(subject)+"/versions", "normalize", normalize), s, &k)
	return k, err
}

// Lookup finds a schema under a subject.
func (c *Client) Lookup(ctx context.Context, subject string, s Schema, normalize bool) (Known, error) {
	var k Known
	err := c.ask(ctx, fmt.Sprintf("look up a schema under %q", subject), http.MethodPost, flag("/subjects/"+escape(subject), "normalize", normalize), s, &k)
	return k, err
}

// Latest is a subject's newest version.
func (c *Client) Latest(ctx context.Context, subject string) (Known, error) {
	var k Known
	err := c.ask(ctx, fmt.Sprintf("get the latest version of %q", subject), http.MethodGet, "/subjects/"+escape(subject)+"/versions/latest", nil, &k)
	return k, err
}

// LatestWith is the newest of a subject's versions whose metadata have these properties.
func (c *Client) LatestWith(ctx context.Context, subject string, properties map[string]string) (Known, error) {
	q := url.Values{}
	for _, key := range slices.Sorted(maps.Keys(properties)) { // keys and values are paired by their order
		q.Add("key", key)
		q.Add("value", properties[key])
	}
	var k Known
	err := c.ask(ctx, fmt.Sprintf("get the latest version of %q with the metadata %s", subject, q.Encode()), http.MethodGet, "/subjects/"+escape(subject)+"/metadata?"+q.Encode(), nil, &k)
	return k, err
}

// Version is a version of a subject, deleted or not: what refers to it needs it still.
func (c *Client) Version(ctx context.Context, subject string, version int32) (Known, error) {
	var k Known
	err := c.ask(ctx, fmt.Sprintf("get version %d of %q", version, subject), http.MethodGet, "/subjects/"+escape(subject)+"/versions/"+strconv.Itoa(int(version))+"?deleted=true", nil, &k)
	return k, err
}

// ByID is the schema of an id, in the context of subject where that has one.
func (c *Client) ByID(ctx context.Context, id int32, subject string) (Known, error) {
	path := "/schemas/ids/" + strconv.Itoa(int(id))
	if strings.HasPrefix(subject, ":.") {
		path += "?subject=" + url.QueryEscape(subject)
	}
	k := Known{ID: id}
	err := c.ask(ctx, fmt.Sprintf("get the schema of the id %d", id), http.MethodGet, path, nil, &k)
	k.ID = id
	return k, err
}

// ByGUID is the schema of a guid.
func (c *Client) ByGUID(ctx context.Context, guid string) (Known, error) {
	var k Known
	err := c.ask(ctx, "get the schema of the guid "+guid, http.MethodGet, "/schemas/guids/"+url.PathEscape(guid), nil, &k)
	k.GUID = guid
	return k, err
}

// Uses are the versions of an id's schema.
func (c *Client) Uses(ctx context.Context, id int32) ([]Use, error) {
	var uses []Use
	err := c.ask(ctx, fmt.Sprintf("get the versions of the id %d", id), http.MethodGet, "/schemas/ids/"+strconv.Itoa(int(id))+"/versions", nil, &uses)
	return uses, err
}
