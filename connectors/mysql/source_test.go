package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// TestSourceSuite runs the suite on both servers.
func TestSourceSuite(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(testing.TB) *peers.MySQLServer
	}{{"MySQL", peers.MySQL}, {"MariaDB", peers.MariaDB}} {
		t.Run(c.name, func(t *testing.T) { sourceSuite(t, c.of(t)) })
	}
}

func sourceSuite(t *testing.T, server *peers.MySQLServer) {
	plugin := Source
	if server.MariaDB {
		plugin = MariaDB
	}
	connectortest.Source(t, connectortest.SourceCase{Plugin: plugin, New: func(tb testing.TB) connectortest.SourceTarget {
		d := databaseOn(tb, server)
		d.exec("CREATE TABLE numbers (n int PRIMARY KEY, filler text)")
		return connectortest.SourceTarget{
			Config: d.config("table.include.list", d.name+".numbers", "max.batch.size", "100"),
			Write: func(tb testing.TB, first, n int) {
				// Many rows of one event, then transactions of a row each.
				half := n / 2
				var b strings.Builder
				for i := range half {
					if i > 0 {
						b.WriteByte(',')
					}
					fmt.Fprintf(&b, "(%d, 'a row among others')", first+i)
				}
				if half > 0 {
					d.exec("INSERT INTO numbers VALUES " + b.String())
				}
				d.exec("BEGIN")
				for i := half; i < n; i++ {
					d.exec(fmt.Sprintf("INSERT INTO numbers VALUES (%d, 'a row of its own')", first+i))
				}
				d.exec("COMMIT")
			},
			Number: func(r schema.Record) (int, bool) {
				return int(r.Key.Get("n").Int()), r.Topic == "p."+d.name+".numbers"
			},
			Patience: 2 * time.Second,
			Drop:     func(tb testing.TB) { d.killDumps() },
		}
	}})
}

// killDumps ends the connections that read the log for this database's connector.
func (d *database) killDumps() {
	d.Helper()
	r, err := d.conn.Execute("SELECT id FROM information_schema.processlist WHERE command IN ('Binlog Dump', 'Binlog Dump GTID')")
	if err != nil {
		d.Fatal(err)
	}
	defer r.Close()
	for i := range r.RowNumber() {
		id, err := r.GetInt(i, 0)
		if err != nil {
			d.Fatal(err)
		}
		_, _ = d.conn.Execute(fmt.Sprintf("KILL %d", id)) // one that has just ended is no loss
	}
}
