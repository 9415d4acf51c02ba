package cdc

import (
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/envelope"
)

// Transactions numbers the events of a source's transactions and tells of their
// beginnings and ends in a topic of their own, as provide.transaction.metadata asks.
// It belongs to the goroutine that makes the events. A nil Transactions does nothing.
type Transactions struct {
	topic string
	open  TxState
	total int64          // of all collections
	index map[string]int // place in open.Counts
}

// A TxState is how far a transaction was numbered. It is stored with the position
// within a transaction, under Debezium's own keys. The zero TxState is of none.
type TxState struct {
	ID     string
	Counts []TxCount // in the order in which they first came
}

// A TxCount is how many events a transaction has had of a collection.
type TxCount struct {
	Collection string
	Events     int64
}

// The keys of a stored transaction.
const (
	TxKey      = "transaction_id"
	offTxCount = "transaction_data_collection_order_"
)

// NewTransactions makes the metadata of a source; topic is where it goes.
func NewTransactions(topic string) *Transactions {
	return &Transactions{topic: topic, index: map[string]int{}}
}

// Store adds the state to a position.
func (s TxState) Store(p Position) Position {
	if s.ID == "" {
		return p
	}
	p = p.Set(TxKey, schema.StringValue(s.ID))
	for _, c := range s.Counts {
		p = p.Set(offTxCount+c.Collection, schema.Int64Value(c.Events))
	}
	return p
}

// StoredTx is the transaction that was open at a stored position.
func StoredTx(position schema.Value) TxState {
	s := TxState{ID: Text(position, TxKey)}
	if s.ID == "" {
		return s
	}
	for _, e := range position.Entries() {
		if name, ok := strings.CutPrefix(e.Key.Str(), offTxCount); ok {
			n, _ := Int(position, e.Key.Str())
			s.Counts = append(s.Counts, TxCount{name, n})
		}
	}
	return s
}

// State is how far the open transaction is; it does not change any more.
func (x *Transactions) State() TxState {
	if x == nil {
		return TxState{}
	}
	return TxState{x.open.ID, slices.Clone(x.open.Counts)}
}

// Open reports whether a transaction's beginning was told and its end was not.
func (x *Transactions) Open() bool { return x != nil && x.open.ID != "" }

// Resume goes on within a transaction whose beginning was told already.
func (x *Transactions) Resume(s TxState) {
	x.open = TxState{s.ID, slices.Clone(s.Counts)}
	x.total = 0
	clear(x.index)
	for i, c := range s.Counts {
		x.index[c.Collection] = i
		x.total += c.Events
	}
}

var (
	txKey   = schema.NewStruct("io.debezium.connector.common.TransactionMetadataKey").Version(1).Field("id", schema.StringSchema).Build()
	txTable = schema.NewStruct("event.collection").Version(1).Field("data_collection", schema.StringSchema).Field("event_count", schema.Int64Schema).Build()
	txValue = schema.NewStruct("io.debezium.connector.common.TransactionMetadataValue").Version(1).
		Field("status", schema.StringSchema).Field("id", schema.StringSchema).Field("event_count", schema.OptionalInt64).
		Field("data_collections", schema.ArrayOf(txTable).Optional().Build()).Field("ts_ms", schema.Int64Schema).Build()
)

// Begin tells that a transaction begins; at is its time in the database, in
// milliseconds. One record goes into out.
func (x *Transactions) Begin(out *Builder, id string, at int64) {
	x.Resume(TxState{ID: id})
	x.tell(out, "BEGIN", id, schema.Value{}, schema.Value{}, at)
}

// End tells that the open transaction has ended, with what it held.
func (x *Transactions) End(out *Builder, id string, at int64) {
	tables := make([]schema.Value, len(x.open.Counts))
	for i, c := range x.open.Counts {
		tables[i] = schema.StructValue(txTable, []schema.Value{schema.StringValue(c.Collection), schema.Int64Value(c.Events)})
	}
	x.tell(out, "END", id, schema.Int64Value(x.total), schema.ArrayValue(tables), at)
	x.Resume(TxState{})
}

func (x *Transactions) tell(out *Builder, status, id string, events, tables schema.Value, at int64) {
	name := schema.StringValue(id)
	out.Add(schema.Record{
		Topic: x.topic, Partition: 0, Timestamp: schema.NoTimestamp,
		KeySchema: txKey, Key: schema.StructValue(txKey, []schema.Value{name}),
		ValueSchema: txValue, Value: schema.StructValue(txValue, []schema.Value{schema.StringValue(status), name, events, tables, schema.Int64Value(at)}),
	})
}

// Number counts an event of a collection and makes its block. id is the transaction's
// as the event shows it; where it is null, or nothing is numbered, the block is null.
func (x *Transactions) Number(a *schema.Arena, id schema.Value, collection string) schema.Value {
	if x == nil || id.IsNull() {
		return schema.Value{}
	}
	i, known := x.index[collection]
	if !known {
		i = len(x.open.Counts)
		x.index[collection] = i
		x.open.Counts = append(x.open.Counts, TxCount{Collection: collection})
	}
	x.open.ID = id.Str() // it may differ from event to event; the last is what is stored
	x.open.Counts[i].Events++
	x.total++
	f := a.Values(3)
	f[0], f[1], f[2] = id, schema.Int64Value(x.total), schema.Int64Value(x.open.Counts[i].Events)
	return a.Struct(envelope.Transaction, f)
}
