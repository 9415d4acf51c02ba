package mysql

import (
	"context"
	"sync"
	"sync/atomic"

	"millrace/connectors"
	"millrace/connectors/cdc"
)

// seen is what the goroutine that reads shows of itself.
type seen struct {
	streaming   atomic.Bool
	gtids       atomic.Bool   // the server has GTIDs
	locked      atomic.Bool   // the snapshot holds its lock
	events      atomic.Uint64 // of the log, ever
	disconnects atomic.Uint64 // connections to the log that were lost
	skipped     atomic.Uint64 // events of rows that no definition fits

	mu   sync.Mutex // guards what follows
	file string
	at   int64
}

var (
	_ connectors.ProgressTeller = (*task)(nil)
	_ connectors.Sampler        = (*task)(nil)
)

// show is called after some events, never for each.
func (r *reader) show(events uint64) {
	s := &r.t.seen
	s.events.Add(events)
	s.mu.Lock()
	s.file, s.at = r.file, r.at
	s.mu.Unlock()
	r.events.Seen.At = r.micros
	if r.micros == 0 {
		r.events.Seen.At = r.pos.sec * microsPerSec
	}
	r.t.metrics.Streamed(&r.events.Seen)
	s.streaming.Store(true)
}

// Progress implements connectors.ProgressTeller. How much the server has beyond what it
// has sent nobody here knows.
func (t *task) Progress(context.Context) connectors.Progress {
	s, sn := &t.seen, t.scan.Progress()
	p := connectors.Progress{Position: cdc.Standing(sn, t.s.snapshot), At: s.events.Load(), Behind: -1, Snapshot: sn}
	if sn != nil {
		p.At += uint64(sn.Rows)
	}
	if s.streaming.Load() {
		s.mu.Lock()
		p.Position = placeText(s.file, s.at)
		s.mu.Unlock()
	}
	return p
}

// Samples implements connectors.Sampler.
func (t *task) Samples() []connectors.Sample {
	s := &t.seen
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	// Of a transaction that was rolled back the log holds what cannot be undone, and nothing is held back until its end.
	const stream = "streaming"
	return t.metrics.Samples(
		cdc.Figure{Context: "snapshot", Name: "HoldingGlobalLock", Help: "1 while the snapshot keeps changes away.", Value: truth(s.locked.Load())},
		cdc.Figure{Context: stream, Name: "BinlogPosition", Help: "Where in its file of the binary log the stream is.", Value: float64(at)},
		cdc.Figure{Context: stream, Name: "IsGtidModeEnabled", Help: "1 where the server has GTIDs.", Value: truth(s.gtids.Load())},
		cdc.Figure{Context: stream, Name: "NumberOfDisconnects", Help: "Connections to the binary log that were lost.", Value: float64(s.disconnects.Load())},
		cdc.Figure{Context: stream, Name: "NumberOfRolledBackTransactions", Help: "Transactions whose log ends in a ROLLBACK.", Value: float64(t.metrics.Rollbacks())},
		cdc.Figure{Context: stream, Name: "NumberOfSkippedEvents", Help: "Events with rows left out because no definition of their table fits them.", Value: float64(s.skipped.Load())},
		cdc.Figure{Context: stream, Name: "NumberOfNotWellFormedTransactions", Help: "Always 0: a log that is not well formed stops the task."},
		cdc.Figure{Context: stream, Name: "NumberOfLargeTransactions", Help: "Always 0: no transaction is held back until its end."},
	)
}
