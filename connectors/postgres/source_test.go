package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// TestSourceSuite runs the suite on a server that gives up on a silent reader after a
// second.
func TestSourceSuite(t *testing.T) {
	server := peers.PostgresOwn(t, peers.PostgresOptions{Settings: map[string]string{"wal_sender_timeout": "1s"}})
	connectortest.Source(t, connectortest.SourceCase{Plugin: Source, New: func(tb testing.TB) connectortest.SourceTarget {
		d := databaseOn(tb, server)
		d.exec("CREATE TABLE numbers (n int PRIMARY KEY, filler text)")
		return connectortest.SourceTarget{
			Config: d.config("table.include.list", "public.numbers", "status.update.interval.ms", "200", "max.batch.size", "100"),
			Write: func(tb testing.TB, first, n int) {
				// Rows by COPY share an LSN, rows of one INSERT do not. All are of one size, so that
				// a snapshot finds them in the order in which they came.
				half := n / 2
				copyFrom(tb, d, "numbers", first, half)
				d.exec(fmt.Sprintf("INSERT INTO numbers SELECT g, 'inserted row' FROM generate_series(%d, %d) g", first+half, first+n-1))
			},
			Number: func(r schema.Record) (int, bool) {
				return int(r.Key.Get("n").Int()), r.Topic == "p.public.numbers"
			},
			Patience: 4 * time.Second,
			Drop: func(tb testing.TB) {
				d.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" + d.name + "' AND active")
			},
		}
	}})
}

func copyFrom(tb testing.TB, d *database, table string, first, n int) {
	tb.Helper()
	var buf []byte
	for i := range n {
		buf = fmt.Appendf(buf, "%d\tcopied row\n", first+i)
	}
	if n == 0 {
		return
	}
	if _, err := d.conn.PgConn().CopyFrom(context.Background(), bytesReader(buf), "COPY "+table+" FROM STDIN"); err != nil {
		tb.Fatal(err)
	}
}
