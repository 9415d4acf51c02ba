package group

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"millrace/log/internal/batch"
)

// image is the last value of each key: what a compacted topic means. Values are parsed once, at the end, and not once per
// commit: the topic of a busy group has a million of them.
type image struct {
	values map[string]entry
	open   map[int64]map[string]entry // of transactions that have not ended, by producer
}

type entry struct {
	b  []byte
	at int64 // log end after its record
}

func (im *image) add(v batch.View) error {
	if v.IsControl() {
		if m, ok, err := v.Marker(); ok && err == nil {
			im.endTxn(v.ProducerID(), m.Commit)
		}
		return nil
	}
	for r, err := range v.Records() {
		if err != nil {
			return err
		}
		switch {
		case v.Transactional():
			im.addInTxn(v.ProducerID(), r)
		case r.Value == nil:
			delete(im.values, string(r.Key))
			for _, vs := range im.open {
				delete(vs, string(r.Key))
			}
		default:
			old, ok := im.values[string(r.Key)]
			if !ok || len(old.b) != len(r.Value) {
				old.b = make([]byte, len(r.Value))
			} // the usual case is the same partition, a newer offset
			copy(old.b, r.Value)
			old.at = r.Offset + 1
			im.values[string(r.Key)] = old
		}
	}
	return nil
}

func (im *image) addInTxn(producerID int64, r batch.Record) {
	if im.open == nil {
		im.open = map[int64]map[string]entry{}
	}
	if im.open[producerID] == nil {
		im.open[producerID] = map[string]entry{}
	}
	im.open[producerID][string(r.Key)] = entry{bytes.Clone(r.Value), r.Offset + 1}
}

func (im *image) endTxn(producerID int64, commit bool) {
	for key, v := range im.open[producerID] {
		if old, ok := im.values[key]; commit && (!ok || old.at < v.at) {
			im.values[key] = v
		}
	}
	delete(im.open, producerID)
}

// groups makes the groups of an image. Records that cannot be read are reported and left out; they stay in the log.
func (im *image) groups(now time.Time, bad func(key string, err error)) map[string]*group {
	gs := map[string]*group{}
	type stored struct {
		group string
		partition
		offset
	}
	var offsets []stored
	readOffset := func(name string, p partition, key string, v entry) (o offset, ok bool) {
		o, err := parseOffset(v.b)
		if err != nil {
			bad(key, fmt.Errorf("group %q, topic %q, partition %d: %w", name, p.topic, p.partition, err))
			return o, false
		}
		o.at = v.at
		return o, true
	}
	var members []consumerRecord
	for key, value := range im.values {
		if isConsumerKey([]byte(key)) {
			r, err := parseConsumerRecord([]byte(key), value.b)
			if err != nil {
				bad(key, fmt.Errorf("group %q: %w", r.group, err))
				continue
			}
			members = append(members, r)
			continue
		}
		name, p, known, err := parseKey([]byte(key))
		switch {
		case err != nil:
			bad(key, err)
		case !known:
		case p.topic == "":
			g, err := parseGroup(name, value.b, now)
			if err != nil {
				bad(key, fmt.Errorf("group %q: %w", name, err))
				continue
			}
			gs[name] = g
		default:
			if o, ok := readOffset(name, p, key, value); ok {
				offsets = append(offsets, stored{name, p, o})
			}
		}
	}
	loadConsumers(gs, members, now)
	find := func(name string) *group {
		g := gs[name]
		if g == nil {
			g = newGroup(name, now)
			gs[name] = g
		}
		return g
	}
	for _, o := range offsets {
		find(o.group).setOffset(o.partition, o.offset)
	}
	for id, values := range im.open {
		for key, value := range values {
			name, p, known, err := parseKey([]byte(key))
			if err != nil {
				bad(key, err)
			} else if known && p.topic != "" {
				if o, ok := readOffset(name, p, key, value); ok {
					find(name).setPending(id, p, o)
				}
			}
		}
	}
	return gs
}

// dropEmbedded removes the members that came over the in-memory connection: their process has ended, and nothing should wait
// for their sessions. Others have to share out anew what they had.
func (g *group) dropEmbedded(e *env) {
	var gone []*member
	for _, m := range g.members {
		if m.client.Host == EmbeddedHost {
			gone = append(gone, m)
		}
	}
	g.remove(e, gone)
	if g.consumer == nil {
		return
	}
	var left []*consumer
	for _, m := range g.consumer.sorted() {
		if m.client.Host == EmbeddedHost {
			left = append(left, m)
		}
	}
	if g.expel(e, left) != nil {
		for _, m := range left {
			m.session = e.now // as soon as there is room in the log
		}
	}
}

// forgetGone removes the offsets of topics that are gone, or that are no longer the ones that were committed for: a topic made
// anew under an old name starts from its beginning. gone says so for a topic and the id that it had. When the log refuses
// tombstones the offsets go nevertheless; the next start finds them gone again.
func (g *group) forgetGone(e *env, gone func(topic string, id [16]byte) bool) {
	var ps []partition
	for _, p := range g.partitions(g.sortedTopics()...) {
		if gone(p.topic, g.offsets[p.topic][p.partition].topicID) {
			ps = append(ps, p)
		}
	}
	if g.forget(e, ps) != nil {
		g.discard(ps)
	}
}

// loadConsumers makes consumer groups of their records. They may be the first part only of what was written at once when a power
// loss came between: what a member's other records are missing for has not been told to anybody. A group whose own record is
// missing begins with the highest epoch of the others.
func loadConsumers(gs map[string]*group, rs []consumerRecord, now time.Time) {
	// Members come before what refers to them.
	slices.SortFunc(rs, func(a, b consumerRecord) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group), cmp.Compare(a.second, b.second))
	})
	for _, r := range rs {
		g := gs[r.group]
		if g == nil {
			g = newGroup(r.group, now)
			gs[r.group] = g
		}
		if g.consumer == nil {
			g.clearClassic()
			g.since = now
			g.consumer = newConsumers()
		}
		c := g.consumer
		switch r.kind {
		case epochKey:
			c.epoch, c.hash = r.epoch, r.hash
		case oldMetadataKey:
			c.old = true
		case memberKey:
			m := r.member
			c.put(&m)
		case targetEpochKey:
			c.target, c.targetAt = r.epoch, r.time
		case targetKey:
			if c.members[r.second] != nil {
				c.targets[r.second] = r.target
			}
		case currentKey:
			if m := c.members[r.second]; m != nil {
				n := *m
				n.epoch, n.previous, n.state, n.assigned, n.revoking = r.member.epoch, r.member.previous, r.member.state, r.member.assigned, r.member.revoking
				c.put(&n)
			}
		case regexKey:
			c.regexes[r.second] = resolved{topics: r.topics, at: r.time}
		}
	}
	for _, g := range gs {
		if c := g.consumer; c != nil {
			c.epoch = max(c.epoch, c.target)
			for _, m := range c.members {
				c.epoch = max(c.epoch, m.epoch)
			}
		}
	}
}

// beginSessions gives the members of consumer groups that were read a session's time to be heard of.
func (g *group) beginSessions(e *env) {
	if g.consumer == nil {
		return
	}
	for _, m := range g.consumer.members {
		m.session = e.now.Add(e.consumerSession)
		if m.classic != nil {
			m.session = e.now.Add(m.classic.session)
		}
		if m.state == unrevoked && m.classic == nil && m.rebalance >= 0 {
			m.revokeBy = e.now.Add(m.rebalance)
		}
	}
}
