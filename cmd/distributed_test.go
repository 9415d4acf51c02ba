package cmd_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
