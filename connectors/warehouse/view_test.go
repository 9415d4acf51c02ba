package warehouse

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// withTarget is a sink of files to a target.
func withTarget(target Target) connectors.SinkPlugin {
	return connectors.SinkPlugin{
		Info: plugin.Info{Name: "folders", Config: Settings},
		NewTask: func(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
			return NewTask(cc, v, Options{}, func(context.Context) (Target, error) { return target, nil })
		},
	}
}

// withOptions is the sink of files in memory with a store's own options.
func withOptions(f *folders, o Options) connectors.SinkPlugin {
	return connectors.SinkPlugin{
		Info: plugin.Info{Name: "folders", Config: Settings},
		NewTask: func(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
			return NewTask(cc, v, o, func(context.Context) (Target, error) { return f, nil })
		},
	}
}

// keyed is a record with a key and a header.
func keyed(offset int64, key, header string, tombstone bool) schema.Record {
	r := row(offset, 2)
	r.KeySchema, r.Key = schema.StringSchema, schema.StringValue(key)
	r.Headers = []schema.Header{{Key: "h", Value: schema.StringValue(header)}, {Key: "n", Value: schema.Int32Value(7)}}
	if tombstone {
		r.ValueSchema, r.Value = nil, schema.Value{}
	}
	return r
}

func TestKeysAndHeadersStandBeside(t *testing.T) {
	f := newFolders()
	plugin := withOptions(f, Options{Keys: "JsonFormat", Headers: "JsonFormat", Tombstones: "gone", Gzip: 0})
	run := connectortest.NewSinkRun(t, plugin, nil, conf("flush.size", "2"), false, topic)
	bare := row(3, 2) // has no key
	run.Put([]schema.Record{keyed(0, "a", "x", false), keyed(1, "b", "y", true), keyed(2, "c", "z", true), bare, keyed(4, "e", "w", false), keyed(5, "f", "v", false)})
	if err := run.TryFlush(); err != nil {
		t.Fatal(err)
	}
	run.Close(false, topic)
	want := map[string]string{
		"topics/t/partition=0/t+0+0000000000.json":         "{\"a\":0,\"b\":\"y\"}\n",
		"topics/t/partition=0/t+0+0000000000.keys.json":    "\"a\"\n",
		"topics/t/partition=0/t+0+0000000000.headers.json": `[{"key":"h","value":"x"},{"key":"n","value":"7"}]` + "\n",
		"topics/t/gone/t+0+0000000001.keys.json":           "\"b\"\n\"c\"\n",
		"topics/t/gone/t+0+0000000001.headers.json":        `[{"key":"h","value":"y"},{"key":"n","value":"7"}]` + "\n" + `[{"key":"h","value":"z"},{"key":"n","value":"7"}]` + "\n",
		"topics/t/partition=0/t+0+0000000004.json":         "{\"a\":4,\"b\":\"y\"}\n{\"a\":5,\"b\":\"y\"}\n",
		"topics/t/partition=0/t+0+0000000004.keys.json":    "\"e\"\n\"f\"\n",
		"topics/t/partition=0/t+0+0000000004.headers.json": `[{"key":"h","value":"w"},{"key":"n","value":"7"}]` + "\n" + `[{"key":"h","value":"v"},{"key":"n","value":"7"}]` + "\n",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := string(f.files[name]); got != want[name] {
			t.Errorf("%s is %q, want %q", name, got, want[name])
		}
	}
	if len(f.files) != len(want) || run.Committed[topic] != 6 {
		t.Errorf("%d files, committed %d", len(f.files), run.Committed[topic])
	}
	if got := run.Reported(); len(got) != 1 || got[0].Record.Origin.Offset != 3 || !strings.Contains(got[0].Cause.Error(), "has no key") {
		t.Errorf("reported %v", got)
	}
}

// Whatever the formats are, files that belong together hold the same number of records, and no record whose key does not fit is in one.
func TestKeysInEachFormat(t *testing.T) {
	for _, c := range []struct{ values, keys, headers config.Class }{
		{"AvroFormat", "AvroFormat", "AvroFormat"}, {"ParquetFormat", "ParquetFormat", "ParquetFormat"}, {"JsonFormat", "ParquetFormat", "AvroFormat"},
		{"ParquetFormat", "ByteArrayFormat", "JsonFormat"},
	} {
		f := newFolders()
		gzip := 0
		if c.values == "JsonFormat" {
			gzip = 6
		}
		run := connectortest.NewSinkRun(t, withOptions(f, Options{Keys: c.keys, Headers: c.headers, Gzip: gzip}), nil, conf("format.class", string(c.values), "flush.size", "3"), false, topic)
		var records []schema.Record
		for o := range int64(4) {
			r := keyed(o, "k", "h", false)
			switch {
			case c.keys == "ByteArrayFormat":
				r.KeySchema, r.Key = schema.BytesSchema, schema.BytesValue([]byte("k"))
				if o == 1 {
					r.KeySchema, r.Key = schema.StringSchema, schema.StringValue("no bytes")
				}
			case o == 1:
				r.KeySchema = nil // Avro and Parquet need one
			}
			records = append(records, r)
		}
		run.Put(records)
		if err := run.TryFlush(); err != nil || run.Committed[topic] < 4 && c.keys == "ByteArrayFormat" {
			t.Errorf("%v: %v, committed %d", c, err, run.Committed[topic])
		}
		if got := run.Reported(); len(got) != 1 || got[0].Record.Origin.Offset != 1 || !strings.Contains(got[0].Cause.Error(), "its key") {
			t.Errorf("%v: reported %v", c, got)
		}
		run.Close(false, topic)
		if len(f.files) != 3 {
			t.Errorf("%v: %d files: %s", c, len(f.files), f.names())
		}
	}
}

// Keys of another schema begin another file, as values do.
func TestKeysOfAnotherSchema(t *testing.T) {
	f := newFolders()
	run := connectortest.NewSinkRun(t, withOptions(f, Options{Keys: "AvroFormat"}), nil, conf("flush.size", "2"), true, topic)
	number := keyed(1, "", "", false)
	number.KeySchema, number.Key = schema.Int64Schema, schema.Int64Value(5)
	again := number
	again.Origin = connectortest.At(again, topic, 2).Origin
	run.Put([]schema.Record{keyed(0, "a", "", false), number, again})
	if err := run.TryFlush(); err != nil || run.Committed[topic] != 3 || len(f.files) != 4 {
		t.Errorf("%v, committed %d, %s", err, run.Committed[topic], f.names())
	}
	run.Close(false, topic)
}

func TestFoldersOfSchemas(t *testing.T) {
	for _, c := range []struct{ affix, class, want string }{
		{"PREFIX", "DefaultPartitioner", "schema_name=row/partition=0/t+0+0000000000:1"},
		{"SUFFIX", "DefaultPartitioner", "partition=0/schema_name=row/t+0+0000000000:1"},
		{"PREFIX", "FieldPartitioner", "schema_name=row/b=y/t+0+0000000000:1"},
		{"SUFFIX", "FieldPartitioner", "b=y/schema_name=row/t+0+0000000000:1"},
	} {
		f := newFolders()
		run := connectortest.NewSinkRun(t, withOptions(f, Options{SchemaFolder: c.affix}), nil, conf("partitioner.class", c.class, "partition.field.name", "b"), false, topic)
		run.Put([]schema.Record{row(0, 2)})
		if err := run.TryFlush(); err != nil {
			t.Fatal(err)
		}
		if got := f.names(); got != c.want {
			t.Errorf("%s %s: %s", c.affix, c.class, got)
		}
		run.Close(false, topic)
	}
}

// cases: postgres/7. The event of a truncated table has no key and no row. It stands in the file as it came; where files need a key, or a
// folder a field of the row, it is left out with a log line. No task fails.
func TestATruncatedTable(t *testing.T) {
	ta := schema.NewStruct("shop.public.ta.Value").Optional().Field("id", schema.Int32Schema).Build()
	layout := schema.NewStruct("shop.public.ta.Envelope").Field("before", ta).Field("after", ta).Field("source", schema.StringSchema).Field("op", schema.StringSchema).Build()
	created := func(id int32) schema.Record {
		row := schema.StructValue(ta, []schema.Value{schema.Int32Value(id)})
		r := schema.Record{KeySchema: schema.Int32Schema, Key: schema.Int32Value(id), ValueSchema: layout, Value: schema.StructValue(layout, []schema.Value{{}, row, schema.StringValue("pg"), schema.StringValue("c")})}
		return connectortest.At(r, topic, int64(id))
	}
	truncated := connectortest.At(schema.Record{ValueSchema: layout, Value: schema.StructValue(layout, []schema.Value{{}, {}, schema.StringValue("pg"), schema.StringValue("t")})}, topic, 1)
	text := func(_ *testing.T, b []byte) string { return string(b) }
	const first, event, third = `{"before":null,"after":{"id":0},"source":"pg","op":"c"}` + "\n", `{"before":null,"after":null,"source":"pg","op":"t"}` + "\n", `{"before":null,"after":{"id":2},"source":"pg","op":"c"}` + "\n"
	for _, c := range []struct {
		name    string
		pairs   []string
		options Options
		file    string
		show    func(t *testing.T, b []byte) string
		want    string
		left    string // why the event is left out, in the log; empty: it is not
	}{
		{"JSON", []string{"flush.size", "3"}, Options{}, "partition=0/t+0+0000000000.json", text, first + event + third, ""},
		{"Avro", []string{"flush.size", "3", "format.class", "AvroFormat"}, Options{}, "partition=0/t+0+0000000000.avro", func(t *testing.T, b []byte) string {
			var ops []any
			for _, row := range read(t, b) {
				ops = append(ops, row["op"], row["after"] == nil)
			}
			return fmt.Sprint(ops)
		}, "[c false t true c false]", ""},
		{"Parquet", []string{"flush.size", "3", "format.class", "ParquetFormat"}, Options{}, "partition=0/t+0+0000000000.snappy.parquet", func(t *testing.T, b []byte) string {
			type row struct {
				Op string `parquet:"op"`
			}
			rows, err := parquet.Read[row](bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(rows)
		}, "[{c} {t} {c}]", ""},
		{"a folder by a field of the row", []string{"flush.size", "1", "partitioner.class", "FieldPartitioner", "partition.field.name", "after.id"}, Options{}, "after.id=null/t+0+0000000001.json", text, event, ""},
		{"with keys beside", []string{"flush.size", "2"}, Options{Keys: "JsonFormat"}, "partition=0/t+0+0000000000.json", text, first + third, "has no key"},
		{"their keys", []string{"flush.size", "2"}, Options{Keys: "JsonFormat"}, "partition=0/t+0+0000000000.keys.json", text, "0\n2\n", "has no key"},
		{"a folder by the row's time", []string{"flush.size", "2", "partitioner.class", "DailyPartitioner", "timestamp.extractor", "RecordField", "timestamp.field", "after.id", "timezone", "UTC", "locale", "en"}, Options{},
			"year=1970/month=01/day=01/t+0+0000000000.json", text, first + third, "after.id"},
	} {
		f := newFolders()
		run := connectortest.NewSinkRun(t, withOptions(f, c.options), nil, conf(c.pairs...), true, topic)
		var log bytes.Buffer
		run.Task.(*Task).lg = slog.New(slog.NewTextHandler(&log, nil))
		run.Put([]schema.Record{created(0), truncated, created(2)})
		run.FlushTo(topic, 3)
		run.Close(false, topic)
		if b, there := f.files["topics/t/"+c.file]; !there || c.show(t, b) != c.want {
			t.Errorf("%s: %s holds %q, want %q; there are %s", c.name, c.file, c.show(t, b), c.want, f.names())
		}
		if got := log.String(); strings.Contains(got, "truncated table") != (c.left != "") || !strings.Contains(got, c.left) {
			t.Errorf("%s: the log says %q", c.name, got)
		}
	}
}
