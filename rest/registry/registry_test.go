package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"millrace/log"
	"millrace/log/logtest"
	rest "millrace/rest/registry"
	"millrace/runtime"
	"millrace/runtime/registry"
	"millrace/schema/avro"
	rules "millrace/schema/registry"
)

const wait = 30 * time.Second

// server is an instance with its API on a port.
type server struct {
	t    testing.TB
	url  string
	inst *registry.Instance
	http *httptest.Server
}

// start starts an instance on a log; settings are those of a worker.
func start(t testing.TB, l *log.Log, settings ...string) *server {
	t.Helper()
	own := map[string]string{"schema.registry.kafkagroup.heartbeat.interval.ms": "100"}
	for i := 0; i+1 < len(settings); i += 2 {
		own[settings[i]] = settings[i+1]
	}
	w, errs := runtime.ParseWorker(runtime.WithDefaults(own, runtime.StandaloneDefaults()))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	lg := slog.New(slog.NewTextHandler(testLog{t}, nil))
	s := &server{t: t, url: "http://" + listener.Addr().String()}
	s.inst, err = registry.Open(ctx, registry.Config{Log: l, Settings: w.Registry, Types: []rules.Type{avro.Registry}, URL: s.url, Logger: lg})
	if err != nil {
		t.Fatal(err)
	}
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: rest.New(rest.Config{Instance: s.inst, NotHere: registry.ErrNotLeader, Log: lg, Version: "8.0.0"})}}
	s.http.Start()
	t.Cleanup(s.close)
	return s
}

func (s *server) close() {
	if s.http != nil {
		s.http.Close()
		s.inst.Close()
		s.http = nil
	}
}

// testLog writes a test's log until the test is over.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// answer is what came back.
type answer struct {
	status int
	media  string
	body   string
}

func (s *server) send(method, path, body string, headers ...string) answer {
	s.t.Helper()
	a, err := send(s.url, method, path, body, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func send(url, method, path, body string, headers ...string) (answer, error) {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, url+path, in)
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(data)}, err
}

// schemaBody is a request with a schema and, in pairs, other fields as JSON.
func schemaBody(text string, more ...string) string {
	var b bytes.Buffer
	e, _ := json.Marshal(text)
	fmt.Fprintf(&b, `{"schema":%s`, e)
	for i := 0; i+1 < len(more); i += 2 {
		fmt.Fprintf(&b, `,%q:%s`, more[i], more[i+1])
	}
	return b.String() + "}"
}

// step is one exchange. want is the whole answer, with ts and guid as they come, or, with an error, its code.
type step struct {
	name, method, path, body string
	status                   int
	want                     string
}

// masked is an answer without what differs from run to run.
func masked(body string) string {
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return body
	}
	var mask func(v any)
	mask = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, ok := v["ts"]; ok {
				v["ts"] = "TS"
			}
			if g, ok := v["guid"].(string); ok && len(g) == 36 {
				v["guid"] = "GUID"
			}
			if m, ok := v["message"]; ok && v["error_code"] != nil {
				_ = m
				delete(v, "message")
			}
			for _, x := range v {
				mask(x)
			}
		case []any:
			for _, x := range v {
				mask(x)
			}
		}
	}
	mask(v)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSpace(b.String())
}

func run(t *testing.T, s *server, steps []step) {
	t.Helper()
	for _, st := range steps {
		a := s.send(st.method, st.path, st.body)
		if got := masked(a.body); a.status != st.status || got != st.want {
			t.Errorf("%s: %s %s\n got %d %s\nwant %d %s\n     %s", st.name, st.method, st.path, a.status, got, st.status, st.want, a.body)
		}
	}
}

func code(n int) string { return fmt.Sprintf(`{"error_code":%d}`, n) }

const (
	ints = `"int"`
	recA = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
	recB = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"}]}`
)

// The endpoints in the order of the reference, on one registry.
func TestEveryEndpointAnswersAsTheReferenceSays(t *testing.T) {
	s := start(t, logtest.New(t))
	recAQuoted, _ := json.Marshal(recA)
	entry := func(subject string, version, id int, schema, more string) string {
		q, _ := json.Marshal(schema)
		return fmt.Sprintf(`{"deleted":false,"guid":"GUID","id":%d%s,"schema":%s,"subject":%q,"ts":"TS","version":%d}`, id, more, q, subject, version)
	}
	run(t, s, []step{
		{"ping", "GET", "/", "", 200, `{}`},
		{"ping by post", "POST", "/", "", 200, `{}`},
		{"nothing yet", "GET", "/subjects", "", 200, `[]`},
		{"types", "GET", "/schemas/types", "", 200, `["AVRO"]`},
		{"default level", "GET", "/config", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"default mode", "GET", "/mode", "", 200, `{"mode":"READWRITE"}`},
		{"contexts", "GET", "/contexts", "", 200, `["."]`},
		{"version", "GET", "/v1/metadata/version", "", 200, `{"commitId":"millrace","version":"8.0.0"}`},
		{"deployment", "GET", "/v1/metadata/deployment", "", 200, `{}`},

		{"register", "POST", "/subjects/s/versions", schemaBody(recA), 200, `{"guid":"GUID","id":1,"schema":` + string(recAQuoted) + `,"version":1}`},
		{"register again", "POST", "/subjects/s/versions", schemaBody(recA), 200, `{"guid":"GUID","id":1,"schema":` + string(recAQuoted) + `,"version":1}`},
		{"incompatible", "POST", "/subjects/s/versions", schemaBody(recB), 409, code(409)},
		{"incompatible, forced", "POST", "/subjects/forced/versions?force=true", schemaBody(recB), 200, strings.Replace(`{"guid":"GUID","id":2,"schema":RECB,"version":1}`, "RECB", quote(recB), 1)},
		{"not a schema", "POST", "/subjects/s/versions", schemaBody(`{"type":"nonsense"}`), 422, code(42201)},
		{"a type that there is not", "POST", "/subjects/s/versions", schemaBody(`x`, "schemaType", `"PROTOBUF"`), 422, code(42201)},
		{"no body", "POST", "/subjects/s/versions", "", 422, code(422)},
		{"no JSON", "POST", "/subjects/s/versions", "{", 400, code(400)},
		{"a field of another type", "POST", "/subjects/s/versions", `{"schema":7}`, 400, code(400)},
		{"a field that there is not", "POST", "/subjects/s/versions", `{"schema":"\"int\"","unheard":"of"}`, 409, code(409)},
		{"a name that cannot be", "POST", "/subjects/__GLOBAL/versions", schemaBody(ints), 422, code(42208)},
		{"look up", "POST", "/subjects/s", schemaBody(recA), 200, fmt.Sprintf(`{"guid":"GUID","id":1,"schema":%s,"subject":"s","version":1}`, recAQuoted)},
		{"look up what is not there", "POST", "/subjects/s", schemaBody(ints), 404, code(40403)},
		{"look up in no subject", "POST", "/subjects/none", schemaBody(ints), 404, code(40401)},

		{"versions", "GET", "/subjects/s/versions", "", 200, `[1]`},
		{"versions of nothing", "GET", "/subjects/none/versions", "", 404, code(40401)},
		{"a version", "GET", "/subjects/s/versions/1", "", 200, entry("s", 1, 1, recA, "")},
		{"the latest", "GET", "/subjects/s/versions/latest", "", 200, entry("s", 1, 1, recA, "")},
		{"-1", "GET", "/subjects/s/versions/-1", "", 200, entry("s", 1, 1, recA, "")},
		{"no such version", "GET", "/subjects/s/versions/9", "", 404, code(40402)},
		{"a version of nothing", "GET", "/subjects/none/versions/1", "", 404, code(40401)},
		{"no version at all", "GET", "/subjects/s/versions/0", "", 422, code(42202)},
		{"a version that is none", "GET", "/subjects/s/versions/one", "", 422, code(42202)},
		{"too large a version", "GET", "/subjects/s/versions/2147483648", "", 422, code(42202)},
		{"bare text", "GET", "/subjects/s/versions/1/schema", "", 200, mask(recA)},
		{"references to it", "GET", "/subjects/s/versions/1/referencedby", "", 200, `[]`},

		{"by id", "GET", "/schemas/ids/1", "", 200, fmt.Sprintf(`{"deleted":false,"guid":"GUID","schema":%s,"ts":"TS"}`, recAQuoted)},
		{"by id with the highest", "GET", "/schemas/ids/1?fetchMaxId=true", "", 200, fmt.Sprintf(`{"deleted":false,"guid":"GUID","maxId":2,"schema":%s,"ts":"TS"}`, recAQuoted)},
		{"by id and subject", "GET", "/schemas/ids/1?subject=s", "", 200, fmt.Sprintf(`{"deleted":false,"guid":"GUID","schema":%s,"subject":"s","ts":"TS","version":1}`, recAQuoted)},
		{"bare text by id", "GET", "/schemas/ids/1/schema", "", 200, mask(recA)},
		{"no such id", "GET", "/schemas/ids/99", "", 404, code(40403)},
		{"an id that is none", "GET", "/schemas/ids/one", "", 404, code(404)},
		{"subjects of an id", "GET", "/schemas/ids/1/subjects", "", 200, `["s"]`},
		{"versions of an id", "GET", "/schemas/ids/1/versions", "", 200, `[{"subject":"s","version":1}]`},
		{"subjects of no id", "GET", "/schemas/ids/99/subjects", "", 404, code(40403)},
		{"no such guid", "GET", "/schemas/guids/00000000-0000-0000-0000-000000000000", "", 404, code(40403)},
		{"ids of no guid", "GET", "/schemas/guids/nonsense/ids", "", 200, `[]`},
		{"all schemas", "GET", "/schemas?latestOnly=true", "", 200, "[" + entry("forced", 1, 2, recB, "") + "," + entry("s", 1, 1, recA, "") + "]"},
		{"schemas of a prefix", "GET", "/schemas?subjectPrefix=fo", "", 200, "[" + entry("forced", 1, 2, recB, "") + "]"},
		{"a page of schemas", "GET", "/schemas?offset=1&limit=1", "", 200, "[" + entry("s", 1, 1, recA, "") + "]"},
		{"a page that is none", "GET", "/subjects?offset=x", "", 400, code(400)},

		{"does it fit", "POST", "/compatibility/subjects/s/versions/latest", schemaBody(recB), 200, `{"is_compatible":false}`},
		{"does it fit to all", "POST", "/compatibility/subjects/s/versions", schemaBody(recA), 200, `{"is_compatible":true}`},
		{"why, where it does", "POST", "/compatibility/subjects/s/versions?verbose=true", schemaBody(recA), 200, `{"is_compatible":true,"messages":[]}`},
		{"to a version that is not", "POST", "/compatibility/subjects/s/versions/9", schemaBody(recA), 404, code(40402)},
		{"to the latest of nothing", "POST", "/compatibility/subjects/none/versions/latest", schemaBody(recA), 200, `{"is_compatible":true}`},
		{"of no schema", "POST", "/compatibility/subjects/s/versions/latest", schemaBody(`nonsense`), 422, code(42201)},

		{"a subject's own level", "GET", "/config/s", "", 404, code(40408)},
		{"or the global one", "GET", "/config/s?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"set it", "PUT", "/config/s", `{"compatibility":"none"}`, 200, `{"compatibility":"NONE"}`},
		{"no level", "PUT", "/config/s", `{"compatibility":"some"}`, 422, code(42203)},
		{"get it", "GET", "/config/s", "", 200, `{"compatibilityLevel":"NONE"}`},
		{"now it is taken", "POST", "/subjects/s/versions", schemaBody(recB), 200, `{"guid":"GUID","id":2,"schema":` + quote(recB) + `,"version":2}`},
		{"delete it", "DELETE", "/config/s", "", 200, `{"compatibilityLevel":"NONE"}`},
		{"delete it again", "DELETE", "/config/s", "", 404, code(40401)},
		{"set the global one", "PUT", "/config", `{"compatibility":"FULL","normalize":true}`, 200, `{"compatibility":"FULL","normalize":true}`},
		{"delete the global one", "DELETE", "/config", "", 200, `{"compatibilityLevel":"FULL","normalize":true}`},

		{"a subject's own mode", "GET", "/mode/s", "", 404, code(40409)},
		{"no mode", "PUT", "/mode/s", `{"mode":"x"}`, 422, code(42204)},
		{"read only", "PUT", "/mode/s", `{"mode":"READONLY"}`, 200, `{"mode":"READONLY"}`},
		{"refused", "POST", "/subjects/s/versions", schemaBody(`"long"`), 422, code(42205)},
		{"what is there is answered", "POST", "/subjects/s/versions", schemaBody(recA), 200, `{"guid":"GUID","id":1,"schema":` + quote(recA) + `,"version":1}`},
		{"delete the mode", "DELETE", "/mode/s", "", 200, `{"mode":"READONLY"}`},
		{"delete it again", "DELETE", "/mode/s", "", 404, code(40401)},
		{"import where there are subjects", "PUT", "/mode", `{"mode":"IMPORT"}`, 422, code(42205)},

		{"delete a version for good", "DELETE", "/subjects/s/versions/1?permanent=true", "", 404, code(40407)},
		{"delete a version", "DELETE", "/subjects/s/versions/1", "", 200, `1`},
		{"delete it again", "DELETE", "/subjects/s/versions/1", "", 404, code(40406)},
		{"versions", "GET", "/subjects/s/versions", "", 200, `[2]`},
		{"with deleted ones", "GET", "/subjects/s/versions?deleted=true", "", 200, `[1,2]`},
		{"deleted ones alone", "GET", "/subjects/s/versions?deletedOnly=true", "", 200, `[1]`},
		{"deleted ones below zero", "GET", "/subjects/s/versions?deletedAsNegative=true", "", 200, `[-1,2]`},
		{"a deleted version", "GET", "/subjects/s/versions/1", "", 404, code(40402)},
		{"a deleted version, asked for", "GET", "/subjects/s/versions/1?deleted=true", "", 200, strings.Replace(entry("s", 1, 1, recA, ""), "false", "true", 1)},
		{"now for good", "DELETE", "/subjects/s/versions/1?permanent=true", "", 200, `1`},
		{"delete the latest", "DELETE", "/subjects/s/versions/latest", "", 200, `2`},
		{"the subject is deleted", "GET", "/subjects", "", 200, `["forced"]`},
		{"it is found if asked for", "GET", "/subjects?deleted=true", "", 200, `["forced","s"]`},
		{"it alone", "GET", "/subjects?deletedOnly=true", "", 200, `["s"]`},
		{"delete what is deleted", "DELETE", "/subjects/s", "", 404, code(40404)},
		{"delete a subject for good first", "DELETE", "/subjects/forced?permanent=true", "", 404, code(40405)},
		{"delete no subject", "DELETE", "/subjects/none", "", 404, code(40401)},
		{"delete a subject", "DELETE", "/subjects/forced", "", 200, `[1]`},
		{"and for good", "DELETE", "/subjects/forced?permanent=true", "", 200, `[1]`},
		{"the ids stay", "GET", "/schemas/ids/1/schema", "", 200, mask(recA)},

		{"no such page", "GET", "/exporters", "", 404, code(404)},
		{"no such method", "PATCH", "/subjects", "", 405, code(405)},
	})
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// mask is bare JSON as masked shows it.
func mask(s string) string { return masked(s) }

func TestContextsStandInNamesOrInThePath(t *testing.T) {
	s := start(t, logtest.New(t))
	run(t, s, []step{
		{"register", "POST", "/contexts/.ctx/subjects/s/versions", schemaBody(ints), 200, `{"guid":"GUID","id":1,"schema":"\"int\"","version":1}`},
		{"elsewhere", "POST", "/subjects/s/versions", schemaBody(`"long"`), 200, `{"guid":"GUID","id":1,"schema":"\"long\"","version":1}`},
		{"contexts", "GET", "/contexts", "", 200, `[".",".ctx"]`},
		{"contexts by prefix", "GET", "/contexts?contextPrefix=.c", "", 200, `[".ctx"]`},
		{"all subjects", "GET", "/subjects", "", 200, `[":.ctx:s","s"]`},
		{"subjects of a context", "GET", "/contexts/.ctx/subjects", "", 200, `[":.ctx:s"]`},
		{"subjects of the default one", "GET", "/subjects?subjectPrefix=", "", 200, `["s"]`},
		{"by id", "GET", "/contexts/.ctx/schemas/ids/1/schema", "", 200, `"int"`},
		{"by id with a context", "GET", "/schemas/ids/1/schema?subject=%3A.ctx%3A", "", 200, `"int"`},
		{"by id without one", "GET", "/schemas/ids/1/schema", "", 200, `"long"`},
		{"a context's level", "PUT", "/contexts/.ctx/config", `{"compatibility":"FULL"}`, 200, `{"compatibility":"FULL"}`},
		{"counts for its subjects", "GET", "/config/:.ctx:s?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"FULL"}`},
		{"and not for others", "GET", "/config/s?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"a context's mode", "PUT", "/contexts/ctx/mode", `{"mode":"READONLY"}`, 200, `{"mode":"READONLY"}`},
		{"refused", "POST", "/contexts/.ctx/subjects/t/versions", schemaBody(ints), 422, code(42205)},
		{"back", "DELETE", "/contexts/.ctx/mode", "", 200, `{"mode":"READONLY"}`},
		{"compatibility", "POST", "/contexts/.ctx/compatibility/subjects/s/versions/latest", schemaBody(ints), 200, `{"is_compatible":true}`},
		{"one that is not empty", "DELETE", "/contexts/.ctx", "", 422, code(42211)},
		{"a colon in a name", "GET", "/contexts/a%3Ab/subjects", "", 400, code(400)},
		{"delete", "DELETE", "/contexts/.ctx/subjects/s", "", 200, `[1]`},
		{"for good", "DELETE", "/contexts/.ctx/subjects/s?permanent=true", "", 200, `[1]`},
		{"now it is empty", "DELETE", "/contexts/.ctx", "", 204, ``},
		{"and gone", "GET", "/contexts", "", 200, `["."]`},
	})
}

func TestAnAliasIsServedAsItsSubject(t *testing.T) {
	s := start(t, logtest.New(t))
	run(t, s, []step{
		{"the alias", "PUT", "/config/other", `{"alias":"s"}`, 200, `{"alias":"s"}`},
		{"register under it", "POST", "/subjects/other/versions", schemaBody(ints), 200, `{"guid":"GUID","id":1,"schema":"\"int\"","version":1}`},
		{"it went to the subject", "GET", "/subjects", "", 200, `["s"]`},
		{"read under it", "GET", "/subjects/other/versions", "", 200, `[1]`},
		{"by id", "GET", "/schemas/ids/1/versions?subject=other", "", 200, `[{"subject":"s","version":1}]`},
		{"its configuration is its own", "GET", "/config/other", "", 200, `{"alias":"s","compatibilityLevel":"BACKWARD"}`},
	})
	if a := s.send("GET", "/schemas?aliases=true", ""); !strings.Contains(a.body, `"aliases":["other"]`) {
		t.Errorf("aliases: %s", a.body)
	}
}

// cases/registry/5
func TestSubjectsOfAnyNameAreReachedByTheirEncodedPath(t *testing.T) {
	s := start(t, logtest.New(t))
	paths := map[string]string{"a": "a", "a/b": "a%2Fb", "a%2Fb": "a%252Fb", ":.ctx:x": "%3A.ctx%3Ax", "ü ñ": "%C3%BC%20%C3%B1", "..": "%2E%2E", strings.Repeat("x", 300): strings.Repeat("x", 300)}
	for name, path := range paths {
		if a := s.send("POST", "/subjects/"+path+"/versions", schemaBody(ints)); a.status != 200 {
			t.Fatalf("register %q: %d %s", name, a.status, a.body)
		}
		a := s.send("GET", "/subjects/"+path+"/versions/1", "")
		var e struct{ Subject string }
		if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Subject != name {
			t.Errorf("%q comes back as %s", name, a.body)
		}
	}
	if a := s.send("GET", "/subjects", ""); strings.Count(a.body, ",") != len(paths)-1 {
		t.Errorf("subjects: %s", a.body)
	}
	if a := s.send("DELETE", "/subjects/a%2Fb", ""); a.body != "[1]" {
		t.Errorf("delete a/b: %s", a.body)
	}
	if a := s.send("GET", "/subjects/a/versions", ""); a.body != "[1]" {
		t.Errorf("a after the deletion of a/b: %s", a.body)
	}
	if a := s.send("POST", "/subjects//versions", schemaBody(ints)); a.status != 404 && a.status != 422 {
		t.Errorf("the empty subject: %d %s", a.status, a.body)
	}
}

func TestMediaTypes(t *testing.T) {
	s := start(t, logtest.New(t))
	const v1 = "application/vnd.schemaregistry.v1+json"
	for _, row := range []struct{ name, accept, want string }{
		{"none", "", v1},
		{"all", "*/*", v1},
		{"JSON", "application/json", "application/json"},
		{"the clients'", "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json; q=0.9, application/json; q=0.5", v1},
		{"JSON rather", "application/vnd.schemaregistry.v1+json;q=0.1, application/json", "application/json"},
		{"another version", "application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"},
	} {
		t.Run(row.name, func(t *testing.T) {
			headers := []string{}
			if row.accept != "" {
				headers = []string{"Accept", row.accept}
			}
			if a := s.send("GET", "/subjects", "", headers...); a.status != 200 || a.media != row.want {
				t.Errorf("%d %s, want %s", a.status, a.media, row.want)
			}
		})
	}
	if a := s.send("GET", "/subjects", "", "Accept", "text/html"); a.status != 406 {
		t.Errorf("text/html: %d", a.status)
	}
	for media, want := range map[string]int{v1: 200, "application/vnd.schemaregistry+json": 200, "application/json": 200, "application/json; charset=utf-8": 200, "application/octet-stream": 200, "text/plain": 415} {
		if a := s.send("POST", "/subjects/s/versions", schemaBody(ints), "Content-Type", media); a.status != want {
			t.Errorf("a body of %s: %d %s", media, a.status, a.body)
		}
	}
}
