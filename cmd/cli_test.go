package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A shell runs the command line as a script would: not on a terminal.
type shell struct {
	t   testing.TB
	dir string
	env []string
}

// run runs it once and returns what it wrote and its exit status.
func (s *shell) run(stdin string, args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.CommandContext(s.t.Context(), path, args...)
	var out, errs bytes.Buffer
	c.Dir, c.Stdin, c.Stdout, c.Stderr = s.dir, strings.NewReader(stdin), &out, &errs
	c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"), "MILLRACE_URL=", "MILLRACE_KAFKA=", "MILLRACE_PASSWORD=", "MILLRACE_CONTEXT=", "MILLRACE_USER=")
	c.Env = append(c.Env, s.env...)
	err = c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("millrace %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func (s *shell) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// A step is one command with what it shall say. " … " in a wanted text stands for
// anything.
type step struct {
	args   string
	stdin  string
	status int
	out    string // the whole of standard output
	has    string // a part of it
	err    string // a part of standard error
}

// like compares with a pattern in which … stands for anything.
func like(got, want string) bool {
	for i, part := range strings.Split(want, "…") {
		at := strings.Index(got, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		got = got[at+len(part):]
	}
	return got == "" || strings.HasSuffix(want, "…")
}

func (s *shell) steps(steps []step) {
	s.t.Helper()
	for _, st := range steps {
		out, errs, status := s.run(st.stdin, strings.Fields(st.args)...)
		if status != st.status || st.out != "" && !like(out, st.out) || !strings.Contains(out, st.has) || !strings.Contains(errs, st.err) {
			s.t.Errorf("millrace %s\nexit status %d, want %d\nstdout:\n%s\nstderr:\n%s\nwant stdout %q %q, stderr %q", st.args, status, st.status, out, errs, st.out, st.has, st.err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	// Without the marks of transactions, offsets are numbers of records.
	r := newRuns(t, "--config", "exactly.once.source.support=disabled", "--config", "offset.storage.topic=workers-offsets")
	p := r.start(t)
	s := &shell{t: t, dir: r.dir, env: []string{"MILLRACE_URL=" + p.api}}
	s.write("in.txt", "one\ntwo\n")
	s.write("src.json", `{"name":"src","config":{"connector.class":"FileStreamSource","file":"in.txt","topic":"lines","value.converter":"org.apache.kafka.connect.storage.StringConverter","some.password":"hunter2"}}`)
	s.write("masked.json", `{"name":"src","config":{"connector.class":"FileStreamSource","file":"in.txt","topic":"more","value.converter":"org.apache.kafka.connect.storage.StringConverter","some.password":"[hidden]"}}`)
	s.write("keepnothing.json", `{"name":"src","config":{"connector.class":"FileStreamSource","file":"in.txt","topic":"more","other.password":"[hidden]"}}`)
	s.write("wrong.yaml", "name: wrong\nconnector.class: FileStreamSource\n---\nname: alike\nconnector.class: FileStreamSource\ntopic: x\n")
	s.write("all/strimzi.yaml", "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nmetadata:\n  name: ours\nspec:\n  class: FileStreamSource\n  tasksMax: 1\n  state: stopped\n  config:\n    file: in.txt\n    topic: ours\n")
	s.write("all/flat.properties", "name=flat\nconnector.class=FileStreamSource\nfile=in.txt\ntopic=flat\n")

	t.Run("connectors", func(t *testing.T) {
		s := &shell{t, s.dir, s.env}
		s.steps([]step{
			{args: "connectors list", out: "No connectors. Make one with: millrace connectors create -f FILE\n"},
			{args: "connectors list -o json", out: "{}\n"},
			{args: "connectors create -f src.json", out: "src is RUNNING, with 1 task\n", err: "created src"},
			{args: "connectors create -f src.json", status: 4, err: "src.json: Connector src already exists"},
			{args: "connectors create -f masked.json", status: 2, err: "some.password is [hidden]"},
			{args: "c ls", out: "NAME  KIND         HEALTH     TASKS  LAG  FOR\nsrc   file source  ● RUNNING  1/1    …"},
			{args: "connectors list --health failed", out: "None of the 1 connectors is like that.\n"},
			{args: "connectors list -o name -l sr", out: "src\n"},
			{args: "connectors list -o jsonl", has: `"some.password":"[hidden]"`},
			{args: "connectors get src", has: "src        some.password    [hidden]"},
			{args: "connectors get src -o yaml", has: "some.password: '[hidden]'"},
			{args: "connectors get src nope", status: 3, err: "Connector nope not found"},
			{args: "connectors status src", has: "src  file source  ● RUNNING"},
			{args: "connectors status src -o json", has: `"state": "RUNNING"`},
			{args: "connectors apply -f src.json", out: "= src  unchanged\n"},
			{args: "connectors apply -f masked.json --dry-run", out: "~ src  1 setting\n    topic  lines → more\n", err: "nothing was changed"},
			{args: "connectors apply -f keepnothing.json", status: 2, err: "other.password is [hidden] and there is no stored value to keep"},
			{args: "connectors apply -f masked.json", out: "~ src  1 setting\n    topic  lines → more\nsrc is RUNNING, with 1 task\n"},
			{args: "connectors apply -f all", has: "ours is STOPPED"},
			{args: "connectors validate -f wrong.yaml", status: 1, err: "wrong.yaml: topic: Missing required configuration"},
			{args: "connectors validate -f wrong.yaml", status: 1, err: "1 setting is wrong, nothing was changed"},
			{args: "connectors create -f wrong.yaml", status: 1, err: "nothing was created"},
			{args: "connectors get alike", status: 3},
			{args: "connectors validate -f src.json -o json", has: `"error_count": 0`},
			{args: "connectors validate -f -", stdin: `{"name":"x","config":{"connector.class":"NoSuch"}}`, status: 1, err: "NoSuch"},
			{args: "connectors validate -f -", stdin: `{"name":"x"`, status: 1, err: "standard input"},
			{args: "connectors validate -f -", stdin: `{"name":"x","config":{"connector.class":"PostgresConnector","snapshot.fetch.size":"7"}}`, status: 1, err: "snapshot.fetch.size has no effect: a snapshot streams with COPY"},
			{args: "connectors preview src --records 1", out: "record 1   file \"in.txt\", byte 0\n  read       more   key null\n             \"one\"\n  encode     unchanged\n"},
			{args: "connectors preview -f src.json -o json", has: `"type": "source"`},
			{args: "connectors preview nope", status: 3, err: "nope"},
			{args: "connectors preview", status: 2, err: "name a connector, or a file with -f"},
			{args: "connectors preview -f -", stdin: `{"name":"p","config":{"connector.class":"FileStreamSource","file":"in.txt","topic":"t","transforms":"e","transforms.e.type":"org.apache.kafka.connect.transforms.InsertField$Value","transforms.e.static.field":"a","transforms.e.static.value":"b"}}`, status: 1, has: "e          ✗ org.apache.kafka.connect.transforms.InsertField$Value\n             Only Struct objects supported", err: "2 records of 2"},
			{args: "connectors pause src", out: "src is PAUSED, with 1 task\n"},
			{args: "connectors resume --all", has: "src is RUNNING, with 1 task\n"},
			{args: "connectors restart src --only-failed", has: "src is RUNNING"},
			{args: "connectors restart src --task 0", has: "src is RUNNING"},
			{args: "connectors restart src --task 7", status: 3, err: "Unknown task"},
			{args: "connectors restart --failed", out: "", err: "no connector has failed"},
			{args: "connectors restart", status: 2, err: "name connectors, or say --failed or --all"},
			{args: "connectors offsets get src -o json", has: `"filename": "in.txt"`},
			{args: "connectors offsets set src --partition {} --offset {", status: 2, err: "--offset { is no JSON"},
			{args: "connectors offsets reset src", status: 4, err: "src is RUNNING: stop it first"},
			{args: "connectors delete src", status: 2, err: "nobody can be asked here; add --yes"},
			{args: "connectors delete nope --yes", status: 3, err: "nope"},
			{args: "connectors delete flat ours --yes", err: "deleted ours"},
			{args: "connectors list -o name", out: "src\n"},
			{args: "connectors listt", status: 2, err: "there is no millrace connectors listt; did you mean list?"},
			{args: "connectors list extra", status: 2},
			{args: "connectors list -o xml", status: 2, err: "--output xml"},
		})
	})
	t.Run("plugins", func(t *testing.T) {
		s := &shell{t, s.dir, s.env}
		s.steps([]step{
			{args: "docs mysql", has: "| `schema.history.internal.kafka.topic` |"},
			{args: "docs postgres", has: "| `slot.retained.wal.limit.bytes` |"},
			{args: "docs connector", has: "exactly.once.support"},
			{args: "docs connector", has: "errors.deadletterqueue.topic.name"},
			{args: "docs nope", status: 1, err: "and connector, worker"},
			{args: "plugins list --kind sink -o name", has: "org.apache.kafka.connect.file.FileStreamSinkConnector\n"},
			{args: "plugins list", has: "transformation"},
			{args: "plugins describe FileStreamSource", has: "topic "},
			{args: "plugins describe Nope", status: 3, err: "Nope"},
		})
	})
	t.Run("topics", func(t *testing.T) {
		s := &shell{t, s.dir, s.env}
		p.until("the lines are in the topic", 30*time.Second, func() (bool, string) {
			out, errs, _ := s.run("", "topics", "list")
			return strings.Contains(out, "lines  1           2"), out + errs
		})
		s.steps([]step{
			{args: "topics create wide --partitions 3 --config retention.ms=1000", out: "created wide\n"},
			{args: "topics create wide", status: 4, err: `topic "wide" exists already`},
			{args: "topics create other --config nope=1", status: 1, err: "nope"},
			{args: "topics create a/b", status: 1, err: "a/b"},
			{args: "topics list", has: "wide   3"},
			{args: "topics list --internal -o name", has: "connect-configs\n"},
			{args: "topics describe wide", has: "retention.ms  1000   dynamic topic config"},
			{args: "topics describe nope", status: 3, err: `there is no topic "nope"`},
			{args: "topics tail lines --from oldest --to-end", out: "…  0@0  -  one\n…  0@1  -  two\n"},
			{args: "topics tail lines --from @1 -n 1 -o json", out: `{"topic":"lines","partition":0,"offset":1,"timestamp":"…","key":null,"value":"two","headers":[]}` + "\n"},
			{args: "topics tail lines --from @9 --to-end", status: 1, err: "partition 0 holds offsets 0 to 2; there is no 9"},
			{args: "topics tail lines --from oldest --to-end --grep tw", out: "…  0@1  -  two\n"},
			{args: "topics tail lines --from oldest --to-end --decode hex", out: "…6f6e65\n…74776f\n"},
			{args: "topics tail lines --from -1h --to-end -p 5", status: 3, err: `topic "lines" has no partition 5`},
			{args: "topics tail lines --from later", status: 2, err: "--from later"},
			{args: "topics tail wide --to-end", out: ""},
			{args: "topics offsets lines --at -1h", has: "0          0      2    2        0"},
			{args: "topics delete wide", status: 2, err: "add --yes"},
			{args: "topics delete wide --yes", out: "deleted wide\n"},
			{args: "topics delete wide --yes", status: 3},
			{args: "topics create spare", out: "created spare\n"},
			{args: "topics delete spare connect-configs --yes", status: 2, err: `topic "connect-configs" holds the state of the machinery`},
			{args: "topics delete connect-status --yes --force connect-configs", status: 2, err: "--force connect-status"},
			{args: "topics delete workers-offsets --yes", status: 2, err: `topic "workers-offsets" holds the state`}, // this worker's name for it
			{args: "topics delete spare --yes", out: "deleted spare\n"},
			{args: "topics list --internal -o name", has: "connect-configs\n"},
			{args: "topics create connect-offsets", out: "created connect-offsets\n"},
			{args: "topics delete connect-offsets --force connect-offsets --yes", out: "deleted connect-offsets\n"},
			{args: "topics list --kafka 127.0.0.1:1 --timeout 5s", status: 5, err: "127.0.0.1:1"},
			{args: "topics list --kafka nowhere", status: 2, err: "want host:port"},
		})
	})
	t.Run("a failed task is explained and is exit status 1", func(t *testing.T) {
		s := &shell{t, s.dir, s.env}
		s.write("broken.json", `{"name":"broken","config":{"connector.class":"FileStreamSink","file":"out.txt","topics":"lines","value.converter":"org.apache.kafka.connect.json.JsonConverter"}}`)
		s.steps([]step{{args: "connectors create -f broken.json --no-wait", err: "created broken"}})
		p.until("the task has failed", 30*time.Second, func() (bool, string) {
			out, errs, status := s.run("", "connectors", "status", "broken")
			return status == 1 && strings.Contains(out, "why"), out + errs
		})
		s.steps([]step{
			{args: "connectors status broken", status: 1, has: "▲ FAILED", err: "1 connector of 1 failed"},
			{args: "connectors list --health failed -o name", out: "broken\n"},
			{args: "connectors delete broken --yes"},
		})
	})
	t.Run("offsets are set and reset around a moment's stop", func(t *testing.T) {
		s := &shell{t, s.dir, s.env}
		s.steps([]step{
			{args: "connectors offsets reset src --stop --yes", has: "src is STOPPED"},
			{args: "connectors restart src --wait 30s", has: "src is RUNNING"},
		})
		p.until("the file is read again", 30*time.Second, func() (bool, string) {
			out, errs, _ := s.run("", "topics", "tail", "more", "--from", "oldest", "--to-end")
			return strings.Count(out, "one\n") == 1, out + errs
		})
	})
}

func TestCommandLineAgainstTroubledServers(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()}
	t.Run("workers that settle are waited for", func(t *testing.T) {
		var asked atomic.Int32
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if asked.Add(1) <= 3 {
				w.WriteHeader(http.StatusConflict)
				fmt.Fprint(w, `{"error_code":409,"message":"Cannot complete request momentarily due to stale configuration"}`)
				return
			}
			fmt.Fprint(w, `{}`)
		}))
		defer srv.Close()
		(&shell{t, s.dir, []string{"MILLRACE_URL=" + srv.URL}}).steps([]step{{args: "connectors list", out: "No connectors…", err: "the workers are settling; waiting"}})
	})
	answer := func(status int, body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct {
		name, url string
		step
	}{
		{"nobody listens", "http://127.0.0.1:1", step{args: "connectors list", status: 5, err: "no answer from http://127.0.0.1:1"}},
		{"somebody is silent", "http://" + silent.Addr().String(), step{args: "connectors list --timeout 1s", status: 5, err: "nothing within 1s"}},
		{"something else answers", answer(200, "<html>"), step{args: "connectors list", status: 1, err: "is no Connect REST API"}},
		{"the server fails", answer(500, `{"error_code":500,"message":"Request timed out"}`), step{args: "connectors pause x", status: 7, err: "Request timed out"}},
		{"the server cannot", answer(405, `{"error_code":405,"message":"HTTP 405 Method Not Allowed"}`), step{args: "connectors pause x", status: 7}},
		{"a sign-in is wanted", answer(401, ""), step{args: "connectors list", status: 6, err: "the API wants a sign-in"}},
		{"not allowed", answer(403, `{"error_code":403,"message":"Topic tracking is disabled."}`), step{args: "connectors list", status: 6, err: "not allowed"}},
		{"an answer moves no cursor", answer(404, "{\"error_code\":404,\"message\":\"\\u001b[2Jgone\"}"), step{args: "connectors pause x", status: 3, err: `\u001b[2Jgone`}},
		{"a password in the address", "http://u:secretpw@127.0.0.1:1", step{args: "connectors list", status: 2, err: "--password-stdin"}},
		{"the address is none", "ftp://x", step{args: "connectors list", status: 2, err: "want http://host:port"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sh := &shell{t, s.dir, []string{"MILLRACE_URL=" + c.url}}
			sh.steps([]step{c.step})
		})
	}
	t.Run("a failure that stays is the answer, with its reason and remedy", func(t *testing.T) {
		url := answer(200, `{"name":"x","type":"sink","connector":{"state":"RUNNING","worker_id":"w:1"},"tasks":[{"id":0,"state":"FAILED","worker_id":"w:1","trace":"java.lang.X: first\n\tat y",
			"reason":{"code":"es.mapping_conflict","summary":"index \"orders\" maps total as long","remedy":"change the mapping","retry":"never"}}]}`)
		sh := &shell{t, s.dir, []string{"MILLRACE_URL=" + url}}
		sh.steps([]step{
			{args: "connectors restart x --wait 2s", status: 1, err: "x has failed", out: "x  sink  ▲ FAILED\n  task 0   FAILED   w:1   es.mapping_conflict\n    why    index \"orders\" maps total as long\n" +
				"    do     change the mapping\n    retry  none: a retry cannot help\n"},
			{args: "connectors status x -v", status: 1, has: "trace  java.lang.X: first\n           \\tat y\n"},
		})
	})
	t.Run("a state that is not reached in time is no", func(t *testing.T) {
		url := answer(200, `{"name":"x","type":"sink","connector":{"state":"RUNNING","worker_id":"w:1"},"tasks":[{"id":0,"state":"UNASSIGNED","worker_id":"w:1"}]}`)
		(&shell{t, s.dir, []string{"MILLRACE_URL=" + url}}).steps([]step{{args: "connectors resume x --wait 1s", status: 1, err: "x is RUNNING, task 0 UNASSIGNED after 1s"}})
	})
	t.Run("a user signs in, and the password is in no output", func(t *testing.T) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if u, p, _ := r.BasicAuth(); u != "ada" || p != "s3cret" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{}`)
		}))
		defer srv.Close()
		in := &shell{t, s.dir, []string{"MILLRACE_URL=" + srv.URL}}
		in.steps([]step{
			{args: "connectors list --user ada --password-stdin", stdin: "s3cret\n", out: "No connectors…"},
			{args: "connectors list --user ada --password-stdin", stdin: "wrong\n", status: 6, err: `does not accept user "ada"`},
			{args: "connectors list --user ada", status: 2, err: "MILLRACE_PASSWORD"},
		})
		in.env = append(in.env, "MILLRACE_PASSWORD=s3cret", "MILLRACE_USER=ada")
		in.steps([]step{
			{args: "connectors list", out: "No connectors…"},
			{args: "connectors list --curl", out: `curl -sS -u 'ada:'"$MILLRACE_PASSWORD" '…/connectors?expand=info&expand=status&detail=full'` + "\n"},
		})
	})
	t.Run("contexts", func(t *testing.T) {
		url := answer(200, "{}")
		sh := &shell{t: t, dir: t.TempDir()}
		sh.write("config/millrace/config.yaml", "current: dev\ncontexts:\n  dev: {rest: \""+url+"\"}\n  prod: {rest: \""+url+"\", guard: name, user: ada, password-command: echo pw}\n")
		sh.steps([]step{
			{args: "connectors list", out: "No connectors…"},
			{args: "connectors list --context none", status: 2, err: `has no context "none"; it has: dev, prod`},
			{args: "connectors delete x --context prod --yes", status: 2, err: "needs --confirm prod"},
			{args: "connectors delete x --context prod --confirm dev", status: 2, err: `this is context "prod"`},
			{args: "connectors delete x --context prod --confirm prod", err: "deleted x"},
		})
		sh.write("config/millrace/config.yaml", "contexts:\n  dev: {rests: x}\n")
		sh.steps([]step{{args: "connectors list", status: 2, err: "rests"}})
	})
	t.Run("curl prints a command that does what the verb does", func(t *testing.T) {
		got := make(chan string, 1)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var b bytes.Buffer
			b.ReadFrom(r.Body)
			got <- r.Method + " " + r.URL.EscapedPath() + " " + b.String()
		}))
		defer srv.Close()
		sh := &shell{t: t, dir: t.TempDir(), env: []string{"MILLRACE_URL=" + srv.URL}}
		sh.write("c.json", `{"name":"it's a/b","config":{"connector.class":"X","db.password":"$(touch pwned)","note":"it's $HOME"}}`)
		out, _, status := sh.run("", "connectors", "create", "-f", "c.json", "--curl")
		if status != 0 || strings.Contains(out, "pwned") {
			t.Fatalf("%d %s", status, out)
		}
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("no curl here")
		}
		c := exec.CommandContext(t.Context(), "sh", "-c", out)
		c.Env = append(os.Environ(), "DB_PASSWORD=from-the-environment")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, text)
		}
		request := <-got
		_, body, _ := strings.Cut(request, "/connectors ")
		var sent struct {
			Name   string
			Config map[string]string
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("%v in %s", err, request)
		}
		if sent.Name != "it's a/b" || sent.Config["db.password"] != "from-the-environment" || sent.Config["note"] != "it's $HOME" {
			t.Errorf("sent %+v", sent)
		}
	})
	t.Run("an interrupt ends it with 130", func(t *testing.T) {
		path, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		arrived := make(chan struct{}, 1)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}))
		defer srv.Close()
		c := exec.CommandContext(t.Context(), path, "connectors", "list", "--url", srv.URL)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-arrived
		c.Process.Signal(syscall.SIGINT)
		c.Wait()
		if s := c.ProcessState.ExitCode(); s != 130 {
			t.Errorf("exit status %d", s)
		}
	})
}

// What a script's unset variable leaves would name all connectors.
func TestEmptyArgumentsAreRefused(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()}
	for _, args := range [][]string{
		{"connectors", "get", ""}, {"connectors", "delete", "a", "", "--yes"}, {"connectors", "offsets", "reset", "", "--yes"},
		{"topics", "describe", ""}, {"plugins", "describe", ""}, {"docs", ""},
	} {
		if _, errs, status := s.run("", args...); status != 2 || !strings.Contains(errs, " is empty; give a name") {
			t.Errorf("%q: exit status %d, %s", args, status, errs)
		}
	}
}
