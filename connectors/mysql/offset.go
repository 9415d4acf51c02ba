package mysql

import (
	"fmt"
	"slices"

	"millrace/connectors/cdc"
	"millrace/schema"
)

// A position is where the stream stands: all transactions before the one that begins at
// (file, pos) are done, and of that one the first events events, counted from its BEGIN,
// and of the next event the first rows rows. rowsDone counts the rows of the
// transaction, whatever events they came in: another server may have cut it into other
// events.
type position struct {
	file   string
	pos    int64
	gtids  string // executed before that transaction; "" without GTIDs
	events int64
	rows   int64

	rowsDone int64  // ours alone; -1: not known
	gtid     string // of the open transaction, where it has one; ours alone
	tx       cdc.TxState
	prepared map[string]preparedXA // distributed transactions without an outcome; ours alone. It does not change

	sec      int64 // of the last event, in seconds
	serverID uint32

	snapshot  bool // a snapshot was begun and not finished: it must be read again
	completed bool // the position is that of a finished snapshot
}

// The keys of an offset: Debezium's, and three of ours which its readers ignore.
const (
	offSec, offFile, offPos, offGTIDs = "ts_sec", "file", "pos", "gtids"
	offRow, offServerID, offEvent     = "row", "server_id", "event"
	offSnapshot, offCompleted         = "snapshot", "snapshot_completed"
	offTxRows, offTxGTID, offPrepared = "rows_in_transaction", "gtid_in_transaction", "xa_prepared"
)

// value is the position as it is stored, in Debezium's order.
func (p position) value() schema.Value {
	v := p.tx.Store(nil)
	v = slices.Insert(v, min(len(v), 1), cdc.Position{}.Set(offSec, schema.Int64Value(p.sec))...)
	v = v.Set(offFile, schema.StringValue(p.file)).Set(offPos, schema.Int64Value(p.pos))
	if p.gtids != "" {
		v = v.Set(offGTIDs, schema.StringValue(p.gtids))
	}
	if p.snapshot || p.completed {
		v = v.Set(offSnapshot, schema.StringValue("INITIAL"))
		if p.completed {
			v = v.Set(offCompleted, schema.BoolValue(true))
		}
		return v.Value()
	}
	if p.rows != 0 {
		v = v.Set(offRow, schema.Int64Value(p.rows))
	}
	if p.serverID != 0 {
		v = v.Set(offServerID, schema.Int64Value(int64(p.serverID)))
	}
	if p.events != 0 {
		v = v.Set(offEvent, schema.Int64Value(p.events))
		if p.rowsDone >= 0 {
			v = v.Set(offTxRows, schema.Int64Value(p.rowsDone))
		}
		if p.gtid != "" {
			v = v.Set(offTxGTID, schema.StringValue(p.gtid))
		}
	}
	if len(p.prepared) > 0 {
		v = v.Set(offPrepared, schema.StringValue(preparedText(p.prepared)))
	}
	return v.Value()
}

// parsePosition reads a stored position, ours or Debezium's; false: there is none.
func parsePosition(v schema.Value) (p position, ok bool, err error) {
	if v.IsNull() {
		return p, false, nil
	}
	p.file = cdc.Text(v, offFile)
	pos, have := cdc.Int(v, offPos)
	if p.file == "" || !have || pos < 0 {
		return p, false, fmt.Errorf("the stored offset has no %q and %q", offFile, offPos)
	}
	p.pos, p.gtids = pos, cdc.Text(v, offGTIDs)
	p.sec, _ = cdc.Int(v, offSec)
	p.rows, _ = cdc.Int(v, offRow)
	p.events, _ = cdc.Int(v, offEvent)
	p.gtid = cdc.Text(v, offTxGTID)
	id, _ := cdc.Int(v, offServerID)
	p.serverID = uint32(id)
	if p.rowsDone, have = cdc.Int(v, offTxRows); !have {
		p.rowsDone = -1
	}
	p.tx = cdc.StoredTx(v)
	if p.prepared, err = parsePrepared(cdc.Text(v, offPrepared)); err != nil {
		return p, false, err
	}
	if p.rows < 0 || p.events < 0 || p.rowsDone < -1 {
		return p, false, fmt.Errorf("the stored offset has a negative number")
	}
	if cdc.Text(v, offSnapshot) != "" || cdc.True(v, offSnapshot) {
		p.completed = cdc.True(v, offCompleted)
		p.snapshot = !p.completed
	}
	return p, true, nil
}

// AlterOffsets implements connectors.OffsetAlterer's check of one position.
func checkOffset(v schema.Value) error {
	for _, e := range v.Entries() {
		if k := e.Key.Str(); slices.Contains([]string{offSec, offPos, offRow, offServerID, offEvent, offTxRows}, k) {
			if n, ok := cdc.Int(v, k); !ok || n < 0 {
				return fmt.Errorf("the value for the '%s' key in the offset is expected to be a number that is not negative", k)
			}
		} else if slices.Contains([]string{offFile, offGTIDs, offTxGTID, offPrepared, cdc.TxKey}, k) && e.Value.Kind() != schema.String {
			return fmt.Errorf("the value for the '%s' key in the offset is expected to be a text", k)
		}
	}
	if _, _, err := parsePosition(v); err != nil {
		return fmt.Errorf("the offset cannot be resumed at: %w", err)
	}
	return nil
}
