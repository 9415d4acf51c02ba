package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

// afters are the rows of events, as "op column=value …", in their order.
func afters(records []schema.Record) (out []string) {
	for _, r := range records {
		if r.Value.IsNull() {
			continue
		}
		row := r.Value.Get("after")
		text := r.Value.Get("op").Str()
		for i, f := range row.Schema().Fields() {
			v := row.Fields()[i]
			switch {
			case v.IsNull():
				text += " " + f.Name + "=null"
			case v.Kind() == schema.String:
				text += " " + f.Name + "=" + v.Str()
			default:
				text += fmt.Sprintf(" %s=%d", f.Name, v.Int())
			}
		}
		out = append(out, text)
	}
	return out
}

// TestOnlineSchemaChange is cases mysql-log/3: a shadow table that is not captured takes
// the place of a captured one, and a restart follows.
func TestOnlineSchemaChange(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE ord (id INT PRIMARY KEY, a INT)")
		store, topic := &connectortest.OffsetStore{}, "p."+d.name+".ord"
		conf := d.config("table.include.list", d.name+".ord")
		r := d.start(conf, store)
		streaming(r)
		d.exec("INSERT INTO ord VALUES (1,1)", "CREATE /* tool */ TABLE `_ord_gho` LIKE ord", "ALTER /* tool */ TABLE `_ord_gho` ADD COLUMN c VARCHAR(9) DEFAULT 'n'", "INSERT INTO `_ord_gho` (id,a) VALUES (1,1)",
			"RENAME /* tool */ TABLE ord TO `_ord_del`, `_ord_gho` TO ord")
		r.WaitFor("the first row", func() bool { return len(on(r.Records(), topic)) == 1 })
		r.Stop()
		again := d.start(conf, store)
		d.exec("INSERT INTO ord VALUES (2,2,'z')", "DROP TABLE `_ord_del`")
		again.WaitFor("the second row", func() bool { return len(on(again.Records(), topic)) == 1 })
		again.Stop()
		all := append(r.Records(), again.Records()...)
		if got, want := afters(on(all, topic)), []string{"c id=1 a=1", "c id=2 a=2 c=z"}; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
		for _, rec := range all {
			if strings.Contains(rec.Topic, "_ord_") {
				t.Errorf("a record in the topic %s", rec.Topic)
			}
		}
	})
}

// TestPartitionClauses is cases mysql-log/6.
func TestPartitionClauses(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		r := d.start(d.config(), nil)
		streaming(r)
		alters := []string{"ALTER TABLE pt EXCHANGE PARTITION p0 WITH TABLE px", "ALTER TABLE pt TRUNCATE PARTITION p0", "ALTER TABLE pt DROP PARTITION p1"}
		d.exec("CREATE TABLE pt (id INT PRIMARY KEY, d INT) PARTITION BY RANGE(id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))", "CREATE TABLE px (id INT PRIMARY KEY, d INT)",
			"INSERT INTO pt VALUES (1,1)", "INSERT INTO px VALUES (2,2)", alters[0], alters[1], alters[2], "INSERT INTO px VALUES (5,5)")
		r.WaitFor("the last row", func() bool { return len(on(r.Records(), "p."+d.name+".px")) == 2 })
		r.Stop()
		got := append(afters(on(r.Records(), "p."+d.name+".pt")), afters(on(r.Records(), "p."+d.name+".px"))...)
		if want := []string{"c id=1 d=1", "c id=2 d=2", "c id=5 d=5"}; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
		var ddl []string
		for _, rec := range on(r.Records(), "p") {
			if s := rec.Value.Get("ddl").Str(); strings.HasPrefix(s, "ALTER") {
				ddl = append(ddl, s)
			}
		}
		if !slices.Equal(ddl, alters) {
			t.Errorf("the schema change topic has %q, want %q", ddl, alters)
		}
		h := historyOf(t, &memoryJournal{}, "database.include.list", "db")
		h.cat.run(t, "CREATE TABLE pt (id INT)", "CREATE TABLE px (id INT)")
		for i, want := range []string{"EXCHANGE PARTITION", "TRUNCATE PARTITION", "DROP PARTITION"} {
			a, err := h.Apply(t.Context(), Statement{Database: "db", SQL: alters[i], Place: Place{File: "b.1", Pos: int64(i + 1)}}, noBlock)
			if err != nil || a.MovesRows != want {
				t.Errorf("%s: moves rows by %q (%v), want %q", alters[i], a.MovesRows, err, want)
			}
		}
	})
}

// TestSessionsOfTheirOwn: statements whose reading hangs on their session, before and
// behind a restart.
func TestSessionsOfTheirOwn(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		store := &connectortest.OffsetStore{}
		r := d.start(d.config(), store)
		streaming(r)
		d.exec(`SET sql_mode = 'ANSI_QUOTES'`, `CREATE TABLE "a" ("x""y" INT PRIMARY KEY, "z" VARCHAR(9) DEFAULT 'd')`, `SET sql_mode = 'NO_BACKSLASH_ESCAPES'`, `CREATE TABLE b (id INT PRIMARY KEY, s VARCHAR(9) DEFAULT 'a\', t VARCHAR(9))`,
			`SET sql_mode = ''`, "SET explicit_defaults_for_timestamp = OFF", "CREATE TABLE ts (id INT PRIMARY KEY, at TIMESTAMP)", "CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(70000))",
			"SET NAMES gbk", "CREATE TABLE \xd6\xd0\xce\xc4 (id INT PRIMARY KEY, \xc3\xfb INT)", "SET NAMES utf8mb4")
		d.exec("INSERT INTO a VALUES (1, 'q')", "INSERT INTO b VALUES (1, 's', 't')", "INSERT INTO big VALUES (1, 'v')", "INSERT INTO 中文 VALUES (1, 7)")
		topics := []string{"a", "b", "big", "__"}
		check := func(r *connectortest.SourceRun, want []string) {
			t.Helper()
			r.WaitFor("the rows", func() bool { return len(on(r.Records(), "p."+d.name+".__")) == 1 })
			r.Stop()
			var got []string
			for _, topic := range topics {
				got = append(got, afters(on(r.Records(), "p."+d.name+"."+topic))...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("rows %q, want %q", got, want)
			}
		}
		check(r, []string{`c x"y=1 z=q`, "c id=1 s=s t=t", "c id=1 v=v", "c id=1 名=7"})
		r = d.start(d.config(), store)
		d.exec("INSERT INTO a (`x\"y`) VALUES (2)", "INSERT INTO b (id) VALUES (2)", "INSERT INTO big VALUES (2, NULL)", "INSERT INTO 中文 VALUES (2, 8)")
		check(r, []string{`c x"y=2 z=d`, `c id=2 s=a\ t=null`, "c id=2 v=null", "c id=2 名=8"})
		h := historyOf(t, mustJournal(t, store))
		h.cat.d.mariadb = d.server.MariaDB
		h.s.mariadb = d.server.MariaDB
		all, _ := store.All(t.Context())
		p, _, err := parsePosition(all[0].Position)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Recover(t.Context(), p.place()); err != nil {
			t.Fatal(err)
		}
		if c := h.Table(TableID{d.name, "ts"}).Column("at"); c.Nullable {
			t.Error("a TIMESTAMP of a session without explicit_defaults_for_timestamp may be null")
		}
		if c := h.Table(TableID{d.name, "big"}).Column("v"); c.Type != MediumText {
			t.Errorf("a VARCHAR(70000) is %s, want mediumtext", c.Full)
		}
	})
}

func mustJournal(t *testing.T, store *connectortest.OffsetStore) connectors.Journal {
	t.Helper()
	j, err := store.Journal(t.Context(), connectors.JournalPlace{Topic: "p-schema-history"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestSequencesAreNoData: MariaDB's sequences log rows, which are left out.
func TestSequencesAreNoData(t *testing.T) {
	d := ownDatabase(t, true, nil)
	d.exec("CREATE SEQUENCE before_it", "CREATE TABLE t (id INT PRIMARY KEY)")
	r := d.start(d.config(), nil)
	streaming(r)
	d.exec("CREATE SEQUENCE behind_it", "SELECT NEXTVAL(before_it), NEXTVAL(behind_it)", "INSERT INTO t VALUES (1)")
	r.WaitFor("the row", func() bool { return len(on(r.Records(), "p."+d.name+".t")) == 1 })
	r.Stop()
	for _, rec := range r.Records() {
		if strings.HasSuffix(rec.Topic, "_it") {
			t.Errorf("a record in the topic %s", rec.Topic)
		}
	}
}

// TestColumnsTheLogNames: with binlog_row_metadata=FULL a table that was changed behind
// the log's back is noticed, also where the types are alike.
func TestColumnsTheLogNames(t *testing.T) {
	d := ownDatabase(t, false, map[string]string{"binlog-row-metadata": "FULL"})
	d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "CREATE TABLE u (id INT PRIMARY KEY)")
	store := &connectortest.OffsetStore{}
	r := d.start(d.config(), store)
	streaming(r)
	d.exec("INSERT INTO t VALUES (1, 1, 2)", "SET sql_log_bin = 0", "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "SET sql_log_bin = 1", "INSERT INTO t VALUES (2, 1, 2)", "INSERT INTO u VALUES (1)")
	err := r.Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonSchema || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), "snapshot.mode=recovery") {
		t.Fatalf("the task ended with %v", err)
	}
	again := d.start(d.config("inconsistent.schema.handling.mode", "warn"), store)
	again.WaitFor("the other table's row", func() bool { return len(on(again.Records(), "p."+d.name+".u")) == 1 })
	again.Stop()
	// The way on: the definitions are read anew.
	d.exec("INSERT INTO t VALUES (3, 5, 6)")
	last := d.start(d.config("snapshot.mode", "recovery"), store)
	last.WaitFor("the row", func() bool { return len(on(last.Records(), "p."+d.name+".t")) > 0 })
	last.Stop()
	rows := afters(on(last.Records(), "p."+d.name+".t"))
	if got, want := rows[len(rows)-1], "c id=3 b=5 a=6"; got != want {
		t.Errorf("the row is %q, want %q", got, want)
	}
}

// TestStatementThatCannotBeRead: a statement of the future is made up for by the server's
// own definition, and the history has it behind a restart.
func TestStatementThatCannotBeRead(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		v, _ := d.plugin().Config.Parse(d.config())
		s, errs := parse(v, d.server.MariaDB)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		task := &task{s: s}
		creates, place, err := task.reread(t.Context(), []TableID{{d.name, "t"}, {d.name, "nothing"}})
		if err != nil || len(creates) != 2 || !strings.Contains(creates[0], "PRIMARY KEY") || creates[1] != "" || place.File == "" || place.Pos == 0 {
			t.Fatalf("read %q at %v: %v", creates, place, err)
		}
		h := historyOf(t, &memoryJournal{})
		h.cat.d.mariadb, h.s = d.server.MariaDB, s
		h.topic, h.reread = nil, task.reread
		for range 20 { // others write to the server, too
			d.exec("CREATE TABLE IF NOT EXISTS x (i INT)", "ALTER TABLE x ADD c"+fmt.Sprint(time.Now().UnixNano())+" INT")
			if _, place, err = task.reread(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			_, err = h.Apply(t.Context(), Statement{Database: d.name, SQL: "ALTER TABLE x ADD y HYPERINT FUTURE", Place: place, At: time.Now()}, noBlock)
			if err == nil {
				break
			}
		}
		if err != nil || len(h.Table(TableID{d.name, "x"}).Columns) < 2 {
			t.Errorf("%v: %s", err, definitionOf(h.Table(TableID{d.name, "x"})))
		}
	})
}

// TestTablesMadeOfQueries: CREATE … SELECT is one transaction, whose statement stands
// before its rows: a task that resumes among them knows the table.
func TestTablesMadeOfQueries(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE src (id INT PRIMARY KEY, v VARCHAR(20))")
		conf, topic := d.config("max.batch.size", "200"), "p."+d.name+".made"
		r := d.start(conf, nil)
		streaming(r)
		var b strings.Builder
		for i := range 1500 {
			fmt.Fprintf(&b, ",(%d,'row %d')", i, i)
		}
		d.exec("INSERT INTO src VALUES "+b.String()[1:], "CREATE TABLE made (extra INT DEFAULT 7) AS SELECT * FROM src", "INSERT INTO made VALUES (1, 9999, 'last')")
		r.WaitFor("all rows", func() bool { return len(on(r.Records(), topic)) == 1501 })
		r.Stop()
		all, done, within := afters(on(r.Records(), topic)), 0, 0
		for _, batch := range r.Batches() {
			done += len(on(batch.Records, topic))
			if len(batch.Offsets) == 0 || done == 0 || done == len(all) {
				continue
			}
			p, _, err := parsePosition(batch.Offsets[0].Position)
			if err != nil {
				t.Fatal(err)
			}
			if within++; p.events == 0 || within%3 != 0 {
				continue
			}
			again := d.start(conf, r.Offsets.At(t, batch.Offsets))
			again.WaitFor("the rest", func() bool { return len(on(again.Records(), topic)) >= len(all)-done })
			again.Stop()
			if got := afters(on(again.Records(), topic)); !slices.Equal(got, all[done:]) {
				t.Fatalf("behind %d rows come %d, want %d; the first is %q, want %q", done, len(got), len(all)-done, got[0], all[done])
			}
		}
		if within == 0 {
			t.Error("no offset within the transaction")
		}
	})
}

// TestAConnectionLostBehindDDL: a connection that breaks behind a statement, whose place is not on its way yet, is made anew in front of it. The
// statement comes twice and is followed once, and rows that come again are read with the columns that they had.
func TestAConnectionLostBehindDDL(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		conf, topic := d.config("table.include.list", d.name+".t", "include.schema.changes", "false"), "p."+d.name+".t"
		r := d.start(conf, nil)
		tk := r.Task.(*task)
		streaming(r)
		rows := func(n int) {
			t.Helper()
			r.WaitFor(fmt.Sprintf("%d rows", n), func() bool { return len(on(r.Records(), topic)) >= n })
		}
		var want []string
		columns := ""
		for i := range 2 { // more losses at once are for the worker to see
			d.exec(fmt.Sprintf("INSERT INTO t (id) VALUES (%d)", 2*i))
			want = append(want, fmt.Sprintf("c%s id=%d", columns, 2*i))
			rows(2*i + 1) // the next place without a record follows a second later
			d.exec(fmt.Sprintf("ALTER TABLE t ADD COLUMN c%d INT DEFAULT %[1]d FIRST", i))
			file, at, _ := strings.Cut(d.logEnd(), ":")
			r.WaitFor("the statement", func() bool {
				tk.seen.mu.Lock()
				defer tk.seen.mu.Unlock()
				end, err := strconv.ParseInt(at, 10, 64)
				return err == nil && (tk.seen.file != file || tk.seen.at >= end)
			})
			d.killDumps()
			columns = fmt.Sprintf(" c%d=%[1]d", i) + columns
			d.exec(fmt.Sprintf("INSERT INTO t (id) VALUES (%d)", 2*i+1))
			want = append(want, fmt.Sprintf("c%s id=%d", columns, 2*i+1))
			rows(2*i + 2)
		}
		r.Stop()
		if got := afters(on(r.Records(), topic)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if n := tk.seen.disconnects.Load(); n < 2 {
			t.Errorf("%d connections were lost, want 2", n)
		}
		again := d.start(conf, r.Offsets)
		d.exec("INSERT INTO t (id) VALUES (100)")
		again.WaitFor("a row", func() bool { return len(on(again.Records(), topic)) > 0 })
		again.Stop()
		if got := afters(on(again.Records(), topic)); !slices.Equal(got, []string{"c" + columns + " id=100"}) {
			t.Errorf("behind a restart %q", got)
		}
	})
}

// TestTextInPlaceOfRows: what a session writes into the log as statements, without rows, is no silent loss where it concerns a captured table.
func TestTextInPlaceOfRows(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
		conf, topic := d.config("table.include.list", d.name+".t"), "p."+d.name+".t"
		r := d.start(conf, nil)
		streaming(r)
		d.exec("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO other VALUES (1)", "SET SESSION binlog_format = 'ROW'", "INSERT INTO t VALUES (1)")
		r.WaitFor("the row", func() bool { return len(on(r.Records(), topic)) == 1 })
		d.exec("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (4711)", "SET SESSION binlog_format = 'ROW'", "INSERT INTO t VALUES (3)")
		err := r.Wait()
		if f := connectors.FailureOf(err); f == nil || f.Reason != reasonNoLog || !strings.Contains(err.Error(), d.name+".t") || strings.Contains(err.Error(), "4711") {
			t.Fatalf("the task ended with %v", err)
		}
		conf["event.processing.failure.handling.mode"] = "warn"
		again := d.start(conf, r.Offsets)
		again.WaitFor("the row behind it", func() bool { return len(on(again.Records(), topic)) > 0 })
		again.Stop()
		if got := afters(on(again.Records(), topic)); !slices.Equal(got, []string{"c id=3"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestStatementsThatChangeRows: which captured table a statement's text names.
func TestStatementsThatChangeRows(t *testing.T) {
	h := historyOf(t, &memoryJournal{}, "table.include.list", "db.t,db2.t2")
	for _, id := range []TableID{{"db", "t"}, {"db", "other"}, {"db2", "t2"}} {
		h.cat.tables[id] = &Table{ID: id}
	}
	for sql, want := range map[string]TableID{
		"INSERT INTO t VALUES (1)":                                    {"db", "t"},
		"/* tool */ insert ignore into `t` (id) values (1)":           {"db", "t"},
		"UPDATE other JOIN db2.t2 ON other.id = t2.id SET t2.a = 1":   {"db2", "t2"},
		"DELETE FROM `db` . `t` WHERE id = 1":                         {"db", "t"},
		"REPLACE t SELECT * FROM other":                               {"db", "t"},
		"LOAD DATA INFILE 'x' INTO TABLE `db`.`t` (id)":               {"db", "t"},
		"WITH q AS (SELECT 1) DELETE FROM t":                          {"db", "t"},
		"INSERT INTO other VALUES ('t')":                              {},
		"INSERT INTO db2.t VALUES (1)":                                {},
		"INSERT INTO t2 VALUES (1)":                                   {},
		"CREATE TABLE t (id INT)":                                     {},
		"GRANT INSERT ON t TO u":                                      {},
		"INSERT INTO other SELECT id FROM elsewhere.t /* db.t too */": {},
	} {
		if got := h.rowsOf(sql, "db", h.cat.d); got != want {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
}
