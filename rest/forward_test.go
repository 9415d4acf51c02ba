package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/deploy/line"
	"millrace/rest"
	"millrace/runtime"
)

// settled sends a request until it is answered so; a group that is settling answers 409 before.
func (w *worker) settled(t *testing.T, status int, words, method, path string, body any) http.Header {
	t.Helper()
	var header http.Header
	w.until(t, fmt.Sprintf("%s %s to be answered with %d and %q", method, path, status, words), func() bool {
		code, h, got := w.send(t, method, path, body)
		if header = h; code == status && strings.Contains(got, words) {
			return true
		} else if code != http.StatusConflict {
			t.Fatalf("%s %s at %s: %d %s, want %d with %q", method, path, w.url, code, got, status, words)
		}
		return false
	})
	return header
}

// everywhere waits until each worker answers so.
func everywhere(t *testing.T, pool []*worker, status int, words, path string) {
	t.Helper()
	for _, w := range pool {
		w.until(t, path+" to be the same at "+w.url, func() bool {
			code, _, got := w.send(t, "GET", path, nil)
			return code == status && strings.Contains(got, words)
		})
	}
}

// Whichever worker of a pool a client asks, the one that may serve the request does: the leader, or who runs the task.
func TestAnyWorkerServesAnyRequest(t *testing.T) {
	pool := startPool(t, 3, nil)
	for i, w := range pool {
		name := fmt.Sprintf("of worker %d", i)
		path := fmt.Sprintf("/connectors/of%%20worker%%20%d", i)
		w.write(t, "in.txt", "a\nb\n")
		conf := source(w, "in.txt", "lines")
		header := w.settled(t, 201, `"name":"`+name+`"`, "POST", "/connectors", map[string]any{"name": name, "config": conf, "initial_state": "stopped"})
		if at := header.Get("Location"); !strings.HasSuffix(at, path) {
			t.Errorf("Location %q, want …%s", at, path)
		}
		everywhere(t, pool, 200, `"STOPPED"`, path+"/status")
		for _, other := range pool {
			other.settled(t, 409, "already exists", "POST", "/connectors", map[string]any{"name": name, "config": conf})
			other.settled(t, 400, `"error_code":400`, "PUT", path+"/config", map[string]string{"connector.class": "nope"})
			other.settled(t, 200, "altered successfully", "PATCH", path+"/offsets", map[string]any{"offsets": []any{
				map[string]any{"partition": map[string]string{"filename": conf["file"]}, "offset": map[string]int{"position": 2}}}})
			other.settled(t, 200, "reset successfully", "DELETE", path+"/offsets", nil)
			other.settled(t, 200, `"batch.size":"7"`, "PATCH", path+"/config", map[string]any{"batch.size": "7"})
			everywhere(t, pool, 200, `"7"`, path+"/config")
			other.settled(t, 200, name, "PUT", path+"/config", conf)
		}
		w.settled(t, 202, "", "PUT", path+"/resume", nil)
		everywhere(t, pool, 200, `"tasks":[{"id":0,"state":"RUNNING"`, path+"/status")
		for _, other := range pool {
			other.settled(t, 204, "", "POST", path+"/restart", nil)
			other.settled(t, 204, "", "POST", path+"/tasks/0/restart", nil)
			other.settled(t, 202, "RESTARTING", "POST", path+"/restart?includeTasks=true&onlyFailed=false", nil)
			everywhere(t, pool, 200, `"tasks":[{"id":0,"state":"RUNNING"`, path+"/status")
		}
	}
	for i, w := range pool {
		path := fmt.Sprintf("/connectors/of%%20worker%%20%d", (i+1)%len(pool))
		w.settled(t, 204, "", "PUT", path+"/stop", nil)
		everywhere(t, pool, 200, `"connector":{"state":"STOPPED"`, path+"/status")
		w.settled(t, 204, "", "DELETE", path, nil)
		everywhere(t, pool, 404, "not found", path)
	}
}

// follower is a worker that may not delete, and says who may.
type follower struct {
	rest.Herder
	leader string
}

func (f follower) Delete(context.Context, string) error { return f.forward() }

func (f follower) PatchConfig(context.Context, string, runtime.FlatConfig) (runtime.ConnectorInfo, error) {
	return runtime.ConnectorInfo{}, f.forward()
}

func (f follower) Fence(context.Context, string, []byte, runtime.Signature) error { return f.forward() }

func (f follower) forward() error {
	return &runtime.ForwardError{URL: f.leader, ConflictError: runtime.ConflictError{Msg: "another worker does"}}
}

func TestARequestIsHandedOnTwiceAtMost(t *testing.T) {
	for _, c := range []struct {
		name, query string
		to          string // "" for the worker itself
		status      int
		words       string
		asked       int32 // requests that came, the client's own among them
	}{
		{"workers that take each other for the leader", "", "self", 409, "conflicting operation", 3},
		{"a request that was handed on once", "?forward=true", "self", 409, "conflicting operation", 2},
		{"a request that was handed on twice", "?forward=false", "self", 409, "conflicting operation", 1},
		{"nobody knows the leader", "", "", 409, "no known leader URL", 1},
		{"the leader is gone", "", "http://127.0.0.1:1/", 500, "IO Error trying to forward REST request to the worker at http://127.0.0.1:1/", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			s := httptest.NewUnstartedServer(nil)
			if c.to == "self" {
				c.to = "http://" + s.Listener.Addr().String() + "/"
			}
			api := rest.New(rest.Config{Herder: follower{leader: c.to}, Log: quietLog()})
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				api.ServeHTTP(w, r)
			})
			s.Start()
			defer s.Close()
			w := &worker{url: s.URL}
			w.want(t, c.status, c.words, "DELETE", "/connectors/c"+c.query, nil)
			if n := asked.Load(); n != c.asked {
				t.Errorf("%d requests, want %d", n, c.asked)
			}
		})
	}
}

// What a client sent comes to the leader as it was, the client's sign-in and a worker's signature included, and its answer to the client.
func TestWhatIsHandedOn(t *testing.T) {
	const users = "dGVsbDpub2JvZHk="
	for _, c := range []struct {
		name, method, path, body string
		header                   map[string]string
		answer                   func(w http.ResponseWriter)
		asked                    string // method, path, query, body, headers as the leader saw them
		status                   int
		words                    string
	}{
		{"a body, a name with a slash and a sign-in", "PATCH", "/connectors/a%2Fb%20c/config?x=1", `{"a":null,"b":"<&>"}`, map[string]string{"Authorization": "Basic " + users},
			func(w http.ResponseWriter) { fmt.Fprint(w, `{"name":"a/b c","config":{"b":"<&>"}}`) },
			`PATCH /connectors/a%2Fb%20c/config?forward=true&x=1 {"a":null,"b":"<&>"} Basic ` + users, 200, `{"name":"a/b c","config":{"b":"<&>"}}`},
		{"no body, and none comes back", "DELETE", "/connectors/c", "", nil, func(w http.ResponseWriter) { w.WriteHeader(204) }, "DELETE /connectors/c?forward=true", 204, ""},
		{"an error with a code of its own", "DELETE", "/connectors/c", "", nil,
			func(w http.ResponseWriter) {
				w.WriteHeader(404)
				fmt.Fprint(w, `{"error_code":404,"message":"Connector c not found"}`)
			},
			"DELETE /connectors/c?forward=true", 404, `{"error_code":404,"message":"Connector c not found"}`},
		{"a signed request between workers", "PUT", "/connectors/c/fence", "", map[string]string{"X-Connect-Authorization": "c2lnbmVk", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"},
			func(w http.ResponseWriter) { w.WriteHeader(204) }, "PUT /connectors/c/fence?forward=true c2lnbmVk HmacSHA256", 204, ""},
		{"another program at the leader's address", "DELETE", "/connectors/c", "", nil, func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, "DELETE /connectors/c?forward=true", 500, "its answer is not JSON"},
		{"a leader that sends elsewhere", "DELETE", "/connectors/c", "", map[string]string{"Authorization": "Basic " + users},
			func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(307) }, "DELETE /connectors/c?forward=true Basic " + users, 307, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen atomic.Value
			leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // what is missing shows below
				parts := []string{r.Method, r.URL.EscapedPath() + "?" + r.URL.RawQuery, string(body), r.Header.Get("Authorization"), r.Header.Get("X-Connect-Authorization"), r.Header.Get("X-Connect-Request-Signature-Algorithm")}
				seen.Store(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " "))
				c.answer(w)
			}))
			defer leader.Close()
			s := httptest.NewServer(rest.New(rest.Config{Herder: follower{leader: leader.URL + "/"}, Log: quietLog(), Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}))
			defer s.Close()
			r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != c.status || !strings.Contains(string(got), c.words) {
				t.Errorf("answered %d %s, want %d %s", res.StatusCode, got, c.status, c.words)
			}
			if seen.Load() != c.asked {
				t.Errorf("the leader was asked\n%v, want\n%s", seen.Load(), c.asked)
			}
		})
	}
}

// Whatever a line between two workers does, a request that is handed on is answered: by the leader, or with what became of it.
func TestALineBetweenWorkers(t *testing.T) {
	const lost = "IO Error trying to forward REST request to the worker at"
	for _, c := range []struct {
		name   string
		during func(l *line.Line) // while the leader serves the request
		after  func(l *line.Line) // when it has
		status int
		words  string
	}{
		{"is whole", nil, nil, 204, ""},
		{"is slow", func(l *line.Line) { l.Delay(50 * time.Millisecond) }, nil, 204, ""},
		{"keeps the answer for a while", func(l *line.Line) { l.Silence(line.In) }, (*line.Line).Heal, 204, ""},
		{"resets the connection", (*line.Line).Reset, nil, 500, lost},
		{"breaks", (*line.Line).Break, nil, 500, lost},
		{"ends before the answer", func(l *line.Line) { l.HalfClose(line.In) }, nil, 500, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			between := line.New(t)
			served := make(chan struct{}, 2)
			var first atomic.Bool
			leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if first.CompareAndSwap(false, true) && c.during != nil {
					c.during(between)
				}
				w.WriteHeader(http.StatusNoContent)
				served <- struct{}{}
			}))
			defer leader.Close()
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			api := rest.New(rest.Config{Herder: follower{leader: "http://" + between.Front(t, leader.Listener.Addr().String()) + "/"}, Log: quietLog(), Client: client})
			s := httptest.NewServer(api)
			defer s.Close()
			w := &worker{url: s.URL}
			if c.after != nil {
				go func() {
					<-served
					c.after(between)
				}()
			}
			w.want(t, c.status, c.words, "DELETE", "/connectors/c", nil)
			// Once it is whole, the next one comes through.
			between.Heal()
			w.want(t, 204, "", "DELETE", "/connectors/c", nil)
		})
	}
}
