package mysql

import (
	"slices"
	"strings"
	"unicode/utf16"

	"millrace/schema"
)

// A changeTopic makes the records of the schema change topic, which is called as
// topic.prefix: what the history has, for consumers.
type changeTopic struct {
	topic               string
	key, value          *schema.Schema
	change, table, colm *schema.Schema
	headers             []schema.Header
	comments            bool
}

func newChangeTopic(s *settings, headers []schema.Header) *changeTopic {
	name := func(n string) string { return s.naming.Schemas.Name(n) }
	prefix := "io.debezium.connector." + s.connector()
	c := &changeTopic{topic: s.prefix, headers: headers, comments: s.comments}
	texts := schema.ArrayOf(schema.StringSchema).Optional().Build()
	c.colm = schema.NewStruct(name("io.debezium.connector.schema.Column")).Version(1).
		Field("name", schema.StringSchema).Field("jdbcType", schema.Int32Schema).Field("nativeType", schema.OptionalInt32).
		Field("typeName", schema.StringSchema).Field("typeExpression", schema.OptionalString).Field("charsetName", schema.OptionalString).
		Field("length", schema.OptionalInt32).Field("scale", schema.OptionalInt32).Field("position", schema.Int32Schema).
		Field("optional", schema.OptionalBool).Field("autoIncremented", schema.OptionalBool).Field("generated", schema.OptionalBool).
		Field("comment", schema.OptionalString).Field("defaultValueExpression", schema.OptionalString).Field("enumValues", texts).Build()
	c.table = schema.NewStruct(name("io.debezium.connector.schema.Table")).Version(1).Optional().
		Field("defaultCharsetName", schema.OptionalString).Field("primaryKeyColumnNames", texts).
		Field("columns", schema.ArrayOf(c.colm).Build()).Field("comment", schema.OptionalString).Build()
	c.change = schema.NewStruct(name("io.debezium.connector.schema.Change")).Version(1).
		Field("type", schema.StringSchema).Field("id", schema.StringSchema).Field("table", c.table).Build()
	c.key = schema.NewStruct(name(prefix+".SchemaChangeKey")).Version(1).Field("databaseName", schema.StringSchema).Build()
	c.value = schema.NewStruct(name(prefix+".SchemaChangeValue")).Version(1).
		Field("source", s.sourceSchema()).Field("ts_ms", schema.Int64Schema).Field("databaseName", schema.OptionalString).
		Field("schemaName", schema.OptionalString).Field("ddl", schema.OptionalString).Field("tableChanges", schema.ArrayOf(c.change).Build()).Build()
	return c
}

func optionalText(s string, given bool) schema.Value {
	if !given {
		return schema.Value{}
	}
	return schema.StringValue(s)
}

func optionalInt(n int) schema.Value {
	if n == NoLength {
		return schema.Value{}
	}
	return schema.Int32Value(int32(n))
}

// record is the topic's record of a history's entry.
func (c *changeTopic) record(e *historyEntry, source schema.Value) schema.Record {
	var changes []schema.Value
	for i := range e.changes {
		changes = append(changes, c.changeValue(&e.changes[i]))
	}
	db := schema.StringValue(e.database)
	return schema.Record{
		Topic: c.topic, Partition: 0, Timestamp: schema.NoTimestamp, Headers: c.headers,
		KeySchema: c.key, Key: schema.StructValue(c.key, []schema.Value{db}),
		ValueSchema: c.value, Value: schema.StructValue(c.value, []schema.Value{
			source, schema.Int64Value(e.tsMs), db, {}, schema.StringValue(e.ddl), schema.ArrayValue(changes)}),
	}
}

func (c *changeTopic) changeValue(ch *TableChange) schema.Value {
	table := schema.Value{}
	if t := ch.Table; t != nil && ch.Kind != "DROP" {
		var keys, columns []schema.Value
		for _, k := range t.Key() {
			keys = append(keys, schema.StringValue(k))
		}
		for i, col := range t.shownColumns() {
			set := col.shownCharset()
			members := schema.Value{}
			if len(col.typed.members) > 0 {
				var list []schema.Value
				for _, m := range col.typed.members {
					list = append(list, schema.StringValue(m))
				}
				members = schema.ArrayValue(list)
			}
			columns = append(columns, schema.StructValue(c.colm, []schema.Value{
				schema.StringValue(col.Name), schema.Int32Value(int32(col.jdbcType())), {}, schema.StringValue(col.TypeName), schema.StringValue(col.TypeName),
				optionalText(set, set != ""), optionalInt(col.typed.length), optionalInt(col.typed.scale), schema.Int32Value(int32(i + 1)),
				schema.BoolValue(col.Nullable), schema.BoolValue(col.AutoIncrement), schema.BoolValue(col.AutoIncrement),
				optionalText(col.Comment, c.comments && col.Comment != ""), optionalText(col.typed.def, col.typed.hasDef), members,
			}))
		}
		table = schema.StructValue(c.table, []schema.Value{schema.StringValue(t.Charset), schema.ArrayValue(keys), schema.ArrayValue(columns),
			optionalText(t.Comment, c.comments && t.Comment != "")})
	}
	return schema.StructValue(c.change, []schema.Value{schema.StringValue(ch.Kind), schema.StringValue(quotedID(ch.ID)), table})
}

// tablesOf are the names of a statement's tables as source blocks have them: in the order
// in which Java's set of them iterates, which is that of their hashes.
func tablesOf(ids []TableID) string {
	seen := map[TableID]bool{}
	var unique []TableID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			unique = append(unique, id)
		}
	}
	buckets := 16
	for len(unique)*4 > buckets*3 {
		buckets *= 2
	}
	slot := func(id TableID) int {
		h := uint32(0)
		for _, u := range utf16.Encode([]rune(id.String())) {
			h = 31*h + uint32(u)
		}
		return int((h ^ h>>16) & uint32(buckets-1))
	}
	slices.SortStableFunc(unique, func(a, b TableID) int { return slot(a) - slot(b) })
	names := make([]string, len(unique))
	for i, id := range unique {
		names[i] = id.Name
	}
	return strings.Join(names, ",")
}
