package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/settings"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/transforms"
)

// A half is a converter of keys, values or headers and its name for messages.
type half struct {
	class string
	conv  converters.Converter       // of keys and values
	head  converters.HeaderConverter // of headers
}

// converter makes the converter of a half ("key", "value", "header"): the
// connector's own, else the worker's.
func (w *Worker) converter(connector map[string]string, name string) (half, error) {
	key := name + ".converter"
	raw, class := connector, connector[key]
	if class == "" {
		raw = w.c.Settings.Properties
		class = map[string]string{"key": w.c.Settings.KeyConverter, "value": w.c.Settings.ValueConverter, "header": w.c.Settings.HeaderConverter}[name]
	}
	p, ok := w.c.Plugins.Converters.Find(class)
	if !ok {
		return half{}, connectors.BadConfig(fmt.Errorf("%s: class %s could not be found", key, class))
	}
	v, err := parsed(p.Config, settings.ConverterConfig(raw, name))
	if err != nil {
		return half{}, fmt.Errorf("%s: %w", key, err)
	}
	h := half{class: settings.ClassOf(p.Info)}
	switch {
	case name == "header" && p.NewHeader != nil:
		h.head, err = p.NewHeader(v)
	case name != "header" && p.New != nil:
		h.conv, err = p.New(v, name == "key")
	default:
		err = fmt.Errorf("class %s cannot convert this part of a record", class)
	}
	if err != nil {
		return half{}, connectors.BadConfig(fmt.Errorf("%s: %w", key, err))
	}
	return h, nil
}

// stages are the steps between a connector and the log, of either direction.
type stages struct {
	key, value, header half
	chain              *transforms.Chain
	policy             *tolerance.Policy

	where func() string // names the record at hand, for messages
	// skip is told of a record that was skipped; nil where nobody wants to know.
	skip func(ctx context.Context, stage tolerance.Stage, class string, cause error) error
}

func (w *Worker) newStages(connector map[string]string, policy *tolerance.Policy) (s stages, err error) {
	s.policy = policy
	if s.key, err = w.converter(connector, "key"); err != nil {
		return s, err
	}
	if s.value, err = w.converter(connector, "value"); err != nil {
		return s, err
	}
	if s.header, err = w.converter(connector, "header"); err != nil {
		return s, err
	}
	chain, errs := transforms.NewChain(connector, w.c.Plugins.Transforms, w.c.Plugins.Predicates)
	if len(errs) > 0 {
		return s, connectors.BadConfig(joined(errs))
	}
	s.chain = chain
	return s, nil
}

func joined(errs []*config.Error) error { return errs[0] }

// transform runs the chain over a record. keep is false where the record is dropped
// or, as a failed one, skipped.
func (s *stages) transform(ctx context.Context, r schema.Record) (out schema.Record, keep bool, err error) {
	if s.chain.Len() == 0 {
		return r, true, nil
	}
	out, keep, err = s.chain.Apply(r)
	if err == nil {
		return out, keep, nil
	}
	if connectors.IsRetriable(err) {
		err = s.policy.Retry(ctx, func() (err error) { out, keep, err = s.chain.Apply(r); return err })
		if err == nil {
			return out, keep, nil
		}
	}
	class := ""
	if step, ok := err.(*transforms.StepError); ok {
		class = step.Class
	}
	return r, false, s.failed(ctx, tolerance.Transformation, class, err)
}

// failed says what becomes of the record at hand: the error that ends the task, or
// nil once it is skipped and reported.
func (s *stages) failed(ctx context.Context, stage tolerance.Stage, class string, cause error) error {
	if err := s.policy.Failed(stage, class, cause, s.where); err != nil || s.skip == nil {
		return err
	}
	return s.skip(ctx, stage, class, cause)
}

// A shaper transforms and converts a source's batches. One goroutine uses it.
type shaper struct {
	stages
	slabs sync.Pool // of *shaped; what a batch's last acknowledgement gives back
	batch *connectors.Batch
	at    int // the record at hand in batch

	// Debezium gives all records of a task the same headers: they are converted once.
	lastHeaders []schema.Header
	lastRaw     []kgo.RecordHeader
}

func (w *Worker) newShaper(connector map[string]string, policy *tolerance.Policy) (*shaper, error) {
	s, err := w.newStages(connector, policy)
	if err != nil {
		return nil, err
	}
	sh := &shaper{stages: s}
	sh.where = func() string { return position(sh.batch, sh.at) }
	return sh, nil
}

// A shaped batch is ready for the producer.
type shaped struct {
	records []kgo.Record
	offsets []connectors.Offset
	bytes   int64 // of all records
	open    int   // records that are not acknowledged; see inflight

	buf  []byte // what the records' bytes lie in, unless it had to grow
	pool *sync.Pool
}

// Slabs that grew beyond these are not kept.
const (
	keepBytes   = 2 << 20
	keepRecords = 2 * connectors.MaxBatchRecords
)

// free gives the batch's memory back. Nobody may use its records any more.
func (s *shaped) free() {
	if cap(s.buf) > keepBytes || cap(s.records) > keepRecords {
		return
	}
	clear(s.records)
	*s = shaped{records: s.records[:0], buf: s.buf[:0], pool: s.pool}
	s.pool.Put(s)
}

// shape makes the producer's records of a batch. A record that fails is skipped or
// ends the task, as errors.tolerance says; the batch's offsets move over it.
func (s *shaper) shape(ctx context.Context, b connectors.Batch) (*shaped, error) {
	out, _ := s.slabs.Get().(*shaped)
	if out == nil {
		out = &shaped{pool: &s.slabs}
	}
	s.batch = &b
	out.offsets = b.Offsets
	out.records = slices.Grow(out.records, len(b.Records))
	for i := range b.Records {
		s.at = i
		r, keep, err := s.transform(ctx, b.Records[i])
		if err != nil {
			return nil, err
		}
		if !keep {
			continue
		}
		if err := s.convert(ctx, out, &r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// convert appends a record to a shaped batch.
func (s *shaper) convert(ctx context.Context, out *shaped, r *schema.Record) error {
	k := kgo.Record{Topic: r.Topic, Partition: r.Partition}
	if r.Timestamp != schema.NoTimestamp {
		k.Timestamp = time.UnixMilli(r.Timestamp)
	}
	var ok bool
	var err error
	if k.Headers, ok, err = s.headers(ctx, r); !ok {
		return err
	}
	m := converters.Message{Topic: r.Topic}
	if k.Key, ok, err = s.encode(ctx, out, &s.key, tolerance.KeyConverter, &m, r.KeySchema, r.Key); !ok {
		return err
	}
	if k.Value, ok, err = s.encode(ctx, out, &s.value, tolerance.ValueConverter, &m, r.ValueSchema, r.Value); !ok {
		return err
	}
	for _, h := range m.Headers {
		k.Headers = append(slices.Clip(k.Headers), kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	out.bytes += int64(len(k.Key) + len(k.Value) + recordOverhead)
	out.records = append(out.records, k)
	return nil
}

// recordOverhead is about what a record costs beside its key and value.
const recordOverhead = 64

// encode converts one half into the batch's buffer. ok is false where the record is
// skipped, or err ends the task.
func (s *shaper) encode(ctx context.Context, out *shaped, h *half, stage tolerance.Stage, m *converters.Message, sch *schema.Schema, v schema.Value) (data []byte, ok bool, err error) {
	from := len(out.buf)
	buf, null, err := h.conv.Encode(out.buf, m, sch, v)
	if err != nil && connectors.IsRetriable(err) {
		err = s.policy.Retry(ctx, func() (err error) { buf, null, err = h.conv.Encode(out.buf, m, sch, v); return err })
	}
	if err != nil {
		return nil, false, s.failed(ctx, stage, h.class, err)
	}
	if null {
		return nil, true, nil
	}
	out.buf = buf
	return buf[from:len(buf):len(buf)], true, nil
}

func (s *shaper) headers(ctx context.Context, r *schema.Record) ([]kgo.RecordHeader, bool, error) {
	if len(r.Headers) == 0 {
		return nil, true, nil
	}
	if len(s.lastHeaders) == len(r.Headers) && &s.lastHeaders[0] == &r.Headers[0] {
		return s.lastRaw, true, nil
	}
	raw := make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		var data []byte
		var null bool
		convert := func() (err error) {
			data, null, err = s.header.head.EncodeHeader(nil, r.Topic, h.Key, h.Schema, h.Value)
			return err
		}
		if err := s.policy.Retry(ctx, convert); err != nil {
			return nil, false, s.failed(ctx, tolerance.HeaderConverter, s.header.class, fmt.Errorf("header %q: %w", h.Key, err))
		}
		if null {
			data = nil
		} else if data == nil {
			data = []byte{}
		}
		raw[i] = kgo.RecordHeader{Key: h.Key, Value: data}
	}
	s.lastHeaders, s.lastRaw = r.Headers, raw
	return raw, true, nil
}

// position names a record's place in its source.
func position(b *connectors.Batch, i int) string {
	if b.Describe != nil {
		return b.Describe(i)
	}
	return fmt.Sprintf("topic %s, record %d of a batch of %d", b.Records[i].Topic, i, len(b.Records))
}
