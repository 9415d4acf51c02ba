package tolerance

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// A Stage is where in a record's way something failed, in Connect's spelling.
type Stage string

// Connect's stages.
const (
	Transformation  Stage = "TRANSFORMATION"
	KeyConverter    Stage = "KEY_CONVERTER"
	ValueConverter  Stage = "VALUE_CONVERTER"
	HeaderConverter Stage = "HEADER_CONVERTER"
	TaskPut         Stage = "TASK_PUT"
	TaskPoll        Stage = "TASK_POLL"
	Produce         Stage = "KAFKA_PRODUCE"
	Consume         Stage = "KAFKA_CONSUME"
)

// Config is what a connector's errors.* settings say.
type Config struct {
	RetryTimeout  time.Duration // in all, for what is retriable; 0 never tries again, negative for ever
	RetryDelayMax time.Duration // between two tries
	TolerateAll   bool
	Log           bool // a line for each record that failed
	LogMessages   bool // with where it stands; values are never logged

	// Clean takes secrets out of what is said of an error, in logs and dead letters; nil: there are none.
	Clean func(error) error

	DeadLetterTopic       string // "" for none
	DeadLetterReplication int16
	DeadLetterContext     bool // headers that say what failed
}

// A Failure is one record's failure.
type Failure struct {
	Stage  Stage
	Class  string         // of the transform, converter or connector
	Where  string         // names the record: "topic orders, partition 0, offset 42" or a source's position
	Origin *schema.Origin // of a sink's record; nil in sources
	Err    error
}

// A RecordError fails a task because of one record.
type RecordError struct {
	Failure
	Task string
}

func (e *RecordError) Error() string {
	where := ""
	if e.Where != "" {
		where = " at " + e.Where
	}
	return fmt.Sprintf("record%s failed in stage %s (%s): %v", where, e.Stage, e.Class, e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

// An Operator handles a task's failures. It is used by one goroutine at a time, but
// for its counters.
type Operator struct {
	cfg     Config
	task    string // "orders-0"
	lg      *slog.Logger
	letters *DeadLetters // nil: none

	Failures, Skipped, Retries, Logged atomic.Int64
	Last                               atomic.Int64 // when the last failure was, in ms since the epoch; 0 for none
}

// New makes an operator. letters may be nil.
func New(cfg Config, task string, lg *slog.Logger, letters *DeadLetters) *Operator {
	return &Operator{cfg: cfg, task: task, lg: lg, letters: letters}
}

// Tolerates reports whether records that fail are skipped.
func (o *Operator) Tolerates() bool { return o.cfg.TolerateAll }

// Handle is called when an attempt failed. While that can help it calls again, which
// is one more attempt; nil from it, or from Handle, is success. skip says that the
// record shall be left out; otherwise the error fails the task.
func (o *Operator) Handle(ctx context.Context, f Failure, again func() error) (skip bool, err error) {
	if again != nil && connectors.IsRetriable(f.Err) {
		if f.Err = o.retry(ctx, f, again); f.Err == nil {
			return false, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return o.Report(ctx, f)
}

// firstDelay is the pause before the first retry, as in Connect.
const firstDelay = 300 * time.Millisecond

func (o *Operator) retry(ctx context.Context, f Failure, again func() error) error {
	if o.cfg.RetryTimeout == 0 {
		return f.Err
	}
	end := time.Now().Add(o.cfg.RetryTimeout)
	for n := 0; ; n++ {
		d := Backoff(n, firstDelay, o.cfg.RetryDelayMax)
		if o.cfg.RetryTimeout > 0 && time.Now().Add(d).After(end) {
			return fmt.Errorf("given up after %d tries: %w", n+1, f.Err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
		}
		o.Retries.Add(1)
		if err := again(); err == nil || !connectors.IsRetriable(err) {
			return err
		} else {
			f.Err = err
		}
	}
}

// Backoff is the pause before try n: first doubling up to most, spread by a fifth so
// that many tasks do not come back together.
func Backoff(n int, first, most time.Duration) time.Duration {
	d := most
	if n < 30 && first<<n > 0 && first<<n < most {
		d = first << n
	}
	return d - time.Duration(rand.Int64N(int64(d)/5+1))
}

// Report handles a failure that no retry mends.
func (o *Operator) Report(ctx context.Context, f Failure) (skip bool, err error) {
	o.Failures.Add(1)
	o.Last.Store(time.Now().UnixMilli())
	if o.cfg.Clean != nil {
		f.Err = o.cfg.Clean(f.Err)
	}
	o.log(f)
	if !o.cfg.TolerateAll {
		return false, &RecordError{f, o.task}
	}
	if o.letters != nil && f.Origin != nil {
		if err := o.letters.Send(ctx, f); err != nil {
			return false, err
		}
	}
	o.Skipped.Add(1)
	return true, nil
}

func (o *Operator) log(f Failure) {
	if !o.cfg.Log {
		return
	}
	o.Logged.Add(1)
	args := []any{"task", o.task, "stage", string(f.Stage), "class", f.Class, "err", f.Err}
	if o.cfg.LogMessages && f.Where != "" {
		args = append(args, "record", f.Where)
	}
	o.lg.Error(fmt.Sprintf("Error encountered in task %s. Executing stage '%s' with class '%s'", o.task, f.Stage, f.Class), args...)
}
