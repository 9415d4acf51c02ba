package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"millrace/deploy/trial"
	rest "millrace/rest/registry"
	"millrace/runtime/registry"
	"millrace/schema/avro"
	rules "millrace/schema/registry"
)

// alone is an instance without a topic: what it decides counts at once.
type alone struct{ r *rules.Registry }

func (a alone) Rules() *rules.Registry                     { return a.r }
func (alone) Leader(context.Context) (string, bool, error) { return "http://here", true, nil }
func (alone) ClusterID() string                            { return "cluster" }
func (alone) GroupID() string                              { return "group" }
func (a alone) Decide(_ context.Context, _ bool, decide func(*rules.Batch) error) error {
	b := a.r.NewBatch()
	err := decide(b)
	if err == nil {
		a.r.Apply(b.Records)
	}
	return err
}

func handlerAlone() (http.Handler, *rules.Registry) {
	lg := slog.New(slog.DiscardHandler)
	r := rules.New(rules.NewState(lg), rules.Settings{Types: []rules.Type{avro.Registry}, ValidateNewSchemas: true})
	return rest.New(rest.Config{Instance: alone{r}, NotHere: registry.ErrNotLeader, Log: lg, Version: "8.0.0"}), r
}

// manyFields is a record with n fields of a type.
func manyFields(n int, typ string) string {
	var b strings.Builder
	b.WriteString(`{"type":"record","name":"R","fields":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"f%d","type":%s}`, i, typ)
	}
	return b.String() + "]}"
}

func nested(depth int, before, after, inside string) string {
	return strings.Repeat(before, depth) + inside + strings.Repeat(after, depth)
}

// Whatever is sent is answered with an error that says why, soon, and without taking much memory.
func TestHostileSchemasAreRefusedSoonAndCheaply(t *testing.T) {
	h, _ := handlerAlone()
	for _, row := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"too many fields", schemaBody(manyFields(180_000, `"int"`)), 422, "Invalid schema of type AVRO"},
		{"too many branches", schemaBody("[" + strings.TrimSuffix(strings.Repeat(`{"type":"array","items":"int"},`, 110_000), ",") + "]"), 422, "Invalid schema of type AVRO"},
		{"deep arrays", schemaBody(nested(100_000, `{"type":"array","items":`, `}`, `"int"`)), 422, "Invalid schema of type AVRO"},
		{"deep unions", schemaBody(nested(100_000, `[`, `]`, `"int"`)), 422, "Invalid schema of type AVRO"},
		{"a long text that is no JSON", schemaBody(strings.Repeat("x", 4<<20)), 422, "Invalid schema of type AVRO"},
		{"a text that is longer than allowed", schemaBody(`{"type":"enum","name":"E","symbols":["A"],"doc":"` + strings.Repeat("d", 5<<20) + `"}`), 422, "Invalid schema of type AVRO"},
		{"an illegal name", schemaBody(`{"type":"record","name":"R-R","fields":[]}`), 422, "R-R"},
		{"a name of a control character", schemaBody(`{"type":"record","name":"R\u0000","fields":[]}`), 422, "Invalid schema"},
		{"a default that does not fit", schemaBody(`{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}`), 422, "Invalid schema"},
		{"an empty schema", schemaBody(" "), 422, "Empty schema"},
		{"a deep body", `{"metadata":` + nested(100_000, `{"a":`, `}`, `1`) + `}`, 400, "nested deeper"},
		{"a body of many values", `{"references":[` + strings.Repeat(`{},`, 200_000) + `{}]}`, 413, "values"},
		{"many references", schemaBody(`"int"`, "references", `[`+strings.TrimSuffix(strings.Repeat(`{"name":"n","subject":"s","version":1},`, 20_000), ",")+`]`), 422, "No schema reference"},
		{"a reference without a name", schemaBody(`"int"`, "references", `[{"subject":"s","version":1}]`), 422, "Invalid reference"},
		{"a version below all", schemaBody(`"int"`, "version", `-7`), 422, "not one more"},
		{"an id beyond all", schemaBody(`"int"`, "id", `99999999999`), 400, "id"},
		{"a rule with no name", schemaBody(`"int"`, "ruleSet", `{"domainRules":[{"type":"CEL"}]}`), 422, "Missing rule name"},
		{"no UTF-8", "{\"schema\":\"\xff\"}", 400, "UTF-8"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			began := time.Now()
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/subjects/s/versions", strings.NewReader(row.body))
			h.ServeHTTP(w, r)
			took := time.Since(began)
			goruntime.ReadMemStats(&after)
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.says) {
				t.Errorf("%d %.300s, want %d with %q", w.Code, w.Body, row.status, row.says)
			}
			if w.Body.Len() > 4<<10 {
				t.Errorf("the answer has %d bytes: it repeats what was sent", w.Body.Len())
			}
			// Far above what it takes, for busy machines.
			if took > time.Minute {
				t.Errorf("it took %v", took)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 400<<20 {
				t.Errorf("it took %d MiB of allocations for %d KiB", grown>>20, len(row.body)>>10)
			}
		})
	}
}

// The largest schemas that are taken are compared in time, whatever the level.
func TestTheLargestSchemasAreCompared(t *testing.T) {
	h, _ := handlerAlone()
	send := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	send("PUT", "/config", `{"compatibility":"FULL_TRANSITIVE"}`)
	fields := 24_000 * min(trial.Effort(100), 100) / 100 // at most near the limit of nodes, with their types, and below that of the text
	for v := range 3 {
		typ := []string{`["null","int"]`, `["int","null"]`, `["null","int"]`}[v]
		began := time.Now()
		w := send("POST", "/subjects/s/versions", schemaBody(strings.Replace(manyFields(fields, typ), `"R"`, fmt.Sprintf(`"R","doc":"%d"`, v), 1)))
		if w.Code != 200 {
			t.Fatalf("version %d: %d %.300s", v, w.Code, w.Body)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("version %d took %v", v, took)
		}
	}
}

// FuzzRequests sends anything anywhere: no panic, and every answer that is an error has a code and a message.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", "/subjects/s/versions", schemaBody(recA)},
		{"POST", "/subjects/s", schemaBody(recA)},
		{"POST", "/compatibility/subjects/s/versions/latest?verbose=true", schemaBody(recB)},
		{"PUT", "/config/s", `{"compatibility":"FULL","alias":"t","defaultRuleSet":{"domainRules":[{"name":"r","type":"CEL","mode":"WRITE"}]}}`},
		{"PUT", "/mode", `{"mode":"IMPORT"}`},
		{"DELETE", "/subjects/s/versions/latest?permanent=true", ""},
		{"GET", "/contexts/.c/schemas/ids/1?subject=x&findTags=*&format=resolved", ""},
		{"GET", "/subjects/a%2Fb/metadata?key=a&value=b", ""},
		{"POST", "/subjects/s/versions/1/tags", `{"tagsToAdd":[{"schemaEntity":{"entityPath":"R.a","entityType":"sr_field"},"tags":["PII"]}]}`},
		{"GET", "/schemas?latestOnly=true&offset=-1&limit=2", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	h, r := handlerAlone()
	b := r.NewBatch()
	if _, err := b.Register(&rules.Registration{Subject: "s", Request: &rules.Request{Schema: recA}}); err != nil {
		f.Fatal(err)
	}
	r.Apply(b.Records)
	f.Fuzz(func(t *testing.T, method, path, body string) {
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		req, err := http.NewRequest(method, "http://x"+path, strings.NewReader(body))
		if err != nil {
			return
		}
		req.RequestURI = path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code >= 400 {
			var e struct {
				Code    int    `json:"error_code"`
				Message string `json:"message"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Code == 0 || e.Message == "" {
				t.Errorf("%s %q: %d %q", method, path, w.Code, w.Body)
			}
			if strings.Contains(e.Message, "a bug") {
				t.Errorf("%s %q %q: %s", method, path, body, e.Message)
			}
		}
		_, _ = io.Copy(io.Discard, w.Result().Body)
	})
}
