package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/runtime"
)

// fakeHerder has one method that the tests here need; the others are nil and panic.
type fakeHerder struct {
	Herder
	put    func(name string, config map[string]string) (runtime.ConnectorInfo, error)
	delete func(name string) error
}

func (f fakeHerder) PutConfig(_ context.Context, name string, config map[string]string, _ runtime.TargetState, _ bool) (runtime.ConnectorInfo, bool, error) {
	info, err := f.put(name, config)
	return info, true, err
}

func (f fakeHerder) Connectors(context.Context) ([]string, error) { return nil, nil }

func (f fakeHerder) Delete(_ context.Context, name string) error { return f.delete(name) }

func newTestServer(t *testing.T, h Herder) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(New(Config{Herder: h, Log: slog.New(slog.DiscardHandler), CheckHost: true}))
	t.Cleanup(s.Close)
	return s
}

func send(t *testing.T, method, url, body string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(data)
}

func TestNamesLeadBackThroughTheirLocation(t *testing.T) {
	stored := map[string]bool{}
	s := newTestServer(t, fakeHerder{
		put: func(name string, config map[string]string) (runtime.ConnectorInfo, error) {
			stored[name] = true
			return runtime.ConnectorInfo{Name: name, Config: config}, nil
		},
		delete: func(name string) error {
			if !stored[name] {
				return runtime.NotFound("Connector %s not found", name)
			}
			delete(stored, name)
			return nil
		},
	})
	for _, c := range []struct{ name, path string }{
		{"a/b c", "/connectors/a%2Fb%20c"}, {"100%", "/connectors/100%25"}, {"ü", "/connectors/%C3%BC"}, {"..", "/connectors/%2E%2E"},
		{".", "/connectors/%2E"}, {"x?y#z", "/connectors/x%3Fy%23z"}, {"%2F", "/connectors/%252F"}, {"a+b", "/connectors/a+b"}, {`\`, "/connectors/%5C"},
	} {
		body, err := json.Marshal(map[string]any{"name": c.name, "config": map[string]string{}})
		if err != nil {
			t.Fatal(err)
		}
		res, text := send(t, "POST", s.URL+"/connectors", string(body), nil)
		if res.StatusCode != http.StatusCreated || res.Header.Get("Location") != s.URL+c.path {
			t.Errorf("create %q: %d %s, Location %q, want %q", c.name, res.StatusCode, text, res.Header.Get("Location"), s.URL+c.path)
			continue
		}
		if res, text := send(t, "DELETE", res.Header.Get("Location"), "", nil); res.StatusCode != http.StatusNoContent {
			t.Errorf("delete %q by its Location: %d %s", c.name, res.StatusCode, text)
		}
		if res, _ := send(t, "DELETE", s.URL+c.path, "", nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("delete %q again: %d, want 404", c.name, res.StatusCode)
		}
	}
	for _, name := range []string{"a\u0000b", "a\nb", "a\u0085b"} {
		body, err := json.Marshal(map[string]any{"name": name, "config": map[string]string{}})
		if err != nil {
			t.Fatal(err)
		}
		if res, text := send(t, "POST", s.URL+"/connectors", string(body), nil); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, "control") {
			t.Errorf("create %q: %d %s, want 400", name, res.StatusCode, text)
		}
	}
}

func TestANameThatNoFrameHoldsIsRefused(t *testing.T) {
	s := newTestServer(t, fakeHerder{put: func(string, map[string]string) (runtime.ConnectorInfo, error) {
		t.Error("the name reached the herder")
		return runtime.ConnectorInfo{}, nil
	}})
	name := strings.Repeat("n", runtime.MaxNameBytes+1)
	for method, path := range map[string]string{"POST": "/connectors", "PUT": "/connectors/" + name + "/config"} {
		body := `{"connector.class":"x"}`
		if method == "POST" {
			body = `{"name":"` + name + `","config":` + body + `}`
		}
		if res, text := send(t, method, s.URL+path, body, nil); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, "at most 1024 bytes") || len(text) > 1000 {
			t.Errorf("%s: %d %s, want 400", method, res.StatusCode, text)
		}
	}
}

func TestRequestsThatOnlyAForeignPageWouldSendAreRefused(t *testing.T) {
	s := newTestServer(t, fakeHerder{delete: func(string) error { return nil }})
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"a name that was rebound to this machine", func(r *http.Request) { r.Host = "evil.example:8083" }, 403},
		{"localhost", func(r *http.Request) { r.Host = "localhost:8083" }, 204},
		{"an IPv6 loopback address", func(r *http.Request) { r.Host = "[::1]:8083" }, 204},
		{"another address of this machine", func(r *http.Request) { r.Host = "192.0.2.1:8083" }, 403},
		{"a page of another origin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"a page of another site, by Sec-Fetch-Site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"no browser", nil, 204},
	} {
		t.Run(c.name, func(t *testing.T) {
			if res, text := send(t, "DELETE", s.URL+"/connectors/x", "", c.change); res.StatusCode != c.status {
				t.Errorf("status %d %s, want %d", res.StatusCode, text, c.status)
			}
		})
	}
}

func TestBodiesThatCannotBeReadSayWhy(t *testing.T) {
	s := newTestServer(t, fakeHerder{put: func(name string, config map[string]string) (runtime.ConnectorInfo, error) {
		return runtime.ConnectorInfo{Name: name, Config: config}, nil
	}})
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"no JSON", `{nope`, 400, "JSON"},
		{"two values", `{"name":"a","config":{}} {}`, 400, "more than one"},
		{"an unknown field", `{"name":"a","config":{},"bogus":1}`, 400, "bogus"},
		{"no config", `{"name":"a"}`, 400, "config"},
		{"an object as a setting", `{"name":"a","config":{"x":{"y":1}}}`, 400, `\"x\"`},
		{"null as a setting", `{"name":"a","config":{"x":null}}`, 400, "Null value"},
		{"an initial state that is none", `{"name":"a","config":{},"initial_state":"NOPE"}`, 400, "RUNNING, PAUSED, STOPPED"},
		{"a name as a number", `{"name":5,"config":{}}`, 400, "name"},
		{"more than the limit", `{"name":"a","config":{"x":"` + strings.Repeat("x", maxBody) + `"}}`, 413, "8388608"},
		{"deep nesting", `{"config":` + strings.Repeat(`{"a":`, 200_000), 400, "nested deeper"},
		{"numbers and booleans are texts", `{"name":"a","config":{"x":1.50,"y":true}}`, 201, `"x":"1.50","y":"true"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, text := send(t, "POST", s.URL+"/connectors", c.body, nil)
			if res.StatusCode != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%d %.300s, want %d with %q", res.StatusCode, text, c.status, c.says)
			}
			if res.StatusCode != 201 {
				var e struct {
					Code int    `json:"error_code"`
					Msg  string `json:"message"`
				}
				if err := json.Unmarshal([]byte(text), &e); err != nil || e.Code != res.StatusCode || e.Msg == "" {
					t.Errorf("error body %.200s: want error_code and message", text)
				}
			}
		})
	}
}

func TestErrorsBecomeConnectsStatuses(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{runtime.NotFound("x"), 404}, {&runtime.ExistsError{Name: "x"}, 409}, {runtime.BadRequest("x"), 400}, {runtime.Conflict("x"), 409},
		{errors.New("x"), 500}, {context.DeadlineExceeded, 500},
	} {
		s := newTestServer(t, fakeHerder{delete: func(string) error { return c.err }})
		if res, _ := send(t, "DELETE", s.URL+"/connectors/x", "", nil); res.StatusCode != c.status {
			t.Errorf("%v: %d, want %d", c.err, res.StatusCode, c.status)
		}
	}
}

func TestAPanicOfOneRequestIsAnAnswer(t *testing.T) {
	s := newTestServer(t, fakeHerder{delete: func(string) error { panic("secret") }})
	if res, text := send(t, "DELETE", s.URL+"/connectors/x", "", nil); res.StatusCode != 500 || strings.Contains(text, "secret") {
		t.Errorf("%d %s, want 500 without the panic's text", res.StatusCode, text)
	}
}
