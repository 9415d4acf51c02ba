package postgres

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// A randomType makes literals of a type, as SQL without quotes. judge is a query's
// expression with % for the column, whose text must be what show makes of the event's
// value in the default settings; "": no judge but the other way of reading.
type randomType struct {
	name, typ string
	literal   func(r *rand.Rand) string
	judge     string
	show      func(v schema.Value) string
}

func shown(v schema.Value) string { return text(v) }

// letters are what texts are made of: all that a format of the way could take for its own.
var letters = []rune("aZ09 \t\n\r\b\f\v\\\"',;:{}[]()<>=|/NULLnullé漢😀\u2028\u0001%$")

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

func pick(of ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return of[r.IntN(len(of))] }
}

// either takes one of the ends of a type's range every now and then.
func either(f func(*rand.Rand) string, ends ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if len(ends) > 0 && r.IntN(6) == 0 {
			return ends[r.IntN(len(ends))]
		}
		return f(r)
	}
}

func randomInt(bits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return strconv.FormatInt(int64(r.Uint64())>>(64-1-r.IntN(bits)), 10) }
}

func randomDigits(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0' + byte(r.IntN(10))
	}
	return string(b)
}

// randomNumeric has at most whole and fraction digits.
func randomNumeric(whole, fraction int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		s := pick("", "-")(r) + "0" + randomDigits(r, r.IntN(whole+1))
		if f := r.IntN(fraction + 1); f > 0 {
			s += "." + randomDigits(r, f)
		}
		return s
	}
}

// randomDate is of the years from first to last, those below 1 being BC.
func randomDate(first, last int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		y, bc := first+r.IntN(last-first+1), ""
		if r.IntN(3) > 0 {
			y = 1900 + r.IntN(200)
		}
		if y <= 0 {
			y, bc = 1-y, " BC"
		}
		return fmt.Sprintf("%04d-%02d-%02d%s", y, 1+r.IntN(12), 1+r.IntN(28), bc)
	}
}

func randomTime(r *rand.Rand) string {
	s := fmt.Sprintf("%02d:%02d:%02d", r.IntN(24), r.IntN(60), r.IntN(60))
	if n := r.IntN(7); n > 0 {
		s += "." + randomDigits(r, n)
	}
	return s
}

func randomStamp(zone bool) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		d, bc, _ := strings.Cut(randomDate(-4000, 12000)(r), " ")
		s := d + " " + randomTime(r)
		if zone {
			s += fmt.Sprintf("%+03d:%02d", r.IntN(30)-15, pickInt(r, 0, 30, 45))
		}
		if bc != "" {
			s += " BC"
		}
		return s
	}
}

func pickInt(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }

func randomBits(least, most int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, least+r.IntN(most-least+1))
		for i := range b {
			b[i] = '0' + byte(r.IntN(2))
		}
		return string(b)
	}
}

func randomFloat(r *rand.Rand) string {
	for {
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
}

func randomFloat32(r *rand.Rand) string {
	for {
		if f := math.Float32frombits(r.Uint32()); f == f && !math.IsInf(float64(f), 0) {
			return strconv.FormatFloat(float64(f), 'g', -1, 32)
		}
	}
}

func randomInterval(r *rand.Rand) string {
	var parts []string
	for _, unit := range []string{"years", "mons", "days", "hours", "minutes", "seconds"} {
		if r.IntN(2) == 0 {
			n := strconv.Itoa(r.IntN(2000) - 1000)
			if unit == "seconds" {
				n += "." + randomDigits(r, 1+r.IntN(6))
			}
			parts = append(parts, n+" "+unit)
		}
	}
	if parts == nil {
		return "0"
	}
	return strings.Join(parts, " ")
}

func randomHex(most int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return `\x` + hex.EncodeToString(b)
	}
}

func randomUUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xffff, r.Uint32()&0xffff, r.Uint64()&0xffffffffffff)
}

func randomJSON(r *rand.Rand) string {
	s := strings.Map(func(c rune) rune {
		if c < ' ' || c == '\\' || c == '"' {
			return 'x'
		}
		return c
	}, randomText(r))
	return fmt.Sprintf(`{"k%d":  ["%s", %d.%s, null]}`, r.IntN(9), s, r.IntN(999)-500, randomDigits(r, 1+r.IntN(30)))
}

// randomArray quotes each element, and leaves some of them null.
func randomArray(of func(*rand.Rand) string, nulls bool, delimiter ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		items := make([]string, r.IntN(4))
		for i := range items {
			if items[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(of(r)) + `"`; nulls && r.IntN(4) == 0 {
				items[i] = "NULL"
			}
		}
		return "{" + strings.Join(items, append(delimiter, ",")[0]) + "}"
	}
}

func randomHstore(r *rand.Rand) string {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	var parts []string
	for range r.IntN(4) {
		v := "NULL"
		if r.IntN(3) > 0 {
			v = quote(randomText(r))
		}
		parts = append(parts, quote(randomText(r))+"=>"+v)
	}
	return strings.Join(parts, ", ")
}

func randomPoint(r *rand.Rand) string {
	return "(" + strconv.FormatFloat(r.NormFloat64()*100, 'g', -1, 64) + "," + strconv.Itoa(r.IntN(9)) + ")"
}

func decimalShown(v schema.Value) string {
	if v.IsNull() {
		return "null"
	}
	return decimalOf(v.Unscaled(), int(v.Scale()))
}

// variable is the text of {scale, value}.
func variable(v schema.Value) string {
	if v.IsNull() {
		return "null"
	}
	return decimalOf(schema.DecimalBytes(v.Get("value").Bytes(), 0).Unscaled(), int(v.Get("scale").Int()))
}

func decimalOf(n *big.Int, scale int) string {
	digits, sign := new(big.Int).Abs(n).String(), ""
	if n.Sign() < 0 {
		sign = "-"
	}
	for len(digits) <= scale {
		digits = "0" + digits
	}
	if scale <= 0 {
		return sign + digits + strings.Repeat("0", map[bool]int{true: 0, false: -scale}[n.Sign() == 0])
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// bitText makes the server's text of little-endian bytes; the length is not in them, so
// zeros at the front are not compared.
func bitText(v schema.Value) string {
	if v.IsNull() {
		return "null"
	}
	s := ""
	for _, b := range v.Bytes() {
		s = fmt.Sprintf("%08b", b) + s
	}
	return strings.TrimLeft(s, "0")
}

func randomTypes(version string) []randomType {
	same := func(name, typ string, f func(*rand.Rand) string) randomType {
		return randomType{name, typ, f, "%::text", shown}
	}
	plain := func(name, typ string, f func(*rand.Rand) string) randomType {
		return randomType{name: name, typ: typ, literal: f}
	}
	array := func(t randomType) randomType {
		return plain(t.name+"s", t.typ+"[]", randomArray(t.literal, true))
	}
	base := []randomType{
		{"bool", "boolean", pick("t", "f"), "%::text", shown},
		same("int2", "smallint", either(randomInt(15), "32767", "-32768")), same("int4", "integer", either(randomInt(31), "2147483647", "-2147483648")),
		same("int8", "bigint", either(randomInt(63), "9223372036854775807", "-9223372036854775808")),
		plain("float4", "real", either(randomFloat32, "NaN", "Infinity", "-Infinity", "0", "-0")), plain("float8", "double precision", either(randomFloat, "NaN", "Infinity", "-Infinity", "0", "-0")),
		{"num", "numeric", either(randomNumeric(40, 40), "0", "1000", "0.000"), "CASE WHEN % = 'NaN' THEN NULL ELSE trim_scale(%)::text END", variable},
		{"num12_4", "numeric(12,4)", either(randomNumeric(7, 6), "0", "99999999.9999"), "%::text", decimalShown},
		{"num9_n3", "numeric(9,-3)", randomNumeric(11, 0), "%::text", decimalShown},
		plain("numx", "numeric", either(randomNumeric(5, 5), "NaN", "Infinity", "-Infinity")),
		{"money", "money", randomNumeric(12, 2), "%::numeric::text", decimalShown},
		same("text", "text", randomText), same("varchar", "varchar(20)", randomText), {"char", "char(14)", randomText, "rpad(%::text, 14)", shown}, same("citext", "citext", randomText),
		{"bytea", "bytea", randomHex(20), "encode(%, 'hex')", func(v schema.Value) string { return text(v) }},
		{"date", "date", randomDate(-4700, 20000), "(% - '1970-01-01'::date)::text", shown},
		{"time", "time", either(randomTime, "24:00:00", "00:00:00"), "(extract(epoch FROM %) * 1000000)::bigint::text", shown},
		{"time3", "time(3)", either(randomTime, "24:00:00"), "trunc(extract(epoch FROM %) * 1000)::bigint::text", shown},
		plain("timetz", "timetz", func(r *rand.Rand) string { return randomTime(r) + fmt.Sprintf("%+03d", r.IntN(30)-15) }),
		{"ts", "timestamp", randomStamp(false), "(extract(epoch FROM %) * 1000000)::bigint::text", shown},
		{"ts3", "timestamp(3)", randomStamp(false), "(extract(epoch FROM %) * 1000)::bigint::text", shown},
		plain("tsx", "timestamp", pick("infinity", "-infinity", "294276-12-31 23:59:59.999999", "4714-11-24 00:00:00 BC")),
		{"tstz", "timestamptz", randomStamp(true), "(extract(epoch FROM %) * 1000000)::bigint::text", func(v schema.Value) string { return stampMicros(v.Str()) }},
		plain("tstz2", "timestamptz(2)", either(randomStamp(true), "infinity", "-infinity")),
		{"iv", "interval", randomInterval, "(extract(year FROM %) * 31557600000000 + extract(month FROM %) * 2629800000000 + extract(day FROM %) * 86400000000 + extract(hour FROM %) * 3600000000 + extract(minute FROM %) * 60000000 + extract(microseconds FROM %))::bigint::text", shown},
		same("uuid", "uuid", randomUUID), same("json", "json", randomJSON), same("jsonb", "jsonb", randomJSON),
		same("xml", "xml", func(r *rand.Rand) string { return fmt.Sprintf("<a x=\"%d\">\t</a>", r.IntN(9)) }),
		plain("inet", "inet", pick("10.1.2.3", "10.0.0.0/8", "::1", "2001:db8::1/64")), same("mac", "macaddr", pick("08:00:2b:01:02:03")),
		{"bit9", "bit(9)", randomBits(9, 9), "ltrim(%::text, '0')", bitText}, {"varbit", "varbit", randomBits(0, 30), "ltrim(%::text, '0')", bitText},
		plain("bit1", "bit", pick("0", "1")), plain("varbit1", "varbit(1)", pick("0", "1", "")),
		plain("point", "point", randomPoint), plain("boxes", "box[]", randomArray(func(r *rand.Rand) string { return "(" + randomPoint(r) + "," + randomPoint(r) + ")" }, false, ";")), plain("circle", "circle", func(r *rand.Rand) string { return "<" + randomPoint(r) + "," + strconv.Itoa(r.IntN(5)) + ">" }),
		same("int4range", "int4range", pick("[1,5)", "empty", "(,3]", "[7,)")), same("tstzrange", "tstzrange", pick("[2024-01-01 00:00:00+00,2024-01-02 00:00:00+00)", "empty", "(,)")),
		same("mood", "mood", pick("sad", "it's, \"great\"", "ok")), plain("hstore", "hstore", randomHstore), same("ltree", "ltree", pick("A.B", "Top", "")),
		same("oid", "oid", pick("0", "4294967295", "77")), same("tsvector", "tsvector", pick("fat cat", "", "a:1 b:2")),
		same("d_int", "positive", pick("1", "77")), {"d_num", "price", randomNumeric(5, 3), "%::text", decimalShown}, same("d_mood", "dmood", pick("sad", "ok")), plain("d_texts", "texts", randomArray(randomText, true)),
		plain("pair", "pair", pick(`(1,"x,y")`, "(,)")), plain("multirange", "int4multirange", pick("{}", "{[1,3),[5,7)}")), plain("lsn", "pg_lsn", pick("16/B374D848", "0/0")),
		plain("int2vector", "int2vector", pick("", "1 2 -3")), plain("isbn", "isbn", pick("0-393-04002-X")), plain("moods", "mood[]", randomArray(pick("sad", "it's, \"great\""), false)),
		plain("moodsx", "mood[]", randomArray(pick("sad", "ok"), true)), plain("grid", "int[]", pick("{}", "[0:1]={1,2}", "[5:5]={NULL}")),
	}
	var arrays []randomType
	for _, t := range base {
		switch t.name {
		case "bool", "int2", "int4", "int8", "float4", "float8", "num", "num12_4", "numx", "text", "varchar", "char", "citext", "bytea", "date", "time", "time3", "timetz", "ts", "ts3", "tsx", "tstz", "tstz2",
			"uuid", "json", "jsonb", "inet", "int4range", "tstzrange", "hstore", "ltree", "oid", "money", "iv", "xml", "point", "circle", "tsvector", "pair", "lsn", "d_int", "bit9":
			arrays = append(arrays, array(t))
		}
	}
	if version == "18" {
		vector := func(r *rand.Rand) string {
			return fmt.Sprintf("[%g,%g,%g]", r.NormFloat64(), r.NormFloat64()*1e10, r.NormFloat64())
		}
		base = append(base, plain("vector", "vector", vector), plain("halfvec", "halfvec", func(r *rand.Rand) string { return fmt.Sprintf("[%g,%g]", r.NormFloat64(), r.NormFloat64()) }),
			plain("sparsevec", "sparsevec(40000)", pick("{}/40000")), plain("sparsevec9", "sparsevec(9)", func(r *rand.Rand) string {
				return fmt.Sprintf("{1:%g,%d:%g}/9", r.NormFloat64(), 2+r.IntN(8), r.NormFloat64())
			}))
	} else {
		shape := func(r *rand.Rand) string {
			return pick("", "SRID=4326;", "SRID=3857;")(r) + pick("POINT(1.5 2)", "LINESTRING(0 0,1 1,2 1)", "POLYGON((0 0,1 0,1 1,0 0))", "POINT EMPTY", "GEOMETRYCOLLECTION EMPTY", "POINT ZM (1 2 3 4)")(r)
		}
		base = append(base, plain("geometry", "geometry", shape), plain("geography", "geography", func(r *rand.Rand) string { return fmt.Sprintf("POINT(%d %d)", r.IntN(180), r.IntN(90)) }), plain("geometries", "geometry[]", randomArray(shape, true, ":")))
	}
	return append(base, arrays...)
}

// stampMicros reads an event's timestamp with zone by package time, and years of more
// digits, or BC, by hand.
func stampMicros(s string) string {
	if s == "infinity" || s == "-infinity" {
		return s
	}
	i := strings.IndexByte(s[1:], '-') + 1
	y, err := strconv.Atoi(s[:i])
	at, err2 := time.Parse("2006-01-02T15:04:05.999999Z", "2000"+s[i:])
	if err != nil || err2 != nil {
		return s
	}
	at = time.Date(y, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
	return strconv.FormatInt(at.Unix()*1_000_000+int64(at.Nanosecond()/1000), 10)
}

// TestRandomRows: rows of random values over all types are the same by snapshot and by
// stream, in every mode; and in the default settings they are what the server itself
// makes of them.
func TestRandomRows(t *testing.T) {
	modes := [][]string{
		{}, {"time.precision.mode", "connect", "decimal.handling.mode", "string", "binary.handling.mode", "base64", "hstore.handling.mode", "map", "interval.handling.mode", "string", "include.unknown.datatypes", "true"},
		{"time.precision.mode", "isostring", "decimal.handling.mode", "double", "binary.handling.mode", "hex", "include.unknown.datatypes", "true"},
		{"time.precision.mode", "nanoseconds", "binary.handling.mode", "base64-url-safe", "include.unknown.datatypes", "true"}, {"time.precision.mode", "microseconds"}, {"time.precision.mode", "adaptive_time_microseconds"},
	}
	for _, c := range []struct {
		name, version string
		modes         [][]string
	}{{"PostgreSQL 15", "", modes}, {"PostgreSQL 18", "18", modes[:2]}} {
		t.Run(c.name, func(t *testing.T) {
			randomRows(t, databaseOn(t, peers.PostgresVersion(t, c.version)), randomTypes(c.version), c.modes)
		})
	}
}

func randomRows(t *testing.T, d *database, types []randomType, modes [][]string) {
	seed, rows := trial.Seed(t), max(5, trial.Effort(30))
	r := rand.New(rand.NewPCG(seed, 18))
	for _, e := range []string{"hstore", "citext", "ltree", "isn"} {
		d.exec("CREATE EXTENSION " + e)
	}
	if slices.ContainsFunc(types, func(t randomType) bool { return t.name == "vector" }) {
		d.exec("CREATE EXTENSION vector")
	} else {
		d.exec("CREATE EXTENSION postgis")
	}
	d.exec(`CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s, "great"')`, "CREATE TYPE pair AS (a int, b text)", "CREATE DOMAIN positive AS int", "CREATE DOMAIN price AS numeric(8,3)", "CREATE DOMAIN dmood AS mood", "CREATE DOMAIN texts AS text[]")
	var defs, names, judges []string
	for _, ty := range types {
		names, defs = append(names, quoteName(ty.name)), append(defs, quoteName(ty.name)+" "+ty.typ)
		judges = append(judges, "'-'")
		if ty.judge != "" {
			judges[len(judges)-1] = "coalesce(" + strings.ReplaceAll(ty.judge, "%", quoteName(ty.name)) + ", 'null')"
		}
	}
	d.exec("CREATE TABLE random (id int PRIMARY KEY, " + strings.Join(defs, ", ") + ")")
	for id := 1; id <= rows; id++ {
		vals := []string{strconv.Itoa(id)}
		for _, ty := range types {
			if r.IntN(8) == 0 {
				vals = append(vals, "NULL")
			} else {
				vals = append(vals, quoteText(ty.literal(r))+"::text::"+ty.typ)
			}
		}
		insert := "INSERT INTO random VALUES (" + strings.Join(vals, ", ") + ")"
		if _, err := d.conn.PgConn().Exec(t.Context(), insert).ReadAll(); err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, insert)
		}
	}
	runs := make([]*connectortest.SourceRun, len(modes))
	for i, m := range modes {
		runs[i] = d.streaming(d.config(append(m, "slot.name", fmt.Sprintf("%s%d", d.name, i), "table.include.list", "public.random")...), nil)
	}
	d.exec("INSERT INTO random SELECT id + 1000, " + strings.Join(names, ", ") + " FROM random ORDER BY id")
	for i, run := range runs {
		rs := take(run, 2*rows)
		run.Stop()
		snap, stream := rs[:rows], rs[rows:]
		slices.SortFunc(snap, func(a, b schema.Record) int { return int(a.Key.Get("id").Int() - b.Key.Get("id").Int()) })
		for n := range rows {
			a, b := snap[n].Value.Get("after"), stream[n].Value.Get("after")
			if a.Get("id").Int()+1000 != b.Get("id").Int() {
				t.Fatalf("seed %d, %v: row %d is %d in the snapshot and %d in the stream", seed, modes[i], n, a.Get("id").Int(), b.Get("id").Int())
			}
			if !schema.Equal(snap[n].ValueSchema, stream[n].ValueSchema) {
				t.Fatalf("seed %d, %v: the schemas differ", seed, modes[i])
			}
			for _, rec := range []schema.Record{snap[n], stream[n]} {
				if err := schema.Validate(rec.ValueSchema, rec.Value); err != nil {
					t.Errorf("seed %d, %v, row %d: %v", seed, modes[i], n+1, err)
				}
			}
			for f, field := range a.Schema().Fields()[1:] {
				if x, y := a.Fields()[f+1], b.Fields()[f+1]; !schema.EqualValues(x, y) {
					t.Errorf("seed %d, %v, row %d: %s is %.200q in the snapshot and %.200q in the stream", seed, modes[i], n+1, field.Name, text(x), text(y))
				}
			}
		}
		if i == 0 {
			judged(t, d, seed, types, judges, stream)
		}
	}
}

// judged compares the events of rows with what the server's own functions say of them.
func judged(t *testing.T, d *database, seed uint64, types []randomType, judges []string, stream []schema.Record) {
	t.Helper()
	d.exec("SET timezone = 'UTC'")
	rows, err := d.conn.Query(t.Context(), "SELECT "+strings.Join(judges, ", ")+" FROM random WHERE id > 1000 ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n, compared := 0, 0
	for ; rows.Next(); n++ {
		vals, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		for i, ty := range types {
			if ty.judge == "" {
				continue
			}
			v := stream[n].Value.Get("after").Get(ty.name)
			got := "null"
			if !v.IsNull() {
				got = ty.show(v)
			}
			if compared++; got != vals[i].(string) {
				t.Errorf("seed %d, row %d: %s is %.200q in the event, and the server says %.200q", seed, n+1, ty.name, got, vals[i])
			}
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, %d values judged by the server", n, compared)
	if n != len(stream) || compared < 30*n {
		t.Errorf("%d rows and %d values judged, of %d rows", n, compared, len(stream))
	}
}
