package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"millrace/log"
	"millrace/runtime"
)

// The same on a cluster of three brokers that are not ours: nothing here asks what
// kind of log it is.
func TestOverACluster(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.DefaultNumPartitions(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	l, err := log.Open(ctx, log.Config{Seeds: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	source, sink := NewSource(), NewSink()
	p := Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory"))
	settings := []string{"offset.storage.partitions", "5", "status.storage.partitions", "3", "config.storage.replication.factor", "3"}
	h := Worker(t, l, p, settings...)
	Create(t, h, "numbers", "connector.class", "Numbers", "topic", "n", "count", "500")
	Create(t, h, "memory", "connector.class", "Memory", "topics", "n", "tasks.max", "2")
	Until(t, "all records", func() bool { return len(sink.Values()) >= 500 })
	Until(t, "the commit", func() bool { return source.Committed("numbers", 0) == 500 })
	for i := range 2 {
		AwaitState(t, h, "memory", i, runtime.Running)
	}
	Close(t, h)

	// It goes on where it stood.
	h = Worker(t, l, p, settings...)
	AwaitState(t, h, "numbers", 0, runtime.Running)
	Until(t, "the source to run again", func() bool { return len(source.Starts()) == 2 })
	if at := source.Starts()[1]; at != 500 {
		t.Errorf("the source resumes at %d, want 500", at)
	}
	Create(t, h, "numbers", "connector.class", "Numbers", "topic", "n", "count", "501")
	Until(t, "the next record", func() bool { return slices.Contains(sink.Values(), "v500") })
	for i, v := range sink.Values()[:500] {
		if v != fmt.Sprintf("v%d", i) {
			t.Fatalf("record %d is %s", i, v)
		}
	}
	if n := len(sink.Values()); n != 501 {
		t.Errorf("%d records in the sink, want 501: offsets were not committed", n)
	}
}
