package log_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"millrace/log"
	"millrace/log/logtest"
)

// older makes a client use the flow of transactions before KIP-890.
func older() kgo.Opt {
	v := kversion.Stable()
	v.SetMaxKeyVersion(0, 11)
	v.SetMaxKeyVersion(24, 3)
	v.SetMaxKeyVersion(26, 4)
	v.SetMaxKeyVersion(28, 4)
	return kgo.MaxVersions(v)
}

var flows = map[string][]kgo.Opt{"the newer flow": nil, "the older flow": {older()}}

// committed reads what a read_committed consumer sees of a topic, until it has n records and stays at the end.
func committed(t testing.TB, l *log.Log, topic string, n int) []string {
	t.Helper()
	return readTopic(t, l, topic, n, kgo.ReadCommitted())
}

func readTopic(t testing.TB, l *log.Log, topic string, n int, iso kgo.IsolationLevel) (values []string) {
	t.Helper()
	cl := client(t, append(l.ClientOpts(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(iso))...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(values) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(values), n, err)
		}
		fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func transact(t testing.TB, cl *kgo.Client, end kgo.TransactionEndTry, rs ...*kgo.Record) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := log.EndTransaction(t.Context(), cl, end); err != nil {
		t.Fatal(err)
	}
}

func to(topic, value string) *kgo.Record { return &kgo.Record{Topic: topic, Value: []byte(value)} }

func TestTransactionsOfAClient(t *testing.T) {
	for name, opts := range flows {
		t.Run(name, func(t *testing.T) {
			l := logtest.New(t)
			for _, topic := range []string{"a", "b"} {
				if _, err := l.Admin().CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
					t.Fatal(err)
				}
			}
			cl := client(t, append(append(l.ClientOpts(), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner())), opts...)...)
			var want []string
			for i := range 20 {
				v := fmt.Sprint(i)
				end := kgo.TryCommit
				if i%3 == 1 {
					end = kgo.TryAbort
				} else {
					want = append(want, v, v)
				}
				transact(t, cl, end, to("a", v), to("b", v), to("a", v))
			}
			got := committed(t, l, "a", len(want))
			count := map[string]int{}
			for _, v := range got {
				count[v]++
			}
			for _, v := range want {
				if count[v] != 2 {
					t.Errorf("%s was read %d times", v, count[v])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d records, want %d", len(got), len(want))
			}
			if all := readTopic(t, l, "a", 40, kgo.ReadUncommitted()); len(all) != 40 {
				t.Errorf("%d records without isolation", len(all))
			}
		})
	}
}

func TestAnOpenTransactionIsNotSeen(t *testing.T) {
	l := logtest.New(t)
	if _, err := l.Admin().CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	plain := client(t, l.ClientOpts()...)
	cl := client(t, append(l.ClientOpts(), kgo.TransactionalID("x"))...)
	if err := plain.ProduceSync(t.Context(), to("t", "before")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), to("t", "open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := plain.ProduceSync(t.Context(), to("t", "behind")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ends := func() (all, stable int64) {
		a, err := l.Admin().ListEndOffsets(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Admin().ListCommittedOffsets(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		return a["t"][0].Offset, s["t"][0].Offset
	}
	if all, stable := ends(); all != 3 || stable != 1 {
		t.Errorf("ends at %d, stable to %d", all, stable)
	}
	if err := log.EndTransaction(t.Context(), cl, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if all, stable := ends(); all != 4 || stable != 4 {
		t.Errorf("ends at %d, stable to %d after the commit", all, stable)
	}
	if got := committed(t, l, "t", 3); strings.Join(got, " ") != "before open behind" {
		t.Errorf("read %v", got)
	}
}

// A second producer with the id of a first one takes its place: the first one's transaction is aborted.
func TestASecondProducerFencesTheFirst(t *testing.T) {
	for name, opts := range flows {
		t.Run(name, func(t *testing.T) {
			l := logtest.New(t)
			if _, err := l.Admin().CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
				t.Fatal(err)
			}
			first := client(t, append(append(l.ClientOpts(), kgo.TransactionalID("x")), opts...)...)
			if err := first.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := first.ProduceSync(t.Context(), to("t", "first")).FirstErr(); err != nil {
				t.Fatal(err)
			}
			second := client(t, append(append(l.ClientOpts(), kgo.TransactionalID("x")), opts...)...)
			transact(t, second, kgo.TryCommit, to("t", "second"))
			err := first.ProduceSync(t.Context(), to("t", "late")).FirstErr()
			if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
				t.Errorf("the first one's write: %v", err)
			}
			if err := log.EndTransaction(t.Context(), first, kgo.TryCommit); err == nil {
				t.Error("the first one committed")
			}
			if got := committed(t, l, "t", 1); strings.Join(got, " ") != "second" {
				t.Errorf("read %v", got)
			}
		})
	}
}

// Records are copied from one topic to another with GroupTransactSession, by several members that come and go.
func TestOffsetsAndRecordsOfATransactionGoTogether(t *testing.T) {
	for name, opts := range flows {
		t.Run(name, func(t *testing.T) {
			l := logtest.New(t)
			const n = 500
			for _, topic := range []string{"in", "out"} {
				if _, err := l.Admin().CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
					t.Fatal(err)
				}
			}
			in := client(t, append(l.ClientOpts(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
			var rs []*kgo.Record
			for i := range n {
				rs = append(rs, to("in", fmt.Sprint(i)))
			}
			if err := in.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			copied := func() int64 {
				os, err := l.Admin().FetchOffsets(t.Context(), "copy")
				if err != nil {
					t.Fatal(err)
				}
				sum := int64(0)
				os.Each(func(o kadm.OffsetResponse) { sum += o.At })
				return sum
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			session := func(id string, polls int) {
				s, err := kgo.NewGroupTransactSession(append(append(l.ClientOpts(), kgo.TransactionalID(id), kgo.ConsumerGroup("copy"), kgo.ConsumeTopics("in"),
					kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), opts...)...)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for i := 0; i < polls && ctx.Err() == nil && copied() < n; i++ {
					fs := s.PollRecords(ctx, 20)
					if err := s.Begin(); err != nil {
						t.Fatal(err)
					}
					fs.EachRecord(func(r *kgo.Record) { s.Produce(ctx, to("out", string(r.Value)), nil) })
					flushed(ctx, t, s)
					if _, err := s.End(ctx, kgo.TransactionEndTry(i%4 != 3)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i := 0; copied() < n && ctx.Err() == nil; i++ {
				session(fmt.Sprint("copy-", i%2), 10)
			}
			if got := copied(); got != n {
				t.Fatalf("offsets of %d records are committed", got)
			}
			count := map[string]int{}
			for _, v := range committed(t, l, "out", n) {
				count[v]++
			}
			for i := range n {
				if c := count[fmt.Sprint(i)]; c != 1 {
					t.Errorf("record %d is there %d times", i, c)
				}
			}
		})
	}
}
