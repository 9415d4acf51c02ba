package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/schema/config"
)

// transactions carry a source task's records to the log together with the offsets
// behind them: a reader of committed records sees each exactly once, whatever ends the
// task in between, since what it has seen and where the source resumes are one. The
// task's transactional id is taken over before it reads where to resume, which ends
// whatever an earlier run of it had begun.
//
// All is done by produce's goroutine but close.
type transactions struct {
	task     *sourceTask
	id       string
	boundary string        // poll, interval or connector
	interval time.Duration // of interval
	flush    time.Duration // for which offsets without records may wait
	lg       *slog.Logger

	open    bool
	began   time.Time // of the transaction, or of offsets without one
	records int       // in the transaction
	offsets []keyed   // behind what was produced, one per source partition
	last    time.Time // when a transaction was committed last

	ended chan struct{} // closed when produce has returned
}

// With transaction.boundary=poll a transaction takes more batches until there are none
// on their way, for so long and so many records at most: a commit costs the same
// whatever it holds. While many records come, none on their way means that the pipeline keeps up and not
// that there are no more: then transactions are at least a while apart. What comes alone never waits.
const (
	mergeFor     = 100 * time.Millisecond
	mergeRecords = 10_000
	manyRecords  = 256
	apart        = 20 * time.Millisecond
)

// abortLimit bounds the abort of a task that is going down. What cannot be aborted in
// this time is by the task's next run, or when the transaction times out.
const abortLimit = 2 * time.Second

// produce carries batches to the log in transactions, until there are no more or ctx
// ends. Then a transaction that is open is committed, or aborted where something failed.
func (x *transactions) produce(ctx context.Context, from <-chan *slab) error {
	defer close(x.ended)
	defer x.abort()
	t := x.task
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := x.wait()
		if wait <= 0 {
			if err := x.commit(ctx); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		var s *slab
		more := true
		select {
		case s, more = <-from:
		case <-timer.C:
			continue
		case <-t.inflight.broken:
			return t.inflight.failure()
		case <-ctx.Done():
			return ctx.Err()
		}
		if !more {
			break
		}
		if err := x.take(ctx, s); err != nil {
			return err
		}
	}
	if x.boundary == "connector" && x.open {
		x.lg.Info("the transaction that the connector has not ended is aborted with its task", "records", x.records)
		return t.inflight.drain(ctx)
	}
	return x.commit(ctx)
}

// wait is how long what is pending may wait for more before it is committed: 0 for no
// longer, an hour where nothing is pending.
func (x *transactions) wait() time.Duration {
	most, empty := time.Hour, x.task.emitted.Load() == 0
	switch {
	case !x.open && len(x.offsets) == 0, x.boundary == "connector":
		return most
	case !x.open:
		most = x.flush
	case x.boundary == "interval":
		most = x.interval
	case x.records >= mergeRecords, empty && x.records < manyRecords:
		return 0
	case empty:
		return max(0, apart-time.Since(x.last))
	default:
		most = mergeFor
	}
	return max(0, most-time.Since(x.began))
}

// take adds a batch to the transaction, and ends it where the batch says so.
func (x *transactions) take(ctx context.Context, s *slab) error {
	// The slab is reused once it is acknowledged, which may be at once.
	offsets, txn := s.flight.offsets, s.txn
	s.flight.offsets = nil
	if s.n > 0 {
		if err := x.begin(); err != nil {
			return err
		}
		x.records += s.n
	} else if !x.open && len(x.offsets) == 0 {
		x.began = time.Now()
	}
	if err := x.task.send(ctx, s); err != nil {
		return err
	}
	x.offsets = merged(x.offsets, offsets)
	if x.boundary != "connector" {
		return nil
	}
	switch txn {
	case connectors.TxnCommit:
		return x.commit(ctx)
	case connectors.TxnAbort:
		// The records go, the offsets stay, as in Connect: the source wants to be rid of
		// what it read, not to read it again.
		if err := x.task.inflight.drain(ctx); err != nil {
			return err
		}
		x.lg.Info("transaction aborted, as the connector wants", "records", x.records)
		if err := x.end(ctx, kgo.TryAbort); err != nil {
			return err
		}
		return x.commit(ctx)
	}
	return nil
}

func (x *transactions) begin() error {
	if x.open {
		return nil
	}
	if err := x.task.client.BeginTransaction(); err != nil {
		return x.failure("begin", err)
	}
	x.open, x.began, x.records = true, time.Now(), 0
	return nil
}

// commit adds the offsets to the transaction, commits it and lets the source be told.
func (x *transactions) commit(ctx context.Context) error {
	t := x.task
	if !x.open && len(x.offsets) == 0 {
		return t.inflight.drain(ctx)
	}
	if err := x.begin(); err != nil {
		return err
	}
	defer t.activity.enter(committing)()
	begun, records := time.Now(), x.records
	err := x.store(ctx)
	if err == nil {
		err = t.inflight.drain(ctx)
	}
	if err == nil {
		err = x.end(ctx, kgo.TryCommit)
	}
	t.meter.commit(time.Since(begun), err == nil)
	if err != nil {
		return err
	}
	t.meter.transaction.Add(float64(records))
	t.inflight.settle(x.offsets)
	x.offsets, x.last = nil, time.Now()
	select {
	case t.commits.stored <- struct{}{}:
	default:
	}
	return nil
}

// store writes the offsets behind the records, to be acknowledged with them.
func (x *transactions) store(ctx context.Context) error {
	if len(x.offsets) == 0 {
		return nil
	}
	t := x.task
	var rs []*kgo.Record
	for _, topic := range t.commits.topics {
		more, err := t.commits.records(topic, x.offsets)
		if err != nil {
			return err
		}
		rs = append(rs, more...)
	}
	fl := &flight{}
	t.inflight.force(fl)
	left := new(atomic.Int32)
	left.Store(int32(len(rs)))
	for _, r := range rs {
		t.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.inflight.fail(x.failure("write offsets to topic "+r.Topic+" in", err))
				return
			}
			if left.Add(-1) == 0 {
				t.inflight.ack(fl)
			}
		})
	}
	return nil
}

func (x *transactions) end(ctx context.Context, how kgo.TransactionEndTry) error {
	if err := log.EndTransaction(ctx, x.task.client, how); err != nil {
		what := "commit"
		if how == kgo.TryAbort {
			what = "abort"
		}
		return x.failure(what, err)
	}
	x.open, x.records = false, 0
	return nil
}

// abort ends a transaction that is still open when produce returns: something failed,
// or the task is abandoned.
func (x *transactions) abort() {
	if !x.open {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortLimit)
	defer cancel()
	if err := log.EndTransaction(ctx, x.task.client, kgo.TryAbort); err != nil && !log.Fenced(err) {
		x.lg.Warn("an open transaction could not be aborted: until the task runs again or transaction.timeout.ms has passed, readers of committed records wait behind it",
			"transactional.id", x.id, "err", err)
	}
	x.open = false
}

// close closes the client of a task that is abandoned, after its transaction is
// aborted where that can be had soon.
func (x *transactions) close() {
	select {
	case <-x.ended:
	case <-time.After(abortLimit + time.Second):
	}
	x.task.client.Close()
}

// failure is why something about a transaction failed.
func (x *transactions) failure(what string, err error) error {
	if broken := x.task.inflight.failure(); broken != nil {
		return broken
	}
	what += " transaction of " + x.id
	switch {
	case log.Fenced(err):
		return fenced(x.id, err)
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return err
	case errors.Is(err, kerr.OperationNotAttempted):
		// The log refused what the client let pass: that ends a transaction, whatever is
		// tolerated. The next run may know better, as of a topic's new limit.
		if why := x.task.skipped.Load(); why != nil {
			return fmt.Errorf("%s: a record that the log refuses ends the transaction it is in: %w", what, *why)
		}
	}
	return transactionError(what, err)
}

// transactionError says what is to be done about an error of the log.
func transactionError(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	switch {
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("%w; grant Write and Describe on the transactional id, then restart the task", err)
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return connectors.BadConfig(fmt.Errorf("%w: the cluster's transaction.max.timeout.ms is shorter; lower transaction.timeout.ms (producer.override.) or transaction.boundary.interval.ms", err))
	}
	return connectors.Retriable(err)
}

// Fenced is the failure of a task whose transactional id another has taken over.
var Fenced = &connectors.Reason{
	Code: "worker.task_fenced",
	Doc: "With exactly-once delivery each task writes under a transactional id of its own. Whoever takes the id over, as a task's new run does, " +
		"ends the transactions of the one before it; so does the log when a transaction was open for longer than its timeout. The fenced run writes nothing more.",
	Remedy: "Where the task runs elsewhere, nothing. Otherwise the transaction took too long: raise producer.override.transaction.timeout.ms, shorten transaction.boundary.interval.ms, or use transaction.boundary=poll.",
}

func fenced(id string, err error) error {
	return connectors.Failed(Fenced, err, fmt.Sprintf("the task's producer was fenced: another run of it has taken over the transactional id %s, or its transaction was open for longer than transaction.timeout.ms", id), "")
}

// transactional makes what a task needs to write in transactions, and takes its
// transactional id over: when it returns, nothing of an earlier run is under way.
func (w *Worker) transactional(ctx context.Context, l *log.Log, v config.Values, spec TaskSpec, o runtime.ClientConfig, limit func(string) int32, m *Meter, lg *slog.Logger) (*transactions, *kgo.Client, error) {
	x := &transactions{
		id:       w.cfg.Worker.TransactionalID(spec.ID),
		boundary: strings.ToLower(settings.TransactionBoundary.Get(v)),
		interval: w.cfg.Worker.OffsetFlushInterval,
		flush:    w.cfg.Worker.OffsetFlushInterval,
		lg:       lg,
		ended:    make(chan struct{}),
	}
	if settings.TransactionInterval.Has(v) {
		x.interval = settings.TransactionInterval.Get(v)
	}
	timeout := o.TransactionTimeout
	if timeout == 0 {
		timeout = transactionTimeout(x.boundary, x.interval)
	}
	client, err := w.producer(l, "connector-producer-"+spec.ID.String(), o, limit, m, kgo.TransactionalID(x.id), kgo.TransactionTimeout(timeout))
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, nil, cmp.Or(ctx.Err(), transactionError("take over transactional id "+x.id, err))
	}
	return x, client, nil
}

// transactionTimeout is after what time the log aborts a transaction: Java's default,
// or more where transactions are meant to be longer. Clusters take 15 minutes at most.
func transactionTimeout(boundary string, interval time.Duration) time.Duration {
	if boundary == "interval" {
		return min(max(time.Minute, 2*interval), max(15*time.Minute, interval))
	}
	return time.Minute
}
