package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

type joinIn struct {
	id           string // empty: give me one
	instance     string
	client       Client
	session      time.Duration
	rebalance    time.Duration
	protocolType string
	protocols    []protocol
	needsID      bool // the client knows MEMBER_ID_REQUIRED (version 4)
	canSkip      bool // the client knows SkipAssignment (version 9)
}

type joinOut struct {
	err          int16
	generation   int32
	protocolType string
	protocol     string
	leader       string
	id           string
	skip         bool // the leader must not assign: the assignment stands
	members      []joined
}

type joined struct {
	id, instance string
	metadata     []byte
}

// join lets a member in or lets it rejoin. reply is called once, now or when the join phase ends.
func (g *group) join(e *env, in joinIn, reply func(joinOut)) {
	fail := func(err *kerr.Error) { reply(joinOut{err: err.Code, generation: -1, id: in.id}) }
	if in.session < e.limits.MinSession || in.session > e.limits.MaxSession {
		fail(kerr.InvalidSessionTimeout)
		return
	}
	if in.protocolType == "" || len(in.protocols) == 0 {
		fail(kerr.InconsistentGroupProtocol)
		return
	}
	if g.consumer != nil {
		if len(g.consumer.members) > 0 {
			g.joinConsumers(e, in, reply)
			return
		}
		if g.emptied(e) != nil {
			fail(kerr.CoordinatorNotAvailable)
			return
		}
	}
	known := g.member(in.id)
	replaced := known
	if in.id == "" {
		replaced = g.static(in.instance)
	}
	// The member that asks may change its own protocols, as long as one remains that all the others support.
	if g.state != empty && (g.protocolType != in.protocolType || len(g.common(in.protocols, replaced)) == 0) {
		fail(kerr.InconsistentGroupProtocol)
		return
	}
	grown := protocolsWeight(in.protocols) + memberWeight
	if replaced != nil {
		grown = protocolsWeight(in.protocols) - protocolsWeight(replaced.protocols)
	}
	if !e.fits(grown) {
		fail(kerr.GroupMaxSizeReached)
		return
	}
	if in.id == "" {
		switch {
		case replaced != nil:
			g.replaceStatic(e, replaced, in, reply)
		case len(g.members)+len(g.pending) >= e.limits.MaxMembers:
			fail(kerr.GroupMaxSizeReached)
		case in.instance != "":
			in.id = e.id(in.instance)
			g.admit(e, in, reply)
		case in.needsID:
			// Whoever dies between two joins then leaves an id behind, and not a member that everybody waits for.
			id := e.id(in.client.ID)
			g.pending[id] = e.now.Add(in.session)
			e.weighs = true
			reply(joinOut{err: kerr.MemberIDRequired.Code, generation: -1, id: id})
		default:
			in.id = e.id(in.client.ID)
			g.admit(e, in, reply)
		}
		return
	}
	if in.instance != "" {
		if _, code := g.find(in.id, in.instance); code != 0 {
			reply(joinOut{err: code, generation: -1, id: in.id})
			return
		}
	}
	if known == nil {
		if _, ok := g.pending[in.id]; !ok {
			fail(kerr.UnknownMemberID)
			return
		}
		delete(g.pending, in.id)
		g.admit(e, in, reply)
		return
	}
	same := known.sameProtocols(in.protocols)
	switch {
	case g.state == completing && same:
		// The answer to its join was lost on the way.
		known.update(e, in)
		reply(g.joinAnswer(known))
	case g.state == stable && same && known.id != g.leader:
		known.update(e, in)
		out := g.joinAnswer(known)
		reply(out)
	default:
		// A leader that rejoins wants to assign anew: it has seen new partitions.
		known.update(e, in)
		g.awaitJoin(e, known, reply)
		if g.state != preparing {
			g.prepare(e)
		}
		g.maybeComplete(e)
	}
}

// admit adds a new member and has everybody join anew.
func (g *group) admit(e *env, in joinIn, reply func(joinOut)) {
	m := &member{id: in.id, instance: in.instance, fresh: true}
	m.update(e, in)
	if len(g.members) == 0 {
		g.protocolType = in.protocolType
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.awaitJoin(e, m, reply)
	if g.state != preparing {
		g.prepare(e)
	} else if g.initial {
		g.extend(e)
	}
	g.maybeComplete(e)
}

func (g *group) awaitJoin(e *env, m *member, reply func(joinOut)) {
	// A client that asks again has given up its first question.
	m.answerJoin(e.now, joinOut{err: kerr.RebalanceInProgress.Code, generation: -1, id: m.id})
	m.join = reply
	if m.fresh {
		m.deadline = e.now.Add(newMemberJoin)
	}
}

func (m *member) update(e *env, in joinIn) {
	e.weighs = true
	m.client, m.session, m.rebalance = in.client, in.session, in.rebalance
	m.protocols = in.protocols
	m.touch(e.now)
}

func (m *member) sameProtocols(ps []protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// replaceStatic hands an instance id over to a client that started anew. As long as the group would choose the same protocol
// the assignment stands and nobody has to rejoin: that is what static members are for.
func (g *group) replaceStatic(e *env, m *member, in joinIn, reply func(joinOut)) {
	old := *m
	oldLeader := g.leader
	m.id = e.id(in.instance)
	m.join, m.sync = nil, nil
	m.update(e, in)
	if g.leader == old.id {
		g.leader = m.id
	}
	if g.state == stable && g.vote() == g.protocol {
		if err := e.append([]record{groupRecord(g)}); err != nil {
			*m, g.leader = old, oldLeader
			reply(joinOut{err: kerr.CoordinatorNotAvailable.Code, generation: -1, id: in.id})
			return
		}
		out := g.joinAnswer(m) // nobody waits in a stable group, so there is nobody to fence
		if in.canSkip {
			out.skip = g.leader == m.id
		} else {
			// Told that it leads, an older client would assign anew. The old leader's name makes it a follower.
			out.leader, out.members = oldLeader, nil
		}
		reply(out)
		return
	}
	old.fence(e)
	g.awaitJoin(e, m, reply)
	if g.state != preparing {
		g.prepare(e)
	}
	g.maybeComplete(e)
}

// fence answers whatever the previous holder of an instance id waits for.
func (m *member) fence(e *env) {
	m.answerJoin(e.now, joinOut{err: kerr.FencedInstanceID.Code, generation: -1, id: m.id})
	m.answerSync(e.now, syncOut{err: kerr.FencedInstanceID.Code})
}

// joinAnswer is the answer for the present generation. Only the leader learns who the members are.
func (g *group) joinAnswer(m *member) joinOut {
	out := joinOut{
		generation: g.generation, protocolType: g.protocolType, protocol: g.protocol, leader: g.leader, id: m.id,
	}
	if m.id == g.leader {
		for _, o := range g.members {
			out.members = append(out.members, joined{o.id, o.instance, o.metadata(g.protocol)})
		}
	}
	return out
}

// prepare begins a rebalance: from now on heartbeats ask the members to rejoin.
func (g *group) prepare(e *env) {
	if g.state == completing {
		for _, m := range g.members {
			m.assigned = nil
			m.answerSync(e.now, syncOut{err: kerr.RebalanceInProgress.Code})
		}
	}
	g.initial = g.state == empty
	g.syncBy = time.Time{}
	g.become(e, preparing)
	if g.initial {
		g.began = e.now
		g.extend(e)
		return
	}
	g.rebalance = e.now.Add(g.longestRebalance())
}

// extend moves the end of a first rebalance: members of one application start together, and each that joins after the
// first generation costs all of them another round.
func (g *group) extend(e *env) {
	quiet, most := e.limits.initialDelay(g.protocolType)
	g.rebalance = e.now.Add(quiet)
	for _, limit := range []time.Duration{most, g.longestRebalance()} {
		if t := g.began.Add(limit); g.rebalance.After(t) {
			g.rebalance = t
		}
	}
}

// maybeComplete ends the join phase when nobody is missing.
func (g *group) maybeComplete(e *env) {
	if g.state != preparing {
		return
	}
	if e.now.Before(g.rebalance) {
		if g.initial && len(g.members) > 0 {
			return
		}
		if len(g.pending) > 0 || slices.ContainsFunc(g.members, func(m *member) bool { return m.join == nil }) {
			return
		}
	}
	g.complete(e)
}

// complete begins the next generation with the members that have joined. Static members that have not are kept: they are
// allowed to be away for a session.
func (g *group) complete(e *env) {
	e.weighs = true
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m.join == nil && m.instance == "" })
	if len(g.members) == 0 {
		g.toEmpty(e)
		return
	}
	if l := g.member(g.leader); l == nil || l.join == nil {
		i := slices.IndexFunc(g.members, func(m *member) bool { return m.join != nil })
		if i < 0 {
			// Nobody could assign. Wait for one of them, or for their sessions to end.
			g.rebalance = e.now.Add(max(g.longestRebalance(), time.Second))
			return
		}
		g.leader = g.members[i].id
	}
	g.generation++
	g.protocol = g.vote()
	g.initial, g.rebalance = false, time.Time{}
	g.syncBy = e.now.Add(g.longestRebalance())
	g.become(e, completing)
	for _, m := range g.members {
		m.fresh, m.synced = false, false
		m.touch(e.now)
		m.answerJoin(e.now, g.joinAnswer(m))
	}
}

// toEmpty ends a generation without members. Generations go on counting from there.
func (g *group) toEmpty(e *env) {
	g.generation++
	g.protocol, g.leader = "", ""
	g.initial, g.rebalance, g.syncBy = false, time.Time{}, time.Time{}
	g.become(e, empty)
	// If this fails the members are gone nevertheless. They would come back with the next start, and time out.
	e.append([]record{groupRecord(g)})
}
