package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
)

// table is a definition made ready for events. Definitions that did not change keep
// their schemas.
func (r *reader) table(ctx context.Context, def *Table) (*table, error) {
	if tab := r.compiled[def.ID]; tab != nil && tab.def == def {
		return tab, nil
	}
	tab, err := r.t.compile(ctx, def)
	if err != nil {
		return nil, err
	}
	r.compiled[def.ID] = tab
	return tab, nil
}

// tableMap takes the description of the rows to come.
func (r *reader) tableMap(body []byte) error {
	n, err := tableNumber(body)
	if err != nil {
		return err
	}
	have := r.tables[n]
	if have == nil || !bytes.Equal(have.m.raw, body) {
		m, err := parseTableMap(body)
		if err != nil {
			return err
		}
		if have == nil && len(r.tables) >= maxMapped {
			clear(r.tables) // the server describes each anew before its rows
		}
		have = &mapped{m: m, captured: r.t.s.captures(m.id)}
		r.tables[n] = have
	}
	return nil
}

// maxMapped bounds how many tables are remembered.
const maxMapped = 10_000

// ready makes the decoders of a table's rows.
func (r *reader) ready(ctx context.Context, mp *mapped, start int64) error {
	def := r.t.schemas.Table(mp.m.id)
	if mp.rows != nil && mp.def == def {
		return nil
	}
	if def != nil && def.Sequence {
		mp.captured = false
		return nil
	}
	if def == nil {
		return r.misfit(mp, errors.New("its definition is not known"), start)
	}
	if err := def.named(mp.m.names); err != nil {
		return r.misfit(mp, err, start)
	}
	tab, err := r.table(ctx, def)
	if err != nil {
		return err
	}
	rows, err := tab.plan(mp.m)
	if err != nil {
		return r.misfit(mp, err, start)
	}
	mp.def, mp.rows = def, rows
	return nil
}

// inconsistent decides about rows whose definition is missing or does not fit, as
// inconsistent.schema.handling.mode says: an error stops the task.
func (r *reader) inconsistent(mp *mapped, err error, start int64) error {
	f := connectors.FailureOf(err)
	if f == nil || f.Reason != reasonSchema {
		return err
	}
	switch r.t.s.inconsistent {
	case "warn":
		r.t.lg.Warn("rows left out: their table's definition does not fit", "table", mp.m.id.String(), "at", placeText(r.file, start), "error", err)
	case "skip", "ignore":
	default:
		return err
	}
	r.t.seen.skipped.Add(1)
	mp.captured = false // until the server describes the table anew
	return nil
}

// misfit is the failure of rows that no definition fits.
func (r *reader) misfit(mp *mapped, err error, start int64) error {
	return connectors.Failed(reasonSchema, err, fmt.Sprintf("rows of the table %s at %s", mp.m.id, placeText(r.file, start)), "")
}

// named reports whether the columns are those that the log names, where it does
// (binlog_row_metadata=FULL).
func (t *Table) named(names []string) error {
	if len(names) == 0 {
		return nil
	}
	if len(names) != len(t.Columns) {
		return fmt.Errorf("the log has the columns %s, and its definition has %d", strings.Join(names, ", "), len(t.Columns))
	}
	for i, n := range names {
		if !strings.EqualFold(n, t.Columns[i].Name) {
			return fmt.Errorf("the log names column %d %q, and its definition %q", i+1, n, t.Columns[i].Name)
		}
	}
	return nil
}

// rows takes changes of rows.
func (r *reader) rows(ctx context.Context, h header, body []byte, start int64, owned bool) error {
	head := cursor{b: body}
	number := head.u48()
	if head.bad {
		return errShort
	}
	if number == noTable {
		return nil // the end of a statement that changed nothing
	}
	mp := r.tables[number]
	switch {
	case mp == nil:
		return fmt.Errorf("rows of the table with number %d, which was not described", number)
	case r.open != nil && !r.replaying, r.done(), r.leaves():
		return nil
	case !mp.captured, r.dropped:
		r.events.Seen.Filtered++
		return nil
	}
	if err := r.ready(ctx, mp, start); err != nil {
		return r.inconsistent(mp, err, start)
	}
	if !mp.captured {
		return nil
	}
	switch { // nothing of what is passed over may stay in the batch's memory
	case r.skipping && !owned:
		body = bytes.Clone(body)
	case !owned:
		body = r.build.Arena.Copy(body)
	}
	r.passedOver = schema.Arena{}
	e, err := parseRows(h.kind, body)
	if err != nil {
		return err
	}
	if e.columns != len(mp.rows.decoder) {
		return fmt.Errorf("rows of %d columns of a table that was described with %d", e.columns, len(mp.rows.decoder))
	}
	if r.query.IsNull() || !r.t.s.query {
		r.block.fields[srcQuery] = schema.Value{}
	} else {
		r.block.fields[srcQuery] = r.query
	}
	for i := 0; len(e.rows.b) > 0 && !r.leaves(); i++ {
		size := len(e.rows.b)
		if err := r.row(ctx, mp.rows, &e, i, start); err != nil {
			return err
		}
		if len(e.rows.b) == size {
			return errShort
		}
	}
	return nil
}

// row takes the next change of a rows event.
func (r *reader) row(ctx context.Context, p *logRow, e *rowsEvent, i int, start int64) error {
	t, begin := p.t, e.rows
	if r.skips(i) {
		if _, _, err := decodeRow(&r.passedOver, p, e); err == errShort {
			return err
		}
		r.taken(i)
		return nil
	}
	before, after, err := decodeRow(&r.build.Arena, p, e)
	if err == errShort {
		return err
	}
	if err != nil {
		if err := r.refuse(t, err, placeText(r.file, start)+", row "+strconv.Itoa(i)); err != nil {
			return err
		}
		r.events.Seen.Erroneous++
		r.taken(i)
		return nil
	}
	size := len(begin.b) - len(e.rows.b) + rowOverhead
	if r.build.Full(size) {
		// The row belongs to the next batch, and so do its values: in this one's arena they would keep all of it alive, and
		// each batch of a long transaction the one before it.
		if err := r.flush(ctx); err != nil {
			return err
		}
		if r.leaves() { // that is known only now
			return nil
		}
		e.rows = begin
		if before, after, err = decodeRow(&r.build.Arena, p, e); err != nil {
			return err
		}
	}
	r.lingers()
	ch := cdc.Change{Table: &t.Table, Before: before, After: after, Source: r.block.at(&r.build.Arena, t.dbValue, t.name, start, i), At: r.clock.Moment(), TxID: r.txID}
	switch {
	case e.before == nil:
		r.events.Create(&ch)
	case e.after == nil:
		r.events.Delete(&ch)
	case r.t.s.skipUnchanged && schema.EqualValues(before, after):
		r.events.Seen.Unchanged++
	default:
		ch.OldKey = before
		r.events.Update(&ch)
	}
	r.build.Grow(size)
	r.taken(i)
	return nil
}

// decodeRow reads a row as it was and as it is into an arena. Behind any error but errShort the next row can be read.
func decodeRow(a *schema.Arena, p *logRow, e *rowsEvent) (before, after schema.Value, err error) {
	var part *partialRow
	if e.partial {
		part = &partialRow{old: make([][]byte, len(p.decoder))}
	}
	if e.before != nil {
		if before, err = p.row(a, &e.rows, e.before, e.allBefore, schema.Value{}, part); err == errShort {
			return before, after, err
		}
	}
	if e.after == nil {
		return before, after, err
	}
	if e.partial {
		if options := e.rows.size(); options&1 != 0 {
			part.bits = e.rows.take((p.documents + 7) / 8)
		} else {
			part = nil
		}
	}
	after, wrong := p.row(a, &e.rows, e.after, e.allAfter, before, part)
	if wrong == errShort {
		return before, after, wrong
	}
	return before, after, errors.Join(err, wrong)
}

// skips reports whether row i of the event at hand was taken before the task began.
func (r *reader) skips(i int) bool {
	switch {
	case !r.skipping:
		return false
	case r.sameLog && !r.replaying:
		return r.pos.events < r.resume.events || r.pos.events == r.resume.events && int64(i) < r.resume.rows
	}
	return r.pos.rowsDone < r.resume.rowsDone
}

// taken moves the position behind row i of the event at hand. It is called once the row
// is in the batch: what ends the batch before that stands before the row.
func (r *reader) taken(i int) {
	r.pos.rows = int64(i) + 1
	if r.pos.rowsDone >= 0 {
		r.pos.rowsDone++
	}
}

// refuse decides about a change whose value cannot be read: an error stops the task.
func (r *reader) refuse(t *table, err error, where string) error {
	var image *imageError
	if errors.As(err, &image) {
		return connectors.Failed(reasonRowImage, nil, fmt.Sprintf("a row of the table %s at %s lacks the column %q: it was written with another binlog_row_image than FULL", t, where, image.column), "")
	}
	var value *valueError
	if !errors.As(err, &value) {
		return err
	}
	return r.t.refuse(t, value, where)
}

func (t *task) refuse(tab *table, err *valueError, where string) error {
	switch t.s.failure {
	case "warn":
		t.lg.Warn("change left out: its value cannot be read", "table", tab.String(), "column", err.column, "where", where, "error", err.err)
		return nil
	case "skip", "ignore":
		t.lg.Debug("change left out: its value cannot be read", "table", tab.String(), "column", err.column, "where", where, "error", err.err)
		return nil
	}
	return connectors.Failed(reasonData, err, fmt.Sprintf("table %s at %s", tab, where), "")
}
