package postgres

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// enough ends a reading after some records.
type enough struct {
	left    int
	records []schema.Record
}

var errHaveThem = errors.New("that is enough")

func (e *enough) Emit(ctx context.Context, b connectors.Batch) error {
	for _, r := range b.Records {
		if e.left == 0 {
			return errHaveThem
		}
		e.left--
		e.records = append(e.records, r)
	}
	if e.left == 0 {
		return errHaveThem
	}
	return ctx.Err()
}

func TestPreviewLeavesNothing(t *testing.T) {
	d := newDatabase(t)
	d.exec(`CREATE TABLE orders (id int PRIMARY KEY, name text)`, `INSERT INTO orders SELECT g, 'row ' || g FROM generate_series(1, 20000) g`, `CREATE TABLE empty (id int PRIMARY KEY)`)
	preview := func(most int) ([]schema.Record, error) {
		v, errs := Source.Config.Parse(d.config())
		if errs != nil {
			t.Fatal(errs)
		}
		task, err := Source.NewTask(connectors.Context{Connector: "preview", Log: slog.New(slog.DiscardHandler)}, v)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := &enough{left: most}
		err = task.(connectors.Previewer).Preview(ctx, out)
		return out.records, err
	}
	records, err := preview(3)
	if !errors.Is(err, errHaveThem) || len(records) != 3 || op(records[0]) != "r" {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if id := records[2].Value.Get("after").Get("id").Int(); id != 3 {
		t.Errorf("the third row is %d", id)
	}
	if records, err = preview(30_000); err != nil || len(records) != 20_000 {
		t.Errorf("all: %d records, %v", len(records), err)
	}
	for what, sql := range map[string]string{
		"slots":        `SELECT count(*)::text FROM pg_replication_slots WHERE database = current_database()`,
		"publications": `SELECT count(*)::text FROM pg_publication`,
		"sessions":     `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
	} {
		// The server notices the end of a session a moment behind us.
		for end := time.Now().Add(30 * time.Second); d.text(sql) != "0"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s left: %s", what, d.text(sql))
				break
			}
		}
	}
}
