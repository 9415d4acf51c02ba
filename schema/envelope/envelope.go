package envelope

import (
	"time"

	"millrace/schema"
	"millrace/schema/javatext"
)

// Transaction is the schema of the block that places an event in its transaction.
// It is part of every envelope, whether transaction metadata is provided or not.
var Transaction = schema.NewStruct("event.block").Version(1).Optional().
	Field("id", schema.StringSchema).
	Field("total_order", schema.Int64Schema).
	Field("data_collection_order", schema.Int64Schema).Build()

// The positions of a source block's fields that all connectors share.
const (
	SourceVersion = iota
	SourceConnector
	SourceName
	SourceMillis
	SourceSnapshot
	SourceDB
	SourceSequence
	SourceMicros
	SourceNanos
	SourceOwn // the connector's own fields begin here
)

// SourceBlock makes a connector's source schema: the shared fields, then its own.
func SourceBlock(name string, own ...schema.Field) *schema.Schema {
	b := schema.NewStruct(name).Version(1).
		Field("version", schema.StringSchema).
		Field("connector", schema.StringSchema).
		Field("name", schema.StringSchema).
		Field("ts_ms", schema.Int64Schema).
		Field("snapshot", Semantic(schema.String, EnumName).Param(AllowedParam, snapshotAllowed).
			Optional().Default(schema.StringValue(SnapshotFalse)).Build()).
		Field("db", schema.StringSchema).
		Field("sequence", schema.OptionalString).
		Field("ts_us", schema.OptionalInt64).
		Field("ts_ns", schema.OptionalInt64)
	for _, f := range own {
		b.Field(f.Name, f.Schema)
	}
	return b.Build()
}

// A Layout is the shape of the events of one version of a table.
type Layout struct {
	Row      *schema.Schema // <name>.Value, optional: before and after
	Envelope *schema.Schema // <name>.Envelope
}

// NewLayout makes the shape of events called name, which is mostly the topic's,
// with rows of these fields. It fails where two fields have one name.
func NewLayout(name string, fields []schema.Field, source *schema.Schema) (*Layout, error) {
	b := schema.NewStruct(name + ValueSuffix).Optional()
	for _, f := range fields {
		b.Field(f.Name, f.Schema)
	}
	row, err := b.TryBuild()
	if err != nil {
		return nil, err
	}
	env, err := schema.NewStruct(name+EnvelopeSuffix).Version(envelopeVersion).
		Field(BeforeField, row).
		Field(AfterField, row).
		Field(SourceField, source).
		Field(TransactionField, Transaction).
		Field(OpField, schema.StringSchema).
		Field(MillisField, schema.OptionalInt64).
		Field(MicrosField, schema.OptionalInt64).
		Field(NanosField, schema.OptionalInt64).TryBuild()
	if err != nil {
		return nil, err
	}
	return &Layout{Row: row, Envelope: env}, nil
}

// The values of the field op, made once.
var (
	OpCreate   = schema.StringValue(Create)
	OpUpdate   = schema.StringValue(Update)
	OpDelete   = schema.StringValue(Delete)
	OpRead     = schema.StringValue(Read)
	OpTruncate = schema.StringValue(Truncate)
	OpMessage  = schema.StringValue(Message)
)

// Event makes an event in the arena: before and after are structs of l.Row or
// null, source a struct of the source's schema, tx a struct of Transaction or null, at
// when the connector saw it.
func (l *Layout) Event(a *schema.Arena, op, before, after, source, tx schema.Value, at Moment) schema.Value {
	f := a.Values(8)
	f[0], f[1], f[2], f[3] = before, after, source, tx
	f[4] = op
	f[5], f[6], f[7] = at.Millis, at.Micros, at.Nanos
	return a.Struct(l.Envelope, f)
}

// A Moment is a time in the three units in which envelopes and source blocks hold it.
type Moment struct{ Millis, Micros, Nanos schema.Value }

// MomentOf is t with nanoseconds, as the connector's own clock gives it.
func MomentOf(t time.Time) Moment {
	n := t.UnixNano()
	return Moment{schema.Int64Value(javatext.FloorDiv(n, 1e6)), schema.Int64Value(javatext.FloorDiv(n, 1e3)), schema.Int64Value(n)}
}

// MomentOfMicros is a database's time in microseconds since the epoch.
func MomentOfMicros(us int64) Moment {
	return Moment{schema.Int64Value(javatext.FloorDiv(us, 1000)), schema.Int64Value(us), schema.Int64Value(us * 1000)}
}
