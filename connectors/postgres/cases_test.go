package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

// streaming starts a task and returns once it streams.
func (d *database) streaming(conf map[string]string, store *connectortest.OffsetStore, opts ...func(*connectortest.SourceRun)) *connectortest.SourceRun {
	d.Helper()
	r := d.start(conf, store, opts...)
	slot := conf["slot.name"]
	r.WaitFor("the stream", func() bool {
		return d.text("SELECT count(*) FROM pg_stat_replication s JOIN pg_replication_slots r ON r.active_pid = s.pid WHERE r.slot_name = '"+slot+"' AND s.state = 'streaming'") == "1"
	})
	return r
}

// take waits for n records and fails where more come with what is sent by then.
func take(r *connectortest.SourceRun, n int) []schema.Record {
	r.Helper()
	r.WaitFor(fmt.Sprintf("%d records", n), func() bool { return r.Count() >= n })
	rs := r.Records()
	if len(rs) != n {
		r.Fatalf("%d records, want %d: %v", len(rs), n, lines(rs))
	}
	return rs
}

// lines are records as lines: topic, key, op, before, after.
func lines(rs []schema.Record) (out []string) {
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s %s %s %s -> %s", r.Topic, text(r.Key), op(r), text(r.Value.Get("before")), text(r.Value.Get("after"))))
	}
	return out
}

// text is a value as a line.
func text(v schema.Value) string {
	switch v.Kind() {
	case schema.Null:
		return "null"
	case schema.Struct:
		var parts []string
		for i, f := range v.Schema().Fields() {
			parts = append(parts, f.Name+":"+text(v.Fields()[i]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case schema.Array:
		var parts []string
		for _, e := range v.Elems() {
			parts = append(parts, text(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case schema.String:
		return v.Str()
	case schema.Bytes:
		return fmt.Sprintf("%x", v.Bytes())
	case schema.Bool:
		return fmt.Sprint(v.Bool())
	case schema.Float32, schema.Float64:
		return fmt.Sprint(v.Float())
	case schema.Decimal:
		return fmt.Sprintf("%se-%d", v.Unscaled(), v.Scale())
	}
	return fmt.Sprint(v.Int())
}

func wantLines(t *testing.T, got []schema.Record, want ...string) {
	t.Helper()
	have := lines(got)
	for i := range max(len(have), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("record %d is %s, want no more", i, have[i])
		case i >= len(have):
			t.Errorf("record %d is missing, want %s", i, want[i])
		case have[i] != want[i]:
			t.Errorf("record %d is\n  %s, want\n  %s", i, have[i], want[i])
		}
	}
}

// Case postgres/1: a large value that an update leaves alone.
func TestUnchangedLargeValues(t *testing.T) {
	d := newDatabase(t)
	d.exec(`CREATE TABLE ts (id INT PRIMARY KEY, big TEXT, arr INT[], by BYTEA, doc JSONB, texts TEXT[], num NUMERIC, k INT)`,
		`ALTER TABLE ts ALTER big SET STORAGE EXTERNAL, ALTER arr SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL, ALTER doc SET STORAGE EXTERNAL, ALTER texts SET STORAGE EXTERNAL, ALTER num SET STORAGE EXTERNAL`)
	r := d.streaming(d.config(), nil)
	d.exec(`INSERT INTO ts VALUES (1, repeat('x',9000), ARRAY(SELECT generate_series(1,4000)), decode(repeat('ab',9000),'hex'), to_jsonb(repeat('j', 9000)), ARRAY[repeat('t', 9000)], repeat('7', 9000)::numeric, 1)`,
		`UPDATE ts SET k=2 WHERE id=1`, `UPDATE ts SET big=NULL WHERE id=1`, `ALTER TABLE ts REPLICA IDENTITY FULL`, `UPDATE ts SET k=3 WHERE id=1`)
	rs := take(r, 4)
	const mark = "__debezium_unavailable_value"
	after := rs[1].Value.Get("after")
	if got := after.Get("big").Str(); got != mark {
		t.Errorf("text: %.40q", got)
	}
	if got := after.Get("by").Bytes(); string(got) != mark {
		t.Errorf("bytea: %.40q", got)
	}
	if got := after.Get("doc").Str(); got != mark {
		t.Errorf("jsonb: %.40q", got)
	}
	if got := after.Get("texts").Elems(); len(got) != 1 || got[0].Str() != mark {
		t.Errorf("text[]: %v", text(after.Get("texts")))
	}
	if got := after.Get("arr").Elems(); len(got) != len(mark) || got[0].Int() != int64(mark[0]) {
		t.Errorf("int[]: %v, want the placeholder's bytes", text(after.Get("arr")))
	}
	if got := after.Get("num").Get("value").Bytes(); string(got) != mark {
		t.Errorf("numeric: %.40q", got)
	}
	if got := rs[2].Value.Get("after").Get("big"); !got.IsNull() {
		t.Errorf("after its own update big is %.40q, want null", text(got))
	}
	last := rs[3].Value.Get("after")
	if len(last.Get("arr").Elems()) != 4000 || len(last.Get("by").Bytes()) != 9000 || len(last.Get("texts").Elems()[0].Str()) != 9000 {
		t.Errorf("with the full identity the values are not the old row's")
	}
	for i, rec := range rs {
		if err := schema.Validate(rec.ValueSchema, rec.Value); err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
}

// TestReselection: what an update does not bring is read from the table.
func TestReselection(t *testing.T) {
	d := newDatabase(t)
	d.exec(`CREATE TABLE ts (a INT, big TEXT, n INT, o TEXT, by BYTEA, b TEXT, PRIMARY KEY (b, a))`, `ALTER TABLE ts ALTER big SET STORAGE EXTERNAL, ALTER o SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL`,
		`CREATE TABLE nokey (n INT)`)
	conf := d.config("post.processors", "again", "again.type", "io.debezium.processors.reselect.ReselectColumnsPostProcessor", "again.reselect.columns.exclude.list", "public.ts:o")
	store := &connectortest.OffsetStore{}
	r := d.streaming(conf, store)
	r.Stop()
	d.exec(`INSERT INTO ts VALUES (1, repeat('x',9000), NULL, repeat('y', 9000), decode(repeat('ab',9000),'hex'), 'k''1'), (2, repeat('x',9000), NULL, NULL, NULL, 'k')`,
		`UPDATE ts SET a = 3 WHERE a = 1`, `UPDATE ts SET n = 7`, `DELETE FROM ts WHERE a = 2`, `INSERT INTO nokey VALUES (NULL)`)
	r = d.start(conf, store)
	rs := take(r, 10)
	short := func(v schema.Value) string {
		return strings.NewReplacer(strings.Repeat("x", 9000), "X", strings.Repeat("y", 9000), "Y", strings.Repeat("ab", 9000), "AB").Replace(text(v))
	}
	for i, want := range []string{
		"{a:1 big:X n:null o:Y by:AB b:k'1}",    // its row has another key now: null stays
		"{a:2 big:X n:null o:null by:null b:k}", // its row is gone
		"null", "null",                          // the change of the key
		"{a:3 big:X n:7 o:__debezium_unavailable_value by:AB b:k'1}",    // as the table is now
		"{a:2 big:__debezium_unavailable_value n:7 o:null by:null b:k}", // gone
		"{a:3 big:X n:7 o:__debezium_unavailable_value by:AB b:k'1}",    // o is excluded
		"null", "null", "{n:null}",
	} {
		if got := short(rs[i].Value.Get("after")); got != want {
			t.Errorf("record %d is\n  %s, want\n  %s", i, got, want)
		}
	}
	// An error stops the task where that is asked for, and names what it was about.
	conf["again.reselect.error.handling.mode"] = "FAIL"
	r.Stop()
	d.exec(`UPDATE ts SET n = NULL`, `ALTER TABLE ts RENAME n TO m`)
	err := d.start(conf, store).Wait()
	if err == nil || !strings.Contains(err.Error(), `"n"`) || !strings.Contains(err.Error(), "public.ts") {
		t.Errorf("a column that is gone, with FAIL: %v", err)
	}
}

// Case postgres/2: the change of a key.
func TestKeyChange(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE pk1 (id INT PRIMARY KEY, v TEXT NOT NULL)")
	r := d.streaming(d.config(), nil)
	d.exec("INSERT INTO pk1 VALUES (1,'a')", "UPDATE pk1 SET id=2 WHERE id=1", "UPDATE pk1 SET v='b' WHERE id=2", "DELETE FROM pk1 WHERE id=2")
	rs := take(r, 7)
	wantLines(t, rs,
		"p.public.pk1 {id:1} c null -> {id:1 v:a}",
		"p.public.pk1 {id:1} d {id:1 v:} -> null", "p.public.pk1 {id:1} tombstone null -> null",
		"p.public.pk1 {id:2} c null -> {id:2 v:a}", "p.public.pk1 {id:2} u null -> {id:2 v:b}",
		"p.public.pk1 {id:2} d {id:2 v:} -> null", "p.public.pk1 {id:2} tombstone null -> null")
	for i, want := range map[int][2]string{1: {"__debezium.newkey", "{id:2}"}, 2: {"__debezium.newkey", "{id:2}"}, 3: {"__debezium.oldkey", "{id:1}"}} {
		if h, ok := rs[i].Header(want[0]); !ok || text(h.Value) != want[1] {
			t.Errorf("record %d: header %s is %s, want %s", i, want[0], text(h.Value), want[1])
		}
	}
}

// Case postgres/3: dates and timestamps at the ends of their ranges, alike in snapshot
// and stream.
func TestFarTimes(t *testing.T) {
	d := newDatabase(t)
	rows := []string{"('infinity','-infinity','infinity')", "('0044-03-15 BC','0001-01-01 00:00:00 BC','0001-12-31 23:40:28+00 BC')", "('5874897-12-31','294276-12-31 23:59:59.999999','0001-01-01 00:00:00+00')"}
	d.exec("CREATE TABLE d1 (id serial PRIMARY KEY, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ)")
	for _, row := range rows {
		d.exec("INSERT INTO d1 (d, ts, tz) VALUES " + row)
	}
	r := d.streaming(d.config(), nil)
	for _, row := range rows {
		d.exec("INSERT INTO d1 (d, ts, tz) VALUES " + row)
	}
	rs := take(r, 6)
	want := []string{
		"d:-2147472692 ts:-9223372036832400000 tz:infinity",
		"d:-735160 ts:-62167219200000000 tz:0000-12-31T23:40:28.000000Z",
		"d:2145042905 ts:null tz:0001-01-01T00:00:00.000000Z",
	}
	for i, rec := range rs {
		if got := text(rec.Value.Get("after")); got != fmt.Sprintf("{id:%d %s}", i+1, want[i%3]) {
			t.Errorf("row %d (%s): %s, want %s", i%3+1, op(rec), got, want[i%3])
		}
	}
}

// Case postgres/4: a slot whose captured tables are idle.
func TestIdleSlotMovesOn(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE quiet (id int PRIMARY KEY)", "CREATE TABLE noisy (id int, filler text)")
	conf := d.config("table.include.list", "public.quiet", "publication.autocreate.mode", "filtered", "status.update.interval.ms", "300")
	store := &connectortest.OffsetStore{}
	r := d.streaming(conf, store)
	lag := func() string {
		return d.text("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint / 1000000 FROM pg_replication_slots WHERE slot_name = '" + d.name + "'")
	}
	noise := func() {
		d.exec("INSERT INTO noisy SELECT g, repeat('n', 1000) FROM generate_series(1, 60000) g", "SELECT pg_switch_wal()")
	}
	noise()
	r.WaitFor("a lag of less than 32 MB", func() bool { return len(lag()) < 2 || lag() < "32" && len(lag()) == 2 })
	// What another database writes comes through the same log.
	other := databaseOn(t, d.server)
	other.exec("CREATE TABLE noisy (id int, filler text)", "INSERT INTO noisy SELECT g, repeat('n', 1000) FROM generate_series(1, 60000) g", "SELECT pg_switch_wal()")
	written := d.text("SELECT pg_current_wal_lsn()")
	r.WaitFor("the slot to be behind what another database wrote", func() bool {
		return d.text("SELECT (confirmed_flush_lsn >= '"+written+"'::pg_lsn)::text FROM pg_replication_slots WHERE slot_name = '"+d.name+"'") == "true"
	})
	// A row that the log does not take holds the position.
	r.Block()
	d.exec("INSERT INTO quiet VALUES (1)")
	commit := d.text("SELECT pg_current_wal_insert_lsn()")
	noise()
	for range 10 { // the reports of three seconds
		if d.text("SELECT (confirmed_flush_lsn <= '"+commit+"'::pg_lsn)::text FROM pg_replication_slots WHERE slot_name = '"+d.name+"'") != "true" {
			t.Fatal("the slot was confirmed past a row that is not in the log")
		}
		time.Sleep(300 * time.Millisecond)
	}
	r.Stop()
	again := d.start(conf, store)
	rs := take(again, 1)
	wantLines(t, rs, "p.public.quiet {id:1} c null -> {id:1}")
}

// Case postgres/5: partitioned tables under their root's name.
func TestPartitionRoot(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE ev (id INT, r INT, PRIMARY KEY (id,r)) PARTITION BY RANGE (r)",
		"CREATE TABLE ev_1 PARTITION OF ev FOR VALUES FROM (0) TO (10)", "CREATE TABLE ev_2 PARTITION OF ev FOR VALUES FROM (10) TO (20)", "INSERT INTO ev VALUES (0,1)")
	root := d.config("table.include.list", "public.ev", "publish.via.partition.root", "true", "publication.name", "root")
	r := d.streaming(root, nil)
	d.exec("INSERT INTO ev VALUES (1,5)", "UPDATE ev SET r=15 WHERE id=1", "CREATE TABLE ev_3 PARTITION OF ev FOR VALUES FROM (20) TO (30)", "INSERT INTO ev VALUES (2,25)")
	wantLines(t, take(r, 6),
		"p.public.ev {id:0 r:1} r null -> {id:0 r:1}", "p.public.ev {id:1 r:5} c null -> {id:1 r:5}",
		"p.public.ev {id:1 r:5} d {id:1 r:5} -> null", "p.public.ev {id:1 r:5} tombstone null -> null",
		"p.public.ev {id:1 r:15} c null -> {id:1 r:15}", "p.public.ev {id:2 r:25} c null -> {id:2 r:25}")
	// A publication that sends them under their own names would send nothing that is
	// captured.
	d.exec("CREATE PUBLICATION plain FOR TABLE ev")
	wrong := d.start(d.config("table.include.list", "public.ev", "publish.via.partition.root", "true", "publication.name", "plain", "publication.autocreate.mode", "disabled", "slot.name", d.name+"3"), nil).Wait()
	if f := connectors.FailureOf(wrong); f == nil || f.Reason != reasonPublication || !strings.Contains(wrong.Error(), "SET (publish_via_partition_root = true)") {
		t.Errorf("a publication without the root option: %v", wrong)
	}
	// Without it a list that names the root alone would give nothing, in silence.
	err := d.start(d.config("table.include.list", "public.ev", "slot.name", d.name+"2", "publication.name", "leaves"), nil).Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonTables || !strings.Contains(err.Error(), "publish.via.partition.root") {
		t.Errorf("the root alone, without the option: %v", err)
	}
}

// Case postgres/6: columns renamed, dropped and made anew within the stream.
func TestShapesWithinTheStream(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE rn (id INT PRIMARY KEY, a INT, b INT)")
	store := &connectortest.OffsetStore{}
	r := d.streaming(d.config(), store)
	r.Stop()
	d.exec("INSERT INTO rn VALUES (1,10,20)", "ALTER TABLE rn RENAME a TO c", "INSERT INTO rn VALUES (2,11,21)",
		"ALTER TABLE rn DROP b", "ALTER TABLE rn ADD b TEXT DEFAULT 'seven'", "INSERT INTO rn (id,c) VALUES (3,12)",
		"BEGIN; INSERT INTO rn VALUES (4,13,'x'); ALTER TABLE rn RENAME c TO z; INSERT INTO rn VALUES (5,14,'y'); COMMIT")
	r = d.start(d.config(), store)
	rs := take(r, 5)
	wantLines(t, rs, "p.public.rn {id:1} c null -> {id:1 a:10 b:20}", "p.public.rn {id:2} c null -> {id:2 c:11 b:21}",
		"p.public.rn {id:3} c null -> {id:3 c:12 b:seven}", "p.public.rn {id:4} c null -> {id:4 c:13 b:x}", "p.public.rn {id:5} c null -> {id:5 z:14 b:y}")
	for i, rec := range rs {
		want := schema.Int32
		if i >= 2 {
			want = schema.String
		}
		if got := rec.Value.Get("after").Schema().Field("b").Kind(); got != want {
			t.Errorf("row %d: b is %v, want %v", i+1, got, want)
		}
		if err := schema.Validate(rec.ValueSchema, rec.Value); err != nil {
			t.Errorf("row %d: %v", i+1, err)
		}
	}
}

// TestShapesChange: what is done to a table while its changes are read, and while nobody
// reads: each row has the names and types that it was written with.
func TestShapesChange(t *testing.T) {
	d := newDatabase(t)
	steps := []struct{ sql, want string }{
		{"INSERT INTO a VALUES (1, 10)", "p.public.a {id:1} c {id:int32:1 v:int32:10}"},
		{"ALTER TABLE a ADD w text NOT NULL DEFAULT 'd'; INSERT INTO a VALUES (2, 20)", "p.public.a {id:2} c {id:int32:2 v:int32:20 w:string:d}"},
		{"ALTER TABLE a ALTER v TYPE bigint; INSERT INTO a VALUES (3, 30)", "p.public.a {id:3} c {id:int32:3 v:int64:30 w:string:d}"},
		{"ALTER TABLE a RENAME w TO x; INSERT INTO a VALUES (4, 40)", "p.public.a {id:4} c {id:int32:4 v:int64:40 x:string:d}"},
		{"ALTER TABLE a DROP v; INSERT INTO a VALUES (5)", "p.public.a {id:5} c {id:int32:5 x:string:d}"},
		{"ALTER TABLE a RENAME TO b; INSERT INTO b VALUES (6)", "p.public.b {id:6} c {id:int32:6 x:string:d}"},
		{"ALTER TABLE b DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (x, id); INSERT INTO b VALUES (7)", "p.public.b {x:d id:7} c {id:int32:7 x:string:d}"},
		{"DROP TABLE b; CREATE TABLE b (k text PRIMARY KEY, id numeric(5,2)); INSERT INTO b VALUES ('n', 8)", "p.public.b {k:n} c {k:string:n id:decimal:800e-2}"},
		{"CREATE TYPE mood AS ENUM ('ok'); ALTER TABLE b ADD m mood; INSERT INTO b VALUES ('o', 9, 'ok')", "p.public.b {k:o} c {k:string:o id:decimal:900e-2 m:string:ok}"},
		{"ALTER TABLE b SET SCHEMA other; INSERT INTO other.b VALUES ('p', 10, 'ok')", "p.other.b {k:p} c {k:string:p id:decimal:1000e-2 m:string:ok}"},
		{"BEGIN; ALTER TABLE other.b DROP m; INSERT INTO other.b VALUES ('q', 11); ROLLBACK; INSERT INTO other.b VALUES ('r', 12, NULL)", "p.other.b {k:r} c {k:string:r id:decimal:1200e-2 m:string:null}"},
	}
	line := func(r schema.Record) string {
		var parts []string
		after := r.Value.Get("after")
		for i, f := range after.Schema().Fields() {
			kind := strings.ToLower(f.Schema.ValueKind().String())
			parts = append(parts, f.Name+":"+kind+":"+text(after.Fields()[i]))
		}
		return fmt.Sprintf("%s %s %s {%s}", r.Topic, text(r.Key), op(r), strings.Join(parts, " "))
	}
	for _, live := range []bool{true, false} {
		d.exec("DROP SCHEMA IF EXISTS other CASCADE", "DROP TYPE IF EXISTS mood CASCADE", "DROP TABLE IF EXISTS a, b", "CREATE SCHEMA other", "CREATE TABLE a (id int PRIMARY KEY, v int)")
		conf, store := d.config("slot.name", fmt.Sprintf("%s_%t", d.name, live)), &connectortest.OffsetStore{}
		r := d.streaming(conf, store)
		if !live {
			r.Stop()
		}
		for i, s := range steps {
			for _, sql := range strings.Split(s.sql, "; ") {
				d.exec(sql)
			}
			if live {
				take(r, i+1)
			}
		}
		if !live {
			r = d.start(conf, store)
		}
		for i, rec := range take(r, len(steps)) {
			want := steps[i].want
			if !live { // of a table that is gone the order of the key's columns is not known any more
				want = strings.Replace(want, "{x:d id:7}", "{id:7 x:d}", 1)
			}
			if got := line(rec); got != want {
				t.Errorf("live %t, %s:\n  %s, want\n  %s", live, steps[i].sql, got, want)
			}
			if err := schema.Validate(rec.ValueSchema, rec.Value); err != nil {
				t.Errorf("live %t, %s: %v", live, steps[i].sql, err)
			}
		}
		r.Stop()
	}
}

// Case postgres/7: one TRUNCATE of several tables.
func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		name string
		more []string
		want []string
	}{
		{"by default truncates are not sent", nil, nil},
		{"skipped.operations=none sends one for each captured table", []string{"skipped.operations", "none"},
			[]string{"p.public.ta null t null -> null", "p.public.tb null t null -> null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE TABLE ta (id INT PRIMARY KEY)", "CREATE TABLE tb (id INT PRIMARY KEY)", "CREATE TABLE tc (id INT PRIMARY KEY)", "INSERT INTO ta VALUES (1)")
			store := &connectortest.OffsetStore{}
			r := d.streaming(d.config(append(c.more, "table.include.list", "public.ta,public.tb")...), store)
			d.exec("TRUNCATE ta, tb, tc", "INSERT INTO ta VALUES (2)")
			want := append(append([]string{"p.public.ta {id:1} r null -> {id:1}"}, c.want...), "p.public.ta {id:2} c null -> {id:2}")
			wantLines(t, take(r, len(want)), want...)
		})
	}
}

// TestSnapshotAndStreamAgree: the same row, read both ways, gives equal schemas, keys
// and values, in every mode of the settings, with values that look like the format's
// own marks.
func TestSnapshotAndStreamAgree(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE EXTENSION hstore", "CREATE TYPE mood AS ENUM ('sad', 'a b')",
		`CREATE TABLE t (id int PRIMARY KEY, txt text, txts text[], by bytea, bys bytea[], n numeric, n2 numeric(30,10), n3 numeric(5,-2), m money, f real, g double precision,
		d date, ti time, ti3 time(3), tz timetz, ts timestamp, ts3 timestamp(3), tsz timestamptz, tsz3 timestamptz(3), iv interval, j json, jb jsonb, h hstore, e mood, es mood[], b bit(3), vb varbit, p point, c char(4), ii int[], r int4range, x xml, gen int GENERATED ALWAYS AS (id * 2) STORED)`)
	row := func(id int) string {
		return fmt.Sprintf(`(%d, E'tab\t nl\n cr\r bs\\ \\N \b\fv "q" '' ü 😀', ARRAY[E'a\tb', NULL, 'NULL', '', E'\\', '{x}', 'a,b', '"'], E'\\x005c4e0a09', ARRAY['\x00'::bytea, '\x5c'::bytea],
			-123456789012345678901234567890.0123456789, 12345678901234567890.0123456789, 12300, -1234.56, 'Infinity', 'NaN',
			'2024-02-29', '23:59:59.999999', '12:34:56.789', '00:30:00+02', '2024-02-29 12:34:56.000001', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012+05:30', '2024-02-29 12:34:56.789+00', '-1 year -2 mons +3 days -04:05:06.789',
			'{"a": "\t"}', '{"a": "\\"}', E'"k\\"1"=>"v\\\\",n=>NULL', 'a b', ARRAY['a b','sad']::mood[], B'101', B'0101', '(1.5,-2)', 'x', '{1,NULL,-3}', '[1,5)', '<a>\t</a>')`, id)
	}
	const columns = "id, txt, txts, by, bys, n, n2, n3, m, f, g, d, ti, ti3, tz, ts, ts3, tsz, tsz3, iv, j, jb, h, e, es, b, vb, p, c, ii, r, x"
	d.exec("INSERT INTO t (" + columns + ") VALUES " + row(1))
	modes := [][]string{
		{}, {"time.precision.mode", "connect", "decimal.handling.mode", "string", "binary.handling.mode", "base64", "hstore.handling.mode", "map", "interval.handling.mode", "string"},
		{"time.precision.mode", "isostring", "decimal.handling.mode", "double", "binary.handling.mode", "hex"},
		{"time.precision.mode", "nanoseconds", "binary.handling.mode", "base64-url-safe", "include.unknown.datatypes", "true"},
		{"time.precision.mode", "microseconds"}, {"time.precision.mode", "adaptive_time_microseconds", "column.exclude.list", "public.t.(b|p)"},
	}
	var runs []*connectortest.SourceRun
	for i, m := range modes {
		runs = append(runs, d.streaming(d.config(append(m, "slot.name", fmt.Sprintf("%s%d", d.name, i))...), nil))
	}
	d.exec("INSERT INTO t (" + columns + ") VALUES " + row(2))
	for i, r := range runs {
		rs := take(r, 2)
		if !schema.Equal(rs[0].ValueSchema, rs[1].ValueSchema) || !schema.Equal(rs[0].KeySchema, rs[1].KeySchema) {
			t.Errorf("%v: the schemas differ", modes[i])
		}
		a, b := rs[0].Value.Get("after"), rs[1].Value.Get("after")
		for n, f := range a.Schema().Fields() {
			if x, y := a.Fields()[n], b.Fields()[n]; f.Name != "id" && !schema.EqualValues(x, y) {
				t.Errorf("%v: %s is %s in the snapshot and %s in the stream", modes[i], f.Name, text(x), text(y))
			}
			if f.Name == "gen" {
				t.Errorf("%v: the generated column is sent", modes[i])
			}
		}
		for _, rec := range rs {
			if err := schema.Validate(rec.ValueSchema, rec.Value); err != nil {
				t.Errorf("%v: %v", modes[i], err)
			}
		}
	}
	got := take(runs[0], 2)[0].Value.Get("after")
	for name, want := range map[string]string{
		"txt": "tab\t nl\n cr\r bs\\ \\N \b\fv \"q\" ' ü 😀", "n2": "123456789012345678900123456789e-10", "n3": "123e--2", "m": "-123456e-2",
		"tsz": "2024-02-29T07:04:56.789012Z", "tsz3": "2024-02-29T12:34:56.789Z", "tz": "22:30:00Z", "iv": text(schema.Int64Value((-14*2629800+3*86400-14706)*1000000 - 789000)),
		"h": `{"k\"1":"v\\","n":null}`, "c": "x   ", "vb": "05", "txts": "[a\tb null NULL  \\ {x} a,b \"]",
	} {
		if have := text(got.Get(name)); have != want {
			t.Errorf("%s is %q, want %q", name, have, want)
		}
	}
}

// TestSettingsThatShapeRows: each of these turns red without its effect.
func TestSettingsThatShapeRows(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE s (id int, a text, b text, c varchar(10), PRIMARY KEY (id))", "COMMENT ON COLUMN s.a IS 'the a'", "CREATE TABLE o (id int PRIMARY KEY)", "INSERT INTO s VALUES (1, 'päßwörd', 'xyz', 'abcdefghij')", "INSERT INTO o VALUES (1)")
	n := 0
	snap := func(more ...string) []schema.Record {
		t.Helper()
		n++
		r := d.start(d.config(append([]string{"slot.name", fmt.Sprintf("%s_%d", d.name, n), "table.include.list", "public.s"}, more...)...), nil)
		r.WaitFor("the snapshot", func() bool {
			bs := r.Batches()
			if len(bs) == 0 {
				return false
			}
			v, _ := bs[len(bs)-1].Offsets[0].Position.Lookup("snapshot_completed")
			return v.Bool()
		})
		r.Stop()
		d.dropSlot(fmt.Sprintf("%s_%d", d.name, n))
		return r.Records()
	}
	one := func(want string, more ...string) {
		t.Helper()
		rs := snap(more...)
		if len(rs) != 1 {
			t.Fatalf("%v: %d records", more, len(rs))
		}
		if got := rs[0].Topic + " " + text(rs[0].Key) + " " + text(rs[0].Value.Get("after")); got != want {
			t.Errorf("%v:\n  %s, want\n  %s", more, got, want)
		}
	}
	one("p.public.s {id:1} {id:1 a:päßwörd b:xyz c:abcdefghij}")
	one("p.public.s {id:1} {id:1 a:päßwörd}", "column.include.list", "public.s.a")
	one("p.public.s {id:1} {id:1 b:xyz c:abcdefghij}", "column.exclude.list", "public.s.a,public.s.id")
	one("p.public.s {id:1} {id:1 a:*** b:xyz c:abcdefghij}", "column.mask.with.3.chars", "public.s.a")
	one("p.public.s {id:1} {id:1 a:päß b:xyz c:abcdefghij}", "column.truncate.to.3.chars", "public.s.a")
	one("p.public.s {b:xyz id:1} {id:1 a:päßwörd b:xyz c:abcdefghij}", "message.key.columns", "public.s:b,id")
	one("x-p-public-s {id:1} {id:1 a:päßwörd b:xyz c:abcdefghij}", "topic.delimiter", "-", "topic.prefix", "x-p")
	one("p.public.s {id:1} {id:1 a:other b:null c:null}", "snapshot.select.statement.overrides", "public.s", "snapshot.select.statement.overrides.public.s", "SELECT 1 AS id, 'other' AS a, NULL AS b, NULL AS c;")
	if rs := snap("snapshot.include.collection.list", "public.o"); len(rs) != 0 {
		t.Errorf("snapshot.include.collection.list: %v", lines(rs))
	}
	if rs := snap("snapshot.mode", "no_data"); len(rs) != 0 {
		t.Errorf("snapshot.mode=no_data: %v", lines(rs))
	}
	if rs := snap("table.include.list", "public.*", "snapshot.tables.order.by.row.count", "descending", "snapshot.locking.mode", "shared"); len(rs) != 2 {
		t.Errorf("all tables: %v", lines(rs))
	}
	if h := snap("extended.headers.enabled", "false")[0].Headers; len(h) != 0 {
		t.Errorf("extended.headers.enabled=false: headers %v", h)
	}
	if doc := snap("include.schema.comments", "true")[0].Value.Get("after").Schema().Field("a").Doc(); doc != "the a" {
		t.Errorf("include.schema.comments: %q", doc)
	}
	if name := snap("topic.prefix", "p-1", "schema.name.adjustment.mode", "avro")[0].ValueSchema.Name(); name != "p_1.public.s.Envelope" {
		t.Errorf("schema.name.adjustment.mode=avro: %s", name)
	}
	hash := text(snap("column.mask.hash.SHA-256.with.salt.salt", "public.s.(b|c)")[0].Value.Get("after"))
	if !strings.Contains(hash, "b:"+sha("salt", "xyz")) || !strings.Contains(hash, "c:"+sha("salt", "abcdefghij")[:10]+"}") {
		t.Errorf("column.mask.hash: %s", hash)
	}
	plain := sha256.Sum256([]byte("saltxyz"))
	if again := text(snap("column.mask.hash.v2.SHA-256.with.salt.salt", "public.s.b")[0].Value.Get("after")); !strings.Contains(again, "b:"+hex.EncodeToString(plain[:])) {
		t.Errorf("column.mask.hash.v2: %s", again)
	}
}

// TestMessagesAndHeartbeats: records that are no rows.
func TestMessagesAndHeartbeats(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE beats (n int)")
	r := d.streaming(d.config("heartbeat.interval.ms", "200", "message.prefix.include.list", "yes.*", "heartbeat.action.query", "INSERT INTO public.beats VALUES (1)", "table.include.list", "public.t"), nil)
	d.exec("SELECT pg_logical_emit_message(true, 'yes1', 'in')", "SELECT pg_logical_emit_message(true, 'no', 'out')", "SELECT pg_logical_emit_message(false, 'yes2', 'free')", "INSERT INTO t VALUES (1)")
	r.WaitFor("the row and two heartbeats", func() bool {
		return len(on(r.Records(), "p.public.t")) == 1 && len(on(r.Records(), "__debezium-heartbeat.p")) >= 2
	})
	r.Stop()
	var got []string
	for _, m := range on(r.Records(), "p.message") {
		got = append(got, text(m.Key)+" "+string(m.Value.Get("message").Get("content").Bytes())+" "+fmt.Sprint(m.Value.Get("source").Get("txId").IsNull()))
	}
	if fmt.Sprint(got) != "[{prefix:yes1} in false {prefix:yes2} free true]" {
		t.Errorf("messages %v", got)
	}
	beat := on(r.Records(), "__debezium-heartbeat.p")[0]
	if text(beat.Key) != "{serverName:p}" || beat.Partition != 0 || beat.Value.Get("ts_ms").Int() == 0 {
		t.Errorf("heartbeat %s %s in partition %d", text(beat.Key), text(beat.Value), beat.Partition)
	}
	if n := d.text("SELECT (count(*) >= 2)::text FROM beats"); n != "true" {
		t.Error("heartbeat.action.query did not run")
	}
}

// TestPublicationModes: what each of the four does.
func TestPublicationModes(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
	tables := func(name string) string {
		return d.text("SELECT coalesce(string_agg(tablename, ',' ORDER BY tablename), '') FROM pg_publication_tables WHERE pubname = '" + name + "'")
	}
	run := func(name, mode, include string) {
		t.Helper()
		r := d.streaming(d.config("publication.name", name, "publication.autocreate.mode", mode, "table.include.list", include, "slot.name", d.name+name), nil)
		r.Stop()
		d.dropSlot(d.name + name)
	}
	for _, c := range []struct{ name, mode, include, want string }{
		{"all", "all_tables", "public.a", "a,b"}, {"some", "filtered", "public.a", "a"}, {"some", "filtered", "public.b", "b"}, {"none", "no_tables", "public.a", ""},
		{"some", "all_tables", "public.a", "b"}, {"some", "disabled", "public.a", "b"},
	} {
		run(c.name, c.mode, c.include)
		if got := tables(c.name); got != c.want {
			t.Errorf("%s of %s: the publication has %q, want %q", c.mode, c.include, got, c.want)
		}
	}
	// What is in a publication keeps its filter when another table comes in.
	if d.text("SHOW server_version_num") >= "150000" {
		d.exec("CREATE PUBLICATION part FOR TABLE a WHERE (id <> 2)")
		run("part", "filtered", "public.(a|b)")
		if got := tables("part"); got != "a,b" {
			t.Errorf("filtered of two tables: the publication has %q", got)
		}
		if f := d.text("SELECT rowfilter FROM pg_publication_tables WHERE pubname = 'part' AND tablename = 'a'"); f != "(id <> 2)" {
			t.Errorf("the filter of table a is %q now", f)
		}
	}
	err := d.start(d.config("publication.name", "absent", "publication.autocreate.mode", "disabled"), nil).Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonPublication {
		t.Errorf("disabled without a publication: %v", err)
	}
}

// TestPublishedPart: a publication that lets some columns and rows through does so in
// the snapshot as in the stream.
func TestPublishedPart(t *testing.T) {
	d := newDatabase(t)
	if d.text("SHOW server_version_num") < "150000" {
		t.Skip("Postgres 14 and older have no such publications")
	}
	d.exec("CREATE TABLE a (id int PRIMARY KEY, x text, y text)", "INSERT INTO a VALUES (1, 'x', 'y'), (2, 'x', 'y')",
		"CREATE PUBLICATION part FOR TABLE a (id, x) WHERE (id <> 2)")
	r := d.streaming(d.config("publication.name", "part", "publication.autocreate.mode", "disabled"), nil)
	d.exec("INSERT INTO a VALUES (3, 'x', 'y')")
	rs := take(r, 2)
	wantLines(t, rs, "p.public.a {id:1} r null -> {id:1 x:x}", "p.public.a {id:3} c null -> {id:3 x:x}")
	if !schema.Equal(rs[0].ValueSchema, rs[1].ValueSchema) {
		t.Error("the schemas differ")
	}
}

// TestEnumGainsALabel while the task runs.
func TestEnumGainsALabel(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE a (id int PRIMARY KEY, m mood)")
	r := d.streaming(d.config(), nil)
	d.exec("INSERT INTO a VALUES (1, 'sad')")
	take(r, 1)
	d.exec("ALTER TYPE mood ADD VALUE 'ok'", "ALTER TABLE a ADD x int", "INSERT INTO a VALUES (2, 'ok')")
	rs := take(r, 2)
	if allowed, _ := rs[1].Value.Get("after").Schema().Field("m").Param("allowed"); allowed != "sad,ok" {
		t.Errorf("allowed labels %q", allowed)
	}
}

// TestReplicaIdentities: what identities are set, and what an update of a table with
// the full one is when nothing captured changed.
func TestReplicaIdentities(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY, x text, y text)")
	r := d.streaming(d.config("replica.identity.autoset.values", "public.a:FULL", "skip.messages.without.change", "true", "column.exclude.list", "public.a.y"), nil)
	d.exec("INSERT INTO a VALUES (1, 'x', 'y')", "UPDATE a SET y = 'z'", "UPDATE a SET x = 'w'")
	wantLines(t, take(r, 2), "p.public.a {id:1} c null -> {id:1 x:x}", "p.public.a {id:1} u {id:1 x:x} -> {id:1 x:w}")
}

// TestUnreadableValues: an array of two dimensions has no place in the model.
func TestUnreadableValues(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY, m int[])")
	store := &connectortest.OffsetStore{}
	r := d.streaming(d.config(), store)
	d.exec("INSERT INTO a VALUES (1, '{1}')", "INSERT INTO a VALUES (2, '{{1,2},{3,4}}')", "INSERT INTO a VALUES (3, '{3}')")
	err := r.Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonData || connectors.RetryOf(err) != connectors.RetryNever {
		t.Fatalf("the task said %v, want the reason %s", err, reasonData.Code)
	}
	for _, w := range []string{"public.a", `"m"`, "LSN", "column.exclude.list"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the message: %v", w, err)
		}
	}
	r = d.start(d.config("event.processing.failure.handling.mode", "warn"), store)
	r.WaitFor("the row behind it", func() bool {
		rs := r.Records()
		return len(rs) > 0 && rs[len(rs)-1].Key.Get("id").Int() == 3
	})
	for _, l := range lines(r.Records()) {
		if strings.Contains(l, "{id:2}") {
			t.Errorf("the unreadable row came: %s", l)
		}
	}
}

// TestDebeziumOffset resumes where Debezium's own connector stopped, within a
// transaction too: nothing is lost.
func TestDebeziumOffset(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)")
	conf, store := d.config(), &connectortest.OffsetStore{}
	r := d.streaming(conf, store)
	r.Stop()
	// The transaction of rows 2 to 5 begins before that of row 1 and ends behind it.
	other := d.server.Connect(t, d.name).PgConn()
	also := func(sql string) {
		t.Helper()
		if _, err := other.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	also("BEGIN; INSERT INTO t SELECT g, 2 FROM generate_series(2, 3) g")
	d.exec("INSERT INTO t VALUES (1, 1)")
	also("INSERT INTO t SELECT g, 2 FROM generate_series(4, 5) g; COMMIT")
	d.exec("INSERT INTO t VALUES (6, 3)")
	r = d.start(conf, store.Clone(), connectortest.Uncommitted)
	rs := take(r, 6)
	r.Stop()
	for at, rec := range rs {
		src := rec.Value.Get("source")
		var sequence []*string // the last commit and the row
		if err := json.Unmarshal([]byte(src.Get("sequence").Str()), &sequence); err != nil || len(sequence) != 2 {
			t.Fatalf("sequence %s: %v", src.Get("sequence").Str(), err)
		}
		var commit schema.Value
		if sequence[0] != nil {
			n, err := strconv.ParseInt(*sequence[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			commit = schema.Int64Value(n)
		}
		foreign := &connectortest.OffsetStore{}
		str := schema.StringValue
		foreign.Put(t, []connectors.Offset{{Partition: schema.MapValue([]schema.Entry{{Key: str("server"), Value: str("p")}}), Position: schema.MapValue([]schema.Entry{
			{Key: str("lsn_proc"), Value: src.Get("lsn")}, {Key: str("messageType"), Value: str("INSERT")}, {Key: str("lsn_commit"), Value: commit},
			{Key: str("lsn"), Value: src.Get("lsn")}, {Key: str("txId"), Value: src.Get("txId")}, {Key: str("ts_usec"), Value: src.Get("ts_us")}})}})
		again := d.start(conf, foreign, connectortest.Uncommitted)
		again.WaitFor("the last row", func() bool {
			rs := again.Records()
			return len(rs) > 0 && rs[len(rs)-1].Key.Get("id").Int() == 6
		})
		again.Stop()
		first := again.Records()[0].Key.Get("id").Int()
		if first > int64(at)+2 {
			t.Errorf("behind row %d: resumed at row %d", at+1, first)
		}
		// The row itself comes again, since others may share its LSN; none before it.
		if first < int64(at)+1 {
			t.Errorf("behind row %d: resumed at row %d, which was sent long ago", at+1, first)
		}
	}
}
