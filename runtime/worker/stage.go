package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/transforms"
)

// shaper is the middle of a pipeline: transforms and converters. It is used by one
// goroutine.
type shaper struct {
	chain      *transforms.Chain // nil: none
	key, value converters.Converter
	header     converters.HeaderConverter
	// Classes of the converters, for messages.
	keyClass, valueClass, headerClass string
	ignored                           []config.Notice // settings of all these that have no effect
	op                                *tolerance.Operator

	msg converters.Message

	lastHeaders []schema.Header // whose bytes are lastRaw: records of a batch share headers
	lastRaw     []kgo.RecordHeader
	lastTopic   string
	lastSlab    *slab
}

// byKey stands in a record's partition where the partitioner chooses it.
const byKey int32 = -1

// slab is a batch in the log's form: its records and the bytes they point to. It is
// reused once the log has acknowledged all of them.
type slab struct {
	recs    []kgo.Record
	n       int
	chunks  [][]byte // the bytes of records, in memory that the next batch uses again
	at      int      // of the chunk that is being filled
	headers []kgo.RecordHeader
	size    int64       // bytes of keys, values and headers
	flight  *flight     // lives on in the queue when the slab is reused
	left    int32       // records that are not acknowledged; atomic
	failed  atomic.Bool // a record of it was refused, and not skipped
	txn     connectors.Txn
	promise func(*kgo.Record, error)
}

const (
	// firstChunk is what a slab of few records holds; the next chunks are larger, and still small beside a batch, so that a slab holds little
	// more than its batch needs.
	firstChunk = 32 << 10
	chunkSize  = 256 << 10
	leastRoom  = 512
	// keptBytes is the largest batch of which a slab is kept for the next one.
	keptBytes = 4 << 20
)

func (s *slab) reset() {
	for i := range s.chunks {
		s.chunks[i] = s.chunks[i][:0]
	}
	s.at = 0
	clear(s.headers)
	s.headers = s.headers[:0]
	s.n, s.size, s.txn = 0, 0, connectors.TxnNone
	s.failed.Store(false)
	s.flight = &flight{}
}

// spares are slabs for the batches to come. The collector's own pool (sync.Pool) would lose them at each
// of its runs, of which there are dozens a second when much comes.
type spares struct {
	mu      sync.Mutex
	slabs   []*slab
	resting bool // nothing comes: what is acknowledged now is not kept
}

// mostSpares is more than what can be on the way in batches that are not small.
const mostSpares = 8

// take is a slab from before, for a batch that has come; nil: there is none.
func (p *spares) take() *slab {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = false
	n := len(p.slabs)
	if n == 0 {
		return nil
	}
	s := p.slabs[n-1]
	p.slabs[n-1], p.slabs = nil, p.slabs[:n-1]
	return s
}

func (p *spares) put(s *slab) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.resting && len(p.slabs) < mostSpares {
		p.slabs = append(p.slabs, s)
	}
}

// rest lets go of all of them, and of those that come back before the next is taken.
func (p *spares) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slabs, p.resting = nil, true
}

// grow makes room for more records.
func (s *slab) grow(records int) {
	if len(s.recs) >= s.n+records {
		return
	}
	if have := s.recs[:s.n]; cap(s.recs) < s.n+records {
		s.recs = make([]kgo.Record, max(s.n+records, 2*cap(s.recs)))
		copy(s.recs, have)
	}
	s.recs = s.recs[:cap(s.recs)]
}

// roomy reports whether another batch may join: half a batch is there at most, and no
// transaction ends.
func (s *slab) roomy() bool {
	return s.n <= connectors.MaxBatchRecords/2 && s.size <= connectors.MaxBatchBytes/2 && s.txn == connectors.TxnNone
}

// next is the record to fill; take keeps it.
func (s *slab) next() *kgo.Record {
	r := &s.recs[s.n]
	*r = kgo.Record{Partition: byKey}
	return r
}

// room is where the next bytes go: the rest of the chunk, with nothing in it.
func (s *slab) room() []byte {
	if s.at < len(s.chunks) && len(s.rest()) < leastRoom {
		s.at++
	}
	if s.at == len(s.chunks) {
		size := chunkSize
		if s.at == 0 {
			size = firstChunk
		}
		s.chunks = append(s.chunks, make([]byte, 0, size))
	}
	return s.rest()[:0]
}

// rest is what is free of the chunk that is being filled.
func (s *slab) rest() []byte {
	c := s.chunks[s.at]
	return c[len(c):cap(c)]
}

// keep takes what was appended to room. Where it did not fit, append has moved it to
// memory of its own.
func (s *slab) keep(b []byte) []byte {
	if len(b) > 0 && unsafe.SliceData(b) == unsafe.SliceData(s.rest()) {
		c := &s.chunks[s.at]
		*c = (*c)[:len(*c)+len(b)]
	}
	s.size += int64(len(b))
	return b[:len(b):len(b)]
}

// add shapes a record into the slab. where names it for messages. A record that is
// dropped or skipped leaves nothing.
func (sh *shaper) add(ctx context.Context, s *slab, r schema.Record, where func() string) error {
	if sh.chain != nil {
		out, keep, err := sh.chain.Apply(r)
		if err != nil {
			skip, err := sh.op.Handle(ctx, tolerance.Failure{Stage: tolerance.Transformation, Class: stepClass(err), Where: where(), Err: err}, func() (err error) {
				out, keep, err = sh.chain.Apply(r)
				return err
			})
			if err != nil || skip {
				return err
			}
		}
		if !keep {
			return nil
		}
		r = out
	}
	kr := s.next()
	if err := sh.encode(s, kr, &r); err != nil {
		skip, err := sh.op.Handle(ctx, tolerance.Failure{Where: where(), Err: err}, func() error { return sh.encode(s, kr, &r) })
		if err != nil || skip {
			return err
		}
	}
	s.n++
	return nil
}

// stepClass is the class of the transform that failed.
func stepClass(err error) string {
	var step *transforms.StepError
	if errors.As(err, &step) {
		return step.Class
	}
	return ""
}

// encode writes a record in the log's form.
func (sh *shaper) encode(s *slab, kr *kgo.Record, r *schema.Record) error {
	*kr = kgo.Record{Topic: r.Topic, Partition: r.Partition}
	if r.Topic == "" {
		return &tolerance.StageError{Stage: tolerance.Transformation, Err: errors.New("the record has no topic")}
	}
	if r.Timestamp != schema.NoTimestamp {
		kr.Timestamp = time.UnixMilli(r.Timestamp)
	}
	sh.msg = converters.Message{Topic: r.Topic}
	b, null, err := sh.key.Encode(s.room(), &sh.msg, r.KeySchema, r.Key)
	if err != nil {
		return &tolerance.StageError{Stage: tolerance.KeyConverter, Class: sh.keyClass, Err: err}
	}
	if !null {
		kr.Key = s.keep(b)
	}
	b, null, err = sh.value.Encode(s.room(), &sh.msg, r.ValueSchema, r.Value)
	if err != nil {
		return &tolerance.StageError{Stage: tolerance.ValueConverter, Class: sh.valueClass, Err: err}
	}
	if !null {
		kr.Value = s.keep(b)
	}
	if len(r.Headers) == 0 && len(sh.msg.Headers) == 0 {
		return nil
	}
	return sh.encodeHeaders(s, kr, r)
}

func (sh *shaper) encodeHeaders(s *slab, kr *kgo.Record, r *schema.Record) error {
	same := len(r.Headers) > 0 && sh.lastSlab == s && sh.lastTopic == r.Topic && len(r.Headers) == len(sh.lastHeaders) &&
		&r.Headers[0] == &sh.lastHeaders[0]
	if same && len(sh.msg.Headers) == 0 {
		kr.Headers = sh.lastRaw
		return nil
	}
	at := len(s.headers)
	for _, h := range r.Headers {
		b, null, err := sh.header.EncodeHeader(s.room(), r.Topic, h.Key, h.Schema, h.Value)
		if err != nil {
			s.headers = s.headers[:at]
			return &tolerance.StageError{Stage: tolerance.HeaderConverter, Class: sh.headerClass, Err: fmt.Errorf("header %q: %w", h.Key, err)}
		}
		if null {
			b = nil
		} else {
			b = s.keep(b)
		}
		s.headers = append(s.headers, kgo.RecordHeader{Key: h.Key, Value: b})
	}
	for _, h := range sh.msg.Headers {
		s.headers = append(s.headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	kr.Headers = s.headers[at:len(s.headers):len(s.headers)]
	if len(sh.msg.Headers) == 0 {
		sh.lastHeaders, sh.lastRaw, sh.lastTopic, sh.lastSlab = r.Headers, kr.Headers, r.Topic, s
	}
	return nil
}

// forget drops what is remembered of a slab, which goes to other hands.
func (sh *shaper) forget() {
	sh.lastHeaders, sh.lastRaw, sh.lastTopic, sh.lastSlab = nil, nil, "", nil
}

// decode makes a sink's record of what lies in the log and runs it through the
// transforms. keep is false where it is dropped or skipped.
func (sh *shaper) decode(ctx context.Context, kr *kgo.Record, o *schema.Origin) (r schema.Record, keep bool, err error) {
	fill(o, kr)
	attempt := func() error {
		r = schema.Record{}
		return sh.decodeOnce(kr, o, &r)
	}
	failed := func(err error, stage tolerance.Stage, class string, again func() error) (bool, error) {
		return sh.op.Handle(ctx, tolerance.Failure{Stage: stage, Class: class, Where: whereOf(o), Origin: o, Err: err}, again)
	}
	if err := attempt(); err != nil {
		skip, err := failed(err, "", "", attempt)
		if err != nil || skip {
			return r, false, err
		}
	}
	if sh.chain == nil {
		return r, true, nil
	}
	out, keep, err := sh.chain.Apply(r)
	if err != nil {
		skip, err := failed(err, tolerance.Transformation, stepClass(err), func() (err error) {
			out, keep, err = sh.chain.Apply(r)
			return err
		})
		if err != nil || skip {
			return r, false, err
		}
	}
	out.Origin = o // whatever transforms made of it, it came from there
	return out, keep, nil
}

func (sh *shaper) decodeOnce(kr *kgo.Record, o *schema.Origin, r *schema.Record) error {
	sh.msg = converters.Message{Topic: kr.Topic, Headers: o.Headers}
	r.Topic, r.Partition, r.Timestamp, r.Origin = kr.Topic, kr.Partition, o.Timestamp, o
	var err error
	if r.KeySchema, r.Key, err = sh.key.Decode(&sh.msg, kr.Key); err != nil {
		return &tolerance.StageError{Stage: tolerance.KeyConverter, Class: sh.keyClass, Err: err}
	}
	if r.ValueSchema, r.Value, err = sh.value.Decode(&sh.msg, kr.Value); err != nil {
		return &tolerance.StageError{Stage: tolerance.ValueConverter, Class: sh.valueClass, Err: err}
	}
	if len(kr.Headers) > 0 {
		r.Headers = make([]schema.Header, 0, len(kr.Headers))
		for _, h := range kr.Headers {
			s, v, err := sh.header.DecodeHeader(kr.Topic, h.Key, h.Value)
			if err != nil {
				return &tolerance.StageError{Stage: tolerance.HeaderConverter, Class: sh.headerClass, Err: fmt.Errorf("header %q: %w", h.Key, err)}
			}
			r.Headers = append(r.Headers, schema.Header{Key: h.Key, Schema: s, Value: v})
		}
	}
	return nil
}

func fill(o *schema.Origin, kr *kgo.Record) {
	*o = schema.Origin{
		Topic: kr.Topic, Partition: kr.Partition, Offset: kr.Offset, Timestamp: schema.NoTimestamp,
		LogAppendTime: kr.Attrs.TimestampType() == 1, Key: kr.Key, Value: kr.Value,
	}
	if !kr.Timestamp.IsZero() {
		o.Timestamp = kr.Timestamp.UnixMilli()
	}
	if len(kr.Headers) > 0 {
		o.Headers = make([]schema.RawHeader, len(kr.Headers))
		for i, h := range kr.Headers {
			o.Headers[i] = schema.RawHeader{Key: h.Key, Value: h.Value}
		}
	}
}

func whereOf(o *schema.Origin) string {
	return fmt.Sprintf("topic %s, partition %d, offset %d", o.Topic, o.Partition, o.Offset)
}
