package store

import (
	"fmt"
	"log/slog"
	"time"

	"millrace/log/internal/batch"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the partition's directory name.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Fsync says when acks=all may be answered.
type Fsync int

const (
	FsyncGroup    Fsync = iota // after fdatasync, shared by all who wait
	FsyncInterval              // after the write; synced every Options.FsyncInterval
	FsyncNever                 // after the write; the kernel writes back when it likes. For tests
)

func (f Fsync) String() string { return [...]string{"group", "interval", "never"}[f] }

// Options of a Store. The zero value is useful.
type Options struct {
	Fsync          Fsync
	FsyncInterval  time.Duration    // of FsyncInterval; default 1s
	MaxOpenFiles   int              // segment files kept open; default 512
	MaxSyncs       int              // fdatasync calls in flight, and partitions recovered at once (at most 4); default 16
	Logger         *slog.Logger     // default: discards
	MinFree        int64            // bytes; below it client topics are refused; default min(1 GiB, 5 % of the disk), negative: none
	Ballast        int64            // bytes of .ballast; default 64 MiB, negative: none
	Maintain       time.Duration    // period of Maintain; default 30s, negative: Maintain and Checkpoint run only by call
	CompactRate    int64            // bytes a second that compaction reads; default 32 MiB, negative: no limit
	ScrubRate      int64            // bytes a second that the scrub reads in the background; 0: there is no scrub in the background
	ProducerExpiry time.Duration    // producer.id.expiration.ms; default 24h
	Process        string           // written into .lock for the message of who comes second: "pid 4711, listening on 127.0.0.1:9092"
	OnOffline      func(error)      // called once, on its own goroutine, when an I/O error takes the directory offline
	Now            func() time.Time // default time.Now
}

func (o Options) withDefaults() Options {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.FsyncInterval, time.Second)
	def(&o.Maintain, 30*time.Second)
	def(&o.ProducerExpiry, 24*time.Hour)
	if o.CompactRate == 0 {
		o.CompactRate = 32 << 20
	}
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = 512
	}
	if o.MaxSyncs <= 0 {
		o.MaxSyncs = 16
	}
	if o.Ballast == 0 {
		o.Ballast = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// PartitionConfig is what a topic's configuration means for one of its
// partitions. DefaultConfig has the defaults; the zero value is not valid.
type PartitionConfig struct {
	SegmentBytes     int64         // segment.bytes
	SegmentAge       time.Duration // segment.ms
	SegmentJitter    time.Duration // segment.jitter.ms: most that is taken off SegmentAge
	IndexBytes       int           // segment.index.bytes
	Preallocate      bool          // preallocate
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
func DefaultConfig() PartitionConfig {
	return PartitionConfig{
		SegmentBytes:     128 << 20,
		SegmentAge:       7 * 24 * time.Hour,
		IndexBytes:       10 << 20,
		IndexInterval:    4096,
		MaxMessageBytes:  16 << 20,
		RetentionTime:    7 * 24 * time.Hour,
		RetentionBytes:   -1,
		Delete:           true,
		TimestampBefore:  -1,
		TimestampAfter:   time.Hour,
		DeleteRetention:  24 * time.Hour,
		MinDirtyRatio:    0.5,
		MaxCompactionLag: -1,
	}
}

// Largest segment: positions and relative offsets are 31 bits in Kafka's readers.
const maxSegmentBytes = 1<<31 - 1

func (c PartitionConfig) normalised() *PartitionConfig {
	if c.SegmentBytes <= 0 || c.SegmentBytes > maxSegmentBytes {
		c.SegmentBytes = maxSegmentBytes
	}
	if c.SegmentAge <= 0 {
		c.SegmentAge = 1<<63 - 1
	}
	return &c
}

// CheckTopicName refuses what Kafka refuses, before a name becomes a path. The
// error's code is INVALID_TOPIC_EXCEPTION.
func CheckTopicName(topic string) error {
	bad := func(reason string) error {
		return &batch.Error{Code: batch.InvalidTopic, Reason: fmt.Sprintf("topic name %.260q %s", topic, reason)}
	}
	switch {
	case topic == "":
		return bad("is empty")
	case topic == "." || topic == "..":
		return bad("is reserved")
	case len(topic) > 249:
		return bad("has more than 249 characters")
	}
	for _, c := range []byte(topic) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return bad("has characters other than letters, digits, '.', '_' and '-'")
		}
	}
	return nil
}
