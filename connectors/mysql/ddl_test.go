package mysql

import (
	"fmt"
	"strings"
	"testing"
)

// run applies statements to a catalog with the default database db.
func (c *catalog) run(t testing.TB, sql ...string) []change {
	t.Helper()
	var all []change
	for _, s := range sql {
		for _, one := range parseDDL(s, "db", c.d) {
			if one.err != nil {
				t.Fatalf("%s: %v", s, one.err)
			}
			changes, _, err := c.apply(one.statement, c.d)
			if err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			all = append(all, changes...)
		}
	}
	return all
}

// definitionOf is a table in a few lines: columns, keys.
func definitionOf(t *Table) string {
	if t == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", t.ID, t.Collation)
	for i := range t.Columns {
		c := &t.Columns[i]
		fmt.Fprintf(&b, "\n  %s %s", c.Name, c.Full)
		if c.Collation != "" {
			b.WriteString(" " + c.Collation)
		}
		if !c.Nullable {
			b.WriteString(" not null")
		}
		switch {
		case c.DefaultNull:
			b.WriteString(" default null")
		case c.HasDefault && c.DefaultExpr:
			b.WriteString(" default (" + c.Default + ")")
		case c.HasDefault:
			fmt.Fprintf(&b, " default %q", c.Default)
		}
		for _, f := range []struct {
			on   bool
			name string
		}{{c.AutoIncrement, "auto"}, {c.Generated && c.Stored, "stored"}, {c.Generated && !c.Stored, "virtual"}, {c.Invisible, "invisible"}} {
			if f.on {
				b.WriteString(" " + f.name)
			}
		}
		if c.Comment != "" {
			fmt.Fprintf(&b, " %q", c.Comment)
		}
		if c.SRID != NoLength {
			fmt.Fprintf(&b, " srid %d", c.SRID)
		}
	}
	if len(t.PrimaryKey) > 0 {
		fmt.Fprintf(&b, "\n  primary %s", strings.Join(t.PrimaryKey, ","))
	}
	for _, k := range t.UniqueKeys {
		fmt.Fprintf(&b, "\n  unique %s %s", k.Name, strings.Join(k.Columns, ","))
		if k.Prefix {
			b.WriteString(" prefix")
		}
	}
	return b.String()
}

// TestDDL shows what becomes of tables, statement by statement.
func TestDDL(t *testing.T) {
	for _, x := range []struct {
		name       string
		mariadb    bool
		statements []string
		table      string
		want       string
	}{
		{"columns, keys and the character set that they inherit", false, []string{
			"CREATE TABLE t (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, a varchar(5) CHARACTER SET latin1 DEFAULT 'x''y', e enum('a','b,c','d''e'), n int, KEY (a), UNIQUE KEY u (a(3), e), UNIQUE (n)) DEFAULT CHARSET=utf8mb4"},
			"t", `db.t utf8mb4_0900_ai_ci
  id int not null auto
  a varchar(5) latin1_swedish_ci default "x'y"
  e enum('a','b,c','d''e') utf8mb4_0900_ai_ci default null
  n int default null
  primary id
  unique u a,e prefix
  unique n n`},
		{"places, renames and names that belong to the table before the statement", false, []string{
			"CREATE TABLE t (a int, b int, c int)",
			"ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, ADD x int FIRST, ADD y int AFTER b, CHANGE c d bigint AFTER x"},
			"t", `db.t utf8mb4_0900_ai_ci
  x int default null
  d bigint default null
  b int default null
  y int default null
  a int default null`},
		{"several columns in parentheses, and modifying without repeating", false, []string{
			"CREATE TABLE t (a int NOT NULL DEFAULT 5 COMMENT 'x')", "ALTER TABLE t ADD COLUMN (b text, c json NOT NULL), MODIFY a bigint unsigned"},
			"t", `db.t utf8mb4_0900_ai_ci
  a bigint unsigned default null
  b text utf8mb4_0900_ai_ci default null
  c json not null`},
		{"a primary key makes its columns not null, and they stay so without it", false, []string{
			"CREATE TABLE t (a int, b varchar(9) DEFAULT 'z', PRIMARY KEY (b, a))", "ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE k (a)"},
			"t", `db.t utf8mb4_0900_ai_ci
  a int not null
  b varchar(9) utf8mb4_0900_ai_ci not null default "z"
  unique k a`},
		{"version comments that this server reads, and one that it does not", false, []string{
			"/* a */ CREATE /*!32302 TABLE */ t (a int /*!80023 INVISIBLE */, b int /*!99999 COMMENT 'future' */, c int /*! NOT NULL */) /*!50100 PARTITION BY HASH (a) */ -- end"},
			"t", `db.t utf8mb4_0900_ai_ci
  a int default null invisible
  b int default null
  c int not null`},
		{"MariaDB's comments, of which MySQL reads none", false, []string{"CREATE TABLE t (a int /*M! NOT NULL */, b int /*M!100100 NOT NULL */)"},
			"t", `db.t utf8mb4_0900_ai_ci
  a int default null
  b int default null`},
		{"MariaDB reads them, and not MySQL's from 5.7 on", true, []string{"CREATE TABLE t (a int /*M! NOT NULL */, b int /*M!100100 NOT NULL */, c int /*!50700 NOT NULL */, d int /*!50600 NOT NULL */)"},
			"t", `db.t utf8mb4_general_ci
  a int(11) not null
  b int(11) not null
  c int(11) default null
  d int(11) not null`},
		{"an online schema change swaps two tables", false, []string{
			"CREATE TABLE ord (id INT PRIMARY KEY, a INT)", "CREATE /* gh-ost */ TABLE `db`.`_ord_gho` LIKE ord",
			"ALTER /* gh-ost */ TABLE `_ord_gho` ADD COLUMN c VARCHAR(9) DEFAULT 'n'", "RENAME TABLE ord TO `_ord_del`, `_ord_gho` TO ord", "DROP TABLE `_ord_del`"},
			"ord", `db.ord utf8mb4_0900_ai_ci
  id int not null
  a int default null
  c varchar(9) utf8mb4_0900_ai_ci default "n"
  primary id`},
		{"partitions and their clauses change no column", false, []string{
			"CREATE TABLE t (id INT PRIMARY KEY, d INT) PARTITION BY RANGE(id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
			"CREATE TABLE px (id INT PRIMARY KEY, d INT)", "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE px WITHOUT VALIDATION", "ALTER TABLE t TRUNCATE PARTITION p0, p1",
			"ALTER TABLE t DROP PARTITION p1", "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))", "ALTER TABLE t REORGANIZE PARTITION p0, p2 INTO (PARTITION p VALUES LESS THAN MAXVALUE)",
			"ALTER TABLE t REMOVE PARTITIONING", "ALTER TABLE t ADD COLUMN partition_id int, PARTITION BY KEY (id) PARTITIONS 4"},
			"t", `db.t utf8mb4_0900_ai_ci
  id int not null
  d int default null
  partition_id int default null
  primary id`},
		{"constraints, checks, foreign keys and indices of all kinds are gone over", false, []string{
			"CREATE TABLE t (id int CHECK (id > 0) REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE, a varchar(9) COLLATE utf8mb4_bin, CONSTRAINT c CHECK (a <> ')' AND id < 5) NOT ENFORCED, FULLTEXT KEY f (a) WITH PARSER ngram, CONSTRAINT fk FOREIGN KEY x (id) REFERENCES db2.p (id, `b)`) MATCH FULL ON DELETE NO ACTION, INDEX ((a + 1)), UNIQUE ex ((id + 1)), KEY k (a DESC) USING BTREE COMMENT 'x, (y' INVISIBLE)"},
			"t", `db.t utf8mb4_0900_ai_ci
  id int default null
  a varchar(9) utf8mb4_bin default null
  unique ex `},
		{"MariaDB's types and versioned rows", true, []string{
			"CREATE TABLE t (u UUID DEFAULT uuid(), i INET6, j JSON, s int AS (1) PERSISTENT, v VECTOR(3) NOT NULL, VECTOR INDEX (v) M=8 DISTANCE=cosine) WITH SYSTEM VERSIONING", "ALTER TABLE t ADD z int WITHOUT SYSTEM VERSIONING"},
			"t", `db.t utf8mb4_general_ci
  u uuid default (uuid())
  i inet6 default null
  j longtext utf8mb4_bin default null
  s int(11) default null stored
  v vector(3) not null
  z int(11) default null
  row_start timestamp(6) not null stored invisible
  row_end timestamp(6) not null stored invisible`},
		{"rows versioned by columns of their own", true, []string{
			"CREATE TABLE t (a int, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME INTERVAL 1 WEEK (PARTITION p0 HISTORY, PARTITION pn CURRENT)"},
			"t", `db.t utf8mb4_general_ci
  a int(11) default null
  s timestamp(6) not null stored
  e timestamp(6) not null stored invisible`},
		{"quoted names with all that may be in them", false, []string{"CREATE TABLE `db`.`a``b` (`x y` int, `ü` int, `1st` int, 2nd int, `primary` int, PRIMARY KEY (`2nd`))"},
			"a`b", "db.a`b utf8mb4_0900_ai_ci\n  x y int default null\n  ü int default null\n  1st int default null\n  2nd int not null\n  primary int default null\n  primary 2nd"},
		{"a text in CONVERT grows where its characters do", false, []string{"CREATE TABLE t (a text, b varchar(5), c tinytext, d enum('x'), e blob) CHARSET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"},
			"t", `db.t utf8mb4_0900_ai_ci
  a mediumtext utf8mb4_0900_ai_ci default null
  b varchar(5) utf8mb4_0900_ai_ci default null
  c text utf8mb4_0900_ai_ci default null
  d enum('x') utf8mb4_0900_ai_ci default null
  e blob default null`},
		{"statements in one text, with a default database of their own", false, []string{"CREATE TABLE a (x int); USE other; CREATE TABLE a (y int);; ALTER TABLE db.a ADD z int;"},
			"a", `db.a utf8mb4_0900_ai_ci
  x int default null
  z int default null`},
		{"the body of a procedure is no statement", false, []string{"CREATE TABLE t (a int)", "CREATE DEFINER=`root`@`%` PROCEDURE p() BEGIN DROP TABLE t; ALTER TABLE t ADD b int; END",
			"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; DROP TABLE t; END", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DROP TABLE t", "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN DROP TABLE t; RETURN 1; END"},
			"t", "db.t utf8mb4_0900_ai_ci\n  a int default null"},
		{"what a database has, its tables inherit", false, []string{"CREATE DATABASE IF NOT EXISTS d2 DEFAULT CHARACTER SET = 'latin1'", "CREATE TABLE d2.t (a char(3))", "ALTER DATABASE d2 COLLATE utf8mb4_bin", "CREATE TABLE db.t (a int)", "RENAME TABLE d2.t TO db.t2", "CREATE TABLE d2.u (a char)", "RENAME TABLE d2.u TO db.u", "DROP TABLE t", "ALTER TABLE u RENAME t"},
			"t", "db.t utf8mb4_bin\n  a char(1) utf8mb4_bin default null"},
		{"SET STATEMENT around DDL", true, []string{"SET STATEMENT max_statement_time=60, sql_mode='x' FOR CREATE TABLE t (a int)", "ALTER ONLINE TABLE IF EXISTS t WAIT 5 ADD COLUMN IF NOT EXISTS b int, DROP COLUMN IF EXISTS nope"},
			"t", "db.t utf8mb4_general_ci\n  a int(11) default null\n  b int(11) default null"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCatalog(dialect{mariadb: x.mariadb, version: map[bool]int{false: 90704, true: 101106}[x.mariadb]})
			if x.mariadb {
				c.charset, c.collation = "utf8mb4", "utf8mb4_general_ci"
			}
			c.run(t, x.statements...)
			if got := definitionOf(c.tables[TableID{"db", x.table}]); got != x.want {
				t.Errorf("got\n%s\nwant\n%s", got, x.want)
			}
		})
	}
}
