package connectors

import (
	"errors"
	"strings"
)

// A Reason is a known failure, declared beside a connector's settings: the one
// source of what status, command line and documentation say about it.
type Reason struct {
	Code   string // "postgres.slot_lost": stable, for machines and for looking up
	Doc    string // what it means and why it happens, for people
	Remedy string // what to do in general
	Retry  Retry
}

// Retry says whether a retry can help.
type Retry uint8

// Whether and how the runtime restarts a task that failed.
const (
	RetryUnknown Retry = iota // it may: 10 s doubling to 10 min, at most 10 in a row
	RetryHelps                // the cause passes by itself: 1 s doubling to 60 s, without end
	RetryNever                // a configuration is wrong: somebody must change something
)

// A Failure is an error of a known reason.
type Failure struct {
	Reason *Reason
	Cause  string // a sentence with real names and values
	Remedy string // what to do here; the reason's where empty
	Err    error  // the driver's or server's own error; may be nil
}

// Failed makes a Failure.
func Failed(r *Reason, err error, cause, remedy string) error {
	return &Failure{Reason: r, Cause: cause, Remedy: remedy, Err: err}
}

// Do is the remedy.
func (f *Failure) Do() string {
	if f.Remedy != "" {
		return f.Remedy
	}
	return f.Reason.Remedy
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(f.Cause)
	if f.Err != nil && !strings.Contains(f.Cause, f.Err.Error()) {
		b.WriteString(": " + f.Err.Error())
	}
	if do := f.Do(); do != "" {
		b.WriteString("; " + do)
	}
	return b.String()
}

func (f *Failure) Unwrap() error { return f.Err }

// marked is an error with a mark that IsRetriable and RetryOf find.
type marked struct {
	error
	retry Retry
}

func (m *marked) Unwrap() error { return m.error }

// Retriable marks an error whose cause may pass by itself. It is said where the
// cause is known, never guessed from text. A nil error stays nil.
func Retriable(err error) error { return mark(err, RetryHelps) }

// BadConfig marks an error that only a change of configuration mends.
func BadConfig(err error) error { return mark(err, RetryNever) }

func mark(err error, r Retry) error {
	if err == nil {
		return nil
	}
	return &marked{err, r}
}

// RetryOf says whether a retry can help against err: what the outermost mark or
// Failure in its chain says; of joined errors the first that says anything.
func RetryOf(err error) Retry {
	for err != nil {
		switch e := err.(type) {
		case *marked:
			return e.retry
		case *Failure:
			if e.Reason != nil && e.Reason.Retry != RetryUnknown {
				return e.Reason.Retry
			}
		case interface{ MayPass() bool }: // of those below, who do not know this package
			if e.MayPass() {
				return RetryHelps
			}
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				if r := RetryOf(one); r != RetryUnknown {
					return r
				}
			}
			return RetryUnknown
		}
		err = errors.Unwrap(err)
	}
	return RetryUnknown
}

// IsRetriable reports whether err is marked retriable.
func IsRetriable(err error) bool { return RetryOf(err) == RetryHelps }

// FailureOf is the Failure in err's chain, or nil.
func FailureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}
