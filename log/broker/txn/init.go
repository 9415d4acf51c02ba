package txn

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, for producers with a transactional id: versions 0 to 5. 2 brought flexible encoding, 3 the id and epoch that the
// producer has, 4 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH, 5 nothing. An open transaction is aborted first; Kafka answers
// CONCURRENT_TRANSACTIONS meanwhile, here the answer comes when it is done.

// expects says whether a producer that names the id and epoch that it has may initialise. Without it is another one's place to do so.
func (t *txn) expects(pid int64, epoch int16) bool {
	switch {
	case pid < 0 || t.epoch < 0:
		return true
	case pid == t.pid:
		return epoch == t.epoch || epoch == t.lastEpoch && t.state != ongoing
	default:
		// The answer in which it got a new id was lost.
		return pid == t.prevPID && epoch >= lastEpoch
	}
}

// initialise gives the next epoch to a producer, or newPID when the epochs have run out. pid and epoch are those that it has, −1
// for none. ok is false when newPID is needed and is −1.
func (t txn) initialise(pid int64, epoch int16, newPID int64, timeout int32, embedded bool, now int64) (_ txn, ok bool) {
	named := pid >= 0
	switch {
	case t.exhausted() && (!named || pid == t.pid && epoch == t.epoch):
		if newPID < 0 {
			return t, false
		}
		t.prevPID, t.lastEpoch = t.pid, -1
		if named {
			t.lastEpoch = t.epoch
		}
		t.pid, t.epoch = newPID, 0
	case !named || t.epoch < 0:
		t.prevPID, t.lastEpoch = t.pid, -1
		t.epoch++
	case pid == t.pid && epoch == t.epoch:
		t.prevPID, t.lastEpoch = t.pid, t.epoch
		t.epoch++
	default:
		// It repeats a request that was carried out.
	}
	t.state, t.parts, t.start, t.updated = empty, nil, -1, now
	t.version, t.nextPID = 0, -1
	t.timeout, t.embedded = timeout, embedded
	return t, true
}

// InitProducerID carries out the request of a producer with a transactional id. embedded says that it came over the in-memory
// connection.
func (c *Coordinator) InitProducerID(req *kmsg.InitProducerIDRequest, embedded bool, done func(*kmsg.InitProducerIDResponse, error)) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	id := *req.TransactionalID
	var code int16
	switch {
	case id == "" || len(id) > maxID, (req.ProducerID < 0) != (req.ProducerEpoch < 0):
		code = kerr.InvalidRequest.Code
	case req.TransactionTimeoutMillis <= 0 || req.TransactionTimeoutMillis > int32(c.limits.MaxTimeout.Milliseconds()):
		code = kerr.InvalidTransactionTimeout.Code
	}
	if code != 0 {
		resp.ErrorCode = code
		done(resp, nil)
		return
	}
	err := c.background(func() {
		pid, epoch, code, err := c.initialise(id, req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis, embedded)
		if code == kerr.ProducerFenced.Code && req.Version < 4 {
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

func (c *Coordinator) initialise(id string, pid int64, epoch int16, timeout int32, embedded bool) (_ int64, _ int16, code int16, err error) {
	newPID, had := int64(-1), int16(-1)
	for tries := 0; ; tries++ {
		s, code := c.findOrMake(id)
		if code != 0 {
			return -1, -1, code, nil
		}
		s.mu.Lock()
		if s.gone {
			s.mu.Unlock()
			continue
		}
		if s.t.preparing() {
			if tries > 0 && s.ending == nil { // it was tried, and the disk is full
				s.mu.Unlock()
				return -1, -1, kerr.ConcurrentTransactions.Code, nil
			}
			if err := c.settle(s); err != nil { // unlocks
				return -1, -1, 0, err
			}
			continue
		}
		if !s.t.expects(pid, epoch) {
			s.mu.Unlock()
			return -1, -1, kerr.ProducerFenced.Code, nil
		}
		if s.t.state == ongoing {
			next := s.t.fence(c.nowMs())
			if pid >= 0 {
				next.lastEpoch = epoch                        // it may have to ask again
				had, pid, epoch = epoch, next.pid, next.epoch // it is still the one that asks
			}
			if err := c.write(s, next, false); err != nil {
				s.mu.Unlock()
				return -1, -1, codeOf(err), unknown(err)
			}
			if err := c.settle(s); err != nil {
				return -1, -1, 0, err
			}
			continue
		}
		if s.t.pid < 0 && newPID < 0 || s.t.exhausted() && newPID < 0 {
			s.mu.Unlock()
			if newPID, err = c.ids(); err != nil {
				return -1, -1, codeOf(err), unknown(err)
			}
			continue
		}
		was := s.t
		if was.pid < 0 {
			was.pid = newPID
		}
		next, ok := was.initialise(pid, epoch, newPID, timeout, embedded, c.nowMs())
		if !ok {
			s.mu.Unlock()
			continue
		}
		if had >= 0 {
			next.lastEpoch = had
		}
		if err := c.write(s, next, false); err != nil {
			s.mu.Unlock()
			return -1, -1, codeOf(err), unknown(err)
		}
		end := s.end
		s.mu.Unlock()
		return next.pid, next.epoch, 0, c.log.WaitDurable(c.ctx, end)
	}
}
