package mysql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// replicated is a database of one server, and another server that follows it, with a log of its own: other files, other
// positions, and transactions that the first one does not know.
func replicated(t *testing.T, mariadb bool) (d *database, replica *peers.MySQLServer) {
	t.Helper()
	of := peers.MySQLOwn
	if mariadb {
		of = peers.MariaDBOwn
	}
	first := of(t, peers.MySQLOptions{Settings: map[string]string{"server-id": "11"}})
	replica = of(t, peers.MySQLOptions{Settings: map[string]string{"server-id": "12", "log-slave-updates": "ON"}})
	port := strconv.Itoa(first.Port)
	if mariadb {
		replica.Exec(t, "", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS",
			"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = "+port+", MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1", "START SLAVE")
	} else {
		replica.Exec(t, "", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS",
			"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = "+port+", SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1", "START REPLICA")
	}
	return databaseOn(t, first), replica
}

// promote waits until the replica has all that the first server has, and makes it the database's server.
func (d *database) promote(t *testing.T, replica *peers.MySQLServer) {
	t.Helper()
	conn := replica.Connect(t, "")
	wait, reset := "SELECT WAIT_FOR_EXECUTED_GTID_SET('%s', 60)", []string{"STOP REPLICA", "RESET REPLICA ALL"}
	all, done := "SELECT @@global.gtid_executed", "0"
	if replica.MariaDB {
		wait, reset = "SELECT MASTER_GTID_WAIT('%s', 60)", []string{"STOP SLAVE", "RESET SLAVE ALL"}
		all = "SELECT @@global.gtid_binlog_pos"
	}
	to := d.text(all)
	next := &database{TB: t, server: replica, name: d.name, conn: conn}
	if got := next.text(fmt.Sprintf(wait, to)); got != done {
		t.Fatalf("the replica does not reach %s: %s", to, got)
	}
	next.exec(reset...)
	next.exec("USE " + d.name)
	d.server, d.conn = replica, conn
}

// TestFailOverByGTID: a task is stopped at random places of a workload, also within a transaction and with distributed ones
// prepared, its server is killed, and it goes on at a replica whose log has other files and positions: each change is there
// once, in order.
func TestFailOverByGTID(t *testing.T) {
	for _, mariadb := range []bool{false, true} {
		name := map[bool]string{false: "MySQL", true: "MariaDB"}[mariadb]
		t.Run(name, func(t *testing.T) {
			d, replica := replicated(t, mariadb)
			seed := trial.Seed(t)
			d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)", "CREATE TABLE o (id int PRIMARY KEY)")
			w := &workload{Rows: connectortest.Rows{Rnd: rand.New(rand.NewPCG(seed, 1)), Next: 1}, d: d}
			topic := "p." + d.name + ".t"
			conf := func() map[string]string {
				return d.config("table.include.list", d.name+".t,"+d.name+".o", "max.batch.size", "30")
			}
			store := &connectortest.OffsetStore{}
			first := d.start(conf(), store)
			streaming(first)
			first.Stop()
			beginning, origin := store.Clone(), d.origin()
			d.exec("INSERT INTO o VALUES (1)")
			for range 40 {
				w.write()
			}
			xa := ""
			if !mariadb { // MariaDB's replicas keep no prepared transactions
				xa = "'left over'"
				d.exec("XA START "+xa, fmt.Sprintf("INSERT INTO t VALUES (%d, 7)", w.Next), "XA END "+xa, "XA PREPARE "+xa)
			}
			// What is kept of two runs is a front of the batches, which often ends within a transaction.
			var kept []schema.Record
			for len(kept) == 0 || xa == "" {
				r := d.start(conf(), store, connectortest.Uncommitted)
				r.WaitFor("all changes", func() bool { return len(kept)+len(on(r.Records(), topic)) >= len(w.Want) })
				r.Stop()
				batches := r.Batches()
				front := batches[:1+w.Rnd.IntN(len(batches)/2+1)]
				if xa != "" { // the place of the prepared one is in the last offsets alone
					front = batches
				}
				second := len(kept) > 0
				for _, b := range front {
					kept = append(kept, on(b.Records, topic)...)
					store.Put(t, b.Offsets)
				}
				if second {
					break
				}
			}
			d.promote(t, replica)
			if xa != "" {
				d.exec("XA COMMIT " + xa)
				w.V = 7
				w.Insert()
				w.V = 1000
			}
			for range 10 {
				w.write()
			}
			r := d.start(conf(), store)
			r.WaitFor("the rest", func() bool { return len(kept)+len(on(r.Records(), topic)) >= len(w.Want) })
			r.Stop()
			var got []connectortest.Change
			for _, rec := range slices.Concat(kept, on(r.Records(), topic)) {
				got = append(got, connectortest.ChangeOf(rec))
			}
			if err := connectortest.CompareChanges(got, w.Want); err != nil {
				t.Fatalf("seed %d, %d records kept from the first server: %v", seed, len(kept), err)
			}
			origins(t, d, beginning, origin)
		})
	}
}

// origin is who numbers the server's transactions.
func (d *database) origin() string {
	if d.server.MariaDB {
		return "0-" + d.text("SELECT @@global.server_id")
	}
	return d.text("SELECT @@global.server_uuid")
}

// origins: gtid.source.includes and excludes leave the rows of other servers' transactions out, unless
// gtid.source.filter.dml.events says not to; at a fail-over their transactions count as read.
func origins(t *testing.T, d *database, beginning *connectortest.OffsetStore, first string) {
	second := d.origin()
	d.exec("INSERT INTO o VALUES (2)")
	// What MySQL's second server has done before the start counts as read where its origin is left out. MariaDB's set cannot say that.
	unread := map[bool][]int64{false: {1}, true: {1, 2}}[d.server.MariaDB]
	for i, c := range []struct {
		name string
		more []string
		want []int64 // of rows 1 and 2
		last bool    // the row that the second server gets behind the start comes, too
	}{
		{"all origins", nil, []int64{1, 2}, true},
		{"the first server's alone", []string{"gtid.source.includes", first}, []int64{1}, false},
		{"all but the second's", []string{"gtid.source.excludes", second}, []int64{1}, false},
		{"the second's alone", []string{"gtid.source.includes", second}, []int64{2}, true},
		{"rows are not left out", []string{"gtid.source.includes", first, "gtid.source.filter.dml.events", "false"}, unread, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.exec("DELETE FROM o WHERE id > 2") // before the start: it is in no answer
			r := d.start(d.config(append(slices.Clone(c.more), "table.include.list", d.name+".o", "tombstones.on.delete", "false", "skipped.operations", "d")...), beginning.Clone())
			tk := r.Task.(*task)
			r.WaitFor("the stream", tk.seen.streaming.Load)
			last := int64(10 + i)
			d.exec(fmt.Sprintf("INSERT INTO o VALUES (%d)", last))
			end := d.logEnd()
			r.WaitFor("an offset at the log's end, "+end, func() bool {
				bs := r.Batches()
				if len(bs) == 0 {
					return false
				}
				p, _, err := parsePosition(bs[len(bs)-1].Offsets[0].Position)
				return err == nil && placeText(p.file, p.pos) == end
			})
			r.Stop()
			want := c.want
			if c.last {
				want = append(slices.Clone(want), last)
			}
			var got []int64
			for _, rec := range on(r.Records(), "p."+d.name+".o") {
				if id := connectortest.ChangeOf(rec).ID; id <= 2 || id == last {
					got = append(got, id)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("rows %v, want %v", got, want)
			}
		})
	}
}

// logEnd is where the server's log ends.
func (d *database) logEnd() string {
	d.Helper()
	sql := "SHOW BINARY LOG STATUS"
	if d.server.MariaDB {
		sql = "SHOW MASTER STATUS"
	}
	r, err := d.conn.Execute(sql)
	if err != nil {
		d.Fatal(err)
	}
	defer r.Close()
	file, err := r.GetString(0, 0)
	if err != nil {
		d.Fatal(err)
	}
	at, err := r.GetInt(0, 1)
	if err != nil {
		d.Fatal(err)
	}
	return placeText(strings.Clone(file), at)
}
