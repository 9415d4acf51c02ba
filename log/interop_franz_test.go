package log_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz-go over TCP, as a stranger has it: produces, consumes in a group, commits, seeks by time, alters, describes, and does a transaction.
func TestFranzGo(t *testing.T) {
	l := tcpLog(t)
	ctx := deadline(t)
	opts := func(more ...kgo.Opt) []kgo.Opt { return append([]kgo.Opt{kgo.SeedBrokers(l.Addr())}, more...) }
	adm := kadm.NewClient(client(t, opts()...))
	if _, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "f"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("created twice: %v", err)
	}
	p := client(t, opts(kgo.DefaultProduceTopic("f"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	began := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	for i := range 100 {
		if err := p.ProduceSync(ctx, &kgo.Record{Partition: int32(i % 2), Timestamp: began.Add(time.Duration(i) * time.Second / 2), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// In a group, to a commit, and on behind it.
	group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("f"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit()}
	read := func(n int) *kgo.Client {
		t.Helper()
		c := client(t, opts(group...)...)
		for got := 0; got < n; {
			fs := c.PollRecords(ctx, n-got)
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			got += fs.NumRecords()
		}
		return c
	}
	c := read(30)
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c = read(70)
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if n := lag(t, adm, "g", "f"); n != 0 {
		t.Errorf("%d records are left after 30 and 70", n)
	}
	// By time.
	at, err := adm.ListOffsetsAfterMilli(ctx, began.Add(20*time.Second).UnixMilli(), "f")
	if err != nil {
		t.Fatal(err)
	}
	for part := range int32(2) {
		if o, _ := at.Lookup("f", part); o.Offset != 20 {
			t.Errorf("partition %d: offset %d is the first at 20 s, want 20", part, o.Offset)
		}
	}
	byTime := client(t, opts(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"f": {1: kgo.NewOffset().AfterMilli(began.Add(40 * time.Second).UnixMilli())}}))...)
	if fs := byTime.PollFetches(ctx); fs.NumRecords() == 0 || fs.Records()[0].Offset != 40 {
		t.Errorf("reading from 40 s on begins with %v", fs.Records())
	}
	// Alters and describes.
	if rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")}}, "f"); err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	ds, err := adm.DescribeTopicConfigs(ctx, "f")
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range ds[0].Configs {
		if cfg.Key == "retention.ms" && (cfg.MaybeValue() != "7200000" || cfg.Source.String() != "DYNAMIC_TOPIC_CONFIG") {
			t.Errorf("%+v", cfg)
		}
	}
	if rs, err := adm.UpdatePartitions(ctx, 3, "f"); err != nil || rs.Error() != nil {
		t.Errorf("%v %v", err, rs.Error())
	}
	if rs, err := adm.DeleteRecords(ctx, kadm.Offsets{"f": {0: {Topic: "f", Partition: 0, At: 5}}}); err != nil || rs.Error() != nil {
		t.Errorf("%v %v", err, rs.Error())
	}
	if o, err := adm.ListStartOffsets(ctx, "f"); err != nil {
		t.Error(err)
	} else if s, _ := o.Lookup("f", 0); s.Offset != 5 {
		t.Errorf("it starts at %d after a deletion to 5", s.Offset)
	}
	// Consume, transform, produce in one transaction.
	sess, err := kgo.NewGroupTransactSession(opts(kgo.TransactionalID("tx"), kgo.ConsumerGroup("gt"), kgo.ConsumeTopics("f"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	moved := 0
	for moved < 95 {
		fs := sess.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		if err := sess.Begin(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { sess.Produce(ctx, &kgo.Record{Topic: "out", Value: r.Value}, nil) })
		flushed(ctx, t, sess)
		if done, err := sess.End(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		} else if done {
			moved += fs.NumRecords()
		}
	}
	if n := lag(t, adm, "gt", "f"); moved != 95 || n != 0 {
		t.Errorf("%d records moved, %d left", moved, n)
	}
	if rs, err := adm.DeleteGroups(ctx, "g"); err != nil || rs.Error() != nil {
		t.Errorf("%v %v", err, rs.Error())
	}
	if rs, err := adm.DeleteTopics(ctx, "f", "out"); err != nil || rs.Error() != nil {
		t.Errorf("%v %v", err, rs.Error())
	}
}
