package group

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members that speak the classic protocol in a consumer group, and groups that change from one kind to the other, so that an
// application can move from the classic protocol to the newer one, and back, member by member while it runs.
//
//	a classic group without members           becomes a consumer group by a member of the newer protocol that joins, and the
//	                                          other way round
//	a classic group of protocol type          becomes a consumer group by such a member; its members stay as they are, are
//	"consumer" with members                   told to rejoin, and get their shares from the coordinator from then on
//	a consumer group whose last member of     becomes a classic group, with the others as its members, and rebalances
//	the newer protocol is gone
//	a live classic group of another type      stays: GROUP_ID_NOT_FOUND for members of the newer protocol
//	a live consumer group                     stays: INCONSISTENT_GROUP_PROTOCOL for classic members of another type
//
// A classic member of a consumer group joins without waiting for others: its generation is its member epoch. It leads
// nothing. What it must give up it gives up by rejoining with less, as the protocol it knows has it do.

// consumerType is the protocol type of consumers, the only one that can change its kind.
const consumerType = "consumer"

// tombstones are those of the group's own records, without its offsets.
func (g *group) tombstones() []record {
	if g.consumer == nil {
		if g.generation > 0 {
			return []record{groupTombstone(g.name)}
		}
		return nil
	}
	var rs []record
	add := func(kind int16, second string) {
		rs = append(rs, record{key: consumerRecordKey(kind, g.name, second)})
	}
	c := g.consumer
	for _, m := range c.sorted() {
		add(currentKey, m.id)
	}
	for _, id := range slices.Sorted(maps.Keys(c.targets)) {
		add(targetKey, id)
	}
	add(targetEpochKey, "")
	for _, re := range slices.Sorted(maps.Keys(c.regexes)) {
		add(regexKey, re)
	}
	for _, m := range c.sorted() {
		add(memberKey, m.id)
	}
	if c.old {
		add(oldMetadataKey, "")
	}
	add(epochKey, "")
	return rs
}

// clearClassic forgets what only a classic group has.
func (g *group) clearClassic() {
	g.state, g.protocolType = empty, consumerType
	g.generation, g.protocol, g.leader = 0, "", ""
	g.members, g.pending = nil, map[string]time.Time{}
	g.initial, g.began, g.rebalance, g.syncBy = false, time.Time{}, time.Time{}, time.Time{}
}

// upgraded is the change of a live classic group to a consumer group.
func (g *group) upgraded(e *env) (*draft, beatOut) {
	no := func(why string) (*draft, beatOut) {
		return nil, refusal(kerr.GroupIDNotFound, "Group %s is not a consumer group%s.", g.name, why)
	}
	if g.protocolType != consumerType {
		return no("")
	}
	protocol := g.protocol
	if protocol == "" {
		protocol = g.vote()
	}
	d := &draft{e: e, g: g, c: newConsumers(), own: true}
	d.records = g.tombstones()
	d.c.epoch, d.c.target, d.c.targetAt = g.generation, g.generation, e.now.UnixMilli()
	var converted []*consumer
	for _, m := range g.members {
		s, ok := parseSubscription(m.metadata(protocol))
		if !ok {
			return no(" and the embedded consumer protocol is malformed")
		}
		n := &consumer{
			id: m.id, instance: m.instance, client: m.client, names: sortedNames(s.Topics), rebalance: m.rebalance,
			classic: &classicSide{session: m.session, protocols: m.protocols},
			epoch:   g.generation, previous: g.generation, state: steady, session: e.now.Add(m.session),
		}
		if s.Rack != nil {
			n.rack = *s.Rack
		}
		for _, p := range assignedPartitions(m.assigned, e.topics) {
			if _, taken := d.c.owners[p]; !taken { // a leader may have given a partition twice
				n.assigned = append(n.assigned, owned{p, g.generation})
				d.c.owners[p] = m.id
			}
		}
		n.assigned = sortedOwned(n.assigned)
		d.c.put(n)
		d.c.targets[n.id] = bare(n.assigned)
		converted = append(converted, n)
	}
	for _, m := range converted {
		d.add(consumerRecord{kind: memberKey, second: m.id, member: *m})
	}
	d.add(consumerRecord{kind: epochKey, epoch: d.c.epoch})
	for _, m := range converted {
		d.add(consumerRecord{kind: targetKey, second: m.id, target: d.c.targets[m.id]})
	}
	d.add(consumerRecord{kind: targetEpochKey, epoch: d.c.target, time: d.c.targetAt})
	for _, m := range converted {
		d.add(consumerRecord{kind: currentKey, second: m.id, member: *m})
	}
	for _, m := range g.members {
		d.done = append(d.done, func() {
			m.answerJoin(e.now, joinOut{err: kerr.RebalanceInProgress.Code, generation: -1, id: m.id})
			m.answerSync(e.now, syncOut{err: kerr.RebalanceInProgress.Code})
		})
	}
	return d, beatOut{}
}

func parseSubscription(metadata []byte) (s kmsg.ConsumerMemberMetadata, ok bool) {
	return s, s.ReadFrom(slices.Clone(metadata)) == nil
}

// assignedPartitions reads a classic assignment; what cannot be read and topics that are gone count as nothing.
func assignedPartitions(b []byte, topics Topics) []tp {
	var a kmsg.ConsumerMemberAssignment
	if len(b) == 0 || a.ReadFrom(slices.Clone(b)) != nil {
		return nil
	}
	var ps []tp
	for _, t := range a.Topics {
		id, n, ok := topics.TopicByName(t.Topic)
		for _, p := range t.Partitions {
			if ok && p >= 0 && p < n {
				ps = append(ps, tp{id, p})
			}
		}
	}
	return sortedTPs(ps)
}

// assignment is the classic form of what a member has, in the version of its metadata.
func classicAssignment(ps []tp, metadata []byte, topics Topics) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	if s, ok := parseSubscription(metadata); ok {
		a.Version = s.Version
	}
	for i := 0; i < len(ps); {
		t := kmsg.NewConsumerMemberAssignmentTopic()
		id := ps[i].topic
		for ; i < len(ps) && ps[i].topic == id; i++ {
			t.Partitions = append(t.Partitions, ps[i].partition)
		}
		if name, ok := topics.TopicByID(id); ok {
			t.Topic = name
			a.Topics = append(a.Topics, t)
		}
	}
	slices.SortFunc(a.Topics, func(x, y kmsg.ConsumerMemberAssignmentTopic) int { return strings.Compare(x.Topic, y.Topic) })
	return a.AppendTo(nil)
}

// becomesClassic reports whether a group without these members is a classic one.
func (g *group) becomesClassic(gone []*consumer) bool {
	newer := false
	for _, m := range gone {
		newer = newer || m.classic == nil
	}
	left := 0
	for _, m := range g.consumer.members {
		if slices.ContainsFunc(gone, func(x *consumer) bool { return x.id == m.id }) {
			continue
		}
		if m.classic == nil {
			return false
		}
		left++
	}
	return newer && left > 0
}

// toClassic makes a classic group of the members that are left, which rebalances at once.
func (g *group) toClassic(e *env, gone []*consumer) error {
	c := g.consumer
	n := newGroup(g.name, e.now)
	n.protocolType, n.generation, n.state = consumerType, c.epoch, stable
	for _, m := range c.sorted() {
		if slices.ContainsFunc(gone, func(x *consumer) bool { return x.id == m.id }) {
			continue
		}
		n.members = append(n.members, &member{
			id: m.id, instance: m.instance, client: m.client, session: m.classic.session, rebalance: max(m.rebalance, 0),
			protocols: m.classic.protocols, synced: true, deadline: e.now.Add(m.classic.session),
		})
	}
	n.leader = n.members[0].id
	n.protocol = n.vote()
	for _, m := range n.members {
		m.assigned = classicAssignment(c.targets[m.id], m.metadata(n.protocol), e.topics)
	}
	if err := e.append(append(g.tombstones(), groupRecord(n))); err != nil {
		return err
	}
	g.takeClassic(n)
	e.weighs = true
	g.prepare(e)
	return nil
}

func (g *group) takeClassic(n *group) {
	g.consumer = nil
	g.state, g.since, g.protocolType = n.state, n.since, n.protocolType
	g.generation, g.protocol, g.leader, g.members = n.generation, n.protocol, n.leader, n.members
}

// emptied makes a classic group of a consumer group that has no members.
func (g *group) emptied(e *env) error {
	if err := e.append(g.tombstones()); err != nil {
		return err
	}
	n := newGroup(g.name, e.now)
	g.takeClassic(n)
	return nil
}

// joinConsumers is join in a consumer group that has members.
func (g *group) joinConsumers(e *env, in joinIn, reply func(joinOut)) {
	fail := func(err *kerr.Error) { reply(joinOut{err: err.Code, generation: -1, id: in.id}) }
	d := g.draft(e)
	c := g.consumer
	s, ok := parseSubscription(in.protocols[0].metadata)
	switch {
	case d.full(in.id, in.instance).refused():
		fail(kerr.GroupMaxSizeReached)
		return
	case in.protocolType != consumerType || !c.supports(in.protocols) || !ok:
		fail(kerr.InconsistentGroupProtocol)
		return
	case in.id == "" && in.instance == "" && in.needsID:
		reply(joinOut{err: kerr.MemberIDRequired.Code, generation: -1, id: e.id("")})
		return
	}
	unknown := in.id == ""
	if unknown {
		in.id = e.id("")
	}
	before := c.members[in.id]
	if in.instance != "" {
		old := c.static(in.instance)
		switch {
		case !unknown && old == nil:
			fail(kerr.UnknownMemberID)
			return
		case !unknown && old.id != in.id:
			fail(kerr.FencedInstanceID)
			return
		case unknown && old != nil && old.classic == nil && g.becomesClassic([]*consumer{old}):
			// The last one of the newer protocol starts anew with the classic one.
			if g.toClassic(e, []*consumer{old}) != nil {
				fail(kerr.CoordinatorNotAvailable)
				return
			}
			in.id = ""
			g.join(e, in, reply)
			return
		case unknown && old != nil:
			before = d.replace(old, in.id)
		default:
			before = old
		}
	}
	if before == nil {
		before = &consumer{id: in.id, rebalance: -1}
	}
	m := *before
	m.instance, m.client, m.names, m.regex, m.rebalance = in.instance, in.client, sortedNames(s.Topics), "", in.rebalance
	if s.Rack != nil && *s.Rack != "" {
		m.rack = *s.Rack
	}
	m.classic = &classicSide{session: in.session, protocols: in.protocols}
	if !e.fits(d.grown(before, &m)) {
		fail(kerr.GroupMaxSizeReached)
		return
	}
	owns := []tp{}
	for _, t := range s.OwnedPartitions {
		if id, _, ok := e.topics.TopicByName(t.Topic); ok {
			for _, p := range t.Partitions {
				owns = append(owns, tp{id, p})
			}
		}
	}
	owns = sortedTPs(owns)
	now := d.settle(before, &m, &owns)
	if d.commit() != nil {
		fail(kerr.CoordinatorNotAvailable)
		return
	}
	now = g.consumer.members[now.id]
	now.session, now.joinBy, now.syncBy = e.now.Add(in.session), time.Time{}, e.now.Add(in.rebalance)
	reply(joinOut{generation: now.epoch, protocolType: consumerType, protocol: in.protocols[0].name, id: now.id})
}

// supports reports whether there is a protocol that all classic members have in common with these.
func (c *consumers) supports(ps []protocol) bool {
	return slices.ContainsFunc(ps, func(p protocol) bool {
		for _, m := range c.members {
			if m.classic != nil && !slices.ContainsFunc(m.classic.protocols, func(o protocol) bool { return o.name == p.name }) {
				return false
			}
		}
		return true
	})
}

// find is find in a consumer group.
func (c *consumers) find(id, instance string) (*consumer, int16) {
	m := c.members[id]
	if instance != "" {
		if m = c.static(instance); m != nil && m.id != id {
			return nil, kerr.FencedInstanceID.Code
		}
	}
	if m == nil {
		return nil, kerr.UnknownMemberID.Code
	}
	return m, 0
}

// classicMember finds a member that speaks the classic protocol.
func (c *consumers) classicMember(id, instance string) (*consumer, int16) {
	m, code := c.find(id, instance)
	if code == 0 && m.classic == nil {
		return nil, kerr.UnknownMemberID.Code
	}
	return m, code
}

// syncConsumers is sync in a consumer group.
func (g *group) syncConsumers(e *env, in syncIn, reply func(syncOut)) {
	m, code := g.consumer.classicMember(in.id, in.instance)
	switch {
	case code != 0:
	case in.generation != m.epoch:
		code = kerr.IllegalGeneration.Code
	case in.protocolType != nil && *in.protocolType != consumerType, in.protocol != nil && *in.protocol != m.classic.protocols[0].name:
		code = kerr.InconsistentGroupProtocol.Code
	case g.consumer.epoch > m.epoch && m.state != unrevoked:
		m.rejoin(e)
		code = kerr.RebalanceInProgress.Code
	}
	if code != 0 {
		reply(syncOut{err: code})
		return
	}
	m.session, m.syncBy = e.now.Add(m.classic.session), time.Time{}
	first := m.classic.protocols[0]
	reply(syncOut{protocolType: consumerType, protocol: first.name, assignment: classicAssignment(bare(m.assigned), first.metadata, e.topics)})
}

// rejoin gives a member the time of a rebalance to join again.
func (m *consumer) rejoin(e *env) {
	if m.joinBy.IsZero() {
		m.joinBy = e.now.Add(max(m.rebalance, 0))
	}
}

// heartbeatConsumers is heartbeat in a consumer group. The member must rejoin when there is a newer epoch, when it has to give
// something up, and when what it waits for has become free.
func (g *group) heartbeatConsumers(e *env, id, instance string, generation int32) int16 {
	m, code := g.consumer.classicMember(id, instance)
	switch {
	case code != 0:
		return code
	case generation != m.epoch:
		return kerr.IllegalGeneration.Code
	}
	m.session = e.now.Add(m.classic.session)
	if m.epoch < g.consumer.epoch || m.state == unrevoked || m.state == unreleased && g.consumer.free(m) {
		m.rejoin(e)
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// free reports whether nobody has what a member waits for.
func (c *consumers) free(m *consumer) bool {
	return !slices.ContainsFunc(c.targets[m.id], func(p tp) bool {
		owner, taken := c.owners[p]
		return taken && owner != m.id
	})
}

// leaveConsumers is leave in a consumer group. Members of the newer protocol leave by heartbeats; an administrator can remove
// them like the others.
func (g *group) leaveConsumers(e *env, who []leaver) []int16 {
	codes := make([]int16, len(who))
	var gone []*consumer
	for i, w := range who {
		if w.instance != "" && w.id == "" {
			if m := g.consumer.static(w.instance); m != nil {
				w.id = m.id
			}
		}
		m, code := g.consumer.find(w.id, w.instance)
		if codes[i] = code; code == 0 && !slices.Contains(gone, m) {
			gone = append(gone, m)
		}
	}
	if g.expel(e, gone) != nil {
		for i := range codes {
			if codes[i] == 0 {
				codes[i] = kerr.CoordinatorNotAvailable.Code
			}
		}
	}
	return codes
}
