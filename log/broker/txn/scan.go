package txn

import (
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// scanLoop aborts transactions that are open for too long, ends what a full disk kept from ending, and forgets ids that nobody uses.
func (c *Coordinator) scanLoop() {
	t := time.NewTicker(c.limits.ScanEvery)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
			c.scan(c.nowMs())
		}
	}
}

// scan does what is due. It does not wait for what it begins.
func (c *Coordinator) scan(now int64) {
	if err := c.endGhosts(); err != nil && c.ctx.Err() == nil {
		c.lg.Error("a transaction of which no record is left was not ended", "error", err)
	}
	for _, s := range c.all() {
		s.mu.Lock()
		switch {
		case s.gone:
		case s.t.due(now):
			c.lg.Warn("transaction was open for too long and is aborted; its producer is fenced", "transactionalId", s.t.id, "producerId", s.t.pid, "producerEpoch", s.t.epoch, "timeout", time.Duration(s.t.timeout)*time.Millisecond)
			if c.write(s, s.t.fence(now), false) == nil {
				c.endLater(s) // unlocks
				continue
			}
		case s.t.preparing() && s.ending == nil:
			c.endLater(s)
			continue
		case s.t.state != ongoing && !s.t.preparing() && now-s.t.updated > c.limits.IDExpiration.Milliseconds(), s.t.pid < 0 && now-s.t.updated > 60_000:
			c.forget(s)
		}
		s.mu.Unlock()
	}
}

// endLater carries out what a transaction has decided, on a goroutine. s is locked and is unlocked.
func (c *Coordinator) endLater(s *slot) {
	s.mu.Unlock()
	// Once the coordinator is closed, the next start does it.
	_ = c.background(func() {
		s.mu.Lock()
		if !s.t.preparing() {
			s.mu.Unlock()
			return
		}
		if err := c.settle(s); err != nil && c.ctx.Err() == nil {
			c.lg.Error("transaction was not ended", "transactionalId", s.t.id, "error", err)
		}
	})
}

// forget removes an id. s is locked. When the log refuses that, another scan tries again.
func (c *Coordinator) forget(s *slot) {
	if s.t.pid >= 0 {
		r := batch.Record{Timestamp: c.nowMs(), Key: stateKey(s.t.id)}
		if _, err := c.log.Append([]batch.View{batch.Build(batch.Options{}, r)}, store.AppendOpts{Origin: store.FromCoordinator}); err != nil {
			return
		}
	}
	s.gone = true
	c.mu.Lock()
	delete(c.slots, s.t.id)
	c.mu.Unlock()
}
