package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// offset is a committed position. Times are in milliseconds since 1970, as in its record.
type offset struct {
	offset      int64
	leaderEpoch int32 // −1: the client did not say
	metadata    string
	committed   int64
	expire      int64 // −1: with the group (only clients before Kafka 2.1 set a time of their own)
	topicID     [16]byte
	at          int64 // log end after its record: of two, the one with the larger counts
}

type partition struct {
	topic     string
	partition int32
}

type committed struct {
	partition
	offset
}

type commitIn struct {
	id, instance string
	generation   int32
	offsets      []committed // already checked against the topics
}

// mayCommit says whether the sender's offsets count. Generation −1 is a client that uses the group only to store offsets;
// it may not do so beside members, whose offsets it would move.
func (g *group) mayCommit(e *env, id, instance string, generation int32) int16 {
	if generation < 0 && g.state == empty {
		return 0
	}
	m, code := g.find(id, instance)
	switch {
	case code != 0:
		return code
	case generation != g.generation:
		return kerr.IllegalGeneration.Code
	case g.state == completing:
		// It has agreed to a new generation without having its share of it yet.
		return kerr.RebalanceInProgress.Code
	}
	m.touch(e.now)
	return 0
}

func (g *group) commit(e *env, in commitIn) int16 {
	if code := g.mayCommit(e, in.id, in.instance, in.generation); code != 0 {
		return code
	}
	if len(in.offsets) == 0 {
		return 0
	}
	records := make([]record, len(in.offsets))
	for i, o := range in.offsets {
		records[i] = offsetRecord(g.name, o.partition, o.offset)
	}
	if err := e.append(records); err != nil {
		return kerr.CoordinatorNotAvailable.Code
	}
	for _, o := range in.offsets {
		o.at = e.end
		g.setOffset(o.partition, o.offset)
	}
	return 0
}

func (g *group) setOffset(p partition, o offset) {
	ps := g.offsets[p.topic]
	if ps == nil {
		ps = map[int32]offset{}
		g.offsets[p.topic] = ps
	}
	ps[p.partition] = o
}

func (g *group) fetch(p partition) (offset, bool) {
	o, ok := g.offsets[p.topic][p.partition]
	return o, ok
}

// forget removes offsets, with a tombstone for each. Partitions without an offset are passed over.
func (g *group) forget(e *env, ps []partition) error {
	var records []record
	for _, p := range ps {
		if _, ok := g.fetch(p); ok || g.isPending(p) {
			records = append(records, offsetTombstone(g.name, p))
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := e.append(records); err != nil {
		return err
	}
	g.discard(ps)
	return nil
}

func (g *group) discard(ps []partition) {
	for _, p := range ps {
		if of := g.offsets[p.topic]; of != nil {
			if delete(of, p.partition); len(of) == 0 {
				delete(g.offsets, p.topic)
			}
		}
		g.dropPending(p)
	}
}

// partitions lists those of the given topics that have an offset, in order.
func (g *group) partitions(topics ...string) []partition {
	var ps []partition
	for _, t := range topics {
		for p := range g.offsets[t] {
			ps = append(ps, partition{t, p})
		}
	}
	slices.SortFunc(ps, comparePartitions)
	return ps
}

// expire removes the offsets of a group that nobody has used for the retention time, and at last the group.
func (g *group) expire(e *env) error {
	if g.state != empty || len(g.pending) > 0 {
		return nil
	}
	nowMs := e.now.UnixMilli()
	var old []partition
	for t, ps := range g.offsets {
		for p, o := range ps {
			if g.isPending(partition{t, p}) {
				continue
			}
			if due := g.expiry(o, e.limits.OffsetRetention); due <= nowMs {
				old = append(old, partition{t, p})
			}
		}
	}
	slices.SortFunc(old, comparePartitions)
	if err := g.forget(e, old); err != nil {
		return err
	}
	if len(g.offsets) > 0 || len(g.txns) > 0 {
		return nil
	}
	if g.generation > 0 {
		if err := e.append([]record{groupTombstone(g.name)}); err != nil {
			return err
		}
	}
	g.become(e, dead)
	return nil
}

// expiry is counted from when the group became empty. A group that never had members has no such moment, so there each
// offset's own commit counts.
func (g *group) expiry(o offset, retention time.Duration) int64 {
	if o.expire >= 0 {
		return o.expire
	}
	from := o.committed
	if g.protocolType != "" {
		from = max(from, g.since.UnixMilli())
	}
	return from + retention.Milliseconds()
}
