package log_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
)

// output runs a foreign client and returns what it prints.
func output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

func TestKcatIsAMemberOfAGroup(t *testing.T) {
	kcat := peers.Kcat(t)
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 3, 300)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	consume := func() *exec.Cmd {
		return exec.CommandContext(ctx, kcat, "-b", l.Addr(), "-G", "g", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000",
			"-X", "auto.commit.interval.ms=100", "-f", "%s\n", "-c", "300", "t")
	}
	values := strings.Fields(output(t, consume()))
	seen := map[string]bool{}
	for _, v := range values {
		seen[v] = true
	}
	if len(values) != 300 || len(seen) != 300 {
		t.Fatalf("%d values, %d different", len(values), len(seen))
	}
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	within(t, time.Minute, "kcat has left", func() bool { return described(t, adm, "g").State == "Empty" })
	if n := lag(t, adm, "g", "t"); n != 0 {
		t.Errorf("kcat committed all but %d", n)
	}
	// The next member goes on where it stopped.
	fill(t, l.Addr(), "t", 3, 300)
	if again := strings.Fields(output(t, consume())); len(again) != 300 {
		t.Errorf("the second run has %d values", len(again))
	}
	if n := lag(t, adm, "g", "t"); n != 0 {
		t.Errorf("the second run committed all but %d", n)
	}
}

func TestJavaToolsAndConsumersUseGroups(t *testing.T) {
	java := peers.KafkaTools(t)
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 3, 300)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	consume := func(protocol string, n int, more ...string) []string {
		args := append([]string{"--bootstrap-server", l.Addr(), "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000",
			"--command-property", "partition.assignment.strategy=org.apache.kafka.clients.consumer." + protocol}, more...)
		return strings.Fields(output(t, java.Command(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", args...)))
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
	if got := consume("RangeAssignor", 300); len(got) != 300 {
		t.Fatalf("%d values", len(got))
	}
	fill(t, l.Addr(), "t", 3, 30)
	if got := consume("CooperativeStickyAssignor", 30, "--command-property", "group.instance.id=one"); len(got) != 30 {
		t.Fatalf("%d values of the second run", len(got))
	}
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(l.Addr())))
	// A static member does not leave by itself; an administrator removes it.
	if _, err := adm.LeaveGroup(ctx, kadm.LeaveGroup("g").InstanceIDs("one")); err != nil {
		t.Fatal(err)
	}

	matches("list", groups("--list"), `(?m)^g$`)
	matches("list with states", groups("--list", "--state"), `(?m)^g\s+Empty`)
	matches("describe", groups("--describe", "--group", "g"), `(?m)^g\s+t\s+0\s+110\s+110\s+0`)
	matches("describe the state", groups("--describe", "--group", "g", "--state"), `(?m)^g\s+\S+.*Empty\s+0`)
	matches("reset", groups("--reset-offsets", "--group", "g", "--topic", "t:1", "--to-offset", "7", "--execute"), `(?m)^g\s+t\s+1\s+7\s*$`)
	matches("describe after the reset", groups("--describe", "--group", "g"), `(?m)^g\s+t\s+1\s+7\s+110\s+103`)
	matches("delete offsets", groups("--delete-offsets", "--group", "g", "--topic", "t:2"), `(?m)^t\s+2\s+Successful`)
	within(t, time.Minute, "one offset is gone", func() bool {
		os, err := adm.FetchOffsets(ctx, "g")
		return err == nil && len(os["t"]) == 2
	})

	// Kafka's own reader of the topic understands our records.
	format := func(name string) string {
		return output(t, java.Command(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", l.Addr(), "--topic", "__consumer_offsets",
			"--from-beginning", "--timeout-ms", "5000", "--formatter", "org.apache.kafka.tools.consumer."+name))
	}
	offsets := format("OffsetsMessageFormatter")
	matches("the offsets formatter", offsets, `"group":"g","topic":"t","partition":1.*"offset":7,`)
	matches("the offsets formatter", offsets, `"group":"g","topic":"t","partition":2\}.*null`)
	metadata := format("GroupMetadataMessageFormatter")
	matches("the group formatter", metadata, `"group":"g".*"protocolType":"consumer".*"protocol":"range"`)
	matches("the group formatter", metadata, `"groupInstanceId":"one"`)

	matches("delete", groups("--delete", "--group", "g"), `Deletion of requested consumer groups .*'g'.* was successful`)
	if out := groups("--list"); strings.Contains(out, "g\n") {
		t.Errorf("the group is still listed: %s", out)
	}
}
