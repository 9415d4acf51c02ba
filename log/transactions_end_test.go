package log_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/log"
	"millrace/log/logtest"
)

// flushed waits until the records of a session's transaction are written, so that the session can end it.
func flushed(ctx context.Context, t testing.TB, s *kgo.GroupTransactSession) {
	t.Helper()
	if err := errors.Join(s.Client().Flush(ctx), log.Settle(ctx, s.Client())); err != nil {
		t.Fatal(err)
	}
}

// A stalled partitioner takes every record but the one that is called "held": with that it stays until it is let go, and refuses it.
type stalled struct{ reached, release chan struct{} }

func (s stalled) ForTopic(string) kgo.TopicPartitioner { return s }
func (stalled) RequiresConsistency(*kgo.Record) bool   { return true }
func (s stalled) Partition(r *kgo.Record, partitions int) int {
	if string(r.Value) != "held" {
		return 0
	}
	close(s.reached)
	<-s.release
	return -1
}

// Records of a transaction may be acknowledged while the client's metadata loop is still at the record behind them, and has not yet put the
// topic's partitions where the client looks for them at the end of the transaction: for a loaded machine to stop the loop there is enough. The
// test stops it by the partitioner.
func TestACommitHoldsWhatTheClientWroteToATopicThatItHasJustMet(t *testing.T) {
	logs := map[string]func(t *testing.T) *log.Log{
		"embedded": func(t *testing.T) *log.Log { return logtest.New(t) },
		"cluster": func(t *testing.T) *log.Log {
			l, err := log.Open(t.Context(), log.Config{Seeds: []string{peers.Kafka(t).Addr}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close(context.Background()) })
			return l
		},
	}
	for kind, open := range logs {
		t.Run(kind, func(t *testing.T) {
			l := open(t)
			for flow, opts := range flows {
				t.Run(flow, func(t *testing.T) { commitWhileTheClientLearns(t, l, peers.Unique(t, "learned"), opts) })
			}
		})
	}
}

func commitWhileTheClientLearns(t *testing.T, l *log.Log, topic string, opts []kgo.Opt) {
	loop := stalled{make(chan struct{}), make(chan struct{})}
	cl := client(t, append(append(l.ClientOpts(), kgo.TransactionalID(topic), kgo.RecordPartitioner(loop), kgo.UnknownTopicRetries(-1)), opts...)...)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	// Both wait for the topic to exist.
	acknowledged := make(chan error, 1)
	cl.Produce(t.Context(), to(topic, "first"), func(_ *kgo.Record, err error) { acknowledged <- err })
	cl.Produce(t.Context(), to(topic, "held"), nil)
	if err := l.EnsureTopic(t.Context(), topic, 1, -1, nil); err != nil {
		t.Fatal(err)
	}
	<-loop.reached
	if err := <-acknowledged; err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- log.EndTransaction(t.Context(), cl, kgo.TryCommit) }()
	select {
	case err := <-ended:
		t.Errorf("the transaction ended (error: %v) before the client knew what it has written to", err)
		ended <- err
	case <-time.After(100 * time.Millisecond): // had it ended, it would have by now
	}
	close(loop.release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	transact(t, cl, kgo.TryCommit, to(topic, "second"))
	transact(t, cl, kgo.TryAbort, to(topic, "third"))
	transact(t, cl, kgo.TryCommit, to(topic, "fourth"))
	if got, want := committed(t, l, topic, 3), []string{"first", "second", "fourth"}; !slices.Equal(got, want) {
		t.Errorf("committed: %v, want %v", got, want)
	}
}
