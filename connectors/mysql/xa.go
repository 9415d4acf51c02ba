package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// The rows of a distributed transaction stand in the log at its XA PREPARE, before its
// outcome is known; XA COMMIT or XA ROLLBACK may come much later, and a restart of this
// connector may lie between. So the rows are left alone where they stand, the place is
// remembered (and stored with the position), and at XA COMMIT they are read again from
// there, through a connection of its own. Nothing is held in memory. Until its outcome,
// the server lets nobody change the tables of a prepared transaction: their definitions
// are still those of its rows.

// A preparedXA is where the rows of a prepared transaction stand.
type preparedXA struct {
	File   string `json:"file"`
	Pos    int64  `json:"pos"`
	Undone bool   `json:"undone,omitempty"` // there may be undone rows among them
}

// openXA is the group of rows of a transaction that is being prepared.
type openXA struct {
	id string // as the server's statements spell it
	at preparedXA
}

// xaStatement takes XA apart: "XA START X'72',X”,1".
func xaStatement(sql []byte) (verb, id string, ok bool) {
	text, ok := strings.CutPrefix(string(sql), "XA ")
	if !ok {
		return "", "", false
	}
	verb, id, _ = strings.Cut(text, " ")
	id = strings.TrimSuffix(strings.TrimSpace(id), " ONE PHASE")
	return strings.ToUpper(verb), id, true
}

// xa follows a statement about a distributed transaction.
func (r *reader) xa(ctx context.Context, h header, verb, id string, start int64, thread uint32) error {
	switch verb {
	case "START", "BEGIN":
		if r.open != nil {
			return nil // MariaDB's number of the transaction began it
		}
		if err := r.begin(ctx, h, start, thread, false); err != nil {
			return err
		}
		r.opensXA(id, r.pos.pos)
	case "END":
	case "PREPARE":
		return r.prepared(ctx, h, false)
	case "COMMIT":
		return r.decided(ctx, h, id, start, thread, true)
	case "ROLLBACK":
		return r.decided(ctx, h, id, start, thread, false)
	default:
		return r.failed(fmt.Errorf("the unknown statement XA %s at %s", verb, placeText(r.file, start)), start)
	}
	return nil
}

// opensXA begins the group of a transaction that is prepared.
func (r *reader) opensXA(id string, start int64) {
	r.open = &openXA{id: id, at: preparedXA{File: r.file, Pos: start}}
	r.undo.known = true // its rows are left alone here,
	r.pos.rowsDone = 0  // and all of them are counted where they are read again
}

// beginsXA reports whether an event begins the group of a transaction that is prepared,
// and which: MySQL's XA START, MariaDB's number of the transaction.
func beginsXA(h header, body []byte) (id string, ok bool, err error) {
	switch h.kind {
	case evMariaGTID:
		g, id, err := parseMariaGTIDEvent(body, h.server)
		return id, g.flags&mariaPreparedXA != 0, err
	case evQuery:
		q, err := parseQuery(body)
		if err != nil {
			return "", false, err
		}
		verb, id, ok := xaStatement(q.sql)
		return id, ok && (verb == "START" || verb == "BEGIN"), nil
	}
	return "", false, nil
}

// prepared takes the end of a prepared group. onePhase: it is its commit, too.
func (r *reader) prepared(ctx context.Context, h header, onePhase bool) error {
	open := r.open
	if open == nil {
		return fmt.Errorf("the end of a distributed transaction at %s that did not begin", placeText(r.file, r.at))
	}
	r.open = nil
	if onePhase {
		// What was left alone is read now.
		r.skipping = r.resume.events > 0 && r.resumesHere()
		if err := r.room(ctx, 0); err != nil {
			return err
		}
		if err := r.tell(); err != nil {
			return err
		}
		if err := r.replay(ctx, open.id, open.at); err != nil {
			return err
		}
		return r.commit(ctx, h)
	}
	prepared := maps.Clone(r.pos.prepared) // the map of a stored position does not change
	if prepared == nil {
		prepared = map[string]preparedXA{}
	}
	prepared[open.id] = open.at
	r.pos.prepared = prepared
	return r.commit(ctx, h)
}

// decided takes the outcome of a prepared transaction.
func (r *reader) decided(ctx context.Context, h header, id string, start int64, thread uint32, commit bool) error {
	if commit {
		if !r.inTx || !r.sv.mariadb {
			if err := r.begin(ctx, h, start, thread, true); err != nil {
				return err
			}
		}
		r.pos.events, r.pos.rowsDone = 1, 0
		r.undo.known = true // the rows stand elsewhere
		at, known := r.pos.prepared[id]
		err := errNoXA
		if known {
			err = r.replay(ctx, id, at)
		}
		if f := connectors.FailureOf(err); err == errNoXA || f != nil && (f.Reason == reasonLogLost || f.Reason == reasonLog) {
			// It was prepared before the snapshot, or this is another server's log, in which that place is another or none.
			if at, err = r.find(ctx, id, start); err == nil {
				err = r.replay(ctx, id, at)
			}
		}
		if err != nil {
			return err
		}
	}
	if _, known := r.pos.prepared[id]; known {
		r.pos.prepared = maps.Clone(r.pos.prepared)
		delete(r.pos.prepared, id)
	}
	return r.commit(ctx, h)
}

// errNoXA says that another transaction, or none, stands at a place.
var errNoXA = fmt.Errorf("no such distributed transaction stands there")

// replay reads the rows of a prepared transaction again and sends them.
func (r *reader) replay(ctx context.Context, id string, at preparedXA) error {
	var undone []eventSpan
	if at.Undone {
		var err error
		if undone, err = r.ahead(ctx, at.File, at.Pos); err != nil {
			return err
		}
	}
	x, err := r.reread(ctx, at.File, at.Pos)
	if err != nil {
		return err
	}
	defer x.close()
	// What the reader knows of the stream is as it was afterwards, but for the position
	// within the transaction.
	tables, file, query := r.tables, r.block.fields[srcFile], r.query
	r.tables, r.replaying = map[uint64]*mapped{}, true
	r.block.fields[srcFile] = schema.StringValue(at.File)
	defer func() {
		r.tables, r.block.fields[srcFile], r.query, r.replaying = tables, file, query, false
	}()
	begun, count := false, spanner{}
	return x.each(ctx, func(h header, body []byte, start int64) (bool, error) {
		event := count.events
		if _, err := count.event(h, body); err != nil {
			return false, r.failed(err, start)
		}
		if of, ok, err := beginsXA(h, body); err != nil {
			return false, r.failed(err, start)
		} else if ok {
			begun = begun || of == id
		}
		switch h.kind {
		case evXAPrepare:
			if !begun {
				return false, errNoXA
			}
			return false, nil
		case evTableMap, evRowsQuery, evMariaAnnotateRows, evWriteRows, evUpdateRows, evDeleteRows, evWriteRows1, evUpdateRows1, evDeleteRows1, evPartialUpdateRows,
			evMariaWritePacked1, evMariaUpdatePacked1, evMariaDelPacked1, evMariaWritePacked, evMariaUpdatePacked, evMariaDeletePacked:
			if !begun {
				return false, errNoXA
			}
			if _, leaves := undoneFrom(undone, event); leaves {
				return true, nil
			}
			return true, r.event(ctx, h, body, start, false)
		case evXID:
			return false, errNoXA
		}
		return true, nil
	})
}

// find looks through the log for where a transaction was prepared before a place, in the
// newest file first.
func (r *reader) find(ctx context.Context, id string, before int64) (preparedXA, error) {
	missing := func(err error) (preparedXA, error) {
		return preparedXA{}, connectors.Failed(reasonXA, err, fmt.Sprintf("the distributed transaction %s was committed at %s, and the log does not hold its rows any more", id, placeText(r.file, before)), "")
	}
	ss, err := r.t.s.open(ctx, r.t.cc.Files)
	if err != nil {
		return preparedXA{}, err
	}
	rows, err := ss.query(ctx, "SHOW BINARY LOGS")
	ss.close()
	if err != nil {
		return preparedXA{}, err
	}
	for _, row := range slices.Backward(rows) {
		name := row[0].text
		if name > r.file && len(name) == len(r.file) {
			continue // written since
		}
		found := preparedXA{}
		x, err := r.reread(ctx, name, 4)
		if err != nil {
			return missing(err)
		}
		err = x.each(ctx, func(h header, body []byte, start int64) (bool, error) {
			if x.file != name || name == r.file && start >= before {
				return false, nil
			}
			of, ok, err := beginsXA(h, body)
			if err != nil {
				return false, r.failed(err, start)
			}
			if ok && of == id {
				found = preparedXA{x.file, start, r.sv.mariadb}
			}
			return true, nil
		})
		x.close()
		if err != nil {
			return preparedXA{}, err
		}
		if found.File != "" {
			return found, nil
		}
	}
	return missing(nil)
}

// A rereader reads a part of the log once more.
type rereader struct {
	*reader
	w    *wire
	stop func() bool
}

// reread opens the log at a place, to its present end.
func (r *reader) reread(ctx context.Context, file string, pos int64) (*rereader, error) {
	w, sv, err := r.t.s.dump(ctx, r.t.cc.Files, file, pos, nil, true)
	if err != nil {
		return nil, err
	}
	x := &rereader{w: w, reader: &reader{t: r.t, sv: sv, w: w, file: file, at: pos, last: time.Now()}}
	x.stop = context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	return x, nil
}

func (x *rereader) close() {
	x.stop()
	_ = x.w.conn.Close()
	if x.zstd != nil {
		x.zstd.Close()
	}
}

// each calls take for each event until it wants no more or the log ends.
func (x *rereader) each(ctx context.Context, take func(h header, body []byte, start int64) (more bool, err error)) error {
	for {
		p, _, err := x.w.packet(time.Now().Add(time.Minute))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == errIdle:
			return x.t.s.classify(context.DeadlineExceeded, "read the binary log again at "+placeText(x.file, x.at))
		case err != nil:
			return x.t.s.classify(err, "read the binary log again at "+placeText(x.file, x.at))
		case len(p) > 0 && p[0] == 0xfe:
			return nil
		}
		h, body, start, err := x.open1(p)
		if err != nil {
			return err
		}
		if h.kind == evRotate {
			c := cursor{b: body}
			at := c.u64()
			x.file, x.at = string(c.b), int64(at)
			continue
		}
		more, err := true, error(nil)
		if h.kind == evPayload {
			err = x.unpack(h, body, start, func(in header, body []byte) error {
				if !more {
					return nil
				}
				var err error
				more, err = take(in, body, start)
				return err
			})
		} else {
			more, err = take(h, body, start)
		}
		if err != nil || !more {
			return err
		}
	}
}

// prepareEvent reads XA_PREPARE_LOG_EVENT: whether it commits at once.
func prepareEvent(body []byte) (onePhase bool, err error) {
	c := cursor{b: body}
	onePhase = c.u8() != 0
	if c.bad {
		return false, errShort
	}
	return onePhase, nil
}

// preparedText is the prepared transactions as an offset holds them.
func preparedText(p map[string]preparedXA) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic("mysql: " + err.Error()) // texts and numbers
	}
	return string(b)
}

func parsePrepared(text string) (map[string]preparedXA, error) {
	if text == "" {
		return nil, nil
	}
	var p map[string]preparedXA
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("the stored offset's %q: %w", offPrepared, err)
	}
	return p, nil
}
