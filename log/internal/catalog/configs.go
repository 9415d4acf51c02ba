package catalog

import (
	"errors"
	"fmt"
	"math"
	"regexp"
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
	check         func(value) *refusal // beyond its kind; nil for none
	apply         func(c *store.PartitionConfig, v string)
}

const forever = "9223372036854775807"

// Configs lists every topic configuration of Kafka 4.4, by name.
var Configs = []Config{
	{"cleanup.policy", "log.cleanup.policy", List, "delete", "Whether old segments are deleted, compacted, or both.", each("compact", "delete"), func(c *store.PartitionConfig, v string) {
		c.Delete, c.Compact = has(v, "delete"), has(v, "compact")
	}},
	{"compression.gzip.level", "compression.gzip.level", Int, "-1", "Accepted; batches are kept as they were sent.", gzipLevel, nil},
	{"compression.lz4.level", "compression.lz4.level", Int, "9", "Accepted; batches are kept as they were sent.", between(1, 17), nil},
	{"compression.type", "compression.type", String, "producer", "Accepted; batches are kept as they were sent.", oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), nil},
	{"compression.zstd.level", "compression.zstd.level", Int, "3", "Accepted; batches are kept as they were sent.", between(-131072, 22), nil},
	{"delete.retention.ms", "log.cleaner.delete.retention.ms", Long, "86400000", "How long a delete marker stays in a compacted topic after the first pass that saw it.", atLeast(0), func(c *store.PartitionConfig, v string) { c.DeleteRetention = ms(v) }},
	{"errors.deadletterqueue.group.enable", "", Bool, "false", "Accepted; there are no share groups.", nil, nil},
	{"file.delete.delay.ms", "log.segment.delete.delay.ms", Long, "60000", "Accepted; files go when their last reader is done.", atLeast(0), nil},
	{"flush.messages", "log.flush.interval.messages", Long, forever, "Accepted; log.fsync decides when records are synced.", atLeast(1), nil},
	{"flush.ms", "log.flush.interval.ms", Long, forever, "Accepted; log.fsync decides when records are synced.", atLeast(0), nil},
	{"follower.replication.throttled.replicas", "", List, "", "Accepted; there are no replicas.", throttled("follower"), nil},
	{"index.interval.bytes", "log.index.interval.bytes", Int, "4096", "Bytes of log per entry of the offset index.", atLeast(0), func(c *store.PartitionConfig, v string) { c.IndexInterval = int(num(v)) }},
	{"leader.replication.throttled.replicas", "", List, "", "Accepted; there are no replicas.", throttled("leader"), nil},
	{"local.retention.bytes", "log.local.retention.bytes", Long, "-2", "Accepted; there is no remote storage.", atLeast(-2), nil},
	{"local.retention.ms", "log.local.retention.ms", Long, "-2", "Accepted; there is no remote storage.", atLeast(-2), nil},
	{"max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", Long, forever, "Longest time a record may stay uncompacted.", atLeast(1), func(c *store.PartitionConfig, v string) { c.MaxCompactionLag = limit(v) }},
	{"max.decompressed.message.bytes", "max.decompressed.message.bytes", Int, "2147483639", "Accepted; what a batch may unpack to has a limit of its own.", between(1, 2147483639), nil},
	{"max.message.bytes", "message.max.bytes", Int, "16777216", "Largest batch that is taken.", atLeast(0), func(c *store.PartitionConfig, v string) { c.MaxMessageBytes = int(num(v)) }},
	{"message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", Long, "3600000", "How far a record's timestamp may lie in the future.", atLeast(0), func(c *store.PartitionConfig, v string) { c.TimestampAfter = limit(v) }},
	{"message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", Long, forever, "How far a record's timestamp may lie in the past.", atLeast(0), func(c *store.PartitionConfig, v string) { c.TimestampBefore = limit(v) }},
	{"message.timestamp.type", "log.message.timestamp.type", String, "CreateTime", "Whose clock stamps records.", oneOf("CreateTime", "LogAppendTime"), func(c *store.PartitionConfig, v string) { c.LogAppendTime = v == "LogAppendTime" }},
	{"min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Double, "0.5", "Share of uncompacted bytes at which compaction starts.", ratio, func(c *store.PartitionConfig, v string) {
		c.MinDirtyRatio, _ = strconv.ParseFloat(v, 64)
	}},
	{"min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", Long, "0", "Shortest time a record stays uncompacted.", atLeast(0), func(c *store.PartitionConfig, v string) { c.MinCompactionLag = ms(v) }},
	{"min.insync.replicas", "min.insync.replicas", Int, "1", "Accepted; there is one replica, and it syncs before it acknowledges.", atLeast(1), nil},
	{"preallocate", "log.preallocate", Bool, "false", "Whether a segment's whole space is set aside when it begins. Some is always set aside ahead of what is written.", nil, func(c *store.PartitionConfig, v string) { c.Preallocate = strings.EqualFold(v, "true") }},
	{"remote.copy.lag.bytes", "log.remote.copy.lag.bytes", Long, "-1", "Accepted; there is no remote storage.", atLeast(-1), nil},
	{"remote.copy.lag.ms", "log.remote.copy.lag.ms", Long, "0", "Accepted; there is no remote storage.", atLeast(-1), nil},
	{"remote.log.copy.disable", "", Bool, "false", "Accepted; there is no remote storage.", nil, nil},
	{"remote.log.delete.on.disable", "", Bool, "false", "Accepted; there is no remote storage.", nil, nil},
	{"remote.storage.enable", "", Bool, "false", "There is no remote storage: only false is taken.", noRemote, nil},
	{"retention.bytes", "log.retention.bytes", Long, "-1", "Size of a partition beyond which old segments are deleted; -1 for no limit.", nil, func(c *store.PartitionConfig, v string) { c.RetentionBytes = num(v) }},
	{"retention.ms", "log.retention.ms", Long, "604800000", "Age beyond which old segments are deleted; -1 for no limit.", atLeast(-1), func(c *store.PartitionConfig, v string) { c.RetentionTime = limit(v) }},
	{"segment.bytes", "log.segment.bytes", Int, "134217728", "Size at which a new segment file begins.", atLeast(1 << 10), func(c *store.PartitionConfig, v string) { c.SegmentBytes = num(v) }},
	{"segment.index.bytes", "log.index.size.max.bytes", Int, "10485760", "Size of the offset index at which a new segment file begins.", atLeast(4), func(c *store.PartitionConfig, v string) { c.IndexBytes = int(num(v)) }},
	{"segment.jitter.ms", "log.roll.jitter.ms", Long, "0", "Most that is taken off segment.ms, at random, so that segments do not begin all at once.", atLeast(0), func(c *store.PartitionConfig, v string) { c.SegmentJitter = ms(v) }},
	{"segment.ms", "log.roll.ms", Long, "604800000", "Age at which a new segment file begins.", atLeast(1), func(c *store.PartitionConfig, v string) { c.SegmentAge = ms(v) }},
	{"unclean.leader.election.enable", "unclean.leader.election.enable", Bool, "false", "Accepted; there are no elections.", nil, nil},
}

// FindConfig returns the declaration of a topic configuration, nil if there is none.
func FindConfig(name string) *Config {
	i, ok := slices.BinarySearchFunc(Configs, name, func(c Config, n string) int { return strings.Compare(c.Name, n) })
	if !ok {
		return nil
	}
	return &Configs[i]
}

// CheckConfig refuses unknown names, what is not of a configuration's kind, and values out of range, in Kafka's words: tools and
// people look for them.
func CheckConfig(name, text string) error {
	c := FindConfig(name)
	if c == nil {
		return fmt.Errorf("Unknown topic config name: %s", name)
	}
	return c.Check(text)
}

// Check refuses what is not of the configuration's kind, and values out of range.
func (c *Config) Check(text string) error {
	v, r := parse(c.Kind, text)
	if r == nil && c.check != nil {
		r = c.check(v)
	}
	switch {
	case r == nil:
	case r.shown == "" && r.reason == noTiers:
		return errors.New(noTiers)
	default:
		return fmt.Errorf("Invalid value %s for configuration %s: %s", r.shown, c.Name, r.reason)
	}
	return nil
}

// value is a configuration's value after its kind was parsed.
type value struct {
	text   string // trimmed
	number int64
	double float64
	list   []string
}

// refusal is why a value is not taken; shown is the value as Kafka prints it.
type refusal struct{ shown, reason string }

func parse(k Kind, text string) (v value, r *refusal) {
	v.text = strings.TrimSpace(text)
	var err error
	switch k {
	case Bool:
		if !strings.EqualFold(v.text, "true") && !strings.EqualFold(v.text, "false") {
			return v, &refusal{text, "Expected value to be either true or false"}
		}
	case Int:
		if v.number, err = strconv.ParseInt(v.text, 10, 32); err != nil {
			return v, &refusal{text, "Not a number of type INT"}
		}
	case Long:
		if v.number, err = strconv.ParseInt(v.text, 10, 64); err != nil {
			return v, &refusal{text, "Not a number of type LONG"}
		}
	case Double:
		if v.double, err = strconv.ParseFloat(v.text, 64); err != nil || math.IsNaN(v.double) {
			return v, &refusal{text, "Not a number of type DOUBLE"}
		}
	case List:
		if v.text != "" {
			for e := range strings.SplitSeq(v.text, ",") {
				v.list = append(v.list, strings.TrimSpace(e))
			}
		}
	}
	return v, nil
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
		c.apply(&pc, strings.TrimSpace(v))
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

func atLeast(lo int64) func(value) *refusal {
	return func(v value) *refusal {
		if v.number < lo {
			return &refusal{strconv.FormatInt(v.number, 10), fmt.Sprintf("Value must be at least %d", lo)}
		}
		return nil
	}
}

func between(lo, hi int64) func(value) *refusal {
	return func(v value) *refusal {
		if v.number > hi {
			return &refusal{strconv.FormatInt(v.number, 10), fmt.Sprintf("Value must be no more than %d", hi)}
		}
		return atLeast(lo)(v)
	}
}

const noTiers = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."

func noRemote(v value) *refusal {
	if strings.EqualFold(v.text, "true") {
		return &refusal{"", noTiers}
	}
	return nil
}

func gzipLevel(v value) *refusal {
	if v.number != -1 && (v.number < 1 || v.number > 9) {
		return &refusal{strconv.FormatInt(v.number, 10), "Value must be between 1 and 9 or equal to -1"}
	}
	return nil
}

func ratio(v value) *refusal {
	switch {
	case v.double < 0:
		return &refusal{javaDouble(v.double), "Value must be at least 0"}
	case v.double > 1:
		return &refusal{javaDouble(v.double), "Value must be no more than 1"}
	}
	return nil
}

// javaDouble is a number as Java prints it.
func javaDouble(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-3 || a >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		sign := ""
		if exponent[0] == '-' {
			sign = "-"
		}
		return mantissa + "E" + sign + strings.TrimLeft(exponent, "+-0")
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func oneOf(valid ...string) func(value) *refusal {
	return func(v value) *refusal {
		if !slices.Contains(valid, v.text) {
			return &refusal{v.text, "String must be one of: " + strings.Join(valid, ", ")}
		}
		return nil
	}
}

// each is oneOf for every element of a list.
func each(valid ...string) func(value) *refusal {
	return func(v value) *refusal {
		for _, e := range v.list {
			if r := oneOf(valid...)(value{text: e}); r != nil {
				return r
			}
		}
		return nil
	}
}

var replicaPairs = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

func throttled(whose string) func(value) *refusal {
	return func(v value) *refusal {
		if len(v.list) == 1 && v.list[0] == "*" {
			return nil
		}
		for _, e := range v.list {
			if !replicaPairs.MatchString(e) {
				name := whose + ".replication.throttled.replicas"
				return &refusal{"[" + strings.Join(v.list, ", ") + "]", name + " must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."}
			}
		}
		return nil
	}
}
