package mysql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// A tracker follows the statements that a real server logs, and compares the tables that
// come out of them with the server's own.
type tracker struct {
	t       testing.TB
	c       *client.Conn
	cat     *catalog
	file    string
	at      string
	db      []string
	mode    uint64
	history []string
}

func newTracker(t testing.TB, server *peers.MySQLServer, db ...string) *tracker {
	tr := &tracker{t: t, c: server.Connect(t, db[0]), db: db}
	tr.cat = newCatalog(dialect{mariadb: server.MariaDB, version: versionOf(tr.text("SELECT VERSION()"))})
	row := tr.rows("SELECT @@character_set_server, @@collation_server")[0]
	tr.cat.charset, tr.cat.collation = charsetName(row[0]), collationName(row[1])
	for _, d := range db {
		row := tr.rows("SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '" + d + "'")[0]
		tr.cat.databases[d] = databaseDef{charsetName(row[0]), collationName(row[1])}
	}
	tr.status()
	return tr
}

// versionOf is 90704 of "9.7.4-…".
func versionOf(s string) int {
	n := 0
	for i, p := range strings.SplitN(s, ".", 3) {
		p, _, _ = strings.Cut(p, "-")
		v, _ := strconv.Atoi(p)
		n = n*100 + v
		if i == 2 {
			break
		}
	}
	return n
}

func (tr *tracker) rows(sql string) [][]string {
	tr.t.Helper()
	r, err := tr.c.Execute(sql)
	if err != nil {
		tr.t.Fatalf("%s: %v", sql, err)
	}
	out := make([][]string, r.RowNumber())
	for i := range out {
		for j := range r.ColumnNumber() {
			s, err := r.GetString(i, j)
			if err != nil {
				tr.t.Fatal(err)
			}
			if null, _ := r.IsNull(i, j); null {
				s = "\x00"
			}
			out[i] = append(out[i], s)
		}
	}
	return out
}

func (tr *tracker) text(sql string) string { return tr.rows(sql)[0][0] }

func (tr *tracker) status() {
	sql := "SHOW BINARY LOG STATUS"
	if tr.cat.d.mariadb {
		sql = "SHOW MASTER STATUS"
	}
	row := tr.rows(sql)[0]
	tr.file, tr.at = row[0], row[1]
}

// exec runs a statement and applies what the server has logged for it. It reports whether
// the server took it.
func (tr *tracker) exec(sql string) bool {
	tr.t.Helper()
	_, err := tr.c.Execute(sql)
	from, file := tr.at, tr.file
	tr.status()
	events := tr.rows(fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %s", file, from))
	if tr.file != file { // the log has gone on in a new file
		events = append(events, tr.rows(fmt.Sprintf("SHOW BINLOG EVENTS IN '%s'", tr.file))...)
	}
	for _, row := range events {
		if row[0] == tr.file && atoi(row[1]) >= atoi(tr.at) {
			break
		}
		if row[2] != "Query" {
			continue
		}
		info, database := row[5], tr.db[0]
		if rest, ok := strings.CutPrefix(info, "use `"); ok {
			database, info, _ = strings.Cut(rest, "`; ")
		}
		if !slices.Contains(tr.db, database) && !strings.Contains(info, tr.db[0]) {
			continue // another test's
		}
		tr.history = append(tr.history, info)
		d := tr.cat.d.withMode(tr.mode)
		for _, one := range parseDDL(info, database, d) {
			if one.err != nil {
				tr.fail("cannot read: %v", one.err)
			}
			if err != nil {
				one.statement = failed(one.statement)
			}
			was := ""
			if a, ok := one.statement.(alterTable); ok {
				was = definitionOf(tr.cat.tables[a.id])
			}
			if _, _, err := tr.cat.apply(one.statement, d); err != nil {
				tr.fail("cannot apply: %v\n%s", err, was)
			}
		}
	}
	return err == nil
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func (tr *tracker) fail(format string, args ...any) {
	tr.t.Helper()
	last := tr.history[max(0, len(tr.history)-12):]
	tr.t.Fatalf(format+"\nthe last statements:\n%s", append(args, strings.Join(last, ";\n"))...)
}

// compare compares all tables.
func (tr *tracker) compare() {
	tr.t.Helper()
	if d := tr.diff(); d != "" {
		tr.fail("%s", d)
	}
}

// diff is how our tables differ from the server's, or "".
func (tr *tracker) diff() string {
	tr.t.Helper()
	in := "'" + strings.Join(tr.db, "','") + "'"
	want := map[TableID]string{}
	srid := "SRS_ID"
	if tr.cat.d.mariadb {
		srid = "NULL"
	}
	for _, r := range tr.rows("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND TABLE_SCHEMA IN (" + in + ")") {
		want[TableID{r[0], r[1]}] = fmt.Sprintf("%s.%s %s", r[0], r[1], collationName(r[2]))
	}
	for _, r := range tr.rows("SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT, " + srid + " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN (" + in + ") ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION") {
		id := TableID{r[0], r[1]}
		if _, base := want[id]; !base {
			continue
		}
		extra := strings.ToUpper(r[8])
		line := "\n  " + r[2] + " " + r[3]
		if r[4] != "\x00" && r[4] != "binary" {
			line += " " + charsetName(r[4]) + " " + collationName(r[5])
		}
		if r[6] == "NO" {
			line += " not null"
		}
		if def := r[7]; def != "\x00" && !(tr.cat.d.mariadb && def == "NULL") || strings.Contains(extra, "DEFAULT_GENERATED") {
			line += " default"
		}
		for _, f := range []struct{ in, out string }{{"AUTO_INCREMENT", "auto"}, {"STORED GENERATED", "stored"}, {"VIRTUAL GENERATED", "virtual"}, {"INVISIBLE", "invisible"}} {
			if strings.Contains(extra, f.in) {
				line += " " + f.out
			}
		}
		if r[9] != "" {
			line += fmt.Sprintf(" %q", r[9])
		}
		if r[10] != "\x00" {
			line += " srid " + r[10]
		}
		want[id] += line
	}
	keys := map[TableID][]string{}
	for _, r := range tr.rows("SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, GROUP_CONCAT(COALESCE(COLUMN_NAME, '') ORDER BY SEQ_IN_INDEX), MAX(SUB_PART IS NOT NULL AND DATA_TYPE NOT IN ('geometry', 'point', 'linestring', 'polygon', 'multipoint', 'multilinestring', 'multipolygon', 'geometrycollection', 'geomcollection')) FROM information_schema.STATISTICS LEFT JOIN information_schema.COLUMNS USING (TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME) WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA IN (" + in + ") GROUP BY 1, 2, 3 ORDER BY 1, 2, 3") {
		line := fmt.Sprintf("\n  key %s %s", strings.ToLower(r[2]), r[3])
		if r[4] == "1" && r[2] != "PRIMARY" {
			line += " prefix"
		}
		id := TableID{r[0], r[1]}
		keys[id] = append(keys[id], line)
	}
	for id, k := range keys {
		slices.Sort(k)
		want[id] += strings.Join(k, "")
	}
	for id, t := range tr.cat.tables {
		if _, ok := want[id]; !ok && slices.Contains(tr.db, id.Database) {
			return fmt.Sprintf("%s is known and not on the server", t.ID)
		}
	}
	for id, w := range want {
		if got := tr.ours(tr.cat.tables[id]); got != w {
			return fmt.Sprintf("%s\n got %s\nwant %s\n", id, got, w)
		}
	}
	return ""
}

// ours is a table as compare has the server's.
func (tr *tracker) ours(t *Table) string {
	if t == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s.%s %s", t.ID.Database, t.ID.Name, t.Collation)
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.typed.implicit {
			continue // the server's lists leave them out
		}
		b.WriteString("\n  " + c.Name + " " + c.Full)
		if c.Charset != "" && c.Charset != "binary" {
			b.WriteString(" " + c.Charset + " " + c.Collation)
		}
		if !c.Nullable {
			b.WriteString(" not null")
		}
		if c.HasDefault && !c.DefaultNull {
			b.WriteString(" default")
		}
		if c.AutoIncrement {
			b.WriteString(" auto")
		}
		switch {
		case c.Generated && c.Stored:
			b.WriteString(" stored")
		case c.Generated:
			b.WriteString(" virtual")
		}
		if c.Invisible {
			b.WriteString(" invisible")
		}
		if c.Comment != "" {
			fmt.Fprintf(&b, " %q", c.Comment)
		}
		if c.SRID != NoLength {
			fmt.Fprintf(&b, " srid %d", c.SRID)
		}
	}
	var keys []string
	if len(t.PrimaryKey) > 0 {
		keys = append(keys, "\n  key primary "+strings.Join(t.PrimaryKey, ","))
	}
	for _, k := range t.UniqueKeys {
		line := fmt.Sprintf("\n  key %s %s", strings.ToLower(k.Name), strings.Join(k.Columns, ","))
		if k.Prefix {
			line += " prefix"
		}
		keys = append(keys, line)
	}
	slices.Sort(keys)
	return b.String() + strings.Join(keys, "")
}

// TestRandomDDLIsFollowed runs statements by chance on real servers and compares the
// definitions that we have with the server's after each one that it took.
func TestRandomDDLIsFollowed(t *testing.T) {
	for _, kind := range []struct {
		name   string
		server func(testing.TB) *peers.MySQLServer
	}{{"MySQL", peers.MySQL}, {"MariaDB", peers.MariaDB}} {
		t.Run(kind.name, func(t *testing.T) {
			server := kind.server(t)
			seed := trial.Seed(t)
			db := []string{server.NewDatabase(t), server.NewDatabase(t)}
			tr := newTracker(t, server, db...)
			m := &ddlMaker{r: rand.New(rand.NewPCG(seed, 1)), mariadb: server.MariaDB, db: [2]string{db[0], db[1]}}
			took := 0
			for range trial.Effort(500) {
				sql := m.statement()
				if tr.exec(sql) {
					took++
					tr.compare()
				} else if server.MariaDB && trial.Soak() && tr.diff() != "" {
					// It does so now and then; a replica of its own would not follow either.
					t.Logf("the server refused %q, logged nothing that says so, and changed a table all the same: %s", sql, tr.diff())
					break
				}
			}
			t.Logf("%d statements were taken", took)
		})
	}
}
