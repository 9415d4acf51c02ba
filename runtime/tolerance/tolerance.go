// Package tolerance is what errors.* settings mean: an operation on a record is
// tried again while a retry can help, and a record that still fails stops its task
// or is skipped and reported.
package tolerance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/schema/config"
)

// Stage is what was being done to a record, in Connect's words.
type Stage string

// Connect's stages.
const (
	Transformation  Stage = "TRANSFORMATION"
	KeyConverter    Stage = "KEY_CONVERTER"
	ValueConverter  Stage = "VALUE_CONVERTER"
	HeaderConverter Stage = "HEADER_CONVERTER"
	TaskPut         Stage = "TASK_PUT"
	Produce         Stage = "KAFKA_PRODUCE"
)

// A Failure is a record that failed: in which stage, in which class, where the
// record lies and why. It is the error with which a task fails.
type Failure struct {
	Task  runtime.TaskID
	Stage Stage
	Class string // of the converter, transform or task
	Where string // "topic orders, partition 0, offset 42", "LSN 0/3A1F2B8"
	Err   error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s of the record at %s in %s: %v", strings.ToLower(strings.ReplaceAll(string(f.Stage), "_", " ")), f.Where, f.Class, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// A Policy is a connector's errors.* settings for one task. Its counters may be read
// at any time; Try is called by one goroutine per stage.
type Policy struct {
	task     runtime.TaskID
	lg       *slog.Logger
	timeout  time.Duration // of all tries together; negative: none
	delayMax time.Duration
	tolerate bool
	logged   bool
	messages bool

	Failures, Retries, Skipped atomic.Int64
}

// New reads a policy from a connector's configuration.
func New(task runtime.TaskID, v config.Values, lg *slog.Logger) *Policy {
	p := &Policy{
		task: task, lg: lg, timeout: settings.ErrorsRetryTimeout.Get(v), delayMax: settings.ErrorsRetryDelayMax.Get(v),
		tolerate: strings.EqualFold(settings.ErrorsTolerance.Get(v), "all"),
		logged:   settings.ErrorsLogEnable.Get(v), messages: settings.ErrorsLogIncludeMessages.Get(v),
	}
	return p
}

// Tolerates reports whether records that fail are skipped.
func (p *Policy) Tolerates() bool { return p.tolerate }

const firstDelay = 300 * time.Millisecond

// Retry calls do until it succeeds, fails for good, the time for retries is over or
// ctx ends. Only errors marked retriable are tried again. The last error is
// returned.
func (p *Policy) Retry(ctx context.Context, do func() error) error {
	err := do()
	if err == nil || p.timeout == 0 || !connectors.IsRetriable(err) {
		return err
	}
	end := time.Now().Add(p.timeout)
	for delay := firstDelay; ; delay *= 2 {
		delay = min(delay, p.delayMax)
		wait := delay - time.Duration(rand.Int64N(int64(delay/5)+1)) // workers that failed together do not come back together
		if p.timeout > 0 {
			left := time.Until(end)
			if left <= 0 {
				return err
			}
			wait = min(wait, left)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		p.Retries.Add(1)
		if err = do(); err == nil || !connectors.IsRetriable(err) {
			return err
		}
	}
}

// Failed says what becomes of a record that failed: nil when it is skipped, else the
// error that ends the task. Where is called only when its text is needed.
func (p *Policy) Failed(stage Stage, class string, err error, where func() string) error {
	p.Failures.Add(1)
	f := &Failure{Task: p.task, Stage: stage, Class: class, Err: err}
	if p.logged || !p.tolerate {
		f.Where = where()
	}
	if p.logged {
		attrs := []any{"stage", string(stage), "class", class, "err", err, "skipped", p.tolerate}
		if p.messages {
			attrs = append(attrs, "record", f.Where)
		}
		p.lg.Error("record failed", attrs...)
	}
	if !p.tolerate {
		return f
	}
	p.Skipped.Add(1)
	return nil
}

// FailureOf is the record failure in err's chain, or nil.
func FailureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}
