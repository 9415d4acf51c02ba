package runtime

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/schema/config"
)

// ClientKind is which of a connector's clients a setting is for.
type ClientKind string

// The kinds of clients, as the beginnings of their settings' names.
const (
	Producer ClientKind = "producer"
	Consumer ClientKind = "consumer"
)

// A ClientConfig is what Java client settings say, in our client's terms.
type ClientConfig struct {
	Options []kgo.Opt
	// AutoOffsetReset and Group are settings that the consumer's owner needs to know; ""
	// where not given.
	AutoOffsetReset, Group, ClientID string
	Notices                          []string // settings that are ignored, with reasons
}

// clientKey is how one Java client setting is understood. A nil apply says that it is
// ignored for the reason given.
type clientKey struct {
	kinds  []ClientKind
	apply  func(c *ClientConfig, value string) error
	reason string
}

var both = []ClientKind{Producer, Consumer}

// clientKeys maps Java's client settings. What is not here is ignored with a notice.
var clientKeys = map[string]clientKey{
	"client.id":               {kinds: both, apply: func(c *ClientConfig, v string) error { c.ClientID = v; return nil }},
	"client.rack":             {kinds: []ClientKind{Consumer}, apply: func(c *ClientConfig, v string) error { c.add(kgo.Rack(v)); return nil }},
	"request.timeout.ms":      {kinds: both, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.RequestTimeoutOverhead(d)) })},
	"metadata.max.age.ms":     {kinds: both, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.MetadataMaxAge(max(d, 10*time.Millisecond))) })},
	"connections.max.idle.ms": {kinds: both, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.ConnIdleTimeout(d)) })},

	"linger.ms":        {kinds: []ClientKind{Producer}, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.ProducerLinger(d)) })},
	"compression.type": {kinds: []ClientKind{Producer}, apply: compression},
	"max.request.size": {kinds: []ClientKind{Producer}, reason: "the size of a batch follows the topic's max.message.bytes"},
	"batch.size":       {kinds: []ClientKind{Producer}, reason: "the size of a batch follows what waits"},
	"acks": {kinds: []ClientKind{Producer}, apply: func(c *ClientConfig, v string) error {
		if v == "all" || v == "-1" {
			return nil
		}
		if v != "0" && v != "1" {
			return fmt.Errorf("String must be one of: all, -1, 0, 1")
		}
		c.Notices = append(c.Notices, "acks="+v+" is ignored: offsets follow acknowledgements of all replicas")
		return nil
	}},
	"enable.idempotence":                    {kinds: []ClientKind{Producer}, reason: "producers are always idempotent"},
	"max.in.flight.requests.per.connection": {kinds: []ClientKind{Producer}, reason: "producers are idempotent and keep the order"},
	"retries":                               {kinds: []ClientKind{Producer}, reason: "writes are tried again until they succeed"},
	"delivery.timeout.ms":                   {kinds: []ClientKind{Producer}, reason: "writes are tried again until they succeed"},
	"max.block.ms":                          {kinds: []ClientKind{Producer}, reason: "a full producer holds the source back"},
	"buffer.memory":                         {kinds: []ClientKind{Producer}, reason: "8 MiB are on their way at most"},

	"group.id":                      {kinds: []ClientKind{Consumer}, apply: func(c *ClientConfig, v string) error { c.Group = v; return nonEmpty(v) }},
	"group.instance.id":             {kinds: []ClientKind{Consumer}, reason: "tasks of one connector would share it"},
	"auto.offset.reset":             {kinds: []ClientKind{Consumer}, apply: offsetReset},
	"session.timeout.ms":            {kinds: []ClientKind{Consumer}, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.SessionTimeout(d)) })},
	"heartbeat.interval.ms":         {kinds: []ClientKind{Consumer}, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.HeartbeatInterval(d)) })},
	"max.poll.interval.ms":          {kinds: []ClientKind{Consumer}, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.RebalanceTimeout(d)) })},
	"fetch.min.bytes":               {kinds: []ClientKind{Consumer}, apply: bytesOf(func(c *ClientConfig, n int32) { c.add(kgo.FetchMinBytes(n)) })},
	"fetch.max.bytes":               {kinds: []ClientKind{Consumer}, apply: bytesOf(func(c *ClientConfig, n int32) { c.add(kgo.FetchMaxBytes(n)) })},
	"max.partition.fetch.bytes":     {kinds: []ClientKind{Consumer}, apply: bytesOf(func(c *ClientConfig, n int32) { c.add(kgo.FetchMaxPartitionBytes(n)) })},
	"fetch.max.wait.ms":             {kinds: []ClientKind{Consumer}, apply: millis(func(c *ClientConfig, d time.Duration) { c.add(kgo.FetchMaxWait(max(d, 10*time.Millisecond))) })},
	"isolation.level":               {kinds: []ClientKind{Consumer}, apply: isolation},
	"max.poll.records":              {kinds: []ClientKind{Consumer}, reason: "a batch has 2000 records at most"},
	"enable.auto.commit":            {kinds: []ClientKind{Consumer}, reason: "what the sink has written is committed"},
	"partition.assignment.strategy": {kinds: []ClientKind{Consumer}, reason: "range and cooperative-sticky are offered"},
}

func (c *ClientConfig) add(o kgo.Opt) { c.Options = append(c.Options, o) }

func millis(apply func(*ClientConfig, time.Duration)) func(*ClientConfig, string) error {
	return func(c *ClientConfig, v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return fmt.Errorf("Not a number of type INT")
		}
		if n < 0 {
			return fmt.Errorf("Value must be at least 0")
		}
		apply(c, time.Duration(n)*time.Millisecond)
		return nil
	}
}

func bytesOf(apply func(*ClientConfig, int32)) func(*ClientConfig, string) error {
	return func(c *ClientConfig, v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return fmt.Errorf("Not a number of type INT")
		}
		if n < 1 {
			return fmt.Errorf("Value must be at least 1")
		}
		apply(c, int32(n))
		return nil
	}
}

func nonEmpty(v string) error {
	if v == "" {
		return fmt.Errorf("String must be non-empty")
	}
	return nil
}

func compression(c *ClientConfig, v string) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[strings.ToLower(v)]
	if !ok {
		return fmt.Errorf("String must be one of: none, gzip, snappy, lz4, zstd")
	}
	c.add(kgo.ProducerBatchCompression(codec))
	return nil
}

func isolation(c *ClientConfig, v string) error {
	switch v {
	case "read_committed":
		c.add(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	case "read_uncommitted":
		c.add(kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	default:
		return fmt.Errorf("String must be one of: read_committed, read_uncommitted")
	}
	return nil
}

func offsetReset(c *ClientConfig, v string) error {
	if !slices.Contains([]string{"earliest", "latest", "none"}, v) {
		return fmt.Errorf("Invalid value `%s`: must be earliest, latest or none", v)
	}
	c.AutoOffsetReset = v
	return nil
}

// secretSetting reports whether a client setting may hold a secret.
func secretSetting(name string) bool {
	for _, part := range []string{"password", "jaas", "secret", ".key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// principalKeys are what the override policy Principal lets through.
var principalKeys = []string{"security.protocol", "sasl.jaas.config", "sasl.mechanism"}

// ClientOverrides reads a connector's overrides for its clients of a kind over the
// worker's own settings for them ("producer.linger.ms"), and reports every wrong one.
func (c WorkerConfig) ClientOverrides(kind ClientKind, connector map[string]string) (ClientConfig, []*config.Error) {
	var out ClientConfig
	var errs []*config.Error
	read := func(from map[string]string, prefix string, ours bool) {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			name, ok := strings.CutPrefix(key, prefix)
			if !ok || (ours && strings.HasPrefix(name, "override.")) {
				continue
			}
			fail := func(err error) {
				value := from[key]
				if secretSetting(name) {
					value = config.Hidden
				}
				errs = append(errs, &config.Error{Key: key, Value: value, Reason: err.Error()})
			}
			if !ours && (c.OverridePolicy == "None" || c.OverridePolicy == "Principal" && !slices.Contains(principalKeys, name)) {
				fail(fmt.Errorf("The '%s' policy does not allow '%s' to be overridden in the connector configuration.", c.OverridePolicy, name))
				continue
			}
			k, known := clientKeys[name]
			switch {
			case name == "bootstrap.servers" || name == "security.protocol" || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "ssl."):
				if !ours {
					fail(fmt.Errorf("a connector cannot have a cluster or an identity of its own yet: remove it, or run the connector on a worker of that cluster"))
				}
			case !known:
				out.Notices = append(out.Notices, key+" is ignored: our client has no such setting")
			case k.apply == nil || !slices.Contains(k.kinds, kind):
				reason := k.reason
				if reason == "" {
					reason = "it is no setting of a " + string(kind)
				}
				out.Notices = append(out.Notices, key+" is ignored: "+reason)
			default:
				if err := k.apply(&out, strings.TrimSpace(from[key])); err != nil {
					fail(err)
				}
			}
		}
	}
	read(c.Properties, string(kind)+".", true)
	read(connector, string(kind)+".override.", false)
	return out, errs
}
