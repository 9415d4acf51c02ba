package postgres

import (
	"strconv"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

// connectorName is what source blocks and headers call this connector.
const connectorName = "postgresql"

// sourceSchema is the source block, and the places of its own fields.
var sourceSchema = envelope.SourceBlock("io.debezium.connector.postgresql.Source",
	schema.Field{Name: "schema", Schema: schema.StringSchema},
	schema.Field{Name: "table", Schema: schema.StringSchema},
	schema.Field{Name: "txId", Schema: schema.OptionalInt64},
	schema.Field{Name: "lsn", Schema: schema.OptionalInt64},
	schema.Field{Name: "xmin", Schema: schema.OptionalInt64},
	schema.Field{Name: "origin", Schema: schema.OptionalString},
	schema.Field{Name: "origin_lsn", Schema: schema.OptionalInt64},
)

const (
	srcSchema = envelope.SourceOwn + iota
	srcTable
	srcXID
	srcLSN
	srcXmin
	srcFields = envelope.SourceOwn + 7
)

// A sourceBlock makes the source blocks of a transaction's events: what is the same
// for all of them is set once.
type sourceBlock struct {
	fields   [srcFields]schema.Value
	sequence []byte // ["<last commit>"," : its front
}

func newSourceBlock(s *settings) *sourceBlock {
	b := &sourceBlock{}
	b.fields[envelope.SourceVersion] = schema.StringValue(schema.DebeziumVersion)
	b.fields[envelope.SourceConnector] = schema.StringValue(connectorName)
	b.fields[envelope.SourceName] = schema.StringValue(s.prefix)
	b.fields[envelope.SourceDB] = schema.StringValue(s.database)
	b.snapshot(envelope.SnapshotFalse)
	return b
}

func (b *sourceBlock) snapshot(mark string) {
	b.fields[envelope.SourceSnapshot] = schema.StringValue(mark)
}

// begin sets what a transaction's events share. xid 0 is none; before is the last
// commit, 0 where there is none.
func (b *sourceBlock) begin(micros, xid int64, before lsn) {
	m := envelope.MomentOfMicros(micros)
	b.fields[envelope.SourceMillis], b.fields[envelope.SourceMicros], b.fields[envelope.SourceNanos] = m.Millis, m.Micros, m.Nanos
	b.fields[srcXID] = schema.Value{}
	if xid != 0 {
		b.fields[srcXID] = schema.Int64Value(xid)
	}
	b.sequence = append(b.sequence[:0], '[')
	if before == 0 {
		b.sequence = append(b.sequence, "null"...)
	} else {
		b.sequence = append(strconv.AppendUint(append(b.sequence, '"'), uint64(before), 10), '"')
	}
	b.sequence = append(b.sequence, ',', '"')
}

// at makes the block of an event of a table at an LSN.
func (b *sourceBlock) at(a *schema.Arena, schemaName, table schema.Value, at lsn) schema.Value {
	f := a.Values(srcFields)
	copy(f, b.fields[:])
	f[srcSchema], f[srcTable], f[srcLSN] = schemaName, table, int64Of(at)
	var buf [64]byte
	seq := append(strconv.AppendUint(append(buf[:0], b.sequence...), uint64(at), 10), '"', ']')
	f[envelope.SourceSequence] = a.String(seq)
	return a.Struct(sourceSchema, f)
}

var messageKey = schema.NewStruct("io.debezium.connector.postgresql.MessageKey").Version(1).Field("prefix", schema.OptionalString).Build()

// messageCollection is how the metadata of transactions calls logical messages.
const messageCollection = "message"

// A messageLayout makes the records of logical messages, whose content comes in the
// form of binary.handling.mode.
type messageLayout struct {
	topic        string
	mode         cdc.BinaryMode
	block, value *schema.Schema
}

func (s *settings) newMessageLayout() messageLayout {
	l := messageLayout{topic: s.naming.Topic("message"), mode: s.binary}
	l.block = schema.NewStruct("io.debezium.connector.postgresql.Message").Version(1).
		Field("prefix", schema.OptionalString).Field("content", s.binarySchema().Optional().Build()).Build()
	l.value = schema.NewStruct("io.debezium.connector.postgresql.MessageValue").Version(1).
		Field("op", schema.StringSchema).Field("ts_ms", schema.OptionalInt64).Field("source", sourceSchema).
		Field("transaction", envelope.Transaction).Field("message", l.block).Build()
	return l
}

// record makes a message's record; content may be kept.
func (l *messageLayout) record(a *schema.Arena, prefix string, content []byte, source, tx schema.Value, at envelope.Moment) schema.Record {
	name := schema.StringValue(prefix)
	return schema.Record{
		Topic: l.topic, Partition: schema.NoPartition, Timestamp: schema.NoTimestamp,
		KeySchema: messageKey, Key: schema.StructValue(messageKey, []schema.Value{name}),
		ValueSchema: l.value,
		Value: schema.StructValue(l.value, []schema.Value{envelope.OpMessage, at.Millis, source, tx,
			schema.StructValue(l.block, []schema.Value{name, l.mode.Value(a, content)})}),
	}
}
