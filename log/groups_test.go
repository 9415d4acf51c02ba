package log_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log"
	"millrace/log/internal/vfs"
	"millrace/log/logtest"
)

// tcpLog is an embedded log that listens on a free port.
func tcpLog(t testing.TB) *log.Log {
	t.Helper()
	l, err := log.Open(t.Context(), log.Config{DataDir: t.TempDir(), Listeners: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}

func client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// fill makes a topic and writes records 0 to n-1 into it, spread over its partitions.
func fill(t testing.TB, addr, topic string, partitions int32, n int) {
	t.Helper()
	cl := client(t, kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if r, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil && !errors.Is(r.Err, kerr.TopicAlreadyExists) {
		t.Fatal(err)
	}
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d", i)})
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consumed collects values that group members saw.
type consumed struct {
	mu     sync.Mutex
	values map[string]int
}

func (c *consumed) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.values)
}

// consume runs a member of a group until ctx ends. It commits what it has processed, also before it gives partitions up. A member that
// dies does not leave.
func (c *consumed) consume(ctx context.Context, opts ...kgo.Opt) error {
	opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(15*time.Second), kgo.BlockRebalanceOnPoll())
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for {
		fs := cl.PollRecords(ctx, 50)
		if ctx.Err() != nil {
			return nil
		}
		c.mu.Lock()
		fs.EachRecord(func(r *kgo.Record) { c.values[string(r.Value)]++ })
		c.mu.Unlock()
		// A commit that a rebalance refuses is no loss: whoever gets the partition reads the records again.
		cl.CommitUncommittedOffsets(ctx)
		cl.AllowRebalance()
	}
}

func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", limit, what)
		}
	}
}

// described is the group as an administrator sees it.
func described(t testing.TB, adm *kadm.Client, group string) kadm.DescribedGroup {
	t.Helper()
	gs, err := adm.DescribeGroups(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	return gs[group]
}

// lag is what a group has not committed yet, -1 while that cannot be told.
func lag(t testing.TB, adm *kadm.Client, group, topic string) int64 {
	t.Helper()
	ls, err := adm.Lag(t.Context(), group)
	l := ls[group]
	if err != nil || l.Error() != nil {
		return -1
	}
	n := int64(0)
	for _, p := range l.Lag[topic] {
		if p.Lag < 0 {
			return -1
		}
		n += p.Lag
	}
	return n
}

func TestConsumersShareATopicAsMembersComeAndGo(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			l := tcpLog(t)
			const records = 3000
			fill(t, l.Addr(), "t", 6, records)
			adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
			seen := consumed{values: map[string]int{}}
			var members sync.WaitGroup
			defer members.Wait()
			start := func(opts ...kgo.Opt) context.CancelFunc {
				ctx, stop := context.WithCancel(t.Context())
				members.Go(func() {
					if err := seen.consume(ctx, append(opts, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(balancer))...); err != nil {
						t.Error(err)
					}
				})
				return stop
			}
			size := func(n int) func() bool {
				return func() bool {
					g := described(t, adm, "g")
					owned := 0
					for _, m := range g.Members {
						if c, ok := m.Assigned.AsConsumer(); ok {
							for _, top := range c.Topics {
								owned += len(top.Partitions)
							}
						}
					}
					return g.State == "Stable" && len(g.Members) == n && owned == 6
				}
			}
			// One over TCP and one in memory, which are members like any other.
			stop1 := start(kgo.SeedBrokers(l.Addr()))
			defer stop1()
			within(t, time.Minute, "one member has all partitions", size(1))
			stop2 := start(l.ClientOpts()...)
			defer stop2()
			within(t, time.Minute, "two members share", size(2))
			stop3 := start(kgo.SeedBrokers(l.Addr()))
			within(t, time.Minute, "three members share", size(3))
			fill(t, l.Addr(), "t", 6, records)
			stop3()
			within(t, time.Minute, "the two others have all", size(2))
			within(t, time.Minute, "everything is consumed and committed", func() bool {
				return seen.distinct() == records && lag(t, adm, "g", "t") == 0
			})
			stop1()
			stop2()
			within(t, time.Minute, "the group is empty", func() bool { return described(t, adm, "g").State == "Empty" })
			if n := lag(t, adm, "g", "t"); n != 0 {
				t.Errorf("%d records are uncommitted after all have left", n)
			}
		})
	}
}

// raw sends one request and decodes its answer.
func raw[R kmsg.Response](t testing.TB, cl *kgo.Client, req kmsg.Request) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resp, err := cl.Request(ctx, req)
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// A worker of Kafka Connect, with the requests of its own that a Java worker sends: protocol type connect, the protocols sessioned,
// compatible and default.
type connectWorker struct {
	t     testing.TB
	cl    *kgo.Client
	url   string
	id    string
	gen   int32
	plain []byte // its metadata: i16 version, string url, i64 config offset
}

func newConnectWorker(t testing.TB, addr, url string) *connectWorker {
	b := []byte{0, 0, 0, byte(len(url))}
	b = append(b, url...)
	return &connectWorker{t: t, cl: client(t, kgo.SeedBrokers(addr), kgo.ClientID("connect-1")), url: url, plain: append(b, 0, 0, 0, 0, 0, 0, 0, 7)}
}

func (w *connectWorker) join() *kmsg.JoinGroupResponse {
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = "connect-cluster", w.id, "connect"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
		for i, name := range []string{"sessioned", "compatible", "default"} {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, append([]byte{0, byte(2 - i)}, w.plain[2:]...)
			req.Protocols = append(req.Protocols, p)
		}
		resp := raw[*kmsg.JoinGroupResponse](w.t, w.cl, req)
		w.id = resp.MemberID
		if resp.ErrorCode == kerr.MemberIDRequired.Code {
			continue
		}
		if resp.ErrorCode != 0 {
			w.t.Fatalf("%s joins: %v", w.url, kerr.ErrorForCode(resp.ErrorCode))
		}
		w.gen = resp.Generation
		return resp
	}
}

func (w *connectWorker) sync(assignments map[string][]byte) []byte {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "connect-cluster", w.id, w.gen
	req.ProtocolType, req.Protocol = kmsg.StringPtr("connect"), kmsg.StringPtr("sessioned")
	for id, a := range assignments {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: a})
	}
	resp := raw[*kmsg.SyncGroupResponse](w.t, w.cl, req)
	if resp.ErrorCode != 0 || resp.ProtocolType == nil || *resp.ProtocolType != "connect" || *resp.Protocol != "sessioned" {
		w.t.Fatalf("%s syncs: %+v", w.url, resp)
	}
	return resp.MemberAssignment
}

func (w *connectWorker) heartbeat() error {
	resp := raw[*kmsg.HeartbeatResponse](w.t, w.cl, &kmsg.HeartbeatRequest{Group: "connect-cluster", MemberID: w.id, Generation: w.gen})
	return kerr.ErrorForCode(resp.ErrorCode)
}

func TestConnectWorkersRebalanceOverTCP(t *testing.T) {
	l := tcpLog(t)
	a, b := newConnectWorker(t, l.Addr(), "http://a:8083/"), newConnectWorker(t, l.Addr(), "http://b:8083/")

	began := time.Now()
	j := a.join()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a first worker waited %s", took)
	}
	if j.LeaderID != a.id || *j.Protocol != "sessioned" || *j.ProtocolType != "connect" || len(j.Members) != 1 || !bytes.Equal(j.Members[0].ProtocolMetadata[2:], a.plain[2:]) {
		t.Fatalf("first join: %+v", j)
	}
	if got := a.sync(map[string][]byte{a.id: []byte("all tasks")}); string(got) != "all tasks" {
		t.Fatalf("a has %q", got)
	}

	// The second worker's join waits until the first has heard of it.
	joined := make(chan *kmsg.JoinGroupResponse, 1)
	go func() { joined <- b.join() }()
	within(t, time.Minute, "the first worker hears of the second", func() bool { return errors.Is(a.heartbeat(), kerr.RebalanceInProgress) })
	select {
	case <-joined:
		t.Fatal("the second worker was let in without the first")
	default:
	}
	j = a.join()
	jb := <-joined
	if j.Generation != jb.Generation || len(j.Members) != 2 || len(jb.Members) != 0 || jb.LeaderID != a.id {
		t.Fatalf("second generation: %+v and %+v", j, jb)
	}
	got := make(chan []byte, 1)
	go func() { got <- b.sync(nil) }()
	if s := a.sync(map[string][]byte{a.id: []byte("task 0"), b.id: []byte("task 1")}); string(s) != "task 0" {
		t.Fatalf("a has %q", s)
	}
	if s := <-got; string(s) != "task 1" {
		t.Fatalf("b has %q", s)
	}
	if err := errors.Join(a.heartbeat(), b.heartbeat()); err != nil {
		t.Fatalf("heartbeats of a stable group: %v", err)
	}

	// The leader leaves, and the other has everything at once.
	leave := raw[*kmsg.LeaveGroupResponse](t, a.cl, &kmsg.LeaveGroupRequest{Version: 5, Group: "connect-cluster", MemberID: a.id, Members: []kmsg.LeaveGroupRequestMember{{MemberID: a.id}}})
	if leave.ErrorCode != 0 || leave.Members[0].ErrorCode != 0 {
		t.Fatalf("leave: %+v", leave)
	}
	if err := b.heartbeat(); !errors.Is(err, kerr.RebalanceInProgress) {
		t.Fatalf("the one that stays hears %v", err)
	}
	if j = b.join(); j.LeaderID != b.id || len(j.Members) != 1 {
		t.Fatalf("third generation: %+v", j)
	}
	if s := b.sync(map[string][]byte{b.id: []byte("all tasks")}); string(s) != "all tasks" {
		t.Fatalf("b has %q", s)
	}
	d := described(t, kadm.NewClient(b.cl), "connect-cluster")
	if d.State != "Stable" || d.ProtocolType != "connect" || len(d.Members) != 1 || !strings.HasPrefix(d.Members[0].ClientHost, "/127.0.0.1") || d.Members[0].ClientID != "connect-1" {
		t.Fatalf("%+v", d)
	}
}

// TestBrokerProcess is no test: it is the process that TestGroupOutlivesKillsOfTheBroker kills.
func TestBrokerProcess(t *testing.T) {
	dir, addr, ok := strings.Cut(os.Getenv("MILLRACE_TEST_BROKER"), ",")
	if !ok {
		t.Skip("runs as a process of its own, under another test")
	}
	l, err := log.Open(t.Context(), log.Config{DataDir: dir, Listeners: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("broker at %s\n", l.Addr())
	<-make(chan struct{})
}

// broker starts the broker in a process of its own, and returns its address.
func broker(t testing.TB, dir, addr string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBrokerProcess$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_BROKER="+dir+","+addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var line []byte
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, b...) {
		if _, err := out.Read(b); err != nil {
			t.Fatalf("broker did not start: %v, %q", err, line)
		}
	}
	at, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "broker at ")
	if !ok {
		t.Fatalf("broker says %q", line)
	}
	return cmd, at
}

// TestGroupOutlivesKillsOfTheBroker kills the broker's process while members come and go, in each phase of a rebalance. Members over
// TCP stay members, everything is consumed, and what was committed stays committed.
func TestGroupOutlivesKillsOfTheBroker(t *testing.T) {
	dir := t.TempDir()
	cmd, addr := broker(t, dir, "127.0.0.1:0")
	const records = 2000
	fill(t, addr, "t", 4, records)
	seen := consumed{values: map[string]int{}}
	var members sync.WaitGroup
	ctx, stopAll := context.WithCancel(t.Context())
	defer members.Wait()
	defer stopAll()
	start := func() context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		members.Go(func() {
			err := seen.consume(ctx, kgo.SeedBrokers(addr), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.CooperativeStickyBalancer()),
				kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
			if err != nil {
				t.Error(err)
			}
		})
		return stop
	}
	defer start()()
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(addr), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })))
	phases := map[string]int{}
	var committed map[int32]int64
	for _, phase := range []string{"PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "PreparingRebalance", "Stable", "PreparingRebalance", "Stable", "CompletingRebalance"} {
		stop := start()
		// Rebalances are short. What is asked for is waited for; what is met counts.
		met := ""
		for deadline := time.Now().Add(2 * time.Second); met != phase && time.Now().Before(deadline); {
			gs, err := adm.DescribeGroups(t.Context(), "g")
			if err == nil {
				met = gs["g"].State
			}
		}
		phases[met]++
		cmd.Process.Kill()
		cmd.Wait()
		cmd, _ = broker(t, dir, addr)
		stop()
		// Offsets never go back.
		within(t, time.Minute, "offsets can be read", func() bool {
			os, err := adm.FetchOffsets(t.Context(), "g")
			if err != nil || os.Error() != nil {
				return false
			}
			now := map[int32]int64{}
			for _, o := range os["t"] {
				now[o.Partition] = o.At
			}
			for p, o := range committed {
				if now[p] < o {
					t.Errorf("partition %d: offset %d was committed, %d is left after a kill in %s", p, o, now[p], met)
				}
			}
			committed = now
			return true
		})
	}
	t.Logf("killed in %v", phases)
	within(t, time.Minute, "everything is consumed and committed", func() bool { return seen.distinct() == records && lag(t, adm, "g", "t") == 0 })
	stopAll()
	members.Wait()
	within(t, time.Minute, "the group is empty", func() bool { return described(t, adm, "g").State == "Empty" })
	if phases["PreparingRebalance"]+phases["CompletingRebalance"] == 0 {
		t.Errorf("no kill met a rebalance: %v", phases)
	}
	if !slices.Contains([]string{"Empty", "Dead"}, described(t, adm, "g").State) {
		t.Error("members are left")
	}
}

func TestOffsetsOfADeletedTopicAreNotThoseOfItsSuccessor(t *testing.T) {
	l := logtest.New(t)
	adm := kadm.NewClient(client(t, l.ClientOpts()...))
	var os kadm.Offsets
	for _, topic := range []string{"gone", "stays"} {
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		os.AddOffset(topic, 0, 5, -1)
	}
	if err := adm.CommitAllOffsets(t.Context(), "g", os); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopic(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "gone"); err != nil {
		t.Fatal(err)
	}
	got, err := adm.FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got["stays"][0].At != 5 {
		t.Errorf("%+v", got)
	}
}

// TestMembersInMemoryEndWithTheirProcess kills the process of a log that has members of both kinds. Nothing waits for those that
// died with it.
func TestMembersInMemoryEndWithTheirProcess(t *testing.T) {
	m := vfs.NewMem()
	start := func() *log.Log {
		return logtest.New(t, func(cfg *log.Config) { cfg.FS, cfg.Listeners = m, []string{"127.0.0.1:0"} })
	}
	member := func(l *log.Log, group string, opts ...kgo.Opt) {
		cl := client(t, append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(45*time.Second),
			kgo.RetryTimeout(2*time.Second))...) // at the end, nobody answers those that want to leave
		ctx, cancel := context.WithCancel(t.Context())
		var polling sync.WaitGroup
		polling.Go(func() {
			for ctx.Err() == nil {
				cl.PollFetches(ctx)
			}
		})
		t.Cleanup(func() { cancel(); polling.Wait() })
	}
	stable := func(adm *kadm.Client, group string, n int) func() bool {
		return func() bool {
			g := described(t, adm, group)
			return g.State == "Stable" && len(g.Members) == n
		}
	}
	l := start()
	fill(t, l.Addr(), "t", 4, 4)
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	member(l, "mixed", l.ClientOpts()...)
	member(l, "mixed", kgo.SeedBrokers(l.Addr()))
	member(l, "inside", l.ClientOpts()...)
	within(t, time.Minute, "the groups are there", func() bool { return stable(adm, "mixed", 2)() && stable(adm, "inside", 1)() })

	m = m.Kill()
	l = start()
	adm = kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	if g := described(t, adm, "inside"); g.State != "Empty" {
		t.Errorf("the group that was inside: %+v", g)
	}
	if g := described(t, adm, "mixed"); len(g.Members) != 1 || !strings.HasPrefix(g.Members[0].ClientHost, "/127.0.0.1") || g.State != "PreparingRebalance" {
		t.Errorf("the mixed group: %+v", g)
	}
	began := time.Now()
	member(l, "inside", l.ClientOpts()...)
	within(t, time.Minute, "a new member has everything", stable(adm, "inside", 1))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a new member waited %s for the old one", took)
	}
}
