package rest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"millrace/deploy/trial"
)

// TestTheAPIAnswersAsItIsDescribed sends requests made from the API's description, right
// ones and mutated ones, to a live worker. Each answer must be one that the description
// has, in status, media type and body, and none an internal error.
func TestTheAPIAnswersAsItIsDescribed(t *testing.T) {
	seed := trial.Seed(t)
	n := max(200, trial.Effort(3000))

	logged := &lockedLog{}
	w := startWorkerWith(t, nil, slog.New(slog.NewTextHandler(logged, nil)))
	w.write(t, "in.txt", "0\n1\n2\n")
	_, _, text := w.send(t, "GET", "/openapi.json", nil)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f := &fuzzer{worker: w, rnd: rand.New(rand.NewPCG(seed, 1)), doc: doc, statuses: map[string]int{}}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			f.ops = append(f.ops, fuzzed{path, method})
			if method == http.MethodGet {
				f.ops = append(f.ops, fuzzed{path, http.MethodHead})
			}
		}
	}
	slices.SortFunc(f.ops, func(a, b fuzzed) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	for i := range n {
		f.one(t, i)
		if t.Failed() {
			t.Fatalf("after %d requests; MILLRACE_SEED=%d runs them again", i+1, seed)
		}
		if i%100 == 99 {
			f.clean(t)
		}
	}
	f.clean(t)
	w.want(t, 200, `"healthy"`, "GET", "/health", nil)
	if s := logged.String(); strings.Contains(s, "panicked") || strings.Contains(s, "a bug") {
		t.Errorf("the worker's log tells of a panic:\n%.4000s", s[max(0, strings.Index(s, "panicked")-500):])
	}
	t.Logf("answers: %v", f.statuses)
	for _, status := range []string{"200", "201", "204", "400", "404", "405", "409", "415"} {
		if f.statuses[status] == 0 && n >= 3000 {
			t.Errorf("no request was answered with %s: the requests are too much alike", status)
		}
	}
}

type fuzzed struct{ path, method string }

type fuzzer struct {
	*worker
	rnd      *rand.Rand
	doc      *openapi3.T
	ops      []fuzzed
	statuses map[string]int
}

func pick[T any](f *fuzzer, list ...T) T { return list[f.rnd.IntN(len(list))] }

func (f *fuzzer) chance(percent int) bool { return f.rnd.IntN(100) < percent }

// hostile are texts that break what is careless.
var hostile = []string{"", " ", ".", "..", "../x", "a/b", "%", "%00", "%2F", "\x00", "a\nb", "null", "true", "-1", "0", "99999999999999999999", "1e999", "NaN",
	"ü", "日本", "\u202e", "'", `"`, `\`, "<script>", "${file:/etc/passwd:x}", "${env:HOME}", "[hidden]", "*", "?x=1", "#f", ";", strings.Repeat("x", 300), "\xff\xfe"}

func (f *fuzzer) text() string {
	if f.chance(40) {
		return pick(f, hostile...)
	}
	b := make([]byte, f.rnd.IntN(12))
	for i := range b {
		b[i] = byte(32 + f.rnd.IntN(95))
	}
	return string(b)
}

// names are the connectors that most requests are about.
var names = []string{"a", "b", "c", "a/b", "d e", "ü"}

func (f *fuzzer) pathValue(param string) string {
	if f.chance(15) {
		return f.text()
	}
	switch param {
	case "name":
		return pick(f, names...)
	case "task":
		return pick(f, "0", "0", "1", "7", "x", "-1")
	case "plugin":
		return pick(f, "FileStreamSource", "FileStreamSink", "postgres", "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.transforms.Cast$Value", "file", "nope")
	case "logger":
		return pick(f, "root", "millrace", "millrace.runtime.worker", "org.apache.kafka.connect", "connector:a", "nope")
	}
	return f.text()
}

// settings are keys with values that matter to somebody.
var fuzzSettings = map[string][]any{
	"tasks.max": {"1", "2", 1, "0", "-1", "x", "2147483648"}, "batch.size": {"1", 10, "-5", "x"}, "transforms": {"t", "t,u", "t,t", ","}, "transforms.t.type": {"org.apache.kafka.connect.transforms.HoistField$Value", "nope", ""},
	"transforms.t.field": {"f", ""}, "predicates": {"p"}, "predicates.p.type": {"org.apache.kafka.connect.transforms.predicates.TopicNameMatches"}, "predicates.p.pattern": {"(", "a.*"},
	"errors.tolerance": {"all", "none", "x"}, "errors.deadletterqueue.topic.name": {"dlq", "t", "bad name", "connect-configs"}, "topics.regex": {"t.*", "("}, "key.converter": {"org.apache.kafka.connect.storage.StringConverter", "nope"},
	"topic.creation.groups": {"g"}, "topic.creation.default.partitions": {"1", "0", "x"}, "topic.creation.default.replication.factor": {"1", "-1", "9"}, "topic.creation.g.include": {"(", "x"},
	"exactly.once.support": {"required", "requested", "x"}, "transaction.boundary": {"connector", "poll", "x"}, "producer.override.acks": {"1", "all", "x"}, "consumer.override.bogus": {"1"}, "consumer.override.group.id": {"g", "millrace", ""},
	"name": {"a", "b", 5, nil}, "connector.class": {"FileStreamSource", "FileStreamSink", "postgres", "nope", "", nil}, "extra": {nil, true, 1.5, "x"}, "offsets.storage.topic": {"own", "bad name"}, "config.action.reload": {"none", "x"},
}

func (f *fuzzer) config() map[string]any {
	c := map[string]any{"connector.class": "FileStreamSource", "tasks.max": "1", "file": filepath.Join(f.dir, "in.txt"), "topic": "t"}
	if f.chance(40) {
		c = map[string]any{"connector.class": "FileStreamSink", "tasks.max": "1", "file": filepath.Join(f.dir, "out.txt"), "topics": "t"}
	}
	keys := slices.Sorted(func(yield func(string) bool) {
		for k := range fuzzSettings {
			if !yield(k) {
				return
			}
		}
	})
	for f.chance(45) {
		k := pick(f, keys...)
		c[k] = pick(f, fuzzSettings[k]...)
	}
	if f.chance(10) {
		c[f.text()] = f.value(2)
	}
	return c
}

// value is any JSON.
func (f *fuzzer) value(depth int) any {
	if depth > 0 && f.chance(40) {
		if f.chance(50) {
			m := map[string]any{}
			for range f.rnd.IntN(4) {
				m[f.text()] = f.value(depth - 1)
			}
			return m
		}
		l := []any{}
		for range f.rnd.IntN(4) {
			l = append(l, f.value(depth-1))
		}
		return l
	}
	return pick[any](f, nil, true, f.rnd.Int64(), f.rnd.NormFloat64()*1e10, f.text(), json.Number("1e400"), json.Number("123456789012345678901234567890"))
}

func (f *fuzzer) body(path, method string) any {
	file := map[string]any{"filename": filepath.Join(f.dir, "in.txt")}
	switch {
	case path == "/connectors":
		b := map[string]any{"name": pick(f, names...), "config": f.config()}
		if f.chance(30) {
			b["initial_state"] = pick[any](f, "STOPPED", "paused", "RUNNING", "nope", nil, 1)
		}
		return b
	case strings.HasSuffix(path, "/offsets"):
		return map[string]any{"offsets": []any{map[string]any{
			"partition": pick[any](f, file, map[string]any{"kafka_topic": "t", "kafka_partition": pick[any](f, 0, "0", -1, "x", 1<<40)}, f.value(2), nil),
			"offset":    pick[any](f, map[string]any{"position": pick[any](f, 0, 2, -1, "x", 1.5)}, map[string]any{"kafka_offset": pick[any](f, 0, "1", -1, "x")}, f.value(2), nil),
		}}}
	case strings.HasPrefix(path, "/admin"):
		return map[string]any{"level": pick[any](f, "INFO", "WARN", "ERROR", "info", "LOUD", nil, 5)}
	case strings.HasSuffix(path, "/tasks"):
		return []any{map[string]any{"a": "b"}}
	case method == http.MethodPatch:
		c := map[string]any{}
		for f.chance(60) {
			k := pick(f, "batch.size", "tasks.max", "extra", "topic", "topics", "name")
			c[k] = pick[any](f, "1", 2, nil, "x", true)
		}
		return c
	}
	return f.config()
}

// mutate spoils JSON.
func (f *fuzzer) mutate(b []byte) []byte {
	switch f.rnd.IntN(9) {
	case 0:
		return b[:f.rnd.IntN(len(b)+1)]
	case 1:
		b = bytes.Clone(b)
		for range 1 + f.rnd.IntN(3) {
			if len(b) > 0 {
				b[f.rnd.IntN(len(b))] = byte(f.rnd.IntN(256))
			}
		}
		return b
	case 2:
		return append(bytes.Clone(b), b...)
	case 3:
		return []byte(strings.Repeat(pick(f, "[", `{"a":`, `{"config":`), 1+f.rnd.IntN(200)))
	case 4:
		out, err := json.Marshal(f.value(4))
		if err != nil {
			return []byte("{}")
		}
		return out
	case 5:
		return bytes.Replace(b, []byte("{"), []byte(`{"name":"a","name":"b",`), 1)
	case 6:
		return nil
	case 7:
		return []byte("null")
	}
	return bytes.ReplaceAll(b, []byte(`"`), []byte(`'`))
}

// one sends a request and checks its answer.
func (f *fuzzer) one(t *testing.T, i int) {
	o := f.ops[f.rnd.IntN(len(f.ops))]
	if f.chance(15) {
		o = fuzzed{"/connectors", http.MethodPost}
	}
	item := f.doc.Paths.Find(o.path)
	described := o.method
	if described == http.MethodHead {
		described = http.MethodGet
	}
	operation := item.GetOperation(described)
	path := o.path
	params := map[string]string{}
	for _, p := range item.Parameters {
		v := f.pathValue(p.Value.Name)
		params[p.Value.Name] = v
		text := url.PathEscape(v)
		if strings.Trim(v, ".") == "" {
			text = strings.Repeat("%2E", len(v))
		}
		path = strings.Replace(path, "{"+p.Value.Name+"}", text, 1)
	}
	query := url.Values{}
	header := http.Header{}
	for _, p := range operation.Parameters {
		if f.chance(50) {
			continue
		}
		v := f.text()
		if s := p.Value.Schema.Value; f.chance(70) && len(s.Enum) > 0 {
			v = fmt.Sprint(pick(f, s.Enum...))
		} else if s.Items != nil && f.chance(70) {
			v = fmt.Sprint(pick(f, s.Items.Value.Enum...))
		}
		if p.Value.In == "header" {
			header.Set(p.Value.Name, base64.StdEncoding.EncodeToString([]byte(v)))
		} else {
			query.Add(p.Value.Name, v)
		}
	}
	if f.chance(5) {
		query.Add(f.text(), f.text())
	}
	var body []byte
	if operation.RequestBody != nil {
		body, _ = json.Marshal(f.body(o.path, o.method)) // our own values encode
		if f.chance(25) {
			body = f.mutate(body)
		}
		header.Set("Content-Type", "application/json")
		if f.chance(4) {
			header.Set("Content-Type", pick(f, "text/plain", "", "application/json; charset=utf-8", "application/xml", ";;;"))
		}
	}
	if f.chance(4) {
		header.Set("Accept", pick(f, "application/json", "*/*", "text/plain", "application/xml;q=0.5, application/json;q=0", ""))
	}
	method := o.method
	if f.chance(4) {
		method = pick(f, "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
	}
	to, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	to.Opaque = "//" + to.Host + path
	to.RawQuery = query.Encode()
	if f.chance(2) {
		to.RawQuery += "&%zz=%"
	}
	r := (&http.Request{Method: method, URL: to, Host: to.Host, Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Proto: "HTTP/1.1"}).WithContext(t.Context())
	if len(body) == 0 {
		r.Body, r.ContentLength = nil, 0
	}
	if f.chance(5) && len(body) > 0 {
		r.ContentLength = -1 // chunked
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Errorf("request %d: %s %s: %v", i, method, to, err)
		return
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("request %d: %s %s: %v", i, method, to, err)
		return
	}
	f.statuses[fmt.Sprint(res.StatusCode)]++
	fail := func(why any) {
		t.Errorf("request %d: %s %s %v\n> %.2000s\n< %d %v %.2000s\n%v", i, method, to, header, body, res.StatusCode, res.Header, data, why)
	}
	if res.StatusCode >= 500 {
		fail("an internal error")
		return
	}
	if method == http.MethodHead {
		if len(data) > 0 {
			fail("HEAD with a body")
		}
		return
	}
	elsewhere := false // a name that is empty makes another path
	for _, v := range params {
		elsewhere = elsewhere || v == ""
	}
	if method != o.method || elsewhere { // what another method is answered with is no matter of this operation
		var e struct {
			Code    *int    `json:"error_code"`
			Message *string `json:"message"`
		}
		if res.StatusCode >= 400 && (json.Unmarshal(data, &e) != nil || e.Code == nil || *e.Code != res.StatusCode || e.Message == nil) {
			fail("an error without Connect's body")
		}
		return
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params,
		Route: &routers.Route{Spec: f.doc, Path: o.path, PathItem: item, Method: o.method, Operation: operation}}
	answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: res.StatusCode, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(data)), Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true}}
	if err := openapi3filter.ValidateResponse(t.Context(), answer); err != nil {
		fail(err)
		return
	}
	if res.StatusCode >= 400 {
		var e struct {
			Code int `json:"error_code"`
		}
		if json.Unmarshal(data, &e) != nil || e.Code != res.StatusCode {
			fail("error_code is not the status")
		}
	}
}

// clean removes the connectors, so that the worker's load stays small.
func (f *fuzzer) clean(t *testing.T) {
	var list []string
	_, _, text := f.send(t, "GET", "/connectors", nil)
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, name := range list {
		at := "/connectors/" + url.PathEscape(name)
		if strings.Trim(name, ".") == "" {
			at = "/connectors/" + strings.Repeat("%2E", len(name))
		}
		f.want(t, 204, "", "DELETE", at, nil)
	}
	f.want(t, 200, "[", "PUT", "/admin/loggers/root", map[string]string{"level": "INFO"})
}
