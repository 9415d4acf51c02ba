package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/config"
)

// deadLetters sends records that a sink skipped to its dead-letter topic, as they
// lie in the log. Without such a topic it does nothing.
type deadLetters struct {
	topic       string
	replication int16
	context     bool // whether headers tell where and why
	id          runtime.TaskID
	opts        []kgo.Opt
	lg          *slog.Logger

	client  *kgo.Client // made at the first dead letter
	pending sync.WaitGroup
	failed  atomic.Pointer[error]
	lost    atomic.Int64 // dead letters that the topic does not take
}

func (w *Worker) newDeadLetters(id runtime.TaskID, v config.Values, connector map[string]string, lg *slog.Logger) (*deadLetters, error) {
	d := &deadLetters{topic: settings.DeadLetterTopic.Get(v), replication: settings.DeadLetterReplication.Get(v),
		context: settings.DeadLetterContext.Get(v), id: id, lg: lg}
	if w.c.Log.Embedded() {
		d.replication = -1 // one node has one replica, whatever a configuration made for more says
	}
	if d.topic == "" {
		return d, nil
	}
	opts, err := w.producerOpts(id, connector, lg)
	if err != nil {
		return nil, err
	}
	d.opts = append(slices.Clip(opts), kgo.ClientID("connector-dlq-producer-"+id.String()))
	return d, nil
}

// open makes the client, and the topic where it does not exist.
func (d *deadLetters) open(ctx context.Context) error {
	client, err := kgo.NewClient(d.opts...)
	if err != nil {
		return connectors.BadConfig(fmt.Errorf("dead-letter producer: %w", err))
	}
	adm := kadm.NewClient(client)
	res, err := adm.CreateTopic(ctx, 1, d.replication, nil, d.topic)
	if err == nil {
		err = res.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		client.Close()
		return connectors.Retriable(fmt.Errorf("make dead-letter topic %s: %w", d.topic, err))
	}
	d.client = client
	return nil
}

// send puts a record on its way. flush says whether it arrived.
func (d *deadLetters) send(ctx context.Context, o *schema.Origin, stage tolerance.Stage, class string, cause error) error {
	if d.topic == "" {
		return nil
	}
	if o == nil {
		return fmt.Errorf("dead letter: the sink reported a record that it was not given: a bug in %s", class)
	}
	if d.client == nil {
		if err := d.open(ctx); err != nil {
			return err
		}
	}
	r := &kgo.Record{Topic: d.topic, Partition: -1, Key: o.Key, Value: o.Value}
	if o.Timestamp != schema.NoTimestamp {
		r.Timestamp = time.UnixMilli(o.Timestamp)
	}
	for _, h := range o.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if d.context {
		r.Headers = append(r.Headers, d.headers(o, stage, class, cause)...)
	}
	d.pending.Add(1)
	d.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		defer d.pending.Done()
		if err == nil {
			return
		}
		if reason := atFault(r, err); reason != nil { // it would never fit: the record is skipped all the same
			d.lost.Add(1)
			d.lg.Error("dead letter is lost", "record", originText(o), "topic", d.topic, "err", reason)
			return
		}
		err = fmt.Errorf("dead letter of %s to topic %s: %w", originText(o), d.topic, err)
		d.failed.CompareAndSwap(nil, &err)
	})
	return nil
}

// headers tell where a record failed and why, under Connect's names.
func (d *deadLetters) headers(o *schema.Origin, stage tolerance.Stage, class string, cause error) []kgo.RecordHeader {
	const prefix = "__connect.errors."
	h := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: prefix + name, Value: []byte(value)}
	}
	return []kgo.RecordHeader{
		h("topic", o.Topic), h("partition", strconv.Itoa(int(o.Partition))), h("offset", strconv.FormatInt(o.Offset, 10)),
		h("connector.name", d.id.Connector), h("task.id", strconv.Itoa(d.id.Task)), h("stage", string(stage)), h("class.name", class),
		h("exception.class.name", errorClass(cause)), h("exception.message", cause.Error()), h("exception.stacktrace", errorChain(cause)),
	}
}

// errorClass names the kind of an error: its declared reason's code where it has
// one, else the class under which Connect's users know a bad record.
func errorClass(err error) string {
	if f := connectors.FailureOf(err); f != nil {
		return f.Reason.Code
	}
	if connectors.IsRetriable(err) {
		return "org.apache.kafka.connect.errors.RetriableException"
	}
	return "org.apache.kafka.connect.errors.DataException"
}

// errorChain is the error and what caused it, a line each.
func errorChain(err error) string {
	text := err.Error()
	for err = errors.Unwrap(err); err != nil; err = errors.Unwrap(err) {
		text += "\nCaused by: " + err.Error()
	}
	return text
}

// flush returns when all dead letters are in the log, or says why one is not.
func (d *deadLetters) flush(ctx context.Context) error {
	if d.client == nil {
		return nil
	}
	done := make(chan struct{})
	go func() { d.pending.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *deadLetters) close() {
	if d.client != nil {
		d.client.Close()
	}
}
