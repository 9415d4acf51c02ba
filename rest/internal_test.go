package rest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"millrace/runtime/loggers"
	"millrace/runtime/runtimetest"
)

// TestWorkersProveWhoTheyAre: requests between workers, signed as Connect's workers do
// with the key of the config topic, and not.
func TestWorkersProveWhoTheyAre(t *testing.T) {
	w := startWorker(t)
	w.write(t, "in.txt", "0\n")
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "src", "config": source(w, "in.txt", "t")})
	w.settle(t, "src RUNNING RUNNING")
	var key []byte
	eventually(t, func(tb testing.TB) bool {
		for _, r := range runtimetest.Records(t, w.log, "connect-configs") {
			var v struct {
				Key       string
				Algorithm string
			}
			if string(r.Key) != "session-key" {
				continue
			}
			if err := json.Unmarshal(r.Value, &v); err != nil || v.Algorithm != "HmacSHA256" {
				t.Fatalf("session key %s: %v", r.Value, err)
			}
			var err error
			if key, err = base64.StdEncoding.DecodeString(v.Key); err != nil {
				t.Fatal(err)
			}
			return true
		}
		tb.Errorf("there is no session key")
		return false
	})
	sign := func(body string) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(body))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	const tasks = `[{"task.class":"org.apache.kafka.connect.file.FileStreamSourceTask","file":"FILE","topic":"other"}]`
	body := strings.Replace(tasks, "FILE", w.dir+"/in.txt", 1)
	for _, c := range []struct {
		name, method, path, body, mac, algorithm string
		status                                   int
		words                                    string
	}{
		{"no signature", "POST", "/connectors/src/tasks", body, "", "", 400, "missing required signature"},
		{"no algorithm", "POST", "/connectors/src/tasks", body, sign(body), "", 400, "missing required signature"},
		{"another algorithm", "POST", "/connectors/src/tasks", body, sign(body), "HmacMD5", 400, "HmacMD5"},
		{"another body's signature", "POST", "/connectors/src/tasks", body, sign("x"), "HmacSHA256", 403, "invalid signature"},
		{"no base64", "POST", "/connectors/src/tasks", body, "!", "HmacSHA256", 403, "invalid signature"},
		{"another connector", "POST", "/connectors/nope/tasks", body, sign(body), "HmacSHA256", 404, "not found"},
		{"a plan of another configuration", "POST", "/connectors/src/tasks?version=0", body, sign(body), "HmacSHA256", 409, "another configuration"},
		{"a plan of no configuration", "POST", "/connectors/src/tasks?version=x", body, sign(body), "HmacSHA256", 400, "is no number"},
		{"all is right", "POST", "/connectors/src/tasks", body, sign(body), "HmacSHA256", 204, ""},
		{"fencing without a signature", "PUT", "/connectors/src/fence", "", "", "", 400, "missing required signature"},
		{"fencing where nothing is exactly once", "PUT", "/connectors/src/fence", "", sign(""), "HmacSHA256", 400, "exactly.once.source.support"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, w.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Connect-Authorization", c.mac)
		r.Header.Set("X-Connect-Request-Signature-Algorithm", c.algorithm)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Message string }
		if c.words != "" {
			if err := json.NewDecoder(res.Body).Decode(&e); err != nil {
				t.Fatal(err)
			}
		}
		res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(e.Message, c.words) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, res.StatusCode, e.Message, c.status, c.words)
		}
	}
	w.want(t, 200, `"topic":"other"`, "GET", "/connectors/src/tasks", nil)
}

// TestLevelsChangeWhatIsLogged: through the API, on this worker and through the config
// topic on all of them.
func TestLevelsChangeWhatIsLogged(t *testing.T) {
	logged := &lockedLog{}
	w := startWorkerWith(t, nil, slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: loggers.Trace})))
	w.write(t, "in.txt", "0\n")
	started := func(name string) bool {
		t.Helper()
		before := len(logged.String())
		w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": name, "config": source(w, "in.txt", name)})
		w.settle(t, name+" RUNNING RUNNING")
		w.awaitOffsets(t, name, `"position"`)
		return strings.Contains(logged.String()[before:], `msg="topic made"`)
	}
	if !started("first") {
		t.Fatal("the line that this test looks for is not logged at INFO")
	}
	w.want(t, 200, `["millrace.runtime.worker`, "PUT", "/admin/loggers/millrace.runtime.worker", map[string]string{"level": "ERROR"})
	if started("second") {
		t.Error("it is logged below the level that was set")
	}
	w.want(t, 204, "", "PUT", "/admin/loggers/millrace.runtime?scope=cluster", map[string]string{"level": "info"})
	w.want(t, 200, `{"level":"INFO","last_modified":1`, "GET", "/admin/loggers/millrace.runtime.worker", nil)
	if !started("third") {
		t.Error("it is not logged at the level that was set for all workers")
	}
	w.want(t, 200, `["connector:fourth"]`, "PUT", "/admin/loggers/connector:fourth", map[string]string{"level": "OFF"})
	if started("fourth") {
		t.Error("a connector that is silenced is heard")
	}
	w.want(t, 404, "invalid log level 'LOUD'.", "PUT", "/admin/loggers/root?scope=cluster", map[string]string{"level": "LOUD"})
	w.want(t, 200, `"root"`, "PUT", "/admin/loggers/root", map[string]string{"level": "DEBUG"})
	w.want(t, 201, "", "POST", "/connectors", map[string]any{"name": "reader", "config": sink(w, "out.txt", "first")})
	eventually(t, func(tb testing.TB) bool {
		if !strings.Contains(logged.String(), "logger=org.apache.kafka.clients") {
			tb.Errorf("the Kafka clients tell nothing at DEBUG")
			return false
		}
		return true
	})
}
