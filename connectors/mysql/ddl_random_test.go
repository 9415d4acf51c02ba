package mysql

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A ddlMaker makes statements by chance. Many are wrong for the tables as they are: the
// server refuses those, and logs none of them.
type ddlMaker struct {
	r       *rand.Rand
	mariadb bool
	db      [2]string
}

func (m *ddlMaker) pick(s ...string) string { return s[m.r.IntN(len(s))] }

// maybe is the text in one of n cases.
func (m *ddlMaker) maybe(n int, text string) string {
	if m.r.IntN(n) == 0 {
		return text
	}
	return ""
}

func (m *ddlMaker) column() string {
	name := fmt.Sprintf("c%d", m.r.IntN(9))
	switch m.r.IntN(12) {
	case 0:
		return "`" + name + "`"
	case 1:
		return strings.ToUpper(name)
	case 2:
		return m.pick("`weird ``name`", "`Größe`", "`select`", "period", "`1st`", "data", "`comment`", "vector_", "`unique`")
	}
	return name
}

func (m *ddlMaker) table() string {
	name := fmt.Sprintf("t%d", m.r.IntN(4))
	switch m.r.IntN(8) {
	case 0:
		return "`" + name + "`"
	case 1:
		return m.db[0] + "." + name
	case 2:
		return "`" + m.db[m.r.IntN(2)] + "` . `" + name + "`"
	case 3:
		return "`Odd - name`"
	}
	return name
}

func (m *ddlMaker) charset() string {
	// Without the wide ones: servers garble the members of ENUM and SET that are converted from or to them.
	sets := []string{"utf8mb4", "utf8mb3", "latin1", "ascii", "gbk", "cp1251", "binary", "utf8"}
	set := m.pick(sets...)
	clause := m.pick(" CHARACTER SET ", " CHARSET ", " character set ") + set
	if m.r.IntN(4) == 0 && set != "utf8" && set != "binary" {
		clause += " COLLATE " + set + "_bin"
	}
	return clause
}

func (m *ddlMaker) collate() string {
	return " COLLATE " + m.pick("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "latin1_german1_ci", "latin1_bin", "utf8mb3_bin", "ascii_bin", "binary")
}

// dataType is a type with attributes of its own, and a default that fits it.
func (m *ddlMaker) dataType() (typ, def string) {
	n := func(most int) int { return 1 + m.r.IntN(most) }
	sign := func() string { return m.pick("", "", " UNSIGNED", " ZEROFILL", " unsigned zerofill", " SIGNED") }
	text := func() string {
		switch m.r.IntN(6) {
		case 0:
			return m.charset()
		case 1:
			return m.collate()
		case 2:
			return m.pick(" BINARY", " ASCII", "")
		}
		return ""
	}
	types := []func() (string, string){
		func() (string, string) {
			w := m.pick("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "INT1", "INT2", "INT3", "INT4", "INT8", "MIDDLEINT")
			return w + m.pick("", "", fmt.Sprintf("(%d)", n(9))) + sign(), m.pick("7", "'7'", "0")
		},
		func() (string, string) { return m.pick("BOOL", "BOOLEAN", "TINYINT(1)"), m.pick("TRUE", "false", "1") },
		func() (string, string) {
			return m.pick("DECIMAL", "NUMERIC", "DEC", "FIXED") + m.pick("", fmt.Sprintf("(%d)", 2+m.r.IntN(60)), fmt.Sprintf("(%d,%d)", 10+m.r.IntN(50), m.r.IntN(9))) + sign(), "7"
		},
		func() (string, string) {
			return m.pick("FLOAT", "FLOAT4", "FLOAT(20)", "FLOAT(30)", "FLOAT(7,3)", "DOUBLE", "DOUBLE PRECISION", "REAL", "FLOAT8", "DOUBLE(10,2)", "REAL(8,1)") + sign(), "7"
		},
		func() (string, string) { return m.pick("BIT", fmt.Sprintf("BIT(%d)", n(64))), "b'1'" },
		func() (string, string) { return "DATE", "'2020-01-02'" },
		func() (string, string) { return "YEAR", "2020" },
		func() (string, string) {
			p := m.r.IntN(7)
			return m.pick("TIME", "DATETIME", fmt.Sprintf("TIME(%d)", p), fmt.Sprintf("DATETIME(%d)", p)), ""
		},
		func() (string, string) {
			return m.pick("TIMESTAMP NULL", "TIMESTAMP(3) NULL", "TIMESTAMP", "TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)", "DATETIME DEFAULT NOW() ON UPDATE NOW()", "TIMESTAMP DEFAULT current_timestamp"), ""
		},
		func() (string, string) {
			return m.pick("CHAR", "CHARACTER", fmt.Sprintf("CHAR(%d)", n(80)), "CHAR(5)") + text(), m.pick("'a'", `'\''`, `''''`, `"b"`)
		},
		func() (string, string) {
			return m.pick(fmt.Sprintf("VARCHAR(%d)", n(3000)), "VARCHAR(7) CHARSET utf16le", "CHAR(3) CHARACTER SET ucs2", "CHARACTER VARYING(9)", "CHAR VARYING(9)", "VARCHARACTER(3)", "varchar ( 20 )", "VARCHAR(255)") + text(), m.pick("'x''y'", "''", `'a\nb\\'`, `"it""s"`)
		},
		func() (string, string) {
			return m.pick("NCHAR(5)", "NATIONAL CHAR(7)", "NVARCHAR(8)", "NATIONAL VARCHAR(5)", "NCHAR VARCHAR(4)", "NATIONAL CHARACTER VARYING(4)", "NCHAR VARYING(3)", "NATIONAL CHARACTER(2)"), "'n'"
		},
		func() (string, string) {
			return m.pick("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "TEXT(60)", "TEXT(300)", "TEXT(30000)", "TEXT(70000)", "LONG", "LONG VARCHAR") + text(), ""
		},
		func() (string, string) { return m.pick("BINARY", "BINARY(4)", "VARBINARY(10)", "CHAR(3) BYTE"), "'b'" },
		func() (string, string) {
			return m.pick("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BLOB(200)", "BLOB(66000)", "LONG VARBINARY"), ""
		},
		func() (string, string) {
			return m.pick("ENUM('a','b,c','d''e')", "enum('x')", `ENUM("q", 'w' , 'z')`, "ENUM('trail  ','b')") + text(), ""
		},
		func() (string, string) { return m.pick("SET('x','y','z')", "set ( 'a' )") + text(), "" },
		func() (string, string) {
			return m.pick("POINT", "GEOMETRY", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"), ""
		},
		func() (string, string) { return "JSON", "" },
	}
	if m.mariadb {
		types = append(types, func() (string, string) { return m.pick("UUID", "INET6", "INET4"), "" })
	} else {
		types = append(types, func() (string, string) {
			return m.pick("VECTOR(3)", "VECTOR", "POINT NOT NULL SRID 4326", "GEOMCOLLECTION"), ""
		})
	}
	return types[m.r.IntN(len(types))]()
}

// definition is a column's definition behind its name.
func (m *ddlMaker) definition(key bool) string {
	typ, def := m.dataType()
	var parts []string
	if m.r.IntN(12) == 0 {
		expr := m.pick("1 + 2", "'a'", "concat('a,(', ')')")
		gen := typ + m.pick(" AS (", " GENERATED ALWAYS AS (") + expr + ")" + m.pick("", " VIRTUAL", " STORED", " PERSISTENT")
		return gen + m.maybe(4, " COMMENT 'gen'")
	}
	if !strings.Contains(typ, "NULL") {
		if s := m.pick("", "", "NOT NULL", "NULL"); s != "" {
			parts = append(parts, s)
		}
	}
	if def != "" && m.r.IntN(3) == 0 && !strings.Contains(strings.ToUpper(typ), "DEFAULT") {
		parts = append(parts, "DEFAULT "+def)
	} else if m.r.IntN(15) == 0 {
		parts = append(parts, m.pick("DEFAULT NULL", "DEFAULT (1 + 2)", "DEFAULT (uuid())"))
	}
	if key && m.r.IntN(10) == 0 {
		parts = append(parts, m.pick("PRIMARY KEY", "KEY", "UNIQUE", "UNIQUE KEY", "AUTO_INCREMENT UNIQUE", "AUTO_INCREMENT PRIMARY KEY"))
	}
	if m.r.IntN(8) == 0 {
		parts = append(parts, m.pick("COMMENT 'it''s; a (comment'", `COMMENT "two" 'parts'`, "COMMENT 'ümlaut /* no comment */'"))
	}
	if m.r.IntN(12) == 0 {
		parts = append(parts, m.pick("INVISIBLE", "/*!80023 INVISIBLE */", "CHECK (1 = 1)", "COLUMN_FORMAT DYNAMIC", "STORAGE DISK", "/*!50633 COLUMN_FORMAT FIXED */"))
	}
	m.r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	sep := m.pick(" ", "  ", "\n\t", " /* c */ ")
	return typ + " " + strings.Join(parts, sep)
}

func (m *ddlMaker) keyColumns() string {
	var out []string
	for range 1 + m.r.IntN(2) {
		out = append(out, m.column()+m.maybe(4, "(2)")+m.maybe(6, " DESC"))
	}
	return "(" + strings.Join(out, ", ") + ")"
}

func (m *ddlMaker) key() string {
	return m.pick("PRIMARY KEY ", "UNIQUE ", "UNIQUE KEY ", "UNIQUE INDEX u1 ", "KEY ", "INDEX k1 USING BTREE ", "CONSTRAINT u2 UNIQUE ", "CONSTRAINT PRIMARY KEY ", "UNIQUE u3 ") +
		m.keyColumns() + m.maybe(6, " COMMENT 'key, with a comma'") + m.maybe(9, " USING BTREE")
}

func (m *ddlMaker) options() string {
	var out []string
	for range m.r.IntN(3) {
		out = append(out, m.pick("ENGINE=InnoDB", "engine InnoDB", "AUTO_INCREMENT=5", "COMMENT='table; comment'", "ROW_FORMAT=DYNAMIC", "STATS_PERSISTENT=DEFAULT", "KEY_BLOCK_SIZE 0", "DEFAULT"+m.charset(), m.charset(), m.collate(), "DEFAULT"+m.collate()))
	}
	return strings.Join(out, m.pick(" ", ", ", " "))
}

func (m *ddlMaker) create() string {
	var defs []string
	for range 1 + m.r.IntN(6) {
		defs = append(defs, m.column()+" "+m.definition(true))
	}
	for range m.r.IntN(3) {
		defs = append(defs, m.key())
	}
	m.r.Shuffle(len(defs), func(i, j int) { defs[i], defs[j] = defs[j], defs[i] })
	head := "CREATE TABLE "
	if m.mariadb {
		head = m.pick("CREATE TABLE ", "CREATE OR REPLACE TABLE ")
	}
	s := head + m.maybe(5, "IF NOT EXISTS ") + m.table() + " (" + strings.Join(defs, m.pick(", ", ",\n  ")) + ") " + m.options()
	if m.r.IntN(10) == 0 {
		s += m.pick(" PARTITION BY HASH (1) PARTITIONS 2", " /*!50100 PARTITION BY KEY () PARTITIONS 3 */", " PARTITION BY RANGE (c0) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)")
	}
	if m.mariadb && m.r.IntN(12) == 0 {
		s += " WITH SYSTEM VERSIONING"
	}
	return s
}

func (m *ddlMaker) place() string { return m.pick("", "", " FIRST", " AFTER "+m.column()) }

// clause is a clause of ALTER TABLE; alone: the only one.
func (m *ddlMaker) clause(alone bool) string {
	exists := func(s string) string {
		if m.mariadb && alone {
			return m.maybe(4, s)
		}
		return ""
	}
	switch m.r.IntN(26) {
	case 0, 1, 2, 3, 4:
		return "ADD " + m.maybe(2, "COLUMN ") + exists("IF NOT EXISTS ") + m.column() + " " + m.definition(true) + m.place()
	case 5:
		return "ADD (" + m.column() + " " + m.definition(false) + ", " + m.column() + " " + m.definition(false) + ")"
	case 6, 7, 8:
		return "DROP " + m.maybe(2, "COLUMN ") + exists("IF EXISTS ") + m.column()
	case 9, 10, 11:
		return "CHANGE " + m.maybe(2, "COLUMN ") + m.column() + " " + m.column() + " " + m.definition(true) + m.place()
	case 12, 13, 14:
		return "MODIFY " + m.maybe(2, "COLUMN ") + m.column() + " " + m.definition(true) + m.place()
	case 15, 16:
		return "RENAME COLUMN " + m.column() + " TO " + m.column()
	case 17:
		return m.pick("RENAME TO ", "RENAME AS ", "RENAME ") + m.table()
	case 18:
		return "ALTER " + m.maybe(2, "COLUMN ") + m.column() + m.pick(" SET DEFAULT 5", " SET DEFAULT 'x'", " DROP DEFAULT", " SET DEFAULT (1+2)")
	case 19:
		return m.pick("DROP PRIMARY KEY", "DROP INDEX u1", "DROP KEY u2", "DROP CONSTRAINT u3", "DROP INDEX "+m.column())
	case 20:
		return "ADD " + m.key()
	case 21:
		return "CONVERT TO" + strings.Replace(strings.Replace(m.charset(), "binary", "greek", 1), "utf8 ", "utf8mb4 ", 1)
	case 22:
		return m.pick("DEFAULT", "") + m.charset()
	case 23:
		return m.pick("COMMENT = 'new'", "ENGINE=InnoDB", "ALGORITHM=COPY", "LOCK=SHARED", "FORCE", "ROW_FORMAT=DYNAMIC", "ORDER BY "+m.column(), "REMOVE PARTITIONING", "DISABLE KEYS")
	case 24:
		if m.mariadb {
			return m.pick("ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING", "RENAME INDEX u1 TO u4")
		}
		return m.pick("ALTER "+m.column()+" SET INVISIBLE", "ALTER COLUMN "+m.column()+" SET VISIBLE", "ALTER INDEX u1 INVISIBLE", "RENAME KEY u1 TO u4")
	}
	return "DROP PRIMARY KEY, ADD PRIMARY KEY " + m.keyColumns()
}

func (m *ddlMaker) statement() string {
	switch m.r.IntN(24) {
	case 0, 1, 2, 3:
		return m.create()
	case 4:
		return "CREATE TABLE " + m.table() + m.pick(" LIKE "+m.table(), " (LIKE "+m.table()+")")
	case 5:
		return "CREATE TABLE " + m.table() + m.pick("", " (x INT)", " (c1 VARCHAR(9), UNIQUE (c1))") + m.pick(" AS SELECT * FROM ", " SELECT * FROM ") + m.table()
	case 6:
		return "DROP TABLE " + m.maybe(2, "IF EXISTS ") + m.table() + m.maybe(3, ", "+m.table()) + m.maybe(5, " CASCADE")
	case 7:
		return "RENAME TABLE " + m.table() + " TO " + m.table() + m.maybe(2, ", "+m.table()+" TO "+m.table())
	case 8:
		return m.pick("CREATE UNIQUE INDEX u1 ON ", "CREATE INDEX k1 ON ", "CREATE UNIQUE INDEX u5 USING BTREE ON ") + m.table() + " " + m.keyColumns()
	case 9:
		return m.pick("DROP INDEX u1 ON ", "DROP INDEX u5 ON ", "DROP INDEX `PRIMARY` ON ") + m.table()
	case 10:
		return "ALTER DATABASE " + m.db[m.r.IntN(2)] + m.charset()
	case 11:
		return "TRUNCATE " + m.maybe(2, "TABLE ") + m.table()
	case 12:
		return m.pick("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "DROP VIEW IF EXISTS v", "ANALYZE TABLE t0", "CREATE TEMPORARY TABLE tmp (a INT)", "DROP TEMPORARY TABLE IF EXISTS tmp")
	}
	var clauses []string
	n := 1 + m.r.IntN(3)
	for range n {
		clauses = append(clauses, m.clause(n == 1))
	}
	return m.pick("ALTER TABLE ", "ALTER TABLE ", "ALTER /* gh-ost */ TABLE ", "alter table ") + m.table() + " " + strings.Join(clauses, m.pick(", ", ",", " ,\n"))
}
