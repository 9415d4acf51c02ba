package store

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// Kafka's own tool reads every kind of file that we share with it.
func TestKafkaReadsEveryFileThatIsItsOwnFormat(t *testing.T) {
	java := peers.KafkaTools(t)
	dir := t.TempDir()
	s, err := Open(vfs.OS{}, dir, Options{Maintain: -1, Ballast: -1, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.SegmentBytes, cfg.IndexInterval = 8000, 500
	p, err := s.Create(TopicPartition{"t", 0}, [16]byte{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		appendDurable(t, p, batch.Build(batch.Options{Codec: batch.Codec(i % 5)}, records(3, strings.Repeat("v", 100))...))
		appendDurable(t, p, idempotent(71, 2, int32(4*i), 4, "idempotent"))
		if i%10 == 0 {
			appendDurable(t, p, transactional(72, 3, int32(i/10), 1, "transaction"))
			wait(t, p, endTxn(t, p, 72, 3, i%20 == 0).End)
		}
	}
	open := appendDurable(t, p, transactional(72, 3, 12, 1, "left open")).Base
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dump := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		cmd := java.Command(ctx, "org.apache.kafka.tools.DumpLogSegments", args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		for _, bad := range []string{"mismatch", "Exception", "isvalid: false", "not found", "corrupt", "Could not"} {
			if err != nil || strings.Contains(string(out)+stderr.String(), bad) {
				t.Fatalf("%v: %v, %q\n%.3000s\n%.3000s", args, err, bad, out, stderr.String())
			}
		}
		return string(out)
	}
	files := func(suffix string, atLeast int) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "t-0", "*"+suffix))
		if err != nil || len(names) < atLeast {
			t.Fatalf("%s: %v %v", suffix, names, err)
		}
		return strings.Join(names, ",")
	}
	if out := dump("--deep-iteration", "--files", files(logSuffix, 3)); strings.Count(out, "baseOffset: ") < 250 || strings.Count(out, "endTxnMarker: ABORT") != 6 {
		t.Errorf("logs: %.2000s", out)
	}
	dump("--verify-index-only", "--files", files(indexSuffix, 3))
	dump("--verify-index-only", "--files", files(timeSuffix, 3))
	if out := dump("--files", files(txnSuffix, 2)); strings.Count(out, "producerId: 72") != 6 {
		t.Errorf("aborted transactions: %s", out)
	}
	out := dump("--files", files(offsetName(p.End(), snapshotSuffix), 1))
	for _, want := range []string{
		"producerId: 71 producerEpoch: 2", fmt.Sprintf("lastSequence: %d", 4*120-1),
		"producerId: 72 producerEpoch: 3", fmt.Sprintf("currentTxnFirstOffset: OptionalLong[%d]", open),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("snapshot: no %q in\n%s", want, out)
		}
	}
}
