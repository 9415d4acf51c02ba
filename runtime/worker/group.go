package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/connectors"
)

// The callbacks of a sink's consumer group. The client calls them while the task's
// loop is in a poll or allows a rebalance, one at a time.

// assigned gives the sink partitions.
func (t *sinkTask) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	if t.hard.Err() != nil {
		return // cut off: the sink may hold the lock for ever
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.caught("open partitions")
	parts := partitionsOf(added)
	if len(parts) == 0 {
		return
	}
	start, err := t.sink.Open(t.hard, parts)
	if err != nil {
		t.failedCallback(fmt.Errorf("open %v: %w", parts, err))
		return
	}
	for _, tp := range parts {
		t.parts[tp] = &progress{read: -1, delivered: -1, flushed: -1, committed: -1}
	}
	at := map[string]map[int32]kgo.EpochOffset{}
	for tp, o := range start {
		if t.parts[tp] == nil {
			continue
		}
		if at[tp.Topic] == nil {
			at[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		at[tp.Topic][tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: o}
	}
	if len(at) > 0 {
		t.client.SetOffsets(at)
	}
	if t.r.gate.isClosed() {
		t.client.PauseFetchPartitions(added)
	}
}

// revoked takes partitions away in good order: flushed and committed.
func (t *sinkTask) revoked(_ context.Context, _ *kgo.Client, removed map[string][]int32) {
	if t.hard.Err() != nil {
		return // cut off: the sink may hold the lock for ever
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.caught("give partitions back")
	parts := t.still(removed)
	if len(parts) == 0 {
		return
	}
	err := t.commitLocked(t.hard, parts)
	t.forget(parts)
	if err := errors.Join(err, t.sink.Close(t.hard, parts, false)); err != nil {
		t.failedCallback(fmt.Errorf("give %v back: %w", parts, err))
	}
}

// lost takes partitions away that others may have already: nothing is flushed.
func (t *sinkTask) lost(_ context.Context, _ *kgo.Client, removed map[string][]int32) {
	if t.hard.Err() != nil {
		return // cut off: the sink may hold the lock for ever
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.caught("drop partitions")
	parts := t.still(removed)
	if len(parts) == 0 {
		return
	}
	t.forget(parts)
	if err := t.sink.Close(t.hard, parts, true); err != nil {
		t.failedCallback(fmt.Errorf("drop %v: %w", parts, err))
	}
}

// still are those of the removed partitions that the task has.
func (t *sinkTask) still(removed map[string][]int32) []connectors.TopicPartition {
	return slices.DeleteFunc(partitionsOf(removed), func(tp connectors.TopicPartition) bool { return t.parts[tp] == nil })
}

func (t *sinkTask) forget(parts []connectors.TopicPartition) {
	for _, tp := range parts {
		delete(t.parts, tp)
	}
	kept := t.pending[:0:0]
	for _, r := range t.pending {
		if t.parts[connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}] != nil {
			kept = append(kept, r)
		}
	}
	t.pending = kept
}

func partitionsOf(m map[string][]int32) []connectors.TopicPartition {
	var out []connectors.TopicPartition
	for topic, ps := range m {
		for _, p := range ps {
			out = append(out, connectors.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return out
}

// failedCallback keeps the first error of a callback and wakes the loop, which ends
// the task with it.
func (t *sinkTask) failedCallback(err error) {
	if t.callback == nil {
		t.callback = err
	}
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

func (t *sinkTask) caught(doing string) {
	if p := recover(); p != nil {
		t.failedCallback(panicked(p, doing))
	}
}

func (t *sinkTask) callbackError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.callback
}

// adjust looks whether the committed offsets still lie in the log. Where retention
// has passed one, or the log ends before it, auto.offset.reset decides, and the
// range is named.
func (t *sinkTask) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	var topics []string
	for topic := range offsets {
		topics = append(topics, topic)
	}
	adm := kadm.NewClient(t.client)
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list the offsets at which topics start: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list the offsets at which topics end: %w", err)
	}
	for topic, ps := range offsets {
		for p, o := range ps {
			at := o.EpochOffset().Offset
			if at < 0 {
				continue // nothing committed
			}
			first, ok1 := starts.Lookup(topic, p)
			end, ok2 := ends.Lookup(topic, p)
			if !ok1 || !ok2 || first.Err != nil || end.Err != nil {
				continue // the fetch will say what is wrong
			}
			switch {
			case at < first.Offset:
				err = t.passed(topic, p, at, first.Offset, fmt.Sprintf("offsets %d to %d are gone (retention passed the committed offset)", at, first.Offset-1))
			case at > end.Offset:
				err = t.passed(topic, p, at, end.Offset, fmt.Sprintf("the committed offset %d lies behind the log's end %d (the topic was made anew or cut)", at, end.Offset))
			default:
				continue
			}
			if err != nil {
				t.mu.Lock()
				t.failedCallback(err)
				t.mu.Unlock()
				return nil, err
			}
			if t.reset == "latest" {
				ps[p] = kgo.NewOffset().At(end.Offset)
			} else {
				ps[p] = kgo.NewOffset().At(first.Offset)
			}
		}
	}
	return offsets, nil
}

// passed warns that a position is not in the log, or is the error where no policy
// says how to go on.
func (t *sinkTask) passed(topic string, partition int32, at, next int64, what string) error {
	if t.reset == "none" {
		return fmt.Errorf("topic %s, partition %d: %s and auto.offset.reset is none; reset the connector's offsets, or set consumer.override.auto.offset.reset", topic, partition, what)
	}
	t.lg.Warn("the committed offset is not in the log", "topic", topic, "partition", partition, "committed", at, "log", next, "what", what, "auto.offset.reset", t.reset)
	return nil
}

// commitOffsets commits for the group, as the member that this task is.
func (t *sinkTask) commitOffsets(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) error {
	var failure error
	t.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if failure = err; failure != nil {
			return
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && failure == nil {
					failure = fmt.Errorf("topic %s, partition %d: %w", topic.Topic, p.Partition, err)
				}
			}
		}
	})
	return failure
}
