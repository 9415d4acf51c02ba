package worker

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/converters"
)

// An opener makes a sink's records of what lies in the log: it converts and
// transforms. One goroutine uses it.
type opener struct {
	stages
	origins []schema.Origin // of this poll; handed out one by one
	origin  *schema.Origin  // of the record at hand
	raw     []schema.RawHeader

	// Debezium gives all records of a task the same headers: they are read once.
	lastRaw     []kgo.RecordHeader
	lastHeaders []schema.Header
	lastOrigin  []schema.RawHeader
}

// newOpener makes an opener that tells report of what it skips.
func (w *Worker) newOpener(connector map[string]string, policy *tolerance.Policy,
	report func(ctx context.Context, o *schema.Origin, stage tolerance.Stage, class string, cause error) error) (*opener, error) {
	s, err := w.newStages(connector, policy)
	if err != nil {
		return nil, err
	}
	o := &opener{stages: s}
	o.skip = func(ctx context.Context, stage tolerance.Stage, class string, cause error) error {
		return report(ctx, o.origin, stage, class, cause)
	}
	o.where = func() string { return originText(o.origin) }
	return o, nil
}

// begin prepares for n records.
func (o *opener) begin(n int) { o.origins = make([]schema.Origin, n) }

// open makes a record. keep is false where it is filtered, or skipped and reported
// as a dead letter.
func (o *opener) open(ctx context.Context, k *kgo.Record) (r schema.Record, keep bool, err error) {
	o.origin, o.origins = &o.origins[0], o.origins[1:]
	*o.origin = schema.Origin{
		Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp.UnixMilli(),
		LogAppendTime: k.Attrs.TimestampType() == 1, Key: k.Key, Value: k.Value,
	}
	r = schema.Record{Topic: k.Topic, Partition: k.Partition, Timestamp: o.origin.Timestamp, Origin: o.origin}
	if k.Timestamp.IsZero() {
		r.Timestamp, o.origin.Timestamp = schema.NoTimestamp, schema.NoTimestamp
	}
	if ok, err := o.headers(ctx, k, &r); !ok {
		return r, false, err
	}
	m := converters.Message{Topic: k.Topic, Headers: o.origin.Headers}
	ok := false
	if r.KeySchema, r.Key, ok, err = o.decode(ctx, &o.key, tolerance.KeyConverter, &m, k.Key); !ok {
		return r, false, err
	}
	if r.ValueSchema, r.Value, ok, err = o.decode(ctx, &o.value, tolerance.ValueConverter, &m, k.Value); !ok {
		return r, false, err
	}
	return o.transform(ctx, r)
}

// decode converts one half. ok is false where the record is skipped, or err ends the
// task.
func (o *opener) decode(ctx context.Context, h *half, stage tolerance.Stage, m *converters.Message, data []byte) (s *schema.Schema, v schema.Value, ok bool, err error) {
	s, v, err = h.conv.Decode(m, data)
	if err != nil && connectors.IsRetriable(err) {
		err = o.policy.Retry(ctx, func() (err error) { s, v, err = h.conv.Decode(m, data); return err })
	}
	if err != nil {
		return nil, v, false, o.failed(ctx, stage, h.class, err)
	}
	return s, v, true, nil
}

// headers reads the record's headers, those of the last record again where they are
// the same.
func (o *opener) headers(ctx context.Context, k *kgo.Record, r *schema.Record) (bool, error) {
	if len(k.Headers) == 0 {
		return true, nil
	}
	if sameHeaders(k.Headers, o.lastRaw) {
		r.Headers, o.origin.Headers = o.lastHeaders, o.lastOrigin
		return true, nil
	}
	raw := make([]schema.RawHeader, len(k.Headers))
	headers := make([]schema.Header, len(k.Headers))
	for i, h := range k.Headers {
		raw[i] = schema.RawHeader{Key: h.Key, Value: h.Value}
	}
	o.origin.Headers = raw
	for i, h := range k.Headers {
		var s *schema.Schema
		var v schema.Value
		read := func() (err error) { s, v, err = o.header.head.DecodeHeader(k.Topic, h.Key, h.Value); return err }
		if err := o.policy.Retry(ctx, read); err != nil {
			return false, o.failed(ctx, tolerance.HeaderConverter, o.header.class, fmt.Errorf("header %q: %w", h.Key, err))
		}
		headers[i] = schema.Header{Key: h.Key, Schema: s, Value: v}
	}
	r.Headers = headers
	o.lastRaw, o.lastHeaders, o.lastOrigin = k.Headers, headers, raw
	return true, nil
}

func sameHeaders(a, b []kgo.RecordHeader) bool {
	return slices.EqualFunc(a, b, func(x, y kgo.RecordHeader) bool {
		return x.Key == y.Key && (x.Value == nil) == (y.Value == nil) && bytes.Equal(x.Value, y.Value)
	})
}

// originText names a record's place in the log.
func originText(o *schema.Origin) string {
	if o == nil {
		return "unknown place"
	}
	return fmt.Sprintf("topic %s, partition %d, offset %d", o.Topic, o.Partition, o.Offset)
}
