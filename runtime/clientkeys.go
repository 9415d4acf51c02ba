package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/schema/config"
)

// A clientSetting is one setting of Java's clients: for which of them it is, and what it does here. One
// without apply has no effect, for the reason given.
type clientSetting struct {
	kinds  []ClientKind
	field  config.Field
	name   string
	apply  func(c *ClientConfig, v config.Values)
	reason string
}

func used[T config.Value](kinds []ClientKind, k config.Key[T], apply func(c *ClientConfig, x T)) clientSetting {
	return clientSetting{kinds: kinds, field: k, name: k.Name, apply: func(c *ClientConfig, v config.Values) { apply(c, k.Get(v)) }}
}

// unused is a setting that is read, so that a wrong value is told, and has no effect.
func unused[T config.Value](kinds []ClientKind, k config.Key[T], reason string) clientSetting {
	k.Doc = "Has no effect: " + reason + "."
	return clientSetting{kinds: kinds, field: k, name: k.Name, reason: reason}
}

var (
	anyClient    = []ClientKind{Producer, Consumer, Admin}
	producerOnly = []ClientKind{Producer}
	consumerOnly = []ClientKind{Consumer}
)

// Reasons that several settings share.
const (
	noClasses  = "Java classes cannot be loaded"
	noJVM      = "it is the JVM's"
	ownMetrics = "the worker's own metrics tell of its clients"
	ownRetries = "writes are tried again until they succeed"
)

// MaxInFlight is how many bytes a source task has on their way to the log, and so in its client's requests. They keep a disk busy
// that needs 10 ms for a sync at 200 MB/s, which is more than a task encodes; why not more says DESIGN.md.
const MaxInFlight = 2 << 20

// RejoinTimeout is how long a consumer group waits for a sink's task that is at work when a rebalance begins, as with Java's consumer. Our
// client's own default is a minute, and a task may be writing for longer.
const RejoinTimeout = 5 * time.Minute

// Pauses between the tries of a request, where settings say nothing: our client's own.
const (
	firstBackoff = 250 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

var ownBound = fmt.Sprintf("%d MiB are on their way at most", MaxInFlight>>20)

// clientSettings are the settings of Java's clients, with Java's types, defaults and checks. What is
// not here is no setting of theirs, and is ignored with a notice.
var clientSettings = []clientSetting{
	// Of every client.
	used(anyClient, config.Key[string]{Name: "client.id", Doc: "Name that the client tells the brokers.", EmptyDefault: true, Check: atMost(256)}, func(c *ClientConfig, v string) { c.ClientID = v }),
	used(anyClient, config.Key[time.Duration]{Name: "request.timeout.ms", Doc: "Time that a broker has for an answer beyond what the request itself allows.", As: config.IntType, Default: 10 * time.Second, Check: config.AtLeast(time.Duration(0))},
		func(c *ClientConfig, d time.Duration) {
			c.add(kgo.RequestTimeoutOverhead(c.within("request.timeout.ms", d, 100*time.Millisecond, 15*time.Minute)))
		}),
	used(anyClient, config.Key[time.Duration]{Name: "connections.max.idle.ms", Doc: "Time after which an idle connection is closed.", Default: 30 * time.Second},
		func(c *ClientConfig, d time.Duration) {
			if d < 0 {
				d = 15 * time.Minute // never, as far as the client goes
			}
			c.add(kgo.ConnIdleTimeout(c.within("connections.max.idle.ms", d, 100*time.Millisecond, 15*time.Minute)))
		}),
	used(anyClient, config.Key[time.Duration]{Name: "metadata.max.age.ms", Doc: "Time after which what is known of topics is asked for again; 5 s by default for a sink's consumer, which waits for new topics.", Default: 5 * time.Minute, Importance: config.Low, Check: config.AtLeast(time.Duration(0))},
		func(c *ClientConfig, d time.Duration) {
			c.add(kgo.MetadataMaxAge(c.within("metadata.max.age.ms", d, 5*time.Second, time.Hour)))
		}),
	used(anyClient, config.Key[time.Duration]{Name: "socket.connection.setup.timeout.ms", Doc: "Time in which a connection to a broker must come about.", Default: 10 * time.Second},
		func(c *ClientConfig, d time.Duration) { c.add(kgo.DialTimeout(max(d, time.Millisecond))) }),
	used(anyClient, config.Key[time.Duration]{Name: "retry.backoff.ms", Doc: "Pause before a request is tried again for the first time; it doubles up to retry.backoff.max.ms.", Default: firstBackoff, Importance: config.Low, Check: config.AtLeast(time.Duration(0))},
		func(c *ClientConfig, d time.Duration) { c.backoff.first = d }),
	used(anyClient, config.Key[time.Duration]{Name: "retry.backoff.max.ms", Doc: "Longest pause before a request is tried again.", Default: mostBackoff, Importance: config.Low, Check: config.AtLeast(time.Duration(0))},
		func(c *ClientConfig, d time.Duration) { c.backoff.most = d }),
	unused(anyClient, config.Key[time.Duration]{Name: "reconnect.backoff.ms", Default: 50 * time.Millisecond, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}, "connections are made again in the rhythm of retry.backoff.ms"),
	unused(anyClient, config.Key[time.Duration]{Name: "reconnect.backoff.max.ms", Default: time.Second, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}, "connections are made again in the rhythm of retry.backoff.ms"),
	unused(anyClient, config.Key[time.Duration]{Name: "socket.connection.setup.timeout.max.ms", Default: 30 * time.Second}, "socket.connection.setup.timeout.ms does not grow"),
	unused(anyClient, config.Key[time.Duration]{Name: "bootstrap.resolve.timeout.ms", Importance: config.High, Check: config.AtLeast(time.Duration(0))}, "names are looked up at each connection"),
	unused(anyClient, config.Key[string]{Name: "client.dns.lookup", Default: "use_all_dns_ips", Check: exactly("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")}, "every address of a name is tried"),
	unused(anyClient, config.Key[bool]{Name: "metadata.cluster.check.enable", Default: true, Importance: config.Low}, "the client does not ask for it"),
	unused(anyClient, config.Key[string]{Name: "metadata.recovery.strategy", Default: "rebootstrap", Importance: config.Low, Check: oneOfAnyCase("REBOOTSTRAP", "NONE")}, "a client whose brokers are all gone always goes back to the first addresses"),
	unused(anyClient, config.Key[time.Duration]{Name: "metadata.recovery.rebootstrap.trigger.ms", Default: 5 * time.Minute, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}, "a client whose brokers are all gone always goes back to the first addresses"),
	unused(anyClient, config.Key[int32]{Name: "receive.buffer.bytes", Default: 65536, Check: config.AtLeast[int32](-1)}, "the system sizes the buffers of connections"),
	unused(anyClient, config.Key[int32]{Name: "send.buffer.bytes", Default: 131072, Check: config.AtLeast[int32](-1)}, "the system sizes the buffers of connections"),
	unused(anyClient, config.Key[[]string]{Name: "metric.reporters", Default: []string{"org.apache.kafka.common.metrics.JmxReporter"}, Importance: config.Low}, ownMetrics),
	unused(anyClient, config.Key[int32]{Name: "metrics.num.samples", Default: 2, Importance: config.Low, Check: config.AtLeast[int32](1)}, ownMetrics),
	unused(anyClient, config.Key[string]{Name: "metrics.recording.level", Default: "INFO", Importance: config.Low, Check: exactly("INFO", "DEBUG", "TRACE")}, ownMetrics),
	unused(anyClient, config.Key[time.Duration]{Name: "metrics.sample.window.ms", Default: 30 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}, ownMetrics),
	unused(anyClient, config.Key[bool]{Name: "enable.metrics.push", Default: true, Importance: config.Low}, "the client sends nobody metrics"),
	unused(anyClient, config.Key[bool]{Name: "auto.include.jmx.reporter", Default: true, Importance: config.Low}, "there is no JMX"),
	unused(anyClient, config.Key[[]string]{Name: "config.providers", EmptyDefault: true, Importance: config.Low}, "variables are replaced by the worker's providers, before the client sees them"),
	unused(anyClient, config.Key[string]{Name: "security.providers", Importance: config.Low}, noJVM),
	unused([]ClientKind{Producer, Consumer}, config.Key[[]string]{Name: "interceptor.classes", EmptyDefault: true, Importance: config.Low}, noClasses),
	unused([]ClientKind{Admin, Consumer}, config.Key[time.Duration]{Name: "default.api.timeout.ms", As: config.IntType, Default: time.Minute, Check: config.AtLeast(time.Duration(0))}, "what asks sets its own limits"),
	unused([]ClientKind{Producer, Admin}, config.Key[int32]{Name: "retries", Default: 1<<31 - 1, Importance: config.High, Check: config.AtLeast[int32](0)}, ownRetries),
	unused([]ClientKind{Admin}, config.Key[[]string]{Name: "bootstrap.controllers", EmptyDefault: true, Importance: config.High}, "brokers are asked, not controllers"),

	// Of producers.
	used(producerOnly, config.Key[time.Duration]{Name: "linger.ms", Doc: "Time for which records wait for others to travel with them.", Check: config.AtLeast(time.Duration(0))},
		func(c *ClientConfig, d time.Duration) {
			c.add(kgo.ProducerLinger(c.within("linger.ms", d, 0, time.Minute)))
		}),
	used(producerOnly, config.Key[string]{Name: "compression.type", Doc: "Codec with which batches are compressed.", Default: "none", Importance: config.High, Check: exactly("none", "gzip", "snappy", "lz4", "zstd")}, func(c *ClientConfig, v string) { c.compression.codec = v }),
	used(producerOnly, config.Key[int32]{Name: "compression.gzip.level", Doc: "How hard gzip tries: 1 to 9, -1 for its default.", Default: -1, Check: orDefault(-1, 1, 9)}, func(c *ClientConfig, n int32) { c.compression.level("gzip", n) }),
	used(producerOnly, config.Key[int32]{Name: "compression.lz4.level", Doc: "How hard lz4 tries.", Default: 9, Check: config.Between[int32](1, 17)}, func(c *ClientConfig, n int32) { c.compression.level("lz4", n) }),
	used(producerOnly, config.Key[int32]{Name: "compression.zstd.level", Doc: "How hard zstd tries.", Default: 3, Check: config.Between[int32](-131072, 22)}, func(c *ClientConfig, n int32) { c.compression.level("zstd", n) }),
	used(producerOnly, config.Key[time.Duration]{Name: "transaction.timeout.ms", Doc: "Time after which the log aborts a transaction that nobody ended.", As: config.IntType, Default: time.Minute, Importance: config.Low, Check: config.AtLeast(time.Millisecond)}, func(c *ClientConfig, d time.Duration) { c.TransactionTimeout = d }),
	used(producerOnly, config.Key[string]{Name: "acks", Doc: "Always all: offsets follow acknowledgements of all replicas.", Default: "all", Importance: config.Low, Check: exactly("all", "-1", "0", "1")}, func(c *ClientConfig, v string) {
		if v != "all" && v != "-1" {
			c.notice("acks=" + v + " is ignored: offsets follow acknowledgements of all replicas")
		}
	}),
	unused(producerOnly, config.Key[string]{Name: "client.rack", EmptyDefault: true, Importance: config.Low}, "records go to the leaders of their partitions"),
	unused(producerOnly, config.Key[int32]{Name: "max.request.size", Default: 1 << 20, Check: config.AtLeast[int32](0)}, "the size of a batch follows the topic's max.message.bytes"),
	unused(producerOnly, config.Key[int32]{Name: "batch.size", Default: 16384, Check: config.AtLeast[int32](0)}, "the size of a batch follows what waits"),
	unused(producerOnly, config.Key[bool]{Name: "enable.idempotence", Default: true, Importance: config.Low}, "producers are always idempotent"),
	unused(producerOnly, config.Key[int32]{Name: "max.in.flight.requests.per.connection", Default: 5, Importance: config.Low, Check: config.AtLeast[int32](1)}, "producers are idempotent and keep the order"),
	unused(producerOnly, config.Key[time.Duration]{Name: "delivery.timeout.ms", As: config.IntType, Default: 2 * time.Minute, Check: config.AtLeast(time.Duration(0))}, ownRetries),
	unused(producerOnly, config.Key[time.Duration]{Name: "max.block.ms", Default: time.Minute, Check: config.AtLeast(time.Duration(0))}, "a full producer holds the source back"),
	unused(producerOnly, config.Key[int64]{Name: "buffer.memory", Default: 32 << 20, Importance: config.High, Check: config.AtLeast[int64](0)}, ownBound),
	unused(producerOnly, config.Key[string]{Name: "buffer.memory.allocation.strategy", Default: "full", Check: oneOfAnyCase("FULL", "INCREMENTAL")}, ownBound),
	unused(producerOnly, config.Key[time.Duration]{Name: "metadata.max.idle.ms", Default: 5 * time.Minute, Importance: config.Low, Check: config.AtLeast(5 * time.Second)}, "topics are forgotten with the task"),
	unused(producerOnly, config.Key[config.Class]{Name: "partitioner.class"}, noClasses+"; records go by their keys as with Java's own partitioner"),
	unused(producerOnly, config.Key[bool]{Name: "partitioner.ignore.keys"}, "records of one key keep their order in one partition"),
	unused(producerOnly, config.Key[bool]{Name: "partitioner.rack.aware", Importance: config.Low}, "records without a key are spread over all partitions"),
	unused(producerOnly, config.Key[bool]{Name: "partitioner.adaptive.partitioning.enable", Default: true, Importance: config.Low}, "records without a key are spread over all partitions"),
	unused(producerOnly, config.Key[time.Duration]{Name: "partitioner.availability.timeout.ms", Importance: config.Low, Check: config.AtLeast(time.Duration(0))}, "records without a key are spread over all partitions"),
	unused(producerOnly, config.Key[string]{Name: "transactional.id", Importance: config.Low, Check: config.NonEmpty}, "the worker names the transactions, so that it can fence them"),
	unused(producerOnly, config.Key[bool]{Name: "transaction.two.phase.commit.enable", Importance: config.Low}, "the worker ends its transactions itself"),
	unused(producerOnly, config.Key[config.Class]{Name: "key.serializer", Importance: config.High}, "the connector's converters write bytes"),
	unused(producerOnly, config.Key[config.Class]{Name: "value.serializer", Importance: config.High}, "the connector's converters write bytes"),

	// Of consumers.
	used(consumerOnly, config.Key[string]{Name: "client.rack", Doc: "Rack of this worker: replicas in it are read first.", EmptyDefault: true, Importance: config.Low, Check: atMost(512)}, func(c *ClientConfig, v string) { c.add(kgo.Rack(v)) }),
	used(consumerOnly, config.Key[string]{Name: "group.id", Doc: "Consumer group of the sink, in place of connect-NAME.", Importance: config.High, Check: config.NonEmpty}, func(c *ClientConfig, v string) { c.Group = v }),
	used(consumerOnly, config.Key[string]{Name: "auto.offset.reset", Doc: "Where to begin without a stored offset: earliest, latest, or none to fail.", Default: "earliest", Check: offsetReset}, func(c *ClientConfig, v string) { c.AutoOffsetReset = v }),
	used(consumerOnly, config.Key[time.Duration]{Name: "session.timeout.ms", Doc: "Time without a heartbeat after which the group takes the task for dead.", As: config.IntType, Default: 45 * time.Second, Importance: config.High, Check: config.AtLeast(100 * time.Millisecond)},
		func(c *ClientConfig, d time.Duration) { c.session = d; c.add(kgo.SessionTimeout(d)) }),
	used(consumerOnly, config.Key[time.Duration]{Name: "heartbeat.interval.ms", Doc: "Time between two heartbeats; shorter than session.timeout.ms.", As: config.IntType, Default: 3 * time.Second, Importance: config.High, Check: config.AtLeast(time.Millisecond)},
		func(c *ClientConfig, d time.Duration) { c.heartbeat = d; c.add(kgo.HeartbeatInterval(d)) }),
	used(consumerOnly, config.Key[time.Duration]{Name: "max.poll.interval.ms", Doc: "Time in which every member must join again once a rebalance has begun.", As: config.IntType, Default: RejoinTimeout, Check: config.AtLeast(time.Millisecond)},
		func(c *ClientConfig, d time.Duration) { c.add(kgo.RebalanceTimeout(max(d, 100*time.Millisecond))) }),
	used(consumerOnly, config.Key[int32]{Name: "fetch.min.bytes", Doc: "Bytes for which a broker waits before it answers a fetch.", Default: 1, Importance: config.High, Check: config.AtLeast[int32](0)}, func(c *ClientConfig, n int32) { c.add(kgo.FetchMinBytes(n)) }),
	used(consumerOnly, config.Key[int32]{Name: "fetch.max.bytes", Doc: "Most bytes of one fetch.", Default: 4 << 20, Check: config.AtLeast[int32](0)},
		func(c *ClientConfig, n int32) { c.add(kgo.FetchMaxBytes(bounded(c, "fetch.max.bytes", n, 1, 64<<20))) }),
	used(consumerOnly, config.Key[int32]{Name: "max.partition.fetch.bytes", Doc: "Most bytes of a partition in one fetch; a larger record travels alone.", Default: 1 << 20, Importance: config.High, Check: config.AtLeast[int32](0)},
		func(c *ClientConfig, n int32) {
			c.add(kgo.FetchMaxPartitionBytes(bounded(c, "max.partition.fetch.bytes", n, 1, 64<<20)))
		}),
	used(consumerOnly, config.Key[time.Duration]{Name: "fetch.max.wait.ms", Doc: "Time for which a broker waits for fetch.min.bytes.", As: config.IntType, Default: 5 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Duration(0))},
		func(c *ClientConfig, d time.Duration) { c.add(kgo.FetchMaxWait(max(d, 10*time.Millisecond))) }),
	used(consumerOnly, config.Key[string]{Name: "isolation.level", Doc: "Which records are read: read_committed leaves out those of transactions that were aborted or are open.", Default: "read_committed", Check: exactly("read_committed", "read_uncommitted")}, func(c *ClientConfig, v string) {
		level := kgo.ReadCommitted()
		if v == "read_uncommitted" {
			level = kgo.ReadUncommitted()
		}
		c.add(kgo.FetchIsolationLevel(level))
	}),
	used(consumerOnly, config.Key[bool]{Name: "check.crcs", Doc: "Whether checksums of what is read are verified.", Default: true, Importance: config.Low}, func(c *ClientConfig, on bool) {
		if !on {
			c.add(kgo.DisableFetchCRCValidation())
		}
	}),
	unused(consumerOnly, config.Key[string]{Name: "group.instance.id", Check: config.NonEmpty}, "tasks of one connector would share it"),
	unused(consumerOnly, config.Key[string]{Name: "group.protocol", Default: "classic", Importance: config.High, Check: oneOfAnyCase("CONSUMER", "CLASSIC")}, "sinks use the classic protocol"),
	unused(consumerOnly, config.Key[string]{Name: "group.remote.assignor"}, "sinks use the classic protocol"),
	unused(consumerOnly, config.Key[int32]{Name: "max.poll.records", Default: 500, Check: config.AtLeast[int32](1)}, "a batch has 2000 records at most"),
	unused(consumerOnly, config.Key[bool]{Name: "enable.auto.commit", Default: true}, "what the sink has written is committed"),
	unused(consumerOnly, config.Key[time.Duration]{Name: "auto.commit.interval.ms", As: config.IntType, Default: 5 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}, "what the sink has written is committed"),
	unused(consumerOnly, config.Key[[]string]{Name: "partition.assignment.strategy"}, "range and cooperative-sticky are offered"),
	unused(consumerOnly, config.Key[bool]{Name: "allow.auto.create.topics", Default: true}, "reading makes no topics"),
	unused(consumerOnly, config.Key[bool]{Name: "exclude.internal.topics", Default: true}, "topics.regex says which topics are read"),
	unused(consumerOnly, config.Key[string]{Name: "share.acknowledgement.mode", Default: "implicit", Check: exactly("implicit", "explicit")}, "sinks are no share groups"),
	unused(consumerOnly, config.Key[string]{Name: "share.acquire.mode", Default: "BATCH_OPTIMIZED", Check: oneOfAnyCase("batch_optimized", "record_limit")}, "sinks are no share groups"),
	unused(consumerOnly, config.Key[config.Class]{Name: "key.deserializer", Importance: config.High}, "the connector's converters read bytes"),
	unused(consumerOnly, config.Key[config.Class]{Name: "value.deserializer", Importance: config.High}, "the connector's converters read bytes"),
}

// exactly makes a Check: the text is one of these, in this case, in Java's words.
func exactly(allowed ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(allowed, s) {
			return fmt.Errorf("String must be one of: %s", strings.Join(allowed, ", "))
		}
		return nil
	}
}

func oneOfAnyCase(allowed ...string) func(string) error {
	return func(s string) error {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, s) }) {
			return fmt.Errorf("String must be one of (case insensitive): %s", strings.Join(allowed, ", "))
		}
		return nil
	}
}

func atMost(n int) func(string) error {
	return func(s string) error {
		if len(s) > n {
			return fmt.Errorf("it has %d bytes, and %d are the most", len(s), n)
		}
		return nil
	}
}

func orDefault(standard, low, high int32) func(int32) error {
	return func(n int32) error {
		if n != standard && (n < low || n > high) {
			return fmt.Errorf("Value must be between %d and %d or equal to %d", low, high, standard)
		}
		return nil
	}
}

func offsetReset(v string) error {
	if strings.HasPrefix(v, "by_duration:") {
		return errors.New("by_duration is not supported; use earliest or latest, or stop the connector and set its offsets")
	}
	if !slices.Contains([]string{"earliest", "latest", "none"}, v) {
		return fmt.Errorf("Invalid value `%s`: must be earliest, latest or none", v)
	}
	return nil
}
