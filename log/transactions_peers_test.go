package log_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/log"
)

// Java's clients write in transactions and read them, and Kafka's tools for transactions say what is so.
func TestJavaTransactions(t *testing.T) {
	java := peers.KafkaTools(t)
	l := tcpLog(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := l.Admin().CreateTopic(ctx, 3, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	matches := func(what, out, pattern string) {
		t.Helper()
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("%s does not say %q:\n%s", what, pattern, out)
		}
	}
	tool := func(args ...string) string {
		t.Helper()
		return output(t, java.Command(ctx, "org.apache.kafka.tools.TransactionsCommand", append([]string{"--bootstrap-server", l.Addr()}, args...)...))
	}

	out := output(t, java.Command(ctx, "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
		"--bootstrap-server", l.Addr(), "--transactional-id", "perf", "--transaction-duration-ms", "20", "--command-property", "acks=all"))
	matches("ProducerPerformance", out, `20000 records sent`)
	all := strings.Fields(output(t, java.Command(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", l.Addr(), "--topic", "t", "--from-beginning",
		"--isolation-level", "read_committed", "--max-messages", "20000", "--timeout-ms", "60000")))
	if len(all) != 20000 {
		t.Errorf("%d records are committed", len(all))
	}
	described, err := l.Admin().DescribeTransactions(ctx, "perf")
	if err != nil || described["perf"].State != "CompleteCommit" || described["perf"].ProducerEpoch == 0 {
		t.Errorf("perf is %+v, %v", described["perf"], err)
	}
	if described["perf"].ProducerEpoch < 2 {
		t.Errorf("20000 records took %d transactions", described["perf"].ProducerEpoch)
	}

	// What is open, and who has it open.
	cl := client(t, kgo.SeedBrokers(l.Addr()), kgo.TransactionalID("open"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(10*time.Minute))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for part := range int32(2) {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: part, Value: []byte("open")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	matches("list", tool("list"), fmt.Sprintf(`(?m)^open\s+\d+\s+%d\s+Ongoing`, pid))
	matches("list", tool("list"), `(?m)^perf\s+\d+\s+\d+\s+CompleteCommit`)
	matches("describe", tool("describe", "--transactional-id", "open"), fmt.Sprintf(`open\s+%d\s+%d\s+Ongoing\s+600000\s+\d+\s+\d+\s+(t-0,t-1|t-1,t-0)`, pid, epoch))
	matches("describe-producers", tool("describe-producers", "--topic", "t", "--partition", "0"), fmt.Sprintf(`(?m)^%d\s+%d\s+-1\s+0\s+\d+\s+\d+\s*$`, pid, epoch))
	if out := tool("find-hanging", "--topic", "t", "--max-transaction-timeout", "15"); strings.Contains(out, fmt.Sprint(pid)) {
		t.Errorf("a transaction that is open counts as hanging: %s", out)
	}

	// An operator aborts it: everywhere, and its producer is fenced.
	start := int64(-1)
	producers, err := l.Admin().DescribeProducers(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range producers.SortedProducers() {
		if p.ProducerID == pid && p.Partition == 0 {
			start = p.CurrentTxnStartOffset
		}
	}
	tool("abort", "--topic", "t", "--partition", "0", "--start-offset", fmt.Sprint(start))
	within(t, time.Minute, "it is aborted", func() bool {
		ts, err := l.Admin().DescribeTransactions(ctx, "open")
		return err == nil && ts["open"].State == "CompleteAbort"
	})
	ends, err := l.Admin().ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	stable, err := l.Admin().ListCommittedOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	for part, o := range ends["t"] {
		if s := stable["t"][part].Offset; s != o.Offset {
			t.Errorf("partition %d ends at %d and is stable to %d", part, o.Offset, s)
		}
	}
	if err := log.EndTransaction(ctx, cl, kgo.TryCommit); err == nil {
		t.Error("it was committed")
	}

	// Kafka's own reader of the topic understands our records.
	state := output(t, java.Command(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", l.Addr(), "--topic", "__transaction_state",
		"--from-beginning", "--timeout-ms", "5000", "--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"))
	matches("the formatter", state, fmt.Sprintf(`"transactionalId":"open"\}\},"value":\{"version":1,"data":\{"producerId":%d,[^{]*"transactionStatus":"Ongoing","transactionPartitions":\[\{"topic":"t"`, pid))
	matches("the formatter", state, `"transactionalId":"perf"\}\},"value":[^}]*"transactionStatus":"CompleteCommit"`)
}
