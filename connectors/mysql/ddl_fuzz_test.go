package mysql

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// FuzzDDL: no text makes the reader panic or run on, whatever the dialect; what is read is
// applied to tables, and to the history and back, without a panic either.
func FuzzDDL(f *testing.F) {
	m := &ddlMaker{r: rand.New(rand.NewPCG(1, 2)), db: [2]string{"db", "db2"}}
	for range 60 {
		f.Add(m.statement(), byte(m.r.IntN(256)))
	}
	for _, s := range []string{"", ";", "/*!", "/*!50100", "CREATE TABLE", "CREATE TABLE t (", "CREATE TABLE t (a", "CREATE TABLE t (a ENUM(", "ALTER TABLE t ADD", "'", "`", "\"", "--", "#", "CREATE TABLE t (a int DEFAULT",
		"RENAME TABLE a TO", "SET STATEMENT x FOR SET STATEMENT y FOR", "CREATE TABLE t (a DECIMAL(99999999999999999999,1))", "ALTER TABLE t PARTITION BY", "CREATE TABLE t (a bit(1) DEFAULT b'' , b char DEFAULT x'', c int DEFAULT 0x)",
		"CREATE TABLE t AS SELECT", "ALTER DATABASE", "/* */ /*! /*! */", "CREATE TABLE t (a int /*!50100 COMMENT 'x' ) /*!50100 ENGINE=x */"} {
		f.Add(s, byte(0))
	}
	f.Fuzz(func(t *testing.T, sql string, flags byte) {
		if len(sql) > 1<<16 {
			return
		}
		d := dialect{mariadb: flags&1 != 0, ansiQuotes: flags&2 != 0, noBackslash: flags&4 != 0, lowerCase: flags&8 != 0, oracle: flags&16 != 0, implicitStamps: flags&32 != 0, anyVersion: flags&64 != 0, version: 90704}
		began := time.Now()
		c := newCatalog(d)
		for _, s := range append(parseDDL("CREATE TABLE db.t (c0 int PRIMARY KEY, c1 varchar(9) UNIQUE, a text)", "db", d), parseDDL(sql, "db", d)...) {
			if s.err != nil {
				continue
			}
			changes, _, err := c.apply(s.statement, d)
			if err != nil {
				continue
			}
			for i := range changes {
				e := historyEntry{server: "p", ddl: s.text, changes: []TableChange{changes[i].TableChange}}
				if strings.ToValidUTF8(sql, "") != sql {
					continue
				}
				rec, err := parseHistory(e.print())
				if err != nil {
					t.Fatalf("the history's own record cannot be read: %v\n%s", err, e.print())
				}
				if list, err := rec.changes(); err != nil || len(list) != 1 {
					t.Fatalf("the record's tables cannot be read: %v\n%s", err, e.print())
				} else {
					_ = newCatalog(d).take(list, d)
				}
			}
		}
		for _, table := range c.tables {
			st := table.state()
			if back := st.table(); !back.equal(table) {
				t.Fatalf("a table's state is not the table:\n%+v\n%+v", back, table)
			}
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%d bytes took %v", len(sql), took)
		}
	})
}

// FuzzHistoryRecord: no record of a foreign history makes the reader panic.
func FuzzHistoryRecord(f *testing.F) {
	f.Add([]byte(`{"source":{"server":"p"},"position":{"file":"b.1","pos":4},"databaseName":"db","ddl":"CREATE TABLE t (a int)","tableChanges":[{"type":"CREATE","id":"\"db\".\"t\"","table":{"columns":[{"name":"a","typeName":"INT","length":5,"enumValues":["'x'"]}],"primaryKeyColumnNames":["a"]}}]}`))
	f.Add([]byte(`{"millrace":{"snapshot":{"id":1,"part":0,"of":1,"tables":[{"id":{"Database":"db","Name":"t"},"columns":[{"Name":"a"}],"UniqueKeys":[{"Name":"k","Columns":["a","b"]}]}]}},"source":{"server":"p"},"position":{"file":"b.1","pos":4}}`))
	f.Add([]byte(`{"source":{"server":"p"},"position":{"snapshot":true},"ddl":"SET x"}`))
	f.Fuzz(func(t *testing.T, entry []byte) {
		h := historyOf(t, &memoryJournal{entries: [][]byte{entry, entry}})
		_ = h.Recover(t.Context(), Place{File: "b.1", Pos: 10})
	})
}
