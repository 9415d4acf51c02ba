package log_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// The rest of Kafka's tools: what each says when all is well, and how those cope that ask for what a lone broker does not have.
func TestKafkasOtherTools(t *testing.T) {
	java := peers.KafkaTools(t)
	l := tcpLog(t)
	fill(t, l.Addr(), "t", 2, 100)
	tool := func(class string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		out, err := java.Command(ctx, "org.apache.kafka.tools."+class, args...).CombinedOutput()
		if _, exit := err.(*exec.ExitError); err != nil && !exit {
			t.Fatal(err)
		}
		return string(out), err
	}
	// Each tool is a JVM: these are left to make soak.
	soak := map[string]bool{}
	for _, name := range []string{"topics: describe after it", "topics: under-replicated", "topics: more replicas than there can be", "configs: delete", "configs: the broker's",
		"configs: altering the broker", "get-offsets: latest", "get-offsets: largest timestamp", "groups of all kinds", "transactions: producers of a partition", "reassignments"} {
		soak[name] = true
	}
	at := []string{"--bootstrap-server", l.Addr()}
	hour := fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())
	for _, c := range []struct {
		name, class string
		args        []string
		says        string // a pattern
		fails       bool
	}{
		{"topics: more partitions", "TopicCommand", []string{"--alter", "--topic", "t", "--partitions", "3"}, `^$`, false},
		{"topics: describe after it", "TopicCommand", []string{"--describe", "--topic", "t"}, `PartitionCount: 3\s.*(?s:.*)Partition: 2\s+Leader: 1\s+Replicas: 1\s+Isr: 1`, false},
		{"topics: under-replicated", "TopicCommand", []string{"--describe", "--under-replicated-partitions"}, `^$`, false},
		{"topics: a bad configuration", "TopicCommand", []string{"--create", "--topic", "bad", "--config", "retention.ms=x"}, `Invalid value x for configuration retention.ms: Not a number of type LONG`, true},
		{"topics: more replicas than there can be", "TopicCommand", []string{"--create", "--topic", "bad", "--replication-factor", "3"}, `(?i)replication factor`, true},
		{"configs: add and append", "ConfigCommand", []string{"--alter", "--entity-type", "topics", "--entity-name", "t", "--add-config", "cleanup.policy=[compact,delete],min.compaction.lag.ms=5000"}, `Completed updating config for topic t`, false},
		{"configs: describe all, with defaults and synonyms", "ConfigCommand", []string{"--describe", "--all", "--entity-type", "topics", "--entity-name", "t"},
			`cleanup.policy=compact,delete sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete\}`, false},
		{"configs: delete", "ConfigCommand", []string{"--alter", "--entity-type", "topics", "--entity-name", "t", "--delete-config", "cleanup.policy,min.compaction.lag.ms"}, `Completed updating config for topic t`, false},
		{"configs: the broker's", "ConfigCommand", []string{"--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"}, `node.id=1 sensitive=false`, false},
		{"configs: altering the broker", "ConfigCommand", []string{"--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.retention.ms=5"}, `cannot be altered through the protocol`, true},
		{"get-offsets: latest", "GetOffsetShell", []string{"--topic-partitions", "t:0-2"}, `(?s)t:0:\d+\nt:1:\d+\n`, false},
		{"get-offsets: by time", "GetOffsetShell", []string{"--topic", "t", "--time", hour}, `(?s)t:0:0\nt:1:0\n`, false},
		{"get-offsets: largest timestamp", "GetOffsetShell", []string{"--topic", "t", "--time", "max-timestamp"}, `t:0:\d+`, false},
		{"features", "FeatureCommand", []string{"describe"}, `(?s)Feature: group.version.*FinalizedVersionLevel: 1.*Feature: transaction.version.*FinalizedVersionLevel: 2`, false},
		{"groups of all kinds", "GroupsCommand", []string{"--list"}, `GROUP\s+TYPE\s+PROTOCOL|^$`, false},
		{"transactions: list", "TransactionsCommand", []string{"list"}, `TransactionalId\s+Coordinator\s+ProducerId\s+TransactionState`, false},
		{"transactions: producers of a partition", "TransactionsCommand", []string{"describe-producers", "--topic", "t", "--partition", "0"}, `ProducerId\s+ProducerEpoch`, false},
		{"metadata quorum, which there is not", "MetadataQuorumCommand", []string{"describe", "--status"}, `UnsupportedVersionException|does not support|UNSUPPORTED_VERSION`, true},
		{"leader election, which there is not", "LeaderElectionCommand", []string{"--election-type", "preferred", "--all-topic-partitions"}, `UnsupportedVersionException|does not support|UNSUPPORTED_VERSION`, true},
		{"reassignments", "reassign.ReassignPartitionsCommand", []string{"--list"}, `No partition reassignments found`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if soak[c.name] && !trial.Soak() {
				t.Skip("run by make soak")
			}
			class, args := c.class, append(c.args, at...)
			if c.class == "FeatureCommand" || c.class == "MetadataQuorumCommand" || c.class == "TransactionsCommand" {
				args = append(append([]string{}, at...), c.args...)
			}
			out, err := tool(class, args...)
			if (err != nil) != c.fails && !(c.fails && regexp.MustCompile(c.says).MatchString(out)) {
				t.Errorf("%v\n%.2000s", err, out)
			}
			if !regexp.MustCompile(c.says).MatchString(strings.TrimSpace(out)+map[bool]string{true: "\n"}[out != ""]) && !regexp.MustCompile(c.says).MatchString(strings.TrimSpace(out)) {
				t.Errorf("it does not say %q:\n%.2000s", c.says, out)
			}
		})
	}
	t.Run("producer-perf with transactions, and the consumer's", func(t *testing.T) {
		out, err := tool("ProducerPerformance", "--topic", "perf", "--num-records", "5000", "--record-size", "200", "--throughput", "-1", "--transactional-id", "perf", "--transaction-duration-ms", "50",
			"--producer-props", "bootstrap.servers="+l.Addr(), "acks=all")
		if err != nil || !strings.Contains(out, "5000 records sent") {
			t.Fatalf("%v\n%.2000s", err, out)
		}
		out, err = tool("ConsumerPerformance", append([]string{"--topic", "perf", "--messages", "5000", "--timeout", "60000"}, at...)...)
		if err != nil || !strings.Contains(out, ", 5000,") {
			t.Errorf("%v\n%.2000s", err, out)
		}
		out, err = tool("TransactionsCommand", append(at, "describe", "--transactional-id", "perf")...)
		if err != nil || !regexp.MustCompile(`perf\s+\d+\s+\d+\s+CompleteCommit`).MatchString(out) && !strings.Contains(out, "CompleteCommit") {
			t.Errorf("%v\n%.2000s", err, out)
		}
	})
}
