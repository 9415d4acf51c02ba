package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/trial"
)

// TestDebeziumsHistoryIsTakenOver: out of a history that Debezium wrote come the tables
// that its own records describe, at each place in it.
func TestDebeziumsHistoryIsTakenOver(t *testing.T) {
	lines := goldenLines(t, "mydefault-history.jsonl")
	for end := 16; end <= len(lines); end++ {
		j := &memoryJournal{}
		for _, l := range lines {
			j.entries = append(j.entries, []byte(*l.Value))
		}
		last, err := parseHistory([]byte(*lines[end-1].Value))
		if err != nil {
			t.Fatal(err)
		}
		// The position behind the statement: its own transaction is in the set, too.
		upTo := last.Position.place()
		if !upTo.Snapshot {
			n := strings.LastIndexByte(upTo.GTIDs, '-')
			upTo.GTIDs = upTo.GTIDs[:n+1] + strconv.Itoa(atoi(upTo.GTIDs[n+1:])+1)
		}
		for end < len(lines) && (strings.Contains(*lines[end].Value, fmt.Sprintf(`"pos" : %d`, last.Position.Pos))) {
			end++ // records of one place are all there, or none is
		}
		upTo.Snapshot, upTo.Event = false, 0
		want := newCatalog(dialect{version: 90704})
		for _, l := range lines[:end] {
			rec, _ := parseHistory([]byte(*l.Value))
			list, err := rec.changes()
			if err != nil {
				t.Fatal(err)
			}
			if err := want.take(list, want.d); err != nil {
				t.Fatal(err)
			}
		}
		h := historyOf(t, j, "topic.prefix", "mydefault")
		if err := h.Recover(t.Context(), upTo); err != nil {
			t.Fatalf("up to record %d: %v", end, err)
		}
		if got, w := names(h.cat), names(want); !slices.Equal(got, w) {
			t.Fatalf("up to record %d: tables %v, want %v", end, got, w)
		}
		for id, w := range want.tables {
			a, b := *h.Table(id), *w
			// What Debezium's description leaves out.
			a.UniqueKeys, a.PrimaryKey, a.Comment, b.Comment = nil, h.Table(id).Key(), "", ""
			a.Columns, b.Columns = slices.Clone(a.Columns), slices.Clone(b.Columns)
			for i := range a.Columns {
				x, y := &a.Columns[i], &b.Columns[i]
				x.Generated, x.Stored, x.SRID, x.Collation, y.Collation, x.typed, y.typed = y.Generated, y.Stored, y.SRID, "", "", typed{}, typed{}
				if y.HasDefault = x.HasDefault; x.DefaultExpr {
					x.Default, x.DefaultExpr, y.Default, y.DefaultNull = "", false, "", false
				}
				x.DefaultNull = y.DefaultNull
				if x.Type == Bit {
					x.Default, y.Default = "", ""
					x.DefaultBytes = y.DefaultBytes
				}
			}
			if !a.equal(&b) {
				t.Errorf("up to record %d:\n got %s\nwant %s", end, definitionOf(&a), definitionOf(&b))
			}
		}
	}
}

func names(c *catalog) []string {
	var out []string
	for _, id := range slices.SortedFunc(maps.Keys(c.tables), compareIDs) {
		out = append(out, id.String())
	}
	return out
}

// A logged statement is one that a server would have taken.
type logged struct {
	sql string
	at  Place
	end Place // the offset behind it
	cat *catalog
}

// logOf makes a log by chance, and the definitions behind each statement. Some stand in
// transactions.
func logOf(r *rand.Rand, n int, gtids bool) []logged {
	m := &ddlMaker{r: r, db: [2]string{"db", "db2"}}
	cat := newCatalog(dialect{version: 90704})
	cat.databases["db"], cat.databases["db2"] = databaseDef{"utf8mb4", "utf8mb4_0900_ai_ci"}, databaseDef{"latin1", "latin1_swedish_ci"}
	var out []logged
	file, pos := 1, int64(4)
	for tries := 0; len(out) < n && tries < 100*n; tries++ {
		sql := m.statement()
		if len(cat.tables) == 0 || r.IntN(3) == 0 {
			sql = m.create()
		}
		list := parseDDL(sql, "db", cat.d)
		if len(list) != 1 || list[0].err != nil {
			continue
		}
		next := cat.clone()
		changes, _, err := next.apply(list[0].statement, cat.d)
		if err != nil || slices.ContainsFunc(changes, func(c change) bool { return c.Kind == "ALTER" && (c.Table == nil || c.ID == c.Was) }) || twice(changes) {
			continue
		}
		cat = next
		if r.IntN(20) == 0 {
			file, pos = file+1, 4
		}
		name := fmt.Sprintf("binlog.%06d", file)
		set := func(n int) string {
			if !gtids || n == 0 {
				return ""
			}
			return fmt.Sprintf("4317f4a8-ec59-11f1-8520-02fc00000001:1-%d", n)
		}
		start := pos
		pos += int64(100 + r.IntN(400))
		l := logged{sql: sql, cat: cat}
		if r.IntN(6) == 0 { // in a transaction, of which the offset behind it has this statement alone
			l.at = Place{TimeSec: 1, File: name, Pos: start, Event: 1, GTIDs: set(len(out) + 10), ServerID: 1}
			l.end = Place{File: name, Pos: start, Event: 2, GTIDs: l.at.GTIDs}
		} else {
			l.at = Place{TimeSec: 1, File: name, Pos: pos, GTIDs: set(len(out) + 10), ServerID: 1}
			l.end = Place{File: name, Pos: pos, GTIDs: set(len(out) + 11)}
		}
		out = append(out, l)
	}
	return out
}

// twice reports whether a statement names a table twice, which no server takes.
func twice(changes []change) bool {
	for i, a := range changes {
		for _, b := range changes[:i] {
			if a.Kind == b.Kind && a.ID == b.ID {
				return true
			}
		}
	}
	return false
}

func (c *catalog) clone() *catalog {
	n := *c
	n.databases, n.tables = maps.Clone(c.databases), maps.Clone(c.tables)
	return &n
}

func sameCatalog(t *testing.T, got, want *catalog, what string) {
	t.Helper()
	if a, b := names(got), names(want); !slices.Equal(a, b) {
		t.Fatalf("%s: tables %v, want %v", what, a, b)
	}
	for id, w := range want.tables {
		if g := got.tables[id]; !g.equal(w) {
			t.Fatalf("%s:\n got %s\n%+v\nwant %s\n%+v", what, definitionOf(g), *g, definitionOf(w), *w)
		}
	}
}

// TestHistoryIsRecovered: whatever is written and wherever a start resumes, the tables are
// those of that place; and what the stream passes again is not written again.
func TestHistoryIsRecovered(t *testing.T) {
	seed := trial.Seed(t)
	restored := 0
	for round := range 8 {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		log := logOf(r, 60, round%2 == 0)
		file := filepath.Join(t.TempDir(), "history.dat")
		var j connectors.Journal = &memoryJournal{}
		if round%3 == 0 {
			j, _ = openFileJournal(nil, file)
		}
		open := func() *schemas {
			h := historyOf(t, j, "database.include.list", "db")
			h.every = 7 + r.IntN(30)
			return h
		}
		h := open()
		init := InitialSchema{Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Databases: []InitialDatabase{{Name: "db", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}, {Name: "db2", Charset: "latin1", Collation: "latin1_swedish_ci"}},
			Place: Place{File: "binlog.000001", Pos: 4, GTIDs: strings.Replace(log[0].at.GTIDs, "1-10", "1-9", 1), Snapshot: true}}
		if err := h.Begin(t.Context(), init, noBlock, nil); err != nil {
			t.Fatal(err)
		}
		reached := 0
		for at := 0; at < len(log); {
			if r.IntN(8) == 0 && at > 0 { // a start that resumes here or further back
				at -= r.IntN(min(at, 12)) // a position behind a statement at least
				back := h.Rewind          // the task lives on, and has lost its connection
				if r.IntN(2) == 0 {
					h = open()
					back = h.Recover
				}
				if err := back(t.Context(), log[at-1].end); err != nil {
					t.Fatalf("round %d, at %d: %v", round, at, err)
				}
				sameCatalog(t, h.cat, log[at-1].cat, fmt.Sprintf("round %d, resumed behind statement %d of %d", round, at, reached))
			}
			l := log[at]
			if _, err := h.Apply(t.Context(), Statement{Database: "db", SQL: l.sql, ExplicitTimestamps: 1, Place: l.at, At: time.UnixMilli(1)}, noBlock); err != nil {
				t.Fatalf("round %d: %s: %v", round, l.sql, err)
			}
			at++
			reached = max(reached, at)
			sameCatalog(t, h.cat, log[at-1].cat, fmt.Sprintf("round %d, behind %s", round, l.sql))
		}
		// Each statement is there once.
		seen, snapshots := map[string]int{}, 0
		if err := j.Replay(t.Context(), func(e []byte) error {
			if isSnapshot(e) {
				snapshots++
				return nil
			}
			rec, err := parseHistory(e)
			if err != nil {
				return err
			}
			if !rec.Position.place().Snapshot {
				seen[fmt.Sprint(rec.Position.place(), *rec.DDL, string(rec.tableChanges))]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for k, n := range seen {
			if n > 1 {
				t.Errorf("round %d: written %d times: %s", round, n, k)
			}
		}
		restored += snapshots
	}
	if restored == 0 {
		t.Error("no snapshot of the definitions was written in any round")
	}
}

// TestLongHistoryIsRestored: many statements, as Debezium leaves them; and with the
// snapshot of the definitions that the first start has written behind them.
func TestLongHistoryIsRestored(t *testing.T) {
	j, at := longHistory(t, 2_000) // more than from when on there is a snapshot
	for _, name := range []string{"as Debezium leaves it", "with a snapshot of the definitions"} {
		h := historyOf(t, j, "database.include.list", "db")
		if err := h.Recover(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if n := len(h.Table(TableID{"db", "t7"}).Columns); n != 10 {
			t.Errorf("%s: %d columns, want 10", name, n)
		}
	}
	if !isSnapshot(j.entries[len(j.entries)-1]) {
		t.Error("the first start has written no snapshot of the definitions")
	}
}

// BenchmarkLongHistory restores 20,000 statements, of which the figure is 5 s, as Debezium leaves them.
func BenchmarkLongHistory(b *testing.B) {
	j, at := longHistory(b, 20_000)
	entries := j.entries
	for b.Loop() {
		j.entries = entries[:len(entries):len(entries)]
		if err := historyOf(b, j, "database.include.list", "db").Recover(b.Context(), at); err != nil {
			b.Fatal(err)
		}
	}
}

// longHistory is a history of that many changes of 50 tables, of eight columns and two more each, and the place that it ends at.
func longHistory(t testing.TB, statements int) (*memoryJournal, Place) {
	t.Helper()
	j := &memoryJournal{}
	h := historyOf(t, j, "database.include.list", "db")
	h.every, h.topic = 1<<30, nil
	init := InitialSchema{Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Place: Place{File: "binlog.000001", Pos: 4, Snapshot: true}, Databases: []InitialDatabase{{Name: "db", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}}}
	for i := range 50 {
		init.Databases[0].Tables = append(init.Databases[0].Tables, InitialTable{fmt.Sprintf("t%d", i), fmt.Sprintf("CREATE TABLE `t%d` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `a` varchar(20) DEFAULT 'x',\n  `b` decimal(10,2) DEFAULT NULL,\n  `c` timestamp NULL DEFAULT NULL,\n  `d` text,\n  `e` json DEFAULT NULL,\n  `f` enum('a','b') DEFAULT NULL,\n  `g` bigint unsigned DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci", i)})
	}
	if err := h.Begin(t.Context(), init, noBlock, nil); err != nil {
		t.Fatal(err)
	}
	at := Place{File: "binlog.000001", Pos: 4}
	for i := range statements {
		at.Pos += 200
		sql := fmt.Sprintf("ALTER TABLE t%d ADD COLUMN added%d varchar(20) NOT NULL DEFAULT 'x' AFTER b", i%50, i)
		if i >= 100 {
			sql = fmt.Sprintf("ALTER TABLE t%d ADD COLUMN added%d int, DROP COLUMN added%d", i%50, i, i-100)
		}
		if _, err := h.Apply(t.Context(), Statement{Database: "db", SQL: sql, Place: at, At: time.UnixMilli(1), ExplicitTimestamps: 1}, noBlock); err != nil {
			t.Fatal(err)
		}
	}
	return j, at
}

// TestHistoryFileSurvivesACut: a record that a crash has cut off is as if it had not been.
func TestHistoryFileSurvivesACut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.dat")
	j, err := openFileJournal(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	read := func() (out []string) {
		if err := j.Replay(t.Context(), func(e []byte) error { out = append(out, string(e)); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := read(); got != nil {
		t.Errorf("a file that is not there holds %v", got)
	}
	if err := j.Append(t.Context(), []byte("{\n  \"a\" : 1\n}"), []byte(`{"b":2}`)); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	if err := os.WriteFile(path, data[:len(data)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(); !slices.Equal(got, []string{`{   "a" : 1 }`}) {
		t.Errorf("it holds %q", got)
	}
	if err := j.Append(t.Context(), []byte(`{"c":3}`)); err != nil {
		t.Fatal(err)
	}
	if got := read(); !slices.Equal(got, []string{`{   "a" : 1 }`, `{"c":3}`}) {
		t.Errorf("it holds %q", got)
	}
}

// TestHistoryFailures: what is said when the history cannot be used.
func TestHistoryFailures(t *testing.T) {
	begin := func(h *schemas) {
		t.Helper()
		init := InitialSchema{Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Place: Place{File: "binlog.000001", Pos: 100, Snapshot: true},
			Databases: []InitialDatabase{{Name: "db", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Tables: []InitialTable{{"t", "CREATE TABLE `t` (\n  `id` int NOT NULL\n)"}, {"other", "CREATE TABLE `other` (\n  `id` int NOT NULL\n)"}}}}}
		if err := h.Begin(t.Context(), init, noBlock, nil); err != nil {
			t.Fatal(err)
		}
	}
	place := Place{File: "binlog.000001", Pos: 300}
	apply := func(h *schemas, sql string) (Applied, error) {
		return h.Apply(t.Context(), Statement{Database: "db", SQL: sql, Place: place, At: time.UnixMilli(1)}, noBlock)
	}
	fails := func(err error, reason *connectors.Reason, words ...string) {
		t.Helper()
		f := connectors.FailureOf(err)
		if f == nil || f.Reason != reason {
			t.Fatalf("it said %v, want the reason %s", err, reason.Code)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in %q", w, err)
			}
		}
	}
	const odd = "ALTER TABLE t ADD COLUMN x HYPERINT(5) FUTURE"

	h := historyOf(t, &memoryJournal{})
	fails(h.Recover(t.Context(), place), reasonHistory, `topic "h"`, "binlog.000001:300", "snapshot.mode=recovery")

	h = historyOf(t, &memoryJournal{entries: [][]byte{[]byte(`{"half`)}})
	fails(h.Recover(t.Context(), place), reasonHistory, "record 1")

	h = historyOf(t, &memoryJournal{})
	begin(h)
	_, err := apply(h, odd)
	fails(err, reasonDDL, "binlog.000001:300", "HYPERINT", "ddl.filter")
	if c := h.Table(TableID{"db", "t"}).Column("x"); c != nil {
		t.Error("a statement that failed left a column")
	}

	h = historyOf(t, &memoryJournal{})
	begin(h)
	_, err = apply(h, "ALTER TABLE t DROP COLUMN nope")
	fails(err, reasonDDL, "has no column nope")

	// The server has logged nothing since: its own definition is taken, and written down.
	j := &memoryJournal{}
	h = historyOf(t, j)
	begin(h)
	h.reread = func(_ context.Context, ids []TableID) ([]string, Place, error) {
		return []string{"CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `x` bigint DEFAULT NULL\n)"}, place, nil
	}
	a, err := apply(h, odd)
	if err != nil || h.Table(TableID{"db", "t"}).Column("x") == nil || len(a.Changes) != 1 {
		t.Errorf("changes %v, error %v, table %s", a.Changes, err, definitionOf(h.Table(TableID{"db", "t"})))
	}
	again := historyOf(t, j)
	if err := again.Recover(t.Context(), place); err != nil || again.Table(TableID{"db", "t"}).Column("x") == nil {
		t.Errorf("recovered: %v, table %s", err, definitionOf(again.Table(TableID{"db", "t"})))
	}

	// It has logged more: the table may have changed once more.
	h = historyOf(t, &memoryJournal{})
	begin(h)
	h.reread = func(context.Context, []TableID) ([]string, Place, error) {
		later := place
		later.Pos++
		return []string{"CREATE TABLE `t` (`x` int)"}, later, nil
	}
	_, err = apply(h, odd)
	fails(err, reasonDDL)

	// Where asked to, the statement is passed over.
	h = historyOf(t, &memoryJournal{}, "schema.history.internal.skip.unparseable.ddl", "true")
	begin(h)
	if _, err := apply(h, odd); err != nil {
		t.Error(err)
	}

	// What is not captured stops nothing, and is forgotten.
	h = historyOf(t, &memoryJournal{}, "table.include.list", "db.t")
	begin(h)
	if _, err := apply(h, strings.Replace(odd, " t ", " other ", 1)); err != nil || h.Table(TableID{"db", "other"}) != nil {
		t.Errorf("error %v, table %s", err, definitionOf(h.Table(TableID{"db", "other"})))
	}
	_, err = apply(h, "RENAME TABLE t TO t_old, other TO t")
	fails(err, reasonDDL, "db.other")

	// A journal that does not take a record.
	h = historyOf(t, &memoryJournal{})
	begin(h)
	h.journal = &memoryJournal{fail: errors.New("no space")}
	if _, err := apply(h, "ALTER TABLE t ADD y int"); err == nil || !strings.Contains(err.Error(), "no space") || !strings.Contains(err.Error(), `topic "h"`) {
		t.Errorf("it said %v", err)
	}

	// A statement that its own record cannot be read from, and the definitions beside it.
	j = &memoryJournal{}
	h = historyOf(t, j)
	begin(h)
	e := historyEntry{server: "p", place: place, database: "db", ddl: odd, changes: []TableChange{{Kind: "ALTER", ID: TableID{"db", "t"}, Table: h.Table(TableID{"db", "other"})}}}
	e.changes[0].Table = newCatalogOf(t, "CREATE TABLE t (id int unsigned zerofill, e enum('a','b'), s varchar(7) NOT NULL DEFAULT 'q', d decimal(7,3))").tables[TableID{"db", "t"}]
	j.entries = append(j.entries, e.print())
	h = historyOf(t, j)
	if err := h.Recover(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	want := "db.t utf8mb4_0900_ai_ci\n  id int(10) unsigned zerofill default null\n  e enum('a','b') utf8mb4_0900_ai_ci default null\n  s varchar(7) utf8mb4_0900_ai_ci not null default \"q\"\n  d decimal(7,3) default null"
	if got := definitionOf(h.Table(TableID{"db", "t"})); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func newCatalogOf(t testing.TB, sql ...string) *catalog {
	c := newCatalog(dialect{version: 90704})
	c.run(t, sql...)
	return c
}

// TestHistoryKeepsWhatIsAskedFor: the settings that leave statements out.
func TestHistoryKeepsWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string
		want  []string
	}{
		{"all, by default", nil, []string{"CREATE DATABASE x", "CREATE TABLE db.a (i int)", "CREATE TABLE db.b (i int)", "CREATE TABLE x.c (i int)", "ALTER TABLE db.b ADD j int", "RENAME TABLE db.b TO db.a2"}},
		{"captured databases", []string{"schema.history.internal.store.only.captured.databases.ddl", "true"}, []string{"CREATE TABLE db.a (i int)", "CREATE TABLE db.b (i int)", "ALTER TABLE db.b ADD j int", "RENAME TABLE db.b TO db.a2"}},
		{"captured tables", []string{"schema.history.internal.store.only.captured.tables.ddl", "true"}, []string{"CREATE TABLE db.a (i int)"}},
		{"a filter", []string{"schema.history.internal.ddl.filter", "ALTER TABLE db\\.b .*,CREATE DATABASE.*"}, []string{"CREATE TABLE db.a (i int)", "CREATE TABLE db.b (i int)", "CREATE TABLE x.c (i int)", "RENAME TABLE db.b TO db.a2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &memoryJournal{}
			h := historyOf(t, j, append([]string{"database.include.list", "db", "table.include.list", "db.a"}, c.pairs...)...)
			for i, sql := range []string{"CREATE DATABASE x", "CREATE TABLE db.a (i int)", "CREATE TABLE db.b (i int)", "CREATE TABLE x.c (i int)", "ALTER TABLE db.b ADD j int", "RENAME TABLE db.b TO db.a2", "TRUNCATE db.a",
				"CREATE USER u IDENTIFIED BY 'secret'", "GRANT ALL ON *.* TO u", "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,2) ON DUPLICATE KEY UPDATE value = 2", "FLUSH RELAY LOGS", "# Dummy event replacing event type 160", "CREATE TEMPORARY TABLE db.tmp (a int)"} {
				if _, err := h.Apply(t.Context(), Statement{SQL: sql, Place: Place{File: "b.1", Pos: int64(i + 1)}, At: time.UnixMilli(1)}, noBlock); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			var got []string
			for _, e := range j.entries {
				rec, err := parseHistory(e)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, *rec.DDL)
				if bytes.Contains(e, []byte("secret")) {
					t.Error("a user's password is in the history")
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the history has\n%q, want\n%q", got, c.want)
			}
		})
	}
}
