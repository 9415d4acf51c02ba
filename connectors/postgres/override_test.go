package postgres

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"millrace/connectors"
)

// A snapshot's statement is read as one query: a second one behind it is not run
// (security/4).
func TestASnapshotStatementIsOneQuery(t *testing.T) {
	d := newDatabase(t)
	d.exec(`CREATE TABLE s (id int PRIMARY KEY)`, `INSERT INTO s VALUES (1)`, `CREATE TABLE precious (id int)`)
	for _, statement := range []string{
		`SELECT 1 AS id; DROP TABLE precious`,
		`SELECT 1 AS id) AS q) TO STDOUT; DROP TABLE precious; COPY (SELECT 1 AS id FROM (SELECT 1 AS id`,
		`DELETE FROM s RETURNING id`,
	} {
		v, errs := Source.Config.Parse(d.config("snapshot.select.statement.overrides", "public.s", "snapshot.select.statement.overrides.public.s", statement))
		if errs != nil {
			continue // refused before it is tried: as good
		}
		task, err := Source.NewTask(connectors.Context{Connector: "c", Log: slog.New(slog.DiscardHandler)}, v)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := task.(connectors.Previewer).Preview(ctx, &enough{left: 10}); err == nil {
			t.Errorf("%s: no error", statement)
		}
		cancel()
	}
	if n := d.text(`SELECT (SELECT count(*) FROM s)::text || count(*)::text FROM pg_tables WHERE tablename = 'precious'`); n != "11" {
		t.Errorf("a second statement was run: %s", n)
	}
}
