package mysql

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// eachServer runs a test on MySQL and on MariaDB.
func eachServer(t *testing.T, f func(t *testing.T, d *database)) {
	for _, c := range []struct {
		name string
		of   func(testing.TB) *peers.MySQLServer
	}{{"MySQL", peers.MySQL}, {"MariaDB", peers.MariaDB}} {
		t.Run(c.name, func(t *testing.T) { f(t, databaseOn(t, c.of(t))) })
	}
}

// show is a value for comparison: bytes in base64, decimals as their bytes.
func show(v schema.Value) string {
	switch v.Kind() {
	case schema.Null:
		return "null"
	case schema.Bytes:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case schema.Decimal:
		return base64.StdEncoding.EncodeToString(v.AppendUnscaled(nil))
	case schema.String:
		return v.Str()
	case schema.Bool:
		return fmt.Sprint(v.Bool())
	case schema.Float32, schema.Float64:
		return fmt.Sprint(v.Float())
	case schema.Struct:
		var parts []string
		for i, f := range v.Fields() {
			parts = append(parts, v.Schema().Fields()[i].Name+":"+show(f))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case schema.Array:
		var parts []string
		for _, e := range v.Elems() {
			parts = append(parts, show(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v.Int())
}

// lines are a topic's events in short: operation, key, the new row's columns but the key's.
func lines(records []schema.Record, topic string) []string {
	var out []string
	for _, r := range on(records, topic) {
		row := r.Value.Get("after")
		line := op(r) + " " + show(r.Key)
		if !row.IsNull() {
			line += " " + show(row)
		}
		out = append(out, line)
	}
	return out
}

// cell is a column of the row that a topic's last event of its key brought.
func cell(t *testing.T, records []schema.Record, topic string, key int64, name string) string {
	t.Helper()
	for _, r := range slices.Backward(on(records, topic)) {
		row := r.Value.Get("after")
		if r.Value.IsNull() || row.IsNull() || row.Get("id").Int() != key {
			continue
		}
		if row.Schema().Index(name) < 0 {
			t.Fatalf("%s: no column %q", topic, name)
		}
		return show(row.GetRaw(name))
	}
	t.Fatalf("%s: no row %d", topic, key)
	return ""
}

// caught starts a connector once what is to be in its snapshot is there, runs more
// statements while it streams, and returns all it sent once the row of the marker came.
func (d *database) caught(setup, stream []string, more ...string) []schema.Record {
	d.Helper()
	d.exec(setup...)
	d.exec("CREATE TABLE marker (id INT PRIMARY KEY)")
	r := d.start(d.config(more...), &connectortest.OffsetStore{})
	streaming(r)
	d.exec(stream...)
	d.exec("SET SESSION binlog_row_image = 'FULL'", "INSERT INTO marker VALUES (1)")
	d.marked(r, 1)
	r.Stop()
	return r.Records()
}

func (d *database) marked(r *connectortest.SourceRun, n int64) {
	d.Helper()
	r.WaitFor("the marker", func() bool {
		m := on(r.Records(), "p."+d.name+".marker")
		return len(m) > 0 && m[len(m)-1].Key.Get("id").Int() == n
	})
}

// mysql-values/1
func TestUnsignedIntegersAreNeitherNegativeNorTooLarge(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE u1 (id INT PRIMARY KEY, b BIGINT UNSIGNED, m MEDIUMINT UNSIGNED, t TINYINT UNSIGNED)",
			"CREATE TABLE uk (id BIGINT UNSIGNED PRIMARY KEY)", "CREATE TABLE marker (id INT PRIMARY KEY)",
			"INSERT INTO u1 VALUES (1, 18446744073709551615, 16777215, 255)", "INSERT INTO uk VALUES (18446744073709551615)")
		for i, c := range []struct{ mode, want string }{{"precise", "AP//////////"}, {"string", "18446744073709551615"}, {"long", "-1"}} {
			r := d.start(d.config("bigint.unsigned.handling.mode", c.mode), &connectortest.OffsetStore{})
			streaming(r)
			d.exec("DELETE FROM u1 WHERE id = 2", "INSERT INTO u1 VALUES (2, 18446744073709551615, 16777215, 255)",
				"UPDATE uk SET id = 18446744073709551614", "UPDATE uk SET id = 18446744073709551615", fmt.Sprintf("INSERT INTO marker VALUES (%d)", i))
			d.marked(r, int64(i))
			r.Stop()
			topic := "p." + d.name + ".u1"
			for id := int64(1); id <= 2; id++ {
				got := []string{cell(t, r.Records(), topic, id, "b"), cell(t, r.Records(), topic, id, "m"), cell(t, r.Records(), topic, id, "t")}
				if want := []string{c.want, "16777215", "255"}; !slices.Equal(got, want) {
					t.Errorf("%s: row %d is %q, want %q", c.mode, id, got, want)
				}
			}
			keys := on(r.Records(), "p."+d.name+".uk")
			if first, last := show(keys[0].Key), show(keys[len(keys)-1].Key); first != last {
				t.Errorf("%s: the key is %s in the snapshot and %s in the stream", c.mode, first, last)
			}
		}
	})
}

// mysql-values/2
func TestNegativeTimesKeepSignAndFraction(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		rows := "(%d1,'-838:59:59','-00:00:00.07','-838:59:59','-16:08:04.250'), (%d2,'838:59:59','00:00:00.07','-00:00:00.000001','-00:00:00.001')"
		got := d.caught([]string{"CREATE TABLE t1 (id INT PRIMARY KEY, a TIME, b TIME(2), c TIME(6), d TIME(3))", "INSERT INTO t1 VALUES " + fmt.Sprintf(rows, 1, 1)},
			[]string{"INSERT INTO t1 VALUES " + fmt.Sprintf(rows, 2, 2)})
		want := map[int64][]string{1: {"-3020399000000", "-70000", "-3020399000000", "-58084250000"}, 2: {"3020399000000", "70000", "-1", "-1000"}}
		for n, cols := range want {
			for i, name := range []string{"a", "b", "c", "d"} {
				for _, id := range []int64{10 + n, 20 + n} {
					if v := cell(t, got, "p."+d.name+".t1", id, name); v != cols[i] {
						t.Errorf("row %d: %s is %s, want %s", id, name, v, cols[i])
					}
				}
			}
		}
	})
}

// mysql-values/3
func TestPartialJSONUpdatesApplyEveryChange(t *testing.T) {
	d := newDatabase(t)
	got := d.caught([]string{"CREATE TABLE j1 (id INT PRIMARY KEY, j JSON, note VARCHAR(10), k JSON)"}, []string{
		`INSERT INTO j1 VALUES (1, '{"id":1,"name":"long enough that a diff pays off .......................","tags":["a","b"]}', 'n', '{"a":"another one, long enough that a diff pays off ............","b":1}')`,
		"SET SESSION binlog_row_value_options='PARTIAL_JSON'",
		"UPDATE j1 SET j=JSON_SET(j,'$.id',2,'$.star',5) WHERE id=1",
		"UPDATE j1 SET j=JSON_REMOVE(j,'$.tags[0]'), note='m' WHERE id=1",
		`UPDATE j1 SET k=JSON_SET(k,'$.b',JSON_OBJECT('x y', 1.5, 'a"b', 'tab	and \\ slash'), '$."a.c"', JSON_ARRAY(1)) WHERE id=1`,
		`UPDATE j1 SET k=JSON_SET(k,'$.b."x y"',CAST('12.50' AS DECIMAL(5,2)),'$."a.c"[1]',JSON_ARRAY()), j=JSON_SET(j,'$.tags[0]','c') WHERE id=1`,
		"UPDATE j1 SET k=JSON_ARRAY_INSERT(k,'$.\"a.c\"[0]',0), note=NULL WHERE id=1",
		"UPDATE j1 SET k=NULL, j=JSON_REMOVE(j,'$.star')",
	})
	name := "long enough that a diff pays off ......................."
	other := "another one, long enough that a diff pays off ............"
	want := [][3]string{
		{`{"id":1,"name":"` + name + `","tags":["a","b"]}`, "n", `{"a":"` + other + `","b":1}`},
		{`{"id":2,"name":"` + name + `","star":5,"tags":["a","b"]}`, "n", `{"a":"` + other + `","b":1}`},
		{`{"id":2,"name":"` + name + `","star":5,"tags":["b"]}`, "m", `{"a":"` + other + `","b":1}`},
		{`{"id":2,"name":"` + name + `","star":5,"tags":["b"]}`, "m", `{"a":"` + other + `","b":{"a\"b":"tab\tand \\ slash","x y":1.5},"a.c":[1]}`},
		{`{"id":2,"name":"` + name + `","star":5,"tags":["c"]}`, "m", `{"a":"` + other + `","b":{"a\"b":"tab\tand \\ slash","x y":12.50},"a.c":[1,[]]}`},
		{`{"id":2,"name":"` + name + `","star":5,"tags":["c"]}`, "null", `{"a":"` + other + `","b":{"a\"b":"tab\tand \\ slash","x y":12.50},"a.c":[0,1,[]]}`},
		{`{"id":2,"name":"` + name + `","tags":["c"]}`, "null", "null"},
	}
	events := on(got, "p."+d.name+".j1")
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d", len(events), len(want))
	}
	for i, w := range want {
		row := events[i].Value.Get("after")
		for at, name := range []string{"j", "note", "k"} {
			have, need := show(row.Get(name)), w[at]
			if name != "note" {
				have, need = sortedJSON(t, have), sortedJSON(t, need)
			}
			if have != need {
				t.Errorf("event %d: %s is %s, want %s", i, name, have, need)
			}
		}
		if i > 0 && show(events[i].Value.Get("before").Get("j")) != show(events[i-1].Value.Get("after").Get("j")) {
			t.Errorf("event %d: the old document is not what the new one was before", i)
		}
	}
}

// mysql-values/4
func TestBinaryKeepsItsZeros(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		got := d.caught([]string{"CREATE TABLE b1 (k BINARY(6) PRIMARY KEY, v VARBINARY(6))", "INSERT INTO b1 VALUES (0x610000000000, 0x610000)"},
			[]string{"INSERT INTO b1 VALUES (0x620000000000, 0x620000)", "DELETE FROM b1"})
		want := []string{"r {k:YQAAAAAA} {k:YQAAAAAA v:YQAA}", "c {k:YgAAAAAA} {k:YgAAAAAA v:YgAA}", "d {k:YQAAAAAA}", "tombstone {k:YQAAAAAA}", "d {k:YgAAAAAA}", "tombstone {k:YgAAAAAA}"}
		if have := lines(got, "p."+d.name+".b1"); !slices.Equal(have, want) {
			t.Errorf("%q, want %q", have, want)
		}
	})
}

// mysql-values/5
func TestBitsAndBooleans(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		def := " (id INT PRIMARY KEY, b1 BIT(1), b10 BIT(10), b64 BIT(64), bo BOOLEAN, ti TINYINT(1))"
		row := "(%d, b'1', b'1100000001', b'1000000000000000000000000000000000000000000000000000000000000001', TRUE, -1)"
		got := d.caught([]string{"CREATE TABLE bt" + def, "INSERT INTO bt VALUES " + fmt.Sprintf(row, 1)},
			[]string{"INSERT INTO bt VALUES " + fmt.Sprintf(row, 2)})
		for _, id := range []int64{1, 2} {
			for name, want := range map[string]string{"b1": "true", "b10": "AQM=", "b64": "AQAAAAAAAIA=", "bo": "1", "ti": "-1"} {
				if v := cell(t, got, "p."+d.name+".bt", id, name); v != want {
					t.Errorf("row %d: %s is %s, want %s", id, name, v, want)
				}
			}
		}
		rows := on(got, "p."+d.name+".bt")
		if !schema.Equal(rows[0].ValueSchema, rows[1].ValueSchema) {
			t.Error("the schema of the snapshot is not the stream's")
		}
		if k := rows[0].ValueSchema.Field("after").Field("bo").Kind(); k != schema.Int16 {
			t.Errorf("a BOOLEAN is %v", k)
		}
	})
}

// mysql-log/1
func TestDistributedTransactionsAreSentWhenTheyCommit(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		store := &connectortest.OffsetStore{}
		d.exec("CREATE TABLE x1 (id INT PRIMARY KEY)", "CREATE TABLE marker (id INT PRIMARY KEY)")
		other := d.server.Connect(t, d.name)
		// One that was prepared before the snapshot.
		name := func(s string) string { return "'" + d.name + s + "'" }
		d.exec("XA START "+name("r0"), "INSERT INTO x1 VALUES (70), (71)", "XA END "+name("r0"), "XA PREPARE "+name("r0"))
		run := func(mark int64, statements func()) []schema.Record {
			r := d.start(d.config("snapshot.locking.mode", "none"), store)
			if mark == 1 {
				streaming(r)
			}
			statements()
			if _, err := other.Execute(fmt.Sprintf("INSERT INTO marker VALUES (%d)", mark)); err != nil {
				t.Fatal(err)
			}
			d.marked(r, mark)
			r.Stop()
			return r.Records()
		}
		got := run(1, func() {
			d2 := *d
			d2.conn = d.server.Connect(t, d.name)
			d2.exec("XA START "+name("r1"), "INSERT INTO x1 VALUES (79)", "XA END "+name("r1"), "XA PREPARE "+name("r1"), "XA ROLLBACK "+name("r1"))
			d2.exec("XA START "+name("r3"), "INSERT INTO x1 VALUES (80)", "XA END "+name("r3"), "XA COMMIT "+name("r3")+" ONE PHASE")
			d2.exec("XA START "+name("r2"), "INSERT INTO x1 VALUES (77)", "XA END "+name("r2"), "XA PREPARE "+name("r2"))
			if _, err := other.Execute("INSERT INTO x1 VALUES (78)"); err != nil {
				t.Fatal(err)
			}
			d.exec("XA COMMIT " + name("r0"))
			d.conn = d2.conn
		})
		got = append(got, run(2, func() { d.exec("XA COMMIT " + name("r2")) })...)
		want := []string{"c {id:80} {id:80}", "c {id:78} {id:78}", "c {id:70} {id:70}", "c {id:71} {id:71}", "c {id:77} {id:77}"}
		if have := lines(got, "p."+d.name+".x1"); !slices.Equal(have, want) {
			t.Errorf("%q, want %q", have, want)
		}
		if n := d.text("SELECT COUNT(*) FROM x1"); n != "5" {
			t.Errorf("the table has %s rows", n)
		}
		last, _ := store.All(t.Context())
		if _, has := last[0].Position.Lookup(offPrepared); has {
			t.Error("the position still knows prepared transactions")
		}
	})
}

// mysql-log/2
func TestRowImagesNeverTurnColumnsIntoNulls(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE m1 (id INT PRIMARY KEY, a INT, b VARCHAR(10) DEFAULT 'dd', c BLOB, n INT)", "CREATE TABLE marker (id INT PRIMARY KEY)")
		store := &connectortest.OffsetStore{}
		r := d.start(d.config("column.exclude.list", d.name+".m1.n"), store)
		streaming(r)
		d.exec("INSERT INTO m1 VALUES (1,1,'x','blob',1)", "SET SESSION binlog_row_image='NOBLOB'", "UPDATE m1 SET a=2 WHERE id=1", "UPDATE m1 SET b=NULL, c=NULL WHERE id=1",
			"UPDATE m1 SET c='new' WHERE id=1", "SET SESSION binlog_row_image='FULL'", "INSERT INTO marker VALUES (1)")
		d.marked(r, 1)
		placeholder := base64.StdEncoding.EncodeToString([]byte(placeholder))
		want := []string{"c {id:1} {id:1 a:1 b:x c:YmxvYg==}", "u {id:1} {id:1 a:2 b:x c:" + placeholder + "}", "u {id:1} {id:1 a:2 b:null c:null}", "u {id:1} {id:1 a:2 b:null c:bmV3}"}
		if have := lines(r.Records(), "p."+d.name+".m1"); !slices.Equal(have, want) {
			t.Errorf("%q, want %q", have, want)
		}
		// What no value can stand for stops the task where it stands.
		d.exec("SET SESSION binlog_row_image='MINIMAL'", "UPDATE m1 SET a=3 WHERE id=1", "SET SESSION binlog_row_image='FULL'")
		err := r.Wait()
		if f := connectors.FailureOf(err); f == nil || f.Reason != reasonRowImage || !strings.Contains(err.Error(), "binlog_row_image") {
			t.Errorf("the task ended with %v", err)
		}
		if n := len(on(r.Records(), "p."+d.name+".m1")); n != len(want) {
			t.Errorf("%d events", n)
		}
	})
}

// TestUpdatesWithoutWhatIsAlike: binlog_row_image=FULL_NODUP (MariaDB 11.4) logs the old row whole and of the new one what
// changed. No such server is among the peers: the event is made by hand.
func TestUpdatesWithoutWhatIsAlike(t *testing.T) {
	def := &Table{ID: TableID{"d", "t"}, PrimaryKey: []string{"id"}, Columns: []Column{
		{Name: "id", Type: Int, Length: NoLength, Scale: NoLength}, {Name: "v", Type: VarChar, Length: 100, Charset: "utf8mb4", Nullable: true},
		{Name: "n", Type: Int, Length: NoLength, Scale: NoLength, Nullable: true}, {Name: "x", Type: Int, Length: NoLength, Scale: NoLength, Nullable: true},
	}}
	tk := &task{s: &settings{prefix: "p"}, charsets: map[string]charset{}}
	tab, err := tk.compile(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := tab.plan(&tableMap{codes: []byte{codeLong, codeVarChar, codeLong, codeLong}, meta: []uint16{0, 400, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	const head, old = "\x01\x00\x00\x00\x00\x00\x01\x00\x04\x0f", "\x08\x07\x00\x00\x00\x02\x00ab\x05\x00\x00\x00"
	for _, c := range []struct{ name, present, row, want string }{
		{"one number", "\x04", "\x00\x06\x00\x00\x00", "{id:7 v:ab n:6 x:null}"},
		{"a null, and what was null", "\x0c", "\x01\x09\x00\x00\x00", "{id:7 v:ab n:null x:9}"},
		{"the key", "\x01", "\x00\x08\x00\x00\x00", "{id:8 v:ab n:5 x:null}"},
		{"nothing", "\x00", "", "{id:7 v:ab n:5 x:null}"},
	} {
		e, err := parseRows(evUpdateRows1, []byte(head+c.present+old+c.row))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		before, after, err := decodeRow(new(schema.Arena), plan, &e)
		if err != nil || show(before) != "{id:7 v:ab n:5 x:null}" || show(after) != c.want || len(e.rows.b) != 0 {
			t.Errorf("%s: %s became %s, want %s (%v); %d bytes are left", c.name, show(before), show(after), c.want, err, len(e.rows.b))
		}
	}
}

// mysql-log/4
func TestPositionsBeyondFourGiB(t *testing.T) {
	at := int64(4294950000)
	for _, c := range []struct {
		end  uint32
		size uint32
		want int64
	}{{4294954865, 4865, 4294954865}, {4294962881, 8016, 4294962881}, {3601, 8016, 4294970897}, {11617, 8016, 4294978913}} {
		at = endOf(at, header{end: c.end, size: c.size})
		if at != c.want {
			t.Errorf("an event that ends at %d modulo 4 GiB ends at %d, want %d", c.end, at, c.want)
		}
	}
	d := newDatabase(t)
	store := &connectortest.OffsetStore{}
	store.Put(t, []connectors.Offset{{Partition: schema.MapValue([]schema.Entry{{Key: schema.StringValue("server"), Value: schema.StringValue("p")}}),
		Position: position{file: "binlog.000001", pos: 4294970000}.value()}})
	r := d.start(d.config(), store)
	if err := r.Wait(); err == nil || connectors.FailureOf(err) == nil || connectors.FailureOf(err).Reason != reasonLogLost {
		t.Errorf("the task ended with %v", err)
	}
}

// enable.time.adjuster: years below 100 in dates are taken for those from 1970 to 2069, in
// the snapshot and in the stream, or left as they are.
func TestYearsOfTwoDigits(t *testing.T) {
	eachServer(t, func(t *testing.T, d *database) {
		const values = "VALUES (%d, '0012-02-29', '0069-12-31 01:02:03'), (%d, '0070-01-01', '0099-12-31 23:59:59'), (%d, '0000-01-01', '0100-01-01 00:00:00')"
		d.exec("CREATE TABLE y (id int PRIMARY KEY, d date, dt datetime)", "INSERT INTO y "+fmt.Sprintf(values, 1, 2, 3))
		for _, c := range []struct {
			adjust string
			want   string
		}{
			{"true", "2012-02-29Z 2069-12-31T01:02:03Z, 1970-01-01Z 1999-12-31T23:59:59Z, 2000-01-01Z 0100-01-01T00:00:00Z"},
			{"false", "0012-02-29Z 0069-12-31T01:02:03Z, 0070-01-01Z 0099-12-31T23:59:59Z, 0000-01-01Z 0100-01-01T00:00:00Z"},
		} {
			d.exec("DELETE FROM y WHERE id > 3")
			topic := "p." + d.name + ".y"
			r := d.start(d.config("table.include.list", d.name+".y", "time.precision.mode", "isostring", "enable.time.adjuster", c.adjust), &connectortest.OffsetStore{})
			streaming(r)
			d.exec("INSERT INTO y " + fmt.Sprintf(values, 4, 5, 6))
			r.WaitFor("the rows", func() bool { return len(on(r.Records(), topic)) == 6 })
			r.Stop()
			var got []string
			for _, rec := range on(r.Records(), topic) {
				row := rec.Value.Get("after")
				got = append(got, row.Get("d").Str()+" "+row.Get("dt").Str())
			}
			if text := strings.Join(got, ", "); text != c.want+", "+c.want {
				t.Errorf("enable.time.adjuster=%s: %s, want %s, twice", c.adjust, text, c.want)
			}
		}
	})
}
