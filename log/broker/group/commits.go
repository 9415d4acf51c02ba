package group

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests for offsets. OffsetCommit 2–10: up to 4 a retention time, 6 the leader epoch, 7 the instance id, 9 an error of
// its own for a group that is not there, 10 topic ids instead of names. OffsetFetch 1–10: 2 all of a group's offsets and an error for the whole, 5 the leader epoch,
// 7 RequireStable, 8 several groups, 9 the member's epoch (KIP-848), 10 topic ids. OffsetDelete 0.

// OffsetCommit carries out an OffsetCommit request. Partitions that there are not get an error each; the others are committed.
func (c *Coordinator) OffsetCommit(req *kmsg.OffsetCommitRequest, done func(*kmsg.OffsetCommitResponse, error)) {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	now := time.Now().UnixMilli()
	in := commitIn{committer: committer{id: req.MemberID, generation: req.Generation, version: req.Version}}
	instance, code := instanceID(req.InstanceID)
	in.instance = instance
	if tooLong(req.Group) {
		code = kerr.InvalidGroupID.Code
	}
	var taken []*int16 // where the code of each offset in goes
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		name, unknown := t.Topic, kerr.UnknownTopicOrPartition.Code
		if req.Version >= 10 {
			name, _ = c.topics.TopicByID(t.TopicID)
			unknown = kerr.UnknownTopicID.Code
		}
		id, partitions, ok := c.topics.TopicByName(name)
		for i, p := range t.Partitions {
			rp := &rt.Partitions[i]
			rp.Partition = p.Partition
			o := offset{offset: p.Offset, leaderEpoch: -1, committed: now, expire: -1, topicID: id}
			if req.Version >= 6 {
				o.leaderEpoch = p.LeaderEpoch
			}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			if req.Version <= 4 && req.RetentionTimeMillis >= 0 {
				o.expire = now + req.RetentionTimeMillis
			}
			switch {
			case !ok:
				rp.ErrorCode = unknown
			case p.Partition < 0 || p.Partition >= partitions:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case len(o.metadata) > c.limits.MaxMetadata:
				rp.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			default:
				in.offsets = append(in.offsets, committed{partition{name, p.Partition}, o})
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
	found, err := c.with(req.Group, req.Generation < 0, func(s *slot, e *env) {
		for i, code := range s.g.commit(e, in) {
			*taken[i] = code
		}
		c.later(s, func(err error) { done(resp, err) })
	})
	if err != nil || !found {
		code := kerr.IllegalGeneration.Code
		if req.Version >= 9 {
			code = kerr.GroupIDNotFound.Code
		}
		answer(code)
		done(resp, err)
	}
}

// OffsetFetch carries out an OffsetFetch request. A partition without a commit has offset −1.
func (c *Coordinator) OffsetFetch(req *kmsg.OffsetFetchRequest, done func(*kmsg.OffsetFetchResponse, error)) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	groups := req.Groups
	if req.Version < 8 {
		g := kmsg.OffsetFetchRequestGroup{Group: req.Group}
		for _, t := range req.Topics {
			g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		if req.Topics != nil && g.Topics == nil {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		}
		groups = []kmsg.OffsetFetchRequestGroup{g}
	}
	var wait waits
	results := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	for i, g := range groups {
		out := &results[i]
		out.Default()
		out.Group = g.Group
		durable := wait.add()
		found, err := c.with(g.Group, false, func(s *slot, e *env) {
			if req.Version >= 9 {
				out.ErrorCode = s.g.mayFetch(g.MemberID, g.MemberEpoch)
			}
			if out.ErrorCode == 0 {
				c.fetchInto(out, s.g, g, req.Version, req.RequireStable)
			}
			c.later(s, durable)
		})
		switch {
		case err != nil:
			durable(err)
		case !found:
			c.fetchInto(out, newGroup(g.Group, time.Time{}), g, req.Version, req.RequireStable)
			c.afterBuried(durable)
		}
	}
	wait.then(func(err error) {
		if req.Version >= 8 {
			resp.Groups = results
		} else {
			for _, t := range results[0].Topics {
				rt := kmsg.NewOffsetFetchResponseTopic()
				rt.Topic = t.Topic
				for _, p := range t.Partitions {
					rt.Partitions = append(rt.Partitions, kmsg.OffsetFetchResponseTopicPartition{
						Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
					})
				}
				resp.Topics = append(resp.Topics, rt)
			}
		}
		done(resp, err)
	})
}

// fetchInto answers for one group; null topics mean all that it has offsets of. With stable, an offset that an open transaction will
// decide about is not told.
func (c *Coordinator) fetchInto(out *kmsg.OffsetFetchResponseGroup, g *group, req kmsg.OffsetFetchRequestGroup, version int16, stable bool) {
	topics := req.Topics
	if topics == nil {
		for _, name := range g.sortedTopics() {
			t := kmsg.OffsetFetchRequestGroupTopic{Topic: name}
			if version >= 10 {
				id, _, ok := c.topics.TopicByName(name)
				if !ok {
					continue // being deleted
				}
				t.TopicID = id
			}
			for _, p := range g.partitions(name) {
				if !c.topicGone(name, g.offsets[name][p.partition].topicID) {
					t.Partitions = append(t.Partitions, p.partition)
				}
			}
			if len(t.Partitions) > 0 {
				topics = append(topics, t)
			}
		}
	}
	for _, t := range topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		name, code := t.Topic, int16(0)
		if version >= 10 {
			var ok bool
			if name, ok = c.topics.TopicByID(t.TopicID); !ok {
				code = kerr.UnknownTopicID.Code
			}
		}
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p, -1, -1, new(string), code
			if stable && code == 0 && g.isPending(partition{name, p}) {
				rp.ErrorCode = kerr.UnstableOffsetCommit.Code
			} else if o, ok := g.fetch(partition{name, p}); ok && code == 0 && !c.topicGone(name, o.topicID) {
				rp.Offset, rp.LeaderEpoch, rp.Metadata = o.offset, o.leaderEpoch, &o.metadata
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		out.Topics = append(out.Topics, rt)
	}
}

// OffsetDelete carries out an OffsetDelete request.
func (c *Coordinator) OffsetDelete(req *kmsg.OffsetDeleteRequest, done func(*kmsg.OffsetDeleteResponse, error)) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var ps []partition
	var taken []*int16
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		_, partitions, ok := c.topics.TopicByName(t.Topic)
		for i, p := range t.Partitions {
			rp := &rt.Partitions[i]
			rp.Partition = p.Partition
			if !ok || p.Partition < 0 || p.Partition >= partitions {
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			ps = append(ps, partition{t.Topic, p.Partition})
			taken = append(taken, &rp.ErrorCode)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	found, err := c.with(req.Group, false, func(s *slot, e *env) {
		codes, whole := s.g.deleteOffsets(e, ps)
		if resp.ErrorCode = whole; whole != 0 {
			resp.Topics = nil
		}
		for i, code := range codes {
			*taken[i] = code
		}
		c.later(s, func(err error) { done(resp, err) })
	})
	if err != nil || !found {
		resp.ErrorCode, resp.Topics = kerr.GroupIDNotFound.Code, nil
		done(resp, err)
	}
}

// afterBuried waits until what deleted groups have written is durable: their absence is not told before.
func (c *Coordinator) afterBuried(done func(error)) {
	c.mu.Lock()
	end := c.buried
	c.mu.Unlock()
	c.log.AfterDurable(end, done)
}

// waits joins several waits into one.
type waits struct {
	mu      sync.Mutex // guards the fields below
	pending int
	err     error
	done    func(error)
}

func (w *waits) add() func(error) {
	w.mu.Lock()
	w.pending++
	w.mu.Unlock()
	return w.end
}

func (w *waits) end(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.pending--
	done := w.done
	if w.pending > 0 {
		done = nil
	}
	err = w.err
	w.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// then calls done when all that was added has ended. Nothing can be added afterwards.
func (w *waits) then(done func(error)) {
	w.add()
	w.mu.Lock()
	w.done = done
	w.mu.Unlock()
	w.end(nil)
}
