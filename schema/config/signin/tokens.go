package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// maxToken bounds the file of a token.
const maxToken = 1 << 20

// ReadToken reads a token that stands in a file by itself. Errors name the file.
func ReadToken(open func(path string) (*os.File, error), path string) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", cmp.Or(err, fmt.Errorf("%s is no regular file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", fmt.Errorf("read a token: %w", err)
	case token == "" || len(b) > maxToken || strings.ContainsAny(token, "\x00\x01\n\r "):
		return "", fmt.Errorf("%s holds no token: want one, and nothing else", path)
	}
	return token, nil
}

// A Client asks for tokens with its credentials (RFC 6749, 4.4).
type Client struct {
	Endpoint   string // that gives tokens
	ID, Secret string
	Scope      string // or ""
}

// CheckEndpoint says what is wrong with the address of an endpoint.
func CheckEndpoint(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("want an http or https URL without a user in it, or file:// and the path of a file that holds a token")
	}
	return nil
}

// Tokens are a client's. One is kept as long as it is good. They may be asked for by many goroutines at once.
type Tokens struct {
	of    Client
	early time.Duration
	http  *http.Client

	mu    sync.Mutex // guards the fields below; held while a token is asked for, so that one asks for all
	last  string
	until time.Time
}

// NewTokens makes tokens that are asked for over transport and are not used any more so early before their end. None is asked for yet.
func NewTokens(of Client, transport http.RoundTripper, early time.Duration) *Tokens {
	// An endpoint has no reason to send us, and our secret, elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Tokens{of: of, early: early, http: &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: stay}}
}

// Token is a token that is good. Errors name the endpoint and neither token nor secret.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != "" && time.Now().Before(t.until) {
		return t.last, nil
	}
	token, life, err := t.ask(ctx)
	if err != nil {
		return "", fmt.Errorf("ask %s for a token: %w", t.of.Endpoint, err)
	}
	t.last, t.until = token, time.Now().Add(max(life-t.early, 0))
	return token, nil
}

func (t *Tokens) ask(ctx context.Context) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if t.of.Scope != "" {
		form.Set("scope", t.of.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.of.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(url.QueryEscape(t.of.ID), url.QueryEscape(t.of.Secret)) // RFC 6749, 2.3.1
	resp, err := t.http.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", 0, err
	}
	var answer struct {
		Token   string  `json:"access_token"`
		Expires float64 `json:"expires_in"`
		Error   string  `json:"error"`
	}
	jsonErr := json.Unmarshal(body, &answer)
	switch {
	case resp.StatusCode/100 != 2 && answer.Error != "":
		return "", 0, fmt.Errorf("%s: %.100q", resp.Status, answer.Error)
	case resp.StatusCode/100 != 2:
		return "", 0, errors.New(resp.Status)
	case jsonErr != nil || answer.Token == "":
		return "", 0, errors.New("the answer holds no access_token")
	}
	return answer.Token, time.Duration(min(max(answer.Expires, 0), 86400) * float64(time.Second)), nil
}
