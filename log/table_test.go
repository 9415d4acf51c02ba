package log_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/log/logtest"
)

// everyLog runs a test against the embedded log and against a cluster, which must not differ.
func everyLog(t *testing.T, f func(t *testing.T, l *log.Log)) {
	t.Run("embedded", func(t *testing.T) { f(t, logtest.New(t)) })
	t.Run("cluster", func(t *testing.T) { f(t, cluster(t)) })
}

func cluster(t *testing.T) *log.Log {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.Ports(0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l, err := log.Open(t.Context(), log.Config{Seeds: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// state is a table's contents, and the order in which they came.
type state struct {
	mu   sync.Mutex
	kv   map[string]string
	seen []string
}

func (s *state) apply(rs []*kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kv == nil {
		s.kv = map[string]string{}
	}
	for _, r := range rs {
		s.seen = append(s.seen, string(r.Key)+"="+string(r.Value))
		if r.Value == nil {
			delete(s.kv, string(r.Key))
		} else {
			s.kv[string(r.Key)] = string(r.Value)
		}
	}
}

func (s *state) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.kv)
}

func open(t *testing.T, l *log.Log, topic string) (*log.Table, *state) {
	t.Helper()
	s := &state{}
	tb, err := l.OpenTable(deadline(t), log.TableOptions{Topic: topic, Apply: s.apply})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tb.Close)
	return tb, s
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func rec(k, v string) *kgo.Record { return &kgo.Record{Key: []byte(k), Value: []byte(v)} }

func TestTableReadsWhatWasAcknowledged(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		a, sa := open(t, l, "table")
		if err := a.Put(ctx, rec("k1", "v1"), rec("k2", "v2"), rec("k1", "v3"), &kgo.Record{Key: []byte("k2")}); err != nil {
			t.Fatal(err)
		}
		if err := a.ReadToEnd(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := sa.text(), "map[k1:v3]"; got != want {
			t.Errorf("after Put and ReadToEnd: %s, want %s", got, want)
		}
		_, sb := open(t, l, "table")
		if got, want := sb.text(), "map[k1:v3]"; got != want {
			t.Errorf("a table opened later: %s, want %s", got, want)
		}
		if got, want := strings.Join(sb.seen, " "), "k1=v1 k2=v2 k1=v3 k2="; got != want {
			t.Errorf("order %q, want %q", got, want)
		}
	})
}

func TestTableFollowsAnotherWriter(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		a, _ := open(t, l, "table")
		b, sb := open(t, l, "table")
		for i := range 20 {
			if err := a.Put(ctx, rec("k", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if err := b.ReadToEnd(ctx); err != nil {
				t.Fatal(err)
			}
			if got, want := sb.text(), fmt.Sprintf("map[k:%d]", i); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	})
}

// What one transaction has committed behind another's that is open is waited for by who must not miss it, and by nobody else.
func TestTableReadsPastOpenTransactions(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		a, sa := open(t, l, "table")
		writer := func(id, key string) *kgo.Client {
			cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.TransactionalID(id), kgo.DefaultProduceTopic("table"))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(ctx, rec(key, id)).FirstErr(); err != nil {
				t.Fatal(err)
			}
			return cl
		}
		dead := writer("dead", "k1")
		if err := log.EndTransaction(ctx, writer("alive", "k2"), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		if err := a.ReadToEnd(ctx); err != nil || sa.text() != "map[]" {
			t.Errorf("%s, %v; want nothing while a transaction is open before", sa.text(), err)
		}
		past := make(chan error, 1)
		go func() { past <- a.ReadPastOpen(ctx) }()
		select {
		case err := <-past:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := log.EndTransaction(ctx, dead, kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		if err := <-past; err != nil || sa.text() != "map[k2:alive]" {
			t.Errorf("%s, %v; want what was committed", sa.text(), err)
		}
	})
}

func TestPutsOfManyGoroutinesKeepTheirOwnOrder(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		a, s := open(t, l, "table")
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 50 {
					if err := a.Put(ctx, rec(fmt.Sprint("g", g), fmt.Sprint(i)), rec(fmt.Sprint("g", g), fmt.Sprint(i, "b"))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := a.ReadToEnd(ctx); err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		for _, kv := range s.seen {
			k, v, _ := strings.Cut(kv, "=")
			want := fmt.Sprint(next[k] / 2)
			if next[k]%2 == 1 {
				want += "b"
			}
			if v != want {
				t.Fatalf("%s came as %s, want %s", k, v, want)
			}
			next[k]++
		}
		if len(s.seen) != 8*50*2 {
			t.Errorf("%d records, want %d", len(s.seen), 8*50*2)
		}
	})
}

func TestTableWhoseEndIsGoneIsReadToItsEnd(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		a, _ := open(t, l, "table")
		if err := a.Put(ctx, rec("k", "v"), rec("k", "w")); err != nil {
			t.Fatal(err)
		}
		os := kadm.Offsets{}
		os.AddOffset("table", 0, 2, -1)
		if rs, err := l.Admin().DeleteRecords(ctx, os); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
		b, s := open(t, l, "table")
		if err := b.ReadToEnd(ctx); err != nil {
			t.Fatal(err)
		}
		if s.text() != "map[]" {
			t.Errorf("%s, want nothing", s.text())
		}
	})
}

func TestTopicThatWouldForgetIsRefused(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		ctx := deadline(t)
		if err := l.EnsureTopic(ctx, "forgets", 1, -1, map[string]string{"cleanup.policy": "delete"}); err != nil {
			t.Fatal(err)
		}
		_, err := l.OpenTable(ctx, log.TableOptions{Topic: "forgets", Apply: func([]*kgo.Record) {}})
		if err == nil || !strings.Contains(err.Error(), `topic "forgets" has cleanup.policy=delete, must be compact`) {
			t.Errorf("open a table on a topic with cleanup.policy=delete: %v", err)
		}
		if err := l.EnsureTopic(ctx, "wide", 3, -1, map[string]string{"cleanup.policy": "compact"}); err != nil {
			t.Fatal(err)
		}
		_, err = l.OpenTable(ctx, log.TableOptions{Topic: "wide", Apply: func([]*kgo.Record) {}})
		if err == nil || !strings.Contains(err.Error(), "has 3 partitions, must have one") {
			t.Errorf("open a table on a topic with 3 partitions: %v", err)
		}
	})
}

func TestPutThatDidNotStartSaysSo(t *testing.T) {
	everyLog(t, func(t *testing.T, l *log.Log) {
		a, _ := open(t, l, "table")
		a.Close()
		err := a.Put(deadline(t), rec("k", "v"))
		if !errors.Is(err, log.ErrNotWritten) || !errors.Is(err, log.ErrTableClosed) {
			t.Errorf("Put after Close: %v", err)
		}
	})
}

func TestClusterThatDoesNotAnswerIsNamed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := log.Open(ctx, log.Config{Seeds: []string{"127.0.0.1:1"}})
	if err == nil || !strings.Contains(err.Error(), "reach cluster 127.0.0.1:1 (bootstrap.servers)") {
		t.Errorf("open a cluster where nobody listens: %v", err)
	}
}
