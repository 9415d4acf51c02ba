package mysql

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// ownDatabase is a database on a server of the test's own.
func ownDatabase(t *testing.T, mariadb bool, settings map[string]string) *database {
	t.Helper()
	if mariadb {
		return databaseOn(t, peers.MariaDBOwn(t, peers.MySQLOptions{Settings: settings}))
	}
	return databaseOn(t, peers.MySQLOwn(t, peers.MySQLOptions{Settings: settings}))
}

// TestCompressedTransactions: rows in compressed transactions come as all others, and a
// task resumes within one.
func TestCompressedTransactions(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      func(t *testing.T) *database
		session string
	}{
		{"MySQL", func(t *testing.T) *database { return newDatabase(t) }, "SET SESSION binlog_transaction_compression = ON"},
		{"MariaDB", func(t *testing.T) *database {
			return ownDatabase(t, true, map[string]string{"log-bin-compress": "ON", "log-bin-compress-min-len": "10"})
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.of(t)
			d.exec("CREATE TABLE z (id INT PRIMARY KEY, v VARCHAR(200))")
			store := &connectortest.OffsetStore{}
			r := d.start(d.config(), store)
			streaming(r)
			r.Stop()
			if c.session != "" {
				d.exec(c.session)
			}
			var b strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&b, ",(%d,'%s')", i, strings.Repeat("compress me ", 8))
			}
			d.exec("BEGIN", "INSERT INTO z VALUES "+b.String()[1:], "UPDATE z SET v = 'short' WHERE id < 100", "DELETE FROM z WHERE id >= 4990", "COMMIT")
			want := 5000 + 100 + 20
			topic := "p." + d.name + ".z"
			r = d.start(d.config("max.batch.size", "500", "provide.transaction.metadata", "true"), store.Clone())
			r.WaitFor("all rows", func() bool { return len(on(r.Records(), topic)) == want })
			r.Stop()
			all := lines(r.Records(), topic)
			for i, b := range r.Batches() { // what a task that ended there still sends
				if i%3 != 0 || len(b.Offsets) == 0 {
					continue
				}
				at := r.Offsets.At(t, b.Offsets)
				done := 0
				for _, before := range r.Batches()[:i+1] {
					done += len(on(before.Records, topic))
				}
				again := d.start(d.config("max.batch.size", "500", "provide.transaction.metadata", "true"), at)
				again.WaitFor("the rest", func() bool { return len(on(again.Records(), topic)) >= want-done })
				again.Stop()
				if got := lines(again.Records(), topic); !slices.Equal(got, all[done:]) {
					t.Fatalf("resumed behind %d rows: %d rows came, want %d", done, len(got), want-done)
				}
			}
		})
	}
}

// TestChecksumsAndRotation (mysql-log/5): with checksums and without, over rotations, a
// task sees rows whole and resumes after each step.
func TestChecksumsAndRotation(t *testing.T) {
	eachServer(t, func(t *testing.T, shared *database) {
		d := ownDatabase(t, shared.server.MariaDB, map[string]string{})
		d.exec("CREATE TABLE k1 (id INT PRIMARY KEY, v VARCHAR(4))")
		store := &connectortest.OffsetStore{}
		var got []string
		step := func(n int, statements ...string) {
			t.Helper()
			r := d.start(d.config("snapshot.mode", "no_data"), store)
			if n == 0 {
				streaming(r)
			}
			d.exec(statements...)
			topic := "p." + d.name + ".k1"
			r.WaitFor("the row", func() bool { return len(on(r.Records(), topic)) == min(n, 1) })
			r.Stop()
			got = append(got, lines(r.Records(), topic)...)
			all, _ := store.All(t.Context())
			if file := cell2(all[0].Position, "file"); !strings.HasPrefix(file, "binlog.0") || len(file) != len("binlog.000001") {
				t.Errorf("step %d: the stored file is %q", n, file)
			}
		}
		step(0)
		step(1, "SET GLOBAL binlog_checksum='NONE'", "FLUSH BINARY LOGS", "INSERT INTO k1 VALUES (1,'abcd')")
		step(2, "INSERT INTO k1 VALUES (2,'bcde')")
		step(3, "SET GLOBAL binlog_checksum='CRC32'", "FLUSH BINARY LOGS", "INSERT INTO k1 VALUES (3,'efgh')")
		step(4, "FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO k1 VALUES (4,'ijkl')")
		if want := []string{"c {id:1} {id:1 v:abcd}", "c {id:2} {id:2 v:bcde}", "c {id:3} {id:3 v:efgh}", "c {id:4} {id:4 v:ijkl}"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func cell2(position schema.Value, key string) string {
	v, _ := position.Lookup(key)
	return v.Str()
}

// TestPurgedLog: a position that the server no longer has is a clear error with the way
// on, with GTIDs and without, and snapshot.mode=when_needed goes that way by itself.
func TestPurgedLog(t *testing.T) {
	for _, c := range []struct {
		name     string
		mariadb  bool
		settings map[string]string
	}{{"by GTID", false, nil}, {"by file", false, map[string]string{"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF"}}, {"MariaDB", true, nil}} {
		t.Run(c.name, func(t *testing.T) {
			d := ownDatabase(t, c.mariadb, c.settings)
			d.exec("CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1)")
			store := &connectortest.OffsetStore{}
			r := d.start(d.config(), store)
			streaming(r)
			r.Stop()
			d.exec("INSERT INTO p VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO p VALUES (3)")
			d.purge()
			r = d.start(d.config(), store.Clone())
			err := r.Wait()
			if f := connectors.FailureOf(err); f == nil || f.Reason != reasonLogLost || !strings.Contains(f.Do(), "DELETE /connectors/") {
				t.Fatalf("the task ended with %v", err)
			}
			r = d.start(d.config("snapshot.mode", "when_needed"), store)
			streaming(r)
			r.WaitFor("the new snapshot", func() bool { return len(on(r.Records(), "p."+d.name+".p")) == 3 })
			d.exec("INSERT INTO p VALUES (4)")
			r.WaitFor("the next change", func() bool { return len(on(r.Records(), "p."+d.name+".p")) == 4 })
			r.Stop()
		})
	}
}

// purge has the server forget all but the last file of its log. A file that a reader,
// which has gone, still holds stays for a moment.
func (d *database) purge() {
	d.Helper()
	last := d.lastLog()
	for i := 0; ; i++ {
		d.killDumps()
		d.exec("PURGE BINARY LOGS TO '" + last + "'")
		if d.logs() == 1 {
			return
		}
		if i == 1000 {
			d.Fatal("the server keeps its old log")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (d *database) logs() int {
	d.Helper()
	r, err := d.conn.Execute("SHOW BINARY LOGS")
	if err != nil {
		d.Fatal(err)
	}
	defer r.Close()
	return r.RowNumber()
}

// lastLog is the name of the file that is written.
func (d *database) lastLog() string {
	d.Helper()
	r, err := d.conn.Execute("SHOW BINARY LOGS")
	if err != nil {
		d.Fatal(err)
	}
	defer r.Close()
	name, err := r.GetString(r.RowNumber()-1, 0)
	if err != nil {
		d.Fatal(err)
	}
	return strings.Clone(name)
}

// TestServerNumberTwice: on MariaDB, where readers with one number end each other, the
// one that is thrown out says so.
func TestServerNumberTwice(t *testing.T) {
	d := databaseOn(t, peers.MariaDB(t))
	d.exec("CREATE TABLE s (id INT PRIMARY KEY)")
	first := d.start(d.config(), &connectortest.OffsetStore{})
	streaming(first)
	d.exec("INSERT INTO s VALUES (1)")
	first.WaitFor("a change", func() bool { return first.Count() > 0 })
	second := d.start(d.config("topic.prefix", "q"), &connectortest.OffsetStore{})
	streaming(second)
	err := first.Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonServerID {
		t.Errorf("the task that was thrown out ended with %v", err)
	}
	second.Stop()
}

// TestStatementsOfRows: include.query puts the statement into the source block.
func TestStatementsOfRows(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE q (id INT PRIMARY KEY)")
		r := d.start(d.config("include.query", "true"), &connectortest.OffsetStore{})
		streaming(r)
		if d.server.MariaDB {
			d.exec("SET SESSION binlog_annotate_row_events = ON")
		} else {
			d.exec("SET SESSION binlog_rows_query_log_events = ON")
		}
		d.exec("INSERT INTO q VALUES (1) /* grüße */", "BEGIN", "INSERT INTO q VALUES (2), (3)", "DELETE FROM q WHERE id = 1", "COMMIT")
		r.WaitFor("the rows", func() bool { return len(on(r.Records(), "p."+d.name+".q")) == 5 })
		r.Stop()
		var got []string
		for _, rec := range on(r.Records(), "p."+d.name+".q") {
			if !rec.Value.IsNull() {
				got = append(got, rec.Value.Get("source").Get("query").Str())
			}
		}
		want := []string{"INSERT INTO q VALUES (1) /* grüße */", "INSERT INTO q VALUES (2), (3)", "INSERT INTO q VALUES (2), (3)", "DELETE FROM q WHERE id = 1"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestTaggedGTIDs: MySQL's tagged transaction ids are followed, and a task resumes behind
// them.
func TestTaggedGTIDs(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE g (id INT PRIMARY KEY)")
	store := &connectortest.OffsetStore{}
	topic := "p." + d.name + ".g"
	r := d.start(d.config(), store)
	streaming(r)
	d.exec("SET SESSION gtid_next = 'AUTOMATIC:a_tag'", "INSERT INTO g VALUES (1)", "INSERT INTO g VALUES (2)", "SET SESSION gtid_next = 'AUTOMATIC:b_tag'", "INSERT INTO g VALUES (3)",
		"SET SESSION gtid_next = 'AUTOMATIC'", "INSERT INTO g VALUES (4)")
	r.WaitFor("the rows", func() bool { return len(on(r.Records(), topic)) == 4 })
	r.Stop()
	if gtid := on(r.Records(), topic)[0].Value.Get("source").Get("gtid").Str(); !strings.Contains(gtid, ":a_tag:") {
		t.Errorf("the gtid is %q", gtid)
	}
	all, _ := store.All(t.Context())
	if gtids := cell2(all[0].Position, "gtids"); !strings.Contains(gtids, "a_tag:") || !strings.Contains(gtids, "b_tag:") {
		t.Logf("the last offset is within a transaction or before it: %q", gtids)
	}
	r = d.start(d.config(), store)
	d.exec("SET SESSION gtid_next = 'AUTOMATIC:a_tag'", "INSERT INTO g VALUES (5)", "SET SESSION gtid_next = 'AUTOMATIC'", "INSERT INTO g VALUES (6)")
	r.WaitFor("the rows", func() bool { return len(on(r.Records(), topic)) == 2 })
	r.Stop()
	if got, want := lines(r.Records(), topic), []string{"c {id:5} {id:5}", "c {id:6} {id:6}"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNumbersOfTransactionsAreSwitchedOnAndOff: while not all transactions have a number, no set of numbers tells where a reader stands. A task goes on
// through each step by file and position, loses nothing, also of what was committed while it was stopped, and has the whole set once all are numbered again.
func TestNumbersOfTransactionsAreSwitchedOnAndOff(t *testing.T) {
	d := ownDatabase(t, false, nil)
	d.exec("CREATE TABLE g (id INT PRIMARY KEY)")
	topic, store, next := "p."+d.name+".g", &connectortest.OffsetStore{}, 0
	insert := func() {
		t.Helper()
		next++
		d.exec(fmt.Sprintf("INSERT INTO g VALUES (%d)", next))
	}
	var got []int64
	run := func(conf map[string]string, from *connectortest.OffsetStore, more func()) (gtids string) {
		t.Helper()
		r := d.start(conf, from)
		streaming(r)
		more()
		r.WaitFor(fmt.Sprintf("a place behind row %d, since a server sends no transaction with a number once it numbers none", next), func() bool {
			all, bs := on(r.Records(), topic), r.Batches()
			if len(all) == 0 || all[len(all)-1].Key.Get("id").Int() != int64(next) {
				return false
			}
			p, _, err := parsePosition(bs[len(bs)-1].Offsets[0].Position)
			return err == nil && p.events == 0
		})
		r.Stop()
		for _, rec := range on(r.Records(), topic) {
			got = append(got, rec.Key.Get("id").Int())
		}
		bs := r.Batches()
		return cell2(bs[len(bs)-1].Offsets[0].Position, "gtids")
	}
	conf := d.config()
	for _, step := range []struct {
		name    string
		modes   []string
		numbers bool // all transactions have one
	}{
		{"numbered", nil, true},
		{"on the way from it", []string{"ON_PERMISSIVE"}, false},
		{"not numbered", []string{"OFF_PERMISSIVE", "OFF"}, false},
		{"on the way to it", []string{"OFF_PERMISSIVE", "ON_PERMISSIVE"}, false},
		{"numbered again", []string{"ON"}, true},
	} {
		for _, mode := range step.modes {
			d.exec("SET GLOBAL gtid_mode = " + mode)
			insert()
		}
		if gtids := run(conf, store, insert); (gtids != "") != step.numbers {
			t.Errorf("%s: the set of the offset is %q", step.name, gtids)
		}
		if step.name == "not numbered" { // a snapshot of a server that did number them
			before := got
			if gtids := run(d.config("database.server.id", "77"), nil, insert); gtids != "" {
				t.Errorf("a snapshot without numbers has the set %q", gtids)
			}
			got = before
		}
	}
	insert()
	gtids := run(conf, store, insert)
	set, err := parseGTIDs(gtids, false)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseGTIDs(d.text("SELECT @@global.gtid_executed"), false)
	if err != nil {
		t.Fatal(err)
	}
	if missing := all.minus(set); !missing.empty() {
		t.Errorf("the offset has %s, and lacks %s", set, missing)
	}
	for i, id := range got {
		if id != int64(i+1) {
			t.Fatalf("rows %d", got)
		}
	}
	if len(got) != next {
		t.Errorf("%d of %d rows: %d", len(got), next, got)
	}
}

// TestHugeTransactionStaysSmall is in measure_test.go; here is that its rows come in
// order and that the position moves within it.
func TestPositionsWithinATransaction(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE w (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
		store := &connectortest.OffsetStore{}
		r := d.start(d.config("table.include.list", d.name+".w", "max.batch.size", "100"), store)
		streaming(r)
		d.exec("BEGIN")
		for i := range 10 {
			var a, b strings.Builder
			for j := range 300 {
				fmt.Fprintf(&a, ",(%d)", i*300+j)
				fmt.Fprintf(&b, ",(%d)", i*300+j)
			}
			d.exec("INSERT INTO w VALUES "+a.String()[1:], "INSERT INTO other VALUES "+b.String()[1:])
		}
		d.exec("COMMIT")
		topic := "p." + d.name + ".w"
		r.WaitFor("the rows", func() bool { return len(on(r.Records(), topic)) == 3000 })
		r.Stop()
		within, done := 0, 0
		for i, b := range r.Batches() {
			done += len(on(b.Records, topic))
			p := countsRows(t, b, done)
			if p.events == 0 {
				continue
			}
			if within++; i%5 != 0 {
				continue
			}
			for _, elsewhere := range []bool{false, true} {
				at := r.Offsets.At(t, b.Offsets)
				if elsewhere { // another server's log has the transaction at another place
					moved := p
					moved.pos++
					at.Put(t, []connectors.Offset{{Partition: b.Offsets[0].Partition, Position: moved.value()}})
				}
				again := d.start(d.config("table.include.list", d.name+".w,"+d.name+".nothing", "max.batch.size", "100"), at)
				again.WaitFor("the rest", func() bool { return len(on(again.Records(), topic)) >= 3000-done })
				again.Stop()
				rest := on(again.Records(), topic)
				if len(rest) != 3000-done || len(rest) > 0 && rest[0].Key.Get("id").Int() != int64(done) {
					t.Fatalf("resumed behind %d rows of a transaction: %d came", done, len(rest))
				}
				sent := done
				for _, b := range again.Batches() {
					sent += len(on(b.Records, topic))
					countsRows(t, b, sent)
				}
			}
		}
		if within < 10 {
			t.Errorf("%d positions within the transaction", within)
		}
	})
}

// countsRows is the position of a batch, which must count the rows that were sent of its transaction, however often the stream was resumed in it: at a
// server whose log has other events nothing else tells them.
func countsRows(t *testing.T, b connectors.Batch, sent int) position {
	t.Helper()
	p, _, err := parsePosition(b.Offsets[0].Position)
	if err != nil {
		t.Fatal(err)
	}
	if p.events > 0 && p.rowsDone != int64(sent) {
		t.Fatalf("the position at event %d, row %d counts %d rows of its transaction, of which %d were sent", p.events, p.rows, p.rowsDone, sent)
	}
	return p
}

// TestEventsThatEndTheStream: what the log says of itself that it is not whole, and what nobody knows, is never passed over.
func TestEventsThatEndTheStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		h      header
		reason *connectors.Reason
		says   string // "": it is passed over
	}{
		{"an incident: the server lost events", header{kind: evIncident}, reasonLog, "changes are missing"},
		{"an event of the future that may be ignored", header{kind: 250, flags: flagIgnorable}, nil, ""},
		{"one that may not", header{kind: 250}, nil, "unknown kind 250"},
		{"rows of a table that was not described", header{kind: evWriteRows}, nil, "not described"},
		{"a heartbeat", header{kind: evHeartbeat}, nil, ""},
	} {
		r := &reader{t: &task{s: &settings{}, lg: slog.New(slog.DiscardHandler)}, tables: map[uint64]*mapped{}, build: cdc.NewBuilder(10), file: "binlog.000003", at: 500}
		err := r.event(t.Context(), c.h, []byte("\x07\x00\x00\x00\x00\x00\x01\x00\x02\x00\x01\x01\x00\x01"), 300, false)
		f := connectors.FailureOf(err)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || c.reason != nil && (f == nil || f.Reason != c.reason || !strings.Contains(err.Error(), "binlog.000003:300")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
