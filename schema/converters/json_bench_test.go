package converters

import (
	"encoding/json"
	"testing"

	"millrace/schema"
)

// changeEvent is an update as the Postgres source makes it: 8 columns, both images,
// the source block; about 950 bytes as JSON without its schema.
func changeEvent(a *schema.Arena) (*schema.Schema, schema.Value) {
	row := schema.NewStruct("bench.public.orders.Value").
		Field("id", schema.Int32Schema).Field("customer", schema.OptionalString).Field("amount", schema.OptionalFloat64).
		Field("paid", schema.OptionalBool).Field("note", schema.OptionalString).Field("quantity", schema.OptionalInt32).
		Field("created", schema.New(schema.Int64).Optional().Name("io.debezium.time.MicroTimestamp").Version(1).Build()).
		Field("payload", schema.OptionalString).Optional().Build()
	source := schema.NewStruct("io.debezium.connector.postgresql.Source").Version(1).
		Field("version", schema.StringSchema).Field("connector", schema.StringSchema).Field("name", schema.StringSchema).
		Field("ts_ms", schema.Int64Schema).Field("snapshot", schema.New(schema.String).Optional().Default(schema.StringValue("false")).Build()).
		Field("db", schema.StringSchema).Field("sequence", schema.OptionalString).Field("ts_us", schema.OptionalInt64).
		Field("ts_ns", schema.OptionalInt64).Field("schema", schema.StringSchema).Field("table", schema.StringSchema).
		Field("txId", schema.OptionalInt64).Field("lsn", schema.OptionalInt64).Field("xmin", schema.OptionalInt64).
		Field("origin", schema.OptionalString).Field("origin_lsn", schema.OptionalInt64).Build()
	txn := schema.NewStruct("event.block").Version(1).Optional().Field("id", schema.StringSchema).
		Field("total_order", schema.Int64Schema).Field("data_collection_order", schema.Int64Schema).Build()
	env := schema.NewStruct("bench.public.orders.Envelope").Version(2).
		Field("before", row).Field("after", row).Field("source", source).Field("transaction", txn).Field("op", schema.StringSchema).
		Field("ts_ms", schema.OptionalInt64).Field("ts_us", schema.OptionalInt64).Field("ts_ns", schema.OptionalInt64).Build()
	str := schema.StringValue
	image := func(id int32) schema.Value {
		f := a.Values(8)
		f[0], f[1], f[2], f[3] = schema.Int32Value(id), str("Ann Example Customer"), schema.Float64Value(1234.5625), schema.BoolValue(true)
		f[4], f[5], f[6], f[7] = str("left at the door, müde"), schema.Int32Value(17), schema.Int64Value(1709210096789123), str("0123456789abcdef0123456789abcdef0123456789")
		return a.Struct(row, f)
	}
	s := a.Values(16)
	s[0], s[1], s[2], s[3], s[4], s[5] = str(schema.DebeziumVersion), str("postgresql"), str("bench"), schema.Int64Value(1796002893770), str("false"), str("postgres")
	s[6], s[7], s[8] = str(`["1581263368","1581264000"]`), schema.Int64Value(1796002893770955), schema.Int64Value(1796002893770955000)
	s[9], s[10], s[11], s[12] = str("public"), str("orders"), schema.Int64Value(9781), schema.Int64Value(1581264000)
	e := a.Values(8)
	e[0], e[1], e[2], e[4] = image(1000), image(1000), a.Struct(source, s), str("u")
	e[5], e[6], e[7] = schema.Int64Value(1796002893900), schema.Int64Value(1796002893900138), schema.Int64Value(1796002893900138104)
	return env, a.Struct(env, e)
}

func benchmarkEncode(b *testing.B, schemas string) {
	var a schema.Arena
	s, v := changeEvent(&a)
	c := newConverter(b, JSON, "schemas.enable", schemas)
	m := &Message{Topic: "bench.public.orders"}
	out, _, err := c.Encode(nil, m, s, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(out)))
	b.ReportMetric(float64(len(out)), "bytes/event")
	b.ReportAllocs()
	for b.Loop() {
		if out, _, err = c.Encode(out[:0], m, s, v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONEncodeEvent(b *testing.B)           { benchmarkEncode(b, "false") }
func BenchmarkJSONEncodeEventWithSchema(b *testing.B) { benchmarkEncode(b, "true") }

// BenchmarkEncodingJSONEvent is the measure of comparison: the same event as maps
// through encoding/json.
func BenchmarkEncodingJSONEvent(b *testing.B) {
	var a schema.Arena
	s, v := changeEvent(&a)
	text, _, err := newConverter(b, JSON, "schemas.enable", "false").Encode(nil, nil, s, v)
	if err != nil {
		b.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkDecode(b *testing.B, schemas string) {
	var a schema.Arena
	s, v := changeEvent(&a)
	c := newConverter(b, JSON, "schemas.enable", schemas)
	text, _, err := c.Encode(nil, nil, s, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Decode(nil, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONDecodeEvent(b *testing.B)           { benchmarkDecode(b, "false") }
func BenchmarkJSONDecodeEventWithSchema(b *testing.B) { benchmarkDecode(b, "true") }

func BenchmarkEncodingJSONDecodeEvent(b *testing.B) {
	var a schema.Arena
	s, v := changeEvent(&a)
	text, _, err := newConverter(b, JSON, "schemas.enable", "false").Encode(nil, nil, s, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			b.Fatal(err)
		}
	}
}

// TestJSONEncodeDoesNotAllocate holds the promise of the data path: nothing per
// field, nothing per record.
func TestJSONEncodeDoesNotAllocate(t *testing.T) {
	var a schema.Arena
	s, v := changeEvent(&a)
	for _, schemas := range []string{"true", "false"} {
		c := newConverter(t, JSON, "schemas.enable", schemas)
		m := &Message{Topic: "t"}
		buf := make([]byte, 0, 64<<10)
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := c.Encode(buf, m, s, v); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("schemas.enable=%s: %v allocations for a change event, want none", schemas, n)
		}
	}
}
