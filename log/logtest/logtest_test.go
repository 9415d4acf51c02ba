package logtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
)

func write(t *testing.T, l *log.Log, value string, wait time.Duration) error {
	t.Helper()
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	return cl.ProduceSync(ctx, &kgo.Record{Value: []byte(value)}).FirstErr()
}

func TestDiskOutlivesItsLogs(t *testing.T) {
	d := NewDisk()
	l := d.Open(t)
	if err := write(t, l, "v", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = d.Open(t)
	ends, err := l.Admin().ListEndOffsets(t.Context(), "t")
	if e, ok := ends.Lookup("t", 0); err != nil || !ok || e.Offset != 1 {
		t.Errorf("end %+v, %v", e, err)
	}
}

func TestFailedSyncTakesTheLogOffline(t *testing.T) {
	d := NewDisk()
	offline := make(chan error, 1)
	l := d.Open(t, func(c *log.Config) { c.OnOffline = func(err error) { offline <- err } })
	if err := write(t, l, "v", time.Minute); err != nil {
		t.Fatal(err)
	}
	d.FailSyncs(errors.New("input/output error"))
	if err := write(t, l, "w", time.Second); err == nil {
		t.Error("a record was acknowledged whose sync failed")
	}
	select {
	case err := <-offline:
		if !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("offline because of %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("OnOffline was not called")
	}
	if h := l.Health(t.Context()); h.State != log.Red || !strings.Contains(h.Message, "/log is offline") {
		t.Errorf("health %+v", h)
	}
	d.FailSyncs(nil)
	if err := write(t, l, "w", time.Second); err == nil {
		t.Error("a log that is offline took a record")
	}
	_ = l.Close(t.Context())
	if err := write(t, d.Open(t), "w", time.Minute); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestFullDiskIsNoEnd(t *testing.T) {
	d := NewDisk()
	l := d.Open(t)
	d.SetSize(1)
	if err := write(t, l, strings.Repeat("x", 1<<20), 2*time.Second); err == nil {
		t.Error("a full disk took a record")
	}
	d.SetSize(1 << 40)
	if err := write(t, l, "v", time.Minute); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
