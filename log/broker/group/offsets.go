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
	committer
	offsets []committed // already checked against the topics
}

// committer is who wants to commit offsets.
type committer struct {
	id, instance string
	generation   int32 // or member epoch
	version      int16 // of OffsetCommit
	transaction  bool  // within one: then there is no such version
}

// anybody says that the request names no member: it comes from outside of the group.
func (c committer) anybody() bool { return c.generation < 0 && c.id == "" && c.instance == "" }

// mayCommit says whether the sender's offsets count, and if not all of them do, which. Generation −1 is a client that uses the
// group only to store offsets; it may not do so beside members, whose offsets it would move, unless in a transaction: clients
// before KIP-447 do not say there which member they are, and are fenced by their transactional id alone. To a transaction a
// rebalance is no hindrance, either: who has read under a generation may commit until the next one begins.
func (g *group) mayCommit(e *env, by committer) (each func(committed) int16, code int16) {
	if by.generation < 0 && g.now() == empty || by.transaction && by.anybody() {
		return nil, 0
	}
	if g.consumer != nil {
		return g.consumer.mayCommit(e, by)
	}
	m, code := g.find(by.id, by.instance)
	switch {
	case code != 0:
		return nil, code
	case by.generation != g.generation:
		return nil, kerr.IllegalGeneration.Code
	case g.state == completing && !by.transaction:
		// It has agreed to a new generation without having its share of it yet.
		return nil, kerr.RebalanceInProgress.Code
	}
	m.touch(e.now)
	return nil, 0
}

// mayCommit of a consumer group. A member that has not heard of its last epoch yet may commit for what it had been given by then
// and still has.
func (c *consumers) mayCommit(e *env, by committer) (each func(committed) int16, code int16) {
	m := c.members[by.id]
	if m == nil {
		return nil, kerr.UnknownMemberID.Code
	}
	stale := kerr.StaleMemberEpoch.Code
	if m.classic != nil {
		stale = kerr.IllegalGeneration.Code
	}
	switch {
	case m.classic == nil && !by.transaction && by.version < 9:
		return nil, kerr.UnsupportedVersion.Code
	case by.generation > m.epoch:
		return nil, stale
	case m.classic != nil:
		m.session = e.now.Add(m.classic.session)
	}
	if by.generation == m.epoch {
		return nil, 0
	}
	return func(o committed) int16 {
		p := tp{o.topicID, o.partition.partition}
		has, ok := findOwned(m.assigned, p)
		if !ok {
			has, ok = findOwned(m.revoking, p)
		}
		if !ok || by.generation < has.since {
			return stale
		}
		return 0
	}, 0
}

// mayFetch says whether the sender may read the group's offsets; whoever says no member's id may. Only members of the newer
// protocol say one.
func (g *group) mayFetch(id *string, epoch int32) int16 {
	if g.consumer == nil || id == nil && epoch < 0 {
		return 0
	}
	var m *consumer
	if id != nil {
		m = g.consumer.members[*id]
	}
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case m.epoch == epoch:
		return 0
	case m.classic != nil:
		return kerr.IllegalGeneration.Code
	}
	return kerr.StaleMemberEpoch.Code
}

// commit takes offsets over and returns a code for each.
func (g *group) commit(e *env, in commitIn) []int16 {
	return g.commitWith(e, in, func(records []record) int16 {
		if e.append(records) != nil {
			return kerr.CoordinatorNotAvailable.Code
		}
		return 0
	}, func(o committed) { g.setOffset(o.partition, o.offset) })
}

// commitWith writes the records of those offsets that may be committed, and then takes them over.
func (g *group) commitWith(e *env, in commitIn, write func([]record) int16, take func(committed)) []int16 {
	codes := make([]int16, len(in.offsets))
	all := func(code int16) []int16 {
		for i := range codes {
			codes[i] = code
		}
		return codes
	}
	each, code := g.mayCommit(e, in.committer)
	if code != 0 {
		return all(code)
	}
	var records []record
	for i, o := range in.offsets {
		if each != nil {
			codes[i] = each(o)
		}
		if codes[i] == 0 {
			records = append(records, offsetRecord(g.name, o.partition, o.offset))
		}
	}
	if len(records) == 0 {
		return codes
	}
	if code := write(records); code != 0 {
		return all(code)
	}
	for i, o := range in.offsets {
		if codes[i] == 0 {
			o.at = e.end
			take(o)
		}
	}
	return codes
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
	if g.now() != empty || len(g.pending) > 0 {
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
	if rs := g.tombstones(); len(rs) > 0 {
		if err := e.append(rs); err != nil {
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
