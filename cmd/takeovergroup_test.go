package cmd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/peers/run"
	"millrace/deploy/trial"
)

// states are those of all connectors and their tasks, as a worker of either kind tells them: "RUNNING [RUNNING]".
func (a restAPI) states() map[string]string {
	a.t.Helper()
	var all map[string]struct {
		Status struct {
			Connector struct{ State string }
			Tasks     []struct{ State string }
		}
	}
	text := a.must(http.MethodGet, "/connectors?expand=status", nil)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		a.t.Fatalf("%v: %s", err, text)
	}
	out := map[string]string{}
	for name, c := range all {
		tasks := []string{}
		for _, task := range c.Status.Tasks {
			tasks = append(tasks, task.State)
		}
		out[name] = fmt.Sprint(c.Status.Connector.State, " ", tasks)
	}
	return out
}

func (a restAPI) awaitStates(want map[string]string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("connectors are %v", want), 2*time.Minute, func() (bool, string) {
		got := a.states()
		return maps.Equal(got, want), fmt.Sprint(got)
	})
}

// awaitLines waits until a sink's file has all lines that were written to a source's, in order, whatever comes twice.
func awaitLines(t *testing.T, who, file string, n int) {
	t.Helper()
	var got []string
	eventually(t, fmt.Sprintf("all %d lines are in the file behind %s", n, who), 2*time.Minute, func() (bool, string) {
		next := 0
		got = lines(file)
		for _, l := range got {
			if l == fmt.Sprintf("Struct{line=%d,from=files}", next) {
				next++
			}
		}
		return next == n, fmt.Sprintf("%d lines, %d in order", len(got), next)
	})
	t.Logf("%s: %d lines, %d more than once", who, len(got), len(got)-n)
}

// A stopped group of Connect's workers is continued by Millrace with the same file of properties: all connectors go on at their offsets, in
// their states; then Connect goes on with what Millrace has left.
func TestAGroupOfConnectsIsTakenOverAndHandedBack(t *testing.T) {
	if !trial.Soak() {
		t.Skip("starts a JVM with Debezium three times: run it with MILLRACE_SOAK=1")
	}
	pg, kafka := peers.Postgres(t), peers.Kafka(t)
	peers.Kcat(t)
	server := peers.Connect(t, kafka.Addr, run.ConnectOptions{Debezium: "postgres", Settings: "offset.flush.interval.ms=200\nscheduled.rebalance.max.delay.ms=0\n"})
	connect := restAPI{t, server.URL}
	prefix := peers.Unique(t, "shop")
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE load (id int PRIMARY KEY, n int NOT NULL, filler text)")
	h := &handedOver{load: newLoad(t, pg.Connect(t, db), trial.Seed(t)), kafka: kafka.Addr, topic: prefix + ".public.load", marker: -1}
	if err := h.copyIn(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	source := pgSource(pg, db, "public.load")
	source["topic.prefix"] = prefix
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.txt"), filepath.Join(dir, "out.txt")
	written := 0
	write := func() {
		for range 100 {
			appendTo(t, in, fmt.Sprintf("%d\n", written))
			written++
		}
		h.write(10)
	}
	appendTo(t, in, "")
	fileSource := map[string]string{"connector.class": "FileStreamSource", "file": in, "topic": prefix + "-lines",
		"transforms": "hoist,from", "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.hoist.field": "line",
		"transforms.from.type": "org.apache.kafka.connect.transforms.InsertField$Value", "transforms.from.static.field": "from", "transforms.from.static.value": "files",
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
	fileSink := map[string]string{"connector.class": "FileStreamSink", "file": out, "topics": prefix + "-lines",
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
	connect.must(http.MethodPut, "/connectors/pg/config", source)
	connect.must(http.MethodPut, "/connectors/lines/config", fileSource)
	connect.must(http.MethodPut, "/connectors/copy%20of%20lines/config", fileSink)
	paused := maps.Clone(fileSource)
	paused["topic"] = prefix + "-paused"
	connect.must(http.MethodPost, "/connectors", map[string]any{"name": "paused", "config": paused, "initial_state": "PAUSED"})
	connect.must(http.MethodPost, "/connectors", map[string]any{"name": "stopped", "config": paused, "initial_state": "STOPPED"})
	at := fmt.Sprintf(`{"offsets":[{"partition":{"filename":%q},"offset":{"position":6}}]}`, in)
	connect.must(http.MethodPatch, "/connectors/stopped/offsets", at)
	want := map[string]string{"pg": "RUNNING [RUNNING]", "lines": "RUNNING [RUNNING]", "copy of lines": "RUNNING [RUNNING]", "paused": "PAUSED []", "stopped": "STOPPED []"}
	connect.awaitStates(want)
	h.wait("Connect") // the snapshot is over
	write()
	h.wait("Connect")
	awaitLines(t, "Connect", out, written)
	configs := connect.must(http.MethodGet, "/connectors/pg/config", nil)
	server.Stop(t)
	h.check("Connect")

	write() // while nobody reads
	properties := filepath.Join(filepath.Dir(server.Log(t)), "worker.properties")
	if _, err := os.Stat(properties); err != nil {
		t.Fatal(err)
	}
	r := &runs{dir: dir, args: []string{"distributed", properties}}
	p := r.start(t)
	ours := restAPI{t, p.api}
	ours.awaitStates(want)
	if got := ours.must(http.MethodGet, "/connectors/pg/config", nil); !sameJSON(t, got, configs) {
		t.Errorf("the configuration is\n%s, was\n%s", got, configs)
	}
	if got := ours.must(http.MethodGet, "/connectors/stopped/offsets", nil); !sameJSON(t, got, at) {
		t.Errorf("the offsets are\n%s, were\n%s", got, at)
	}
	h.wait("Millrace")
	h.check("Millrace")
	awaitLines(t, "Millrace", out, written)
	// What Millrace changes, Connect finds.
	made := maps.Clone(fileSource)
	made["topic"] = prefix + "-made"
	ours.must(http.MethodPut, "/connectors/made/config", made)
	ours.must(http.MethodPut, "/connectors/paused/resume", nil)
	ours.must(http.MethodPut, "/connectors/lines/pause", nil)
	ours.must(http.MethodDelete, "/connectors/stopped", nil)
	want = map[string]string{"pg": "RUNNING [RUNNING]", "lines": "PAUSED [PAUSED]", "copy of lines": "RUNNING [RUNNING]", "paused": "RUNNING [RUNNING]", "made": "RUNNING [RUNNING]"}
	ours.awaitStates(want)
	for _, topic := range []string{"-made", "-paused"} {
		eventually(t, "all lines in "+topic, time.Minute, func() (bool, string) {
			n := len(consume(t, kafka.Addr, prefix+topic))
			return n == written, fmt.Sprint(n)
		})
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}

	write() // while nobody reads
	server.Start(t)
	connect.awaitStates(want)
	connect.must(http.MethodPut, "/connectors/lines/resume", nil)
	h.wait("Connect again")
	h.check("Connect again")
	awaitLines(t, "Connect again", out, written)
	for _, topic := range []string{"-made", "-paused"} {
		eventually(t, "the new lines in "+topic, time.Minute, func() (bool, string) {
			got := consume(t, kafka.Addr, prefix+topic)
			return len(got) == written && slices.ContainsFunc(got, func(r kcatRecord) bool { return strings.Contains(*r.Payload, fmt.Sprintf(`"line":"%d"`, written-1)) }), fmt.Sprint(len(got))
		})
	}
	connect.stop("pg")
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}
