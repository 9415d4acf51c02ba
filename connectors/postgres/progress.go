package postgres

import (
	"context"
	"sync/atomic"

	"millrace/connectors"
	"millrace/connectors/cdc"
)

// seen is what the goroutine that reads the stream shows of itself.
type seen struct {
	streaming atomic.Bool
	messages  atomic.Uint64 // of the replication protocol, ever
	received  atomic.Uint64 // the LSN up to which the server has sent
	commit    atomic.Uint64 // of the transaction that is open; 0: none is
	read      atomic.Uint64 // the LSN up to which transactions were read,
	queued    atomic.Uint64 // and handed on
}

var (
	_ connectors.ProgressTeller = (*task)(nil)
	_ connectors.Sampler        = (*task)(nil)
)

// Samples implements connectors.Sampler.
func (t *task) Samples() []connectors.Sample {
	return append(t.metrics.Samples(), t.watch.samples()...)
}

// show is called after some messages, never for each.
func (r *reader) show(messages int) {
	s := &r.t.seen
	s.messages.Add(uint64(messages))
	s.received.Store(r.received)
	s.read.Store(uint64(r.pos.commit))
	s.queued.Store(uint64(r.queued.commit))
	open := uint64(0)
	if r.inTx {
		open = uint64(r.commit)
	}
	s.commit.Store(open)
	r.events.Seen.At = r.micros
	r.t.metrics.Streamed(&r.events.Seen)
	s.streaming.Store(true)
}

// Progress implements connectors.ProgressTeller. Behind is what the server has said to
// be there: the rest of a transaction that has begun, or what was read and not handed
// on. How much a server has not announced yet nobody here knows: its keepalives, which come
// while it has nothing to send, are taken for what they say. During a snapshot nothing is known.
func (t *task) Progress(context.Context) connectors.Progress {
	s := &t.seen
	sn := t.scan.Progress()
	p := connectors.Progress{Position: cdc.Standing(sn, t.s.snapshot), At: s.messages.Load(), Behind: -1, Snapshot: sn}
	if p.Snapshot != nil {
		p.At += uint64(p.Snapshot.Rows)
	}
	if !s.streaming.Load() {
		return p
	}
	received, commit := s.received.Load(), s.commit.Load()
	queued, read := s.queued.Load(), s.read.Load()
	p.Position, p.Behind = "LSN "+lsn(received).String(), 0
	switch {
	case commit != 0:
		p.Behind = int64(max(commit, received+1) - received)
	case read > queued:
		p.Behind = int64(read - queued)
	}
	return p
}
