package mysql

import (
	"context"
	"sync"
	"sync/atomic"

	"millrace/connectors"
)

// seen is what the goroutine that reads shows of itself.
type seen struct {
	streaming atomic.Bool
	events    atomic.Uint64 // of the log, ever; rows of a snapshot

	mu   sync.Mutex // guards what follows
	file string
	at   int64
}

var _ connectors.ProgressTeller = (*task)(nil)

// Progress implements connectors.ProgressTeller. How much the server has beyond what it
// has sent nobody here knows.
func (t *task) Progress(context.Context) connectors.Progress {
	s := &t.seen
	p := connectors.Progress{Position: "the snapshot, or on the way to the server", At: s.events.Load(), Behind: -1}
	if s.streaming.Load() {
		s.mu.Lock()
		p.Position = placeText(s.file, s.at)
		s.mu.Unlock()
	}
	return p
}
