package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// send sends a request to the worker and returns status, headers and body. A body that
// is no text is sent as JSON.
func (w *worker) send(t testing.TB, method, path string, body any) (int, http.Header, string) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, ok := body.(string)
		if !ok {
			b, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		reader = strings.NewReader(text)
	}
	if strings.HasPrefix(path, "/") {
		path = w.url + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, path, reader)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
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
	return res.StatusCode, res.Header, string(data)
}

// want is send where one answer alone is right.
func (w *worker) want(t testing.TB, status int, words, method, path string, body any) string {
	t.Helper()
	got, _, text := w.send(t, method, path, body)
	if got != status || !strings.Contains(text, words) {
		t.Errorf("%s %s %v: %d %s, want %d with %q", method, path, body, got, text, status, words)
	}
	return text
}

func source(w *worker, file, topic string) map[string]string {
	return map[string]string{"connector.class": "FileStreamSource", "tasks.max": "1", "file": filepath.Join(w.dir, file), "topic": topic,
		"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
}

func sink(w *worker, file, topics string) map[string]string {
	return map[string]string{"connector.class": "FileStreamSink", "tasks.max": "1", "file": filepath.Join(w.dir, file), "topics": topics,
		"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
}

// TestEveryNameLeadsBackThroughItsLocation: create, read, change and delete connectors
// of names that paths have to encode.
func TestEveryNameLeadsBackThroughItsLocation(t *testing.T) {
	w := startWorker(t)
	for _, c := range []struct{ name, path string }{
		{"a/b c", "/connectors/a%2Fb%20c"}, {"100%", "/connectors/100%25"}, {"ü", "/connectors/%C3%BC"}, {"..", "/connectors/%2E%2E"},
		{"x?y#z", "/connectors/x%3Fy%23z"}, {"a%2Fb", "/connectors/a%252Fb"}, {"日本語 🚀", ""}, {"a//b", "/connectors/a%2F%2Fb"}, {";=&+,:@", ""}, {`"<\>`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := source(w, "names.txt", "names")
			status, header, text := w.send(t, "POST", "/connectors", map[string]any{"name": c.name, "config": conf})
			if status != http.StatusCreated {
				t.Fatalf("%d %s", status, text)
			}
			at := strings.TrimPrefix(header.Get("Location"), w.url)
			if c.path != "" && at != c.path {
				t.Errorf("Location %s, want %s", at, c.path)
			}
			var info struct{ Name string }
			if err := json.Unmarshal([]byte(w.want(t, 200, "", "GET", at, nil)), &info); err != nil || info.Name != c.name {
				t.Errorf("GET gives the connector %q, want %q", info.Name, c.name)
			}
			conf["batch.size"] = "7"
			w.want(t, 200, `"batch.size":"7"`, "PUT", at+"/config", conf)
			w.want(t, 200, `"batch.size":"8"`, "PATCH", at+"/config", map[string]any{"batch.size": 8})
			w.want(t, 204, "", "DELETE", at, nil)
			w.want(t, 404, "not found", "GET", at, nil)
			w.want(t, 404, "not found", "DELETE", at, nil)
		})
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	w := startWorker(t)
	conf := source(w, "names.txt", "names")
	create := func(name any, conf map[string]string) (int, string) {
		status, _, text := w.send(t, "POST", "/connectors", map[string]any{"name": name, "config": conf})
		return status, text
	}
	other := maps.Clone(conf)
	other["name"] = "b"
	for _, c := range []struct {
		name   string
		of     any
		conf   map[string]string
		status int
		words  string
	}{
		{"empty", "", conf, 400, "String may not be empty"}, {"blank", " \t ", conf, 400, "String may not be empty"},
		{"missing", nil, conf, 400, "String may not be empty"}, {"a control character", "a\x00b", conf, 400, "control sequences"},
		{"a new line", "a\nb", conf, 400, "control sequences"}, {"another within", "a", other, 400, "doesn't match"},
		{"a number", 5, conf, 400, "JSON"}, {"too long", strings.Repeat("n", 1025), conf, 400, "at most 1024 bytes"},
	} {
		if status, text := create(c.of, c.conf); status != c.status || !strings.Contains(text, c.words) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, status, text, c.status, c.words)
		}
	}
	w.want(t, 400, "name", "PUT", "/connectors/%20/config", conf)
	w.want(t, 400, "white space", "PUT", "/connectors/%20lead/config", conf)
	w.want(t, 400, "UTF-8", "PUT", "/connectors/%FF/config", conf)
	if status, text := create("  lead ", conf); status != 201 || !strings.Contains(text, `"name":"lead"`) {
		t.Errorf("white space around a name: %d %s, want it trimmed", status, text)
	}
	w.want(t, 200, `["lead"]`, "GET", "/connectors", nil)
	w.want(t, 400, "name", "PATCH", "/connectors/lead/config", map[string]any{"name": "other"})
	w.want(t, 400, "name", "PATCH", "/connectors/lead/config", map[string]any{"name": nil})
}

// TestNoDecodingProxyLeadsToAnotherConnector: of two names, one of which a path leads
// to that was decoded once too often, the second is refused, whichever it is.
func TestNoDecodingProxyLeadsToAnotherConnector(t *testing.T) {
	w := startWorker(t)
	conf := source(w, "names.txt", "names")
	for _, pair := range [][2]string{
		{"a/b", "a%2Fb"}, {"x", "x?y#z"}, {"y", "a/../y"}, {"z", "z/status"}, {"q", "q/offsets"}, {"ü", "%C3%BC"}, {"v", "v#"},
	} {
		for _, order := range [][2]string{pair, {pair[1], pair[0]}} {
			first, second := map[string]any{"name": order[0], "config": conf}, map[string]any{"name": order[1], "config": conf}
			_, header, _ := w.send(t, "POST", "/connectors", first)
			w.want(t, 400, "mix up", "POST", "/connectors", second)
			w.want(t, 204, "", "DELETE", header.Get("Location"), nil)
		}
	}
	for _, name := range []string{"a", "a/b", "b", "a.b", "100%", "a b"} { // these are not mixed up
		w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": name, "config": conf})
	}
}

// lines are what a file holds.
func (w *worker) lines(t testing.TB, file string) []string {
	data, err := os.ReadFile(filepath.Join(w.dir, file))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func (w *worker) write(t testing.TB, file, text string) {
	if err := os.WriteFile(filepath.Join(w.dir, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// awaitLines waits until a file holds these lines.
func (w *worker) awaitLines(t *testing.T, file string, want ...string) {
	t.Helper()
	eventually(t, func(tb testing.TB) bool {
		if got := w.lines(t, file); strings.Join(got, " ") != strings.Join(want, " ") {
			tb.Errorf("%s holds %q, want %q", file, got, want)
			return false
		}
		return true
	})
}

func (w *worker) awaitOffsets(t *testing.T, name, words string) {
	t.Helper()
	eventually(t, func(tb testing.TB) bool {
		_, _, text := w.send(t, "GET", "/connectors/"+name+"/offsets", nil)
		if !strings.Contains(text, words) {
			tb.Errorf("offsets of %s: %s, want %s", name, text, words)
			return false
		}
		return true
	})
}

// TestOffsetsAreAlteredAndReset: what may be sent, when, and what is read next.
func TestOffsetsAreAlteredAndReset(t *testing.T) {
	w := startWorker(t)
	w.write(t, "in.txt", "0\n1\n2\n3\n4\n5\n6\n7\n")
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "src", "config": source(w, "in.txt", "t")})
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "snk", "config": sink(w, "out.txt", "t")})
	w.awaitLines(t, "out.txt", "0", "1", "2", "3", "4", "5", "6", "7")
	w.awaitOffsets(t, "src", `"position":16`)
	w.awaitOffsets(t, "snk", `"kafka_offset":8`)
	file := map[string]any{"filename": filepath.Join(w.dir, "in.txt")}
	srcAt := func(position any) any {
		return map[string]any{"offsets": []any{map[string]any{"partition": file, "offset": map[string]any{"position": position}}}}
	}
	snkAt := func(partition, offset any) any {
		return map[string]any{"offsets": []any{map[string]any{"partition": map[string]any{"kafka_topic": "t", "kafka_partition": partition}, "offset": map[string]any{"kafka_offset": offset}}}}
	}
	const stopFirst = "must be in the STOPPED state"
	for _, state := range []string{"RUNNING", "PAUSED"} {
		if state == "PAUSED" {
			w.want(t, 202, "", "PUT", "/connectors/src/pause", nil)
			w.want(t, 202, "", "PUT", "/connectors/snk/pause", nil)
		}
		w.settle(t, "src "+state+" "+state)
		w.settle(t, "snk "+state+" "+state)
		w.want(t, 400, stopFirst, "PATCH", "/connectors/src/offsets", srcAt(4))
		w.want(t, 400, stopFirst, "DELETE", "/connectors/src/offsets", nil)
		w.want(t, 400, stopFirst, "PATCH", "/connectors/snk/offsets", snkAt(0, 5))
		w.want(t, 400, stopFirst, "DELETE", "/connectors/snk/offsets", nil)
		w.awaitOffsets(t, "src", `"position":16`)
		w.awaitOffsets(t, "snk", `"kafka_offset":8`)
	}
	// Right after the stop: the tasks that still stop are waited for.
	w.want(t, 204, "", "PUT", "/connectors/src/stop", nil)
	w.want(t, 200, "successfully", "PATCH", "/connectors/src/offsets", srcAt(16))
	w.want(t, 204, "", "PUT", "/connectors/snk/stop", nil)
	w.want(t, 200, "successfully", "PATCH", "/connectors/snk/offsets", snkAt(0, 8))

	one := func(partition, offset string) string {
		return fmt.Sprintf(`{"offsets":[{"partition":%s,"offset":%s}]}`, partition, offset)
	}
	f, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, connector, body, words string }{
		{"nothing", "src", `{}`, "need to be provided"}, {"no offsets", "src", `{"offsets":[]}`, "need to be provided"}, {"null", "src", `{"offsets":null}`, "need to be provided"},
		{"an unknown partition key", "src", one(`{"nope":"x"}`, `{"position":4}`), "'filename'"}, {"one key too many", "src", one(`{"filename":"x","nope":1}`, `{"position":4}`), "'filename' and no other"},
		{"an offset as a text", "src", one(string(f), `{"position":"4"}`), "'position'"}, {"a fraction", "src", one(string(f), `{"position":4.5}`), "'position'"},
		{"a negative offset", "src", one(string(f), `{"position":-1}`), "'position'"}, {"a huge offset", "src", one(string(f), `{"position":99999999999999999999}`), "'position'"},
		{"another offset key", "src", one(string(f), `{"pos":4}`), "'position'"}, {"an offset that is no object", "src", one(string(f), `4`), "objects"},
		{"no partition", "src", `{"offsets":[{"offset":{"position":4}}]}`, "partition"}, {"no offset", "src", fmt.Sprintf(`{"offsets":[{"partition":%s}]}`, f), "offset"},
		{"one partition twice", "src", fmt.Sprintf(`{"offsets":[{"partition":%s,"offset":{"position":4}},{"partition":%s,"offset":{"position":6}}]}`, f, f), "given already"},
		{"an unknown field", "src", `{"offsets":[],"x":1}`, "unknown field"}, {"no JSON", "src", `{nope`, "JSON"}, {"a list", "src", `[]`, "JSON"},
		{"sink: another topic key", "snk", one(`{"topic":"t","kafka_partition":0}`, `{"kafka_offset":1}`), "'kafka_topic' and 'kafka_partition'"},
		{"sink: a topic that is not read", "snk", one(`{"kafka_topic":"other","kafka_partition":0}`, `{"kafka_offset":1}`), "does not read topic other"},
		{"sink: a partition that is not there", "snk", one(`{"kafka_topic":"t","kafka_partition":7}`, `{"kafka_offset":1}`), "none with the number 7"},
		{"sink: a partition that is no number", "snk", one(`{"kafka_topic":"t","kafka_partition":"x"}`, `{"kafka_offset":1}`), "'kafka_partition'"},
		{"sink: a topic that is no text", "snk", one(`{"kafka_topic":5,"kafka_partition":0}`, `{"kafka_offset":1}`), "'kafka_topic'"},
		{"sink: an offset as a word", "snk", one(`{"kafka_topic":"t","kafka_partition":0}`, `{"kafka_offset":"x"}`), "'kafka_offset'"},
		{"sink: a negative offset", "snk", one(`{"kafka_topic":"t","kafka_partition":0}`, `{"kafka_offset":-1}`), "'kafka_offset'"},
		{"sink: another offset key", "snk", one(`{"kafka_topic":"t","kafka_partition":0}`, `{"offset":1}`), "'kafka_offset'"},
		{"sink: one partition twice", "snk", `{"offsets":[{"partition":{"kafka_topic":"t","kafka_partition":0},"offset":{"kafka_offset":1}},{"partition":{"kafka_topic":"t","kafka_partition":"0"},"offset":{"kafka_offset":2}}]}`, "t-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.want(t, 400, c.words, "PATCH", "/connectors/"+c.connector+"/offsets", c.body)
			w.awaitOffsets(t, "src", `"position":16`) // nothing changed
			w.awaitOffsets(t, "snk", `"kafka_offset":8`)
		})
	}
	w.want(t, 404, "Connector nope not found", "PATCH", "/connectors/nope/offsets", srcAt(4))
	w.want(t, 404, "Connector nope not found", "DELETE", "/connectors/nope/offsets", nil)

	// What is set is what GET shows, and where the connector goes on.
	w.want(t, 200, "successfully", "PATCH", "/connectors/snk/offsets", snkAt("0", 5))
	w.want(t, 200, `{"offsets":[{"partition":{"kafka_partition":0,"kafka_topic":"t"},"offset":{"kafka_offset":5}}]}`, "GET", "/connectors/snk/offsets", nil)
	w.write(t, "out.txt", "")
	w.want(t, 202, "", "PUT", "/connectors/snk/resume", nil)
	w.awaitLines(t, "out.txt", "5", "6", "7")
	w.want(t, 200, "successfully", "PATCH", "/connectors/src/offsets", srcAt(12))
	text := w.want(t, 200, `"position":12`, "GET", "/connectors/src/offsets", nil)
	if strings.Contains(text, "fingerprint") || strings.Count(text, "partition") != 1 {
		t.Errorf("offsets %s, want what was set and no more", text)
	}
	w.want(t, 202, "", "PUT", "/connectors/src/resume", nil)
	w.awaitLines(t, "out.txt", "5", "6", "7", "6", "7")

	// null removes one partition's offset; DELETE removes all. Then both begin anew.
	w.want(t, 204, "", "PUT", "/connectors/src/stop", nil)
	w.want(t, 200, "successfully", "PATCH", "/connectors/src/offsets", fmt.Sprintf(`{"offsets":[{"partition":%s,"offset":null}]}`, f))
	w.want(t, 200, `{"offsets":[]}`, "GET", "/connectors/src/offsets", nil)
	w.want(t, 204, "", "PUT", "/connectors/snk/stop", nil)
	w.want(t, 200, "successfully", "DELETE", "/connectors/snk/offsets", nil)
	w.want(t, 200, `{"offsets":[]}`, "GET", "/connectors/snk/offsets", nil)
	w.want(t, 200, "successfully", "DELETE", "/connectors/snk/offsets", nil) // once more, with nothing to delete
	w.write(t, "out.txt", "")
	w.want(t, 202, "", "PUT", "/connectors/src/resume", nil)
	w.want(t, 202, "", "PUT", "/connectors/snk/resume", nil)
	w.awaitLines(t, "out.txt", strings.Fields("0 1 2 3 4 5 6 7 6 7 0 1 2 3 4 5 6 7")...)
}

// TestAConnectorsOwnOffsetTopicIsAlteredToo: both topics that hold the offsets agree.
func TestAConnectorsOwnOffsetTopicIsAlteredToo(t *testing.T) {
	w := startWorker(t)
	w.write(t, "in.txt", "0\n1\n2\n")
	conf := source(w, "in.txt", "own")
	conf["offsets.storage.topic"] = "own-offsets"
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "own", "config": conf})
	w.awaitOffsets(t, "own", `"position":6`)
	w.want(t, 204, "", "PUT", "/connectors/own/stop", nil)
	w.want(t, 200, "successfully", "DELETE", "/connectors/own/offsets", nil)
	w.want(t, 200, `{"offsets":[]}`, "GET", "/connectors/own/offsets", nil)
	w.want(t, 200, "successfully", "PATCH", "/connectors/own/offsets", map[string]any{"offsets": []any{map[string]any{
		"partition": map[string]any{"filename": conf["file"]}, "offset": map[string]any{"position": 2}}}})
	w.want(t, 200, `"position":2`, "GET", "/connectors/own/offsets", nil)
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "copy", "config": sink(w, "out.txt", "own")})
	w.awaitLines(t, "out.txt", "0", "1", "2")
	w.want(t, 202, "", "PUT", "/connectors/own/resume", nil)
	w.awaitLines(t, "out.txt", "0", "1", "2", "1", "2")
}

// TestTopicsAreTrackedAndForgotten: what was forgotten is told anew when it is used
// again, and not before.
func TestTopicsAreTrackedAndForgotten(t *testing.T) {
	w := startWorker(t)
	w.write(t, "in.txt", "0\n")
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "src", "config": source(w, "in.txt", "t")})
	topics := func(want string) {
		t.Helper()
		eventually(t, func(tb testing.TB) bool {
			_, _, text := w.send(t, "GET", "/connectors/src/topics", nil)
			if text != `{"src":{"topics":[`+want+`]}}` {
				tb.Errorf("topics %s, want %s", text, want)
				return false
			}
			return true
		})
	}
	topics(`"t"`)
	w.want(t, 202, "", "PUT", "/connectors/src/topics/reset", nil)
	w.want(t, 200, `{"src":{"topics":[]}}`, "GET", "/connectors/src/topics", nil)
	f, err := os.OpenFile(filepath.Join(w.dir, "in.txt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("1\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	topics(`"t"`)
}

func TestTrackingThatIsOffIsForbidden(t *testing.T) {
	for _, c := range []struct{ key, get, reset string }{
		{"topic.tracking.enable", "Topic tracking is disabled.", "Topic tracking is disabled."},
		{"topic.tracking.allow.reset", "", "Topic tracking reset is disabled."},
	} {
		w := startWorkerWith(t, map[string]string{c.key: "false"}, quietLog())
		if c.get != "" {
			w.want(t, 403, c.get, "GET", "/connectors/src/topics", nil)
		} else {
			w.want(t, 200, `{"src":{"topics":[]}}`, "GET", "/connectors/src/topics", nil)
		}
		w.want(t, 403, c.reset, "PUT", "/connectors/src/topics/reset", nil)
	}
}

// TestVersionsOfPlugins: a version or range that the binary's fits gives the settings.
func TestVersionsOfPlugins(t *testing.T) {
	w := startWorker(t)
	for _, c := range []struct {
		version string
		status  int
		words   string
	}{
		{"4.3.1", 200, `"name":"file"`}, {"latest", 200, `"name":"file"`}, {"[4.0,5.0)", 200, `"name":"file"`}, {"(,4.3.1)", 400, "version range (,4.3.1), available versions: [4.3.1]"},
		{"9.9.9", 400, "version range [9.9.9,9.9.9], available versions: [4.3.1]"}, {"[", 400, "no range of versions"},
	} {
		w.want(t, c.status, c.words, "GET", "/connector-plugins/FileStreamSource/config?version="+url.QueryEscape(c.version), nil)
	}
	conf := source(w, "in.txt", "t")
	conf["name"] = "v"
	for version, errors := range map[string]string{"[4.0,5.0)": `"error_count":0`, "9": "the binary has version 4.3.1 alone", "[": "no range of versions"} {
		conf["connector.plugin.version"] = version
		w.want(t, 200, errors, "PUT", "/connector-plugins/FileStreamSource/config/validate", conf)
	}
}

// TestPatchesOfManyClientsAreAllKept: none is lost between reading and writing.
func TestPatchesOfManyClientsAreAllKept(t *testing.T) {
	w := startWorker(t)
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "p", "config": source(w, "in.txt", "t"), "initial_state": "STOPPED"})
	const clients, each = 8, 5
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				w.want(t, 200, "", "PATCH", "/connectors/p/config", map[string]any{fmt.Sprintf("x.%d.%d", c, i): "1"})
			}
		})
	}
	all.Wait()
	var conf map[string]string
	if err := json.Unmarshal([]byte(w.want(t, 200, "", "GET", "/connectors/p/config", nil)), &conf); err != nil {
		t.Fatal(err)
	}
	for c := range clients {
		for i := range each {
			if k := fmt.Sprintf("x.%d.%d", c, i); conf[k] != "1" {
				t.Errorf("%s is lost", k)
			}
		}
	}
}
