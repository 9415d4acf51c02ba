package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
)

func TestJournal(t *testing.T) {
	l := logtest.New(t)
	client, err := kgo.NewClient(l.ClientOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	j, err := openJournal(ctx, l, l, client, "history")
	if err != nil {
		t.Fatal(err)
	}
	replay := func() (out []string) {
		t.Helper()
		again, err := openJournal(ctx, l, l, client, "history")
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Replay(ctx, func(e []byte) error { out = append(out, string(e)); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := replay(); len(got) != 0 {
		t.Errorf("an empty journal holds %q", got)
	}
	for i := range 10 {
		if err := j.Append(ctx, fmt.Appendf(nil, "a%d", i), fmt.Appendf(nil, "b%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	got := replay()
	if len(got) != 20 || got[0] != "a0" || got[19] != "b9" {
		t.Errorf("%q", got)
	}
	stop := errors.New("stop")
	if err := j.Replay(ctx, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a replay that is stopped: %v", err)
	}
	client.Close() // as when the task is abandoned
	if err := j.Append(ctx, []byte("late")); err == nil {
		t.Error("an abandoned task writes to its journal")
	}
	if len(replay()) != 20 {
		t.Error("it did write")
	}
	// Entries that age or compaction would take away are no journal.
	for topic, configs := range map[string]map[string]string{"compacted": {"cleanup.policy": "compact"}, "ageing": {"retention.ms": "1000"}} {
		if err := l.EnsureTopic(ctx, topic, 1, -1, configs); err != nil {
			t.Fatal(err)
		}
		if _, err := openJournal(ctx, l, l, client, topic); err == nil || !strings.Contains(err.Error(), topic) {
			t.Errorf("%s: %v", topic, err)
		}
	}
	// One of Debezium's, which asks for the longest time there is, is.
	if err := l.EnsureTopic(ctx, "debeziums", 1, -1, map[string]string{"cleanup.policy": "delete", "retention.ms": "9223372036854775807", "retention.bytes": "-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(ctx, l, l, client, "debeziums"); err != nil {
		t.Error(err)
	}
}

// guarded is a log of this process whose one listener asks who one is; alice may sign in.
func guarded(t *testing.T) *log.Log {
	t.Helper()
	l, err := log.Open(t.Context(), log.Config{DataDir: t.TempDir(), Listeners: []string{"SASL_PLAINTEXT://127.0.0.1:0"}, Passwords: map[string]string{"alice": "wonder-land"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// TestJournalElsewhere: a journal whose servers are another cluster's is there, and reached as its clients' settings say.
func TestJournalElsewhere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	own, err := log.Open(ctx, log.Config{DataDir: t.TempDir(), Listeners: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close(ctx)
	cluster, err := log.Open(ctx, log.Config{Seeds: []string{own.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close(ctx)
	other := guarded(t)
	files, err := runtime.NewFileRoots([]string{t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{cfg: Config{Log: cluster, Logger: slog.New(slog.DiscardHandler), Files: files}}
	login := func(password string) map[string]string {
		return map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
			"sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="` + password + `";`}
	}
	place := func(servers string, reader, writer map[string]string) connectors.JournalPlace {
		return connectors.JournalPlace{Topic: "history", Servers: []string{servers}, Reader: connectors.ClientSettings{Prefix: "h.consumer.", Settings: reader},
			Writer: connectors.ClientSettings{Prefix: "h.producer.", Settings: writer}}
	}
	outside := login("wonder-land")
	outside["security.protocol"], outside["ssl.truststore.location"], outside["ssl.truststore.type"] = "SASL_SSL", "/etc/passwd", "PEM"
	plenty := login("wonder-land")
	plenty["linger.ms"] = "5"
	for _, c := range []struct {
		name   string
		from   *log.Log
		at     connectors.JournalPlace
		in     *log.Log // where the topic is
		wrong  string   // what the error says
		notice bool
	}{
		{"another cluster, with a login of its own", cluster, place(other.Addr(), login("wonder-land"), plenty), other, "", false},
		{"no servers are named", cluster, connectors.JournalPlace{Topic: "history"}, own, "", false},
		{"the worker's own servers", cluster, place(strings.ToUpper(" "+own.Addr()), nil, nil), own, "", false},
		{"the worker's own servers, and a setting of a client", cluster, place(own.Addr(), map[string]string{"max.poll.records": "1"}, nil), own, "", true},
		{"a worker that keeps its log itself", own, place(other.Addr(), login("wonder-land"), login("wonder-land")), own, "", true},
		{"a wrong password of who reads", cluster, place(other.Addr(), login("queen"), login("wonder-land")), nil, "h.consumer.*", false},
		{"a wrong password of who writes", cluster, place(other.Addr(), login("wonder-land"), login("queen")), nil, "h.producer.*", false},
		{"a wrong value", cluster, place(other.Addr(), login("wonder-land"), map[string]string{"linger.ms": "soon"}), nil, "h.producer.linger.ms", false},
		{"a module that nobody may load", cluster, place(other.Addr(), map[string]string{"sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required;"}, nil), nil, "h.consumer.sasl.jaas.config", false},
		{"a file that connectors may not open", cluster, place(other.Addr(), outside, login("wonder-land")), nil, "h.consumer.ssl.truststore.location", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			var said strings.Builder
			lg := slog.New(slog.NewTextHandler(&said, nil))
			topic := strings.ReplaceAll(c.name, " ", "-")
			topic = strings.NewReplacer(",", "", "'", "").Replace(topic)
			c.at.Topic = topic
			js := &journals{log: c.from, lg: lg, servers: own.Addr(),
				make: func() (*kgo.Client, error) { return kgo.NewClient(c.from.ClientOpts()...) },
				reach: func(ctx context.Context, at connectors.JournalPlace) (reached, error) {
					return w.reachJournal(ctx, at, "journal", func(string) int32 { return 1 << 20 }, new(Meter), lg)
				}}
			defer js.close()
			j, err := js.open(ctx, c.at)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "queen") || strings.Contains(err.Error(), "wonder-land") {
					t.Errorf("%v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Append(ctx, []byte("a"), []byte("b")); err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := j.Replay(ctx, func(e []byte) error { got = append(got, string(e)); return nil }); err != nil || !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("%q, %v", got, err)
			}
			for where, l := range map[string]*log.Log{"its own": own, "the other": other} {
				for { // an administrator's client keeps what it has heard of topics for seconds
					all, err := l.Admin().ListTopics(ctx)
					if err != nil {
						t.Fatalf("%s log, which shall have the topic: %t: %v", where, l == c.in, err)
					}
					if all.Has(topic) == (l == c.in) {
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			if strings.Contains(said.String(), "no effect") != c.notice {
				t.Errorf("it said %q", said.String())
			}
		})
	}
}
