package connectors

import (
	"context"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A SourcePlugin is a source connector as a binary lists it.
type SourcePlugin struct {
	plugin.Info

	// TaskClass is the Java class name of its tasks, which Connect keeps in the config
	// topic. A JVM worker of a mixed group loads it.
	TaskClass string

	// Reasons are the connector's known failures.
	Reasons []*Reason

	// New makes the connector of a configuration whose keys are all valid. It is quick
	// and reaches nothing.
	New func(cc Context, v config.Values) (Source, error)

	// NewTask makes a task of one of the configurations that Source.Tasks planned,
	// parsed with the plugin's Config. It is quick and reaches nothing: Run does.
	NewTask func(cc Context, v config.Values) (SourceTask, error)
}

// A Source plans the work of a source connector. Further abilities are interfaces
// of their own: Validator, OffsetAlterer, Guarantees.
type Source interface {
	// Tasks plans at most max tasks, one configuration each. They hold all that a task
	// needs: another worker may run it.
	Tasks(ctx context.Context, max int) ([]map[string]string, error)
}

// A SourceTask reads its part of a source.
type SourceTask interface {
	// Run emits batches, in source order per source partition, until ctx ends or the
	// source fails. Emit blocks while the log is behind: that is the back-pressure.
	// Run returns nil only because ctx ended. A task is run once.
	Run(ctx context.Context, out Out) error

	// Commit tells the task which offsets are on stable storage in the log. Only now
	// may it let the source forget. It is called concurrently with Run, never with
	// itself, and with offsets that only move forward per source partition. An error
	// is logged and tried again with the next commit.
	Commit(ctx context.Context, done []Offset) error
}

// A Previewer is a SourceTask that can show what it would emit first. Preview is called
// in Run's place, with no stored offsets; it really reads, and leaves nothing behind: no
// slot, no publication, nothing confirmed. It returns nil when there is no more for now,
// or because ctx ended.
type Previewer interface {
	Preview(ctx context.Context, out Out) error
}

// Out takes what a source task emits.
type Out interface {
	// Emit hands over a batch and blocks until there is room for it, ctx ends or the
	// task has failed further on. The batch and all it holds belong to the runtime
	// from then on. Emit is called by one goroutine at a time, and never by the one
	// that owns a database connection.
	Emit(ctx context.Context, b Batch) error
}

// A Batch is a run of records in source order: at most 2,000 of them or 1 MiB of
// values (MaxBatchRecords, MaxBatchBytes), a larger record alone.
type Batch struct {
	// Records may be empty: then the offsets move alone (filtered rows, keepalives).
	Records []schema.Record

	// Offsets is where the source stands once all records of this batch and of those
	// before it are in the log: one for each source partition that the batch moved.
	// They are stored after the records are acknowledged, in order.
	Offsets []Offset

	// Txn ends a transaction of the source, for transaction.boundary=connector.
	Txn Txn

	// Describe names record i's position in the source ("LSN 0/3A1F2B8"), for the
	// message about a record that is skipped or fails. Nil: the offsets stand for it.
	Describe func(i int) string
}

// The bounds of a batch, so that memory stays flat whatever the source holds.
const (
	MaxBatchRecords = 2000
	MaxBatchBytes   = 1 << 20
)

// Txn says what a batch means for the transaction that is open.
type Txn uint8

// What a batch may do to the open transaction.
const (
	TxnNone   Txn = iota // nothing
	TxnCommit            // commit it, this batch included
	TxnAbort             // abort it, this batch included
)

// An Offset is a position in a source partition. Both are schemaless maps with
// string keys, as Connect stores them: {"server":"shop"} and {"lsn":42, …}, and
// their order of keys is kept.
type Offset struct {
	Partition schema.Value
	// Position is the position; null removes the source partition's offset.
	Position schema.Value
}

// Guarantees is asked of a Source that can take part in exactly-once delivery: it
// resumes exactly at the offset it is given.
type Guarantees interface {
	ExactlyOnce() bool
	// Boundaries reports whether the task's batches mark transactions (Batch.Txn).
	Boundaries() bool
}
