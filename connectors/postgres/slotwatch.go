package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"millrace/connectors"
)

// A slotWatch looks at the slot every so often, on a connection of its own: what the
// server keeps for it, how far its confirmed position is behind, and who reads it. It
// warns of much, and acts at a limit. The reader asks it whether a sender that is silent
// still lives.
type slotWatch struct {
	t *task

	mu   sync.Mutex // guards last
	last slotLook

	confirmedMicros atomic.Int64 // when what was last confirmed was made in the database; 0: unknown

	// Of the goroutine that looks.
	warnFrom int64 // bytes from which on the next warning is due
	nearing  bool  // the limit, or the server's, was warned of
	lowest   int64 // retained at the limit, as low as it was
	stood    int   // looks since it was as low
	messages uint64
}

// A slotLook is what one look found.
type slotLook struct {
	at       time.Time // zero: none was taken
	there    bool      // there is a slot
	pid      string    // who reads it; empty: nobody
	end      lsn       // of the server's log
	now      int64     // the server's time, in microseconds since 1970
	retained int64     // bytes of the log that the server keeps for it
	lag      int64     // bytes between its confirmed position and the end; -1: it has none yet
	safe     int64     // bytes that may still be written before it is lost; -1: without end
}

const (
	warnRetained = 1 << 30 // without a limit, a warning at this and at each doubling
	looksToAct   = 6       // at the limit, without falling
)

// end is the end of the server's log: of what is there of it on a standby.
const walEnd = "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_flush_lsn() END"

// look asks the server.
func (c *session) lookAtSlot(ctx context.Context) (slotLook, error) {
	l := slotLook{lag: -1, safe: -1}
	safe := "NULL"
	if c.version >= 130000 {
		safe = "s.safe_wal_size"
	}
	rows, err := c.query(ctx, `SELECT w.lsn, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint, s.slot_name, s.active_pid,
		pg_catalog.pg_wal_lsn_diff(w.lsn, s.restart_lsn)::bigint, pg_catalog.pg_wal_lsn_diff(w.lsn, s.confirmed_flush_lsn)::bigint, `+safe+`
		FROM (SELECT `+walEnd+` AS lsn) w LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = `+quoteText(c.s.slot))
	if err != nil {
		return l, c.s.classify(err, fmt.Sprintf("look at slot %q", c.s.slot))
	}
	r := rows[0]
	if l.end, err = parseLSN(r[0].text); err != nil {
		return l, err
	}
	number := func(f field, into *int64) {
		if n, err := strconv.ParseInt(f.text, 10, 64); err == nil && !f.null {
			*into = max(0, n)
		}
	}
	number(r[1], &l.now)
	l.there, l.pid = !r[2].null, r[3].text
	number(r[4], &l.retained)
	number(r[5], &l.lag)
	number(r[6], &l.safe)
	l.at = time.Now()
	return l, nil
}

// run looks until ctx ends. fail ends the task.
func (w *slotWatch) run(ctx context.Context, fail func(error)) {
	s := w.t.s
	var c *session
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for {
		err := error(nil)
		if c == nil {
			c, err = s.open(ctx, w.t.cc.Files)
		}
		if err == nil {
			var l slotLook
			if l, err = c.lookAtSlot(ctx); err == nil {
				w.mu.Lock()
				w.last = l
				w.mu.Unlock()
				if over := w.judge(l); over != nil {
					fail(over)
					return
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			w.t.lg.Debug("the slot could not be looked at", "slot", s.slot, "error", err)
			if c != nil {
				c.close()
				c = nil
			}
		}
		if !pause(ctx, s.watchEvery) {
			return
		}
	}
}

// seen is the last look, which may be old; false: there was none.
func (w *slotWatch) seen() (slotLook, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, !w.last.at.IsZero()
}

// judge warns, and returns an error where the task must end.
func (w *slotWatch) judge(l slotLook) error {
	s := w.t.s
	lg := w.t.lg.With("slot", s.slot, "retained", l.retained, "behind", max(0, l.lag))
	if !l.there {
		return nil
	}
	// What holds the log back: our own position, or a transaction that is open on the server.
	if l.lag >= 0 && l.retained-l.lag > max(l.lag, 1<<28) {
		lg = lg.With("cause", "the confirmed position moves on, but a transaction that began long ago is still open on the server: SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start")
	}
	near := s.retainLimit > 0 && l.retained >= s.retainLimit/5*4 || l.safe >= 0 && l.safe < (l.retained+l.safe)/5
	switch {
	case near && !w.nearing:
		if l.safe >= 0 && l.safe < (l.retained+l.safe)/5 {
			lg.Warn("the slot is nearly at max_slot_wal_keep_size: beyond it the server drops what the slot needs, and a new snapshot is needed", "left", l.safe)
		} else {
			lg.Warn("the slot is nearly at slot.retained.wal.limit.bytes", "limit", s.retainLimit, "action", s.retainAction)
		}
	case s.retainLimit == 0 && l.safe < 0 && l.retained >= max(warnRetained, w.warnFrom):
		lg.Warn("the slot makes the server keep much of its log: the connector is behind, or stands still")
		w.warnFrom = 2 * l.retained
	}
	w.nearing = near
	if l.retained < warnRetained/2 {
		w.warnFrom = 0
	}
	return w.limit(l)
}

// limit returns an error where the limit is reached and the action is not to warn alone.
// A task that catches up is let be: what is retained must not have fallen for some
// looks. One within a transaction, which holds its position until the end, has twice the limit.
func (w *slotWatch) limit(l slotLook) error {
	s := w.t.s
	if s.retainLimit == 0 || l.retained < s.retainLimit {
		w.stood, w.lowest = 0, 0
		return nil
	}
	messages := w.t.seen.messages.Load()
	moves := w.t.seen.streaming.Load() && messages != w.messages
	w.messages = messages
	if w.lowest == 0 || l.retained < w.lowest {
		w.stood, w.lowest = 0, l.retained
		if s.retainAction != retainWarn {
			return nil
		}
	}
	if w.stood++; s.retainAction == retainWarn {
		if w.stood == 1 || w.stood%looksToAct == 0 {
			w.t.lg.Warn("the slot has passed slot.retained.wal.limit.bytes", "slot", s.slot, "retained", l.retained, "limit", s.retainLimit)
		}
		return nil
	}
	if w.stood < looksToAct || moves && l.retained < 2*s.retainLimit {
		return nil
	}
	cause := fmt.Sprintf("the server keeps %d bytes of its log for slot %q, at a limit of %d (slot.retained.wal.limit.bytes), and it does not become less", l.retained, s.slot, s.retainLimit)
	if s.retainAction == retainDrop {
		return connectors.Failed(reasonSlotFull, nil, cause+"; the slot is dropped, as slot.retained.wal.action=drop asks",
			"see why the log or the network could not keep up; then take a new snapshot: delete the connector's offsets and resume it, or set snapshot.mode=when_needed")
	}
	return connectors.Failed(reasonSlotFull, nil, cause, "")
}

// The values of slot.retained.wal.action.
const (
	retainWarn = "warn"
	retainFail = "fail"
	retainDrop = "drop"
)

// confirmed notes when what is confirmed was made in the database.
func (w *slotWatch) confirmed(micros int64) {
	for {
		now := w.confirmedMicros.Load()
		if micros <= now || w.confirmedMicros.CompareAndSwap(now, micros) {
			return
		}
	}
}

// behind is how old the newest change is that the slot is confirmed up to, while there
// is more; false: unknown.
func (w *slotWatch) behind(l slotLook) (time.Duration, bool) {
	at := w.confirmedMicros.Load()
	switch {
	case l.lag == 0:
		return 0, true
	case l.lag < 0 || at == 0:
		return 0, false
	}
	return time.Duration(max(0, l.now-at)) * time.Microsecond, true
}

// samples are the figures of the slot, while they are fresh.
func (w *slotWatch) samples() []connectors.Sample {
	l, ok := w.seen()
	if !ok || !l.there || time.Since(l.at) > 3*w.t.s.watchEvery+10*time.Second {
		return nil
	}
	labels := []connectors.Label{{Name: "slot", Value: w.t.s.slot}, {Name: "database", Value: w.t.s.database}}
	out := []connectors.Sample{{Name: "millrace_postgres_slot_retained_bytes", Help: "Bytes of its log that the server keeps for the slot.", Labels: labels, Value: float64(l.retained)}}
	if l.lag >= 0 {
		out = append(out, connectors.Sample{Name: "millrace_postgres_slot_lag_bytes", Help: "Bytes of the server's log behind the slot's confirmed position.", Labels: labels, Value: float64(l.lag)})
	}
	if d, ok := w.behind(l); ok {
		out = append(out, connectors.Sample{Name: "millrace_postgres_slot_lag_seconds", Help: "Age of the slot's confirmed position, 0 where nothing lies behind it.", Labels: labels, Value: d.Seconds()})
	}
	if l.safe >= 0 {
		out = append(out, connectors.Sample{Name: "millrace_postgres_slot_safe_bytes", Help: "Bytes that may still be written before max_slot_wal_keep_size takes from the slot what it needs.", Labels: labels, Value: float64(l.safe)})
	}
	return out
}
