package tolerance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
)

// DeadLetters writes records that failed to a topic, as they were read, with headers
// that say what failed. Records go out in the background; Flush waits for them.
type DeadLetters struct {
	cl    *kgo.Client
	cfg   Config
	conn  string
	task  int
	lg    *slog.Logger
	Sent  atomic.Int64 // handed to the client
	Count atomic.Int64 // acknowledged
	Lost  atomic.Int64 // refused by the log, under errors.tolerance=all

	mu      sync.Mutex // guards the fields below
	waiting int        // letters that are not acknowledged
	bytes   int64      // of them
	failed  error
	changed chan struct{} // closed and replaced when one is acknowledged
}

// mostBytes is how many bytes of letters are on their way; a larger one goes alone.
const mostBytes = 8 << 20

// NewDeadLetters takes a client that is the caller's to close. The topic exists.
func NewDeadLetters(cl *kgo.Client, cfg Config, connector string, task int, lg *slog.Logger) *DeadLetters {
	return &DeadLetters{cl: cl, cfg: cfg, conn: connector, task: task, lg: lg, changed: make(chan struct{})}
}

// Send hands a dead letter over. It blocks while too many are on their way.
func (d *DeadLetters) Send(ctx context.Context, f Failure) error {
	size := int64(len(f.Origin.Key) + len(f.Origin.Value))
	for {
		d.mu.Lock()
		if d.failed != nil {
			defer d.mu.Unlock()
			return d.failed
		}
		if d.waiting == 0 || d.bytes+size <= mostBytes {
			d.waiting++
			d.bytes += size
			d.mu.Unlock()
			break
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.Sent.Add(1)
	d.cl.Produce(ctx, d.letter(f), func(r *kgo.Record, err error) { d.sent(r, size, err) })
	return nil
}

func (d *DeadLetters) sent(r *kgo.Record, size int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.Count.Add(1)
	case refused(err):
		// The log will never take this letter: trying again would be an endless loop.
		d.Lost.Add(1)
		d.lg.Error("dead letter is refused by the log and lost", "topic", d.cfg.DeadLetterTopic,
			"bytes", len(r.Key)+len(r.Value), "err", err)
	case d.failed == nil:
		d.failed = fmt.Errorf("write dead letter to topic %q: %w", d.cfg.DeadLetterTopic, err)
	}
	d.waiting--
	d.bytes -= size
	close(d.changed)
	d.changed = make(chan struct{})
}

// refused reports whether the log will not take a record whatever we do.
func refused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// Flush returns when all letters that were sent are acknowledged, or says why one is not.
func (d *DeadLetters) Flush(ctx context.Context) error {
	for {
		d.mu.Lock()
		if d.waiting == 0 || d.failed != nil {
			defer d.mu.Unlock()
			return d.failed
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("write dead letters to topic %q: %w", d.cfg.DeadLetterTopic, context.Cause(ctx))
		}
	}
}

// letter is the record as it was read, and the context headers where they are wanted.
func (d *DeadLetters) letter(f Failure) *kgo.Record {
	o := f.Origin
	r := &kgo.Record{Topic: d.cfg.DeadLetterTopic, Key: o.Key, Value: o.Value}
	if o.Timestamp >= 0 {
		r.Timestamp = time.UnixMilli(o.Timestamp)
	}
	for _, h := range o.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if !d.cfg.DeadLetterContext {
		return r
	}
	add := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "__connect.errors." + name, Value: []byte(value)})
	}
	add("topic", o.Topic)
	add("partition", strconv.Itoa(int(o.Partition)))
	add("offset", strconv.FormatInt(o.Offset, 10))
	add("connector.name", d.conn)
	add("task.id", strconv.Itoa(d.task))
	add("stage", string(f.Stage))
	add("class.name", f.Class)
	class := "org.apache.kafka.connect.errors.DataException"
	if connectors.IsRetriable(f.Err) {
		class = "org.apache.kafka.connect.errors.RetriableException"
	}
	add("exception.class.name", class)
	add("exception.message", f.Err.Error())
	add("exception.stacktrace", class+": "+f.Err.Error())
	return r
}
