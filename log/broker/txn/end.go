package txn

import (
	"fmt"
	goruntime "runtime"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// EndTxn, versions 0 to 5. 2 brought PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH, 3 flexible encoding, 4
// TRANSACTION_ABORTABLE, which does not occur here, 5 the newer flow: the answer has the epoch of the next transaction. The answer
// comes when the markers are written; Kafka's comes before.

// verdict on a request to end a transaction.
type verdict int8

const (
	refused verdict = iota
	ends            // the decision is to be recorded
	ended           // it repeats a request that was carried out
	waits           // it repeats one that is being carried out
)

// judge decides on a request to end a transaction, in the flow of that version.
func (t *txn) judge(p Producer, commit bool, version int16) (verdict, int16) {
	newer := version >= 2
	// In the newer flow a request that is repeated still has the epoch that ended with its transaction.
	again := false
	if newer && t.state != ongoing && t.state != empty && p.Epoch >= 0 {
		again = t.version >= 2 && p.ID == t.pid && p.Epoch == t.epoch-1 ||
			p.ID == t.prevPID && p.ID != t.pid && p.Epoch == lastEpoch && t.epoch == 0
	}
	switch {
	case p.ID == t.pid && t.epoch > lastEpoch:
		return refused, kerr.ProducerFenced.Code // it is nobody's
	case again:
	case p.ID != t.pid:
		return refused, kerr.InvalidProducerIDMapping.Code
	case p.Epoch != t.epoch, newer && t.preparing():
		return refused, kerr.ProducerFenced.Code
	}
	switch t.state {
	case ongoing:
		return ends, 0
	case prepareCommit, prepareAbort:
		if commit == t.commits() {
			return waits, 0
		}
	case completeCommit, completeAbort:
		switch {
		case commit == t.commits() && (again || !newer):
			return ended, 0
		case newer && !again && !commit:
			return ends, 0 // nothing was written since; the producer wants another epoch all the same
		}
	case empty:
		if newer && !commit {
			return ends, 0
		}
	}
	return refused, kerr.InvalidTxnState.Code
}

// EndTxn carries out an EndTxn request.
func (c *Coordinator) EndTxn(req *kmsg.EndTxnRequest, done func(*kmsg.EndTxnResponse, error)) {
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID == "" {
		resp.ErrorCode = kerr.InvalidRequest.Code
		done(resp, nil)
		return
	}
	err := c.background(func() {
		version := int16(0)
		if req.Version >= 5 {
			version = 2
		}
		pid, epoch, code, err := c.end(Producer{req.TransactionalID, req.ProducerID, req.ProducerEpoch}, req.Commit, version)
		if code == kerr.ProducerFenced.Code && req.Version < 2 {
			code = kerr.InvalidProducerEpoch.Code
		}
		if resp.ErrorCode = code; code == 0 {
			resp.ProducerID, resp.ProducerEpoch = pid, epoch
		}
		done(resp, err)
	})
	if err != nil {
		done(resp, err)
	}
}

func (c *Coordinator) end(p Producer, commit bool, version int16) (pid int64, epoch int16, code int16, err error) {
	newPID := int64(-1)
	for {
		s := c.lock(p.TransactionalID)
		if s == nil {
			return 0, 0, kerr.InvalidProducerIDMapping.Code, nil
		}
		v, code := s.t.judge(p, commit, version)
		switch v {
		case refused:
			s.mu.Unlock()
			return 0, 0, code, nil
		case ended:
			pid, epoch = s.t.pid, s.t.epoch
			s.mu.Unlock()
			return pid, epoch, 0, nil
		case ends:
			if version >= 2 && s.t.exhausted() && newPID < 0 {
				s.mu.Unlock()
				if newPID, err = c.ids(); err != nil {
					return 0, 0, codeOf(err), unknown(err)
				}
				continue
			}
			if err := c.write(s, s.t.decide(commit, version, newPID, c.nowMs()), false); err != nil {
				s.mu.Unlock()
				return 0, 0, codeOf(err), unknown(err)
			}
		}
		// The decision is durable when settle returns, whether all markers are written or not.
		next := s.t.complete(0)
		return next.pid, next.epoch, 0, c.settle(s)
	}
}

// settle carries out what a transaction has decided. s is locked and is unlocked. It returns when all is done, or when what is left
// has to be tried again because a disk is full; the decision is durable then. Errors: the outcome is unknown.
func (c *Coordinator) settle(s *slot) error {
	if other := s.ending; other != nil {
		s.mu.Unlock()
		select {
		case <-other.through:
			return other.err
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
	own := &ending{through: make(chan struct{})}
	s.ending = own
	t, end, parts := s.t, s.end, s.t.parts
	if s.left != nil {
		parts = s.left
	}
	s.mu.Unlock()

	left, err := c.carryOut(&t, parts, end)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.left = left; len(left) == 0 {
			err = c.completed(s)
		}
	}
	s.ending, own.err = nil, err
	close(own.through)
	return err
}

// carryOut writes the markers of a decided transaction once its record, which ends at end, is durable. It returns the partitions whose
// marker could not be written.
func (c *Coordinator) carryOut(t *txn, parts []Partition, end int64) (left []Partition, err error) {
	if err := c.log.WaitDurable(c.ctx, end); err != nil {
		return nil, fmt.Errorf("decide transaction of %q: %w", t.id, err)
	}
	m := c.newMarks()
	defer m.kicks.Start() // where it ends early
	for _, p := range parts {
		if err := m.write(p, t.pid, t.epoch, t.commits()); err != nil {
			if unknown(err) != nil {
				return nil, fmt.Errorf("end transaction of %q: %w", t.id, err)
			}
			left = append(left, p)
		}
	}
	return left, m.wait()
}

// marks writes markers to many partitions and waits for all of them at once.
type marks struct {
	c       *Coordinator
	now     int64
	epoch   int32
	written []mark
	kicks   store.Kicks
}

type mark struct {
	p   *store.Partition
	end int64
}

func (c *Coordinator) newMarks() *marks {
	return &marks{c: c, now: c.nowMs(), epoch: c.log.LeaderEpoch()}
}

// write ends the transaction of a producer in one partition.
func (m *marks) write(p Partition, pid int64, epoch int16, commit bool) error {
	part := m.c.data.Partition(p.Topic, p.Partition)
	if part == nil {
		return nil // the topic was deleted
	}
	v := batch.NewMarker(pid, epoch, batch.Marker{Commit: commit, CoordinatorEpoch: m.epoch}, m.now)
	a, err := m.c.append(p, part, v, store.AppendOpts{Kicks: &m.kicks, Decided: true})
	code, ok := batch.CodeOf(err)
	_, open := part.OpenTxn(pid)
	switch {
	case err == nil:
		m.written = append(m.written, mark{part, a.End})
		return nil
	case ok && code == batch.UnknownTopicOrPartition: // deleted meanwhile
		return nil
	case ok && code == batch.InvalidProducerEpoch && !open: // a later transaction was there: this one's marker stands already
		return nil
	}
	m.c.lg.Error("end of a transaction could not be written; it is tried again", "topic", p.Topic, "partition", p.Partition, "producerId", pid, "producerEpoch", epoch, "commit", commit, "error", err)
	return err
}

// append writes a marker. Where offsets are kept, those of the transaction are settled with it.
func (c *Coordinator) append(p Partition, part *store.Partition, marker batch.View, o store.AppendOpts) (store.Appended, error) {
	if p.Topic == c.offsets.OffsetsTopic() {
		return c.offsets.EndTxn(marker)
	}
	o.Origin = store.FromCoordinator
	return part.Append([]batch.View{marker}, o)
}

// wait returns when all that was written is durable. Errors: the outcome is unknown.
func (m *marks) wait() error {
	// Readers were woken by the markers. A sync keeps the processor until the runtime notices, which is longer than they need.
	goruntime.Gosched()
	m.kicks.Start()
	for _, w := range m.written {
		err := w.p.WaitDurable(m.c.ctx, w.end)
		if code, ok := batch.CodeOf(err); ok && code == batch.UnknownTopicOrPartition {
			continue // deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("end of a transaction: %w", err)
		}
	}
	return nil
}
