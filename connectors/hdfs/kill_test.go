package hdfs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// killEnv holds the address and the folder of /tmp of a process that is killed.
const killEnv = "MILLRACE_TEST_HDFS_KILL"

// victim is the process that is killed: a task that writes without end.
func victim(t *testing.T, address, folder string) {
	run := opened(t, conf(address, folder, threeFolders...))
	for at := run.Start[topic]; ; at += 12 {
		var batch []schema.Record
		for o := at; o < at+12; o++ {
			batch = append(batch, byCountry(o))
		}
		run.Put(batch)
		run.FlushTo(topic, run.Committed[topic]+1) // of twelve records more, one makes a file full
	}
}

// opened is a task that has the partition, which it may have to ask for more than once.
func opened(t *testing.T, settings map[string]string) *connectortest.SinkRun {
	t.Helper()
	run := connectortest.NewSinkRun(t, Sink2, nil, settings, true)
	for end := time.Now().Add(time.Minute); ; {
		err := run.Open(topic)
		if err == nil {
			return run
		}
		if !connectors.IsRetriable(err) || time.Now().After(end) {
			t.Fatalf("open: %v", err)
		}
	}
}

// A process that has the partition is killed at a call of each kind, early and late in what a file goes through, and another follows.
func TestAProcessIsKilled(t *testing.T) {
	if address, folder, ok := strings.Cut(os.Getenv(killEnv), " "); ok {
		victim(t, address, folder)
	}
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "kill")
	methods := []string{"mkdirs", "create", "addBlock", "updateBlockForPipeline", "complete", "rename2", "getFileInfo"}
	kills := map[string]int{}
	rounds := max(3, trial.Effort(3))
	for round := range rounds {
		for _, method := range methods {
			w := newWay(t, s.NameNodes[0])
			cmd := exec.Command(os.Args[0], "-test.run=^TestAProcessIsKilled$", "-test.timeout=2m")
			cmd.Env = append(os.Environ(), killEnv+"="+w.addr+" "+folder)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var kill sync.Once
			left := 1 + 4*round%40
			if method == "mkdirs" { // a claim makes two folders, and a commit none where the topic's are there
				left = 1 + round%2
			}
			killed := false
			w.at(func(m string) verdict {
				if m == method {
					left--
				}
				if left > 0 {
					return pass
				}
				kill.Do(func() { killed = cmd.Process.Kill() == nil })
				return cutBefore
			})
			err := cmd.Wait()
			w.at(nil)
			if !killed {
				t.Fatalf("%s, round %d: the process ended by itself: %v\n%s", method, round, err, out.String())
			}
			kills[method]++
		}
	}
	t.Logf("kills: %v", kills)
	for _, method := range methods {
		if kills[method] < rounds {
			t.Errorf("%d kills at %s, want %d", kills[method], method, rounds)
		}
	}
	next, err := life(t, s.NameNodes[0], folder)
	if err != nil {
		t.Fatal(err)
	}
	eachOnce(t, cl, folder, next)
	if n := len(visible(t, cl, folder)); int64(n) < next/12*3 {
		t.Errorf("%d files of %d records", n, next)
	}
	for _, dir := range []string{fmt.Sprintf("/tmp/%s/logs/t/0", folder), fmt.Sprintf("/tmp/%s/topics/+tmp/t/0", folder)} {
		if there, err := cl.ReadDir(dir); err != nil || len(there) != 1 {
			t.Errorf("%s has %d entries, want that of the last task alone: %v", dir, len(there), err)
		}
	}
}
