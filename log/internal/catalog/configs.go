package catalog

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/log/internal/store"
)

// Kind is a configuration's type, with the protocol's numbers.
type Kind int8

// The kinds that topic configurations have.
const (
	Bool   Kind = 1
	String Kind = 2
	Int    Kind = 3
	Long   Kind = 5
	Double Kind = 6
	List   Kind = 7
)

// Config declares one topic configuration: name, kind, default, the broker-wide name that Kafka
// gives the default, what values it takes, and what it does to a partition. Those without apply are
// stored and reported, and mean nothing on one node without replicas.
type Config struct {
	Name, Synonym string
	Kind          Kind
	Default       string
	Doc           string
	check         func(string) error
	apply         func(c *store.PartitionConfig, v string)
}

const forever = "9223372036854775807"

// Configs lists every topic configuration of Kafka 4.4, by name.
var Configs = []Config{
	{"cleanup.policy", "log.cleanup.policy", List, "delete", "Whether old segments are deleted, compacted, or both.", subset("delete", "compact"), func(c *store.PartitionConfig, v string) {
		c.Delete, c.Compact = has(v, "delete"), has(v, "compact")
	}},
	{"compression.gzip.level", "compression.gzip.level", Int, "-1", "Accepted; batches are kept as they were sent.", between(-1, 9), nil},
	{"compression.lz4.level", "compression.lz4.level", Int, "9", "Accepted; batches are kept as they were sent.", between(1, 17), nil},
	{"compression.type", "compression.type", String, "producer", "Accepted; batches are kept as they were sent.", oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), nil},
	{"compression.zstd.level", "compression.zstd.level", Int, "3", "Accepted; batches are kept as they were sent.", between(-131072, 22), nil},
	{"delete.retention.ms", "log.cleaner.delete.retention.ms", Long, "86400000", "How long a delete marker stays in a compacted topic after the first pass that saw it.", between(0, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.DeleteRetention = ms(v) }},
	{"errors.deadletterqueue.group.enable", "", Bool, "false", "Accepted; there are no share groups.", boolean, nil},
	{"file.delete.delay.ms", "log.segment.delete.delay.ms", Long, "60000", "Accepted; files go when their last reader is done.", between(0, math.MaxInt64), nil},
	{"flush.messages", "log.flush.interval.messages", Long, forever, "Accepted; log.fsync decides when records are synced.", between(1, math.MaxInt64), nil},
	{"flush.ms", "log.flush.interval.ms", Long, forever, "Accepted; log.fsync decides when records are synced.", between(0, math.MaxInt64), nil},
	{"follower.replication.throttled.replicas", "", List, "", "Accepted; there are no replicas.", nil, nil},
	{"index.interval.bytes", "log.index.interval.bytes", Int, "4096", "Bytes of log per entry of the offset index.", between(0, math.MaxInt32), func(c *store.PartitionConfig, v string) { c.IndexInterval = int(num(v)) }},
	{"leader.replication.throttled.replicas", "", List, "", "Accepted; there are no replicas.", nil, nil},
	{"local.retention.bytes", "log.local.retention.bytes", Long, "-2", "Accepted; there is no remote storage.", between(-2, math.MaxInt64), nil},
	{"local.retention.ms", "log.local.retention.ms", Long, "-2", "Accepted; there is no remote storage.", between(-2, math.MaxInt64), nil},
	{"max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", Long, forever, "Longest time a record may stay uncompacted.", between(1, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.MaxCompactionLag = limit(v) }},
	{"max.decompressed.message.bytes", "max.decompressed.message.bytes", Int, "2147483639", "Accepted; what a batch may unpack to has a limit of its own.", between(0, math.MaxInt32), nil},
	{"max.message.bytes", "message.max.bytes", Int, "16777216", "Largest batch that is taken.", between(0, math.MaxInt32), func(c *store.PartitionConfig, v string) { c.MaxMessageBytes = int(num(v)) }},
	{"message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", Long, "3600000", "How far a record's timestamp may lie in the future.", between(0, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.TimestampAfter = limit(v) }},
	{"message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", Long, forever, "How far a record's timestamp may lie in the past.", between(0, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.TimestampBefore = limit(v) }},
	{"message.timestamp.type", "log.message.timestamp.type", String, "CreateTime", "Whose clock stamps records.", oneOf("CreateTime", "LogAppendTime"), func(c *store.PartitionConfig, v string) { c.LogAppendTime = v == "LogAppendTime" }},
	{"min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Double, "0.5", "Share of uncompacted bytes at which compaction starts.", ratio, func(c *store.PartitionConfig, v string) {
		c.MinDirtyRatio, _ = strconv.ParseFloat(v, 64)
	}},
	{"min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", Long, "0", "Shortest time a record stays uncompacted.", between(0, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.MinCompactionLag = ms(v) }},
	{"min.insync.replicas", "min.insync.replicas", Int, "1", "Accepted; there is one replica, and it syncs before it acknowledges.", between(1, math.MaxInt32), nil},
	{"preallocate", "log.preallocate", Bool, "false", "Accepted; space is always reserved ahead.", boolean, nil},
	{"remote.copy.lag.bytes", "log.remote.copy.lag.bytes", Long, "-1", "Accepted; there is no remote storage.", between(-2, math.MaxInt64), nil},
	{"remote.copy.lag.ms", "log.remote.copy.lag.ms", Long, "0", "Accepted; there is no remote storage.", between(-2, math.MaxInt64), nil},
	{"remote.log.copy.disable", "", Bool, "false", "Accepted; there is no remote storage.", boolean, nil},
	{"remote.log.delete.on.disable", "", Bool, "false", "Accepted; there is no remote storage.", boolean, nil},
	{"remote.storage.enable", "", Bool, "false", "Accepted; there is no remote storage.", boolean, nil},
	{"retention.bytes", "log.retention.bytes", Long, "-1", "Size of a partition beyond which old segments are deleted; -1 for no limit.", between(-1, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.RetentionBytes = num(v) }},
	{"retention.ms", "log.retention.ms", Long, "604800000", "Age beyond which old segments are deleted; -1 for no limit.", between(-1, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.RetentionTime = limit(v) }},
	{"segment.bytes", "log.segment.bytes", Int, "134217728", "Size at which a new segment file begins.", between(1<<10, math.MaxInt32), func(c *store.PartitionConfig, v string) { c.SegmentBytes = num(v) }},
	{"segment.index.bytes", "log.index.size.max.bytes", Int, "10485760", "Accepted; indexes grow with their segment.", between(4, math.MaxInt32), nil},
	{"segment.jitter.ms", "log.roll.jitter.ms", Long, "0", "Accepted; segments begin independently of each other.", between(0, math.MaxInt64), nil},
	{"segment.ms", "log.roll.ms", Long, "604800000", "Age at which a new segment file begins.", between(1, math.MaxInt64), func(c *store.PartitionConfig, v string) { c.SegmentAge = ms(v) }},
	{"unclean.leader.election.enable", "unclean.leader.election.enable", Bool, "false", "Accepted; there are no elections.", boolean, nil},
}

// FindConfig returns the declaration of a topic configuration, nil if there is none.
func FindConfig(name string) *Config {
	i, ok := slices.BinarySearchFunc(Configs, name, func(c Config, n string) int { return strings.Compare(c.Name, n) })
	if !ok {
		return nil
	}
	return &Configs[i]
}

// CheckConfig refuses unknown names and values out of range, naming both.
func CheckConfig(name, value string) error {
	c := FindConfig(name)
	if c == nil {
		return fmt.Errorf("unknown topic config name: %s", name)
	}
	if c.check == nil {
		return nil
	}
	if err := c.check(value); err != nil {
		return fmt.Errorf("invalid value %s for configuration %s: %w", value, name, err)
	}
	return nil
}

// partitionConfig is what checked configurations mean. Those that are absent have the defaults,
// which defaults may override.
func partitionConfig(topic string, defaults, configs map[string]string) store.PartitionConfig {
	pc := store.DefaultConfig()
	for _, c := range Configs {
		if c.apply == nil {
			continue
		}
		v, ok := configs[c.Name]
		if !ok {
			v, ok = defaults[c.Name]
		}
		if !ok {
			v = c.Default
		}
		c.apply(&pc, v)
	}
	pc.Internal = IsInternal(topic)
	return pc
}

// IsInternal reports whether a topic is written by the broker itself.
func IsInternal(topic string) bool {
	return topic == "__consumer_offsets" || topic == "__transaction_state" || topic == MetaTopic
}

func num(v string) int64 {
	n, _ := strconv.ParseInt(v, 10, 64) // checked before
	return n
}

// ms reads milliseconds. What lies beyond a century is one: sums with it must not overflow.
func ms(v string) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return time.Duration(min(num(v), century.Milliseconds())) * time.Millisecond
}

// limit reads milliseconds where a negative or an endless value means that there is no limit.
func limit(v string) time.Duration {
	if n := num(v); n < 0 || n > int64(math.MaxInt64/time.Millisecond) {
		return -1
	}
	return ms(v)
}

func has(list, v string) bool {
	for _, e := range strings.Split(list, ",") {
		if strings.TrimSpace(e) == v {
			return true
		}
	}
	return false
}

func between(lo, hi int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			return fmt.Errorf("not a number")
		}
		if n < lo || n > hi {
			return fmt.Errorf("must be from %d to %d", lo, hi)
		}
		return nil
	}
}

func ratio(v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("must be a number from 0 to 1")
	}
	return nil
}

func boolean(v string) error { return oneOf("true", "false")(strings.ToLower(v)) }

func oneOf(valid ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(valid, v) {
			return fmt.Errorf("must be one of %s", strings.Join(valid, ", "))
		}
		return nil
	}
}

func subset(valid ...string) func(string) error {
	return func(v string) error {
		if strings.TrimSpace(v) == "" {
			return nil // neither: nothing is ever removed
		}
		for _, e := range strings.Split(v, ",") {
			if err := oneOf(valid...)(strings.TrimSpace(e)); err != nil {
				return err
			}
		}
		return nil
	}
}
