package mysql

import (
	"millrace/schema"
	"millrace/schema/envelope"
)

func newSourceSchema(name string) *schema.Schema {
	return envelope.SourceBlock(name,
		schema.Field{Name: "table", Schema: schema.OptionalString},
		schema.Field{Name: "server_id", Schema: schema.Int64Schema},
		schema.Field{Name: "gtid", Schema: schema.OptionalString},
		schema.Field{Name: "file", Schema: schema.StringSchema},
		schema.Field{Name: "pos", Schema: schema.Int64Schema},
		schema.Field{Name: "row", Schema: schema.Int32Schema},
		schema.Field{Name: "thread", Schema: schema.OptionalInt64},
		schema.Field{Name: "query", Schema: schema.OptionalString},
	)
}

// The source blocks of the two connectors, and the places of their own fields.
var (
	mysqlSource = newSourceSchema("io.debezium.connector.mysql.Source")
	mariaSource = newSourceSchema("io.debezium.connector.mariadb.Source")
)

const (
	srcTable = envelope.SourceOwn + iota
	srcServerID
	srcGTID
	srcFile
	srcPos
	srcRow
	srcThread
	srcQuery
	srcFields
)

func (s *settings) sourceSchema() *schema.Schema {
	if s.mariadb {
		return mariaSource
	}
	return mysqlSource
}

// A sourceBlock makes the source blocks of events: what is the same for several of them
// is set once.
type sourceBlock struct {
	schema *schema.Schema
	fields [srcFields]schema.Value
}

func newSourceBlock(s *settings) *sourceBlock {
	b := &sourceBlock{schema: s.sourceSchema()}
	b.fields[envelope.SourceVersion] = schema.StringValue(schema.DebeziumVersion)
	b.fields[envelope.SourceConnector] = schema.StringValue(s.connector())
	b.fields[envelope.SourceName] = schema.StringValue(s.prefix)
	b.fields[srcServerID] = schema.Int64Value(0)
	b.snapshot(envelope.SnapshotFalse)
	return b
}

func (b *sourceBlock) snapshot(mark string) {
	b.fields[envelope.SourceSnapshot] = schema.StringValue(mark)
}

// time sets when the change was made.
func (b *sourceBlock) time(m envelope.Moment) {
	b.fields[envelope.SourceMillis], b.fields[envelope.SourceMicros], b.fields[envelope.SourceNanos] = m.Millis, m.Micros, m.Nanos
}

// at makes the block of an event of a table: pos is the row event's place in the file,
// row the row's place in the event. table may be null.
func (b *sourceBlock) at(a *schema.Arena, db, table schema.Value, pos int64, row int) schema.Value {
	f := a.Values(int(srcFields))
	copy(f, b.fields[:])
	f[envelope.SourceDB], f[srcTable], f[srcPos], f[srcRow] = db, table, schema.Int64Value(pos), schema.Int32Value(int32(row))
	return a.Struct(b.schema, f)
}
