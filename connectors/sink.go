package connectors

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A SinkPlugin is a sink connector as a binary lists it.
type SinkPlugin struct {
	plugin.Info
	TaskClass string    // see SourcePlugin
	Reasons   []*Reason // see SourcePlugin
	// New makes the connector; see SourcePlugin.New.
	New func(cc Context, v config.Values) (Sink, error)
	// NewTask makes a task; see SourcePlugin.NewTask.
	NewTask func(cc Context, v config.Values) (SinkTask, error)
}

// A Sink plans the work of a sink connector. Further abilities are interfaces of
// their own: Validator, SinkOffsetAlterer.
type Sink interface {
	// Tasks plans at most max tasks, one configuration each; mostly max copies, since
	// partitions are shared out among tasks by their consumer group.
	Tasks(ctx context.Context, max int) ([]map[string]string, error)
}

// Copies are the plans of n tasks with the connector's own settings: their consumer group shares partitions out among them.
func Copies(v config.Values, n int) []map[string]string {
	out := make([]map[string]string, n)
	for i := range out {
		out[i] = maps.Clone(v.Raw)
	}
	return out
}

// Backoff is how long to wait before an attempt is repeated, the first of them being 1: random up to a bound that begins with
// first and doubles with each attempt, and never exceeds most.
func Backoff(first, most time.Duration, attempt int) time.Duration {
	bound := min(first, most)
	for range attempt - 1 {
		if bound > most/2 {
			bound = most
			break
		}
		bound *= 2
	}
	if bound <= 0 {
		return 0
	}
	return rand.N(bound)
}

// A TopicPartition is a partition of a topic of the log.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// A SinkTask writes records to its target. Its methods are called by one goroutine.
type SinkTask interface {
	// Open gives the task partitions, in addition to those it has. It returns where to
	// start in those for which the target knows better than the group's committed
	// offsets; nil is fine. The first Open may reach the target.
	Open(ctx context.Context, parts []TopicPartition) (start map[TopicPartition]int64, err error)

	// Put takes records in order per partition, at least every second, with none when
	// nothing came. Records may be kept only until they are written; ownership passes to
	// the task. A retriable error redelivers: from the first record that a *PutError
	// says was not taken, else all of them. A Failure, and a redelivery that takes
	// nothing five times over, end the task, so that its state says what is wrong; it is
	// restarted as the error's mark says.
	Put(ctx context.Context, records []schema.Record) error

	// Flush writes what Put took and returns, for each partition that moved, the
	// offset of the next record to read. Only these are committed: a task that cannot
	// flush everything yet returns less.
	Flush(ctx context.Context) (map[TopicPartition]int64, error)

	// Close takes partitions away. lost means that another task may have them
	// already: nothing is flushed. Close of the last one frees what Open took.
	Close(ctx context.Context, parts []TopicPartition, lost bool) error
}

// A PutError is a Put that took the first Taken records and not the rest.
type PutError struct {
	Taken int
	Err   error
}

func (e *PutError) Error() string { return e.Err.Error() }
func (e *PutError) Unwrap() error { return e.Err }
