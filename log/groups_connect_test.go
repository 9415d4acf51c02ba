package log_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// connectWorkerProcess is a worker of Apache Kafka Connect.
type connectWorkerProcess struct {
	cmd *exec.Cmd
	url string
	log *bytes.Buffer
}

func startConnect(t testing.TB, java peers.JavaTools, bootstrap string) *connectWorkerProcess {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	props := filepath.Join(t.TempDir(), "worker.properties")
	text := "bootstrap.servers=" + bootstrap + "\ngroup.id=jvm\nlisteners=http://" + addr + `
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
config.storage.topic=jvm-configs
config.storage.replication.factor=1
offset.storage.topic=jvm-offsets
offset.storage.partitions=1
offset.storage.replication.factor=1
status.storage.topic=jvm-status
status.storage.partitions=1
status.storage.replication.factor=1
session.timeout.ms=10000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=0
offset.flush.interval.ms=500
`
	if err := os.WriteFile(props, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &connectWorkerProcess{cmd: java.Command(context.Background(), "org.apache.kafka.connect.cli.ConnectDistributed", props), url: "http://" + addr, log: &bytes.Buffer{}}
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	return w
}

func (w *connectWorkerProcess) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

// call asks the worker's REST API; the answer is decoded into out.
func (w *connectWorkerProcess) call(method, path, body string, out any) error {
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", resp.Status, b)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

// TestRealConnectWorkersAreAGroup runs workers of Apache Kafka Connect as one group on our broker. One is killed, another comes, one
// leaves. It takes three JVMs and a minute, so it is part of the soak.
func TestRealConnectWorkersAreAGroup(t *testing.T) {
	if !trial.Soak() {
		t.Skip("three workers on three JVMs: set MILLRACE_SOAK=1")
	}
	java := peers.KafkaTools(t)
	l := tcpLog(t)
	a, b := startConnect(t, java, l.Addr()), startConnect(t, java, l.Addr())
	workers := map[string]*connectWorkerProcess{"a": a, "b": b}
	defer func() {
		for name, w := range workers {
			if t.Failed() {
				t.Logf("worker %s:\n%.4000s", name, w.log)
			}
		}
	}()
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	members := func(n int) func() bool {
		return func() bool {
			g := described(t, adm, "jvm")
			return g.State == "Stable" && g.ProtocolType == "connect" && g.Protocol == "sessioned" && len(g.Members) == n
		}
	}
	within(t, 3*time.Minute, "two workers are one stable group", members(2))
	// A worker answers about connectors when it has its assignment and has read the config topic. The one that does not lead
	// sends changes on to the leader, whose address it has from the assignment.
	for name, w := range workers {
		within(t, time.Minute, "worker "+name+" answers", func() bool {
			var names []string
			return w.call("GET", "/connectors", "", &names) == nil && len(names) == 0
		})
		err := w.call("PUT", "/connectors/c/config", `{"connector.class":"NoSuchConnector"}`, nil)
		if err == nil || !strings.Contains(err.Error(), "Failed to find any class") {
			t.Errorf("worker %s says %v", name, err)
		}
	}

	b.kill()
	within(t, 2*time.Minute, "the other goes on alone", members(1))
	workers["c"] = startConnect(t, java, l.Addr())
	within(t, 2*time.Minute, "a third takes the place", members(2))
	if err := a.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := a.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	within(t, 30*time.Second, "the first has left", members(1))
}
