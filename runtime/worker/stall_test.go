package worker

import (
	"testing"
	"time"

	"millrace/connectors"
	"millrace/runtime"
)

// What looks at a task find: each row is a task's life, a look every minute.
func TestStalls(t *testing.T) {
	const none = ""
	at := func(n uint64, behind int64) *connectors.Progress {
		return &connectors.Progress{Position: "x", At: n, Behind: behind}
	}
	begun := time.Now()
	for _, c := range []struct {
		name  string
		kind  runtime.Type
		looks int
		see   func(minute int, s *sample)
		code  string        // after the last look
		since time.Duration // minutes after the first look
	}{
		{"an idle source", runtime.SourceType, 60, func(int, *sample) {}, none, 0},
		{"a source whose batches are taken", runtime.SourceType, 60, func(m int, s *sample) { s.emitted, s.shaped, s.acked = int64(m)*9+3, int64(m)*9+2, int64(m)*9 }, none, 0},
		{"one of which the log takes a batch now and then", runtime.SourceType, 60, func(m int, s *sample) { s.emitted, s.shaped, s.acked = 100, 100, int64(m) }, none, 0},
		{"one whose batches the log does not take", runtime.SourceType, 20, func(m int, s *sample) {
			s.emitted, s.shaped, s.acked = 10, 9, 5
			if m < 3 {
				s.acked = int64(m)
			}
		}, "task.log_does_not_answer", 3},
		{"one that goes on emitting while the log takes nothing", runtime.SourceType, 20, func(m int, s *sample) { s.emitted, s.shaped, s.acked = int64(m)+10, int64(m)+9, 5 }, "task.log_does_not_answer", 0},
		{"one whose last batch stays in a converter", runtime.SourceType, 20, func(m int, s *sample) { s.emitted, s.shaped, s.acked = 10, 9, 9 }, "task.converting_hangs", 0},
		{"one whose offsets cannot be stored", runtime.SourceType, 20, func(m int, s *sample) {
			s.emitted, s.shaped, s.acked = int64(m)+1, int64(m)+1, int64(m)
			if m > 4 {
				s.failing = begun.Add(4 * time.Minute)
			}
		}, "task.commit_fails", 4},
		{"one whose transaction does not end", runtime.SourceType, 20, func(m int, s *sample) { s.stage, s.stageSince = committing, begun.Add(2*time.Minute) }, "task.commit_fails", 2},
		{"a source that has nothing more to read", runtime.SourceType, 60, func(m int, s *sample) { s.source = at(7, 0) }, none, 0},
		{"one that cannot tell", runtime.SourceType, 60, func(m int, s *sample) { s.source = at(7, -1) }, none, 0},
		{"one that reads a transaction for hours and emits nothing", runtime.SourceType, 300, func(m int, s *sample) { s.source = at(uint64(m), 1<<30) }, none, 0},
		{"one that emits for hours from where it stays", runtime.SourceType, 300, func(m int, s *sample) {
			s.source = at(7, 1<<30)
			s.emitted, s.shaped, s.acked = int64(m), int64(m), int64(m)
		}, none, 0},
		{"one that stays behind", runtime.SourceType, 20, func(m int, s *sample) {
			s.source = at(min(uint64(m), 6), 100)
		}, "task.source_hangs", 6},
		{"one that stays where it is, and what it follows grows only later", runtime.SourceType, 20, func(m int, s *sample) {
			if s.source = at(7, 0); m >= 10 {
				s.source = at(7, 5)
			}
		}, "task.source_hangs", 10},
		{"one that does not say where it is", runtime.SourceType, 20, func(m int, s *sample) { s.silent = begun.Add(time.Minute) }, "task.source_hangs", 1},

		{"an idle sink", runtime.SinkType, 60, func(m int, s *sample) { s.done, s.end = 5, 5 }, none, 0},
		{"a sink that is behind and gets on", runtime.SinkType, 60, func(m int, s *sample) { s.done, s.end = int64(m), 1000+2*int64(m) }, none, 0},
		{"one that holds what it has, with what nobody will read behind it", runtime.SinkType, 60, func(m int, s *sample) { s.done, s.end = 5, 9 }, none, 0},
		{"one that does not read while its topics grow", runtime.SinkType, 20, func(m int, s *sample) { s.done, s.end = min(5, int64(m)), 5+int64(m) }, "task.reading_hangs", 5},
		{"one whose target does not return", runtime.SinkType, 20, func(m int, s *sample) {
			s.done, s.end, s.stage, s.stageSince = 5, 9, putting, begun.Add(7*time.Minute)
		}, "task.target_hangs", 7},
		{"one that puts the same again and again", runtime.SinkType, 20, func(m int, s *sample) { s.done, s.end, s.pending = 5, 9, 4 }, "task.target_hangs", 0},
		{"one whose records stay in a converter", runtime.SinkType, 20, func(m int, s *sample) { s.stage, s.stageSince = converting, begun }, "task.converting_hangs", 0},
		{"one that cannot flush, but reads on", runtime.SinkType, 20, func(m int, s *sample) {
			s.done, s.end, s.failing = int64(m), 1000, begun.Add(3*time.Minute)
		}, "task.commit_fails", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &Watch{fresh: true}
			var last *Stall
			for m := range c.looks {
				s := sample{now: begun.Add(time.Duration(m) * time.Minute)}
				c.see(m, &s)
				last = w.judge(c.kind, s)
				if c.code == none && last != nil && s.now.Sub(last.Since) >= 2*time.Minute {
					t.Fatalf("minute %d: %s since %v", m, last.Reason.Code, last.Since.Sub(begun))
				}
			}
			switch {
			case c.code == none:
			case last == nil:
				t.Fatalf("no stall, want %s", c.code)
			case last.Reason.Code != c.code || last.Since.Sub(begun) != c.since*time.Minute:
				t.Errorf("%s since minute %v, want %s since minute %d", last.Reason.Code, last.Since.Sub(begun), c.code, c.since)
			}
		})
	}
}

func TestEveryReasonOfTheRuntimeSaysWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if r.Code == "" || r.Doc == "" || r.Remedy == "" || seen[r.Code] {
			t.Errorf("%+v", r)
		}
		seen[r.Code] = true
	}
}
