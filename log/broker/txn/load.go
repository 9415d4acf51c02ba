package txn

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// load reads the state, and brings it and the partitions in line: after it, every transaction that is open in a partition is one that
// is open here.
func (c *Coordinator) load() error {
	began := time.Now()
	values := map[string][]byte{}
	records := 0
	err := c.log.Replay(c.log.LogStart(), func(v batch.View) error {
		if v.IsControl() {
			return nil
		}
		for r, err := range v.Records() {
			if err != nil {
				return err
			}
			records++
			if r.Value == nil {
				delete(values, string(r.Key))
			} else {
				values[string(r.Key)] = bytes.Clone(r.Value)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read transactions from %s: %w", Topic, err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		id, known, err := parseKey([]byte(key))
		if !known && err == nil {
			continue
		}
		var t txn
		if err == nil {
			t, err = parseValue(id, values[key])
		}
		if err != nil {
			c.lg.Error("record of a transaction cannot be read and is passed over", "topic", Topic, "key", fmt.Sprintf("%.64x", key), "error", err)
			continue
		}
		if t.state != dead {
			c.slots[id] = &slot{t: t}
		}
	}
	if err := c.reconcile(); err != nil {
		return err
	}
	if records > 0 {
		c.lg.Info("transactions loaded", "transactionalIds", len(c.slots), "records", records, "took", time.Since(began))
	}
	return nil
}

// found is what is open in partitions, by what is to become of it.
type found struct {
	own    map[*slot][]Partition // written in the transaction that is open, or in one that began after the last that is known
	ending map[*slot][]Partition // written in the one that is decided
	ghosts []ghost               // written in one that is over, or by nobody who is known
}

type ghost struct {
	Partition
	store.OpenTxn
	commit bool
}

func (c *Coordinator) findOpen() found {
	f := found{own: map[*slot][]Partition{}, ending: map[*slot][]Partition{}}
	byPID := map[int64]*slot{}
	for _, s := range c.slots {
		for _, pid := range [...]int64{s.t.prevPID, s.t.nextPID} {
			if byPID[pid] == nil {
				byPID[pid] = s
			}
		}
	}
	for _, s := range c.slots {
		byPID[s.t.pid] = s
	}
	for p, part := range c.data.All() {
		for _, o := range part.OpenTxns() {
			s := byPID[o.ProducerID]
			if s == nil {
				f.ghosts = append(f.ghosts, ghost{p, o, false})
				continue
			}
			t := &s.t
			current := o.ProducerID == t.pid && o.Epoch == t.epoch || o.ProducerID == t.nextPID && o.Epoch == 0
			over := t.state == completeCommit || t.state == completeAbort
			switch {
			case t.preparing() && t.wrote(o.ProducerID, o.Epoch):
				f.ending[s] = append(f.ending[s], p)
			case over && t.wrote(o.ProducerID, o.Epoch):
				f.ghosts = append(f.ghosts, ghost{p, o, t.commits()}) // its marker was not synced
			case current:
				f.own[s] = append(f.own[s], p)
			default:
				f.ghosts = append(f.ghosts, ghost{p, o, false})
			}
		}
	}
	return f
}

// reconcile ends what is decided, takes in what was written without a record, and aborts what belonged to the process before. What a
// full disk keeps it from is left to the scan.
func (c *Coordinator) reconcile() error {
	f := c.findOpen()
	for _, g := range f.ghosts {
		c.lg.Warn("a transaction of which no record is left is ended", "topic", g.Topic, "partition", g.Partition.Partition, "producerId", g.ProducerID, "producerEpoch", g.Epoch, "firstOffset", g.First, "commit", g.commit)
	}
	c.ghosts = f.ghosts
	var decided, embedded []*slot
	for _, s := range c.slots {
		if s.t.preparing() {
			decided = append(decided, s)
		}
	}
	if err := c.endGhosts(); err != nil {
		return err
	}
	if err := c.endAll(decided, f.ending); err != nil {
		return err
	}
	now := c.nowMs()
	for s, own := range f.own {
		if s.t.preparing() || s.t.state == ongoing && s.t.hasAll(own) {
			continue
		}
		// The record was lost, though the write may have been acknowledged. Its producer goes on with it.
		next := s.t.add(own, now)
		if err := c.write(s, next, false); unknown(err) != nil {
			return err
		}
		s.t = next
	}
	for _, s := range c.slots {
		if s.t.state == ongoing && s.t.embedded {
			c.lg.Info("transaction of the process before is aborted", "transactionalId", s.t.id, "producerId", s.t.pid, "producerEpoch", s.t.epoch)
			if err := c.write(s, s.t.fence(now), false); err == nil {
				embedded = append(embedded, s)
			} else if unknown(err) != nil {
				return err
			}
		}
	}
	return c.endAll(embedded, f.own)
}

// endAll carries out what transactions have decided, all at once.
func (c *Coordinator) endAll(slots []*slot, open map[*slot][]Partition) error {
	if len(slots) == 0 {
		return nil
	}
	var end int64
	for _, s := range slots {
		end = max(end, s.end)
	}
	if err := c.log.WaitDurable(c.ctx, end); err != nil {
		return fmt.Errorf("decide transactions: %w", err)
	}
	m := c.newMarks()
	defer m.kicks.Start() // where it ends early
	for _, s := range slots {
		s.left = []Partition{}
		for _, p := range open[s] {
			if err := m.write(p, s.t.pid, s.t.epoch, s.t.commits()); unknown(err) != nil {
				return err
			} else if err != nil {
				s.left = append(s.left, p)
			}
		}
	}
	if err := m.wait(); err != nil {
		return err
	}
	for _, s := range slots {
		if len(s.left) > 0 {
			continue
		}
		if err := c.completed(s); err != nil {
			return err
		}
	}
	return nil
}

// endGhosts ends what nobody else will.
func (c *Coordinator) endGhosts() error {
	if len(c.ghosts) == 0 {
		return nil
	}
	m := c.newMarks()
	defer m.kicks.Start() // where it ends early
	c.ghosts = slices.DeleteFunc(c.ghosts, func(g ghost) bool {
		return m.write(g.Partition, g.ProducerID, g.Epoch, g.commit) == nil
	})
	return m.wait()
}
