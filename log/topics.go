package log

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// guarded are the configurations that decide whether records of an internal topic are kept. An
// existing topic must have them as asked; others may differ, they are its owner's.
var guarded = []string{"cleanup.policy", "retention.ms", "retention.bytes"}

// EnsureTopic makes a topic, or verifies one that exists: its cleanup.policy and retention must be as
// in configs (where given), and it must have one partition if one is asked for. partitions and
// replication may be -1 for the cluster's defaults; the embedded log has one replica whatever is
// asked. It returns when the topic can be used.
func (l *Log) EnsureTopic(ctx context.Context, name string, partitions int32, replication int16, configs map[string]string) error {
	if l.Embedded() {
		replication = -1
	}
	settings := make(map[string]*string, len(configs))
	for k, v := range configs {
		settings[k] = &v
	}
	r, err := l.Admin().CreateTopic(ctx, partitions, replication, settings, name)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return l.verifyTopic(ctx, name, partitions, configs)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return fmt.Errorf("create topic %q with replication factor %d: %w: the cluster has fewer brokers; lower the replication factor", name, replication, err)
	case err != nil && r.ErrMessage != "":
		return fmt.Errorf("create topic %q: %w: %s", name, err, r.ErrMessage)
	case err != nil:
		return fmt.Errorf("create topic %q: %w", name, err)
	}
	return l.AwaitTopic(ctx, name)
}

func (l *Log) verifyTopic(ctx context.Context, name string, partitions int32, configs map[string]string) error {
	if err := l.AwaitTopic(ctx, name); err != nil {
		return err
	}
	topics, err := l.Admin().ListTopics(ctx, name)
	if err == nil {
		err = topics[name].Err
	}
	if err != nil {
		return fmt.Errorf("look at topic %q: %w", name, err)
	}
	if n := len(topics[name].Partitions); partitions == 1 && n != 1 {
		return fmt.Errorf("topic %q has %d partitions, must have one: its records are read in order; use another name, or delete the topic if nothing needs it", name, n)
	}
	if !slices.ContainsFunc(guarded, func(k string) bool { _, ok := configs[k]; return ok }) {
		return nil
	}
	rs, err := l.Admin().DescribeTopicConfigs(ctx, name)
	if err == nil && len(rs) == 1 {
		err = rs[0].Err
	}
	if err != nil {
		return fmt.Errorf("read configuration of topic %q: %w", name, err)
	}
	is := map[string]string{}
	for _, r := range rs {
		for _, c := range r.Configs {
			is[c.Key] = c.MaybeValue()
		}
	}
	for _, k := range guarded {
		want, ok := configs[k]
		if got, known := is[k]; ok && known && !sameConfig(want, got) && !(forEver(want) && forEver(got)) {
			return fmt.Errorf("topic %q has %s=%s, must be %s, or what is kept in it will be lost: change it (kafka-configs --alter --entity-type topics --entity-name %s --add-config '%s=%s') or use another name", name, k, got, want, name, k, want)
		}
	}
	return nil
}

// forEver reports whether a retention is none: below zero, or more than can come about, as Debezium makes its topics.
func forEver(retention string) bool {
	n, err := strconv.ParseInt(strings.TrimSpace(retention), 10, 64)
	return err == nil && (n < 0 || n == math.MaxInt64)
}

func sameConfig(a, b string) bool { return normalList(a) == normalList(b) }

// normalList sorts a list's elements, since "compact,delete" and "delete,compact" are the same.
func normalList(s string) string {
	set := map[string]bool{}
	for e := range strings.SplitSeq(s, ",") {
		set[strings.TrimSpace(e)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ",")
}

// AwaitTopic returns when every partition of a topic has a leader: on a cluster, that is later than its creation.
func (l *Log) AwaitTopic(ctx context.Context, name string) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		topics, err := l.Admin().ListTopics(ctx, name)
		if err != nil {
			return fmt.Errorf("look at topic %q: %w", name, err)
		}
		t := topics[name]
		ready := t.Err == nil && len(t.Partitions) > 0
		for _, p := range t.Partitions {
			ready = ready && p.Err == nil && p.Leader >= 0
		}
		if ready {
			return nil
		}
		if t.Err != nil && !kerr.IsRetriable(t.Err) {
			return fmt.Errorf("look at topic %q: %w", name, t.Err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("topic %q has no leader: %w", name, context.Cause(ctx))
		}
	}
}
