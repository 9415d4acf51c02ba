package tolerance

import (
	"context"
	"errors"
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

// A StageError is an attempt's error that says itself where it happened: one attempt
// may go through several stages.
type StageError struct {
	Stage Stage
	Class string
	Err   error
}

func (e *StageError) Error() string { return e.Err.Error() }
func (e *StageError) Unwrap() error { return e.Err }

// at is the failure with what its error says of the stage.
func (f Failure) at() Failure {
	var e *StageError
	if errors.As(f.Err, &e) {
		f.Stage, f.Class, f.Err = e.Stage, e.Class, e.Err
	}
	return f
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
	f = f.at()
	if again != nil && connectors.IsRetriable(f.Err) {
		if f = o.retry(ctx, f, again); f.Err == nil {
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

// retry is the failure that is left when retries are used up or end with another one.
func (o *Operator) retry(ctx context.Context, f Failure, again func() error) Failure {
	if o.cfg.RetryTimeout == 0 {
		return f
	}
	end := time.Now().Add(o.cfg.RetryTimeout)
	for n := 0; ; n++ {
		d := Backoff(n, firstDelay, o.cfg.RetryDelayMax)
		if o.cfg.RetryTimeout > 0 && time.Now().Add(d).After(end) {
			f.Err = fmt.Errorf("given up after %d tries: %w", n+1, f.Err)
			return f
		}
		select {
		case <-ctx.Done():
			f.Err = ctx.Err()
			return f
		case <-time.After(d):
		}
		o.Retries.Add(1)
		f.Err = again()
		if f = f.at(); !connectors.IsRetriable(f.Err) {
			return f
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

// log writes Connect's line: scripts look for it.
func (o *Operator) log(f Failure) {
	if !o.cfg.Log {
		return
	}
	o.Logged.Add(1)
	where := ""
	switch {
	case !o.cfg.LogMessages:
	case f.Origin != nil:
		kind := "CreateTime"
		if f.Origin.LogAppendTime {
			kind = "LogAppendTime"
		}
		where = fmt.Sprintf(", where consumed record is {topic='%s', partition=%d, offset=%d, timestamp=%d, timestampType=%s}",
			f.Origin.Topic, f.Origin.Partition, f.Origin.Offset, f.Origin.Timestamp, kind)
	case f.Where != "":
		where = ", where source record is = " + f.Where
	}
	o.lg.Error(fmt.Sprintf("Error encountered in task %s. Executing stage '%s' with class '%s'%s.", o.task, f.Stage, f.Class, where),
		"task", o.task, "stage", string(f.Stage), "class", f.Class, "err", f.Err)
}
