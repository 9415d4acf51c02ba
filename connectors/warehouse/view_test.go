package warehouse

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

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
