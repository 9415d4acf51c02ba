package s3

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// Kills of the process that writes, at every step of an object's life.

// killEnv holds the plan of a process that is killed, as JSON.
const killEnv = "MILLRACE_TEST_S3_KILL"

// killPlan is what a child is told.
type killPlan struct {
	Conf  map[string]string
	Start [2]int64 // offsets of the group
	End   int64    // where it ends by itself; 0: never
}

// killRecord is record o of partition p: those of partition 0 are long, so that its objects are sent in parts.
func killRecord(p int32, o int64) schema.Record {
	size := 10
	if p == 0 {
		size = 600_000
	}
	v := schema.MapValue([]schema.Entry{{Key: schema.StringValue("p"), Value: schema.Int32Value(p)}, {Key: schema.StringValue("n"), Value: schema.Int64Value(o)},
		{Key: schema.StringValue("pad"), Value: schema.StringValue(strings.Repeat("x", size))}})
	return connectortest.At(schema.Record{Value: v}, connectors.TopicPartition{Topic: "t", Partition: p}, o)
}

// victim is the process that is killed. It says on its standard output what its group has committed.
func victim(t *testing.T, text string) {
	var plan killPlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	parts := []connectors.TopicPartition{{Topic: "t", Partition: 0}, {Topic: "t", Partition: 1}}
	run := connectortest.NewSinkRun(t, Sink, nil, plan.Conf, true, parts...)
	at := plan.Start
	for plan.End == 0 || run.Committed[parts[0]] < plan.End || run.Committed[parts[1]] < plan.End {
		for p := range parts {
			var records []schema.Record
			for range 5 {
				records = append(records, killRecord(int32(p), at[p]))
				at[p]++
			}
			run.Put(records)
		}
		if err := run.TryFlush(); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\ncommitted %d %d\n", run.Committed[parts[0]], run.Committed[parts[1]])
	}
}

// killSteps are the requests of an object's life. After means that the server has done it, and the client has no answer.
var killSteps = []struct {
	name  string
	after bool
	is    func(r *http.Request) bool
}{
	{"before an object is put", false, isPut},
	{"after an object is put", true, isPut},
	{"after an upload is begun", true, func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploads") }},
	{"before a part is sent", false, isPart},
	{"after a part is sent", true, isPart},
	{"before an upload is completed", false, isComplete},
	{"after an upload is completed", true, isComplete},
	{"after a commit", false, nil},
}

func isPut(r *http.Request) bool {
	return r.Method == http.MethodPut && !r.URL.Query().Has("partNumber")
}
func isPart(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Has("partNumber")
}
func isComplete(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

const judgeKills = `
import json, sys, collections
from pyarrow import fs
endpoint, key, secret, region, folder = sys.argv[1:6]
s3 = fs.S3FileSystem(access_key=key, secret_key=secret, region=region, endpoint_override=endpoint, scheme="http")
seen = collections.Counter()
for f in s3.get_file_info(fs.FileSelector(folder, recursive=True)):
    if f.is_file:
        for line in s3.open_input_stream(f.path).read().splitlines():
            r = json.loads(line)
            seen[(r["p"], r["n"])] += 1
for p in (0, 1):
    numbers = sorted(n for q, n in seen if q == p)
    print(p, len(numbers), numbers[-1] if numbers else -1, sum(1 for (q, _), c in seen.items() if q == p and c > 1))
`

func TestKillsWhileObjectsAreWritten(t *testing.T) {
	if text := os.Getenv(killEnv); text != "" {
		victim(t, text)
		return
	}
	server, python := peers.S3(t), peers.PythonClients(t)
	f := front(t, server)
	folder := peers.Unique(t, "kills")
	plan := killPlan{Conf: conf(&f.S3Server, folder, "flush.size", "10", "s3.part.size", "5242880")}
	rounds := trial.Effort(3)
	for round := range rounds {
		for _, step := range killSteps {
			plan.Start = killAt(t, f, plan, step.name, step.after, step.is)
			if t.Failed() {
				t.Fatalf("in round %d, %s", round, step.name)
			}
		}
	}
	plan.End = max(plan.Start[0], plan.Start[1]) + 20
	f.set(func() { f.before = nil })
	committed := child(t, plan, func([2]int64) bool { return false })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	said := strings.Fields(python.Run(ctx, t, judgeKills, strings.TrimPrefix(server.URL, "http://"), server.AccessKey, server.SecretKey, server.Region, server.Bucket+"/"+folder))
	for p := range 2 {
		var got [4]int64
		for i := range got {
			got[i], _ = strconv.ParseInt(said[4*p+i], 10, 64)
		}
		if records, last, twice := got[1], got[2], got[3]; records != last+1 || twice != 0 || last+1 < committed[p] {
			t.Errorf("partition %d: %d records, the last is %d, %d stand there twice; committed is %d", p, records, last, twice, committed[p])
		}
	}
	uploads(t, server, folder, 0)
	t.Logf("%d kills, %d at each of %d steps; committed %v", rounds*len(killSteps), rounds, len(killSteps), committed)
}

// killAt runs a child until it comes to a step, kills it there, and returns what its group had committed.
func killAt(t *testing.T, f *fault, plan killPlan, name string, after bool, is func(*http.Request) bool) [2]int64 {
	t.Helper()
	var reached, killed atomic.Bool
	dead := make(chan struct{})
	kill := make(chan struct{})
	f.set(func() {
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if is == nil || !is(r) || !reached.CompareAndSwap(false, true) {
				return false
			}
			if after {
				f.proxy.ServeHTTP(httptest.NewRecorder(), r)
			} else {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			close(kill)
			<-dead
			panic(http.ErrAbortHandler)
		}
	})
	commits := 0
	committed := childUntil(t, plan, kill, dead, func([2]int64) bool {
		commits++
		return is == nil && commits == 2
	}, &killed)
	if !killed.Load() {
		t.Errorf("%s: it was not killed", name)
	}
	return committed
}

// child runs a child to its end, or until stop says so of what is committed.
func child(t *testing.T, plan killPlan, stop func([2]int64) bool) [2]int64 {
	t.Helper()
	var killed atomic.Bool
	return childUntil(t, plan, nil, make(chan struct{}), stop, &killed)
}

// childUntil runs a child until it ends or is killed: when kill is closed, or stop says so. Then dead is closed.
func childUntil(t *testing.T, plan killPlan, kill <-chan struct{}, dead chan<- struct{}, stop func([2]int64) bool, killed *atomic.Bool) [2]int64 {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestKillsWhileObjectsAreWritten$", "-test.count", "1")
	cmd.Env = append(os.Environ(), killEnv+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-kill:
			killed.Store(true)
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	committed := plan.Start
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var now [2]int64
		if n, _ := fmt.Sscanf(lines.Text(), "committed %d %d", &now[0], &now[1]); n != 2 {
			fmt.Fprintln(&said, lines.Text())
			continue
		}
		for p := range now {
			committed[p] = max(committed[p], now[p])
		}
		if stop(now) {
			killed.Store(true)
			_ = cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	close(dead)
	if err != nil && !killed.Load() {
		t.Errorf("the child: %v\n%s", err, said.String())
	}
	return committed
}
