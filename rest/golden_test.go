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

	"millrace/deploy/peers"
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

// captured is how many exchanges there are.
const captured = 187

// notYet are the exchanges of parts that this server does not have.
var notYet = map[string]string{}

// withPostgres are the exchanges that need a server; TestGoldenPostgres replays them.
var withPostgres = []string{"029", "154", "155", "156", "157", "158", "159", "160", "161", "163"}

// A difference is an exchange that is answered otherwise on purpose;
// deploy/docs/differences.md has the reason. Either the status is given, and words that
// the error's message holds; or change makes what is wanted of the captured body, and
// all else must be equal.
type difference struct {
	status int
	words  string
	change func(x exchange, body any) any
	ours   func(body any) any // the same of ours, where a text is; nil: nothing
}

var differences = map[string]difference{
	// What is malformed or cannot be answered gets a 4xx that says why.
	"023": {status: 400, words: "contains no connector type"}, "024": {status: 400, words: "Failed to find any class"},
	"034": {status: 400, words: "JSON"}, "035": {status: 400, words: "no configuration was sent"}, "038": {status: 400, words: "no configuration was sent"},
	"041": {status: 400, words: "no configuration was sent"}, "042": {status: 400, words: "no body"}, "043": {status: 400, words: "JSON"}, "044": {status: 400, words: "JSON"},
	"045": {status: 400, words: `"bogus"`}, "047": {status: 400, words: "want a text"}, "057": {status: 400, words: "NOPE"}, "093": {status: 400, words: "JSON"},
	"130": {status: 400, words: "Partition objects should contain the key 'filename'"}, "131": {status: 400, words: "'position'"}, "134": {status: 400, words: "JSON"},
	"160": {status: 400, words: "server"}, "162": {status: 400, words: "127.0.0.1:1"},
	"077": {status: 404, words: "Connector a/b not found"}, // a name with a slash is a name
	"050": {status: 400, words: "Failed to find any class that implements Connector and which name matches NoSuch, available connectors are: "},

	"006": {change: shipped(3)}, "007": {change: shipped(50)}, // plugin lists: only what ships
	"021": {change: withoutNullPointer},
	"149": {change: func(exchange, any) any { return map[string]any{"src": map[string]any{"topics": []any{}}} }}, // what was forgotten is gone at once
	"164": {change: func(_ exchange, body any) any { return loggerShapes(body) }, ours: loggerShapes},

	// Debezium's validate shows no value of its own settings; ours shows what was given.
	"029": {change: debeziumValues}, "030": {change: debeziumValues}, "033": {change: debeziumValues},
	"032": {change: func(x exchange, body any) any { return ourWords(debeziumValues(x, body)) }, ours: ourWords},
	"031": {change: func(x exchange, body any) any { return refusedConnection(debeziumValues(x, body)) }, ours: refusedConnection},
}

// settles are the states that the capture waited for before an exchange.
var settles = map[string][]string{
	"060": {"src RUNNING RUNNING", "sink RUNNING RUNNING RUNNING"},
	"101": {"src RUNNING RUNNING"}, "102": {"src RUNNING RUNNING"}, "103": {"src RUNNING RUNNING"},
	"110": {"src RUNNING RUNNING"}, "111": {"src PAUSED PAUSED"}, "118": {"src RUNNING RUNNING"},
	"124": {"src STOPPED", "sink STOPPED"}, "146": {"src RUNNING RUNNING", "sink RUNNING RUNNING RUNNING"},
	"152": {"failing RUNNING FAILED"}, "155": {"pg RUNNING RUNNING", "pg has offsets"}, "158": {"pg STOPPED"},
}

// A replay counts what was done with the exchanges.
type replay struct {
	*worker
	replace                      []string // of the captured run and of this one: old, new, …
	compared, different, skipped int
	masked                       map[string]int // by field
}

func (p *replay) print(t *testing.T) {
	t.Logf("golden exchanges: %d compared, %d of them different on purpose, %d skipped; fields masked: %v", p.compared, p.different, p.skipped, p.masked)
}

// TestGolden replays what was said to a real Connect worker and compares answers:
// status, Allow, Location and Content-Type headers, and whole bodies. Masked is what
// differs from run to run and what is ours on purpose, by field, and nothing else.
func TestGolden(t *testing.T) {
	w := startWorker(t)
	if err := os.WriteFile(filepath.Join(w.dir, "in.txt"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &replay{worker: w, replace: []string{"/tmp/connect-rest-golden", w.dir}, masked: map[string]int{}}
	all := exchanges(t)
	for _, x := range all {
		number := x.name[:3]
		if notYet[number] != "" || slices.Contains(withPostgres, number) {
			p.skipped++
			continue
		}
		if number == "187" { // as the capture did at its end
			w.deleteAll(t)
		}
		p.run(t, x)
	}
	p.print(t)
	if want := captured - len(notYet) - len(withPostgres); p.compared != want || len(all) != captured {
		t.Errorf("%d exchanges of %d compared, want %d of %d", p.compared, len(all), want, captured)
	}
}

// TestGoldenPostgres replays the exchanges about a Postgres connector that runs.
func TestGoldenPostgres(t *testing.T) {
	server := peers.Postgres(t)
	db := server.NewDatabase(t)
	conn := server.Connect(t, db)
	for _, sql := range []string{"CREATE SCHEMA inv", "CREATE TABLE inv.multikey (a int, b varchar(10), v text, PRIMARY KEY (b, a))", "INSERT INTO inv.multikey VALUES (1, 'k', 'v')"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// A slot is the server's, not the database's.
	p := &replay{worker: startWorker(t), masked: map[string]int{}, replace: []string{
		`"15432"`, fmt.Sprintf("%q", fmt.Sprint(server.Port)), `"golden"`, fmt.Sprintf("%q", db), `"slot.name": "restpg"`, fmt.Sprintf(`"slot.name": %q`, db), `"slot.name":"restpg"`, fmt.Sprintf(`"slot.name":%q`, db),
		`"name":"slot.name","value":"restpg"`, fmt.Sprintf(`"name":"slot.name","value":%q`, db)}}
	for _, x := range exchanges(t) {
		if slices.Contains(withPostgres, x.name[:3]) {
			p.run(t, x)
		}
	}
	p.print(t)
	if p.compared != len(withPostgres) {
		t.Errorf("%d exchanges compared, want %d", p.compared, len(withPostgres))
	}
}

// run replays one exchange. What workers settle in the background is asked for again.
func (p *replay) run(t *testing.T, x exchange) {
	number := x.name[:3]
	for _, want := range settles[number] {
		p.settle(t, want)
	}
	t.Run(x.name, func(t *testing.T) {
		p.compared++
		if _, other := differences[number]; other {
			p.different++
		}
		if x.Request.Method == http.MethodGet && strings.HasPrefix(x.Request.Path, "/connectors") {
			eventually(t, func(tb testing.TB) bool { return p.compare(tb, x, p.do(t, x)) })
			return
		}
		p.compare(t, x, p.do(t, x))
	})
}

// shipped keeps of a captured list of plugins those that we ship, which must be at
// least so many. Ours that are not in the capture are no plugins of that worker.
func shipped(least int) func(exchange, any) any {
	return func(_ exchange, body any) any {
		var out []any
		for _, e := range body.([]any) {
			if ourPlugins()[e.(map[string]any)["class"].(string)] {
				out = append(out, e)
			}
		}
		if len(out) < least {
			return fmt.Sprintf("only %d of the captured plugins are shipped, want %d", len(out), least)
		}
		return out
	}
}

// withoutNullPointer takes out the text of a NullPointerException behind an error that
// says the same.
func withoutNullPointer(_ exchange, body any) any {
	b := body.(map[string]any)
	for _, c := range b["configs"].([]any) {
		v := c.(map[string]any)["value"].(map[string]any)
		errs := v["errors"].([]any)
		kept := slices.DeleteFunc(slices.Clone(errs), func(e any) bool { return strings.Contains(e.(string), "Cannot invoke") })
		b["error_count"] = b["error_count"].(float64) - float64(len(errs)-len(kept))
		v["errors"] = kept
	}
	return b
}

// debeziumValues fills in what Debezium's validate leaves out: the values of its own
// settings, as they were given or by default, and one setting without any answer.
func debeziumValues(x exchange, body any) any {
	var given map[string]string
	if json.Unmarshal([]byte(*x.Request.Body), &given) != nil {
		return "the request's body is no configuration"
	}
	for _, c := range body.(map[string]any)["configs"].([]any) {
		setting := c.(map[string]any)
		d := setting["definition"].(map[string]any)
		if !slices.Contains([]any{"Postgres", "MySQL", "Connector", "History Storage", "Events"}, d["group"]) {
			continue
		}
		v, ok := setting["value"].(map[string]any)
		if !ok {
			v = map[string]any{"name": d["name"], "recommended_values": []any{}, "errors": []any{}, "visible": true}
			setting["value"] = v
		}
		v["value"] = d["default_value"]
		if text, ok := given[d["name"].(string)]; ok {
			v["value"] = text
		}
		if d["type"] == "PASSWORD" && v["value"] != nil {
			v["value"] = "[hidden]"
		}
	}
	return body
}

// errorsOf passes the errors of a validation through f.
func errorsOf(body any, f func(key, text string) string) any {
	for _, c := range body.(map[string]any)["configs"].([]any) {
		if v, ok := c.(map[string]any)["value"].(map[string]any); ok {
			for i, e := range v["errors"].([]any) {
				v["errors"].([]any)[i] = f(v["name"].(string), e.(string))
			}
		}
	}
	return body
}

// refusedConnection stands for how a driver says that nobody listens.
func refusedConnection(body any) any {
	return errorsOf(body, func(_, text string) string {
		if strings.HasPrefix(text, "Error while validating connector config: ") && strings.Contains(text, "127.0.0.1:1") && strings.Contains(text, "refused") {
			return "connection refused"
		}
		return text
	})
}

// ourWords stands for errors that say in other words, and with what we take, that a
// value is wrong.
func ourWords(body any) any {
	return errorsOf(body, func(key, text string) string {
		if slices.Contains([]string{"decimal.handling.mode", "snapshot.mode", "heartbeat.interval.ms", "table.exclude.list"}, key) {
			return key + " is wrong"
		}
		return text
	})
}

// loggerShapes stands for the loggers: theirs are Java's classes, ours are in the table
// of the package that has them. What a client finds in each is the same.
func loggerShapes(body any) any {
	out := map[string]any{}
	for name, level := range body.(map[string]any) {
		if name == "root" || name == "org.apache.kafka.connect.runtime.WorkerSourceTask" {
			out[name] = level
		}
	}
	return out
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

// do sends an exchange's request to our worker, with the paths and ports of this run.
func (p *replay) do(t *testing.T, x exchange) exchange {
	t.Helper()
	w := p.worker
	var body io.Reader
	if x.Request.Body != nil {
		body = strings.NewReader(strings.NewReplacer(p.replace...).Replace(*x.Request.Body))
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
		if got := (&replay{worker: w}).do(t, x); got.Response.Status != http.StatusNoContent {
			t.Errorf("delete %s: %d %s", name, got.Response.Status, got.Response.Body)
		}
	}
}

func (p *replay) compare(t testing.TB, want, got exchange) bool {
	t.Helper()
	ok := true
	fail := func(format string, a ...any) { t.Errorf(want.name+": "+format, a...); ok = false }
	d, other := differences[want.name[:3]]
	if other && d.status != 0 {
		var e struct {
			Code    int    `json:"error_code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal([]byte(got.Response.Body), &e); err != nil || got.Response.Status != d.status || e.Code != d.status || !strings.Contains(e.Message, d.words) {
			fail("%d %s, want %d with %q", got.Response.Status, got.Response.Body, d.status, d.words)
		}
		return ok
	}
	if got.Response.Status != want.Response.Status {
		fail("status %d, want %d; body %s", got.Response.Status, want.Response.Status, got.Response.Body)
		return false
	}
	if l, has := want.Response.Headers["Location"]; has {
		if l = strings.Replace(l, "http://127.0.0.1:18083", p.url, 1); got.Response.Headers["Location"] != l {
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
	g, gerr := parsed(got.Response.Body, want.Request.Path)
	x, xerr := parsed(strings.NewReplacer(p.replace...).Replace(want.Response.Body), want.Request.Path)
	if gerr != nil || xerr != nil {
		fail("bodies are %v and %v", gerr, xerr)
		return false
	}
	if d.change != nil {
		if want.Request.Body != nil {
			sent := strings.NewReplacer(p.replace...).Replace(*want.Request.Body)
			want.Request.Body = &sent
		}
		x = d.change(want, x)
	}
	if d.ours != nil {
		g = d.ours(g)
	}
	x, g = masks{p.masked}.both(x, g)
	if !reflect.DeepEqual(g, x) {
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

// parsed is a body as JSON; a list of connectors' names is a set, in no order.
func parsed(body, path string) (any, error) {
	if body == "" {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return nil, err
	}
	if list, ok := v.([]any); ok && strings.HasPrefix(path, "/connectors") && len(list) > 0 {
		if _, names := list[0].(string); names {
			sort.Slice(list, func(i, j int) bool { return list[i].(string) < list[j].(string) })
		}
	}
	return v, nil
}

// masks takes out what differs from run to run, and what is ours on purpose, and counts
// by field how often.
type masks struct{ count map[string]int }

// runToRun are fields with what the capture's README says differs from run to run, and
// texts for people that are ours. A mask hides a value and not its kind: a text stays
// one, a null stays null.
var runToRun = []string{"kafka_cluster_id", "last_modified", "lsn", "lsn_proc", "lsn_commit", "txId", "ts_usec", "commit", "trace", "documentation", "display_name"}

// besideKafkas are fields that the file source stores beside Kafka's.
var besideKafkas = []string{"inode", "fingerprint"}

// both masks a captured value and ours.
func (m masks) both(want, got any) (any, any) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return want, got
		}
		for _, k := range besideKafkas {
			if _, theirs := w[k]; !theirs && g["position"] != nil && g[k] != nil {
				delete(g, k)
				m.count[k]++
			}
		}
		for k := range w {
			switch {
			case slices.Contains(runToRun, k):
				w[k], g[k] = m.hide(k, w[k]), m.hide("", g[k])
			case k == "recommended_values":
				w[k], g[k] = m.installed(w[k], g[k])
			default:
				if _, has := g[k]; has {
					w[k], g[k] = m.both(w[k], g[k])
				}
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return want, got
		}
		for i := range w {
			w[i], g[i] = m.both(w[i], g[i])
		}
	}
	return want, got
}

func (m masks) hide(field string, v any) any {
	if v == nil {
		return nil
	}
	if field != "" {
		m.count[field]++
	}
	return fmt.Sprintf("masked %T", v)
}

// installed keeps of two lists of classes what both have, in the order of each: there
// they say what is installed. Other lists stay as they are.
func (m masks) installed(want, got any) (any, any) {
	w, g := want.([]any), got.([]any)
	classes := func(l []any) bool {
		return slices.ContainsFunc(l, func(e any) bool { s, ok := e.(string); return ok && strings.Contains(s, ".connect.") })
	}
	if !classes(w) || !classes(g) {
		// What a setting takes here may be less than there, in an order of its own.
		if len(g) > 0 && !slices.ContainsFunc(g, func(e any) bool { return !slices.Contains(w, e) }) {
			m.count["recommended_values"]++
			return "some", "some"
		}
		return want, got
	}
	m.count["recommended_values"]++
	in := func(l []any) func(any) bool { return func(e any) bool { return !slices.Contains(l, e) } }
	return slices.DeleteFunc(slices.Clone(w), in(g)), slices.DeleteFunc(slices.Clone(g), in(w))
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
	if strings.HasSuffix(want, " has offsets") { // the capture slept until it had
		eventually(t, func(tb testing.TB) bool {
			var x exchange
			x.Request.Method, x.Request.Path = http.MethodGet, "/connectors/"+words[0]+"/offsets"
			got := (&replay{worker: w}).do(t, x)
			if !strings.Contains(got.Response.Body, `"partition"`) || !strings.Contains(got.Response.Body, `"snapshot_completed":true`) {
				tb.Errorf("offsets: %s", got.Response.Body)
				return false
			}
			return true
		})
		return
	}
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
