package log_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/log"
	"millrace/log/logtool"
)

// fillForTools writes topics of several kinds and stops the log in order.
func fillForTools(t *testing.T, dir string) {
	t.Helper()
	ctx := deadline(t)
	l := onDisk(t, dir)
	for topic, configs := range map[string]map[string]string{
		"plain": {"segment.bytes": "20000"}, "packed": {"segment.bytes": "20000"}, "stamped": {"message.timestamp.type": "LogAppendTime"},
	} {
		if err := l.EnsureTopic(ctx, topic, 1, 1, configs); err != nil {
			t.Fatal(err)
		}
	}
	for topic, codec := range map[string]kgo.CompressionCodec{"plain": kgo.NoCompression(), "packed": kgo.ZstdCompression(), "stamped": kgo.SnappyCompression()} {
		cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0))...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			var rs []*kgo.Record
			for j := range 1 + i%7 {
				rs = append(rs, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i), Value: []byte(strings.Repeat("value ", 20*j)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}})
			}
			if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cl.Close()
	}
	closeLog(t, l)
}

// kafkaBatch is a line of Kafka's DumpLogSegments about a batch.
var kafkaBatch = regexp.MustCompile(`^baseOffset: (\S+) lastOffset: (\S+) count: (\S+) baseSequence: (\S+) lastSequence: (\S+) producerId: (\S+) producerEpoch: (\S+) partitionLeaderEpoch: (\S+) isTransactional: (\S+) isControl: (\S+) deleteHorizonMs: (\S+) position: (\S+) (\w+): (\S+) size: (\S+) magic: 2 compresscodec: (\S+) crc: (\S+) isvalid: (\S+)`)

// ourBatches are the lines that Kafka would print.
func ourBatches(t *testing.T, dir, partition string) []string {
	t.Helper()
	var out []string
	err := logtool.Dump(context.Background(), logtool.Options{Dir: dir, Partitions: []string{partition}}, logtool.DumpOptions{Batches: true}, func(it logtool.Item) error {
		if it.Bad != nil {
			out = append(out, fmt.Sprintf("bad %+v", it.Bad))
			return nil
		}
		b := it.Batch
		horizon, time := "OptionalLong.empty", "CreateTime"
		if b.DeleteHorizon != nil {
			horizon = fmt.Sprintf("OptionalLong[%d]", *b.DeleteHorizon)
		}
		if b.LogAppendTime {
			time = "LogAppendTime"
		}
		out = append(out, fmt.Sprint([]any{b.BaseOffset, b.LastOffset, b.Count, b.BaseSequence, b.LastSequence, b.ProducerID, b.ProducerEpoch, b.LeaderEpoch, b.Transactional, b.Control, horizon,
			b.Position, time, b.MaxTimestamp, b.Size, b.Codec, b.CRC, true}))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kafkaBatches(out string) []string {
	var lines []string
	for line := range strings.Lines(out) {
		if m := kafkaBatch.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			lines = append(lines, fmt.Sprint(m[1:]))
		}
	}
	return lines
}

func TestDumpEqualsKafkas(t *testing.T) {
	java := peers.KafkaTools(t)
	dir := t.TempDir()
	fillForTools(t, dir)
	kafka := func(partition string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		files := append(globAll(t, filepath.Join(dir, partition), "*.log"), globAll(t, filepath.Join(dir, partition), "*.index")...)
		return run(t, java.Command(ctx, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(files, ",")), "")
	}
	compare := func(partition string) int {
		t.Helper()
		out := kafka(partition)
		if strings.Contains(out, "Exception") || strings.Contains(out, "mismatch") {
			t.Errorf("Kafka on %s: %.2000s", partition, out)
		}
		theirs, ours := kafkaBatches(out), ourBatches(t, dir, partition)
		if !slices.Equal(ours, theirs) {
			for i := range min(len(ours), len(theirs)) {
				if ours[i] != theirs[i] {
					t.Errorf("%s, batch %d:\nours   %s\nKafka's %s", partition, i, ours[i], theirs[i])
					break
				}
			}
			t.Errorf("%s: %d batches, Kafka sees %d", partition, len(ours), len(theirs))
		}
		return len(theirs)
	}
	n := 0
	for _, p := range []string{"plain-0", "packed-0", "stamped-0", "__embedded_meta-0"} {
		n += compare(p)
	}
	if n < 180 {
		t.Errorf("only %d batches were compared", n)
	}
	// What a repair leaves is Kafka's format as well, the range that was cut out included.
	damage(t, filepath.Join(dir, "plain-0"), 1)
	r, err := logtool.Repair(context.Background(), logtool.Options{Dir: dir}, true)
	if err != nil || r.Failed() || len(r.Partitions[len(r.Partitions)-2].Did)+len(r.Partitions[len(r.Partitions)-1].Did) == 0 && !strings.Contains(fmt.Sprint(r), "kept them in") {
		t.Fatalf("%v %+v", err, r)
	}
	compare("plain-0")
}

func removeFile(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func flipByte(t *testing.T, name string, at int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x10
	writeFile(t, name, string(b))
}

// damage flips a bit in the middle of the nth segment of a partition.
func damage(t *testing.T, dir string, nth int) {
	t.Helper()
	files := globAll(t, dir, "*.log")
	slices.Sort(files)
	if nth >= len(files) {
		t.Fatalf("%s has %d segments", dir, len(files))
	}
	info, err := os.Stat(files[nth])
	if err != nil {
		t.Fatal(err)
	}
	flipByte(t, files[nth], info.Size()/2)
}

// A catalogue that lost bits keeps the log from starting, with a reason that names the remedy. Whichever of its records was hit: after the
// repair the log starts, and every topic is there with all it holds.
func TestACatalogueThatLostBitsIsRepaired(t *testing.T) {
	whole := t.TempDir()
	fillForTools(t, whole)
	var at []int64
	err := logtool.Dump(context.Background(), logtool.Options{Dir: whole, Partitions: []string{"__embedded_meta-0"}}, logtool.DumpOptions{Batches: true}, func(it logtool.Item) error {
		at = append(at, it.Batch.Position+it.Batch.Size-1)
		return nil
	})
	if err != nil || len(at) < 5 {
		t.Fatalf("%v, %d batches", err, len(at))
	}
	for i, pos := range at {
		t.Run(fmt.Sprintf("batch %d", i), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			flipByte(t, globAll(t, filepath.Join(dir, "__embedded_meta-0"), "*.log")[0], pos)
			removeFile(t, filepath.Join(dir, ".clean"))
			if i%2 == 0 {
				removeFile(t, filepath.Join(dir, ".lock")) // as after a reboot: everything is looked at; else what was synced is believed
			}
			_, err := log.Open(context.Background(), log.Config{DataDir: dir})
			if err == nil {
				t.Fatal("a log with a damaged catalogue starts")
			}
			for _, want := range []string{"__embedded_meta-0", "damaged", "millrace log repair"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			r, err := logtool.Verify(context.Background(), logtool.Options{Dir: dir})
			if err != nil || r.OK {
				t.Fatalf("%v, ok %v", err, r.OK)
			}
			if r, err := logtool.Repair(context.Background(), logtool.Options{Dir: dir}, true); err != nil || r.Failed() {
				t.Fatalf("%v %+v", err, r)
			}
			for range 2 { // and again after an orderly stop
				l := onDisk(t, dir)
				ends, err := l.Admin().ListEndOffsets(deadline(t), "plain", "packed", "stamped")
				if err != nil {
					t.Fatal(err)
				}
				for _, topic := range []string{"plain", "packed", "stamped"} {
					if o, _ := ends.Lookup(topic, 0); o.Err != nil || o.Offset == 0 {
						t.Errorf("%s ends at %d, %v", topic, o.Offset, o.Err)
					}
				}
				closeLog(t, l)
			}
		})
	}
}

// What lets others in is not shown: a dump ends up in a ticket.
func TestADumpHidesWhatLetsOthersIn(t *testing.T) {
	dir := t.TempDir()
	l, err := log.Open(deadline(t), log.Config{DataDir: dir, Listeners: []string{"SASL_PLAINTEXT://127.0.0.1:0"}, Passwords: map[string]string{"alice": "wonderland"}})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	shown := map[string]string{}
	err = logtool.Dump(context.Background(), logtool.Options{Dir: dir, Partitions: []string{"__embedded_meta-0"}}, logtool.DumpOptions{Records: true, Files: true}, func(it logtool.Item) error {
		if it.Batch != nil {
			for _, r := range it.Batch.Records {
				shown[*r.Key] = *r.Value
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"scram/SCRAM-SHA-256/alice", "scram/SCRAM-SHA-512/alice", "secret"} {
		if shown[key] != "[hidden]" {
			t.Errorf("%s is shown as %q", key, shown[key])
		}
	}
	if !strings.Contains(shown["cluster"], `"id"`) {
		t.Errorf("the cluster's id is shown as %q", shown["cluster"])
	}
}
