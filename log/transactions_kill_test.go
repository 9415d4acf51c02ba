package log_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/trial"
	"millrace/log"
)

// Records are copied from one topic to another in transactions with the offsets that they were read at, while the broker is killed
// again and again: each is copied exactly once.
func TestKilledBrokerCopiesExactlyOnce(t *testing.T) {
	for name, opts := range flows {
		t.Run(name, func(t *testing.T) { copyUnderKills(t, trial.Effort(8), opts) })
	}
}

func copyUnderKills(t *testing.T, rounds int, opts []kgo.Opt) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	addr, kill := brokerProcess(t, dir)
	var at atomic.Value
	at.Store(addr)
	base := []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.MetadataMinAge(10 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		// The broker comes back on another port.
		kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", at.Load().(string))
		}),
	}
	with := func(more ...kgo.Opt) []kgo.Opt { return append(append(append([]kgo.Opt{}, base...), opts...), more...) }
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	plain := client(t, with(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	adm := kadm.NewClient(plain)
	segment := "65536" // rolls often
	for _, topic := range []string{"in", "out"} {
		if _, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"segment.bytes": &segment}, topic); err != nil {
			t.Fatal(err)
		}
	}

	// Records come in all the time, and are copied by sessions that begin anew when one fails.
	var written, copies, anew atomic.Int64
	stop, filled, copied := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(filled)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := plain.ProduceSync(ctx, to("in", fmt.Sprint(n))).FirstErr(); err != nil {
				t.Errorf("record %d: %v", n, err)
				return
			}
			written.Add(1)
		}
	}()
	done := func() bool {
		os, err := adm.FetchOffsets(ctx, "copy")
		if err != nil {
			return false
		}
		sum := int64(0)
		os.Each(func(o kadm.OffsetResponse) { sum += o.At })
		select {
		case <-filled:
			return sum == written.Load()
		default:
			return false
		}
	}
	go func() {
		defer close(copied)
		for ; ctx.Err() == nil && !done(); anew.Add(1) {
			copyRecords(ctx, t, with(), &copies, done)
		}
	}()

	inTxn := 0
	open := func() bool {
		ts, err := adm.DescribeTransactions(ctx, "copier")
		return err == nil && ts["copier"].State == "Ongoing"
	}
	for round := range rounds {
		before := copies.Load()
		for copies.Load() == before { // it is at work again
			time.Sleep(time.Millisecond)
			if ctx.Err() != nil {
				t.Fatal("no more copies")
			}
		}
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		for round%2 == 0 && !open() && ctx.Err() == nil {
		}
		if round%2 == 0 || open() {
			inTxn++
		}
		kill()
		addr, kill = brokerProcess(t, dir)
		at.Store(addr)
	}
	close(stop)
	<-filled
	<-copied
	if ctx.Err() != nil {
		t.Fatal("not all was copied in time")
	}

	n := int(written.Load())
	count := map[string]int{}
	reader := client(t, with(kgo.ConsumeTopics("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	for got := 0; got < n; {
		fs := reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", got, n, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			count[string(r.Value)]++
			got++
		})
	}
	for i := range n {
		if c := count[fmt.Sprint(i)]; c != 1 {
			t.Errorf("record %d was copied %d times", i, c)
		}
	}
	// Nothing is held back, and nothing comes after what was read.
	ends, err := adm.ListEndOffsets(ctx, "out")
	if err != nil {
		t.Fatal(err)
	}
	stable, err := adm.ListCommittedOffsets(ctx, "out")
	if err != nil {
		t.Fatal(err)
	}
	for part, o := range ends["out"] {
		if s := stable["out"][part].Offset; s != o.Offset {
			t.Errorf("partition %d ends at %d and is stable to %d", part, o.Offset, s)
		}
	}
	t.Logf("%d records over %d kills, %d of them in a transaction; %d transactions, %d sessions", n, rounds, inTxn, copies.Load(), anew.Load())
}

// copyRecords is one session. It returns when it cannot go on.
func copyRecords(ctx context.Context, t *testing.T, opts []kgo.Opt, copies *atomic.Int64, done func() bool) {
	s, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID("copier"), kgo.ConsumerGroup("copy"), kgo.ConsumeTopics("in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.InstanceID("copier"),
		// What a session left open holds its offsets back until it is aborted: kgo asks for a producer id only when it writes.
		kgo.TransactionTimeout(2*time.Second), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(300*time.Millisecond))...)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		fs := s.PollRecords(wait, 50)
		cancel()
		if fs.NumRecords() == 0 {
			if done() {
				return
			}
			continue
		}
		if err := s.Begin(); err != nil {
			return
		}
		var failed atomic.Bool
		fs.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, to("out", string(r.Value)), func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(true)
				}
			})
		})
		if s.Client().Flush(ctx) != nil || log.Settle(ctx, s.Client()) != nil {
			return
		}
		if _, err := s.End(ctx, kgo.TransactionEndTry(!failed.Load())); err != nil {
			return
		}
		copies.Add(1)
	}
}
