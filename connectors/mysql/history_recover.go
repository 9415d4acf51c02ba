package mysql

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/connectors"
)

// recovery makes one up to a place.
func (h *schemas) recovery(upTo Place) (*recovery, error) {
	r := &recovery{h: h, upTo: upTo, d: h.cat.d}
	if upTo.GTIDs != "" {
		set, err := parseGTIDs(upTo.GTIDs, h.s.mariadb)
		if err != nil {
			return nil, fmt.Errorf("the stored position: %w", err)
		}
		r.set = set
	}
	return r, nil
}

// Rewind implements Schemas.
func (h *schemas) Rewind(ctx context.Context, upTo Place) error {
	r, err := h.recovery(upTo)
	if err != nil {
		return err
	}
	if done, err := r.done(h.last); done || err != nil {
		return err
	}
	return h.Recover(ctx, upTo)
}

// Recover implements Schemas.
func (h *schemas) Recover(ctx context.Context, upTo Place) error {
	began := time.Now()
	r, err := h.recovery(upTo)
	if err != nil {
		return err
	}
	h.cat = newCatalog(h.cat.d)
	h.written = map[[16]byte]bool{}
	h.sinceRecords, h.sinceBytes, h.nextSnapshot = 0, 0, 0
	if err := h.journal.Replay(ctx, r.entry); err != nil {
		return fmt.Errorf("read the schema history in %s: %w", h.where, err)
	}
	if err := r.flush(); err != nil {
		return fmt.Errorf("read the schema history in %s: %w", h.where, err)
	}
	if r.applied == 0 {
		return connectors.Failed(reasonHistory, nil, fmt.Sprintf("the schema history in %s has no record up to the stored position %s, of %d that it holds", h.where, upTo, r.seen), "")
	}
	h.last = r.last
	h.lg.Info("the schema history was read", "in", h.where, "records", r.seen, "applied", r.applied, "behind the position", len(h.written), "tables", len(h.cat.tables), "took", time.Since(began).Round(time.Millisecond).String())
	return h.rest(ctx)
}

// A recovery reads the journal. Records are kept until a snapshot makes them needless, or
// they take too much room.
type recovery struct {
	h     *schemas
	d     dialect
	upTo  Place
	set   *gtidSet
	parts []*snapshotPart

	pending       [][]byte
	bytes         int
	seen, applied int
	last          Place
	lastSet       *gtidSet
	same          map[[16]byte]bool // records at the last place
}

func (r *recovery) entry(e []byte) error {
	if len(bytes.TrimSpace(e)) == 0 {
		return nil
	}
	r.seen++
	if isSnapshot(e) {
		return r.snapshot(e)
	}
	r.h.sinceRecords++
	r.h.sinceBytes += len(e)
	r.pending = append(r.pending, bytes.Clone(e))
	if r.bytes += len(e); r.bytes > pendingBytes {
		return r.flush()
	}
	return nil
}

// snapshot takes a part. A snapshot that has all its parts and stands at or before the
// stored position is as good as all that was before it.
func (r *recovery) snapshot(e []byte) error {
	rec, err := parseHistory(e)
	if err != nil {
		return r.wrong(err)
	}
	p := rec.Millrace.Snapshot
	if p == nil || rec.Source.Server != r.h.s.prefix {
		return nil
	}
	if p.Part == 0 {
		r.parts = nil
	} else if len(r.parts) != p.Part || r.parts[0].ID != p.ID {
		return nil // its first parts are missing
	}
	if r.parts = append(r.parts, p); len(r.parts) < p.Of {
		return nil
	}
	at := rec.Position.place()
	done, err := r.done(at)
	if err != nil || !done {
		return err
	}
	r.h.cat.restore(r.parts)
	r.applied += len(r.parts)
	r.parts, r.pending, r.bytes, r.same = nil, nil, 0, nil
	r.h.sinceRecords, r.h.sinceBytes = 0, 0
	return r.reached(at)
}

func (r *recovery) wrong(err error) error {
	return connectors.Failed(reasonHistory, err, fmt.Sprintf("record %d", r.seen), "")
}

func (r *recovery) flush() error {
	for _, e := range r.pending {
		if err := r.take(e); err != nil {
			return err
		}
	}
	r.pending, r.bytes = r.pending[:0], 0
	return nil
}

// take applies a record, where it is of ours and at or before the stored position.
func (r *recovery) take(e []byte) error {
	rec, err := parseHistory(e)
	if err != nil {
		return r.wrong(err)
	}
	if rec.Source.Server != r.h.s.prefix || rec.DDL == nil {
		return nil
	}
	at := rec.Position.place()
	key := digest(at, rec.DatabaseName, *rec.DDL)
	done, err := r.done(at)
	if err != nil {
		return r.wrong(err)
	}
	if !done {
		r.h.written[key] = true
		return nil
	}
	first := at.Snapshot && rec.DatabaseName == "" && strings.HasPrefix(strings.ToUpper(*rec.DDL), "SET ")
	if first { // a snapshot begins: nothing that was before it counts
		r.h.cat = newCatalog(r.d)
	} else if again, err := r.repeats(at, key); err != nil {
		return r.wrong(err)
	} else if again {
		return nil
	}
	if err := r.reached(at); err != nil {
		return r.wrong(err)
	}
	r.same[key] = true
	r.applied++
	return r.apply(rec, at)
}

// reached notes the place of what was applied.
func (r *recovery) reached(at Place) (err error) {
	if r.same == nil || !samePlace(at, r.last) {
		r.same = map[[16]byte]bool{}
		if at.GTIDs != r.last.GTIDs || r.lastSet == nil {
			r.lastSet, err = parseGTIDs(at.GTIDs, r.h.s.mariadb)
		}
	}
	r.last = at
	return err
}

func samePlace(a, b Place) bool {
	return a.File == b.File && a.Pos == b.Pos && a.Event == b.Event && a.GTIDs == b.GTIDs
}

// repeats reports whether a record was applied before: whoever resumes before a statement
// that is in the history already may write it once more. So does Debezium.
func (r *recovery) repeats(at Place, key [16]byte) (bool, error) {
	if r.same == nil {
		return false, nil
	}
	if samePlace(at, r.last) {
		return r.same[key] && !at.Snapshot, nil
	}
	if at.Snapshot {
		return false, nil
	}
	if at.GTIDs != "" && r.last.GTIDs != "" && at.GTIDs != r.last.GTIDs {
		set, err := parseGTIDs(at.GTIDs, r.h.s.mariadb)
		if err != nil {
			return false, err
		}
		return r.lastSet.contains(set), nil
	}
	order, comparable := compareFiles(at, r.last)
	return comparable && order < 0 && at.ServerID == r.last.ServerID, nil
}

// done reports whether what stands at a place is at or before the stored position.
func (r *recovery) done(at Place) (bool, error) {
	if r.set != nil && at.GTIDs != "" && at.GTIDs != r.upTo.GTIDs {
		set, err := parseGTIDs(at.GTIDs, r.h.s.mariadb)
		if err != nil {
			return false, err
		}
		if !r.set.contains(set) {
			return false, nil
		}
		if !set.contains(r.set) {
			return true, nil
		}
	}
	// A record has the set of transactions before its own: where that is the position's,
	// the file tells.
	order, comparable := compareFiles(at, r.upTo)
	switch {
	case !comparable: // another server's log: the history is in order
		return true, nil
	case order == 0 && at.Event > 0:
		return at.Event < r.upTo.Event, nil
	}
	return order <= 0, nil
}

// compareFiles compares places by file and position, where the files are of one log.
func compareFiles(a, b Place) (order int, comparable bool) {
	if a.File != b.File {
		x, n, ok1 := logFile(a.File)
		y, m, ok2 := logFile(b.File)
		if !ok1 || !ok2 || x != y {
			return 0, false
		}
		if n != m {
			return int(max(-1, min(1, n-m))), true
		}
	}
	return int(max(-1, min(1, a.Pos-b.Pos))), true
}

// logFile parts the name of a log's file from its number.
func logFile(name string) (base string, n int64, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 || i+1 == len(name) || len(name)-i > 19 {
		return "", 0, false
	}
	for _, c := range name[i+1:] {
		if c < '0' || c > '9' {
			return "", 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return name[:i], n, true
}

// apply runs a record's statement; where it cannot, it takes the definitions that stand
// beside it.
func (r *recovery) apply(rec *historyRecord, at Place) error {
	h, ddl := r.h, *rec.DDL
	if h.s.history.filter.Match(strings.TrimSpace(ddl)) {
		return nil
	}
	d := r.d.withMode(rec.Millrace.SQLMode)
	d.implicitStamps, d.anyVersion = rec.Millrace.ImplicitTimestamps, at.Snapshot
	d.server = databaseDef{charsetOfCollation(rec.Millrace.ServerCollation), rec.Millrace.ServerCollation}
	database := rec.DatabaseName
	if rec.Millrace.Database != "" {
		database = rec.Millrace.Database
	}
	d.database, d.inherits = database, databaseDef{charsetOfCollation(rec.Millrace.DatabaseCollation), rec.Millrace.DatabaseCollation}
	for _, one := range parseDDL(ddl, database, d) {
		err := one.err
		if err == nil {
			if h.leftOut(one.statement) {
				continue
			}
			_, _, err = h.cat.apply(one.statement, d)
		}
		if err == nil {
			continue
		}
		if !h.s.history.preferDDL {
			list, other := rec.changes()
			if other == nil {
				other = h.cat.take(list, d)
			}
			if other != nil {
				return r.wrong(fmt.Errorf("the statement %q: %w; and its tables: %w", clip(ddl), err, other))
			}
			if len(list) > 0 {
				return nil
			}
		}
		captured := len(one.ids) == 0
		for _, id := range append(one.ids, idsOf(one.statement)...) {
			captured = captured || h.s.captures(id)
		}
		if !captured {
			continue
		}
		if h.s.history.skipUnparseable {
			h.lg.Warn("a statement of the schema history is passed over: it cannot be followed, and schema.history.internal.skip.unparseable.ddl=true", "statement", clip(ddl), "at", at.String(), "error", err)
			continue
		}
		return r.wrong(fmt.Errorf("the statement %q: %w", clip(ddl), err))
	}
	return nil
}

// take takes the definitions of a record over.
func (c *catalog) take(changes []tableChangeJSON, d dialect) error {
	for _, ch := range changes {
		id, ok := parseQuotedID(ch.ID)
		if !ok {
			return fmt.Errorf("%q is no name of a table", ch.ID)
		}
		if was, ok := parseQuotedID(ch.PreviousID); ok {
			delete(c.tables, was)
		}
		if ch.Type == "DROP" {
			delete(c.tables, id)
			continue
		}
		if ch.Table == nil {
			continue
		}
		t, err := ch.Table.table(id, d)
		if err != nil {
			return err
		}
		if ch.Comment != nil {
			t.Comment = *ch.Comment
		}
		c.tables[id] = t
	}
	return nil
}
