package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/rest"
	"millrace/runtime"
)

// partDetail is what these tests look at of a part.
type partDetail struct {
	ID       int
	State    string
	Worker   string `json:"worker_id"`
	From     string
	Ask      string
	NoAnswer string `json:"no_answer"`
	Moved    string `json:"last_progress"`
}

// Whichever worker is asked tells of all parts in detail, whoever runs them.
func TestAStatusInDetailIsWholeAtAnyWorker(t *testing.T) {
	pool := startPool(t, 3, nil)
	const connectors = 6
	for i := range connectors {
		pool[0].write(t, fmt.Sprintf("in%d.txt", i), "a\nb\n")
		pool[0].settled(t, 201, "", "POST", "/connectors", map[string]any{"name": fmt.Sprintf("c %d", i), "config": source(pool[0], fmt.Sprintf("in%d.txt", i), "lines")})
	}
	whole := func(p partDetail) string {
		if p.From != "worker" || p.NoAnswer != "" || p.Ask != "" {
			return fmt.Sprintf("%+v", p)
		}
		return ""
	}
	for _, w := range pool {
		workers := map[string]bool{}
		w.until(t, "the details of all connectors at "+w.url, func() bool {
			_, _, got := w.send(t, "GET", "/connectors?expand=status&detail=full", nil)
			var all map[string]struct {
				Status struct {
					Connector partDetail
					Tasks     []partDetail
				}
			}
			if err := json.Unmarshal([]byte(got), &all); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
			tasks := 0
			for _, c := range all {
				for _, p := range append(c.Status.Tasks, c.Status.Connector) {
					if whole(p) != "" {
						return false
					}
					workers[p.Worker] = true
				}
				for _, p := range c.Status.Tasks {
					if p.State == "RUNNING" && p.Moved != "" {
						tasks++
					}
				}
			}
			return tasks >= connectors
		})
		if len(workers) != len(pool) {
			t.Errorf("%s: parts of %v, want some of each worker", w.url, workers)
		}
		for i := range connectors {
			path := fmt.Sprintf("/connectors/c%%20%d", i)
			w.until(t, path+" in detail at "+w.url, func() bool {
				var task partDetail
				_, _, got := w.send(t, "GET", path+"/tasks/0/status?detail=full", nil)
				if err := json.Unmarshal([]byte(got), &task); err != nil {
					t.Fatalf("%v: %s", err, got)
				}
				_, _, status := w.send(t, "GET", path+"/status?detail=full", nil)
				return whole(task) == "" && task.Moved != "" && strings.Count(status, `"from":"worker"`) == 2
			})
		}
	}
	if code, _, got := pool[1].send(t, "GET", "/connectors/c%200/status", nil); code != 200 || strings.Contains(got, "from") {
		t.Errorf("a plain status: %d %s", code, got)
	}
	for _, c := range []struct {
		header map[string]string
		status int
	}{
		{nil, 400},
		{map[string]string{"X-Connect-Authorization": "c2lnbmVk", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}, 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", pool[0].url+"/connectors/status", strings.NewReader(`{"connectors":["c 0"]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("a request that no worker signed (%v): %d, want %d", c.header, res.StatusCode, c.status)
		}
	}
}

// elsewhere is a worker whose connector another one runs.
type elsewhere struct {
	rest.Herder
	owner string
}

func (e elsewhere) WorkerID() string                       { return "me:8083" }
func (e elsewhere) Sign([]byte) (runtime.Signature, error) { return runtime.Signature{}, nil }
func (e elsewhere) WorkerURL(id string) (string, error)    { return "http://" + id + "/", nil }
func (e elsewhere) StatusDetail(context.Context, string) (runtime.Status, error) {
	part := runtime.PartStatus{State: runtime.Running, WorkerID: e.owner}
	return runtime.Status{Name: "c", Connector: part, Tasks: []runtime.TaskStatus{{ID: 0, PartStatus: part}}, Type: runtime.SourceType}, nil
}

// A worker that does not tell of its parts is named, with the reason; nobody waits for it for long.
func TestAWorkerThatDoesNotTell(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct {
		name   string
		owner  string // "" for a server with the answer
		answer func(w http.ResponseWriter)
		says   string
	}{
		{"it is silent", silent.Addr().String(), nil, "no answer within 3s"},
		{"it is gone", "127.0.0.1:1", nil, "connection refused"},
		{"it refuses", "", func(w http.ResponseWriter) {
			w.WriteHeader(403)
			fmt.Fprint(w, `{"error_code":403,"message":"Internal request contained invalid signature."}`)
		}, "403 Forbidden: Internal request contained invalid signature."},
		{"another program listens there", "", func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, "its answer is none to this question"},
		{"it has the connector no more", "", func(w http.ResponseWriter) { fmt.Fprint(w, `{}`) }, "does not run it any more"},
		{"it has given the connector away", "", func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"c":{"name":"c","connector":{"state":"RUNNING","worker_id":"x","from":"status_topic"},"tasks":[],"type":"source"}}`)
		}, "does not run it any more"},
		{"it answers without an end", "", func(w http.ResponseWriter) {
			for range 20 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "its answer has more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			owner := c.owner
			if owner == "" {
				other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.answer(w) }))
				defer other.Close()
				owner = strings.TrimPrefix(other.URL, "http://")
			}
			s := httptest.NewServer(rest.New(rest.Config{Herder: elsewhere{owner: owner}, Log: quietLog()}))
			defer s.Close()
			w := &worker{url: s.URL}
			code, _, got := w.send(t, "GET", "/connectors/c/status?detail=full", nil)
			var status struct {
				Connector partDetail
				Tasks     []partDetail
			}
			if err := json.Unmarshal([]byte(got), &status); err != nil || code != 200 || len(status.Tasks) != 1 {
				t.Fatalf("%d %s: %v", code, got, err)
			}
			for _, p := range append(status.Tasks, status.Connector) {
				if p.State != "RUNNING" || p.From != "status_topic" || p.Ask != owner || !strings.Contains(p.NoAnswer, c.says) || !strings.Contains(p.NoAnswer, owner) {
					t.Errorf("%+v, want it to say %q", p, c.says)
				}
			}
		})
	}
}
