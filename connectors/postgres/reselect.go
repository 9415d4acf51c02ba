package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"millrace/schema"
)

// A reselection reads what events of one version of a table lack from the table as it
// is now.
type reselection struct {
	from          string // schema.table, quoted
	where         string // "a" = $1 AND "b" = $2
	key           []int  // the columns that it names
	wanted        []bool // by column
	nulls, unsent bool   // which of them are read

	// Of the row in hand: the columns that lack, and the text of all that came.
	missing []int
	texts   [][]byte
}

// newReselection is nil where no column of a table is read again.
func (s *settings) newReselection(t *table, rel *relation, cat *described) (r *reselection, keyless bool) {
	if s.reselect == nil {
		return nil, false
	}
	r = &reselection{from: quoteName(rel.schema) + "." + quoteName(rel.name), nulls: s.reselect.Null, unsent: s.reselect.Unavailable, wanted: make([]bool, len(t.columns)), texts: make([][]byte, len(t.columns))}
	any := false
	for i, c := range t.columns {
		r.wanted[i] = c.field >= 0 && s.reselect.Wants(rel.schema, rel.name, c.name)
		any = any || r.wanted[i]
	}
	if !any {
		return nil, false
	}
	keys := cat.pk
	if s.reselect.EventKey || len(keys) == 0 {
		keys = s.keyOf(rel, cat)
	}
	var terms []string
	for _, k := range keys {
		for i, c := range t.columns {
			if c.name == k {
				r.key = append(r.key, i)
				r.wanted[i] = false
				terms = append(terms, fmt.Sprintf("%s = $%d", quoteName(k), len(r.key)))
			}
		}
	}
	if len(r.key) == 0 || len(r.key) != len(keys) {
		return nil, true
	}
	r.where = strings.Join(terms, " AND ")
	return r, false
}

// begin forgets the row before.
func (r *reselection) begin() {
	if r != nil {
		r.missing = r.missing[:0]
		clear(r.texts)
	}
}

// note takes what came of a column: its text; nil for null, or for a value that was not
// sent.
func (r *reselection) note(i int, text []byte, sent bool) {
	switch {
	case r == nil:
	case text != nil:
		r.texts[i] = text
	case r.wanted[i] && (sent && r.nulls || !sent && r.unsent):
		r.missing = append(r.missing, i)
	}
}

// reselect fills in what the row in hand lacks. A row that is gone, or was changed in its
// shape, stays as it is.
func (r *reader) reselect(ctx context.Context, t *table, at lsn, fields []schema.Value) error {
	re := t.reselect
	if re == nil || len(re.missing) == 0 {
		return nil
	}
	names := make([]string, len(re.missing))
	for n, i := range re.missing {
		names[n] = quoteName(t.columns[i].name)
	}
	args := make([][]byte, len(re.key))
	for n, i := range re.key {
		if re.texts[i] == nil {
			return nil // a row without its key cannot be found
		}
		args[n] = re.texts[i]
	}
	var rows [][]field
	err := r.await(func() (err error) {
		rows, err = r.meta.ask(ctx, "SELECT "+strings.Join(names, ", ")+" FROM "+re.from+" WHERE "+re.where, args)
		return err
	})
	if err == nil && len(rows) == 1 {
		for n, i := range re.missing {
			if rows[0][n].null {
				fields[t.columns[i].field] = t.columns[i].null
				continue
			}
			text := []byte(rows[0][n].text)
			v, lossy, bad := t.columns[i].value(&r.build.Arena, text)
			if bad != nil {
				err = errors.Join(err, bad)
				continue
			}
			if lossy {
				r.t.warnLossy(t, i)
			}
			fields[t.columns[i].field] = v
			r.build.Grow(len(text))
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case sqlState(err) == "" && r.meta.IsClosed(): // the connection is gone, not the row
		return r.t.s.classify(err, fmt.Sprintf("read table %s again", t))
	case r.t.s.reselect.Fail:
		return r.t.s.classify(err, fmt.Sprintf("read columns %s of table %s again, for its row at %s", strings.Join(names, ", "), t, at))
	}
	r.t.warnOnce("reselect "+t.String(), "columns could not be read again, and the event goes without their values",
		slog.String("table", t.String()), slog.String("columns", strings.Join(names, ", ")), slog.String("where", at.String()), slog.Any("error", err))
	return nil
}
