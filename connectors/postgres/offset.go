package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pglogrepl"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
)

// An lsn is a place in the server's log.
type lsn = pglogrepl.LSN

func parseLSN(s string) (lsn, error) {
	l, err := pglogrepl.ParseLSN(s)
	if err != nil || strings.Trim(s, "0123456789abcdefABCDEF/") != "" { // it takes what begins like one, too
		return 0, fmt.Errorf("%q is no LSN", s)
	}
	return l, nil
}

// A position is where the stream stands: all transactions that committed before
// commit are done, and of the one that commits there the first events messages.
// Every row message counts, captured or not: COPY gives many rows one LSN, so an LSN
// alone does not say where in a transaction we are.
type position struct {
	commit lsn
	events int64
	begun  lsn // where the beginning of that one was sent, which Debezium would look for; 0: between transactions
	ended  lsn // the end of the commit before it; 0: unknown

	// Of an offset that Debezium itself stored within a transaction: its number and
	// the LSN of its last row that was sent. Rows below it are done.
	foreignXID int64
	foreignRow lsn

	// How far the transaction that commits there was numbered; of none where it was not
	// told of.
	tx cdc.TxState

	snapshot bool // a snapshot was begun and not finished: it must be read again

	// What Debezium's readers find beside it.
	last    lsn
	xid     int64 // 0: none
	micros  int64
	xmin    int64  // 0: unknown
	message string // messageType
}

const (
	offLSN, offProc, offCommit = "lsn", "lsn_proc", "lsn_commit"
	offXID, offMicros          = "txId", "ts_usec"
	offMessage, offEvents      = "messageType", "lsn_events_processed"
	offSnapshot, offLastRecord = "snapshot", "last_snapshot_record"
	offCompleted               = "snapshot_completed"
	offEnded                   = "lsn_commit_before"
	offXmin                    = "xmin"
)

// value is the position as it is stored.
func (p position) value() schema.Value {
	var v cdc.Position
	if p.snapshot || p.message == "" {
		v = v.Set(offLastRecord, schema.BoolValue(!p.snapshot)).Set(offLSN, int64Of(p.commit)).
			Set(offXID, schema.Int64Value(p.xid)).Set(offMicros, schema.Int64Value(p.micros)).
			Set(offSnapshot, schema.StringValue("INITIAL"))
		switch {
		case !p.snapshot:
			v = v.Set(offCompleted, schema.BoolValue(true))
		case p.message != "": // of the changes that come before a snapshot which is to be taken again
			v = v.Set(offCommit, int64Of(p.commit)).Set(offEvents, schema.Int64Value(p.events))
		}
		return v.Value()
	}
	proc := p.last
	if p.begun != 0 {
		// Within a transaction Debezium's own position is an LSN alone, behind which it
		// would pass over rows that share it. At its beginning it sends all of it again.
		proc = p.begun
	}
	v = v.Set(offProc, int64Of(proc)).Set(offMessage, schema.StringValue(p.message)).
		Set(offCommit, int64Of(p.commit)).Set(offLSN, int64Of(p.last))
	if p.xid != 0 {
		v = v.Set(offXID, schema.Int64Value(p.xid))
	}
	v = v.Set(offMicros, schema.Int64Value(p.micros)).Set(offEvents, schema.Int64Value(p.events))
	if p.xmin != 0 {
		v = v.Set(offXmin, schema.Int64Value(p.xmin))
	}
	if p.begun != 0 {
		v = v.Set(offEnded, int64Of(p.ended))
	}
	return p.tx.Store(v).Value()
}

func int64Of(l lsn) schema.Value { return schema.Int64Value(int64(l)) }

// parsePosition reads a stored position, ours or Debezium's; false: there is none.
func parsePosition(v schema.Value) (p position, ok bool, err error) {
	if v.IsNull() {
		return p, false, nil
	}
	last, ok := cdc.Int(v, offLSN)
	if !ok {
		return p, false, fmt.Errorf("the stored offset has no number %q", offLSN)
	}
	p.last, p.message = lsn(last), cdc.Text(v, offMessage)
	p.micros, _ = cdc.Int(v, offMicros)
	p.xid, _ = cdc.Int(v, offXID)
	p.commit, p.tx = p.last, cdc.StoredTx(v)
	if snap := cdc.Text(v, offSnapshot); snap != "" || cdc.True(v, offSnapshot) {
		p.snapshot = !cdc.True(v, offCompleted) && !cdc.True(v, offLastRecord)
		p.message = ""
		if commit, ok := cdc.Int(v, offCommit); ok && p.snapshot && commit == last { // ours
			p.events, _ = cdc.Int(v, offEvents)
		}
		return p, true, nil
	}
	commit, haveCommit := cdc.Int(v, offCommit)
	if ended, ours := cdc.Int(v, offEnded); ours {
		// Within a transaction, whose commit is to come. (Newer Debezium has a count under
		// the name of ours, of rows of one LSN; it is not looked at.)
		if !haveCommit {
			return p, false, fmt.Errorf("the stored offset has no number %q", offCommit)
		}
		begun, _ := cdc.Int(v, offProc)
		p.events, _ = cdc.Int(v, offEvents)
		p.commit, p.begun, p.ended = lsn(commit), lsn(begun), lsn(ended)
		return p, true, nil
	}
	// Debezium's, or ours between transactions, which is the same: the last message's own
	// LSN. lsn_commit is then the end of the commit that was sent before, and the row's own
	// transaction commits behind it. The row itself is sent again, since others may share its LSN.
	switch {
	case p.message == "COMMIT" || p.message == "":
	case p.message == "MESSAGE" && p.xid == 0:
		p.commit++
	default:
		p.foreignXID, p.foreignRow = p.xid, p.last
		if haveCommit {
			p.commit = lsn(commit)
		}
	}
	return p, true, nil
}

// lastEnd is the end of the last commit before what is sent next; 0: unknown.
func (p position) lastEnd() lsn {
	switch {
	case p.begun != 0:
		return p.ended
	case p.message == "":
		return 0 // a snapshot, or a stream that begins
	}
	return p.commit
}

// before reports whether p is behind q.
func (p position) before(q position) bool {
	return p.commit < q.commit || p.commit == q.commit && p.events < q.events
}

// AlterOffsets implements connectors.OffsetAlterer. The server's slot keeps a position
// of its own, which no offset moves back: so done is never said. A null position may
// be anything's, so that garbage can be removed.
func (s *source) AlterOffsets(_ context.Context, offsets []connectors.Offset) (bool, error) {
	ours := cdc.ServerPartition(strings.TrimSpace(keyTopicPrefix.Get(s.v)))
	for _, o := range offsets {
		if o.Position.IsNull() {
			continue
		}
		if !schema.EqualValues(o.Partition, ours) {
			return false, fmt.Errorf("the source partition of this connector is {\"server\": %q} and no other: correct the key 'server'", keyTopicPrefix.Get(s.v))
		}
		for _, key := range slices.Sorted(maps.Keys(offsetTypes)) {
			want := offsetTypes[key]
			v, there := o.Position.Lookup(key)
			if there && !want.is(v) {
				return false, fmt.Errorf("the value for the '%s' key in the offset is expected to be %s", key, want.what)
			}
		}
		if _, _, err := parsePosition(o.Position); err != nil {
			return false, fmt.Errorf("the offset cannot be resumed at: %w", err)
		}
	}
	return false, nil
}

// An offsetType is what a key of an offset may hold.
type offsetType struct {
	what string
	is   func(schema.Value) bool
}

var (
	offsetNumber = offsetType{"a number that is not negative", func(v schema.Value) bool {
		return v.Kind() >= schema.Int8 && v.Kind() <= schema.Int64 && v.Int() >= 0
	}}
	offsetAnyNumber = offsetType{"a number", func(v schema.Value) bool { return v.Kind() >= schema.Int8 && v.Kind() <= schema.Int64 }}
	offsetText      = offsetType{"a text", func(v schema.Value) bool { return v.Kind() == schema.String }}
	offsetTruth     = offsetType{"true or false", func(v schema.Value) bool { return v.Kind() == schema.Bool }}
	offsetTypes     = map[string]offsetType{
		offLSN: offsetNumber, offProc: offsetNumber, offCommit: offsetNumber, offXID: offsetNumber, offXmin: offsetNumber, offEvents: offsetNumber, offEnded: offsetNumber, offMicros: offsetAnyNumber,
		cdc.TxKey: offsetText, offMessage: offsetText, offLastRecord: offsetTruth, offCompleted: offsetTruth,
		offSnapshot: {"a text, true or false", func(v schema.Value) bool { return offsetText.is(v) || offsetTruth.is(v) }},
	}
)
