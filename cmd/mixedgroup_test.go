package cmd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/peers/run"
	"millrace/deploy/trial"
)

// workers are those on which connectors and their tasks run, as a worker of either kind tells; nil while not all do.
func (a restAPI) workers(names []string) []string {
	a.t.Helper()
	var out []string
	for _, name := range names {
		var s status
		code, text := a.do(http.MethodGet, "/connectors/"+name+"/status", nil)
		if code != http.StatusOK {
			return nil
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			a.t.Fatalf("%v: %s", err, text)
		}
		if s.Connector.State != "RUNNING" || len(s.Tasks) != 1 || s.Tasks[0].State != "RUNNING" {
			return nil
		}
		out = append(out, s.Connector.Worker, s.Tasks[0].Worker)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A worker of Connect and one of ours share a group while one takes over from the other: work is spread over both, each takes requests that the
// other must serve, plans that ours makes are written by Connect's leader, and when Connect goes ours has everything, without a line lost.
func TestAConnectAndAMillraceShareAGroup(t *testing.T) {
	if !trial.Soak() {
		t.Skip("starts a JVM: run it with MILLRACE_SOAK=1")
	}
	kafka := peers.Kafka(t)
	peers.Kcat(t)
	server := peers.Connect(t, kafka.Addr, run.ConnectOptions{Settings: "offset.flush.interval.ms=200\nscheduled.rebalance.max.delay.ms=0\n"})
	connect := restAPI{t, server.URL}
	dir, prefix := t.TempDir(), peers.Unique(t, "mixed")
	var names []string
	written := 0
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func() {
		for range 100 {
			for _, name := range names {
				appendTo(t, file(name), fmt.Sprintf("%d\n", written))
			}
			written++
		}
	}
	conf := func(name string) map[string]string {
		c := fileSource(file(name), prefix+"-"+name)
		c["key.converter"] = "org.apache.kafka.connect.storage.StringConverter"
		return c
	}
	for i := range 4 {
		name := fmt.Sprintf("file%d", i)
		names = append(names, name)
		appendTo(t, file(name), "")
		connect.must(http.MethodPut, "/connectors/"+name+"/config", conf(name))
	}
	spread := func(by restAPI, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("all runs on %d workers", want), 2*time.Minute, func() (bool, string) {
			got := by.workers(names)
			return len(got) == want, fmt.Sprint(got)
		})
	}
	arrived := func(who string) {
		t.Helper()
		for _, name := range names {
			eventually(t, fmt.Sprintf("all %d lines of %s are in its topic, with %s", written, name, who), 2*time.Minute, func() (bool, string) {
				next := 0
				records := consume(t, kafka.Addr, prefix+"-"+name)
				for _, r := range records {
					if *r.Payload == fmt.Sprint(next) {
						next++
					}
				}
				return next == written, fmt.Sprintf("%d records, %d lines in order", len(records), next)
			})
		}
	}
	spread(connect, 1)
	write()
	arrived("Connect alone")

	properties := filepath.Join(filepath.Dir(server.Log(t)), "worker.properties")
	at := freeAddr(t)
	_, port, _ := strings.Cut(at, ":")
	p := (&runs{dir: dir, args: []string{"distributed", properties, "--config", "listeners=http://" + at, "--config", "rest.advertised.port=" + port}}).start(t)
	ours := restAPI{t, p.api}
	spread(connect, 2)
	spread(ours, 2)
	write()
	arrived("both")
	// New plans are made wherever a connector is, and requests go to either.
	for i, name := range names {
		changed := conf(name)
		changed["batch.size"] = "1999" // with few, the file source of Connect keeps lines back until others come
		[]restAPI{ours, connect}[i%2].must(http.MethodPut, "/connectors/"+name+"/config", changed)
	}
	for _, by := range []restAPI{ours, connect} {
		eventually(t, "the new plans", 2*time.Minute, func() (bool, string) {
			all := ""
			for _, name := range names {
				all += by.must(http.MethodGet, "/connectors/"+name+"/tasks", nil)
			}
			return strings.Count(all, `"batch.size":"1999"`) == len(names), all
		})
	}
	spread(ours, 2)
	for _, by := range []restAPI{ours, connect} {
		for _, name := range names {
			by.must(http.MethodPost, "/connectors/"+name+"/tasks/0/restart", nil)
		}
		spread(by, 2)
	}
	write()
	arrived("both, after changes")

	server.Stop(t)
	write()
	spread(ours, 1)
	arrived("Millrace alone")
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
}
