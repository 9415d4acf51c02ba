package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/schema/registry"
)

// op is one decision that somebody waits for.
type op struct {
	ctx    context.Context
	decide func(*registry.Batch) error
	shared bool // can be in a batch with others of its kind
	done   chan error
}

// Bounds of a batch.
const (
	batchOps     = 500
	batchRecords = 2000
	batchBytes   = 1 << 20
	readBack     = 30 * time.Second // for what was written
)

// Decide has decide say which records are written, and returns when they are: all of them, or none where it fails. decide may be called
// more than once; what it answers is that of its last call. shared says that it is a registration, many of which are written at once.
// ErrNotLeader means that another instance must be asked.
func (i *Instance) Decide(ctx context.Context, shared bool, decide func(*registry.Batch) error) error {
	o := &op{ctx: ctx, decide: decide, shared: shared, done: make(chan error, 1)}
	select {
	case i.ops <- o:
	case <-ctx.Done():
		return &registry.Error{Code: registry.CodeTimeout, Message: "The request waited too long for those before it; nothing was written"}
	case <-i.stopped.Done():
		return ErrNotLeader
	}
	return <-o.done
}

// write is the one goroutine that decides.
func (i *Instance) write() {
	var waiting []*op
	for {
		if len(waiting) == 0 {
			select {
			case o := <-i.ops:
				waiting = append(waiting, o)
			case <-i.stopped.Done():
				return
			}
		}
		for more := true; more && len(waiting) < batchOps; {
			select {
			case o := <-i.ops:
				waiting = append(waiting, o)
			default:
				more = false
			}
		}
		waiting = i.round(waiting)
		if i.stopped.Err() != nil {
			for _, o := range waiting {
				o.done <- ErrNotLeader
			}
			return
		}
	}
}

// round decides the first of the waiting ones, and further registrations with it, and returns those that wait on.
func (i *Instance) round(waiting []*op) (rest []*op) {
	i.mu.Lock()
	w, epoch := i.writer, i.epoch
	i.mu.Unlock()
	if w == nil {
		for _, o := range waiting {
			o.done <- ErrNotLeader
		}
		return nil
	}
	b := i.rules.NewBatch()
	var decided []*op
	bytes := 0
	for n, o := range waiting {
		if n > 0 && (!o.shared || !waiting[0].shared) || len(b.Records) > batchRecords || bytes > batchBytes {
			rest = append(rest, waiting[n:]...)
			break
		}
		if err := context.Cause(o.ctx); err != nil {
			o.done <- &registry.Error{Code: registry.CodeTimeout, Message: "The request waited too long for those before it; nothing was written"}
			continue
		}
		before := len(b.Records)
		err := safely(o, b)
		switch {
		case errors.Is(err, registry.ErrLater):
			b.Records = b.Records[:before]
			rest = append(rest, o)
		case err != nil:
			b.Records = b.Records[:before]
			o.done <- err
		case len(b.Records) == before:
			o.done <- nil // nothing to write
		default:
			decided = append(decided, o)
			for _, r := range b.Records[before:] {
				bytes += len(r.Key) + len(r.Value)
			}
		}
	}
	if len(decided) == 0 {
		return rest
	}
	err := i.commit(w, b.Records)
	if err != nil && len(decided) > 1 && tooLarge(err) {
		// One of them is too large, and the others must not suffer from it.
		for _, o := range slices.Backward(decided) {
			o.shared = false
			rest = append([]*op{o}, rest...)
		}
		return rest
	}
	if err != nil && !tooLarge(err) {
		// What became of the records is not known for certain. Whoever writes next, this one perhaps, first ends what was begun.
		i.stepDown(w, epoch, err)
	}
	for _, o := range decided {
		o.done <- err
	}
	return rest
}

// safely calls decide; a panic of it is an error of that one request.
func safely(o *op, b *registry.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: a bug: %v", p)
		}
	}()
	return o.decide(b)
}

func tooLarge(err error) bool {
	var e *registry.Error
	return errors.As(err, &e) && e.Code == registry.CodeSchemaTooLarge
}

// commit writes records in one transaction and waits until they are applied.
func (i *Instance) commit(w *log.TableWriter, records []registry.Record) error {
	out := make([]*kgo.Record, len(records))
	for n, r := range records {
		out[n] = &kgo.Record{Key: r.Key, Value: r.Value}
	}
	err := w.Put(i.stopped, out...)
	switch {
	case err == nil:
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return &registry.Error{Code: registry.CodeSchemaTooLarge, Message: "Register operation failed because schema is too large; max.message.bytes of the topic " + i.cfg.Settings.Topic.Name + " allows no more"}
	case errors.Is(err, log.ErrFenced), errors.Is(err, log.ErrStuck), errors.Is(err, log.ErrTableClosed), errors.Is(err, log.ErrNotWritten):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	default:
		i.lg.Warn("schemas could not be written", "err", err)
		return &registry.Error{Code: registry.CodeStore, Message: "Error while writing to the topic of schemas: " + err.Error()}
	}
	reading, cancel := context.WithTimeout(i.stopped, readBack)
	defer cancel()
	if err := i.table.ReadTo(reading, out...); err != nil {
		return &registry.Error{Code: registry.CodeTimeout, Message: "What was written was not read back in time: " + err.Error()}
	}
	return nil
}

// stepDown gives up writing, unless this instance has become the writer anew meanwhile, and joins the group again.
func (i *Instance) stepDown(w *log.TableWriter, epoch int, why error) {
	i.mu.Lock()
	mine := i.writer == w && i.epoch == epoch
	i.mu.Unlock()
	if !mine || i.stopped.Err() != nil {
		return
	}
	i.lg.Warn("this schema registry gives up writing, as when another does or the log fails; it joins the group again", "err", why)
	i.follow(nil)
	i.member.RequestRejoin()
}
