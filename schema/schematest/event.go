package schematest

import "millrace/schema"

// ChangeEvent is an update as the Postgres source makes it: 8 columns, both images,
// the source block; about 950 bytes as JSON without its schema.
func ChangeEvent(a *schema.Arena) (*schema.Schema, schema.Value) {
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
