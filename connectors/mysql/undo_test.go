package mysql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// plainMySQL is a MySQL without GTIDs, which lets a transaction change tables with and without transactions.
func plainMySQL(t testing.TB) *peers.MySQLServer {
	return peers.MySQLOwn(t, peers.MySQLOptions{Settings: map[string]string{"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF"}})
}

// mixed runs a test on the servers that let a transaction change tables with and without transactions.
func mixed(t *testing.T, f func(t *testing.T, d *database)) {
	for name, of := range map[string]func(testing.TB) *peers.MySQLServer{"MySQL": plainMySQL, "MariaDB": peers.MariaDB} {
		t.Run(name, func(t *testing.T) { f(t, databaseOn(t, of(t))) })
	}
}

// TestRowsThatWereUndoneAreNotSent: of a transaction that is rolled back, as a whole or to a savepoint, the rows of tables
// without transactions are changes, and the others never were.
func TestRowsThatWereUndoneAreNotSent(t *testing.T) {
	mixed(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE i (id INT PRIMARY KEY)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM", "CREATE TABLE marker (id INT PRIMARY KEY)",
			"CREATE TABLE both_ (id INT PRIMARY KEY)", "CREATE TRIGGER tr AFTER INSERT ON both_ FOR EACH ROW INSERT INTO m VALUES (NEW.id + 1000)")
		r := d.start(d.config("provide.transaction.metadata", "true"), &connectortest.OffsetStore{})
		streaming(r)
		d.exec("BEGIN", "INSERT INTO i VALUES (1)", "INSERT INTO m VALUES (1)", "INSERT INTO i VALUES (2)", "ROLLBACK")
		d.exec("BEGIN", "INSERT INTO i VALUES (3)", "SAVEPOINT a", "INSERT INTO i VALUES (4)", "INSERT INTO m VALUES (4)", "ROLLBACK TO a", "INSERT INTO i VALUES (5)", "COMMIT")
		d.exec("BEGIN", "INSERT INTO both_ VALUES (6)", "ROLLBACK", "INSERT INTO both_ VALUES (7)")
		d.exec("BEGIN", "INSERT INTO i VALUES (10)", "CREATE TEMPORARY TABLE tt (i int)", "INSERT INTO i VALUES (11)", "DROP TEMPORARY TABLE tt", "ROLLBACK")
		d.exec("BEGIN", "INSERT INTO i VALUES (20)", "SAVEPOINT a", "INSERT INTO i VALUES (21)", "SAVEPOINT B", "INSERT INTO i VALUES (22)", "INSERT INTO m VALUES (22)", "SAVEPOINT c", "INSERT INTO i VALUES (23)",
			"ROLLBACK TO b", "INSERT INTO i VALUES (24)", "SAVEPOINT a", "INSERT INTO i VALUES (25)", "INSERT INTO m VALUES (25)", "RELEASE SAVEPOINT B", "INSERT INTO i VALUES (26)", "COMMIT")
		d.exec("INSERT INTO i VALUES (30)", "INSERT INTO marker VALUES (1)")
		d.marked(r, 1)
		r.Stop()
		for table, want := range map[string]string{"i": "3 5 20 21 24 25 26 30", "m": "1 4 1006 1007 22 25", "both_": "7"} {
			var got []string
			for _, rec := range on(r.Records(), "p."+d.name+"."+table) {
				got = append(got, fmt.Sprint(rec.Key.Get("id").Int()))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: the topic has %v, want %s", table, got, want)
			}
			slices.Sort(got)
			rows := strings.Split(d.text("SELECT GROUP_CONCAT(id) FROM "+table), ",")
			if slices.Sort(rows); !slices.Equal(got, rows) {
				t.Errorf("%s: the topic has %v and the table %v", table, got, rows)
			}
		}
		checkTransactions(t, r.Records())
	})
}

// checkTransactions compares what the topic of transactions tells with the events.
func checkTransactions(t *testing.T, records []schema.Record) {
	t.Helper()
	events := map[string]int64{}
	for _, r := range records {
		if tx := r.Value.Get("transaction"); tx.Kind() == schema.Struct && !tx.IsNull() {
			id := tx.Get("id").Str()
			if events[id]++; tx.Get("total_order").Int() != events[id] {
				t.Errorf("transaction %s: event %d has the number %d", id, events[id], tx.Get("total_order").Int())
			}
		}
	}
	open, told := "", map[string]bool{}
	for _, r := range on(records, "p.transaction") {
		id := r.Value.Get("id").Str()
		switch status := r.Value.Get("status").Str(); {
		case status == "BEGIN" && open == "" && !told[id]:
			open, told[id] = id, true
		case status == "END" && open == id && r.Value.Get("event_count").Int() == events[id]:
			open = ""
		default:
			t.Errorf("%s of %s with %d events, while %q is open; %d events came", status, id, r.Value.Get("event_count").Int(), open, events[id])
		}
	}
	for id := range events {
		if !told[id] {
			t.Errorf("the transaction %s was not told", id)
		}
	}
}

// TestUndoneRowsOfAnySize: transactions by chance, small and much larger than what is held back, with savepoints, and rolled
// back or not: the topic is what the table is, whole and from each position between on.
func TestUndoneRowsOfAnySize(t *testing.T) {
	d := databaseOn(t, peers.MariaDB(t))
	rnd := rand.New(rand.NewPCG(trial.Seed(t), 4))
	d.exec("CREATE TABLE i (id INT PRIMARY KEY, filler LONGTEXT)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM", "CREATE TABLE marker (id INT PRIMARY KEY)")
	conf := d.config("provide.transaction.metadata", "true", "table.include.list", d.name+".i,"+d.name+".marker")
	r := d.start(conf, &connectortest.OffsetStore{})
	streaming(r)
	id, m, undone := 0, 0, 0
	insert := func(size int) {
		id++
		d.exec(fmt.Sprintf("INSERT INTO i VALUES (%d, REPEAT('x', %d))", id, size))
	}
	const large = 300_000 // bytes of a row; 20 of them are more than is held back
	inserts := func(n int) {
		for range n {
			insert(large)
		}
	}
	back := func(to string) {
		m++ // so that what is undone is logged
		d.exec(fmt.Sprintf("INSERT INTO m VALUES (%d)", m), "ROLLBACK TO "+to)
		undone++
	}
	d.exec("BEGIN")
	inserts(20)
	d.exec("CREATE TEMPORARY TABLE tt (i INT)", "DROP TEMPORARY TABLE tt", "ROLLBACK", "BEGIN")
	insert(large)
	d.exec("SAVEPOINT a")
	inserts(20)
	back("a")
	inserts(2)
	d.exec("COMMIT", "BEGIN")
	inserts(20)
	d.exec("SAVEPOINT a")
	inserts(2)
	d.exec("SAVEPOINT b")
	insert(large)
	back("b")
	back("a")
	insert(large)
	d.exec("COMMIT")
	for range trial.Effort(8) {
		size := []int{10, large}[rnd.IntN(2)]
		d.exec("BEGIN")
		set := 0
		for range 5 + rnd.IntN(70) {
			switch rnd.IntN(8) {
			case 0:
				set++
				d.exec(fmt.Sprintf("SAVEPOINT s%d", set))
			case 1:
				if set > 0 {
					set = 1 + rnd.IntN(set)
					back(fmt.Sprintf("s%d", set))
				}
			case 2:
				if set > 0 && rnd.IntN(3) == 0 {
					d.exec(fmt.Sprintf("RELEASE SAVEPOINT s%d", set))
					set--
				}
			default:
				insert(size)
			}
		}
		if rnd.IntN(4) == 0 {
			d.exec("CREATE TEMPORARY TABLE tt (i INT)", "DROP TEMPORARY TABLE tt", "ROLLBACK")
			undone++
		} else {
			d.exec("COMMIT")
		}
	}
	d.exec("INSERT INTO marker VALUES (1)")
	d.marked(r, 1)
	r.Stop()
	topic := "p." + d.name + ".i"
	ids := func(records []schema.Record) (out []string) {
		for _, rec := range on(records, topic) {
			out = append(out, fmt.Sprint(rec.Key.Get("id").Int()))
		}
		return out
	}
	all := ids(r.Records())
	d.exec("SET SESSION group_concat_max_len = 1000000")
	if want := d.text("SELECT GROUP_CONCAT(id ORDER BY id) FROM i"); strings.Join(all, ",") != want {
		t.Fatalf("the topic has %v, the table %s", all, want)
	}
	checkTransactions(t, r.Records())
	done, within := 0, 0
	for _, b := range r.Batches() {
		done += len(on(b.Records, topic))
		if p, _, err := parsePosition(b.Offsets[0].Position); err != nil {
			t.Fatal(err)
		} else if p.events == 0 {
			continue
		}
		if within++; within%4 != 1 {
			continue
		}
		again := d.start(conf, r.Offsets.At(t, b.Offsets))
		d.marked(again, 1)
		again.Stop()
		if got := ids(again.Records()); !slices.Equal(got, all[done:]) {
			t.Fatalf("behind %d rows come %v, want %v", done, got, all[done:])
		}
	}
	if within == 0 || undone < 3 {
		t.Errorf("%d positions within transactions, %d rollbacks", within, undone)
	}
}
