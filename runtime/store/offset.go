package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/schema"
	"millrace/schema/converters"
)

// Offsets is the offset topic: where each source stands. Tasks write to it with the
// clients of their own (see Codec), so that a task that is no longer the owner cannot.
type Offsets struct {
	Topic string
	table *log.Table
	lg    *slog.Logger

	mu     sync.Mutex // guards the fields below
	codec  *Codec
	stored map[string]*partitions // by connector
}

// partitions are a connector's source partitions, in the order in which they came.
type partitions struct {
	order []string // keys
	at    map[string]connectors.Offset
}

// OpenOffsets makes or verifies the offset topic and reads it to its end.
func OpenOffsets(ctx context.Context, l *log.Log, t runtime.InternalTopic, lg *slog.Logger) (*Offsets, error) {
	o := &Offsets{Topic: t.Name, lg: lg, codec: NewCodec(), stored: map[string]*partitions{}}
	var err error
	o.table, err = l.OpenTable(ctx, log.TableOptions{Topic: t.Name, Partitions: t.Partitions, Replication: t.Replication, Configs: t.Settings, Apply: o.apply})
	if err != nil {
		return nil, fmt.Errorf("offset.storage.topic: %w", err)
	}
	return o, nil
}

// Close ends the store.
func (o *Offsets) Close() { o.table.Close() }

// ReadToEnd returns when All shows all that was written before the call. Behind a transaction that is open,
// as another task's that died within it, may lie offsets that were committed: a task that began without them would read again.
func (o *Offsets) ReadToEnd(ctx context.Context) error { return o.table.ReadPastOpen(ctx) }

// All are the offsets stored for a connector, in the order in which their source
// partitions were first seen.
func (o *Offsets) All(connector string) []connectors.Offset {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.stored[connector]
	if p == nil {
		return nil
	}
	out := make([]connectors.Offset, 0, len(p.order))
	for _, key := range p.order {
		out = append(out, p.at[key])
	}
	return out
}

// AllOf are the offsets stored for a connector in several topics, read to their ends:
// of a source partition that several have, the first one's.
func AllOf(ctx context.Context, connector string, stores ...*Offsets) ([]connectors.Offset, error) {
	var out []connectors.Offset
	for i, s := range stores {
		if err := s.ReadToEnd(ctx); err != nil {
			return nil, err
		}
		for _, at := range s.All(connector) {
			if i == 0 || !slices.ContainsFunc(out, func(have connectors.Offset) bool { return schema.EqualValues(have.Partition, at.Partition) }) {
				out = append(out, at)
			}
		}
	}
	return out, nil
}

func (o *Offsets) apply(records []*kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range records {
		if err := o.one(r); err != nil {
			o.lg.Error("record of the offset topic is skipped", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
		}
	}
}

func (o *Offsets) one(r *kgo.Record) error {
	connector, partition, err := o.codec.ParseKey(r.Key)
	if err != nil {
		return err
	}
	p := o.stored[connector]
	if p == nil {
		p = &partitions{at: map[string]connectors.Offset{}}
		o.stored[connector] = p
	}
	key := string(r.Key)
	_, known := p.at[key]
	if r.Value == nil {
		if known {
			delete(p.at, key)
			p.order = deleteString(p.order, key)
		}
		return nil
	}
	position, err := o.codec.parse(r.Value)
	if err != nil {
		return fmt.Errorf("value of key %q: %w", r.Key, err)
	}
	if !known {
		p.order = append(p.order, key)
	}
	p.at[key] = connectors.Offset{Partition: partition, Position: position}
	return nil
}

func deleteString(list []string, s string) []string {
	out := list[:0]
	for _, e := range list {
		if e != s {
			out = append(out, e)
		}
	}
	return out
}

// Put writes offsets with the store's own client: those that a client of the API
// sets. It returns when All shows them.
func (o *Offsets) Put(ctx context.Context, connector string, offsets []connectors.Offset) error {
	o.mu.Lock()
	rs := make([]*kgo.Record, 0, len(offsets))
	var err error
	for _, off := range offsets {
		var r *kgo.Record
		if r, err = o.codec.Record(connector, off); err != nil {
			break
		}
		rs = append(rs, r)
	}
	o.mu.Unlock()
	if err != nil {
		return err
	}
	if err := o.table.Put(ctx, rs...); err != nil {
		return err
	}
	return o.ReadToEnd(ctx)
}

// A Codec reads and writes records of the offset topic. It is used by one goroutine
// at a time.
type Codec struct{ json converters.Converter }

// NewCodec makes a codec.
func NewCodec() *Codec {
	j, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, true)
	if len(errs) > 0 {
		panic("store: " + errs[0].Error()) // our own constant
	}
	return &Codec{j}
}

// AppendKey appends the key of a source partition: ["connector",{partition}]. Its
// bytes decide what compaction replaces, so the order in the partition is kept.
func (c *Codec) AppendKey(b []byte, connector string, partition schema.Value) ([]byte, error) {
	b = append(appendString(append(b, '['), connector), ',')
	b, null, err := c.json.Encode(b, &converters.Message{}, nil, partition)
	if err != nil {
		return nil, fmt.Errorf("source partition of %s: %w", connector, err)
	}
	if null {
		b = append(b, "null"...)
	}
	return append(b, ']'), nil
}

// Record is the record that stores an offset, without its topic.
func (c *Codec) Record(connector string, off connectors.Offset) (*kgo.Record, error) {
	key, err := c.AppendKey(nil, connector, off.Partition)
	if err != nil {
		return nil, err
	}
	value, null, err := c.json.Encode(nil, &converters.Message{}, nil, off.Position)
	if err != nil {
		return nil, fmt.Errorf("offset of source partition %s: %w", key, err)
	}
	if null {
		value = nil
	}
	return &kgo.Record{Key: key, Value: value}, nil
}

// Canonical is a text that two source partitions share where they are equal, in
// whatever order their keys are.
func (c *Codec) Canonical(partition schema.Value) (string, error) {
	b, err := c.AppendKey(nil, "", sorted(partition))
	return string(b), err
}

// sorted is v with the entries of its maps in the order of their keys.
func sorted(v schema.Value) schema.Value {
	if v.Kind() != schema.Map {
		return v
	}
	entries := slices.Clone(v.Entries())
	for i, e := range entries {
		entries[i].Value = sorted(e.Value)
	}
	slices.SortStableFunc(entries, func(a, b schema.Entry) int { return strings.Compare(a.Key.Str(), b.Key.Str()) })
	return schema.MapValue(entries)
}

// ParseKey takes a record's key apart.
func (c *Codec) ParseKey(key []byte) (connector string, partition schema.Value, err error) {
	v, err := c.parse(key)
	if err != nil {
		return "", v, fmt.Errorf("key %q: %w", key, err)
	}
	e := v.Elems()
	if len(e) != 2 || e[0].Kind() != schema.String {
		return "", v, fmt.Errorf("key %q: want [connector, source partition]", key)
	}
	return e[0].Str(), e[1], nil
}

func (c *Codec) parse(b []byte) (schema.Value, error) {
	// The value may share its bytes, and records of a batch share theirs.
	_, v, err := c.json.Decode(&converters.Message{}, bytes.Clone(b))
	return v, err
}
