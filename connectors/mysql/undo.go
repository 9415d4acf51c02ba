package mysql

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sort"
	"strings"

	"millrace/connectors/cdc"
	"millrace/schema"
)

// MariaDB's log holds rows that were undone: of transactions that end in a ROLLBACK, since they made or dropped a temporary
// table, and between a SAVEPOINT and a ROLLBACK TO it, where a table without transactions was changed besides. (The rows of
// such a table are no part of either: they stand in the log as transactions of their own, which commit.) Nothing at the
// beginning of a transaction tells that. So what was made of an open transaction is held back and cut where it was undone;
// one that is too large for that is read ahead to its end, through a connection of its own.

const (
	heldBytes = 4 << 20 // bounds what is held back of an open transaction, beside the batch in the making
	heldMarks = 1000    // bounds the savepoints that are remembered: some clients set one before each statement
)

// undo is what is known of the open transaction's undone rows.
type undo struct {
	held   []heldBatch // full batches whose fate is open, in their order
	marks  []undoMark  // its beginning, then the savepoints that are set
	known  bool        // nothing of it is open any more:
	undone []eventSpan // these events of it were undone; in order, and none within another
}

// A heldBatch is a batch that is not in the queue yet, and the position behind it.
type heldBatch struct {
	records []schema.Record
	size    int
	pos     position
}

// An undoMark is a place that a transaction may go back to.
type undoMark struct {
	name  string   // of the savepoint; "" for the transaction's beginning
	pos   position // without what is executed
	held  int      // the full batches before it,
	build cdc.Mark // and how far the one in the making was
}

// An eventSpan is a range of a transaction's events, without the last one.
type eventSpan struct{ from, to int64 }

// holds reports whether what was made of the open transaction must not go yet.
func (r *reader) holds() bool {
	return r.inTx && r.sv.mariadb && !r.undo.known
}

// mark notes a place that the transaction may go back to.
func (r *reader) mark(name string) {
	if !r.holds() {
		return
	}
	m := undoMark{name, r.pos, len(r.undo.held), r.build.Mark()}
	m.pos.tx = r.events.Tx.State()
	r.undo.marks = append(r.undo.marks, m)
}

// savepoint follows a statement about savepoints within a transaction.
func (r *reader) savepoint(ctx context.Context, verb, name string) error {
	u := &r.undo
	if verb == setSavepoint {
		if len(u.marks) > heldMarks {
			return r.know(ctx)
		}
		r.mark(name)
		return nil
	}
	at := len(u.marks) - 1
	for at > 0 && !strings.EqualFold(u.marks[at].name, name) {
		at--
	}
	switch {
	case r.open != nil:
		r.open.at.Undone = r.open.at.Undone || verb == backToSavepoint && r.sv.mariadb
	case at <= 0: // it was read ahead, or is of no interest
		if verb == backToSavepoint && !u.known {
			r.t.lg.Warn("a transaction in the log goes back to a savepoint, which this server does not log of rows that were undone: they are sent", "at", placeText(r.file, r.at))
		}
	case verb == backToSavepoint:
		r.cut(u.marks[at])
		u.marks = u.marks[:at+1]
	default:
		u.marks = u.marks[:at]
	}
	return nil
}

const (
	setSavepoint    = "SAVEPOINT "
	backToSavepoint = "ROLLBACK TO "
	endSavepoint    = "RELEASE SAVEPOINT "
)

func savepointOf(sql []byte) (verb, name string, ok bool) {
	for _, verb := range []string{setSavepoint, backToSavepoint, endSavepoint} {
		if len(sql) >= len(verb) && bytes.EqualFold(sql[:len(verb)], []byte(verb)) {
			return verb, string(bytes.TrimSpace(sql[len(verb):])), true
		}
	}
	return "", "", false
}

// cut takes back what was made of the transaction behind a mark.
func (r *reader) cut(m undoMark) {
	u := &r.undo
	if m.held == len(u.held) {
		r.build.Cut(m.build)
	} else {
		r.build.Cut(cdc.Mark{})
		last := &u.held[m.held]
		last.records = last.records[:m.build.Len()]
		executed := last.pos.gtids
		last.pos = m.pos
		last.pos.gtids = executed
		clear(u.held[m.held+1:])
		u.held = u.held[:m.held+1]
	}
	r.pos.rowsDone = m.pos.rowsDone // of rows that were undone none counts, whether they are left out or cut
	if r.events.Tx != nil {
		r.events.Tx.Resume(m.pos.tx)
	}
}

// rolledBack takes back all of a transaction whose log ends in a ROLLBACK.
func (r *reader) rolledBack(start int64) {
	r.events.Seen.Rollbacks++
	switch {
	case !r.inTx || r.undo.known:
	case len(r.undo.marks) > 0:
		r.cut(r.undo.marks[0])
	default:
		r.t.lg.Warn("a transaction in the log ends in a ROLLBACK, which this server does not log of rows that were undone: they are sent", "at", placeText(r.file, start))
	}
}

// abandon takes back a transaction that has no end in the log: its server died while it wrote it.
func (r *reader) abandon(ctx context.Context) error {
	if !r.inTx || len(r.undo.marks) == 0 {
		return nil
	}
	r.cut(r.undo.marks[0])
	r.inTx = false
	return r.release(ctx) // what is of the transactions before it
}

// hold keeps a full batch of the open transaction, or reads the transaction ahead where that is too much.
func (r *reader) hold(ctx context.Context, h heldBatch) error {
	u := &r.undo
	u.held = append(u.held, h)
	size := 0
	for _, h := range u.held {
		size += h.size
	}
	if size <= heldBytes {
		return nil
	}
	return r.know(ctx)
}

// know reads the open transaction ahead, takes back what is undone of it, and lets the rest go.
func (r *reader) know(ctx context.Context) error {
	u := &r.undo
	spans, err := r.ahead(ctx, r.pos.file, r.pos.pos)
	if err != nil {
		return err
	}
	if from, back := undoneFrom(spans, r.pos.events); back {
		for _, m := range u.marks {
			if m.pos.events == from {
				r.cut(m)
			}
		}
	}
	u.known, u.undone, u.marks = true, spans, nil
	return r.release(ctx)
}

// release puts what was held into the queue.
func (r *reader) release(ctx context.Context) error {
	held := r.undo.held
	r.undo.held = nil
	for _, h := range held {
		if err := r.put(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// leaves reports whether the event at hand was undone.
func (r *reader) leaves() bool {
	_, undone := undoneFrom(r.undo.undone, r.pos.events)
	return undone
}

// undoneFrom is where the span begins that an event lies in.
func undoneFrom(spans []eventSpan, event int64) (from int64, undone bool) {
	behind := sort.Search(len(spans), func(i int) bool { return spans[i].from > event })
	if behind == 0 || event >= spans[behind-1].to {
		return 0, false
	}
	return spans[behind-1].from, true
}

// ahead reads the transaction that begins there to its end and returns which of its events are undone.
func (r *reader) ahead(ctx context.Context, file string, pos int64) ([]eventSpan, error) {
	x, err := r.reread(ctx, file, pos)
	if err != nil {
		return nil, err
	}
	defer x.close()
	s := spanner{}
	err = x.each(ctx, func(h header, body []byte, start int64) (bool, error) {
		more, err := s.event(h, body)
		return more, r.failed(err, start)
	})
	if err == nil && !s.ended {
		err = r.broken(fmt.Errorf("the transaction that begins at %s has no end", placeText(file, pos)))
	}
	return s.undone, err
}

// A savedEvent is where a savepoint was set.
type savedEvent struct {
	name  string
	event int64
}

// A spanner finds the undone events of a transaction. It counts events as positions do.
type spanner struct {
	events int64 // the transaction's so far; 0: it has not begun
	saved  []savedEvent
	undone []eventSpan
	ended  bool
}

func (s *spanner) event(h header, body []byte) (more bool, err error) {
	if s.events == 0 && h.kind != evMariaGTID || h.flags&flagArtificial != 0 || h.kind == evHeartbeat || h.kind == evHeartbeat2 {
		return true, nil
	}
	switch h.kind {
	case evXID, evXAPrepare:
		s.ended = true
	case evQuery:
		q, err := parseQuery(body)
		if err != nil {
			return false, err
		}
		switch verb, name, ok := savepointOf(q.sql); {
		case ok:
			s.savepoint(verb, name)
		case bytes.EqualFold(q.sql, []byte("COMMIT")):
			s.ended = true
		case bytes.EqualFold(q.sql, []byte("ROLLBACK")):
			s.ended = true
			s.undo(0, math.MaxInt64)
		}
	}
	s.events++
	return !s.ended, nil
}

func (s *spanner) savepoint(verb, name string) {
	if verb == setSavepoint {
		s.saved = append(s.saved, savedEvent{name, s.events})
		return
	}
	at := len(s.saved) - 1
	for at >= 0 && !strings.EqualFold(s.saved[at].name, name) {
		at--
	}
	switch {
	case at < 0:
	case verb == backToSavepoint:
		s.undo(s.saved[at].event, s.events)
		s.saved = s.saved[:at+1]
	default:
		s.saved = s.saved[:at]
	}
}

// undo notes a span. Going back ends the savepoints set since: the spans before it lie within it or end before it begins.
func (s *spanner) undo(from, to int64) {
	for n := len(s.undone); n > 0 && s.undone[n-1].from >= from; n-- {
		s.undone = s.undone[:n-1]
	}
	s.undone = append(s.undone, eventSpan{from, to})
}
