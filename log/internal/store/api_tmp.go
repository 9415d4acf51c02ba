package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// ErrOutcomeUnknown means that bytes may or may not be on disk: the data
// directory went offline between a write and its sync. No answer is true; close
// the connection without one, so that the client's retry decides. Test with errors.Is.
var ErrOutcomeUnknown = errors.New("store: outcome unknown, the data directory went offline")

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("store: closed")

// ErrExist is returned by Create for a partition that is there.
var ErrExist = errors.New("store: partition exists")

// LockedError is returned by Open when another process holds the data directory.
type LockedError struct {
	Dir    string
	Holder string // what the holder wrote about itself, "pid 4711"
}

func (e *LockedError) Error() string { return "" }

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Fsync says when acks=all may be answered.
type Fsync int

const (
	FsyncGroup    Fsync = iota // after fdatasync, shared by all who wait
	FsyncInterval              // after the write; synced every Options.FsyncInterval
	FsyncNever                 // after the write; the kernel writes back when it likes. For tests
)

// Options of a Store. The zero value is useful.
type Options struct {
	Fsync          Fsync
	FsyncInterval  time.Duration    // FsyncInterval mode; default 1s
	MaxOpenFiles   int              // segment files kept open; default 512
	MaxSyncs       int              // fdatasync calls in flight; default 16
	Logger         *slog.Logger     // default: discards
	MinFree        int64            // bytes; below it client topics are refused; default min(1 GiB, 5 % of the disk), negative: none
	Ballast        int64            // bytes of .ballast; default 64 MiB, negative: none
	Maintain       time.Duration    // period of Maintain; default 30s, negative: only by call
	ProducerExpiry time.Duration    // producer.id.expiration.ms; default 24h
	Process        string           // written into .lock for the holder's message, e.g. "pid 4711, listening on 127.0.0.1:9092"
	OnOffline      func(error)      // called once, on its own goroutine, when an I/O error takes the directory offline
	Now            func() time.Time // default time.Now
}

// PartitionConfig is what a topic's configuration means for one of its
// partitions. DefaultConfig has the defaults; the zero value is not valid.
type PartitionConfig struct {
	SegmentBytes     int64         // segment.bytes
	SegmentAge       time.Duration // segment.ms
	IndexInterval    int           // index.interval.bytes
	MaxMessageBytes  int           // max.message.bytes: largest batch
	RetentionTime    time.Duration // retention.ms; negative: none
	RetentionBytes   int64         // retention.bytes; negative: none
	Delete           bool          // cleanup.policy contains delete
	Compact          bool          // cleanup.policy contains compact: records need keys
	LogAppendTime    bool          // message.timestamp.type
	TimestampBefore  time.Duration // message.timestamp.before.max.ms; negative: no limit
	TimestampAfter   time.Duration // message.timestamp.after.max.ms; negative: no limit
	DeleteRetention  time.Duration // delete.retention.ms
	MinDirtyRatio    float64       // min.cleanable.dirty.ratio
	MinCompactionLag time.Duration
	MaxCompactionLag time.Duration // negative: none
	Internal         bool          // written by the broker itself: always fsync group, goes on when client topics are refused for lack of space
}

// DefaultConfig is the configuration of a topic of which nothing is said.
func DefaultConfig() PartitionConfig { panic("soon") }

// Open takes the lock of dir (created if missing), recovers what is in it, and
// serves. Partitions found on disk run with DefaultConfig, and without retention,
// until SetConfig is called for them. *LockedError when another process has dir.
func Open(fsys vfs.FS, dir string, o Options) (*Store, error) { panic("soon") }

// Store is one data directory. Safe for concurrent use.
type Store struct{}

// Create makes a partition and returns when it is durable. ErrExist when it is
// there; a *batch.Error of StorageError when the disk is full or offline. The topic's
// name must have passed CheckTopicName.
func (s *Store) Create(tp TopicPartition, topicID [16]byte, c PartitionConfig) (*Partition, error) {
	panic("soon")
}

// CheckTopicName refuses what Kafka refuses, before a name becomes a path.
func CheckTopicName(topic string) error { panic("soon") }

// Get returns a partition, nil if there is none.
func (s *Store) Get(topic string, partition int32) *Partition { panic("soon") }

// Delete removes a partition: its directory is renamed durably first, so that it
// is gone even if the removal of its files is cut short. Waiters and parked
// fetches are woken with UnknownTopicOrPartition. Slices that are being read stay valid.
func (s *Store) Delete(topic string, partition int32) error { panic("soon") }

// Partitions returns all partitions ordered by topic and number. The slice is the caller's.
func (s *Store) Partitions() []*Partition { panic("soon") }

// Maintain does once what runs every Options.Maintain: retention, checkpoints,
// expiry of producers, ballast and free-space check.
func (s *Store) Maintain() error { panic("soon") }

// Close stops the store. Appends are refused, what was written is synced, state
// files are written and the clean marker last, so that the next Open need not
// scan. It waits for all of the store's goroutines.
func (s *Store) Close() error { panic("soon") }

// Health of the directory.
type Health struct {
	Offline   error  // non-nil: an I/O error took the directory offline
	LowSpace  bool   // client topics are refused
	Ballast   bool   // the ballast is in place
	WeakFsync string // "interval" or "never", else empty
	Damaged   []Hole // damaged ranges, which reads answer with CorruptMessage
	Space     vfs.Space
}

// Hole is a damaged range of offsets [From, To).
type Hole struct {
	TopicPartition
	From, To int64
	File     string
	Position int64
}

// Health reports the state of the directory.
func (s *Store) Health() Health { panic("soon") }

// Partition is one partition. Safe for concurrent use.
type Partition struct{}

func (p *Partition) ID() TopicPartition      { panic("soon") }
func (p *Partition) TopicID() [16]byte       { panic("soon") }
func (p *Partition) Config() PartitionConfig { panic("soon") }

// SetConfig changes the configuration of an existing partition, and admits it to retention.
func (p *Partition) SetConfig(c PartitionConfig) { panic("soon") }

// Origin says who writes.
type Origin int

const (
	FromClient      Origin = iota // produce requests
	FromCoordinator               // the broker itself: control batches are allowed
)

// AppendOpts of Append.
type AppendOpts struct {
	Origin Origin
	// CoordinatorEpoch and so on stand in the marker batch itself.
}

// Appended says where batches went.
type Appended struct {
	Base      int64 // offset of the first record
	End       int64 // offset after the last one: what AfterDurable and WaitDurable take
	Timestamp int64 // log append time in ms, or -1
	LogStart  int64
	Duplicate bool // an idempotent producer's retry: Base and End are those of the original
}

// Append validates batches and writes them, all or none; they are not durable
// yet. Base offset and leader epoch are written into the caller's bytes, which
// the caller may reuse when Append returns. Records of compressed batches are
// not opened, except for compacted topics.
//
// Errors: *batch.Error with the code to answer, nothing was written; or
// ErrOutcomeUnknown.
func (p *Partition) Append(batches []batch.View, o AppendOpts) (Appended, error) { panic("soon") }

// WaitDurable blocks until everything below end is durable by the partition's
// fsync mode. Errors: ctx's, ErrOutcomeUnknown, ErrClosed.
func (p *Partition) WaitDurable(ctx context.Context, end int64) error { panic("soon") }

// AfterDurable calls done once: at once if everything below end is durable
// already, else later from a goroutine of the store, in order of end. done must not
// block. The error is nil, ErrOutcomeUnknown or ErrClosed.
func (p *Partition) AfterDurable(end int64, done func(error)) { panic("soon") }

// Isolation of a read.
type Isolation int8

const (
	ReadUncommitted Isolation = 0 // up to the high watermark
	ReadCommitted   Isolation = 1 // up to the last stable offset
	ReadAll         Isolation = 2 // up to the log end: the broker's own state at load
)

// ReadOpts of Read.
type ReadOpts struct {
	MaxBytes  int
	MinOne    bool // return the first batch even if it is larger than MaxBytes
	Isolation Isolation
}

// Aborted is an aborted transaction: the producer's data from First on, up to its abort marker, is not to be shown.
type Aborted struct {
	ProducerID int64
	First      int64
}

// Read finds whole batches from the one that holds offset from, as pinned file
// ranges: no bytes are read yet. An empty Slice means there is nothing (yet).
// Release the Slice, always. Errors: *batch.Error of OffsetOutOfRange outside
// [log start, limit of the isolation], CorruptMessage inside a damaged range,
// StorageError offline.
func (p *Partition) Read(from int64, o ReadOpts) (Slice, error) { panic("soon") }

// Slice is a piece of a partition's log, pinned until Release.
type Slice struct {
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	Aborted       []Aborted // ReadCommitted: those that touch the slice, by First
}

// Len is the number of bytes.
func (s *Slice) Len() int { panic("soon") }

// WriteTo copies the bytes to w through a pooled buffer.
func (s *Slice) WriteTo(w io.Writer) (int64, error) { panic("soon") }

// ReadAt reads the bytes like a file of Len bytes.
func (s *Slice) ReadAt(b []byte, off int64) (int, error) { panic("soon") }

// Release unpins the files. Calling it again does nothing.
func (s *Slice) Release() { panic("soon") }

// Replay calls f for every batch in [from, log end) in order, whole and checked,
// through one buffer that is reused: f copies what it keeps. For coordinators
// and the catalogue, which load their state before they serve.
func (p *Partition) Replay(from int64, f func(batch.View) error) error { panic("soon") }

func (p *Partition) LogStart() int64      { panic("soon") } // first offset that can be read
func (p *Partition) HighWatermark() int64 { panic("soon") } // durable by the fsync mode; consumers read below it
func (p *Partition) LastStable() int64    { panic("soon") }
func (p *Partition) End() int64           { panic("soon") } // log end: the next offset to be written
func (p *Partition) LeaderEpoch() int32   { panic("soon") }
func (p *Partition) Size() int64          { panic("soon") } // bytes of all segments

// TimeOffset is a record's place in time.
type TimeOffset struct {
	Offset      int64
	Timestamp   int64
	LeaderEpoch int32
}

// OffsetForTime finds the first record below the isolation's limit with a
// timestamp of at least ms; ok is false if there is none.
func (p *Partition) OffsetForTime(ms int64, iso Isolation) (t TimeOffset, ok bool, err error) {
	panic("soon")
}

// MaxTimestamp finds the record with the largest timestamp; the first of equals.
func (p *Partition) MaxTimestamp(iso Isolation) (t TimeOffset, ok bool, err error) { panic("soon") }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch that is not
// above the asked one and the offset where it ended; -1, -1 if unknown.
func (p *Partition) EndOffsetForEpoch(epoch int32) (int32, int64) { panic("soon") }

// DeleteRecordsTo moves the log start to offset (-1: the high watermark) and
// returns the new log start when it is durable. *batch.Error of OffsetOutOfRange above the high watermark.
func (p *Partition) DeleteRecordsTo(offset int64) (int64, error) { panic("soon") }

// Waiter is woken by partitions it is subscribed to.
type Waiter struct{ C chan struct{} }

// NewWaiter makes a waiter; receive from C, which holds one pending wake-up.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// Subscribe wakes w whenever the high watermark, the last stable offset or the
// log start moves, and when the partition goes away. Check once after subscribing.
func (p *Partition) Subscribe(w *Waiter) { panic("soon") }

// Unsubscribe ends Subscribe.
func (p *Partition) Unsubscribe(w *Waiter) { panic("soon") }

// ProducerInfo describes one producer for DescribeProducers.
type ProducerInfo struct {
	ID               int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	TxnFirst         int64 // first offset of the open transaction, -1 none
}

// Producers lists the producers the partition knows, by id.
func (p *Partition) Producers() []ProducerInfo { panic("soon") }
