package log_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/log/logtool"
)

// A hole that swallowed the end of a transaction would leave it open, and readers of committed records waiting, for ever. The next start ends it, as
// the coordinator remembers it.
func TestATransactionWhoseEndIsLostIsEndedAgain(t *testing.T) {
	dir := t.TempDir()
	l := onDisk(t, dir)
	ctx := deadline(t)
	if err := l.EnsureTopic(ctx, "t", 1, 1, map[string]string{"segment.bytes": "1024"}); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.TransactionalID("x"), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("in the transaction")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := log.EndTransaction(ctx, cl, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	plain, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("t"))...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // seals the segment with the marker
		if err := plain.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("a value of some length that comes after it %d", i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	plain.Close()
	closeLog(t, l)

	// The marker is the second batch.
	var at int64
	if err := logtool.Dump(context.Background(), logtool.Options{Dir: dir, Partitions: []string{"t-0"}}, logtool.DumpOptions{Batches: true, To: 2}, func(it logtool.Item) error {
		if it.Batch.Control {
			at = it.Batch.Position + it.Batch.Size - 1
		}
		return nil
	}); err != nil || at == 0 {
		t.Fatalf("%v, marker at %d", err, at)
	}
	files := globAll(t, filepath.Join(dir, "t-0"), "*.log")
	slices.Sort(files)
	flipByte(t, files[0], at)
	if r, err := logtool.Repair(context.Background(), logtool.Options{Dir: dir}, true); err != nil || r.Failed() {
		t.Fatalf("%v %+v", err, r)
	}
	// What was noted of the producers is of before: as after a crash that reads it all again.
	for _, pattern := range []string{"*.snapshot", "*.pwin"} {
		for _, f := range globAll(t, filepath.Join(dir, "t-0"), pattern) {
			removeFile(t, f)
		}
	}
	for _, f := range []string{"recovery-point-offset-checkpoint", ".clean", ".lock"} {
		removeFile(t, filepath.Join(dir, f))
	}

	l = onDisk(t, dir)
	cl, err = kgo.NewClient(append(l.ClientOpts(), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var got []string
	for len(got) < 31 {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of 31 committed records came: %v", len(got), err)
		}
		fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if got[0] != "in the transaction" {
		t.Errorf("the first committed record is %q", got[0])
	}
}
