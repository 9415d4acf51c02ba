package mysql

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"millrace/connectors/connectortest"
	"millrace/deploy/trial"
	"millrace/schema"
)

// agree inserts rows into a table before a connector starts and the same again while it
// streams, with ids above 1,000,000: each must come twice alike. It returns how many did.
func (d *database) agree(t *testing.T, table string, more ...string) int {
	t.Helper()
	d.exec("CREATE TABLE marker_" + table + " (id INT PRIMARY KEY)")
	r := d.start(d.config(append([]string{"table.include.list", d.name + "." + table + "," + d.name + ".marker_" + table}, more...)...), &connectortest.OffsetStore{})
	streaming(r)
	d.exec("SET SESSION group_concat_max_len = 100000")
	cols := d.text("SELECT GROUP_CONCAT(CONCAT('`', column_name, '`') ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = '" + d.name + "' AND table_name = '" + table + "' AND column_name <> 'id' AND extra NOT LIKE '%GENERATED%'")
	d.exec("INSERT INTO "+table+" (id, "+cols+") SELECT id + 1000000, "+cols+" FROM "+table, "INSERT INTO marker_"+table+" VALUES (1)")
	r.WaitFor("the marker", func() bool { return len(on(r.Records(), "p."+d.name+".marker_"+table)) == 1 })
	r.Stop()
	snap := map[int64]schema.Value{}
	n := 0
	for _, rec := range on(r.Records(), "p."+d.name+"."+table) {
		row := rec.Value.Get("after")
		if err := schema.Validate(rec.ValueSchema, rec.Value); err != nil {
			t.Errorf("a value that is none of its schema: %v", err)
		}
		id := row.Get("id").Int()
		if op(rec) == "r" {
			snap[id] = row
			continue
		}
		n++
		was := snap[id-1000000]
		for i, f := range row.Schema().Fields() {
			if f.Name == "id" {
				continue
			}
			if a, b := was.Fields()[i], row.Fields()[i]; !schema.EqualValues(a, b) {
				typ := d.text("SELECT CONCAT(column_type, ' ', COALESCE(collation_name, '')) FROM information_schema.columns WHERE table_schema = '" + d.name + "' AND table_name = '" + table + "' AND column_name = '" + f.Name + "'")
				t.Errorf("row %d: %s %s is %.100q in the snapshot and %.100q in the stream", id, f.Name, typ, show(a), show(b))
			}
		}
	}
	if n != len(snap) || n == 0 {
		t.Errorf("%d rows in the snapshot, %d in the stream", len(snap), n)
	}
	return n
}

// TestCharsetsAgree: texts in every character set that the server has: all characters of
// one byte, some of more.
func TestCharsetsAgree(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		r, err := d.conn.Execute("SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME NOT IN ('binary') ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		var cols []string
		type set struct {
			name string
			max  int64
		}
		var sets []set
		for i := range r.RowNumber() {
			name, _ := r.GetString(i, 0)
			most, _ := r.GetInt(i, 1)
			name = strings.Clone(name)
			sets = append(sets, set{name, most})
			cols = append(cols, fmt.Sprintf("c_%s VARCHAR(150) CHARACTER SET %s, t_%s TEXT CHARACTER SET %s, f_%s CHAR(20) CHARACTER SET %s, e_%s ENUM('a','b,c') CHARACTER SET %s", name, name, name, name, name, name, name, name))
		}
		r.Close()
		d.exec("SET SESSION sql_mode = ''", "CREATE TABLE cs (id INT PRIMARY KEY, "+strings.Join(cols, ", ")+") ROW_FORMAT=DYNAMIC")
		id := 0
		add := func(set string, text string) {
			id++
			d.exec(fmt.Sprintf("INSERT INTO cs (id, c_%[1]s, t_%[1]s, f_%[1]s, e_%[1]s) VALUES (%[2]d, %[3]s, %[3]s, LEFT(%[3]s, 20), 'b,c')", set, id, text))
		}
		words := []string{"plain", "Grüße €", "Привет мир", "汉字 測試 漢字", "テスト ｶﾅ 日本語", "한국어 시험", "ภาษาไทย", "עברית", "Ελληνικά", "😀 𝄞", "x\u0301 ‑ – ”"}
		for _, s := range sets[:min(len(sets), trial.Effort(len(sets)))] {
			if s.max == 1 {
				for from := 0; from < 256; from += 64 {
					var b []byte
					for c := from; c < from+64; c++ {
						b = append(b, byte(c))
					}
					add(s.name, "CONVERT(x'"+hex.EncodeToString(b)+"' USING "+s.name+")")
				}
			}
			for _, w := range words {
				add(s.name, "CONVERT(_utf8mb4'"+w+"' USING "+s.name+")")
			}
		}
		t.Logf("%d character sets, %d texts", len(sets), d.agree(t, "cs"))
	})
}

// TestRandomValuesAgree: values by chance of every type, in every handling mode.
func TestRandomValuesAgree(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		rnd := rand.New(rand.NewPCG(trial.Seed(t), 2))
		type column struct {
			def   string
			value func() string
		}
		digits := func(n int) string {
			if n == 0 {
				return "0"
			}
			b := []byte{byte('1' + rnd.IntN(9))}
			for len(b) < n {
				b = append(b, byte('0'+rnd.IntN(10)))
			}
			return string(b)
		}
		sign := func() string { return []string{"", "-"}[rnd.IntN(2)] }
		integer := func(bits int, unsigned bool) func() string {
			return func() string {
				n := rnd.Uint64() >> (64 - bits) >> rnd.IntN(bits)
				if unsigned {
					return fmt.Sprint(n)
				}
				return fmt.Sprint(int64(n>>1) - int64(rnd.IntN(2))*int64(n))
			}
		}
		decimal := func(p, s int) func() string {
			return func() string { return sign() + digits(rnd.IntN(p-s+1)) + "." + digits(s)[:s] }
		}
		date := func() string {
			return fmt.Sprintf("%04d-%02d-%02d", 1000+rnd.IntN(9000), 1+rnd.IntN(12), 1+rnd.IntN(28))
		}
		clock := func() string {
			return fmt.Sprintf("%02d:%02d:%02d.%06d", rnd.IntN(24), rnd.IntN(60), rnd.IntN(60), rnd.IntN(1e6))
		}
		quoted := func(f func() string) func() string { return func() string { return "'" + f() + "'" } }
		bytes := func(most int) func() string {
			return func() string {
				b := make([]byte, rnd.IntN(most+1))
				for i := range b {
					b[i] = byte(rnd.UintN(256)) * byte(rnd.IntN(3)&1) // many zeros
				}
				return "x'" + hex.EncodeToString(b) + "'"
			}
		}
		text := func(most int) func() string {
			return func() string {
				var b strings.Builder
				for range rnd.IntN(most + 1) {
					r := rune(rnd.IntN(0x2ffff))
					if rnd.IntN(2) == 0 || !utf8.ValidRune(r) {
						r = rune(' ' + rnd.IntN(95))
					}
					b.WriteRune(r)
				}
				return quoteText(strings.TrimRight(b.String(), " "))
			}
		}
		var cols []column
		addAll := func(defs []string, value func() string) {
			for _, def := range defs {
				cols = append(cols, column{def, value})
			}
		}
		for i, typ := range []string{"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"} {
			bits := []int{8, 16, 24, 32, 64}[i]
			addAll([]string{typ}, integer(bits, false))
			addAll([]string{typ + " UNSIGNED"}, integer(bits, true))
		}
		for _, ps := range [][2]int{{1, 0}, {5, 5}, {9, 4}, {10, 1}, {18, 9}, {19, 2}, {38, 10}, {65, 30}} {
			cols = append(cols, column{fmt.Sprintf("DECIMAL(%d,%d)", ps[0], ps[1]), decimal(ps[0], ps[1])})
		}
		float := func() string {
			if rnd.IntN(2) == 0 {
				return fmt.Sprint(rnd.NormFloat64() * math.Pow10(rnd.IntN(44)-22))
			}
			return fmt.Sprintf("%ve%d", math.Round(rnd.NormFloat64()*1e9)/1e9, rnd.IntN(60)-30)
		}
		addAll([]string{"FLOAT", "DOUBLE", "FLOAT(10,3)", "DOUBLE(20,6)"}, func() string {
			if rnd.IntN(2) == 0 {
				return sign() + digits(1+rnd.IntN(5)) + "." + digits(3)
			}
			return float()
		})
		for _, n := range []int{1, 7, 8, 9, 33, 64} {
			cols = append(cols, column{fmt.Sprintf("BIT(%d)", n), integer(n, true)})
		}
		addAll([]string{"DATE"}, quoted(date))
		for p := range 7 {
			addAll([]string{fmt.Sprintf("TIME(%d)", p)}, quoted(func() string {
				return fmt.Sprintf("%s%d:%02d:%02d.%06d", sign(), rnd.IntN(839), rnd.IntN(60), rnd.IntN(59), rnd.IntN(1e6))
			}))
			addAll([]string{fmt.Sprintf("DATETIME(%d)", p)}, quoted(func() string { return date() + " " + clock() }))
			addAll([]string{fmt.Sprintf("TIMESTAMP(%d) NULL", p)}, quoted(func() string {
				return fmt.Sprintf("%d-%02d-%02d %s", 1971+rnd.IntN(66), 1+rnd.IntN(12), 1+rnd.IntN(28), clock())
			}))
		}
		addAll([]string{"YEAR"}, func() string { return fmt.Sprint(1901 + rnd.IntN(255)) })
		addAll([]string{"CHAR(10)", "VARCHAR(10)", "VARCHAR(300)", "TEXT", "TINYTEXT", "LONGTEXT"}, text(10))
		addAll([]string{"BINARY(10)", "VARBINARY(10)", "BLOB", "TINYBLOB", "LONGBLOB", "BINARY(1)"}, bytes(1))
		addAll([]string{"BINARY(12)", "VARBINARY(300)", "MEDIUMBLOB"}, bytes(12))
		addAll([]string{"ENUM('a','b,c','d''e','ü')"}, func() string { return []string{"'a'", "'b,c'", "'d''e'", "'ü'", "''"}[rnd.IntN(5)] })
		addAll([]string{"SET('x','y','z','ä')"}, func() string { return fmt.Sprint(rnd.IntN(16)) })
		addAll([]string{"POINT", "GEOMETRY"}, func() string {
			return fmt.Sprintf("ST_GeomFromText('POINT(%v %v)')", rnd.NormFloat64(), rnd.NormFloat64())
		})
		addAll([]string{"MULTIPOLYGON"}, func() string { return "ST_GeomFromText('MULTIPOLYGON(((0 0,0 3,3 3,0 0)))', 0)" })
		var json func(depth int) string
		json = func(depth int) string {
			switch n := rnd.IntN(12); {
			case n < 3 && depth > 0:
				var parts []string
				for range rnd.IntN(6) {
					parts = append(parts, fmt.Sprintf("%s, %s", text(6)(), json(depth-1)))
				}
				return "JSON_OBJECT(" + strings.Join(parts, ", ") + ")"
			case n < 6 && depth > 0:
				var parts []string
				for range rnd.IntN(6) {
					parts = append(parts, json(depth-1))
				}
				return "JSON_ARRAY(" + strings.Join(parts, ", ") + ")"
			case n == 6:
				return integer(64, true)()
			case n == 7:
				return integer(1+rnd.IntN(62), false)()
			case n == 8:
				return "CAST(" + decimal(20, 6)() + " AS DECIMAL(20,6))"
			case n == 9:
				return "(" + float() + " + 0e0)"
			case n == 10:
				return []string{"true", "false", "NULL", "CAST('" + date() + " " + clock() + "' AS DATETIME(6))", "CAST('" + date() + "' AS DATE)", "CAST('-12:34:56.5' AS TIME(3))"}[rnd.IntN(6)]
			}
			return text(40)()
		}
		addAll([]string{"JSON"}, func() string { return "JSON_ARRAY(" + json(3) + ", " + json(2) + ")" })
		if d.server.MariaDB {
			addAll([]string{"UUID"}, func() string {
				return fmt.Sprintf("'%08x-%04x-%04x-%04x-%012x'", rnd.Uint32(), rnd.IntN(1<<16), rnd.IntN(1<<16), rnd.IntN(1<<16), rnd.Uint64()>>16)
			})
			addAll([]string{"INET6"}, func() string {
				return []string{"'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.0'", "'::'", "'fe80::'", "'1.2.3.4'"}[rnd.IntN(6)]
			})
			addAll([]string{"INET4"}, func() string { return []string{"'0.0.0.0'", "'10.0.0.0'", "'1.2.3.4'"}[rnd.IntN(3)] })
		} else {
			addAll([]string{"VECTOR(3)"}, func() string {
				return fmt.Sprintf("STRING_TO_VECTOR('[%v,%v,%v]')", rnd.Float32(), -rnd.Float32(), rnd.IntN(9))
			})
			addAll([]string{"VARCHAR(20) INVISIBLE"}, text(20))
		}
		var defs, names []string
		for i, c := range cols {
			names = append(names, fmt.Sprintf("c%d", i))
			defs = append(defs, fmt.Sprintf("c%d %s", i, c.def))
		}
		defs = append(defs, "g1 BIGINT AS (c0 * 2) STORED", "g2 VARCHAR(50) AS (CONCAT(c0, 'x')) VIRTUAL")
		d.exec("SET SESSION sql_mode = ''", "CREATE TABLE v (id INT PRIMARY KEY, "+strings.Join(defs, ", ")+")")
		for id := range trial.Effort(60) {
			var vals []string
			for _, c := range cols {
				v := c.value()
				if rnd.IntN(12) == 0 {
					v = "NULL"
				}
				vals = append(vals, v)
			}
			d.exec(fmt.Sprintf("INSERT INTO v (id, %s) VALUES (%d, %s)", strings.Join(names, ", "), id, strings.Join(vals, ", ")))
		}
		for _, more := range [][]string{nil, {"time.precision.mode", "connect", "decimal.handling.mode", "string", "bigint.unsigned.handling.mode", "precise", "binary.handling.mode", "base64"},
			{"time.precision.mode", "isostring", "decimal.handling.mode", "double", "binary.handling.mode", "hex"}, {"time.precision.mode", "nanoseconds"}} {
			d.exec("DELETE FROM v WHERE id >= 1000000", "DROP TABLE IF EXISTS marker_v")
			d.agree(t, "v", more...)
		}
	})
}
