package worker

import (
	"testing"
	"time"
)

// A transaction ends when nothing more is on its way; while many records come, a while after the one before it.
func TestWhenATransactionEnds(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name        string
		records     int
		coming      int64         // batches on their way
		began, last time.Duration // ago
		least, most time.Duration // wanted
	}{
		{"a row alone", 1, 0, 0, time.Hour, 0, 0},
		{"a row alone, close behind another", 1, 0, 0, 1 * ms, 0, 0},
		{"many rows after a rest", 1000, 0, 3 * ms, time.Second, 0, 0},
		{"many rows close behind others", 1000, 0, 3 * ms, 4 * ms, 1 * ms, apart - 4*ms},
		{"many rows a while behind others", 1000, 0, 15 * ms, apart, 0, 0},
		{"more is on its way", 1, 1, 0, time.Hour, apart, mergeFor},
		{"more is on its way, for long", 1, 1, mergeFor, time.Hour, 0, 0},
		{"full, close behind others", mergeRecords, 1, 0, 1 * ms, 0, 0},
	} {
		now := time.Now()
		x := &transactions{task: &sourceTask{}, boundary: "poll", open: true, records: c.records, began: now.Add(-c.began), last: now.Add(-c.last)}
		x.task.emitted.Store(c.coming)
		if got := x.wait(); got > c.most || got < c.least-time.Since(now) { // the test itself takes time
			t.Errorf("%s: waits %v, want %v to %v", c.name, got, c.least, c.most)
		}
	}
}
