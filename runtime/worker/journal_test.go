package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log/logtest"
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
	j, err := openJournal(ctx, l, client, "history")
	if err != nil {
		t.Fatal(err)
	}
	replay := func() (out []string) {
		t.Helper()
		again, err := openJournal(ctx, l, client, "history")
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
		if _, err := openJournal(ctx, l, client, topic); err == nil || !strings.Contains(err.Error(), topic) {
			t.Errorf("%s: %v", topic, err)
		}
	}
	// One of Debezium's, which asks for the longest time there is, is.
	if err := l.EnsureTopic(ctx, "debeziums", 1, -1, map[string]string{"cleanup.policy": "delete", "retention.ms": "9223372036854775807", "retention.bytes": "-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(ctx, l, client, "debeziums"); err != nil {
		t.Error(err)
	}
}
