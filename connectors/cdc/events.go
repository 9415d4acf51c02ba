package cdc

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/schema"
	"millrace/schema/envelope"
)

// A Table is what the events of one version of a table need.
type Table struct {
	Topic    string
	Name     string // as transactions' metadata calls it: schema.table
	Layout   *envelope.Layout
	Key      *schema.Schema // nil: the table has no key
	KeyIndex []int          // the key's fields in a row, in the key's order
}

// Events turns changes of rows into records.
type Events struct {
	Tombstones bool            // a null value follows each delete
	Skip       Operations      // these are not sent
	Context    []schema.Header // on each record; shared, never changed
	Tx         *Transactions   // numbers the events of transactions; nil: they are not numbered
	Out        *Builder        // takes the records
	Seen       Tally           // counts the changes; its owner empties it
}

// Operations is a set of operations, by the letters of op.
type Operations [256]bool

// ParseOperations reads skipped.operations.
func ParseOperations(list []string) (Operations, error) {
	var o Operations
	for _, s := range list {
		switch s = strings.ToLower(strings.TrimSpace(s)); s {
		case "none":
		case envelope.Create, envelope.Update, envelope.Delete, envelope.Truncate:
			o[s[0]] = true
		default:
			return o, fmt.Errorf("%q is none of c, u, d, t, none", s)
		}
	}
	return o, nil
}

// Has reports whether an operation is in the set.
func (o *Operations) Has(op string) bool { return o[op[0]] }

// A Change is one row's change. Before and After are structs of the table's row, or
// null.
type Change struct {
	Table         *Table
	Before, After schema.Value
	// OldKey is a row of which the fields of the key are filled, where an update may
	// have changed them; null: it has not.
	OldKey schema.Value
	Source schema.Value
	At     envelope.Moment
	TxID   schema.Value // the transaction, as the event's block names it; null: none, or not asked for
}

// count counts a change, as filtered where skipped.operations leaves it out.
func (e *Events) count(n *int64, op string) {
	if e.Skip.Has(op) {
		n = &e.Seen.Filtered
	}
	*n++
}

// Create sends an insert.
func (e *Events) Create(c *Change) {
	e.count(&e.Seen.Creates, envelope.Create)
	if !e.Skip.Has(envelope.Create) {
		e.send(c, envelope.OpCreate, e.key(c.Table, c.After), schema.Value{}, c.After, e.Context)
	}
}

// Read sends a row of a snapshot.
func (e *Events) Read(c *Change) {
	e.Seen.Others++
	e.send(c, envelope.OpRead, e.key(c.Table, c.After), schema.Value{}, c.After, e.Context)
}

// Update sends an update; where the key changed, the delete of the row under its old
// key, its tombstone and the create of the row under the new one, each with the other
// key in a header. What is skipped is what would be sent: such a change is a delete
// and a create.
func (e *Events) Update(c *Change) {
	e.count(&e.Seen.Updates, envelope.Update)
	key := e.key(c.Table, c.After)
	if !c.OldKey.IsNull() && c.Table.Key != nil {
		if old := e.key(c.Table, c.OldKey); !schema.EqualValues(old, key) {
			before := c.Before
			if before.IsNull() {
				before = c.OldKey
			}
			if !e.Skip.Has(envelope.Delete) {
				e.deleted(c, old, before, e.with(envelope.HeaderNewKey, c.Table.Key, key))
			}
			if !e.Skip.Has(envelope.Create) {
				e.send(c, envelope.OpCreate, key, schema.Value{}, c.After, e.with(envelope.HeaderOldKey, c.Table.Key, old))
			}
			return
		}
	}
	if !e.Skip.Has(envelope.Update) {
		e.send(c, envelope.OpUpdate, key, c.Before, c.After, e.Context)
	}
}

// Delete sends a delete and its tombstone.
func (e *Events) Delete(c *Change) {
	e.count(&e.Seen.Deletes, envelope.Delete)
	if !e.Skip.Has(envelope.Delete) {
		e.deleted(c, e.key(c.Table, c.Before), c.Before, e.Context)
	}
}

func (e *Events) deleted(c *Change, key, before schema.Value, headers []schema.Header) {
	e.send(c, envelope.OpDelete, key, before, schema.Value{}, headers)
	if e.Tombstones {
		e.Out.Add(schema.Record{Topic: c.Table.Topic, Partition: schema.NoPartition, Timestamp: schema.NoTimestamp,
			KeySchema: c.Table.Key, Key: key, Headers: headers})
	}
}

// Truncate sends the truncation of a table: no key, no rows.
func (e *Events) Truncate(c *Change) {
	e.count(&e.Seen.Others, envelope.Truncate)
	if !e.Skip.Has(envelope.Truncate) {
		e.send(c, envelope.OpTruncate, schema.Value{}, schema.Value{}, schema.Value{}, e.Context)
	}
}

func (e *Events) send(c *Change, op, key, before, after schema.Value, headers []schema.Header) {
	r := schema.Record{
		Topic: c.Table.Topic, Partition: schema.NoPartition, Timestamp: schema.NoTimestamp,
		ValueSchema: c.Table.Layout.Envelope,
		Value:       c.Table.Layout.Event(&e.Out.Arena, op, before, after, c.Source, e.Tx.Number(&e.Out.Arena, c.TxID, c.Table.Name), c.At),
		Headers:     headers,
	}
	if !key.IsNull() {
		r.KeySchema, r.Key = c.Table.Key, key
	}
	e.Out.Add(r)
}

// key is the key of a row.
func (e *Events) key(t *Table, row schema.Value) schema.Value {
	if t.Key == nil {
		return schema.Value{}
	}
	from := row.Fields()
	f := e.Out.Arena.Values(len(t.KeyIndex))
	for i, at := range t.KeyIndex {
		f[i] = from[at]
	}
	return e.Out.Arena.Struct(t.Key, f)
}

// with is one header before the shared ones.
func (e *Events) with(name string, s *schema.Schema, v schema.Value) []schema.Header {
	h := make([]schema.Header, 0, 1+len(e.Context))
	h = append(h, schema.Header{Key: name, Schema: s, Value: v})
	return append(h, e.Context...)
}

// ContextHeaders are the headers that extended.headers.enabled puts on each change:
// who sent it, and in which run.
func ContextHeaders(prefix string, task int, connector string) []schema.Header {
	h := func(key, value string) schema.Header {
		return schema.Header{Key: key, Schema: schema.StringSchema, Value: schema.StringValue(value)}
	}
	return []schema.Header{
		h(envelope.HeaderLogicalName, prefix), h(envelope.HeaderTaskID, strconv.Itoa(task)),
		h(envelope.HeaderConnectorName, connector), h(envelope.HeaderRunID, newUUIDv7(time.Now())),
	}
}

// newUUIDv7 is a UUID of version 7 (RFC 9562): milliseconds, then chance.
func newUUIDv7(t time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	ms := t.UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
