package cmd_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lines are a file's lines, none where it is not there yet.
func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func fileSource(file, topic string) map[string]string {
	return map[string]string{"connector.class": "FileStreamSource", "file": file, "topic": topic,
		"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
}

func fileSink(file, topics string) map[string]string {
	return map[string]string{"connector.class": "FileStreamSink", "file": file, "topics": topics,
		"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
}

func TestAFileGoesThroughATopicIntoAnotherAndStateSurvives(t *testing.T) {
	r := newRuns(t)
	in, out := filepath.Join(r.dir, "in.txt"), filepath.Join(r.dir, "out.txt")
	appendTo(t, in, "one\ntwo\n")
	p := r.start(t)
	p.create("src", fileSource("in.txt", "lines"))
	p.create("sink", fileSink("out.txt", "lines"))
	arrived := func(p *process, want string) {
		t.Helper()
		p.until("the lines are in the other file", 30*time.Second, func() (bool, string) {
			got := strings.Join(lines(out), ",")
			return got == want, got
		})
	}
	arrived(p, "one,two")
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d after an interrupt, want 0\n%s", status, p.log)
	}

	appendTo(t, in, "three\n")
	p = r.start(t)
	arrived(p, "one,two,three")
	// Offsets are committed once a second; what is not yet may come again after a kill.
	p.until("the offsets are committed", 30*time.Second, func() (bool, string) {
		_, src, err := p.call("GET", "/connectors/src/offsets", nil)
		if err != nil {
			return false, err.Error()
		}
		_, sink, err := p.call("GET", "/connectors/sink/offsets", nil)
		if err != nil {
			return false, err.Error()
		}
		// Behind the third line: between the lines are the marks of one transaction or of two.
		behind := strings.Contains(string(sink), `"kafka_offset":4`) || strings.Contains(string(sink), `"kafka_offset":5`)
		return strings.Contains(string(src), `"position":14`) && behind, string(src) + string(sink)
	})
	p.kill()

	appendTo(t, in, "four\n")
	p = r.start(t)
	arrived(p, "one,two,three,four")
	p.running("src", 1)
	p.running("sink", 1)
	if code, body, err := p.call("DELETE", "/connectors/src", nil); err != nil || code != http.StatusNoContent {
		t.Errorf("delete: %d %s %v", code, body, err)
	}
	p.kill()
	p = r.start(t)
	_, body, err := p.call("GET", "/connectors", nil)
	if err != nil || string(body) != `["sink"]` {
		t.Errorf("connectors after a restart: %s %v, want the sink alone", body, err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestConnectorsOfTheCommandLineAreStoredAtEveryStart(t *testing.T) {
	r := newRuns(t)
	appendTo(t, filepath.Join(r.dir, "in.txt"), "one\n")
	appendTo(t, filepath.Join(r.dir, "worker.properties"), "offset.flush.interval.ms=200\n# a comment\nplugin.path=/opt\n")
	appendTo(t, filepath.Join(r.dir, "src.properties"), "name=src\nconnector.class=FileStreamSource\nfile=in.txt\ntopic=lines\n")
	appendTo(t, filepath.Join(r.dir, "sink.json"), `{"name":"sink","config":{"connector.class":"FileStreamSink","topics":"lines","file":"out.txt","tasks.max":1},"initial_state":"PAUSED"}`)
	r.args = append(r.args, "worker.properties", "src.properties", "sink.json")
	p := r.start(t)
	p.running("src", 1)
	p.until("the sink is paused", 30*time.Second, func() (bool, string) {
		s, err := p.status("sink")
		return err == nil && s.Connector.State == "PAUSED", string(mustJSON(t, s))
	})
	if !strings.Contains(p.log.String(), "plugin.path is ignored") {
		t.Errorf("no notice about an ignored setting:\n%s", p.log)
	}
	p.stop()
	p = r.start(t)
	p.running("src", 1)
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fails runs the worker, which must end by itself, and returns its exit status and
// what it said.
func (r *runs) fails(t *testing.T) (int, string) {
	t.Helper()
	p := r.spawn(t)
	select {
	case <-p.exited:
	case <-time.After(60 * time.Second):
		t.Fatalf("millrace still runs\n%s", p.log)
	}
	return p.cmd.ProcessState.ExitCode(), p.log.String()
}

func TestABadStartSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name   string
		args   []string
		files  map[string]string
		status int
		says   []string
	}{
		{"the REST port is in use", []string{"--rest", taken.Addr().String()}, nil, 1, []string{taken.Addr().String(), "in use", "--rest"}},
		{"the Kafka port is in use", []string{"--kafka", taken.Addr().String()}, nil, 1, []string{taken.Addr().String(), "in use", "--kafka"}},
		{"others can reach the REST port", []string{"--rest", "0.0.0.0:0"}, nil, 1, []string{"http://0.0.0.0:0", "--rest", "insecure=true"}},
		{"others can reach the Kafka port", []string{"--kafka", "0.0.0.0:0"}, nil, 1, []string{"--kafka", "PLAINTEXT://0.0.0.0:0", "SASL_SSL", "insecure=true"}},
		{"the Kafka port has TLS and nobody signs in", []string{"--kafka", "SSL://0.0.0.0:0"}, nil, 1, []string{"SSL://0.0.0.0:0", "log.listener.ssl.client.auth=required"}},
		{"the Kafka port has no key", []string{"--kafka", "SASL_SSL://0.0.0.0:0"}, nil, 1, []string{"log.listener.ssl.keystore.location", "needs a key"}},
		{"the users' file is not there", []string{"--config", "log.sasl.users.file=nope"}, nil, 1, []string{"log.sasl.users.file", "nope", "no such file"}},
		{"a size that is none", []string{"--config", "log.max.connections=many"}, nil, 1, []string{"log.max.connections", "Not a number"}},
		{"insecure is neither true nor false", []string{"--config", "insecure=maybe"}, nil, 1, []string{"insecure", "maybe", "true or false"}},
		{"a REST port that cannot be", []string{"--rest", "127.0.0.1:99999"}, nil, 1, []string{"address 127.0.0.1:99999", "listeners"}},
		{"an unknown flag", []string{"--nope"}, nil, 2, []string{"--nope", "millrace help"}},
		{"a file that is not there", []string{"nope.properties"}, nil, 2, []string{"nope.properties", "no such file"}},
		{"two workers' files", []string{"a.properties", "b.properties"}, map[string]string{"a.properties": "group.id=a\n", "b.properties": "group.id=b\n"}, 2,
			[]string{"b.properties", "a.properties"}},
		{"a connector without a name", []string{"c.json"}, map[string]string{"c.json": `{"connector.class":"FileStreamSource"}`}, 2, []string{"c.json", "no name"}},
		{"broken JSON", []string{"c.json"}, map[string]string{"c.json": `{"name":`}, 2, []string{"c.json", "JSON"}},
		{"a wrong setting of a connector", []string{"c.json"}, map[string]string{"c.json": `{"name":"c","connector.class":"FileStreamSource","tasks.max":"x","topic":"t"}`}, 1,
			[]string{"c.json", "tasks.max", "Not a number"}},
		{"a wrong setting of the worker", []string{"--config", "offset.flush.interval.ms=soon"}, nil, 1, []string{"offset.flush.interval.ms", "soon"}},
		{"a session that is shorter than the broker takes", []string{"--config", "session.timeout.ms=2000", "--config", "heartbeat.interval.ms=500"}, nil, 1,
			[]string{"session.timeout.ms=2000", "group.min.session.timeout.ms"}},
		{"a provider's secret that is no number", []string{"w.properties"}, map[string]string{"w.properties": "config.providers=env\nconfig.providers.env.class=env\noffset.flush.interval.ms=${env:HOME}\n"}, 1,
			[]string{"w.properties", "offset.flush.interval.ms", "[hidden]"}},
		{"the worker's own properties through a provider", []string{"w.properties"}, map[string]string{"w.properties": "config.providers=f\nconfig.providers.f.class=file\nproducer.client.id=${f:w.properties:group.id}\n"}, 1,
			[]string{"producer.client.id", "lies outside"}},
		{"a file of the log", []string{"c.json"}, map[string]string{"c.json": `{"name":"c","connector.class":"FileStreamSink","topics":"t","file":"data/log/connect-configs-0/00000000000000000000.log"}`}, 1,
			[]string{"connect-configs-0", "no connector may open"}},
		{"a file outside the allowed folders", []string{"c.json"}, map[string]string{"c.json": `{"name":"c","connector.class":"FileStreamSource","topic":"t","file":"/etc/passwd"}`}, 1,
			[]string{"/etc/passwd", "--file-root"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRuns(t, c.args...)
			for name, text := range c.files {
				appendTo(t, filepath.Join(r.dir, name), text)
			}
			status, said := r.fails(t)
			if status != c.status {
				t.Errorf("exit status %d, want %d", status, c.status)
			}
			for _, s := range c.says {
				if !strings.Contains(said, s) {
					t.Errorf("does not say %q:\n%s", s, said)
				}
			}
		})
	}
}

// A name that is not this machine's is suspicious on a loopback listener alone: other machines
// know an open one by names that it cannot know.
func TestWhoMayCallIsDecidedByTheListener(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		want int
	}{
		{"a loopback listener refuses a Host that is another machine's", nil, http.StatusForbidden},
		{"one that insecure=true opens answers under every name", []string{"--rest", "0.0.0.0:0", "--config", "insecure=true"}, http.StatusOK},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newRuns(t, row.args...).start(t)
			_, port, err := net.SplitHostPort(strings.TrimPrefix(p.api, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequest(http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", port)+"/connectors", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = net.JoinHostPort("worker.example", port)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != row.want {
				t.Errorf("status %d, want %d\n%s", resp.StatusCode, row.want, p.log)
			}
		})
	}
}

func TestASettingWithoutEffectIsToldOnce(t *testing.T) {
	r := newRuns(t, "w.properties", "c.json")
	appendTo(t, filepath.Join(r.dir, "w.properties"), "foo.bar=1\n")
	appendTo(t, filepath.Join(r.dir, "c.json"), `{"name":"c","connector.class":"FileStreamSource","tasks.max":"x","topic":"t"}`)
	if _, said := r.fails(t); strings.Count(said, "foo.bar") != 1 {
		t.Errorf("foo.bar is told %d times, want once:\n%s", strings.Count(said, "foo.bar"), said)
	}
}

func TestASecondProcessOnTheSameDataIsRefused(t *testing.T) {
	r := newRuns(t)
	r.start(t)
	second := &runs{dir: r.dir, args: []string{"standalone", "--data", filepath.Join(r.dir, "data"), "--rest", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--registry", "127.0.0.1:0"}}
	status, said := second.fails(t)
	if status != 1 || !strings.Contains(said, filepath.Join(r.dir, "data")) {
		t.Errorf("exit status %d, want 1 and the folder named:\n%s", status, said)
	}
}

// A Connect worker's offset file, written by Kafka's own class, says that the source has
// read 8 bytes of in.txt.
func TestTheOffsetsOfAConnectWorkerAreTakenOver(t *testing.T) {
	offsets, err := filepath.Abs("../runtime/store/testdata/java.offsets")
	if err != nil {
		t.Fatal(err)
	}
	r := newRuns(t, "--config", "offset.storage.file.filename="+offsets)
	in, out := filepath.Join(r.dir, "in.txt"), filepath.Join(r.dir, "out.txt")
	appendTo(t, in, "one\ntwo\nthree\n")
	p := r.start(t)
	p.create("file", fileSource("in.txt", "lines"))
	p.create("sink", fileSink("out.txt", "lines"))
	p.until("what is new arrives, and nothing else", 30*time.Second, func() (bool, string) {
		got := strings.Join(lines(out), ",")
		return got == "three", got
	})
	p.until("its offset is stored", 30*time.Second, func() (bool, string) {
		_, body, err := p.call("GET", "/connectors/file/offsets", nil)
		return err == nil && strings.Contains(string(body), `"position":14`), string(body)
	})
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	appendTo(t, in, "four\n")
	p = r.start(t) // the file is not read again
	p.until("it goes on where it was", 30*time.Second, func() (bool, string) {
		got := strings.Join(lines(out), ",")
		return got == "three,four", got
	})
}

func TestASecondWorkerJoinsByTheFirstOnesProperties(t *testing.T) {
	r := newRuns(t)
	first := r.start(t)
	s := &shell{t: t, dir: t.TempDir()}
	args := append(append([]string{}, r.args...), "--print-worker-properties")
	text, errs, status := s.run("", args...)
	if status != 0 || !strings.Contains(text, "bootstrap.servers="+first.kafka+"\n") || strings.Contains(text, "log.listeners") {
		t.Fatalf("%d %s %s", status, text, errs)
	}
	s.write("second.properties", text)
	second := &runs{dir: s.dir, args: []string{"distributed", "second.properties", "--config", "listeners=http://127.0.0.1:0"}}
	p := second.start(t)
	first.create("src", fileSource(filepath.Join(r.dir, "in.txt"), "lines"))
	p.until("the second worker knows the connector of the first", 30*time.Second, func() (bool, string) {
		_, body, err := p.call("GET", "/connectors", nil)
		return err == nil && string(body) == `["src"]`, string(body)
	})
}
