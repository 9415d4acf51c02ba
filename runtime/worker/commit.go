package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/store"
)

// committer stores a source task's offsets with the task's own client and, only after
// they are acknowledged, tells the task. Where the offsets travel in transactions it
// only tells.
type committer struct {
	client    *kgo.Client
	topics    []string // the first one decides where the source resumes
	connector string
	codec     *store.Codec // of the goroutine that commits
	keys      *store.Codec // of the stage that shapes
	inflight  *inflight
	task      connectors.SourceTask
	meter     *Meter
	interval  time.Duration
	timeout   time.Duration
	lg        *slog.Logger
	counted   func() bool   // whether the task is still this process's; nil: always
	stored    chan struct{} // of one: a transaction has stored offsets; nil where they are stored here

	untold []keyed // stored, but the task's Commit failed
}

// key names an offset's source partition. It is called by the stage that shapes, with
// a codec of its own.
func (c *committer) key(o connectors.Offset) (string, error) {
	b, err := c.keys.AppendKey(nil, c.connector, o.Partition)
	return string(b), err
}

// run commits, an interval after there was something to commit, until stop is closed. hard ends it at once. While there is
// nothing it sleeps: most of hundreds of connectors have nothing to do.
func (c *committer) run(hard context.Context, stop <-chan struct{}) {
	var due <-chan time.Time
	commit := func() {
		if due = nil; !c.commit(hard) {
			due = time.After(c.interval)
		}
	}
	for {
		select {
		case <-c.inflight.some:
			if due == nil {
				due = time.After(c.interval)
			}
		case <-due:
			commit()
		case <-c.stored:
			commit()
		case <-stop:
			return
		case <-hard.Done():
			return
		}
	}
}

// commit stores what is committable, and reports whether that was all. What fails is logged and tried again next time.
func (c *committer) commit(hard context.Context) bool {
	if c.counted != nil && !c.counted() {
		return false // what comes is the end of hard, or word from the group
	}
	offsets := c.inflight.take()
	if len(offsets) == 0 && len(c.untold) == 0 {
		return true
	}
	if len(offsets) > 0 && c.stored == nil {
		ctx, cancel := context.WithTimeout(hard, c.timeout)
		begun := time.Now()
		err := c.store(ctx, offsets)
		cancel()
		c.meter.commit(time.Since(begun), err == nil)
		if err != nil {
			c.inflight.giveBack(offsets)
			if hard.Err() == nil {
				c.lg.Error("offsets could not be committed; they are tried again", "topics", c.topics, "err", err)
			}
			return false
		}
	}
	done := merged(c.untold, offsets)
	c.untold = nil
	told := make([]connectors.Offset, len(done))
	for i, o := range done {
		told[i] = o.Offset
	}
	if err := guard("commit", func() error { return c.task.Commit(hard, told) }); err != nil {
		c.untold = done
		if hard.Err() == nil {
			c.lg.Warn("the source was not told of committed offsets; it is with the next commit", "err", err)
		}
		return false
	}
	return true
}

// merged are both, the newer of each source partition alone.
func merged(old, newer []keyed) []keyed {
	if len(old) == 0 {
		return newer
	}
	f := inflight{at: map[string]int{}}
	f.merge(old)
	f.merge(newer)
	return f.ready
}

func (c *committer) store(ctx context.Context, offsets []keyed) error {
	for _, topic := range c.topics {
		rs, err := c.records(topic, offsets)
		if err != nil {
			return err
		}
		if err := c.client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			return fmt.Errorf("write offsets to topic %q: %w", topic, err)
		}
	}
	return nil
}

// records are offsets in the log's form.
func (c *committer) records(topic string, offsets []keyed) ([]*kgo.Record, error) {
	rs := make([]*kgo.Record, 0, len(offsets))
	for _, o := range offsets {
		r, err := c.codec.Record(c.connector, o.Offset)
		if err != nil {
			return nil, err
		}
		r.Topic, r.Partition = topic, byKey
		rs = append(rs, r)
	}
	return rs, nil
}
