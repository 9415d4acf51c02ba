package warehouse

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

// parquetOf writes records as one Parquet file, with row groups of about so many bytes.
func parquetOf(t *testing.T, groupBytes int64, records []schema.Record) (*parquet.File, []byte) {
	t.Helper()
	f := newFolders()
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("format.class", "ParquetFormat", "flush.size", fmt.Sprint(len(records))), true, topic)
	run.Task.(*Task).views[0].format.(*parquetFiles).groupBytes = groupBytes
	run.Put(records)
	if err := run.TryFlush(); err != nil {
		t.Fatal(err)
	}
	run.Close(false, topic)
	b := f.files["topics/t/partition=0/t+0+0000000000.snappy.parquet"]
	p, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return p, b
}

func TestRowGroupsAreBounded(t *testing.T) {
	var records []schema.Record
	for o := range int64(50_000) {
		records = append(records, row(o, 2))
	}
	p, b := parquetOf(t, 100<<10, records)
	if n := len(p.RowGroups()); n < 2 || n > 4 || p.NumRows() != 50_000 { // 200 KB of Avro
		t.Errorf("%d row groups, %d rows", n, p.NumRows())
	}
	rows, err := parquet.Read[struct {
		A int32  `parquet:"a"`
		B string `parquet:"b"`
	}](bytes.NewReader(b), int64(len(b)))
	if err != nil || len(rows) != 50_000 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, r := range rows {
		if int(r.A) != i || r.B != "y" {
			t.Fatalf("row %d is %v", i, r)
		}
	}
	if _, again := parquetOf(t, 100<<10, records); !bytes.Equal(b, again) {
		t.Error("the same records make another file")
	}
}

// A file does not depend on those that were made before it: one that is written again after a restart is the same.
func TestAFileIsTheSameAfterOthers(t *testing.T) {
	f := parquetWith(&parquet.Snappy)
	f.groupBytes = 100 << 10
	s := schema.NewStruct("row").Field("a", schema.OptionalString).Field("b", schema.Int64Schema).Field("c", schema.ArrayOf(schema.StringSchema).Build()).Build()
	fill := func(from, to, distinct int64) *body {
		o := &body{content: content{s: &spool{}}, schema: s}
		for i := from; i < to; i++ {
			text := schema.StringValue(strings.Repeat("x", 20) + fmt.Sprint(i%distinct))
			b, err := f.append(nil, s, schema.StructValue(s, []schema.Value{text, schema.Int64Value(i), schema.ArrayValue([]schema.Value{text, text})}))
			if err == nil {
				err = o.add(b, i)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	files := []*body{fill(0, 10, 3), fill(10, 30_000, 30_000), fill(5, 3000, 10), fill(0, 10, 3), fill(7, 8, 1)}
	m, err := f.maker(files[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(m *parquetMaker, o *body) []byte {
		var out bytes.Buffer
		if err := m.make(&out, o, still); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for i, o := range files {
		alone := &parquetMaker{root: m.root, options: m.options, page: m.page, groupBytes: m.groupBytes}
		if got, want := write(m, o), write(alone, o); !bytes.Equal(got, want) {
			t.Errorf("file %d has %d bytes, and %d by itself", i, len(got), len(want))
		}
	}
	for _, o := range files {
		o.release()
		o.s.close()
	}
}

// Long values must not stand in the footer, where they would be read before anything else.
func TestTheFooterStaysSmall(t *testing.T) {
	text := schema.NewStruct("text").Field("a", schema.StringSchema).Field("b", schema.New(schema.Bytes).Optional().Build()).Build()
	var records []schema.Record
	for o := range int64(20) {
		v := schema.StructValue(text, []schema.Value{schema.StringValue(strings.Repeat("x", 1<<20)), schema.BytesValue(bytes.Repeat([]byte{0xff}, 1<<20))})
		records = append(records, connectortest.At(schema.Record{ValueSchema: text, Value: v}, topic, o))
	}
	p, b := parquetOf(t, 4<<20, records)
	if size := int(b[len(b)-8]) | int(b[len(b)-7])<<8 | int(b[len(b)-6])<<16; size > 10_000 || len(p.RowGroups()) != 10 {
		t.Errorf("the footer has %d bytes, for %d row groups", size, len(p.RowGroups()))
	}
	for _, index := range p.ColumnIndexes() {
		for i := range index.MinValues {
			if len(index.MinValues[i]) != 0 || !bytes.Equal(index.MaxValues[i], bytes.Repeat([]byte{0xff}, looseWidth)) {
				t.Errorf("bounds %x to %x", index.MinValues[i], index.MaxValues[i])
			}
		}
	}
}

// Decimals are numbers, and the library would order them as bytes.
func TestDecimalsHaveNoBounds(t *testing.T) {
	s := schema.NewStruct("money").Field("d", schema.DecimalOf(2).Build()).Build()
	var records []schema.Record
	for o := range int64(10) {
		records = append(records, connectortest.At(schema.Record{ValueSchema: s, Value: schema.StructValue(s, []schema.Value{schema.DecimalInt64((o-5)*1000, 2)})}, topic, o))
	}
	p, _ := parquetOf(t, 1<<20, records)
	index := p.ColumnIndexes()[0]
	if stats := p.Metadata().RowGroups[0].Columns[0].MetaData.Statistics; stats.MinValue != nil || stats.MaxValue != nil {
		t.Errorf("bounds %x to %x", stats.MinValue, stats.MaxValue)
	}
	if low, high := index.MinValues[0], index.MaxValues[0]; low[0] != 0x80 || high[0] != 0x7f || len(low) != looseWidth || len(high) != looseWidth {
		t.Errorf("bounds of pages %x to %x", low, high)
	}
}

func TestWhatHasNoFormInParquet(t *testing.T) {
	for _, c := range []struct {
		name string
		r    schema.Record
		want string
	}{
		{"no struct", schema.Record{ValueSchema: schema.StringSchema, Value: schema.StringValue("x")}, "writes structs"},
		{"no schema", schema.Record{Value: schema.StringValue("x")}, "has no schema"},
		{"nothing in a struct", schema.Record{ValueSchema: schema.NewStruct("x").Build(), Value: schema.StructValue(schema.NewStruct("x").Build(), nil)}, "without fields"},
	} {
		f := newFolders()
		run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("format.class", "ParquetFormat"), false, topic)
		run.Put([]schema.Record{connectortest.At(c.r, topic, 0), row(1, 1)})
		if err := run.TryFlush(); err != nil || run.Committed[topic] != 2 {
			t.Errorf("%s: %v, committed %d", c.name, err, run.Committed[topic])
		}
		got := run.Reported()
		if len(got) != 1 || connectors.FailureOf(got[0].Cause).Reason != &badRecord || !strings.Contains(got[0].Cause.Error(), c.want) {
			t.Errorf("%s: reported %v", c.name, got)
		}
		run.Close(false, topic)
	}
}

// What is torn on disk is an error, and no panic and no wrong row.
func FuzzShredder(f *testing.F) {
	f.Add([]byte{2, 2, 'x'})
	f.Add([]byte{1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	rows := avroRows{name: "ParquetFormat"}
	s := schema.NewStruct("row").Field("a", schema.Int64Schema).Field("b", schema.ArrayOf(schema.New(schema.String).Optional().Build()).Optional().Build()).
		Field("c", schema.MapOf(schema.StringSchema, schema.Float64Schema).Build()).Build()
	e, err := rows.compile(s)
	if err != nil {
		f.Fatal(err)
	}
	shape, err := newParquetShape(e.avro.Type(), false)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &shredder{in: b, columns: make([][]parquet.Value, shape.shape.to)}
		if x.value(shape.shape, 0) == nil && x.at > len(b) {
			t.Error("more is read than there was")
		}
	})
}
