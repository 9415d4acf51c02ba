package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"millrace/connectors"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/runtime/tolerance"
	"millrace/schema/config"
)

// A sourceTask carries batches from a source to the log.
type sourceTask struct {
	r      *running
	class  string
	source connectors.SourceTask
	client *kgo.Client
	shaper *shaper
	policy *tolerance.Policy
	flight *inflight
	commit committer
	lg     *slog.Logger
	used   map[string]bool // topics, by the produce goroutine
	onUse  func(topic string)
}

func (w *Worker) newSource(r *running, p connectors.SourcePlugin, connector, raw map[string]string, lg *slog.Logger) (task, error) {
	common, errs := settings.Source.Parse(connector)
	if len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	v, errs := p.Config.Parse(raw)
	if len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	policy := tolerance.New(r.id, common, lg)
	shaper, err := w.newShaper(connector, policy)
	if err != nil {
		return nil, err
	}
	cc := w.Context(r.id.Connector)
	cc.Task, cc.Log = r.id.Task, lg
	source, err := p.NewTask(cc, v)
	if err != nil {
		return nil, err
	}
	opts, err := w.producerOpts(r.id, connector, lg)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, connectors.BadConfig(fmt.Errorf("producer: %w", err))
	}
	t := &sourceTask{
		r: r, class: settings.ClassOf(p.Info), source: source, client: client, shaper: shaper, policy: policy, lg: lg,
		flight: newInflight(producerBytes), used: map[string]bool{},
		onUse: func(topic string) { w.c.UsedTopic(r.id, topic) },
	}
	topic := w.c.Offsets.Topic
	if own := settings.OffsetsTopic.Get(common); own != "" {
		topic = own
	}
	t.commit = committer{connector: r.id.Connector, topic: topic, every: w.c.Settings.OffsetFlushInterval, codec: store.NewCodec(),
		client: client, flight: t.flight, done: source.Commit, lg: lg}
	return t, nil
}

// run carries batches from the source to the log until ctx ends or a stage fails.
// When ctx ends, or the source fails, only the reader stops, and what it has emitted
// still reaches the log. hard ends with the grace, or at once when the membership is
// lost: after it no goroutine of this task can reach the log, however its source
// behaves.
func (t *sourceTask) run(ctx, hard context.Context) error {
	defer t.client.Close()
	defer context.AfterFunc(hard, t.client.Close)()
	g, failed := errgroup.WithContext(hard)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(failed, stop)()

	read, ready := newPipe(t.r.gate, failed), make(chan *shaped, 1)
	var sourceErr error
	g.Go(func() error { defer read.end(); sourceErr = t.read(reading, failed, read); return nil })
	g.Go(func() error { defer close(ready); return t.shape(failed, read, ready) }) // transform, convert
	g.Go(func() error { return t.produce(failed, ready) })                         // acknowledgements move the offsets
	g.Go(func() error { return t.commit.run(failed) })                             // offsets follow them
	err := g.Wait()
	if err != nil && hard.Err() == nil {
		// What is in the log need not be sent again by the next task.
		grace, cancel := context.WithTimeout(hard, failedGrace)
		defer cancel()
		err = errors.Join(err, t.commit.commit(grace))
	}
	return errors.Join(sourceErr, err)
}

// failedGrace is how long a failed task may take to store its offsets.
const failedGrace = 5 * time.Second

// read runs the source in a goroutine of its own: a source that ignores its context
// is left behind when the task is cut off.
func (t *sourceTask) read(reading, failed context.Context, out *pipe) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer recovered(&err, "read the source")
		err = t.source.Run(reading, out)
	}()
	select {
	case err := <-done:
		switch {
		case reading.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errEnded)):
			return nil
		case err == nil:
			return fmt.Errorf("the source ended although nobody stopped it, which is a bug in %s", t.class)
		}
		return err
	case <-failed.Done():
		select { // a source that ends with its context says why it failed before
		case err := <-done:
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errEnded) {
				return err
			}
		case <-time.After(cutOff / 2):
		}
		return nil
	}
}

// shape transforms and converts batches until the reader has ended and all it
// emitted is through.
func (t *sourceTask) shape(ctx context.Context, in *pipe, out chan<- *shaped) error {
	for {
		b, ok := in.next(ctx)
		if !ok {
			return ctx.Err()
		}
		s, err := t.shaper.shape(ctx, b)
		if err != nil {
			return err
		}
		select {
		case out <- s:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// produce hands shaped batches to the producer, as many as fit in its bound, until
// the shaper has ended and everything is acknowledged.
func (t *sourceTask) produce(ctx context.Context, in <-chan *shaped) error {
	defer t.flight.end()
	for {
		select {
		case s, ok := <-in:
			if !ok {
				return t.flight.wait(ctx)
			}
			if err := t.flight.admit(ctx, s); err != nil {
				return err
			}
			t.send(ctx, s)
		case <-t.flight.failed:
			return t.flight.err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send gives a batch's records to the producer. The one more that the batch counts
// than it has records is taken back at the end, so that it cannot be done before.
func (t *sourceTask) send(ctx context.Context, s *shaped) {
	promise := func(r *kgo.Record, err error) {
		if err != nil {
			err = t.refused(r, err)
		}
		t.flight.acked(s, err)
	}
	for i := range s.records {
		r := &s.records[i]
		if !t.used[r.Topic] {
			t.used[r.Topic] = true
			t.onUse(r.Topic)
		}
		t.client.Produce(ctx, r, promise)
	}
	t.flight.acked(s, nil)
}

// refused says what becomes of a record that the log did not take: a record that is
// itself at fault may be tolerated, everything else ends the task.
func (t *sourceTask) refused(r *kgo.Record, err error) error {
	where := func() string { return fmt.Sprintf("topic %s, key %s", r.Topic, excerpt(r.Key)) }
	if reason := atFault(r, err); reason != nil {
		return t.policy.Failed(tolerance.Produce, t.class, reason, where)
	}
	return fmt.Errorf("produce to topic %s: %w", r.Topic, err)
}

// A pipe hands batches from the reader to the shaper, while the task is not paused.
// It is what the source emits into. Unlike a channel it may be emitted into after
// its end: that is an error of whoever still does.
type pipe struct {
	gate    *gate
	failed  context.Context
	batches chan connectors.Batch
	ended   chan struct{}
}

func newPipe(g *gate, failed context.Context) *pipe {
	return &pipe{gate: g, failed: failed, batches: make(chan connectors.Batch, 1), ended: make(chan struct{})}
}

// Emit implements connectors.Out.
func (p *pipe) Emit(ctx context.Context, b connectors.Batch) error {
	select {
	case <-p.ended:
		return errEnded
	default:
	}
	if err := p.gate.wait(ctx); err != nil {
		return err
	}
	select {
	case p.batches <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.failed.Done():
		return errEnded
	case <-p.ended:
		return errEnded
	}
}

// end says that the reader emits no more.
func (p *pipe) end() { close(p.ended) }

// next is the next batch; false when there is none any more or ctx has ended.
func (p *pipe) next(ctx context.Context) (connectors.Batch, bool) {
	select {
	case b := <-p.batches:
		return b, true
	case <-ctx.Done():
		return connectors.Batch{}, false
	case <-p.ended:
	}
	select {
	case b := <-p.batches:
		return b, true
	default:
		return connectors.Batch{}, false
	}
}

// excerpt is the beginning of a key, for messages about its record.
func excerpt(key []byte) string {
	if key == nil {
		return "null"
	}
	const most = 200
	if len(key) > most {
		return fmt.Sprintf("%q… (%d bytes)", key[:most], len(key))
	}
	return fmt.Sprintf("%q", key)
}

// parsed is a configuration read with a plugin's Def; wrong keys are errors of the
// configuration, which no retry mends.
func parsed(d config.Def, raw map[string]string) (config.Values, error) {
	v, errs := d.Parse(raw)
	if len(errs) > 0 {
		all := make([]error, len(errs))
		for i, e := range errs {
			all[i] = e
		}
		return v, connectors.BadConfig(errors.Join(all...))
	}
	return v, nil
}
