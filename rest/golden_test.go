package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
)

// An exchange is one request and answer of a real Connect worker, as captured.
type exchange struct {
	name    string
	Request struct {
		Method, Path string
		Headers      map[string]*string
		Body         *string
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    string
	}
}

// notYet are the exchanges of parts of the API that this server does not have.
var notYet = map[string]string{
	"011": "MySQL", "033": "MySQL",
	"010": "Postgres", "029": "Postgres", "030": "Postgres", "031": "Postgres", "032": "Postgres",
	"154": "Postgres", "155": "Postgres", "156": "Postgres", "157": "Postgres", "158": "Postgres", "159": "Postgres", "160": "Postgres", "161": "Postgres",
	"162": "Postgres", "163": "Postgres",
	"164": "loggers", "165": "loggers", "166": "loggers", "167": "loggers", "168": "loggers", "169": "loggers", "170": "loggers", "171": "loggers",
	"172": "loggers", "173": "loggers",
}

// differs are the exchanges that are answered otherwise on purpose, with the status
// that is given instead. deploy/docs/differences.md has the reasons.
var differs = map[string]int{
	"006": 200, "007": 200, // plugin lists: only what ships
	"023": 400, "024": 400, "034": 400, "035": 400, "038": 400, "041": 400, "042": 400, "043": 400, "044": 400, "045": 400, "047": 400, "057": 400, "093": 400,
	"050": 400, // the text lists other plugins
	"077": 404, // a name with a slash is a name
	"021": 200, // without the text of a NullPointerException
	"028": 200,
	"130": 400, "131": 400, "134": 400, // the client's mistakes
	"149": 200,             // forgotten topics are gone at once
	"152": 200, "153": 202, // the trace's text
}

// settles are the states that the capture waited for before an exchange.
var settles = map[string][]string{
	"060": {"src RUNNING RUNNING", "sink RUNNING RUNNING RUNNING"},
	"101": {"src RUNNING RUNNING"}, "102": {"src RUNNING RUNNING"}, "103": {"src RUNNING RUNNING"},
	"110": {"src RUNNING RUNNING"}, "111": {"src PAUSED PAUSED"}, "118": {"src RUNNING RUNNING"}, "122": {"src RUNNING RUNNING", "sink RUNNING RUNNING RUNNING"},
	"124": {"src STOPPED", "sink STOPPED"}, "146": {"src RUNNING RUNNING", "sink RUNNING RUNNING RUNNING"},
	"152": {"failing RUNNING FAILED"},
}

// TestGolden replays what was said to a real Connect worker and compares answers:
// status, Allow and Location headers, and bodies with what differs from run to run
// taken out.
func TestGolden(t *testing.T) {
	w := startWorker(t)
	if err := os.WriteFile(filepath.Join(w.dir, "in.txt"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	compared, different, skipped := 0, 0, 0
	for _, x := range exchanges(t) {
		number := x.name[:3]
		if why := notYet[number]; why != "" {
			skipped++
			continue
		}
		for _, want := range settles[number] {
			w.settle(t, want)
		}
		if number == "187" { // as the capture did at its end
			w.deleteAll(t)
		}
		replay := func(tb testing.TB) bool {
			got := w.do(t, x)
			status, other := differs[number]
			if other {
				if got.Response.Status != status {
					tb.Errorf("%s: status %d, want %d; body %s", x.name, got.Response.Status, status, got.Response.Body)
					return false
				}
				return true
			}
			return compare(tb, w, x, got)
		}
		t.Run(x.name, func(t *testing.T) {
			if _, other := differs[number]; other {
				different++
			} else {
				compared++
			}
			// What workers settle in the background is asked for again.
			if x.Request.Method == http.MethodGet && strings.HasPrefix(x.Request.Path, "/connectors") {
				eventually(t, func(tb testing.TB) bool { return replay(tb) })
				return
			}
			replay(t)
		})
	}
	t.Logf("golden exchanges: %d compared, %d different on purpose, %d of parts not here", compared, different, skipped)
	if total := compared + different + skipped; total != 187 {
		t.Errorf("%d exchanges seen, want 187: some were lost", total)
	}
}

func exchanges(t *testing.T) []exchange {
	files, err := filepath.Glob("testdata/connect-rest/*.json")
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(files)
	var out []exchange
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var x exchange
		if err := json.Unmarshal(data, &x); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		x.name = strings.TrimSuffix(filepath.Base(f), ".json")
		out = append(out, x)
	}
	return out
}

// do sends an exchange's request to our worker, with the paths of this run.
func (w *worker) do(t *testing.T, x exchange) exchange {
	t.Helper()
	var body io.Reader
	if x.Request.Body != nil {
		body = strings.NewReader(strings.ReplaceAll(*x.Request.Body, "/tmp/connect-rest-golden", w.dir))
	}
	r, err := http.NewRequestWithContext(t.Context(), x.Request.Method, w.url+x.Request.Path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range x.Request.Headers {
		if v != nil {
			r.Header.Set(k, *v)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := exchange{name: x.name}
	got.Response.Status, got.Response.Body = res.StatusCode, string(data)
	got.Response.Headers = map[string]string{}
	for k := range res.Header {
		got.Response.Headers[k] = res.Header.Get(k)
	}
	return got
}

func (w *worker) deleteAll(t *testing.T) {
	for _, name := range []string{"sink", "numbers", "paused", "viaput", "failing", "born%20stopped%20%C3%BC"} {
		var x exchange
		x.Request.Method, x.Request.Path = http.MethodDelete, "/connectors/"+name
		if got := w.do(t, x); got.Response.Status != http.StatusNoContent {
			t.Errorf("delete %s: %d %s", name, got.Response.Status, got.Response.Body)
		}
	}
}

func compare(t testing.TB, w *worker, want, got exchange) bool {
	t.Helper()
	ok := true
	fail := func(format string, a ...any) { t.Errorf(want.name+": "+format, a...); ok = false }
	if got.Response.Status != want.Response.Status {
		fail("status %d, want %d; body %s", got.Response.Status, want.Response.Status, got.Response.Body)
		return false
	}
	if l, has := want.Response.Headers["Location"]; has {
		if l = strings.Replace(l, "http://127.0.0.1:18083", w.url, 1); got.Response.Headers["Location"] != l {
			fail("Location %q, want %q", got.Response.Headers["Location"], l)
		}
	}
	if a, has := want.Response.Headers["Allow"]; has && !sameSet(a, got.Response.Headers["Allow"]) {
		fail("Allow %q, want %q", got.Response.Headers["Allow"], a)
	}
	if ct, has := want.Response.Headers["Content-Type"]; has && ct != got.Response.Headers["Content-Type"] {
		fail("Content-Type %q, want %q", got.Response.Headers["Content-Type"], ct)
	}
	if want.Request.Method == http.MethodOptions {
		return ok
	}
	g, gerr := w.normal(got.Response.Body, want.Request.Path)
	x, xerr := w.normal(strings.ReplaceAll(want.Response.Body, "/tmp/connect-rest-golden", w.dir), want.Request.Path)
	if (gerr == nil) != (xerr == nil) || !reflect.DeepEqual(g, x) {
		fail("body differs\n%s", diff(x, g))
	}
	return ok
}

func sameSet(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// normal is a body with what the capture's README and the list of differences mask.
func (w *worker) normal(body, path string) (any, error) {
	if body == "" {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return nil, err
	}
	if list, ok := v.([]any); ok && strings.HasPrefix(path, "/connectors") {
		if len(list) > 0 {
			if _, names := list[0].(string); names { // a set, in no order
				sort.Slice(list, func(i, j int) bool { return list[i].(string) < list[j].(string) })
			}
		}
	}
	mask(v)
	return v, nil
}

// mask takes out, in place, what is ours or differs from run to run.
func mask(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			switch k {
			case "inode", "fingerprint": // by which the file source knows a file again; beside Kafka's position
				delete(v, k)
			case "kafka_cluster_id", "worker_id", "commit", "trace", "documentation", "display_name", "recommended_values":
				v[k] = "masked"
			default:
				mask(v[k])
			}
		}
	case []any:
		for _, e := range v {
			mask(e)
		}
	}
}

// diff is the lines of two JSON values that differ.
func diff(want, got any) string {
	lines := func(v any) []string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetIndent("", " ")
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return []string{err.Error()}
		}
		return strings.Split(b.String(), "\n")
	}
	a, b := lines(want), lines(got)
	var out []string
	for i := 0; i < max(len(a), len(b)) && len(out) < 24; i++ {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			out = append(out, fmt.Sprintf("line %d: want %s", i, x), fmt.Sprintf("line %d: got  %s", i, y))
		}
	}
	return strings.Join(out, "\n")
}

// settle waits until a connector and its tasks have the states: "src RUNNING RUNNING".
func (w *worker) settle(t *testing.T, want string) {
	t.Helper()
	words := strings.Fields(want)
	eventually(t, func(tb testing.TB) bool {
		res, err := http.Get(w.url + "/connectors/" + words[0] + "/status")
		if err != nil {
			tb.Errorf("status: %v", err)
			return false
		}
		defer res.Body.Close()
		var st struct {
			Connector struct{ State string }
			Tasks     []struct{ State string }
		}
		if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
			tb.Errorf("status: %v", err)
			return false
		}
		states := []string{words[0], st.Connector.State}
		for _, task := range st.Tasks {
			states = append(states, task.State)
		}
		if got := strings.Join(states, " "); got != want {
			tb.Errorf("states %s, want %s", got, want)
			return false
		}
		return true
	})
}

// A quiet testing.TB keeps errors to itself, for conditions that are asked again.
type quiet struct {
	testing.TB
	errs []string
}

func (q *quiet) Errorf(format string, a ...any) { q.errs = append(q.errs, fmt.Sprintf(format, a...)) }
func (q *quiet) Helper()                        {}

// eventually asks until the condition holds, and reports the last answer's errors
// when it does not within half a minute.
func eventually(t *testing.T, holds func(testing.TB) bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		q := &quiet{TB: t}
		if holds(q) {
			return
		}
		if time.Now().After(deadline) {
			t.Error(strings.Join(q.errs, "\n"))
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
