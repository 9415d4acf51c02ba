package log_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
)

// Clients of the newer consumer protocol (KIP-848): the coordinator assigns, members say everything in heartbeats.

func consumerGroup(t testing.TB, adm *kadm.Client, group string) kadm.DescribedConsumerGroup {
	t.Helper()
	gs, err := adm.DescribeConsumerGroups(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	return gs[group]
}

// settled reports whether a group has so many members, and each has what it is to have.
func settled(t testing.TB, adm *kadm.Client, group string, members int) bool {
	t.Helper()
	g := consumerGroup(t, adm, group)
	return g.State == "Stable" && len(g.Members) == members
}

// behind is what a group has not committed yet of a topic, -1 while that cannot be told. (kadm's Lag knows classic groups only.)
func behind(t testing.TB, adm *kadm.Client, group, topic string) int64 {
	t.Helper()
	committed, err := adm.FetchOffsets(t.Context(), group)
	if err != nil {
		return -1
	}
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	ends.Each(func(e kadm.ListedOffset) {
		o, ok := committed.Lookup(e.Topic, e.Partition)
		if ok {
			sum += e.Offset - o.At
		} else {
			sum += e.Offset
		}
	})
	return sum
}

func TestFranzGoIsAMemberOfTheNewerProtocol(t *testing.T) {
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 6, 600)
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	c := &consumed{values: map[string]int{}}
	newer := []kgo.Opt{kgo.SeedBrokers(l.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	var wg sync.WaitGroup
	defer wg.Wait()
	start := func(opts ...kgo.Opt) context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := c.consume(ctx, append(slices.Clone(newer), opts...)...); err != nil {
				t.Error(err)
			}
		})
		return stop
	}
	first := start()
	defer first()
	within(t, time.Minute, "one member has all", func() bool { return settled(t, adm, "g", 1) && c.distinct() == 600 })
	second := start(kgo.InstanceID("two"))
	defer second()
	within(t, time.Minute, "two share", func() bool { return settled(t, adm, "g", 2) })
	for _, m := range consumerGroup(t, adm, "g").Members {
		if n := len(m.Assignment["t"]); n != 3 {
			t.Errorf("member %s has %d partitions of 6", m.MemberID, n)
		}
	}
	fill(t, l.Addr(), "t", 6, 900)
	within(t, time.Minute, "what came since is read and committed", func() bool { return c.distinct() == 900 && behind(t, adm, "g", "t") == 0 })

	if _, err := adm.CreatePartitions(t.Context(), 2, "t"); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "new partitions are shared out, too", func() bool {
		g := consumerGroup(t, adm, "g")
		return g.State == "Stable" && len(g.Members) == 2 && len(g.Members[0].Assignment["t"]) == 4 && len(g.Members[1].Assignment["t"]) == 4
	})
	if g := consumerGroup(t, adm, "g"); g.AssignorName != "uniform" || g.Epoch != g.AssignmentEpoch {
		t.Errorf("%+v", g)
	}

	first()
	within(t, time.Minute, "one is left", func() bool { return settled(t, adm, "g", 1) })
	// A static member does not leave: it keeps its place until its session ends.
	second()
	wg.Wait()
	if g := consumerGroup(t, adm, "g"); len(g.Members) != 1 || len(g.Members[0].Assignment["t"]) != 8 {
		t.Errorf("%+v", g.Members)
	}
	ls, err := adm.ListGroups(t.Context())
	if err != nil || ls["g"].ProtocolType != "consumer" {
		t.Errorf("%v, %v", ls, err)
	}
}

func TestAGroupMovesToTheNewerProtocolAndBackWhileItRuns(t *testing.T) {
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 4, 400)
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	c := &consumed{values: map[string]int{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	start := func(opts ...kgo.Opt) context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		opts = append(opts, kgo.SeedBrokers(l.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))
		wg.Go(func() {
			if err := c.consume(ctx, opts...); err != nil {
				t.Error(err)
			}
		})
		return stop
	}
	classic := []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	a, b := start(classic...), start(classic...)
	defer a()
	defer b()
	within(t, time.Minute, "two classic members", func() bool {
		g := described(t, adm, "g")
		return g.State == "Stable" && len(g.Members) == 2
	})
	n := start(kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	defer n()
	within(t, time.Minute, "three members of both kinds", func() bool { return settled(t, adm, "g", 3) })
	fill(t, l.Addr(), "t", 4, 800)
	within(t, time.Minute, "all is read", func() bool { return c.distinct() == 800 && behind(t, adm, "g", "t") == 0 })
	a()
	b()
	within(t, time.Minute, "one of the newer kind", func() bool { return settled(t, adm, "g", 1) })
	d := start(classic...)
	defer d()
	within(t, time.Minute, "a classic one joins", func() bool { return settled(t, adm, "g", 2) })
	n()
	within(t, time.Minute, "a classic group", func() bool {
		g := described(t, adm, "g")
		return g.State == "Stable" && len(g.Members) == 1
	})
	fill(t, l.Addr(), "t", 4, 1200)
	within(t, time.Minute, "all is read by it", func() bool { return c.distinct() == 1200 && behind(t, adm, "g", "t") == 0 })
	d()
}

func TestJavaConsumersUseTheNewerProtocol(t *testing.T) {
	java := peers.KafkaTools(t)
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 3, 300)
	fill(t, l.Addr(), "t2", 2, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	consumer := func(n int, more ...string) *exec.Cmd {
		args := append([]string{"--bootstrap-server", l.Addr(), "--group", "g", "--from-beginning", "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000",
			"--command-property", "group.protocol=consumer"}, more...)
		return java.Command(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", args...)
	}
	groups := func(args ...string) string {
		return output(t, java.Command(ctx, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", append([]string{"--bootstrap-server", l.Addr()}, args...)...))
	}
	matches := func(what, out, pattern string) {
		t.Helper()
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("%s does not say %q:\n%s", what, pattern, out)
		}
	}
	if got := strings.Fields(output(t, consumer(300, "--topic", "t", "--command-property", "group.remote.assignor=range"))); len(got) != 300 {
		t.Fatalf("%d values", len(got))
	}
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	within(t, time.Minute, "it has left, and committed", func() bool { return settled(t, adm, "g", 0) || consumerGroup(t, adm, "g").State == "Empty" })
	if n := behind(t, adm, "g", "t"); n != 0 {
		t.Errorf("all but %d is committed", n)
	}
	matches("list", groups("--list", "--type", "consumer", "--state"), `(?m)^g\s+.*Empty`)

	configs := func(args ...string) string {
		return output(t, java.Command(ctx, "org.apache.kafka.tools.ConfigCommand", append([]string{"--bootstrap-server", l.Addr(), "--entity-type", "groups", "--entity-name", "g"}, args...)...))
	}
	configs("--alter", "--add-config", "consumer.heartbeat.interval.ms=5500,consumer.session.timeout.ms=46000")
	matches("configs", configs("--describe"), `consumer\.session\.timeout\.ms=46000 .*DYNAMIC_GROUP_CONFIG:consumer\.session\.timeout\.ms=46000`)

	// A regex is resolved by the coordinator.
	cmd := consumer(100, "--include", "t[2-9]?")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for sc := bufio.NewScanner(out); sc.Scan(); {
		lines++
	}
	if err := cmd.Wait(); err != nil || lines != 100 {
		t.Errorf("%d values by a regex, %v", lines, err)
	}

	// What an administrator sees of a member that runs.
	ctx2, stop := context.WithCancel(ctx)
	defer stop()
	running := java.Command(ctx2, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", l.Addr(), "--group", "g", "--topic", "t",
		"--command-property", "group.protocol=consumer", "--command-property", "group.instance.id=one", "--command-property", "client.id=runs")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	defer running.Wait()
	defer stop()
	within(t, time.Minute, "it has a member", func() bool { return settled(t, adm, "g", 1) })
	matches("describe members", groups("--describe", "--group", "g", "--members", "--verbose"), `(?m)^g\s+\S+\s+one\s+.*runs\s+3\s+`)
	matches("describe the state", groups("--describe", "--group", "g", "--state"), `(?m)^g\s+\S+.*uniform\s+Stable\s+1`)
	matches("describe", groups("--describe", "--group", "g"), `(?m)^g\s+t\s+0\s+100\s+100\s+0\s+\S+`)
}

// librdkafkaConsumer reads the number of values that it is told from a topic as a member of a group, commits and leaves.
const librdkafkaConsumer = `
import sys
from confluent_kafka import Consumer
addr, topic, group, n = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
c = Consumer({'bootstrap.servers': addr, 'group.id': group, 'group.protocol': 'consumer', 'auto.offset.reset': 'earliest', 'enable.auto.commit': False})
c.subscribe([topic])
seen = set()
while len(seen) < n:
    m = c.poll(60)
    if m is None: raise Exception('nothing more after %d' % len(seen))
    if m.error(): raise Exception(m.error())
    seen.add(m.value())
c.commit(asynchronous=False)
c.close()
print(len(seen))
`

func TestLibrdkafkaIsAMemberOfTheNewerProtocol(t *testing.T) {
	py := peers.PythonClients(t)
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 3, 300)
	fill(t, l.Addr(), "t7", 1, 7)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for topic, n := range map[string]int{"t": 300, "^t7.*": 7} {
		if got := strings.TrimSpace(py.Run(ctx, t, librdkafkaConsumer, l.Addr(), topic, "g", fmt.Sprint(n))); got != fmt.Sprint(n) {
			t.Errorf("%s: %s values", topic, got)
		}
	}
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	if g := consumerGroup(t, adm, "g"); g.State != "Empty" || g.Epoch < 2 {
		t.Errorf("%+v", g)
	}
	if n := behind(t, adm, "g", "t"); n != 0 {
		t.Errorf("all but %d is committed", n)
	}
}
