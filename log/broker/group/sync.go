package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

type syncIn struct {
	id, instance string
	generation   int32
	protocolType *string           // version 5
	protocol     *string           // version 5
	assignments  map[string][]byte // by member id; only the leader's counts
}

type syncOut struct {
	err          int16
	protocolType string
	protocol     string
	assignment   []byte
}

// sync hands the leader's assignment to the members. reply is called once, now or when the leader has spoken.
func (g *group) sync(e *env, in syncIn, reply func(syncOut)) {
	if g.consumer != nil {
		g.syncConsumers(e, in, reply)
		return
	}
	fail := func(code int16) { reply(syncOut{err: code}) }
	m, code := g.find(in.id, in.instance)
	switch {
	case code != 0:
		fail(code)
		return
	case in.generation != g.generation:
		fail(kerr.IllegalGeneration.Code)
		return
	case in.protocolType != nil && *in.protocolType != g.protocolType, in.protocol != nil && *in.protocol != g.protocol:
		fail(kerr.InconsistentGroupProtocol.Code)
		return
	}
	switch g.state {
	case completing:
		m.answerSync(e.now, syncOut{err: kerr.RebalanceInProgress.Code}) // it has given up its first question
		m.sync, m.synced = reply, true
		m.touch(e.now)
		if m.id == g.leader {
			g.assign(e, in.assignments)
		}
	case stable:
		m.synced = true
		m.touch(e.now)
		reply(g.syncAnswer(m))
	default:
		fail(kerr.RebalanceInProgress.Code)
	}
}

// assign records the leader's assignment and hands it out. A member that the leader left out has nothing to do.
func (g *group) assign(e *env, assignments map[string][]byte) {
	e.weighs = true
	for _, m := range g.members {
		m.assigned = assignments[m.id]
	}
	if err := g.recordStable(e); err != nil {
		// Nothing may be handed out that is not in the log. The members try again.
		for _, m := range g.members {
			m.assigned = nil
			m.answerSync(e.now, syncOut{err: kerr.CoordinatorNotAvailable.Code})
		}
		g.prepare(e)
		return
	}
	for _, m := range g.members {
		m.answerSync(e.now, g.syncAnswer(m))
	}
}

func (g *group) recordStable(e *env) error {
	was, since := g.state, g.since
	g.become(e, stable)
	err := e.append([]record{groupRecord(g)})
	if err != nil {
		g.state, g.since = was, since
	}
	return err
}

func (g *group) syncAnswer(m *member) syncOut {
	return syncOut{protocolType: g.protocolType, protocol: g.protocol, assignment: m.assigned}
}

// heartbeat keeps a member's session alive and tells it when to rejoin.
func (g *group) heartbeat(e *env, id, instance string, generation int32) int16 {
	if g.consumer != nil {
		return g.heartbeatConsumers(e, id, instance, generation)
	}
	m, code := g.find(id, instance)
	switch {
	case code != 0:
		return code
	case generation != g.generation:
		return kerr.IllegalGeneration.Code
	}
	// A first join that waits has a limit of its own, which a heartbeat must not shorten.
	if !(m.fresh && m.join != nil) {
		m.touch(e.now)
	}
	if g.state == preparing {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// waiting says that the member is silent because we owe it an answer.
func (m *member) waiting() bool { return !m.fresh && (m.join != nil || m.sync != nil) }

// tick does whatever is due. It may be called at any time and as often as one likes.
func (g *group) tick(e *env) {
	if g.consumer != nil {
		g.tickConsumers(e)
		return
	}
	for id, t := range g.pending {
		if !t.After(e.now) {
			delete(g.pending, id)
			e.weighs = true
		}
	}
	var expired []*member
	for _, m := range g.members {
		if !m.deadline.After(e.now) && !m.waiting() {
			expired = append(expired, m)
		}
	}
	if !g.syncBy.IsZero() && !g.syncBy.After(e.now) {
		g.syncBy = time.Time{}
		for _, m := range g.members {
			if !m.synced && !slices.Contains(expired, m) {
				expired = append(expired, m)
			}
		}
	}
	g.remove(e, expired)
	g.maybeComplete(e)
}

// next is when tick has something to do; zero: never, unless something happens.
func (g *group) next() time.Time {
	var t time.Time
	at := func(d time.Time) {
		if !d.IsZero() && (t.IsZero() || d.Before(t)) {
			t = d
		}
	}
	if g.consumer != nil {
		for _, m := range g.consumer.members {
			for _, d := range m.deadlines() {
				at(d)
			}
		}
		return t
	}
	for _, d := range g.pending {
		at(d)
	}
	for _, m := range g.members {
		if !m.waiting() {
			at(m.deadline)
		}
	}
	at(g.syncBy)
	if g.state == preparing {
		at(g.rebalance)
	}
	return t
}
