package mysql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"millrace/connectors/cdc"
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
	small := func(n int) { // many rows to an event of the log, and so ends of batches within events
		d.exec(fmt.Sprintf("INSERT INTO i SELECT seq, REPEAT('x', 200) FROM seq_%d_to_%d", id+1, id+n))
		id += n
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
	d.exec("COMMIT", "BEGIN")
	small(10)
	d.exec("SAVEPOINT a")
	small(10_000)
	back("a")
	small(10)
	d.exec("COMMIT", "BEGIN")
	for n := range 2 * heldMarks { // more than are remembered, of which one is gone back to
		d.exec(fmt.Sprintf("SAVEPOINT s%d", n))
		if n%500 == 0 {
			insert(10)
		}
	}
	back(fmt.Sprintf("s%d", heldMarks+heldMarks/2))
	back(fmt.Sprintf("s%d", heldMarks/2+1))
	insert(10)
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

// TestSpansOfUndoneEvents: savepoints by chance, beside a stack of what would be left.
func TestSpansOfUndoneEvents(t *testing.T) {
	for _, seed := range trial.Seeds(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		s := spanner{events: 1}
		type point struct {
			name string
			left int
		}
		var rows, left []int64
		var points []point
		for range 100 {
			name := fmt.Sprintf("`s%d`", rnd.IntN(8))
			switch verb := rnd.IntN(5); verb {
			case 0:
				s.savepoint(setSavepoint, name)
				points = append(slices.DeleteFunc(points, func(p point) bool { return p.name == name }), point{name, len(left)})
			case 1, 2:
				at := slices.IndexFunc(points, func(p point) bool { return p.name == name })
				if at < 0 {
					continue // the server refuses it
				}
				if verb == 2 {
					points = points[:at] // which is not logged
					continue
				}
				s.savepoint(backToSavepoint, strings.ToUpper(name))
				left, points = left[:points[at].left], points[:at+1]
			default:
				rows, left = append(rows, s.events), append(left, s.events)
			}
			s.events++
		}
		for _, e := range rows {
			if _, undone := undoneFrom(s.undone, e); undone == slices.Contains(left, e) {
				t.Fatalf("seed %d: undone %t: event %d of %v, of which are left %v", seed, undone, e, s.undone, left)
			}
		}
		for i, span := range s.undone {
			if i > 0 && span.from < s.undone[i-1].to {
				t.Fatalf("seed %d: %v", seed, s.undone)
			}
		}
	}
}

// TestATransactionWithoutAnEnd: what a server wrote before it died is not sent, and what stands before it in the same batch is.
func TestATransactionWithoutAnEnd(t *testing.T) {
	s := &settings{}
	queue := cdc.NewQueue(100, 0)
	r := &reader{t: &task{s: s}, sv: server{mariadb: true}, queue: queue, build: cdc.NewBuilder(10), block: newSourceBlock(s)}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r.build.Add(schema.Record{Topic: "of the transaction before"})
	step(r.begin(t.Context(), header{}, 100, 0, false))
	for _, topic := range []string{"of one without an end", "likewise"} {
		r.build.Add(schema.Record{Topic: topic})
		step(r.flush(t.Context()))
	}
	r.build.Add(schema.Record{Topic: "likewise"})
	if n := queue.Use().Records; n != 0 {
		t.Fatalf("%d records are sent before the transaction's end", n)
	}
	step(r.begin(t.Context(), header{}, 900, 0, false))
	if n := queue.Use().Records; n != 1 || r.build.Len() != 0 || len(r.undo.held) != 0 {
		t.Errorf("%d records are sent, %d wait, want those of the transaction before", n, r.build.Len())
	}
}

// TestUndoneRowsOfADistributedTransaction: they are not sent either, and for rows that were decided on before nothing is read
// ahead of the commit, however large the last one is: behind it the log has nothing yet.
func TestUndoneRowsOfADistributedTransaction(t *testing.T) {
	d := databaseOn(t, peers.MariaDB(t))
	d.exec("CREATE TABLE i (id INT PRIMARY KEY, filler LONGTEXT)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM", "CREATE TABLE marker (id INT PRIMARY KEY)")
	conf, store := d.config("provide.transaction.metadata", "true"), &connectortest.OffsetStore{}
	id, large := "'"+d.name+"'", fmt.Sprintf("REPEAT('x', %d)", heldBytes+1)
	r := d.start(conf, store)
	streaming(r)
	d.exec("XA START "+id, "INSERT INTO i VALUES (1, 'x')", "SAVEPOINT a", "INSERT INTO i VALUES (2, 'x')", "INSERT INTO m VALUES (2)", "ROLLBACK TO a", "INSERT INTO i VALUES (3, "+large+")",
		"XA END "+id, "XA PREPARE "+id)
	other := &database{TB: t, server: d.server, name: d.name, conn: d.server.Connect(t, d.name)}
	other.exec("INSERT INTO marker VALUES (1)")
	d.marked(r, 1)
	r.Stop()
	r = d.start(conf, store)
	d.exec("XA COMMIT " + id)
	r.WaitFor("the transaction's end", func() bool {
		told := on(r.Records(), "p.transaction")
		return len(on(r.Records(), "p."+d.name+".i")) > 0 && told[len(told)-1].Value.Get("status").Str() == "END"
	})
	r.Stop()
	var got []int64
	for _, rec := range on(r.Records(), "p."+d.name+".i") {
		got = append(got, rec.Key.Get("id").Int())
	}
	if !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("rows %d came, want 1 and 3", got)
	}
}
