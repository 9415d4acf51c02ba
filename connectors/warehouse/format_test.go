package warehouse

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hamba/avro/v2/ocf"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

var (
	v1 = schema.NewStruct("row").Version(1).Field("a", schema.Int32Schema).Build()
	v2 = schema.NewStruct("row").Version(2).Field("a", schema.Int32Schema).Field("b", schema.New(schema.String).Default(schema.StringValue("x")).Build()).Build()
)

func row(offset int64, version int) schema.Record {
	r := schema.Record{ValueSchema: v1, Value: schema.StructValue(v1, []schema.Value{schema.Int32Value(int32(offset))})}
	if version == 2 {
		r = schema.Record{ValueSchema: v2, Value: schema.StructValue(v2, []schema.Value{schema.Int32Value(int32(offset)), schema.StringValue("y")})}
	}
	return connectortest.At(r, topic, offset)
}

// read reads an object container file as another library does.
func read(t *testing.T, b []byte) (rows []map[string]any) {
	t.Helper()
	d, err := ocf.NewDecoder(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for d.HasNext() {
		var row map[string]any
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if d.Error() != nil {
		t.Fatal(d.Error())
	}
	return rows
}

// put writes records and closes; the visible files are in f.
func put(t *testing.T, f *folders, settings map[string]string, records []schema.Record) {
	t.Helper()
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, settings, true, topic)
	run.Put(records)
	if err := run.TryFlush(); err != nil {
		t.Fatal(err)
	}
	run.Close(false, topic)
}

func TestAvroFilesAreReadByOthers(t *testing.T) {
	for _, codec := range []string{"null", "deflate", "snappy", "zstd"} {
		f := newFolders()
		var records []schema.Record
		for o := range int64(20_000) { // several blocks
			records = append(records, row(o, 2))
		}
		put(t, f, conf("format.class", "io.confluent.connect.s3.format.avro.AvroFormat", "flush.size", "20000", "avro.codec", codec), records)
		rows := read(t, f.files["topics/t/partition=0/t+0+0000000000.avro"])
		if len(rows) != 20_000 {
			t.Fatalf("%s: %d rows", codec, len(rows))
		}
		for i, r := range rows {
			if r["a"] != i || r["b"] != "y" {
				t.Fatalf("%s: row %d is %v", codec, i, r)
			}
		}
	}
}

// Blocks of bzip2 are read by Go's own reader, also those that are larger than one of its.
func TestBlocksOfBzip2(t *testing.T) {
	compress, err := newBlockCodec(avroCodecs["bzip2"])
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var packed []byte
	for _, size := range []int{1, blockBytes, 250_000, 0, 17} {
		for _, distinct := range []int{1, 3, 256} {
			raw := make([]byte, size)
			for i := range raw {
				raw[i] = byte(rng.IntN(distinct))
			}
			if packed, err = compress(packed[:0], raw); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(packed))); err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%d bytes of %d values are %d: %v", size, distinct, len(got), err)
			}
		}
	}
}

// cases: object-stores/2.
func TestAlternatingSchemas(t *testing.T) {
	for _, c := range []struct {
		compatibility string
		first         int               // version of the first record
		most          int               // files
		want          func(o int64) any // b of a record
	}{
		{"NONE", 1, 1003, func(o int64) any { return []any{nil, "y"}[o%2] }},
		{"BACKWARD", 1, 2, func(o int64) any { // the first record was alone with its schema
			if o == 0 {
				return nil
			}
			return []any{"x", "y"}[o%2]
		}},
		{"FULL", 2, 2, func(o int64) any { return []any{"y", "x"}[o%2] }},
		{"FORWARD", 1, 1, func(int64) any { return nil }},
		{"FORWARD", 2, 3, func(o int64) any {
			if o == 0 {
				return "y"
			}
			return nil
		}},
	} {
		f := newFolders()
		var records []schema.Record
		for o := range int64(1000) {
			version := c.first
			if o%2 == 1 {
				version = 3 - c.first
			}
			records = append(records, row(o, version))
		}
		settings := conf("format.class", "AvroFormat", "flush.size", "1000", "schema.compatibility", c.compatibility)
		run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, settings, true, topic)
		run.Put(records)
		run.Put([]schema.Record{row(1000, 1), row(1001, 2), row(1002, 1)}) // whatever is open ends somewhere
		if err := run.TryFlush(); err != nil {
			t.Fatal(err)
		}
		got := run.Committed[topic]
		run.Close(false, topic)
		seen := map[int64]any{}
		for _, b := range f.files {
			for _, r := range read(t, b) {
				seen[int64(r["a"].(int))] = r["b"]
			}
		}
		if len(f.files) > c.most {
			t.Errorf("%s, v%d first: %d files, want %d at most", c.compatibility, c.first, len(f.files), c.most)
		}
		for o := range min(got, 1000) {
			if b, there := seen[o]; !there || b != c.want(o) {
				t.Errorf("%s, v%d first: b of record %d is %v (%v), want %v", c.compatibility, c.first, o, b, there, c.want(o))
				break
			}
		}
		if got < 999 {
			t.Errorf("%s, v%d first: committed %d", c.compatibility, c.first, got)
		}
	}
}

func TestTextFiles(t *testing.T) {
	raw := func(b ...string) (out []schema.Record) {
		for i, text := range b {
			out = append(out, connectortest.At(schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue([]byte(text))}, topic, int64(i)))
		}
		return out
	}
	says := func(o int64, text string) schema.Record {
		return connectortest.At(schema.Record{ValueSchema: schema.StringSchema, Value: schema.StringValue(text)}, topic, o)
	}
	for _, c := range []struct {
		name    string
		pairs   []string
		records []schema.Record
		file    string
		want    string
	}{
		{"JSON without its schema", []string{"flush.size", "2"}, []schema.Record{row(0, 2), row(1, 1)}, "t+0+0000000000.json", "{\"a\":0,\"b\":\"y\"}\n{\"a\":1}\n"},
		{"bytes", []string{"format.class", "ByteArrayFormat", "flush.size", "2"}, raw("a", "b\n"), "t+0+0000000000.bin", "a\nb\n\n"},
		{"bytes with nothing between", []string{"format.class", "ByteArrayFormat", "flush.size", "2", "format.bytearray.separator", "", "format.bytearray.extension", ".dat"}, raw("a", "b"), "t+0+0000000000.dat", "ab"},
		{"texts", []string{"format.class", "StringFormat", "flush.size", "2"}, []schema.Record{says(0, "a"), says(1, "ü b")}, "t+0+0000000000.txt", "a\nü b\n"},
		{"another name", []string{"filename.offset.zero.pad.width", "3", "file.delim", "_", "topics.dir", ""}, []schema.Record{row(7, 1)}, "t_0_007.json", "{\"a\":7}\n"},
	} {
		f := newFolders()
		put(t, f, conf(c.pairs...), c.records)
		name := "topics/t/partition=0/" + c.file
		if slices.Contains(c.pairs, "topics.dir") {
			name = "t/partition=0/" + c.file
		}
		if got := string(f.files[name]); got != c.want {
			t.Errorf("%s: %s is %q; there are %s", c.name, name, got, f.names())
		}
	}
}

func TestTextFilesCompressed(t *testing.T) {
	f := newFolders()
	v, _ := Settings.Parse(conf("flush.size", "3"))
	task, err := NewTask(connectors.Context{Log: slog.New(slog.DiscardHandler)}, v, Options{Gzip: 6}, func(context.Context) (Target, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.Open(t.Context(), []connectors.TopicPartition{topic}); err != nil {
		t.Fatal(err)
	}
	if err := task.Put(t.Context(), []schema.Record{row(0, 1), row(1, 1), row(2, 1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := task.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(f.files["topics/t/partition=0/t+0+0000000000.json.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != "{\"a\":0}\n{\"a\":1}\n{\"a\":2}\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := task.Close(t.Context(), []connectors.TopicPartition{topic}, false); err != nil {
		t.Fatal(err)
	}
	if used := task.spool.used(); used != 0 {
		t.Errorf("%d bytes are kept", used)
	}
}
