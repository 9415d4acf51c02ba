package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// Offsets that are committed in a transaction: TxnOffsetCommit, versions 0 to 5. They stand in the log at once, in a batch of the
// transaction, and count when its marker says commit. Package txn has the rules of transactions; here is what they mean for groups.
//
// Of two commits of a partition the one whose record stands later in the log counts, whenever its transaction ended: so it is when
// the log is compacted.

// commitInTxn takes offsets up that count when the producer's transaction is committed, and returns a code for each.
func (g *group) commitInTxn(e *env, p batch.Producer, in commitIn) []int16 {
	in.transaction = true
	return g.commitWith(e, in, func(records []record) int16 {
		if err := e.appendInTxn(p, records); err != nil {
			if code, ok := batch.CodeOf(err); ok && code != batch.StorageError {
				return int16(code)
			}
			return kerr.CoordinatorNotAvailable.Code
		}
		return 0
	}, func(o committed) { g.setPending(p.ID, o.partition, o.offset) })
}

func (g *group) setPending(producerID int64, p partition, o offset) {
	if g.txns == nil {
		g.txns = map[int64]map[partition]offset{}
	}
	ps := g.txns[producerID]
	if ps == nil {
		ps = map[partition]offset{}
		g.txns[producerID] = ps
	}
	ps[p] = o
}

// isPending says that a transaction that is open will decide about the partition's offset.
func (g *group) isPending(p partition) bool {
	for _, ps := range g.txns {
		if _, ok := ps[p]; ok {
			return true
		}
	}
	return false
}

// dropPending forgets what transactions have committed of a partition: a tombstone has come after it.
func (g *group) dropPending(p partition) {
	for id, ps := range g.txns {
		if delete(ps, p); len(ps) == 0 {
			delete(g.txns, id)
		}
	}
}

// endTxn lets the offsets of a producer's transaction count, or forgets them.
func (g *group) endTxn(producerID int64, commit bool) {
	for p, o := range g.txns[producerID] {
		if old, ok := g.fetch(p); commit && (!ok || old.at < o.at) {
			g.setOffset(p, o)
		}
	}
	delete(g.txns, producerID)
}

// allPartitions lists those that have an offset, or one that a transaction will decide about.
func (g *group) allPartitions() []partition {
	ps := g.partitions(g.sortedTopics()...)
	for _, pending := range g.txns {
		ps = slices.AppendSeq(ps, maps.Keys(pending))
	}
	slices.SortFunc(ps, comparePartitions)
	return slices.Compact(ps)
}

// TxnOffsetCommit carries out a TxnOffsetCommit request. The caller has the producer's transaction in hand: it does not end meanwhile,
// and the topic of offsets belongs to it.
func (c *Coordinator) TxnOffsetCommit(req *kmsg.TxnOffsetCommitRequest, done func(*kmsg.TxnOffsetCommitResponse, error)) {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	now := time.Now().UnixMilli()
	in := commitIn{committer: committer{id: req.MemberID, generation: req.Generation}}
	if req.Version < 3 {
		in.id, in.generation = "", -1
	}
	instance, code := instanceID(req.InstanceID)
	in.instance = instance
	if req.Group == "" || tooLong(req.Group) {
		code = kerr.InvalidGroupID.Code
	}
	var taken []*int16 // where the code of each offset in goes
	for _, t := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		id, partitions, ok := c.topics.TopicByName(t.Topic)
		for i, p := range t.Partitions {
			rp := &rt.Partitions[i]
			rp.Partition = p.Partition
			o := offset{offset: p.Offset, leaderEpoch: -1, committed: now, expire: -1, topicID: id}
			if req.Version >= 2 {
				o.leaderEpoch = p.LeaderEpoch
			}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			switch {
			case !ok || p.Partition < 0 || p.Partition >= partitions:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case len(o.metadata) > c.limits.MaxMetadata:
				rp.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			default:
				in.offsets = append(in.offsets, committed{partition{t.Topic, p.Partition}, o})
				taken = append(taken, &rp.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	answer := func(code int16) {
		for _, p := range taken {
			*p = code
		}
	}
	if code != 0 {
		answer(code)
		done(resp, nil)
		return
	}
	found, err := c.with(req.Group, in.generation < 0, func(s *slot, e *env) {
		for i, code := range s.g.commitInTxn(e, batch.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch, Sequence: -1}, in) {
			*taken[i] = code
		}
		if s.g.txns[req.ProducerID] != nil {
			c.enterTxn(req.ProducerID, req.Group)
		}
		c.later(s, func(err error) { done(resp, err) })
	})
	if err != nil || !found {
		answer(kerr.IllegalGeneration.Code)
		done(resp, err)
	}
}

// RefuseTxnOffsetCommit answers a TxnOffsetCommit request with one code for all.
func RefuseTxnOffsetCommit(req *kmsg.TxnOffsetCommitRequest, code int16) *kmsg.TxnOffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// enterTxn notes that a group has offsets in a producer's transaction.
func (c *Coordinator) enterTxn(producerID int64, group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inTxn[producerID] == nil {
		c.inTxn[producerID] = map[string]bool{}
	}
	c.inTxn[producerID][group] = true
}

// OffsetsTopic is the topic that offsets are kept in.
func (c *Coordinator) OffsetsTopic() string { return Topic }

// EndTxn writes the marker of a producer's transaction to the log; then the offsets that were committed in it count, or are forgotten.
// No answer tells of them before the marker is durable.
func (c *Coordinator) EndTxn(marker batch.View) (store.Appended, error) {
	a, err := c.log.Append([]batch.View{marker}, store.AppendOpts{Origin: store.FromCoordinator})
	if err != nil {
		return a, err
	}
	m, _, _ := marker.Marker() // the log has checked it
	id := marker.ProducerID()
	c.mu.Lock()
	groups := slices.Sorted(maps.Keys(c.inTxn[id]))
	delete(c.inTxn, id)
	c.mu.Unlock()
	for _, name := range groups {
		// An error means that the coordinator is closed: nobody asks any more, and the next one reads the marker.
		_, _ = c.with(name, false, func(s *slot, e *env) {
			s.g.endTxn(id, m.Commit)
			s.end = max(s.end, a.End)
		})
	}
	return a, nil
}
