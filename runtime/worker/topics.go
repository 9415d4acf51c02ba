package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/settings"
)

// defaultMaxMessage is what clusters take by default, in bytes of a batch.
const defaultMaxMessage = 1048588

// topics makes sure that the topics a task writes to exist, and knows how large their
// batches may be.
type topics struct {
	admin *kadm.Client
	await func(ctx context.Context, name string) error // that a topic can be used
	lg    *slog.Logger
	as    settings.TopicCreation
	used  *uses

	last string // of the goroutine that produces: the topic it used last

	mu    sync.Mutex // guards known
	known map[string]limits
}

// limits are what a topic takes.
type limits struct {
	batch int32 // bytes
	keyed bool
}

// ensure makes the topic where it does not exist.
func (t *topics) ensure(ctx context.Context, name string) error {
	t.mu.Lock()
	_, ok := t.known[name]
	t.mu.Unlock()
	if !ok {
		l, err := t.look(ctx, name)
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.known[name] = l
		t.mu.Unlock()
	}
	t.used.topic(name)
	t.last = name
	return nil
}

func (t *topics) look(ctx context.Context, name string) (_ limits, err error) {
	details, err := t.admin.ListTopics(ctx, name)
	if err == nil {
		err = details[name].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		partitions, replication, configs, err := t.as.Of(name)
		if err != nil {
			return limits{}, err
		}
		r, err := t.admin.CreateTopic(ctx, partitions, replication, configs, name)
		switch {
		case err == nil:
			t.lg.Info("topic made", "topic", name)
			// The client that writes asks a cluster once and then not for seconds.
			if err := t.await(ctx, name); err != nil {
				return limits{}, connectors.Retriable(err)
			}
		case errors.Is(err, kerr.InvalidReplicationFactor), errors.Is(err, kerr.InvalidConfig), errors.Is(err, kerr.InvalidPartitions):
			return limits{}, connectors.BadConfig(fmt.Errorf("make topic %s as topic.creation.* says: %w %s", name, err, r.ErrMessage))
		case errors.Is(err, kerr.TopicAlreadyExists):
		case kerr.IsRetriable(err):
			return limits{}, connectors.Retriable(fmt.Errorf("make topic %s: %w", name, err))
		case r.ErrMessage != "":
			return limits{}, fmt.Errorf("make topic %s: %w: %s", name, err, r.ErrMessage)
		default:
			return limits{}, fmt.Errorf("make topic %s: %w", name, err)
		}
	case err != nil && ctx.Err() != nil:
		return limits{}, ctx.Err()
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException):
		return limits{}, fmt.Errorf("look at topic %s: %w", name, err)
	case err != nil:
		return limits{}, connectors.Retriable(fmt.Errorf("look at topic %s: %w", name, err))
	}
	configs, err := t.admin.DescribeTopicConfigs(ctx, name)
	l := limits{}
	if err == nil && len(configs) == 1 && configs[0].Err == nil {
		for _, c := range configs[0].Configs {
			switch c.Key {
			case "max.message.bytes":
				if n, err := strconv.ParseInt(c.MaybeValue(), 10, 32); err == nil {
					l.batch = int32(n)
				}
			case "cleanup.policy":
				l.keyed = strings.Contains(c.MaybeValue(), "compact")
			}
		}
	}
	if ctx.Err() != nil {
		return limits{}, ctx.Err()
	}
	if l.batch == 0 {
		t.lg.Info("the largest batch of a topic is unknown; the usual one is assumed", "topic", name, "bytes", defaultMaxMessage)
		l.batch = defaultMaxMessage
	}
	return l, nil
}

// limit is the size of a topic's largest batch.
func (t *topics) limit(name string) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.known[name]; ok {
		return l.batch
	}
	return defaultMaxMessage
}

// keyed reports whether a topic takes records with a key alone, as compacted ones do.
func (t *topics) keyed(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[name].keyed
}

// partitioner is Java's, but for records whose partition is given.
func partitioner() kgo.Partitioner { return givenOrKey{} }

type givenOrKey struct{}

func (givenOrKey) ForTopic(string) kgo.TopicPartitioner { return &givenOrKeyTopic{on: -1, was: -1} }

// byKeyAlone hashes keys for all topics of all clients; with a key it keeps nothing. One for each topic would have a source of random
// numbers of 5 KiB, and hundreds of connectors write to two topics each.
var byKeyAlone = kgo.StickyKeyPartitioner(nil).ForTopic("")

// givenOrKeyTopic keeps to one partition for records without a key until a batch is full, as Java's does.
type givenOrKeyTopic struct{ on, was int }

func (p *givenOrKeyTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || r.Key != nil
}

func (p *givenOrKeyTopic) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition >= 0:
		return int(r.Partition)
	case n == 1:
		return 0
	case r.Key != nil:
		return byKeyAlone.Partition(r, n)
	}
	if p.on < 0 || p.on >= n { // any but the last one
		others := n
		if p.was >= 0 && p.was < n && n > 1 {
			others--
		}
		if p.on = rand.IntN(others); others < n && p.on >= p.was {
			p.on++
		}
	}
	return p.on
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch.
func (p *givenOrKeyTopic) OnNewBatch() { p.was, p.on = p.on, -1 }
