package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/store"
)

// A committer stores a source's offsets with the task's own client, so that a task
// that was cut off cannot, and then tells the source.
type committer struct {
	connector string
	topic     string
	every     time.Duration
	codec     *store.Codec
	client    *kgo.Client
	flight    *inflight
	done      func(ctx context.Context, offsets []connectors.Offset) error
	lg        *slog.Logger

	untold []connectors.Offset // stored, but the source could not be told
}

// run stores offsets at its interval, and once more when the producer has ended.
func (c *committer) run(ctx context.Context) error {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.commit(ctx); err != nil {
				return err
			}
		case <-c.flight.ended:
			if c.flight.err() != nil || ctx.Err() != nil {
				return nil
			}
			return c.commit(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// commit stores what may be stored. The source is told only when it is on stable
// storage: only then may the database forget.
func (c *committer) commit(ctx context.Context) (err error) {
	offsets := c.flight.take()
	if len(offsets) > 0 {
		records := make([]*kgo.Record, len(offsets))
		for i, o := range offsets {
			r, err := c.codec.Record(c.connector, o)
			if err != nil {
				return fmt.Errorf("store offsets: %w", err)
			}
			r.Topic, r.Partition = c.topic, -1
			records[i] = r
		}
		if err := c.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			if ctx.Err() != nil {
				return nil // cut off: the next owner repeats
			}
			return connectors.Retriable(fmt.Errorf("store offsets in topic %s: %w", c.topic, err))
		}
	}
	told := mergeOffsets(c.untold, offsets)
	c.untold = nil
	if len(told) == 0 {
		return nil
	}
	defer recovered(&err, "commit to the source")
	if err := c.done(ctx, told); err != nil && !errors.Is(err, context.Canceled) {
		c.lg.Warn("the source was not told which offsets are stored; it will be with the next", "err", err)
		c.untold = told
	}
	return nil
}
