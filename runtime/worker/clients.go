package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime"
)

// A clientKey is a setting of Java's Kafka clients: what it means to ours, or why it
// means nothing.
type clientKey struct {
	opts   func(text string) ([]kgo.Opt, error)
	reason string // why it is ignored
}

// producerKeys and consumerKeys are the settings of Java's clients that connectors
// and workers give, as producer.override.KEY or producer.KEY.
var (
	producerKeys = map[string]clientKey{
		"client.id":                             {opts: text(kgo.ClientID)},
		"compression.type":                      {opts: compression},
		"linger.ms":                             {opts: millis(kgo.ProducerLinger)},
		"max.request.size":                      {opts: number(kgo.ProducerBatchMaxBytes)},
		"request.timeout.ms":                    {opts: millis(kgo.ProduceRequestTimeout)},
		"delivery.timeout.ms":                   {opts: deliveryTimeout},
		"metadata.max.age.ms":                   {opts: millis(kgo.MetadataMaxAge)},
		"retry.backoff.ms":                      {reason: "retries back off by themselves"},
		"acks":                                  {reason: "records are always acknowledged by all replicas, or offsets could pass over lost ones"},
		"enable.idempotence":                    {reason: "the producer is always idempotent"},
		"max.in.flight.requests.per.connection": {reason: "the producer is idempotent and keeps the order with any number"},
		"retries":                               {reason: "a record is tried until delivery.timeout.ms"},
		"batch.size":                            {reason: "batches are bounded by what waits"},
		"buffer.memory":                         {reason: "a task's producer holds 8 MiB"},
		"max.block.ms":                          {reason: "the source waits for as long as the log is behind"},
	}
	consumerKeys = map[string]clientKey{
		"client.id":                     {opts: text(kgo.ClientID)},
		"group.id":                      {opts: text(kgo.ConsumerGroup)},
		"group.instance.id":             {opts: text(kgo.InstanceID)},
		"client.rack":                   {opts: text(kgo.Rack)},
		"auto.offset.reset":             {opts: offsetReset},
		"session.timeout.ms":            {opts: millis(kgo.SessionTimeout)},
		"heartbeat.interval.ms":         {opts: millis(kgo.HeartbeatInterval)},
		"max.poll.interval.ms":          {opts: millis(kgo.RebalanceTimeout)},
		"fetch.max.bytes":               {opts: number(kgo.FetchMaxBytes)},
		"max.partition.fetch.bytes":     {opts: number(kgo.FetchMaxPartitionBytes)},
		"fetch.min.bytes":               {opts: number(kgo.FetchMinBytes)},
		"fetch.max.wait.ms":             {opts: millis(kgo.FetchMaxWait)},
		"metadata.max.age.ms":           {opts: millis(kgo.MetadataMaxAge)},
		"isolation.level":               {opts: isolation},
		"max.poll.records":              {reason: "a batch ends at 2,000 records or 1 MiB"},
		"enable.auto.commit":            {reason: "offsets are committed when the sink has flushed"},
		"partition.assignment.strategy": {reason: "range and cooperative-sticky are offered, in this order"},
		"allow.auto.create.topics":      {reason: "a sink does not make the topics it reads"},
	}
)

// ignoredEverywhere are settings of no meaning to any client of ours.
var ignoredEverywhere = map[string]string{
	"key.serializer": "converters do that", "value.serializer": "converters do that", "key.deserializer": "converters do that", "value.deserializer": "converters do that",
	"interceptor.classes": "Java classes cannot be loaded", "metric.reporters": "metrics are served for Prometheus", "auto.include.jmx.reporter": "there is no JMX",
}

// clientOpts reads the settings for a kind of client: the worker's under prefix., the
// connector's under prefix.override. in their stead. What is ignored is noticed.
func (w *Worker) clientOpts(prefix string, keys map[string]clientKey, connector map[string]string, lg *slog.Logger) ([]kgo.Opt, error) {
	given, from := map[string]string{}, map[string]string{}
	for k, v := range w.c.Settings.Properties {
		if name, ok := strings.CutPrefix(k, prefix+"."); ok && !strings.HasPrefix(name, "override.") {
			given[name], from[name] = v, k
		}
	}
	for k, v := range connector {
		if name, ok := strings.CutPrefix(k, prefix+".override."); ok {
			given[name], from[name] = v, k
		}
	}
	var opts []kgo.Opt
	for _, name := range slices.Sorted(maps.Keys(given)) {
		k, known := keys[name]
		switch {
		case known && k.opts != nil:
			o, err := k.opts(strings.TrimSpace(given[name]))
			if err != nil {
				return nil, connectors.BadConfig(fmt.Errorf("Invalid value %s for configuration %s: %w", given[name], from[name], err))
			}
			opts = append(opts, o...)
		case known:
			lg.Warn("client setting ignored", "key", from[name], "reason", k.reason)
		case ignoredEverywhere[name] != "":
			lg.Warn("client setting ignored", "key", from[name], "reason", ignoredEverywhere[name])
		default:
			lg.Warn("client setting ignored", "key", from[name], "reason", "this client has no such setting")
		}
	}
	return opts, nil
}

func (w *Worker) producerOpts(id runtime.TaskID, connector map[string]string, lg *slog.Logger) ([]kgo.Opt, error) {
	batch := int32(clusterBatch)
	if w.c.Log.Embedded() {
		batch = embeddedBatch
	}
	own, err := w.clientOpts("producer", producerKeys, connector, lg)
	if err != nil {
		return nil, err
	}
	return slices.Concat(w.c.Log.ClientOpts(), []kgo.Opt{
		kgo.ClientID("connector-producer-" + id.String()), kgo.WithLogger(clientLog{lg}),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(batch), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(1 << 30), // bounded by bytes: inflight
		kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
	}, own), nil
}

// The largest batch that a topic takes by default: that of the embedded log and that
// of Kafka.
const (
	embeddedBatch = 16 << 20
	clusterBatch  = 1000012
)

// atFault says in words what is wrong where err is about the record itself and not
// about the log, else nil.
func atFault(r *kgo.Record, err error) error {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Errorf("the record has %d bytes, more than the topic takes; raise the topic's max.message.bytes and producer.override.max.request.size: %w",
			len(r.Key)+len(r.Value), err)
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.CorruptMessage):
		return err
	}
	return nil
}

// A partitioner puts records with a partition of their own there, and the others
// where Java's default partitioner puts them.
type partitioner struct{ kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// OnNewBatch lets records without a key change partitions between batches.
func (p topicPartitioner) OnNewBatch() {
	if b, ok := p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		b.OnNewBatch()
	}
}

// clientLog passes a client's warnings on.
type clientLog struct{ lg *slog.Logger }

func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (c clientLog) Log(level kgo.LogLevel, msg string, kv ...any) {
	if level == kgo.LogLevelError {
		c.lg.Error("kafka client: "+msg, kv...)
		return
	}
	c.lg.Warn("kafka client: "+msg, kv...)
}

func text[O kgo.Opt](set func(string) O) func(string) ([]kgo.Opt, error) {
	return func(s string) ([]kgo.Opt, error) { return []kgo.Opt{set(s)}, nil }
}

func millis[O kgo.Opt](set func(time.Duration) O) func(string) ([]kgo.Opt, error) {
	return func(s string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return nil, errors.New("Not a number of type INT")
		}
		return []kgo.Opt{set(time.Duration(n) * time.Millisecond)}, nil
	}
}

func number[O kgo.Opt](set func(int32) O) func(string) ([]kgo.Opt, error) {
	return func(s string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 1 {
			return nil, errors.New("Not a number of type INT, or less than 1")
		}
		return []kgo.Opt{set(int32(n))}, nil
	}
}

func deliveryTimeout(s string) ([]kgo.Opt, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return nil, errors.New("Not a number of type INT")
	}
	if n == 1<<31-1 {
		return nil, nil // for ever, as without it
	}
	return []kgo.Opt{kgo.RecordDeliveryTimeout(max(time.Second, time.Duration(n)*time.Millisecond))}, nil
}

func compression(s string) ([]kgo.Opt, error) {
	codec, ok := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[strings.ToLower(s)]
	if !ok {
		return nil, errors.New("String must be one of: none, gzip, snappy, lz4, zstd")
	}
	return []kgo.Opt{kgo.ProducerBatchCompression(codec)}, nil
}

func offsetReset(s string) ([]kgo.Opt, error) {
	reset, ok := map[string]kgo.Offset{"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(), "none": kgo.NoResetOffset()}[strings.ToLower(s)]
	if !ok {
		return nil, errors.New("String must be one of: earliest, latest, none")
	}
	return []kgo.Opt{kgo.ConsumeResetOffset(reset)}, nil
}

func isolation(s string) ([]kgo.Opt, error) {
	level, ok := map[string]kgo.IsolationLevel{"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted()}[strings.ToLower(s)]
	if !ok {
		return nil, errors.New("String must be one of: read_committed, read_uncommitted")
	}
	return []kgo.Opt{kgo.FetchIsolationLevel(level)}, nil
}
