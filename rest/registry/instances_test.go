package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime/registry"
	rules "millrace/schema/registry"
)

// wire is the network between one instance and its log, which can be cut: to the group its process is dead then.
type wire struct {
	mu    sync.Mutex // guards the fields below
	conns map[net.Conn]bool
	isCut bool
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.isCut
	w.mu.Unlock()
	if cut {
		return nil, errors.New("the wire is cut")
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
	return c, nil
}

func (w *wire) cut(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = yes
	if yes {
		for c := range w.conns {
			c.Close()
		}
		clear(w.conns)
	}
}

// reach opens a log over a wire of its own.
func reach(t *testing.T, addr string) (*log.Log, *wire) {
	t.Helper()
	w := &wire{conns: map[net.Conn]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	l, err := log.Open(ctx, log.Config{Seeds: []string{addr}, ClientOpts: []kgo.Opt{kgo.Dialer(w.dial), kgo.MetadataMinAge(100 * time.Millisecond)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l, w
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * wait); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

// idOf is the id in an answer.
func idOf(body string) int {
	var e struct{ ID int }
	if json.Unmarshal([]byte(body), &e) != nil {
		return -1
	}
	return e.ID
}

// schemaNumber is one of many schemas that differ.
func schemaNumber(n int) string {
	return fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":"int"}]}`, n)
}

// post registers until it succeeds: while the instances agree on who writes, a client tries again.
func post(t *testing.T, s *server, subject string, n int) int {
	t.Helper()
	var last answer
	until(t, "a registration at "+s.url, func() bool {
		a, err := send(s.url, "POST", "/subjects/"+subject+"/versions", schemaBody(schemaNumber(n)))
		if err != nil {
			t.Fatal(err)
		}
		last = a
		if a.status != 200 && a.status < 500 {
			t.Fatalf("a write without a writer: %d %s", a.status, a.body)
		}
		return a.status == 200
	})
	return idOf(last.body)
}

func leaders(all []*server) (out []*server) {
	for _, s := range all {
		if s.inst.Leads() {
			out = append(out, s)
		}
	}
	return out
}

func TestThreeInstancesAgreeOnOneWriterAndTakeOver(t *testing.T) {
	t.Parallel() // most of it is waiting
	l := logtest.New(t, func(c *log.Config) { c.Listeners = []string{"127.0.0.1:0"} })
	instances(t, l.Addr(), "schema.registry.kafkagroup.session.timeout.ms", "6000")
}

func TestThreeInstancesOnKafkaAgreeOnOneWriterAndTakeOver(t *testing.T) {
	t.Parallel()
	k := peers.Kafka(t)
	name := peers.Unique(t, "registry")
	instances(t, k.Addr, "schema.registry.kafkagroup.session.timeout.ms", "6000", "schema.registry.group.id", name, "schema.registry.kafkastore.topic", name)
}

func instances(t *testing.T, addr string, settings ...string) {
	var all []*server
	var wires []*wire
	for range 3 {
		l, w := reach(t, addr)
		all, wires = append(all, start(t, l, settings...)), append(wires, w)
	}
	ids := map[int]int{} // by schema
	next := 0
	write := func(s *server) {
		t.Helper()
		next++
		ids[next] = post(t, s, fmt.Sprintf("s%d", next), next)
	}
	for range 2 {
		for _, s := range all {
			write(s)
		}
	}
	until(t, "one writer", func() bool { return len(leaders(all)) == 1 })
	for i, want := range []int{1, 2, 3, 4, 5, 6} {
		if ids[i+1] != want {
			t.Errorf("ids %v, want 1 to 6", ids)
			break
		}
	}
	reads := func(s *server, n int) bool {
		a, err := send(s.url, "GET", fmt.Sprintf("/schemas/ids/%d/schema", ids[n]), "")
		if err != nil {
			t.Fatal(err)
		}
		return a.status == 200 && a.body == schemaNumber(n)
	}
	for _, s := range all {
		until(t, "all schemas at "+s.url, func() bool { return reads(s, next) })
	}

	// Most of the time goes by until the group takes a writer for dead; a run with little effort leaves that out.
	if trial.Effort(100) >= 100 {
		afterAHang(t, all, wires, func() int { return next }, write, reads)
	}

	// The writer stops in order: others go on at once.
	var rest []*server
	for _, s := range all {
		if s.inst.Leads() {
			s.close()
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range rest {
		write(s)
	}
	seen := map[int]bool{}
	for n, id := range ids {
		if seen[id] {
			t.Errorf("id %d was given twice, to schema %d for one", id, n)
		}
		seen[id] = true
	}
	for _, s := range rest {
		for n := 1; n <= next; n++ {
			until(t, "every acknowledged schema", func() bool { return reads(s, n) })
		}
	}
}

// afterAHang has the writer's process hang until another has taken over, and come back.
func afterAHang(t *testing.T, all []*server, wires []*wire, last func() int, write func(*server), reads func(*server, int) bool) {
	t.Helper()
	// The writer's process hangs: to the group it is dead, and it does not know.
	dead := 0
	for i, s := range all {
		if s.inst.Leads() {
			dead = i
		}
	}
	wires[dead].cut(true)
	var alive []*server
	for i, s := range all {
		if i != dead {
			alive = append(alive, s)
		}
		for n := 1; n <= last(); n++ {
			if !reads(s, n) {
				t.Errorf("while nobody writes, schema %d is not read at %s", n, s.url)
			}
		}
	}
	for _, s := range alive {
		write(s)
	}
	if got := leaders(alive); len(got) != 1 {
		t.Errorf("%d writers among those that are alive, want 1", len(got))
	}
	// It comes back, as one that hands on.
	wires[dead].cut(false)
	write(all[dead])
	until(t, "what was written meanwhile", func() bool { return reads(all[dead], last()-1) && reads(all[dead], last()) })
	until(t, "one writer", func() bool { return len(leaders(all)) == 1 })

}

func TestWithoutAWriterReadsAreServedAndWritesSayWhy(t *testing.T) {
	l := logtest.New(t)
	first := start(t, l)
	post(t, first, "s", 1)
	first.close()
	s := start(t, l, "schema.registry.leader.eligibility", "false")
	if a := s.send("GET", "/subjects/s/versions", ""); a.body != "[1]" {
		t.Errorf("read: %d %s", a.status, a.body)
	}
	if a := s.send("POST", "/subjects/s/versions", schemaBody(schemaNumber(1))); a.status != 200 {
		t.Errorf("what is there already: %d %s", a.status, a.body)
	}
	if a := s.send("POST", "/subjects/t/versions", schemaBody(schemaNumber(2))); a.status != 500 || !strings.Contains(a.body, "50004") {
		t.Errorf("write: %d %s", a.status, a.body)
	}
}

// A writer that was taken for dead has a decision under way when another takes over.
func TestAWriterThatWasReplacedWritesNothing(t *testing.T) {
	l := logtest.New(t)
	old := start(t, l, "schema.registry.group.id", "one")
	post(t, old, "s", 1)
	decided, goOn := make(chan bool), make(chan bool)
	result := make(chan error, 1)
	go func() {
		result <- old.inst.Decide(t.Context(), false, func(b *rules.Batch) error {
			_, err := b.Register(&rules.Registration{Subject: "stale", Request: &rules.Request{Schema: schemaNumber(2)}})
			close(decided)
			<-goOn
			return err
		})
	}()
	<-decided
	// To take over is to take its transactional id, which is named after the group.
	table, err := l.OpenTable(t.Context(), log.TableOptions{Topic: "_schemas", Partitions: 1, Apply: func([]*kgo.Record) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	w, err := table.OpenWriter(t.Context(), "schema-registry-one")
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-result; !errors.Is(err, registry.ErrNotLeader) {
		t.Errorf("the replaced writer's decision: %v, want that it does not write", err)
	}
	w.Close()
	// It joins again and, being alone, writes again, with the ids that it had not used.
	if id := post(t, old, "fresh", 3); id != 2 {
		t.Errorf("the next id is %d, want 2", id)
	}
	if a := old.send("GET", "/subjects", ""); a.body != `["fresh","s"]` {
		t.Errorf("subjects %s", a.body)
	}
}

func TestManyClientsRegisterAtOnceAndEachSchemaHasOneID(t *testing.T) {
	s := start(t, logtest.New(t))
	const clients, subjects, schemas = 8, 5, 20
	var running sync.WaitGroup
	var mu sync.Mutex
	ids := map[int]map[int]bool{} // by schema
	for c := range clients {
		running.Go(func() {
			for n := range schemas {
				a, err := send(s.url, "POST", fmt.Sprintf("/subjects/s%d-%d/versions", (c+n)%subjects, n), schemaBody(schemaNumber(n)))
				if err != nil || a.status != 200 {
					t.Errorf("%v %d %s", err, a.status, a.body)
					return
				}
				mu.Lock()
				if ids[n] == nil {
					ids[n] = map[int]bool{}
				}
				ids[n][idOf(a.body)] = true
				mu.Unlock()
			}
		})
	}
	running.Wait()
	all := map[int]bool{}
	for n, of := range ids {
		if len(of) != 1 {
			t.Errorf("schema %d got the ids %v", n, of)
		}
		for id := range of {
			all[id] = true
		}
	}
	if len(all) != schemas {
		t.Errorf("%d schemas have %d ids", schemas, len(all))
	}
}

func TestATopicOfTheOriginalIsServedAsItIs(t *testing.T) {
	l := logtest.New(t)
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("_schemas"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := l.EnsureTopic(t.Context(), "_schemas", 1, 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]string{
		{`{"keytype":"NOOP","magic":0}`, ""},
		{`{"keytype":"CONFIG","subject":null,"magic":0}`, `{"compatibilityLevel":"FULL"}`},
		{`{"keytype":"SCHEMA","subject":"s-value","version":1,"magic":1}`, `{"subject":"s-value","version":1,"id":1,"schema":"\"string\"","deleted":false}`},
		{`{"keytype":"SCHEMA","subject":"p","version":1,"magic":1}`, `{"subject":"p","version":1,"id":2,"schemaType":"PROTOBUF","schema":"syntax = \"proto3\";\nmessage M {}\n","deleted":false}`},
		{`{"keytype":"SCHEMA","subject":"old","version":1,"magic":0}`, `{"subject":"old","version":1,"id":3,"md5":"1B2M2Y8AsgTpgAmY7PhCfg==","schemaType":"AVRO","references":[],"metadata":null,"ruleSet":null,"schema":"\"long\"","deleted":false}`},
		{`{"keytype":"DELETE_SUBJECT","subject":"old","magic":0}`, `{"subject":"old","version":1}`},
		{`{"keytype":"MODE","subject":"p","magic":0}`, `{"subject":"p","mode":"READONLY"}`},
		{`{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}`, `{"tenant":"default","context":".c"}`},
		{`{"keytype":"SCHEMA","subject":":.c:x","version":1,"magic":1}`, `{"subject":":.c:x","version":1,"id":7,"schema":"\"int\"","deleted":false}`},
		{`{"keytype":"ASSOC","tenant":"default","resourceName":"r","magic":0}`, `{"subject":"s-value"}`},
	} {
		record := &kgo.Record{Key: []byte(r[0])}
		if r[1] != "" {
			record.Value = []byte(r[1])
		}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, l)
	run(t, s, []step{
		{"subjects", "GET", "/subjects?deleted=true", "", 200, `[":.c:x","old","p","s-value"]`},
		{"level", "GET", "/config", "", 200, `{"compatibilityLevel":"FULL"}`},
		{"a schema of a type that is not registered here", "GET", "/schemas/ids/2", "", 200, `{"deleted":false,"guid":"GUID","schema":"syntax = \"proto3\";\nmessage M {}\n","schemaType":"PROTOBUF","ts":"TS"}`},
		{"a deleted subject", "GET", "/subjects/old/versions?deletedOnly=true", "", 200, `[1]`},
		{"mode", "GET", "/mode/p", "", 200, `{"mode":"READONLY"}`},
		{"contexts", "GET", "/contexts", "", 200, `[".",".c"]`},
		{"ids of the context", "POST", "/contexts/.c/subjects/y/versions", schemaBody(`"double"`), 200, `{"guid":"GUID","id":8,"schema":"\"double\"","version":1}`},
		{"another type than before", "POST", "/compatibility/subjects/p/versions/latest?verbose=true", schemaBody(`"int"`), 200,
			`{"is_compatible":false,"messages":["Incompatible because of different schema type","{oldSchemaVersion: 1}","{oldSchema: 'syntax = \"proto3\";\nmessage M {}\n'}","{validateFields: 'false', compatibility: 'FULL'}"]}`},
		{"the next id", "POST", "/subjects/n/versions", schemaBody(`"double"`), 200, `{"guid":"GUID","id":4,"schema":"\"double\"","version":1}`},
	})
	if a := s.send("GET", "/schemas/ids/3", ""); !strings.Contains(a.body, `"guid":"d41d8cd9-8f00-b204-e980-0998ecf8427e"`) {
		t.Errorf("the guid that the record has: %s", a.body)
	}
}
