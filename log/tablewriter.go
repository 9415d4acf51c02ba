package log

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TableWriter writes to a table's topic in transactions, for whom must be its only writer: opening a
// writer fences the one before it, whichever process it is in. It is used by one goroutine at a time.
type TableWriter struct {
	table *Table
	cl    *kgo.Client
}

// ErrFenced says that another producer has taken over a transactional id.
var ErrFenced = errors.New("fenced: another process has taken over")

// ErrStuck says that a transaction did not end in time and is given up. It may yet be committed; the
// writer is of no more use.
var ErrStuck = errors.New("the log does not answer")

// tableTransaction bounds one transaction of a TableWriter, whatever its caller's context says: one
// that ended in the middle would leave the outcome unknown.
const tableTransaction = 30 * time.Second

// OpenWriter takes over a transactional id: what its last holder had begun is aborted, and it can write
// no more. It returns once that is so.
func (t *Table) OpenWriter(ctx context.Context, transactionalID string) (*TableWriter, error) {
	cl, err := kgo.NewClient(append(t.log.ClientOpts(),
		kgo.ClientID(t.log.cfg.clientID()+"-"+transactionalID), kgo.WithLogger(t.log.clientLog()),
		kgo.TransactionalID(transactionalID), kgo.TransactionTimeout(time.Minute),
		kgo.ProducerBatchMaxBytes(t.log.tableBatch()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
	)...)
	if err != nil {
		return nil, fmt.Errorf("transactional client of topic %q: %w", t.topic, err)
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("take over transactional id %q: %w", transactionalID, err)
	}
	context.AfterFunc(t.ctx, cl.Close) // which ends a Put that waits
	return &TableWriter{table: t, cl: cl}, nil
}

// Close ends the writer. Nothing it began is left: each Put ends its transaction.
func (w *TableWriter) Close() { w.cl.Close() }

// Put writes records in one transaction, in order, and returns when it is committed: either all of them
// are in the table or none. ErrFenced means none, and that the writer is of no more use. After any other
// error all or none may have been written; the next Put goes on from whichever it is, but after ErrStuck.
func (w *TableWriter) Put(ctx context.Context, records ...*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return w.table.notWritten(context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tableTransaction)
	defer cancel()
	// The client itself waits without end for the answer to what it has sent.
	giveUp := context.AfterFunc(ctx, w.cl.Close)
	defer giveUp()
	if err := w.cl.BeginTransaction(); err != nil {
		return w.failed(err, records)
	}
	for _, r := range records {
		r.Topic = w.table.topic
	}
	err := w.cl.ProduceSync(ctx, records...).FirstErr()
	if err == nil {
		if err = EndTransaction(ctx, w.cl, kgo.TryCommit); err == nil {
			return nil
		}
	}
	if !giveUp() {
		return w.failed(fmt.Errorf("%w: %w", kgo.ErrClientClosed, err), records)
	}
	aborting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = EndTransaction(aborting, w.cl, kgo.TryAbort) // where that fails too, the next begin takes care of it
	return w.failed(err, records)
}

func (w *TableWriter) failed(err error, records []*kgo.Record) error {
	switch {
	case w.table.ctx.Err() != nil:
		err = ErrTableClosed
	case errors.Is(err, kgo.ErrClientClosed):
		err = fmt.Errorf("%w within %v: %w", ErrStuck, tableTransaction, err)
	}
	if Fenced(err) {
		return fmt.Errorf("write to topic %q: %w: %w", w.table.topic, ErrFenced, err)
	}
	return fmt.Errorf("write to topic %q: %w", w.table.topic, explain(err, records))
}
