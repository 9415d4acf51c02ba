package log_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/log"
)

// dirty is an embedded log in dir whose topics begin new segments early.
func dirty(t testing.TB, dir string) *log.Log {
	t.Helper()
	l, err := log.Open(t.Context(), log.Config{DataDir: dir, Listeners: []string{"127.0.0.1:0"}, Defaults: map[string]string{"segment.bytes": "16384"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestGroupsAreReadFromACompactedTopic(t *testing.T) {
	dir := t.TempDir()
	l := dirty(t, dir)
	adm := kadm.NewClient(client(t, l.ClientOpts()...))
	if _, err := adm.CreateTopic(t.Context(), 4, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i := range int64(600) {
		var os kadm.Offsets
		os.AddOffset("t", int32(i%4), i, -1)
		if err := adm.CommitAllOffsets(t.Context(), fmt.Sprint("g", i%3), os); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := adm.DeleteGroup(t.Context(), "g2"); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		d, err := adm.DescribeAllLogDirs(t.Context(), kadm.TopicsSet{"__consumer_offsets": {0: {}}})
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		d.Each(func(dir kadm.DescribedLogDir) { n += dir.Topics.Size() })
		return n
	}
	before := size()
	if n := l.Compact(); n == 0 {
		t.Fatal("nothing was compacted")
	}
	if after := size(); after > before/2 {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	l = dirty(t, dir)
	adm = kadm.NewClient(client(t, l.ClientOpts()...))
	for i := range int64(3) {
		os, err := adm.FetchOffsets(t.Context(), fmt.Sprint("g", i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if len(os) != 0 {
				t.Errorf("the deleted group is back: %v", os)
			}
			continue
		}
		for p := range int64(4) {
			want := int64(-1)
			for o := range int64(600) {
				if o%3 == i && o%4 == p {
					want = o
				}
			}
			if o, ok := os.Lookup("t", int32(p)); !ok || o.At != want {
				t.Errorf("g%d, partition %d: %v, want %d", i, p, o, want)
			}
		}
	}
}

// TestKafkaReadsCompactedFiles lets Kafka's own tool check logs and indexes that compaction has written, and a Java consumer read the
// topic from its beginning.
func TestKafkaReadsCompactedFiles(t *testing.T) {
	java := peers.KafkaTools(t)
	dir := t.TempDir()
	l := dirty(t, dir)
	adm := kadm.NewClient(client(t, l.ClientOpts()...))
	policy := "compact"
	if r, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "t"); err != nil && !errors.Is(r.Err, kerr.TopicAlreadyExists) {
		t.Fatal(err)
	}
	for codec, c := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		cl := client(t, append(l.ClientOpts(), kgo.ProducerBatchCompression(c))...)
		for round := range 30 {
			var rs []*kgo.Record
			for i := range 20 {
				r := &kgo.Record{Topic: "t", Key: fmt.Appendf(nil, "%s %d", codec, i), Value: fmt.Appendf(nil, "%d %s", round, strings.Repeat(codec, 10))}
				if i == round%20 {
					r.Value = nil
				}
				rs = append(rs, r)
			}
			if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 2 {
		if n := l.Compact(); n == 0 {
			t.Fatalf("round %d: nothing was compacted", round)
		}
		cl := client(t, l.ClientOpts()...)
		for i := range 300 {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Key: fmt.Appendf(nil, "more %d", i%30), Value: []byte(strings.Repeat("y", 100))}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out := output(t, java.Command(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", l.Addr(), "--topic", "t", "--from-beginning",
		"--timeout-ms", "5000", "--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"))
	want := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(f) == 3 {
			want[f[1]] = f[2]
		}
	}
	live := 0
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for i := range 20 {
			last := "29 "
			if i == 29%20 {
				last = "null"
			}
			if v := want[fmt.Sprintf("%s %d", codec, i)]; !strings.HasPrefix(v, last) {
				t.Errorf("%s %d is %q", codec, i, v)
			}
			live++
		}
	}
	if len(want) != live+30 {
		t.Errorf("%d keys, want %d", len(want), live+30)
	}

	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{}
	for _, suffix := range []string{"log", "index", "timeindex"} {
		names, err := filepath.Glob(filepath.Join(dir, "t-0", "*."+suffix))
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s: %v", suffix, err)
		}
		files[suffix] = names
	}
	wrong := regexp.MustCompile(`(?i)mismatch|invalid|non-consecutive|not found|corrupt|exception|isvalid: false`)
	dumped := output(t, java.Command(ctx, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(files["log"], ",")))
	if bad := wrong.FindString(dumped); bad != "" || !strings.Contains(dumped, "baseOffset") {
		t.Errorf("Kafka says %q of the logs:\n%s", bad, dumped)
	}
	if !strings.Contains(dumped, "deleteHorizonMs: OptionalLong[") {
		t.Errorf("no batch has a delete horizon:\n%.2000s", dumped)
	}
	for _, suffix := range []string{"index", "timeindex"} {
		dumped := output(t, java.Command(ctx, "org.apache.kafka.tools.DumpLogSegments", "--verify-index-only", "--files", strings.Join(files[suffix], ",")))
		if bad := wrong.FindString(dumped); bad != "" {
			t.Errorf("Kafka says %q of the %s files:\n%s", bad, suffix, dumped)
		}
	}
}
