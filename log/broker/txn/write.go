package txn

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddPartitionsToTxn, versions 0 to 5: 2 brought PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH, 3 flexible encoding, 4 several
// transactions in a request and a mode that only asks. AddOffsetsToTxn, versions 0 to 4, likewise (4: TRANSACTION_ABORTABLE). In the
// newer flow neither is used: writing adds.

// Hold is a transaction that somebody writes in: it cannot end before Release.
type Hold struct{ s *slot }

// Has reports whether a partition belongs to the transaction.
func (h Hold) Has(p Partition) bool { return h.s.t.has(p) }

// Release lets the transaction end.
func (h Hold) Release() { h.s.mu.Unlock() }

// Hold checks that a producer may write in its transaction. With add the partitions become part of it; without, the caller asks Has for
// each. Code 0 means that the transaction is held, and that the caller must call Release soon, without having waited for anything.
func (c *Coordinator) Hold(p Producer, add bool, parts []Partition) (h Hold, code int16, err error) {
	s := c.lock(p.TransactionalID)
	if s == nil {
		return h, kerr.InvalidProducerIDMapping.Code, nil
	}
	code = s.t.check(p)
	if code == 0 && add && (s.t.state != ongoing || !s.t.hasAll(parts)) {
		err = c.extend(s, parts)
		code, err = codeOf(err), unknown(err)
	}
	// Else a loss of power could take the record that it has begun and leave the data, as if of the transaction before.
	if code == 0 && s.begun > c.log.HighWatermark() {
		code = kerr.ConcurrentTransactions.Code
	}
	if code != 0 {
		s.mu.Unlock()
		return h, code, err
	}
	return Hold{s}, 0, nil
}

// add makes partitions part of a transaction. What it wrote ends at end.
func (c *Coordinator) add(p Producer, parts []Partition) (end int64, code int16, err error) {
	s := c.lock(p.TransactionalID)
	if s == nil {
		return 0, kerr.InvalidProducerIDMapping.Code, nil
	}
	defer s.mu.Unlock()
	if code := s.t.check(p); code != 0 {
		return 0, code, nil
	}
	if s.t.state != ongoing || !s.t.hasAll(parts) {
		if err := c.extend(s, parts); err != nil {
			return 0, codeOf(err), unknown(err)
		}
	}
	return s.end, 0, nil
}

// verify says for each partition whether it belongs to the transaction.
func (c *Coordinator) verify(p Producer, parts []Partition) (codes []int16, code int16) {
	s := c.lock(p.TransactionalID)
	if s == nil {
		return nil, kerr.InvalidProducerIDMapping.Code
	}
	defer s.mu.Unlock()
	if code := s.t.check(p); code != 0 {
		return nil, code
	}
	codes = make([]int16, len(parts))
	for i, part := range parts {
		if !s.t.has(part) {
			codes[i] = kerr.TransactionAbortable.Code
		}
	}
	return codes, 0
}

// AddPartitionsToTxn carries out an AddPartitionsToTxn request. A transaction gets all of its partitions, or none.
func (c *Coordinator) AddPartitionsToTxn(req *kmsg.AddPartitionsToTxnRequest, done func(*kmsg.AddPartitionsToTxnResponse, error)) {
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	txns := req.Transactions
	if req.Version < 4 {
		one := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch}
		for _, t := range req.Topics {
			one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		txns = []kmsg.AddPartitionsToTxnRequestTransaction{one}
	}
	end := int64(0)
	for i := range txns {
		out, to, err := c.addAll(&txns[i], req.Version)
		if err != nil {
			done(resp, err)
			return
		}
		end = max(end, to)
		if req.Version >= 4 {
			resp.Transactions = append(resp.Transactions, out)
			continue
		}
		for _, t := range out.Topics {
			rt := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.Partition, ErrorCode: p.ErrorCode})
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	c.log.AfterDurable(end, func(err error) { done(resp, err) })
}

// addAll answers for one transaction.
func (c *Coordinator) addAll(q *kmsg.AddPartitionsToTxnRequestTransaction, version int16) (out kmsg.AddPartitionsToTxnResponseTransaction, end int64, err error) {
	out.TransactionalID = q.TransactionalID
	var parts []Partition
	missing := false
	for _, t := range q.Topics {
		rt := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: t.Topic}
		for _, n := range t.Partitions {
			rp := kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: n}
			if c.data.Partition(t.Topic, n) == nil {
				rp.ErrorCode, missing = kerr.UnknownTopicOrPartition.Code, true
			} else {
				parts = append(parts, Partition{t.Topic, n})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		out.Topics = append(out.Topics, rt)
	}
	p := Producer{q.TransactionalID, q.ProducerID, q.ProducerEpoch}
	var codes []int16
	var code int16
	switch {
	case q.TransactionalID == "":
		code = kerr.InvalidRequest.Code
	case missing:
		code = kerr.OperationNotAttempted.Code
	case q.VerifyOnly:
		codes, code = c.verify(p, parts)
	default:
		end, code, err = c.add(p, parts)
	}
	if code == kerr.ProducerFenced.Code && version < 2 {
		code = kerr.InvalidProducerEpoch.Code
	}
	i := 0
	for j := range out.Topics {
		ps := out.Topics[j].Partitions
		for k := range ps {
			if ps[k].ErrorCode != 0 {
				continue
			}
			if ps[k].ErrorCode = code; codes != nil {
				ps[k].ErrorCode = codes[i]
			}
			i++
		}
	}
	return out, end, err
}

// AddOffsetsToTxn carries out an AddOffsetsToTxn request: the partition that offsets are kept in becomes part of the transaction.
func (c *Coordinator) AddOffsetsToTxn(req *kmsg.AddOffsetsToTxnRequest, done func(*kmsg.AddOffsetsToTxnResponse, error)) {
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	var end int64
	var err error
	switch {
	case req.TransactionalID == "":
		resp.ErrorCode = kerr.InvalidRequest.Code
	default:
		end, resp.ErrorCode, err = c.add(Producer{req.TransactionalID, req.ProducerID, req.ProducerEpoch}, c.offsetsPart())
	}
	if resp.ErrorCode == kerr.ProducerFenced.Code && req.Version < 2 {
		resp.ErrorCode = kerr.InvalidProducerEpoch.Code
	}
	if err != nil {
		done(resp, err)
		return
	}
	c.log.AfterDurable(end, func(err error) { done(resp, err) })
}

func (c *Coordinator) offsetsPart() []Partition { return []Partition{{c.offsets.OffsetsTopic(), 0}} }

// TxnOffsetCommit lets commit run while the transaction of its offsets cannot end, or answers why it may not. Versions 0 to 5 of
// TxnOffsetCommit: 2 brought leader epochs, 3 the member that commits and flexible encoding, 4 TRANSACTION_ABORTABLE, 5 the newer
// flow. commit must not wait.
func (c *Coordinator) TxnOffsetCommit(req *kmsg.TxnOffsetCommitRequest, commit func()) (code int16, err error) {
	if req.TransactionalID == "" {
		return kerr.InvalidRequest.Code, nil
	}
	part := c.offsetsPart()
	h, code, err := c.Hold(Producer{req.TransactionalID, req.ProducerID, req.ProducerEpoch}, req.Version >= 5, part)
	switch {
	case code == kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code, nil
	case code != 0 || err != nil:
		return code, err
	}
	defer h.Release()
	if !h.Has(part[0]) {
		if req.Version >= 4 {
			return kerr.TransactionAbortable.Code, nil
		}
		return kerr.InvalidTxnState.Code, nil
	}
	commit()
	return 0, nil
}

// listed groups partitions by topic, in order.
func listed(parts []Partition) (topics []string, numbers [][]int32) {
	for _, p := range parts {
		if n := len(topics); n == 0 || topics[n-1] != p.Topic {
			topics, numbers = append(topics, p.Topic), append(numbers, nil)
		}
		at := len(numbers) - 1
		numbers[at] = append(numbers[at], p.Partition)
	}
	return topics, slices.Clip(numbers)
}
