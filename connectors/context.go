package connectors

import (
	"context"
	"log/slog"
	"time"

	"millrace/schema"
	"millrace/schema/config"
)

// A Context is what a connector or a task may ask of the runtime. What a field
// serves only one kind for is nil for the others.
type Context struct {
	Connector string // the connector's name
	Task      int    // the task's number; -1 for the connector itself
	Log       *slog.Logger
	Files     Files // which files may be opened
	Restarts  int   // automatic restarts in a row before this run of a task

	// Offsets are the stored offsets of a source's own partitions. Sources only.
	Offsets OffsetReader
	// Report sends a record that the target refused to the dead-letter topic, or fails
	// the task, as errors.tolerance says: a non-nil result must be returned from Put or
	// Flush. It returns once the record is on its way, and offsets are committed only
	// after it is acknowledged. Sink tasks only.
	Report func(ctx context.Context, r schema.Record, cause error) error
	// Moving says that the target took something, from within a Put, Flush, Open or Close
	// that may take long: such a call is not taken for one that hangs. Sink tasks only.
	Moving func()
	// Journal opens what a source keeps beyond offsets. Source tasks only.
	Journal func(ctx context.Context, at JournalPlace) (Journal, error)
}

// A JournalPlace says where a journal is.
type JournalPlace struct {
	Topic string
	// Servers are addresses of brokers of the cluster that it is on; none: it is in the worker's log. A worker that keeps its log
	// itself has all journals there, and tells that these have no effect.
	Servers []string
	// Reader and Writer are the settings of the clients on that cluster.
	Reader, Writer ClientSettings
}

// ClientSettings are settings in the names of Java's clients, as they were given behind a prefix.
type ClientSettings struct {
	Prefix   string
	Settings map[string]string
}

// Files says which files a connector may open.
type Files interface {
	// Check returns the cleaned absolute path, or an error that names the allowed
	// roots. Symbolic links are followed before the check.
	Check(path string) (string, error)
}

// An OffsetReader looks up stored offsets.
type OffsetReader interface {
	// Stored is the offset stored for a source partition, null where there is none.
	Stored(ctx context.Context, partition schema.Value) (schema.Value, error)
	// All are all stored offsets of this connector.
	All(ctx context.Context) ([]Offset, error)
}

// A Journal is an ordered, durable sequence of entries: a schema history.
type Journal interface {
	// Append adds entries and returns when they are on stable storage.
	Append(ctx context.Context, entries ...[]byte) error
	// Replay calls each for every entry from the first to the last one that was
	// appended before the call.
	Replay(ctx context.Context, each func(entry []byte) error) error
}

// A Validator is a Source or Sink that can look further than its keys: reach the
// database, check rights. The runtime calls it only when all keys are valid, and
// gives it a few seconds. Each error names a key, the reason and the remedy.
type Validator interface {
	Validate(ctx context.Context) []*config.Error
}

// A Checker is a Source or Sink whose settings have rules between each other that can
// be checked without reaching anything. It is asked where a Validator is not, since some
// keys are wrong: those it sees as if they were not given.
type Checker interface {
	Check() []*config.Error
}

// An OffsetAlterer is a Source that checks offsets which a client wants to set before
// they are stored, and may act on it. A null position removes a source partition's
// offset; a reset asks so about each that is stored. An error refuses the whole change;
// its text is for the client and names the key that is wrong. done says that nothing
// is left to do; false, and whoever is no OffsetAlterer, says that the source keeps a
// position of its own beside the stored ones, of which the client is told.
type OffsetAlterer interface {
	AlterOffsets(ctx context.Context, offsets []Offset) (done bool, err error)
}

// A SinkOffsetAlterer is the same for a Sink. nil removes a partition's offset. That
// topics and partitions exist and are read by the connector is checked already.
type SinkOffsetAlterer interface {
	AlterOffsets(ctx context.Context, offsets map[TopicPartition]*int64) (done bool, err error)
}

// Progress is where a source task is.
type Progress struct {
	// Position names the place up to which it has read, for people: "LSN 0/3A1F2B8",
	// "byte 1204 of app.log".
	Position string
	// At grows whenever the task reads on, also where nothing is emitted for it: a long
	// transaction, rows of other tables.
	At uint64
	// Behind is how much is known to be there and not read, in bytes; 0 for nothing, negative where that
	// cannot be told. A task that is behind, and whose At stands still, has stalled.
	Behind int64
	// Snapshot is how far a snapshot is, or was when it ended; nil: none was taken by this task.
	Snapshot *Snapshot
}

// A Snapshot is how far the reading of a source's present state is.
type Snapshot struct {
	State  string    // "running", "completed", "aborted", "skipped"
	Began  time.Time // zero: not yet
	Ended  time.Time // zero: not yet
	Rows   int64     // read so far, of all tables
	Tables []SnapshotTable
}

// A SnapshotTable is how far a snapshot is with one table.
type SnapshotTable struct {
	Table    string
	State    string // "waiting", "reading", "done"
	Rows     int64  // read so far
	Expected int64  // as the source estimates; negative: it cannot say
}

// A ProgressTeller is a SourceTask that can tell where it is. Progress is called
// every few seconds, concurrently with all else; it is quick and takes no lock that
// Run holds while it waits for something.
type ProgressTeller interface {
	Progress(ctx context.Context) Progress
}

// A Sample is a figure of a connector's own, beside those that the runtime has of every
// task, as /metrics shows it. All samples of one name have the same Help.
type Sample struct {
	Name   string // in full, as existing dashboards have it
	Help   string // a sentence
	Total  bool   // it only grows: a counter
	Labels []Label
	Value  float64
}

// A Label is a sample's label.
type Label struct{ Name, Value string }

// A Sampler is a SourceTask or SinkTask with figures of its own. Samples is called for
// each scrape, concurrently with all else and also after Run has returned; it is quick and
// takes no lock that Run holds while it waits for something. Of samples with one name and equal labels
// the first counts.
type Sampler interface {
	Samples() []Sample
}
