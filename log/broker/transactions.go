package broker

import (
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/broker/group"
	"millrace/log/broker/txn"
	"millrace/log/internal/batch"
	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
	"millrace/log/internal/wire"
)

// The requests of transactions: InitProducerId (key 22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26), WriteTxnMarkers
// (27), TxnOffsetCommit (28), DescribeTransactions (65), ListTransactions (66). Package txn has their rules and says what each version
// added; here they are connected. DescribeProducers (61), version 0, tells what a partition knows.

// OpenTxns reads the transactions of a catalogue's store, and makes their topic if it is missing. Groups are those of the same
// catalogue. The server that gets them must be closed before they are, and they before the groups.
func OpenTxns(cat *catalog.Catalog, groups *group.Coordinator, o txn.Options) (*txn.Coordinator, error) {
	t := cat.Topic(txn.Topic)
	if t == nil {
		var err error
		if t, err = cat.Create(catalog.Spec{Name: txn.Topic, Partitions: 1, Configs: internalConfigs()}); err != nil {
			return nil, fmt.Errorf("create %s: %w", txn.Topic, err)
		}
	}
	return txn.Open(t.Partition(0), partitions{cat}, groups, cat.ProducerID, o)
}

// partitions shows the catalogue to the coordinator of transactions.
type partitions struct{ cat *catalog.Catalog }

func (p partitions) Partition(topic string, n int32) *store.Partition {
	if t := p.cat.Topic(topic); t != nil {
		return t.Partition(n)
	}
	return nil
}

func (p partitions) All() iter.Seq2[txn.Partition, *store.Partition] {
	return func(yield func(txn.Partition, *store.Partition) bool) {
		for _, t := range p.cat.Topics() {
			for n := range t.Partitions() {
				if !yield(txn.Partition{Topic: t.Name, Partition: n}, t.Partition(n)) {
					return
				}
			}
		}
	}
}

func (s *Server) txnHandlers() map[int16]handler {
	t := s.opt.Txns
	if t == nil {
		return nil
	}
	return map[int16]handler{
		wire.AddPartitionsToTxn: waits(t.AddPartitionsToTxn),
		wire.AddOffsetsToTxn:    waits(t.AddOffsetsToTxn),
		wire.EndTxn:             waits(t.EndTxn),
		wire.WriteTxnMarkers:    waits(t.WriteTxnMarkers),
		wire.TxnOffsetCommit:    s.txnOffsetCommit,
		wire.DescribeTransactions: inline(func(_ *call, req *kmsg.DescribeTransactionsRequest) kmsg.Response {
			return t.DescribeTransactions(req)
		}),
		wire.ListTransactions: inline(func(_ *call, req *kmsg.ListTransactionsRequest) kmsg.Response {
			return t.ListTransactions(req)
		}),
		wire.DescribeProducers: inline(s.describeProducers),
	}
}

func (s *Server) txnOffsetCommit(c *call) {
	req := c.req.(*kmsg.TxnOffsetCommitRequest)
	done := answer[*kmsg.TxnOffsetCommitResponse](c)
	code, err := s.opt.Txns.TxnOffsetCommit(req, func() { s.opt.Groups.TxnOffsetCommit(req, done) })
	switch {
	case err != nil:
		c.drop(err)
	case code != 0:
		c.reply(group.RefuseTxnOffsetCommit(req, code))
	}
}

func (s *Server) describeProducers(_ *call, req *kmsg.DescribeProducersRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeProducersResponse()
	for _, t := range req.Topics {
		topic := s.cat.Topic(t.Topic)
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, n := range t.Partitions {
			rp := kmsg.NewDescribeProducersResponseTopicPartition()
			rp.Partition = n
			var p *store.Partition
			if topic != nil {
				p = topic.Partition(n)
			}
			if p == nil {
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else {
				for _, i := range p.Producers() {
					a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
					a.ProducerID, a.ProducerEpoch, a.LastSequence = i.ID, int32(i.Epoch), i.LastSequence
					a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = i.LastTimestamp, i.CoordinatorEpoch, i.TxnFirst
					rp.ActiveProducers = append(rp.ActiveProducers, a)
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// txnWrite is the transaction of a Produce request while its records are written.
type txnWrite struct {
	txn.Hold
	held    bool
	p       txn.Producer
	refused error // what answers transactional records when it is not held
}

func (w *txnWrite) release() {
	if w.held {
		w.Release()
	}
}

// holdTxn takes the transaction of a request in hand, if there is one: it cannot end before its records are written. From version 12
// on writing to a partition makes it part of the transaction. An error means that the outcome is unknown.
func (s *Server) holdTxn(c *call, d *produced) (w txnWrite, err error) {
	if d.req.TransactionalID == nil || s.opt.Txns == nil {
		w.refused = kerr.TransactionalIDAuthorizationFailed
		return w, nil
	}
	var parts []txn.Partition
	for i := range d.req.Topics {
		t := &d.req.Topics[i]
		topic, _ := s.produceTopic(c, t)
		if topic == nil || catalog.IsInternal(topic.Name) {
			continue
		}
		for _, part := range d.req.Parts[t.From:t.To] {
			v, _, err := batch.Next(part.Records)
			if err != nil || !v.Transactional() || topic.Partition(part.Partition) == nil {
				continue
			}
			if len(parts) == 0 {
				w.p = txn.Producer{TransactionalID: string(d.req.TransactionalID), ID: v.ProducerID(), Epoch: v.ProducerEpoch()}
			}
			parts = append(parts, txn.Partition{Topic: topic.Name, Partition: part.Partition})
		}
	}
	if len(parts) == 0 {
		w.refused = kerr.InvalidTxnState // the first batch of a partition says what the others are
		return w, nil
	}
	h, code, err := s.opt.Txns.Hold(w.p, c.h.Version >= 12, parts)
	switch {
	case err != nil:
		return w, err
	case code == 0:
		w.Hold, w.held = h, true
	case code == kerr.ProducerFenced.Code:
		w.refused = &batch.Error{Code: batch.InvalidProducerEpoch, Reason: fmt.Sprintf("transactional id %q: epoch %d of producer %d is not the present one", w.p.TransactionalID, w.p.Epoch, w.p.ID)}
	case code == kerr.CoordinatorNotAvailable.Code, code == kerr.ConcurrentTransactions.Code && c.h.Version < 12:
		w.refused = &catalog.Error{Code: kerr.NotEnoughReplicas, Reason: fmt.Sprintf("transactional id %q: the transaction cannot be written to at the moment (%s)", w.p.TransactionalID, kerr.TypedErrorForCode(code).Message)}
	default:
		w.refused = &catalog.Error{Code: kerr.TypedErrorForCode(code), Reason: fmt.Sprintf("transactional id %q, producer %d, epoch %d: %s", w.p.TransactionalID, w.p.ID, w.p.Epoch, kerr.TypedErrorForCode(code).Description)}
	}
	return w, nil
}

// admits says whether a transactional batch may be written to a partition.
func (w *txnWrite) admits(version int16, v batch.View, p txn.Partition) error {
	switch {
	case !w.held:
		return w.refused
	case v.ProducerID() != w.p.ID || v.ProducerEpoch() != w.p.Epoch:
		return &catalog.Error{Code: kerr.InvalidProducerIDMapping, Reason: fmt.Sprintf("the request is of producer %d, epoch %d; a batch is of producer %d, epoch %d", w.p.ID, w.p.Epoch, v.ProducerID(), v.ProducerEpoch())}
	case w.Has(p):
		return nil
	}
	code := kerr.InvalidTxnState
	if version >= 11 {
		code = kerr.TransactionAbortable
	}
	return &catalog.Error{Code: code, Reason: fmt.Sprintf("partition %s-%d was not added to the transaction of %q", p.Topic, p.Partition, w.p.TransactionalID)}
}
