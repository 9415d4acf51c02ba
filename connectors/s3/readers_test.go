package s3

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// Files that others read: rows, types and schemas are those of the topic.

var (
	lineSchema   = lineBuilder().Build()
	lineOptional = lineBuilder().Optional().Build()
	// saleBuilder makes the schema of sales. items are what a list holds: where they may be null, lists have another form in Parquet.
	saleSchema = func(items *schema.Schema) *schema.Schema {
		return schema.NewStruct("shop.Sale").Version(3).
			Field("id", schema.Int64Schema).
			Field("country", schema.StringSchema).
			Field("tiny", schema.Int8Schema).
			Field("small", schema.Int16Schema).
			Field("count", schema.New(schema.Int32).Optional().Build()).
			Field("ratio", schema.Float64Schema).
			Field("single", schema.Float32Schema).
			Field("paid", schema.BoolSchema).
			Field("note", schema.New(schema.String).Optional().Build()).
			Field("raw", schema.New(schema.Bytes).Optional().Build()).
			Field("price", schema.DecimalOf(2).Param(schema.PrecisionParam, "20").Build()).
			Field("day", schema.DateOf().Build()).
			Field("clock", schema.TimeOf().Build()).
			Field("at", schema.TimestampOf().Optional().Build()).
			Field("tags", schema.ArrayOf(items).Build()).
			Field("lines", schema.ArrayOf(lineSchema).Optional().Build()).
			Field("counts", schema.MapOf(schema.StringSchema, schema.Int64Schema).Build()).
			Field("byNumber", schema.MapOf(schema.Int32Schema, schema.StringSchema).Build()).
			Field("first", lineOptional).
			Build()
	}
	saleCountries = []string{"DE", "a/b", "ü", "x=y z"}
)

func lineBuilder() *schema.Builder {
	return schema.NewStruct("shop.Line").Field("sku", schema.StringSchema).Field("count", schema.Int32Schema)
}

// sale is row o and how a reader in Python has it, by the names of its fields.
func sale(s *schema.Schema, nullItems bool, o int64) (schema.Value, map[string]any) {
	null := schema.Value{}
	when := time.Date(2024, 2, 28, 23, 59, 58, 7_000_000, time.UTC).Add(time.Duration(o) * 13 * time.Hour)
	midnight := when.Truncate(24 * time.Hour)
	cents := (o - 30) * 12_345 // negative ones, too
	price := new(big.Rat).SetFrac64(cents, 100).FloatString(2)
	line := func(s *schema.Schema, i int64) (schema.Value, map[string]any) {
		sku := fmt.Sprintf("sku-%d", i)
		return schema.StructValue(s, []schema.Value{schema.StringValue(sku), schema.Int32Value(int32(i))}), map[string]any{"sku": sku, "count": i}
	}
	row := map[string]any{"id": o, "country": saleCountries[o%4], "tiny": o - 30, "small": o * 100, "ratio": float64(o) / 8, "single": float64(o) * 0.25, "paid": o%2 == 0,
		"price": price, "day": midnight.Format("2006-01-02"), "clock": when.Format("15:04:05.000000"), "count": nil, "note": nil, "raw": nil, "at": nil, "lines": nil, "first": nil}
	v := []schema.Value{schema.Int64Value(o), schema.StringValue(saleCountries[o%4]), schema.Int8Value(int8(o - 30)), schema.Int16Value(int16(o * 100)), null, schema.Float64Value(float64(o) / 8),
		schema.Float32Value(float32(o) * 0.25), schema.BoolValue(o%2 == 0), null, null, schema.DecimalInt64(cents, 2), schema.DateValue(midnight.Unix() / 86400),
		schema.TimeValue(when.Sub(midnight).Milliseconds()), null, null, null, null, null, null}
	if o%3 > 0 {
		note, raw := fmt.Sprintf("Notiz %d ÄÖ", o), []byte{0, 0xff, byte(o)}
		v[4], row["count"] = schema.Int32Value(int32(-o)), -o
		v[8], row["note"] = schema.StringValue(note), note
		v[9], row["raw"] = schema.BytesValue(raw), hex.EncodeToString(raw)
		v[13], row["at"] = schema.TimestampValue(when.UnixMilli()), when.Format("2006-01-02T15:04:05.000000+00:00")
		v[18], row["first"] = line(lineOptional, o)
	}
	tags, wantTags := []schema.Value{}, []any{}
	for i := range o % 4 {
		if nullItems && i == 1 {
			tags, wantTags = append(tags, null), append(wantTags, nil)
			continue
		}
		tag := fmt.Sprintf("tag-%d", i)
		tags, wantTags = append(tags, schema.StringValue(tag)), append(wantTags, tag)
	}
	v[14], row["tags"] = schema.ArrayValue(tags), wantTags
	if o%5 > 0 {
		lines, want := []schema.Value{}, []any{}
		for i := range o % 5 {
			l, w := line(lineSchema, i)
			lines, want = append(lines, l), append(want, w)
		}
		v[15], row["lines"] = schema.ArrayValue(lines), want
	}
	counts, wantCounts, numbers, wantNumbers := []schema.Entry{}, map[string]any{}, []schema.Entry{}, []any{}
	for i := range o % 3 {
		key := fmt.Sprintf("k%d", i)
		counts, wantCounts[key] = append(counts, schema.Entry{Key: schema.StringValue(key), Value: schema.Int64Value(i << 40)}), i<<40
		numbers = append(numbers, schema.Entry{Key: schema.Int32Value(int32(i)), Value: schema.StringValue(key)})
		wantNumbers = append(wantNumbers, map[string]any{"key": i, "value": key})
	}
	v[16], row["counts"] = schema.MapValue(counts), wantCounts
	v[17], row["byNumber"] = schema.MapValue(numbers), wantNumbers
	return schema.StructValue(s, v), row
}

// readersProgram reads the files of a folder with each library and prints what it finds, as lines of JSON: {"rows": …}, {"schema": …}, {"counts": …}.
const readersProgram = `
import datetime, decimal, glob, json, os, sys
import duckdb, fastavro, pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq

folder, kind = sys.argv[1], sys.argv[2]

def plain(v):
    if isinstance(v, (bytes, bytearray)): return v.hex()
    if isinstance(v, decimal.Decimal): return str(v)
    if isinstance(v, datetime.datetime): return v.astimezone(datetime.timezone.utc).isoformat(timespec="microseconds")
    if isinstance(v, datetime.time): return v.replace(tzinfo=None).isoformat(timespec="microseconds") # DuckDB has a zone
    if isinstance(v, datetime.date): return v.isoformat()
    if isinstance(v, dict): return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list) and v and all(isinstance(x, tuple) for x in v): return {k: plain(x) for k, x in v}
    if isinstance(v, list): return [plain(x) for x in v]
    return v

def rows(what, found):
    out = sorted((plain(r) for r in found), key=lambda r: r["id"])
    for r in out:
        if r["counts"] == []: r["counts"] = {} # pyarrow has a map without entries as an empty list
    print(json.dumps({"rows": out, "by": what}))

def say(what, said): print(json.dumps({"said": said, "by": what}))

paths = glob.glob(folder + "/**/*." + kind, recursive=True)
if kind == "avro":
    found = []
    for p in paths:
        with open(p, "rb") as f:
            r = fastavro.reader(f)
            found += list(r)
    say("schema", r.writer_schema)
    rows("fastavro", found)
else:
    say("schema", str(pq.read_schema(paths[0]).remove_metadata()).split("\n"))
    say("avro", json.loads(pq.read_metadata(paths[0]).metadata[b"parquet.avro.schema"])["name"])
    rows("pyarrow", [r for p in paths for r in pq.ParquetFile(p).read().to_pylist()])
    table = ds.dataset(folder, format="parquet", partitioning="hive")
    rows("a dataset of pyarrow", table.to_table().to_pylist())
    low, note = decimal.Decimal("-0.01"), "Notiz 4"
    duck = "read_parquet('" + folder + "/**/*.parquet', hive_partitioning = true)"
    duckdb.sql("SET TimeZone = 'UTC'")
    result = duckdb.sql("SELECT * FROM " + duck)
    names = result.columns
    rows("DuckDB", [dict(zip(names, r)) for r in result.fetchall()])
    say("filters", [
        table.count_rows(filter=ds.field("price") < low), duckdb.sql(f"SELECT count(*) FROM {duck} WHERE price < {low}").fetchall()[0][0],
        table.count_rows(filter=ds.field("note") >= note), duckdb.sql(f"SELECT count(*) FROM {duck} WHERE note >= '{note}'").fetchall()[0][0],
        table.count_rows(filter=ds.field("country") == "a/b"), duckdb.sql(f"SELECT count(*) FROM {duck} WHERE country = 'a/b'").fetchall()[0][0],
        table.count_rows(filter=ds.field("id") == 7), duckdb.sql(f"SELECT count(*) FROM {duck} WHERE id = 7").fetchall()[0][0],
    ])
    say("types", [[n, str(t)] for n, t in zip(result.columns, result.types)])
`

func TestFilesAreReadByOthers(t *testing.T) {
	s := peers.S3(t)
	python := peers.PythonClients(t)
	const n = 80
	optional := schema.New(schema.String).Optional().Build()
	for _, c := range []struct {
		kind, codec string
		items       *schema.Schema
	}{
		{"parquet", "snappy", schema.StringSchema}, {"parquet", "zstd", optional}, {"parquet", "gzip", optional}, {"parquet", "lz4", schema.StringSchema},
		{"parquet", "brotli", schema.StringSchema}, {"parquet", "none", schema.StringSchema},
		{"avro", "null", optional}, {"avro", "deflate", optional}, {"avro", "snappy", optional}, {"avro", "bzip2", optional}, {"avro", "zstd", optional},
	} {
		t.Run(c.kind+" "+c.codec, func(t *testing.T) {
			t.Parallel()
			sales, of := saleSchema(c.items), c.items == optional
			golden := c.kind + ".txt"
			if of {
				golden = c.kind + "_null_items.txt"
			}
			folder := peers.Unique(t, "readers")
			run := connectortest.NewSinkRun(t, Sink, nil, conf(s, folder, "format.class", map[string]string{"parquet": "io.confluent.connect.s3.format.parquet.ParquetFormat", "avro": "AvroFormat"}[c.kind],
				c.kind+".codec", c.codec, "partitioner.class", "FieldPartitioner", "partition.field.name", "country", "flush.size", "10"), true, topic)
			var want []any
			for o := range int64(n) {
				v, row := sale(sales, of, o)
				run.Put([]schema.Record{connectortest.At(schema.Record{ValueSchema: sales, Value: v}, topic, o)})
				want = append(want, row)
			}
			run.FlushTo(topic, committedSales)
			run.Close(false, topic)
			dir := t.TempDir()
			for name, b := range objects(t, s, folder) {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			checkReaders(t, python.Run(ctx, t, readersProgram, dir, c.kind), golden, want[:committedSales])
		})
	}
}

// committedSales is how many of 80 records are visible: the files are finished whenever one has ten.
const committedSales = 74

var update = flag.Bool("update", false, "write what the readers say of schemas to testdata")

// checkReaders compares what the readers found with the rows of the topic, and what they say of types with what they should.
func checkReaders(t *testing.T, said, golden string, rows []any) {
	t.Helper()
	b, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for line := range strings.SplitSeq(strings.TrimSpace(said), "\n") {
		var got struct {
			By   string           `json:"by"`
			Rows []map[string]any `json:"rows"`
			Said json.RawMessage  `json:"said"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if got.Rows == nil {
			var out bytes.Buffer
			if err := json.Indent(&out, got.Said, "", " "); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, got.By+": "+out.String()+"\n")
			continue
		}
		if len(got.Rows) != len(want) {
			t.Errorf("%s reads %d rows, want %d", got.By, len(got.Rows), len(want))
			continue
		}
		for i := range want {
			g, _ := json.Marshal(got.Rows[i])
			w, _ := json.Marshal(want[i])
			if string(g) != string(w) {
				t.Errorf("%s reads row %d as\n%s\nwant\n%s", got.By, i, g, w)
				break
			}
		}
	}
	text := strings.Join(texts, "")
	path := filepath.Join("testdata", golden)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	should, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(should) {
		t.Errorf("the readers say\n%s\nwant what is in %s", text, path)
	}
}
