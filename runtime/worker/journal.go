package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
)

// journal is a topic of one partition that is never thrown away. Entries are written
// with the task's own client: a task that was abandoned writes none.
type journal struct {
	log    *log.Log
	client *kgo.Client
	topic  string
}

var _ connectors.Journal = (*journal)(nil)

// journals are what a task keeps beyond offsets, written with one client.
type journals struct {
	log  *log.Log
	make func() (*kgo.Client, error) // makes a client where none is given

	mu     sync.Mutex // guards the fields below
	client *kgo.Client
	made   bool
}

func (j *journals) open(ctx context.Context, topic string) (connectors.Journal, error) {
	client, err := j.writer()
	if err != nil {
		return nil, err
	}
	return openJournal(ctx, j.log, client, topic)
}

func (j *journals) writer() (_ *kgo.Client, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.client == nil {
		if j.client, err = j.make(); err != nil {
			return nil, err
		}
		j.made = true
	}
	return j.client, nil
}

func (j *journals) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.made {
		j.client.Close()
	}
}

// openJournal makes or verifies the topic of that name.
func openJournal(ctx context.Context, l *log.Log, client *kgo.Client, topic string) (connectors.Journal, error) {
	err := l.EnsureTopic(ctx, topic, 1, -1, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException):
		return nil, connectors.BadConfig(err)
	case err != nil && kerr.IsRetriable(err):
		return nil, connectors.Retriable(err)
	case err != nil:
		return nil, err
	}
	return &journal{l, client, topic}, nil
}

// Append implements connectors.Journal.
func (j *journal) Append(ctx context.Context, entries ...[]byte) error {
	rs := make([]*kgo.Record, len(entries))
	for i, e := range entries {
		rs[i] = &kgo.Record{Topic: j.topic, Partition: 0, Value: e}
	}
	if err := j.client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		return connectors.Retriable(fmt.Errorf("write to topic %q: %w", j.topic, err))
	}
	return nil
}

// Replay implements connectors.Journal.
func (j *journal) Replay(ctx context.Context, each func(entry []byte) error) error {
	starts, err := j.log.Admin().ListStartOffsets(ctx, j.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return connectors.Retriable(fmt.Errorf("read topic %q: %w", j.topic, err))
	}
	ends, err := j.log.Admin().ListCommittedOffsets(ctx, j.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return connectors.Retriable(fmt.Errorf("read topic %q: %w", j.topic, err))
	}
	s, _ := starts.Lookup(j.topic, 0)
	e, _ := ends.Lookup(j.topic, 0)
	at, end := s.Offset, e.Offset
	if at >= end {
		return nil
	}
	cl, err := kgo.NewClient(append(j.log.ClientOpts(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.topic: {0: kgo.NewOffset().At(at)}}))...)
	if err != nil {
		return fmt.Errorf("client of topic %q: %w", j.topic, err)
	}
	defer cl.Close()
	for at < end {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var failed error
		fetches.EachError(func(_ string, _ int32, err error) {
			if failed == nil && !kerr.IsRetriable(err) {
				failed = connectors.Retriable(fmt.Errorf("read topic %q: %w", j.topic, err))
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if failed == nil && r.Offset < end && !r.Attrs.IsControl() {
				failed = each(r.Value)
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}
