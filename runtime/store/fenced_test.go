package store

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
)

// Of two who lead the later one writes. The other is told why it cannot, by the write that finds out and by those behind it, until it
// leads again.
func TestOfTwoWhoLeadTheLaterOneWrites(t *testing.T) {
	l := logtest.New(t)
	var told atomic.Int32
	open := func() *Configs {
		c, err := OpenConfigs(t.Context(), l, runtime.InternalTopic{Name: "configs", Replication: 1}, true, slog.New(slog.DiscardHandler), Changes{Fenced: func(error) { told.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.Lead(t.Context(), "leader"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	put := func(c *Configs) error { return c.PutConnector(t.Context(), "c", map[string]string{"k": "v"}, "") }
	first := open()
	if err := put(first); err != nil {
		t.Fatal(err)
	}
	if err := put(open()); err != nil {
		t.Fatal(err)
	}
	err := put(first)
	if !errors.Is(err, log.ErrFenced) {
		t.Fatalf("it wrote (error: %v)", err)
	}
	_, why, _ := strings.Cut(err.Error(), "who leads: ")
	if again := put(first); again == nil || why == "" || !strings.HasSuffix(again.Error(), why) {
		t.Errorf("later: %v\nwant the same reason: %s", again, why)
	}
	if n := told.Load(); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
	if err := first.Lead(t.Context(), "leader"); err != nil {
		t.Fatal(err)
	}
	if err := put(first); err != nil {
		t.Errorf("it leads again, and: %v", err)
	}
}
