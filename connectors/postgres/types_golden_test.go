package postgres

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// testdata/types holds what Debezium 3.6.1 made of tables with a column of every type:
// NAME.sql before the connectors, NAME-stream.sql behind their snapshots, and
// NAME-MODE.jsonl, whose first line has the settings and each other line a column.

// A columnCapture is one column: its schema, its values by row, in the snapshot and,
// where they differ, in the stream, and what stands in the old row of a delete.
type columnCapture struct {
	Table, Column string
	Schema        json.RawMessage
	StreamSchema  json.RawMessage `json:"stream_schema"`
	Rows          []json.RawMessage
	StreamRows    []json.RawMessage `json:"stream_rows"`
	Deleted       []json.RawMessage
}

func (c *columnCapture) stream() (json.RawMessage, []json.RawMessage) {
	s, rows := c.Schema, c.Rows
	if c.StreamSchema != nil {
		s = c.StreamSchema
	}
	if c.StreamRows != nil {
		rows = c.StreamRows
	}
	return s, rows
}

func readCapture(t *testing.T, name string) (conf map[string]string, columns []columnCapture) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 1<<20)
	for first := true; sc.Scan(); first = false {
		if first {
			var head struct{ Config map[string]string }
			if err := json.Unmarshal(sc.Bytes(), &head); err != nil {
				t.Fatal(err)
			}
			conf = head.Config
			continue
		}
		var c columnCapture
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		columns = append(columns, c)
	}
	return conf, columns
}

// same compares two JSON texts; numbers by their value, in a column of single floats by
// that of such, which Java 17 prints with more digits than needed.
func same(a, b json.RawMessage, single bool) bool {
	decode := func(b []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return err
		}
		return numbers(v, single)
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

// numbers makes whole numbers their text and others their value.
func numbers(v any, single bool) any {
	switch v := v.(type) {
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return v.String()
		}
		f, _ := v.Float64()
		if single {
			return float32(f)
		}
		return f
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k], single)
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i], single)
		}
	}
	return v
}

// TestGoldenTypes: every type in every mode, its schema, its default and its values,
// by snapshot and by stream, equals Debezium's, but for the differences on purpose.
func TestGoldenTypes(t *testing.T) {
	for _, c := range []struct {
		name, version, script string
		columns               map[string]int // by mode: how many are compared
	}{
		{"PostgreSQL 15", "", "types", map[string]int{"default": 427, "connect": 497, "iso": 497, "microseconds": 427, "nanoseconds": 258, "adaptive-time": 427}},
		{"PostgreSQL 18", "18", "types", map[string]int{"default": 427, "connect": 497, "iso": 497, "microseconds": 427, "nanoseconds": 258, "adaptive-time": 427}},
		{"PostGIS", "", "postgis", map[string]int{"default": 15, "unknown": 17}},
		{"pgvector", "18", "vector", map[string]int{"default": 12, "unknown": 12}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := databaseOn(t, peers.PostgresVersion(t, c.version))
			goldenTypes(t, d, c.script, c.columns)
		})
	}
}

func goldenTypes(t *testing.T, d *database, name string, counts map[string]int) {
	const dir = "testdata/types/"
	readScript := func(name string) []string {
		text, err := os.ReadFile(dir + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		return script(string(text))
	}
	d.exec(readScript(name)...)
	files, err := filepath.Glob(dir + name + "-*.jsonl")
	if err != nil || len(files) != len(counts) {
		t.Fatalf("%d captures, want %d (%v)", len(files), len(counts), err)
	}
	stores := make([]connectortest.OffsetStore, len(files))
	got := make([][]schema.Record, len(files))
	start := func(i int) *connectortest.SourceRun {
		conf, _ := readCapture(t, files[i])
		more := []string{"slot.name", fmt.Sprintf("%s_%d", d.name, i), "schema.include.list", "t"}
		for k, v := range conf {
			more = append(more, k, v)
		}
		return d.start(d.config(more...), &stores[i])
	}
	for i := range files {
		r := start(i)
		snapshotDone(r)
		r.Stop()
		got[i] = r.Records()
	}
	d.exec(readScript(name + "-stream")...)
	for i, file := range files {
		mode := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), name+"-"), ".jsonl")
		t.Run(mode, func(t *testing.T) {
			r := start(i)
			r.WaitFor("the last row", func() bool { return len(on(r.Records(), "p.t.done")) > 0 })
			r.Stop()
			_, columns := readCapture(t, file)
			compareTypes(t, name, mode, columns, append(got[i], r.Records()...), counts[mode])
		})
	}
}

// ours are the events of one table, as the JSON converter writes them.
type ourTable struct {
	order   []string
	schemas [2]map[string]json.RawMessage // snapshot, stream
	rows    [2][]map[string]json.RawMessage
	deleted []map[string]json.RawMessage
}

func readOurs(t *testing.T, records []schema.Record) map[string]*ourTable {
	out := map[string]*ourTable{}
	for topic, list := range connectortest.EncodeGolden(t, records, nil) {
		o := &ourTable{}
		out[strings.TrimPrefix(topic, "p.t.")] = o
		for _, g := range list {
			if g.Value == nil {
				continue
			}
			var v struct {
				Schema struct {
					Fields []struct {
						Field  string
						Fields []json.RawMessage
					}
				}
				Payload struct {
					Op            string
					Before, After map[string]json.RawMessage
				}
			}
			if err := json.Unmarshal(g.Value, &v); err != nil {
				t.Fatal(err)
			}
			way := 1
			if v.Payload.Op == "r" {
				way = 0
			}
			if o.schemas[way] == nil {
				o.schemas[way] = map[string]json.RawMessage{}
				o.order = nil
				for _, f := range v.Schema.Fields[1].Fields {
					var name struct{ Field string }
					if err := json.Unmarshal(f, &name); err != nil {
						t.Fatal(err)
					}
					o.schemas[way][name.Field] = f
					o.order = append(o.order, name.Field)
				}
			}
			if v.Payload.Op == "d" {
				o.deleted = append(o.deleted, v.Payload.Before)
			} else {
				o.rows[way] = append(o.rows[way], v.Payload.After)
			}
		}
	}
	return out
}

// volatile are the columns of defaults whose values are of the moment, or of a sequence.
var volatile = regexp.MustCompile(`^defaults(_required)?\.(d6|d14|d38|d42|d46|d47|d51|d52|d53|d54|d58)$`)

func compareTypes(t *testing.T, name, mode string, columns []columnCapture, records []schema.Record, count int) {
	ours := readOurs(t, records)
	hits := map[string]int{}
	compared, masked := 0, 0
	order := map[string][]string{}
	for i := range columns {
		c := &columns[i]
		full := c.Table + "." + c.Column
		drop := false
		for _, d := range typeDifferences[name] {
			if !slices.Contains(d.in, mode) || !d.columns.MatchString(full) || d.extra {
				continue
			}
			before := fmt.Sprintf("%s", *c)
			if d.change != nil {
				d.change(c, mode)
			}
			if drop = drop || d.absent; d.absent || fmt.Sprintf("%s", *c) != before {
				hits[d.why]++
			}
		}
		if drop {
			continue
		}
		order[c.Table] = append(order[c.Table], c.Column)
		o := ours[c.Table]
		if o == nil {
			t.Errorf("table %s has no events", c.Table)
			continue
		}
		compared++
		streamSchema, streamRows := c.stream()
		for way, want := range []json.RawMessage{c.Schema, streamSchema} {
			if got := o.schemas[way][c.Column]; !same(got, want, false) {
				t.Errorf("%s %s: schema\n got %s\nwant %s", [2]string{"snapshot", "stream"}[way], full, got, want)
			}
		}
		values := func(what string, rows []map[string]json.RawMessage, want []json.RawMessage) {
			if len(rows) != len(want) {
				t.Errorf("%s %s: %d rows, want %d", what, full, len(rows), len(want))
				return
			}
			for i := range want {
				if got := rows[i][c.Column]; !same(got, want[i], bytes.Contains(c.Schema, []byte(`"float"`))) {
					t.Errorf("%s %s, row %d (%s): got %.300s, want %.300s", what, full, i+1, mode, got, want[i])
				}
			}
		}
		if volatile.MatchString(full) {
			masked++
			continue
		}
		values("snapshot", o.rows[0], c.Rows)
		values("stream", o.rows[1], streamRows)
		values("deleted", o.deleted, c.Deleted)
	}
	for table, o := range ours {
		if table == "done" {
			continue
		}
		var extra []string
		for _, d := range typeDifferences[name] {
			if d.extra && slices.Contains(d.in, mode) {
				for _, name := range o.order {
					if d.columns.MatchString(table + "." + name) {
						extra = append(extra, name)
						hits[d.why]++
					}
				}
			}
		}
		got := slices.DeleteFunc(slices.Clone(o.order), func(n string) bool { return slices.Contains(extra, n) })
		if !slices.Equal(got, order[table]) {
			t.Errorf("%s: the columns are\n%v, want\n%v", table, got, order[table])
		}
	}
	for _, d := range typeDifferences[name] {
		if slices.Contains(d.in, mode) != (hits[d.why] > 0) {
			t.Errorf("difference %q touches %d columns, and is listed for %v", d.why, hits[d.why], d.in)
		}
	}
	t.Logf("%s: %d columns compared by schema, order and values; the values of %d are of the moment; differences: %v", mode, compared, masked, hits)
	if compared != count {
		t.Errorf("%d columns compared, want %d", compared, count)
	}
}

// TestGeneratedColumns: they are in neither snapshot nor stream, unless the publication
// has the stored ones, which PostgreSQL 18 can; then they are in both.
func TestGeneratedColumns(t *testing.T) {
	d := databaseOn(t, peers.PostgresVersion(t, "18"))
	d.exec("CREATE TABLE g (id int PRIMARY KEY, virt int GENERATED ALWAYS AS (id + 1) VIRTUAL, stored int GENERATED ALWAYS AS (id * 2) STORED, v text)",
		"CREATE TABLE l (id int PRIMARY KEY, stored int GENERATED ALWAYS AS (id * 3) STORED, v text)",
		"CREATE PUBLICATION without FOR TABLE g, l", "CREATE PUBLICATION every FOR TABLE g, l WITH (publish_generated_columns = stored)", "CREATE PUBLICATION listed FOR TABLE g (id, v), l (id, stored)",
		"INSERT INTO g (id, v) VALUES (1, 'a')", "INSERT INTO l (id, v) VALUES (1, 'a')")
	want := map[string][2]string{"without": {"{id:1 v:a}", "{id:1 v:a}"}, "every": {"{id:1 stored:2 v:a}", "{id:1 stored:3 v:a}"}, "listed": {"{id:1 v:a}", "{id:1 stored:3}"}}
	runs := map[string]*connectortest.SourceRun{}
	for name := range want {
		runs[name] = d.streaming(d.config("publication.name", name, "publication.autocreate.mode", "disabled", "slot.name", d.name+name), nil)
	}
	d.exec("UPDATE g SET v = v", "UPDATE l SET v = v")
	for name, rows := range want {
		rs := take(runs[name], 4)
		wantLines(t, rs, "p.public.g {id:1} r null -> "+rows[0], "p.public.l {id:1} r null -> "+rows[1], "p.public.g {id:1} u null -> "+rows[0], "p.public.l {id:1} u null -> "+rows[1])
		for i := range 2 {
			if !schema.Equal(rs[i].ValueSchema, rs[i+2].ValueSchema) {
				t.Errorf("%s: the schemas of snapshot and stream differ", name)
			}
		}
	}
}
