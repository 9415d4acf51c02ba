package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime/tolerance"
)

// sourceTask is one run of a source task.
type sourceTask struct {
	client   *kgo.Client
	source   connectors.SourceTask
	gate     *gate
	shaper   *shaper
	topics   *topics
	inflight *inflight
	commits  *committer
	txn      *transactions // nil: at least once
	meter    *Meter
	producer *ClientMeter
	activity *activity
	grace    time.Duration // for a source to end after the stages behind it failed

	skipped atomic.Pointer[error] // why the log refused a record, the last one
	emitted atomic.Int64          // batches that the source emitted and produce has not taken
	spares  spares
}

// run carries batches from the source to the log until ctx ends or a stage fails.
// When ctx ends only the reader stops, and what it has emitted still reaches the log.
// hard ends with the grace, or at once when the membership is lost: after it no
// goroutine of this task can reach the log, however its source behaves.
func (t *sourceTask) run(ctx, hard context.Context) error {
	end, produce := t.client.Close, t.produce
	if t.txn != nil {
		end, produce = t.txn.close, func(_ context.Context, ready <-chan *slab) error { return t.txn.produce(hard, ready) }
	}
	defer t.client.Close()
	defer context.AfterFunc(hard, end)()
	g, failed := errgroup.WithContext(hard)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(failed, stop)()

	read, ready, ended := make(chan connectors.Batch, 1), make(chan *slab, 1), make(chan error, 1)
	go func() {
		ended <- guard("source", func() error { return t.read(reading, failed, read) })
		close(read) // what it emitted before it failed goes its way
	}()
	g.Go(func() error {
		defer close(ready)
		return guard("shape", func() error { return t.shape(failed, read, ready) })
	})
	g.Go(func() error { return produce(failed, ready) }) // acknowledgements move the offsets
	over, committed := make(chan struct{}), make(chan struct{})
	go func() { defer close(committed); t.commits.run(hard, over) }()

	err := g.Wait()
	stop()
	select {
	case e := <-ended:
		err = cmp.Or(err, e)
	case <-hard.Done():
	case <-time.After(t.grace): // it ignores its context: it is left alone, and reaches nothing any more
	}
	close(over)
	<-committed
	if hard.Err() == nil {
		t.commits.commit(hard) // what was acknowledged before a failure counts, too
	}
	return err
}

func (t *sourceTask) read(reading, failed context.Context, to chan<- connectors.Batch) error {
	err := t.source.Run(reading, &out{gate: t.gate, failed: failed, to: to, emitted: &t.emitted})
	switch {
	case reading.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return nil
	case err == nil:
		return errors.New("the source ended by itself, which it must not: this is a bug of the connector")
	}
	return err
}

// out is what a source task emits to.
type out struct {
	gate    *gate
	failed  context.Context
	to      chan<- connectors.Batch
	emitted *atomic.Int64
}

// Emit implements connectors.Out.
func (o *out) Emit(ctx context.Context, b connectors.Batch) error {
	if err := o.gate.wait(ctx, o.failed); err != nil {
		return err
	}
	o.emitted.Add(1)
	select {
	case o.to <- b:
		return nil
	case <-ctx.Done():
		o.emitted.Add(-1)
		return ctx.Err()
	case <-o.failed.Done():
		o.emitted.Add(-1)
		return fmt.Errorf("the task has ended: %w", context.Canceled)
	}
}

// shape turns batches into the log's form. What the producer does not take at once
// grows by the batches behind it while it is small: many small ones cost no more than
// few large ones.
func (t *sourceTask) shape(ctx context.Context, from <-chan connectors.Batch, to chan<- *slab) error {
	var s *slab // not handed on yet
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	for from != nil || s != nil {
		in, out := from, to
		if s == nil {
			out = nil
		} else {
			select {
			case to <- s:
				s = nil
				continue
			default:
			}
			if !s.roomy() {
				in = nil
			}
		}
		select {
		case b, more := <-in:
			if !more {
				from = nil
				continue
			}
			rest.Reset(restAfter)
			if s == nil {
				s = t.slab()
			}
			if err := t.add(ctx, s, &b); err != nil {
				return err
			}
		case out <- s:
			s = nil
		case <-rest.C:
			t.spares.rest()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// restAfter is how long a source must have sent nothing until its task keeps no memory for what
// may come.
const restAfter = 5 * time.Second

// add shapes a batch into a slab.
func (t *sourceTask) add(ctx context.Context, s *slab, b *connectors.Batch) error {
	s.grow(len(b.Records))
	t.shaper.forget()
	for i := range b.Records {
		if err := t.shaper.add(ctx, s, b.Records[i], func() string { return position(b, i) }); err != nil {
			return err
		}
	}
	for _, o := range b.Offsets {
		key, err := t.commits.key(o)
		if err != nil {
			return err
		}
		s.flight.offsets = append(s.flight.offsets, keyed{key, o})
	}
	s.flight.bytes, s.txn = s.size, b.Txn
	s.flight.polled += len(b.Records)
	s.flight.written, s.flight.m, s.flight.a = s.n, t.meter, t.activity
	s.flight.batches++
	t.activity.shapedOne()
	return nil
}

// position names a batch's record for messages.
func position(b *connectors.Batch, i int) string {
	if b.Describe != nil {
		return b.Describe(i)
	}
	if len(b.Offsets) == 0 {
		return fmt.Sprintf("record %d of its batch", i)
	}
	return fmt.Sprintf("record %d before offset %v", i, b.Offsets[len(b.Offsets)-1].Position)
}

func (t *sourceTask) slab() *slab {
	s := t.spares.take()
	if s == nil {
		s = &slab{}
		s.promise = func(r *kgo.Record, err error) { t.acked(s, r, err) }
	}
	s.reset()
	return s
}

// produce hands batches to the log's client, in order, and waits for the last
// acknowledgement when there are no more.
func (t *sourceTask) produce(ctx context.Context, from <-chan *slab) error {
	for {
		var s *slab
		var more bool
		select {
		case s, more = <-from:
		case <-t.inflight.broken:
			return t.inflight.failure()
		}
		if !more {
			return t.inflight.drain(ctx)
		}
		if err := t.send(ctx, s); err != nil {
			return err
		}
	}
}

// send hands a batch to the log's client, once there is room for it.
func (t *sourceTask) send(ctx context.Context, s *slab) error {
	t.emitted.Add(-int64(s.flight.batches))
	if err := t.inflight.add(ctx, s.flight); err != nil {
		return err
	}
	if s.n == 0 {
		t.done(s)
		return nil
	}
	atomic.StoreInt32(&s.left, int32(s.n))
	if t.topics.used.stale() {
		t.topics.last = ""
	}
	recs, topic, keyed := s.recs[:s.n], "", false // the slab may be in other hands once all is refused
	for i := range recs {
		r := &recs[i]
		if r.Topic != t.topics.last {
			if err := t.topics.ensure(ctx, r.Topic); err != nil {
				return err
			}
		}
		if r.Topic != topic {
			topic, keyed = r.Topic, t.topics.keyed(r.Topic)
		}
		if keyed && r.Key == nil {
			// The log would refuse the whole batch, and end the transaction that it is in.
			s.promise(r, kerr.InvalidRecord)
			continue
		}
		t.client.Produce(ctx, r, s.promise)
	}
	return nil
}

// acked is called for each record, by the client's goroutine, and by produce's for what
// it does not hand to the client.
func (t *sourceTask) acked(s *slab, r *kgo.Record, err error) {
	if err != nil {
		t.producer.refused()
		err = t.refused(r, err)
	}
	if err != nil {
		s.failed.Store(true) // it never counts as acknowledged, nor does what follows it
		t.inflight.fail(err)
	}
	if atomic.AddInt32(&s.left, -1) == 0 && !s.failed.Load() {
		t.done(s)
	}
}

func (t *sourceTask) done(s *slab) {
	t.inflight.ack(s.flight)
	if s.size <= keptBytes { // a huge value is not kept for the sake of a slab
		t.spares.put(s)
	}
}

// batchOverhead is what a batch of one record adds to the record, headers aside, at most.
const batchOverhead = 128

// refused is what a record's failure means: nil where it is skipped, as
// errors.tolerance=all wants for what the log will not take.
func (t *sourceTask) refused(r *kgo.Record, err error) error {
	size := len(r.Key) + len(r.Value)
	tooLarge := errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
	switch {
	case tooLarge && size+batchOverhead <= int(t.topics.limit(r.Topic)):
		// It is the batch that is too large, for a limit that is not the one we know: its
		// records may all fit. The next run asks for the limit.
		return connectors.Retriable(fmt.Errorf("topic %s takes smaller batches than when the task began (%d bytes): its max.message.bytes was lowered, and is asked for again: %w",
			r.Topic, t.topics.limit(r.Topic), err))
	case tooLarge:
		key := r.Key[:min(len(r.Key), 80)]
		err = fmt.Errorf("a record of %d bytes with key %s is larger than topic %s takes (%d bytes): raise its max.message.bytes: %w",
			size, strings.ToValidUTF8(string(key), "\uFFFD"), r.Topic, t.topics.limit(r.Topic), err)
	case errors.Is(err, kerr.InvalidRecord) && r.Key == nil && t.topics.keyed(r.Topic):
		err = fmt.Errorf("topic %s is compacted and takes no record without a key: give records a key (ValueToKey), or set its cleanup.policy to delete: %w", r.Topic, err)
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp):
		err = fmt.Errorf("topic %s refuses the record: %w", r.Topic, err)
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return err
	case log.Fenced(err):
		return fenced(t.txn.id, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("write to topic %s: %w; grant the right, then restart the task", r.Topic, err)
	default:
		return connectors.Retriable(fmt.Errorf("write to topic %s: %w", r.Topic, err))
	}
	cause := err
	_, err = t.shaper.op.Report(context.Background(), tolerance.Failure{
		Stage: tolerance.Produce, Class: "log", Where: "topic " + r.Topic, Err: err,
	})
	t.skipped.Store(&cause)
	return err
}
