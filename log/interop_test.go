package log_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/log"
)

// onDisk opens an embedded log in a directory of its own, listening on a free TCP port.
func onDisk(t testing.TB, dir string) *log.Log {
	t.Helper()
	l, err := log.Open(context.Background(), log.Config{DataDir: dir, Listeners: []string{"127.0.0.1:0"}, Limits: log.Limits{MinFree: -1, Ballast: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, l) })
	return l
}

func closeLog(t testing.TB, l *log.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}

// run runs a peer's program on the given input and returns its standard output.
func run(t testing.TB, cmd *exec.Cmd, stdin string) string {
	t.Helper()
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return string(out)
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

func TestKcat(t *testing.T) {
	kcat := peers.Kcat(t)
	l := onDisk(t, t.TempDir())
	cmd := func(args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		t.Cleanup(cancel)
		return exec.CommandContext(ctx, kcat, append([]string{"-b", l.Addr()}, args...)...)
	}
	t.Run("lists the one broker", func(t *testing.T) {
		if out := run(t, cmd("-L"), ""); !strings.Contains(out, "1 brokers:") || !strings.Contains(out, l.Addr()) {
			t.Errorf("%s", out)
		}
	})
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run("produces and consumes, codec "+codec, func(t *testing.T) {
			topic, in := "kcat-"+codec, lines(1000, "k%[1]d:value %[1]d")
			run(t, cmd("-P", "-t", topic, "-K:", "-z", codec, "-X", "acks=all"), in)
			if out := run(t, cmd("-C", "-t", topic, "-K:", "-e", "-q"), ""); out != in {
				t.Errorf("%d bytes came back of %d", len(out), len(in))
			}
		})
	}
	t.Run("produces idempotently, and from the middle", func(t *testing.T) {
		run(t, cmd("-P", "-t", "idem", "-X", "enable.idempotence=true"), lines(100, "v%d"))
		if out := run(t, cmd("-C", "-t", "idem", "-o", "95", "-e", "-q", "-f", "%o %s\n"), ""); out != "95 v95\n96 v96\n97 v97\n98 v98\n99 v99\n" {
			t.Errorf("%s", out)
		}
		if out := run(t, cmd("-C", "-t", "idem", "-o", "-2", "-e", "-q"), ""); out != "v98\nv99\n" {
			t.Errorf("the last two: %s", out)
		}
	})
	t.Run("asks for offsets by time", func(t *testing.T) {
		if out := run(t, cmd("-Q", "-t", "idem:0:-1"), ""); !strings.Contains(out, "offset 100") {
			t.Errorf("%s", out)
		}
		if out := run(t, cmd("-Q", "-t", fmt.Sprintf("idem:0:%d", time.Now().Add(-time.Hour).UnixMilli())), ""); !strings.Contains(out, "offset 0") {
			t.Errorf("%s", out)
		}
	})
	t.Run("consumes in a group", func(t *testing.T) {
		if out := run(t, cmd("-G", "g", "-X", "auto.offset.reset=earliest", "-c", "100", "-q", "idem"), ""); out != lines(100, "v%d") {
			t.Errorf("%d bytes", len(out))
		}
	})
}

func TestJavaClientsAndTools(t *testing.T) {
	java := peers.KafkaTools(t)
	dir := t.TempDir()
	l := onDisk(t, dir)
	tool := func(t *testing.T, stdin, class string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
		defer cancel()
		return run(t, java.Command(ctx, class, args...), stdin)
	}
	at := []string{"--bootstrap-server", l.Addr()}
	with := func(args ...string) []string { return append(args, at...) }
	topics := "org.apache.kafka.tools.TopicCommand"

	t.Run("topics", func(t *testing.T) {
		tool(t, "", topics, with("--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=3600000")...)
		out := tool(t, "", topics, with("--describe", "--topic", "t")...)
		for _, want := range []string{"PartitionCount: 2", "ReplicationFactor: 1", "retention.ms=3600000", "Leader: 1", "Isr: 1"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	})
	t.Run("producer and consumer", func(t *testing.T) {
		in := lines(1000, "key%[1]d:value%[1]d")
		tool(t, in, "org.apache.kafka.tools.ConsoleProducer", with("--topic", "t", "--property", "parse.key=true", "--property", "key.separator=:", "--compression-codec", "lz4")...)
		out := tool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", with("--topic", "t", "--from-beginning", "--max-messages", "1000", "--timeout-ms", "60000", "--property", "print.key=true", "--property", "key.separator=:")...)
		got := map[string]bool{}
		for sc := bufio.NewScanner(strings.NewReader(out)); sc.Scan(); {
			got[sc.Text()] = true
		}
		for line := range strings.Lines(in) {
			if !got[strings.TrimSpace(line)] {
				t.Fatalf("%q is missing among %d", line, len(got))
			}
		}
	})
	t.Run("offsets", func(t *testing.T) {
		out := tool(t, "", "org.apache.kafka.tools.GetOffsetShell", with("--topic", "t")...)
		sum := 0
		for line := range strings.Lines(out) {
			var p, o int
			if _, err := fmt.Sscanf(line, "t:%d:%d", &p, &o); err == nil {
				sum += o
			}
		}
		if sum != 1000 {
			t.Errorf("the latest offsets add up to %d, want 1000:\n%s", sum, out)
		}
	})
	t.Run("configurations", func(t *testing.T) {
		configs := "org.apache.kafka.tools.ConfigCommand"
		tool(t, "", configs, with("--alter", "--entity-type", "topics", "--entity-name", "t", "--add-config", "retention.ms=7200000")...)
		if out := tool(t, "", configs, with("--describe", "--entity-type", "topics", "--entity-name", "t")...); !strings.Contains(out, "retention.ms=7200000") {
			t.Errorf("%s", out)
		}
	})
	t.Run("log dirs, versions, deletion of records", func(t *testing.T) {
		if out := tool(t, "", "org.apache.kafka.tools.LogDirsCommand", with("--describe", "--topic-list", "t")...); !strings.Contains(out, `"partition":"t-1"`) {
			t.Errorf("%s", out)
		}
		if out := tool(t, "", "org.apache.kafka.tools.BrokerApiVersionsCommand", at...); !strings.Contains(out, "Produce(0): 0 to 13") {
			t.Errorf("%s", out)
		}
		file := t.TempDir() + "/delete.json"
		writeFile(t, file, `{"partitions":[{"topic":"t","partition":0,"offset":1}],"version":1}`)
		if out := tool(t, "", "org.apache.kafka.tools.DeleteRecordsCommand", with("--offset-json-file", file)...); !strings.Contains(out, "low_watermark: 1") {
			t.Errorf("%s", out)
		}
	})
	t.Run("a slow disk's worth of data", func(t *testing.T) {
		tool(t, "", "org.apache.kafka.tools.ProducerPerformance", "--topic", "perf", "--num-records", "20000", "--record-size", "500", "--throughput", "-1",
			"--producer-props", "bootstrap.servers="+l.Addr(), "acks=all", "batch.size=65536")
		out := tool(t, "", "org.apache.kafka.tools.ConsumerPerformance", with("--topic", "perf", "--messages", "20000", "--timeout", "60000")...)
		if !strings.Contains(out, ", 20000,") {
			t.Errorf("%s", out)
		}
	})
	t.Run("deletion", func(t *testing.T) {
		tool(t, "", topics, with("--delete", "--topic", "t")...)
		if out := tool(t, "", topics, with("--list")...); out != "__consumer_offsets\n__transaction_state\nperf\n" {
			t.Errorf("%s", out)
		}
	})
	closeLog(t, l)
	t.Run("Kafka verifies what we left on disk", func(t *testing.T) {
		files := globAll(t, dir, "*.log")
		if len(files) < 3 {
			t.Fatalf("segments: %v", files)
		}
		out := tool(t, "", "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(append(files, globAll(t, dir, "*.index")...), ","))
		if strings.Contains(out, "isvalid: false") || strings.Contains(out, "Exception") || strings.Contains(out, "mismatch") || !strings.Contains(out, "isvalid: true") {
			t.Errorf("%.3000s", out)
		}
	})
}

func TestPortInUseIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	_, err = log.Open(context.Background(), log.Config{DataDir: dir, Listeners: []string{taken.Addr().String()}})
	if err == nil || !strings.Contains(err.Error(), "listen for Kafka clients on "+taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
	onDisk(t, dir) // and the directory is free
}

func TestSecondProcessIsToldWhoHoldsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	l := onDisk(t, dir)
	_, err := log.Open(context.Background(), log.Config{DataDir: dir})
	var held *log.HeldError
	if !errorsAs(err, &held) || !strings.Contains(err.Error(), "listening on "+l.Addr()) || !strings.Contains(err.Error(), "bootstrap.servers") {
		t.Errorf("got %v", err)
	}
}

func TestClientsCannotTellTheDifference(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		if l.ClusterID() == "" || !l.Ready(ctx) || l.Health(ctx).State != log.Green {
			t.Errorf("cluster %q, health %+v", l.ClusterID(), l.Health(ctx))
		}
		if err := l.EnsureTopic(ctx, "t", 3, 3, nil); err != nil {
			t.Fatal(err)
		}
		cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for i := range 100 {
			cl.Produce(ctx, &kgo.Record{Value: fmt.Append(nil, i)}, nil)
		}
		if err := cl.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		got := 0
		for got < 100 {
			fs := cl.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			got += fs.NumRecords()
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
		os, err := l.Admin().FetchOffsets(ctx, "g")
		if err != nil || os.Error() != nil {
			t.Fatal(err, os.Error())
		}
		sum := int64(0)
		for _, o := range os.Sorted() {
			sum += o.At
		}
		if sum != 100 {
			t.Errorf("committed offsets add up to %d, want 100", sum)
		}
	})
}
