package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
)

// logDirectory is the data directory of a log that was stopped, with one topic of several segments.
func logDirectory(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "log")
	l, err := log.Open(ctx, log.Config{DataDir: dir, Limits: log.Limits{MinFree: -1, Ballast: -1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EnsureTopic(ctx, "orders", 1, 1, map[string]string{"segment.bytes": "4096"}); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("orders"), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i), Value: []byte(strings.Repeat("v\x1b", 100))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	cl.Close()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLogVerifyDumpAndRepair(t *testing.T) {
	dir := logDirectory(t)
	run := func(want int, args ...string) (string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := execute(context.Background(), nil, append([]string{"log"}, args...), &out, &errs); got != want {
			t.Errorf("millrace log %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, want, out.String(), errs.String())
		}
		return out.String(), errs.String()
	}
	contains := func(what, text string, wants ...string) {
		t.Helper()
		for _, w := range wants {
			if !strings.Contains(text, w) {
				t.Errorf("%s does not say %q:\n%s", what, w, text)
			}
		}
	}
	out, errs := run(0, "verify", dir)
	contains("verify", out, "PARTITION", "orders-0", "0-59", " ok ")
	if errs != "" {
		t.Errorf("a pipe gets %q on standard error", errs)
	}
	run(0, "verify", filepath.Dir(dir)) // the worker's directory
	out, _ = run(0, "dump", dir, "--partition", "orders-0", "--from", "5", "--to", "6", "--records", "--only", "batches")
	contains("dump", out, "offsets 5-5", `k5: v\u001bv`)
	if strings.Contains(out, "\x1b") || strings.Contains(out, "offsets 6-6") {
		t.Errorf("dump shows what it should not:\n%q", out)
	}
	out, _ = run(0, "dump", dir, "--partition", "orders", "-o", "jsonl")
	batches, files := 0, 0
	for line := range strings.Lines(out) {
		var it struct {
			Batch *struct{ BaseOffset int64 }
			State *struct{ Kind string }
		}
		if err := json.Unmarshal([]byte(line), &it); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if it.Batch != nil {
			batches++
		}
		if it.State != nil {
			files++
		}
	}
	if batches != 60 || files < 4 {
		t.Errorf("%d batches and %d files", batches, files)
	}
	out, _ = run(0, "dump", dir, "--partition", "orders", "-o", "json", "--only", "batches")
	var list []any
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 60 {
		t.Errorf("-o json: %d items, %v", len(list), err)
	}

	segments, err := filepath.Glob(filepath.Join(dir, "orders-0", "*.log"))
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	slices.Sort(segments)
	b, err := os.ReadFile(segments[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(segments[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs = run(1, "verify", dir)
	contains("verify", out, "hole at offset", filepath.Base(segments[1]), "crc", "remedy: restore the file from a copy, or cut")
	contains("verify", errs, "1 partition with hole")
	out, _ = run(1, "verify", dir, "-o", "json")
	var r struct {
		OK         bool
		Partitions []struct {
			Partition, State string
			Findings         []struct {
				Trouble, File        string
				Position, FromOffset int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.OK {
		t.Fatalf("%v %s", err, out)
	}
	found := 0
	for _, p := range r.Partitions {
		for _, f := range p.Findings {
			if f.Trouble == "hole" && f.File == segments[1] && f.Position > 0 && f.FromOffset > 0 {
				found++
			}
		}
	}
	if found != 1 {
		t.Errorf("%s", out)
	}
	out, errs = run(1, "repair", dir)
	contains("repair without --yes", out, "would cut bytes")
	contains("repair without --yes", errs, "add --yes")
	if now, _ := os.ReadFile(segments[1]); !bytes.Equal(now, b) {
		t.Error("repair without --yes changed the file")
	}
	out, _ = run(0, "repair", dir, "--yes")
	contains("repair", out, "and kept them in")
	run(0, "verify", dir)
	run(0, "repair", dir)

	run(2, "verify")
	run(2, "verify", dir, dir)
	run(2, "verfy", dir)
	run(2, "dump", dir, "--only", "everything")
	run(2, "dump", dir, "--from", "9", "--to", "3")
	run(2, "verify", dir, "-o", "xml")
	run(3, "verify", filepath.Join(dir, "nothing"))
	run(3, "verify", dir, "--partition", "orders-9")

	l, err := log.Open(context.Background(), log.Config{DataDir: dir, Limits: log.Limits{MinFree: -1, Ballast: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	for _, verb := range [][]string{{"verify", dir}, {"dump", dir}, {"repair", dir, "--yes"}} {
		_, errs := run(4, verb...)
		contains(verb[0]+" of a directory in use", errs, fmt.Sprintf("is in use by pid %d", os.Getpid()), "stop it first")
	}
}
