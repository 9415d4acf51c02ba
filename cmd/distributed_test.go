package cmd_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
)

// newGroup prepares workers of a group of its own on a cluster, with a folder and a file of properties that they share.
func newGroup(t *testing.T, kafka string, n int, settings map[string]string) []*runs {
	t.Helper()
	dir, group := t.TempDir(), peers.Unique(t, "group")
	all := map[string]string{"bootstrap.servers": kafka, "group.id": group,
		"config.storage.topic": group + "-configs", "offset.storage.topic": group + "-offsets", "status.storage.topic": group + "-status",
		"config.storage.replication.factor": "1", "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
		"offset.flush.interval.ms": "200", "session.timeout.ms": "6000", "heartbeat.interval.ms": "500", "rebalance.timeout.ms": "20000", "scheduled.rebalance.max.delay.ms": "0"}
	maps.Copy(all, settings)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", k, all[k])
	}
	if err := os.WriteFile(filepath.Join(dir, "worker.properties"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	workers := make([]*runs, n)
	for i := range workers {
		workers[i] = &runs{dir: dir, args: []string{"distributed", "worker.properties", "--config", "listeners=http://" + freeAddr(t)}}
	}
	return workers
}

// owners are the workers that run the tasks of all connectors, by connector; nil while not all run.
func (p *process) owners(connectors []string) map[string]string {
	out := map[string]string{}
	for _, name := range connectors {
		s, err := p.status(name)
		if err != nil || s.Connector.State != "RUNNING" || len(s.Tasks) != 1 || s.Tasks[0].State != "RUNNING" {
			return nil
		}
		out[name] = s.Tasks[0].Worker
	}
	return out
}

// Three workers share sources of files. Each of them in turn is asked to make connectors and is killed, and the others read on: with
// exactly-once delivery a reader of committed records has each line once, in its file's order.
func TestAGroupTakesOverFromWorkersThatAreKilled(t *testing.T) {
	kafka := peers.Kafka(t)
	peers.Kcat(t)
	group := newGroup(t, kafka.Addr, 3, map[string]string{"exactly.once.source.support": "enabled"})
	topic := peers.Unique(t, "lines")
	workers := make([]*process, len(group))
	for i, r := range group {
		workers[i] = r.start(t)
	}
	names, written := []string{}, map[string]int{}
	grow := func() {
		for _, name := range names {
			for range 20 {
				appendTo(t, filepath.Join(group[0].dir, name), fmt.Sprintf("%s %06d\n", name, written[name]))
				written[name]++
			}
		}
	}
	for i, p := range workers {
		for range len(workers) {
			name := fmt.Sprintf("file%d", len(names))
			appendTo(t, filepath.Join(group[0].dir, name), "")
			p.until(name+" to be taken", time.Minute, func() (bool, string) {
				code, body, err := p.call("POST", "/connectors", map[string]any{"name": name, "config": fileSource(name, topic)})
				return err == nil && (code == 201 || code == 409 && strings.Contains(string(body), "already exists")), string(body)
			})
			names = append(names, name)
		}
		other := workers[(i+1)%len(workers)]
		other.until("all connectors to run", 2*time.Minute, func() (bool, string) {
			owners := other.owners(names)
			return owners != nil, fmt.Sprint(owners)
		})
		grow()
		gone := strings.TrimPrefix(p.api, "http://")
		p.kill()
		grow()
		other.until("the others to run what it ran", 2*time.Minute, func() (bool, string) {
			owners := other.owners(names)
			return owners != nil && !slices.Contains(slices.Collect(maps.Values(owners)), gone), fmt.Sprint(owners)
		})
		grow()
		workers[i] = group[i].start(t)
	}
	workers[0].until("the work to be shared again", 2*time.Minute, func() (bool, string) {
		owners := workers[0].owners(names)
		by := map[string]bool{}
		for _, w := range owners {
			by[w] = true
		}
		return len(by) == len(workers), fmt.Sprint(owners)
	})
	total := 0
	for _, n := range written {
		total += n
	}
	workers[0].until("all lines to be in the topic", time.Minute, func() (bool, string) {
		n := len(consume(t, kafka.Addr, topic))
		return n >= total, fmt.Sprintf("%d of %d", n, total)
	})
	next := map[string]int{}
	for _, r := range consume(t, kafka.Addr, topic) {
		name, _, _ := strings.Cut(*r.Payload, " ")
		if want := fmt.Sprintf("%s %06d", name, next[name]); *r.Payload != want {
			t.Fatalf("%q comes, want %q", *r.Payload, want)
		}
		next[name]++
	}
	if !maps.Equal(next, written) {
		t.Errorf("read %v, written %v", next, written)
	}
	for _, p := range workers {
		if status := p.stop(); status != 0 {
			t.Errorf("exit status %d, want 0", status)
		}
	}
}

// The file that users start from is right, but for the address and the copies of topics.
func TestTheWorkerPropertiesToStartFrom(t *testing.T) {
	file, err := filepath.Abs("../deploy/systemd/worker.properties")
	if err != nil {
		t.Fatal(err)
	}
	r := &runs{dir: t.TempDir(), args: []string{"distributed", "--check", file, "--config", "bootstrap.servers=" + peers.Kafka(t).Addr}}
	if status, said := r.fails(t); status != 0 || strings.Contains(said, "ignored") {
		t.Errorf("exit status %d:\n%s", status, said)
	}
}

func TestTheSettingsOfAWorkerOfAGroupAreChecked(t *testing.T) {
	kafka := peers.Kafka(t)
	for _, c := range []struct {
		name     string
		settings map[string]string
		status   int
		says     string
	}{
		{"all is well", nil, 0, "The settings are right, and the cluster "},
		{"what has no effect is told", map[string]string{"plugin.path": "/plugins"}, 0, "plugin.path is ignored: plugins are part of the binary"},
		{"a setting is wrong", map[string]string{"offset.flush.interval.ms": "soon"}, 1, "offset.flush.interval.ms"},
		{"there is no converter", map[string]string{"key.converter": ""}, 1, "key.converter"},
		{"there is no cluster", map[string]string{"bootstrap.servers": ""}, 1, "bootstrap.servers is missing"},
		{"nobody listens", map[string]string{"bootstrap.servers": "127.0.0.1:1"}, 1, "reach cluster 127.0.0.1:1 (bootstrap.servers)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newGroup(t, kafka.Addr, 1, c.settings)[0]
			r.args = []string{"distributed", "--check", "worker.properties"}
			if status, said := r.fails(t); status != c.status || !strings.Contains(said, c.says) {
				t.Errorf("exit status %d, want %d with %q:\n%s", status, c.status, c.says, said)
			}
		})
	}
}
