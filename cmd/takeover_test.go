package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/peers/run"
	"millrace/deploy/trial"
)

// A restAPI is a worker's REST interface, ours or the original's.
type restAPI struct {
	t   *testing.T
	url string
}

// do answers status and body; a worker that rebalances is asked again.
func (a restAPI) do(method, path string, body any) (int, string) {
	a.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var send io.Reader
		if text, ok := body.(string); ok {
			send = strings.NewReader(text)
		} else if body != nil {
			b, err := json.Marshal(body)
			if err != nil {
				a.t.Fatal(err)
			}
			send = bytes.NewReader(b)
		}
		req, err := http.NewRequest(method, a.url+path, send)
		if err != nil {
			a.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			a.t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			a.t.Fatal(err)
		}
		if res.StatusCode != http.StatusConflict && res.StatusCode != http.StatusInternalServerError || time.Now().After(until) {
			return res.StatusCode, string(b)
		}
	}
}

func (a restAPI) must(method, path string, body any) string {
	a.t.Helper()
	code, text := a.do(method, path, body)
	if code >= 300 {
		a.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

// stop stops a connector and answers its offsets, which only then are its last.
func (a restAPI) stop(name string) string {
	a.t.Helper()
	a.must(http.MethodPut, "/connectors/"+name+"/stop", nil)
	eventually(a.t, name+" is stopped", 2*time.Minute, func() (bool, string) {
		now := a.states()[name]
		return now == "STOPPED []", now
	})
	return a.must(http.MethodGet, "/connectors/"+name+"/offsets", nil)
}

// handedOver is a table whose changes one connector after the other sends to a topic.
type handedOver struct {
	*load
	kafka, topic string
	marker       int // the next one's id
}

// write commits transactions.
func (h *handedOver) write(transactions int) {
	h.t.Helper()
	for range transactions {
		if err := h.transaction(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// wait waits until who captures now has sent all that was committed.
func (h *handedOver) wait(who string) {
	h.t.Helper()
	if _, err := h.conn.Exec(h.t.Context(), "INSERT INTO load VALUES ($1, $1, 'marker')", h.marker); err != nil {
		h.t.Fatal(err)
	}
	h.history[h.marker] = []int{h.marker}
	want := fmt.Sprintf(`{"id":%d}`, h.marker)
	h.marker--
	eventually(h.t, fmt.Sprintf("%s has sent the marker %s", who, want), 2*time.Minute, func() (bool, string) {
		sent := consume(h.t, h.kafka, h.topic)
		return slices.ContainsFunc(sent, func(r kcatRecord) bool { return r.Key != nil && *r.Key == want }), fmt.Sprintf("%d records", len(sent))
	})
}

// check compares what is in the topic with what was committed.
func (h *handedOver) check(who string) {
	h.t.Helper()
	records := consume(h.t, h.kafka, h.topic)
	seen, events := firstSeen(h.t, records), 0
	for id, want := range h.history {
		if got := seen[id]; fmt.Sprint(got) != fmt.Sprint(want) {
			h.t.Fatalf("behind %s, id %d: the topic has %v, want %v", who, id, got, want)
		}
		events += len(want)
	}
	for _, r := range records {
		if r.Payload == nil {
			events++ // a tombstone
		}
	}
	h.t.Logf("%s: %d records, none lost, %d more than once", who, len(records), len(records)-events)
}

// TestTakeOverFromDebeziumAndBack: Debezium's own connector on a real Connect captures a table, stops, Millrace goes on with its
// offsets into the same topics, stops within a transaction, and Debezium goes on again. No change is lost at either
// hand-over, each key's changes stay in order, and what comes twice is what was under way.
func TestTakeOverFromDebeziumAndBack(t *testing.T) {
	if !trial.Soak() {
		t.Skip("starts a JVM with Debezium: run it with MILLRACE_SOAK=1")
	}
	pg, kafka := peers.Postgres(t), peers.Kafka(t)
	peers.Kcat(t)
	connect := restAPI{t, peers.Connect(t, kafka.Addr, run.ConnectOptions{Debezium: "postgres", Settings: "offset.flush.interval.ms=200\n"}).URL}
	prefix := peers.Unique(t, "shop")
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE load (id int PRIMARY KEY, n int NOT NULL, filler text)")
	l := newLoad(t, pg.Connect(t, db), trial.Seed(t))
	if err := l.copyIn(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	conf := pgSource(pg, db, "public.load")
	conf["topic.prefix"], conf["provide.transaction.metadata"] = prefix, "false"
	conf["key.converter"], conf["value.converter"] = "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.json.JsonConverter"
	conf["key.converter.schemas.enable"], conf["value.converter.schemas.enable"] = "false", "false"
	h := &handedOver{load: l, kafka: kafka.Addr, topic: prefix + ".public.load", marker: -1}

	connect.must(http.MethodPut, "/connectors/pg/config", conf)
	h.wait("Debezium")
	h.write(20)
	h.wait("Debezium")
	offsets := connect.stop("pg")
	t.Logf("Debezium's offsets: %s", offsets)
	h.check("Debezium")

	// Ours, with what was written while nobody read.
	h.write(20)
	r := newRuns(t, "--config", "bootstrap.servers="+kafka.Addr, "--config", "group.id="+prefix, "--config", "exactly.once.source.support=enabled", "--config", "offset.flush.interval.ms=50")
	p := r.start(t)
	ours := restAPI{t, p.api}
	ours.must(http.MethodPost, "/connectors", map[string]any{"name": "pg", "config": conf, "initial_state": "STOPPED"})
	ours.must(http.MethodPatch, "/connectors/pg/offsets", offsets)
	ours.must(http.MethodPut, "/connectors/pg/resume", nil)
	h.wait("Millrace")
	h.check("Millrace")
	// It stops within a transaction of many rows of one LSN.
	ours.stop("pg")
	for range 3 {
		if err := l.copyIn(t.Context(), 60_000); err != nil {
			t.Fatal(err)
		}
	}
	ours.must(http.MethodPut, "/connectors/pg/resume", nil)
	within := false
	for until := time.Now().Add(time.Minute); !within && time.Now().Before(until); {
		within = strings.Contains(ours.must(http.MethodGet, "/connectors/pg/offsets", nil), "lsn_commit_before")
	}
	offsets = ours.stop("pg")
	t.Logf("Millrace's offsets: %s", offsets)
	if !strings.Contains(offsets, "lsn_commit_before") {
		t.Log("it was stopped between two transactions this time")
	}

	h.write(5)
	connect.must(http.MethodPatch, "/connectors/pg/offsets", offsets)
	connect.must(http.MethodPut, "/connectors/pg/resume", nil)
	h.wait("Debezium again")
	h.check("Debezium again")
	connect.stop("pg")
}
