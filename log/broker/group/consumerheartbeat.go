package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What a member of a consumer group says and hears. Everything is said in heartbeats: to join (epoch 0), to stay, to report what
// it owns, and to leave (−1, or −2 for a static member that will be back).

type beatIn struct {
	id, instance, rack string
	client             Client
	epoch              int32
	rebalance          time.Duration // −1: as before
	names              *[]string     // nil: as before
	regex              *string       // nil: as before; empty: none
	assignor           string        // empty: as before
	owns               *[]tp         // what it owns, in order; nil: as before
}

// full says that the client knows nothing for certain and wants to be told everything.
func (in *beatIn) full() bool {
	return in.epoch == joining || in.rebalance >= 0 && (in.names != nil || in.regex != nil) && in.owns != nil
}

type beatOut struct {
	err      int16
	reason   string
	id       string
	epoch    int32
	interval time.Duration
	told     bool // the assignment is said
	assigned []owned
}

func refusal(err *kerr.Error, format string, args ...any) beatOut {
	return beatOut{err: err.Code, reason: fmt.Sprintf(format, args...)}
}

func (out beatOut) refused() bool { return out.err != 0 }

// beat carries out a heartbeat of the newer protocol.
func (g *group) beat(e *env, in beatIn) beatOut {
	if in.epoch < 0 {
		return g.depart(e, in)
	}
	d, out := g.opened(e, in.epoch == joining)
	if out.refused() {
		return out
	}
	if in.id == "" {
		in.id = e.id("")
	}
	if out := d.full(in.id, in.instance); out.refused() {
		return out
	}
	before, out := d.speaker(in)
	if out.refused() {
		return out
	}
	m := *before
	m.client, m.classic = in.client, nil
	if in.instance != "" {
		m.instance = in.instance
	}
	if in.rack != "" {
		m.rack = in.rack
	}
	if in.rebalance >= 0 {
		m.rebalance = in.rebalance
	}
	if in.assignor != "" {
		m.assignor = in.assignor
	}
	if in.names != nil {
		m.names = sortedNames(*in.names)
	}
	if in.regex != nil && *in.regex != m.regex {
		if *in.regex != "" {
			if _, err := compileSubscription(*in.regex); err != nil {
				return refusal(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %v.", *in.regex, err)
			}
		}
		m.regex = *in.regex
	}
	if !e.fits(d.grown(before, &m)) {
		return refusal(kerr.GroupMaxSizeReached, "The members of all groups say more than %d bytes of themselves.", e.limits.MaxMemory)
	}
	now := d.settle(before, &m, in.owns)
	if err := d.commit(); err != nil {
		return refusal(kerr.CoordinatorNotAvailable, "The group's state could not be written.")
	}
	now = g.consumer.members[now.id]
	now.session = e.now.Add(e.consumerSession)
	out = beatOut{id: now.id, epoch: now.epoch, interval: e.consumerHeartbeat}
	if in.full() || !slices.Equal(bare(before.assigned), bare(now.assigned)) {
		out.told, out.assigned = true, now.assigned
	}
	return out
}

// speaker finds the member that a heartbeat comes from, or makes it.
func (d *draft) speaker(in beatIn) (*consumer, beatOut) {
	m := d.c.members[in.id]
	if in.instance == "" {
		switch {
		case m != nil:
			return m, m.checkEpoch(in)
		case in.epoch == joining:
			return &consumer{id: in.id, rebalance: -1}, beatOut{}
		}
		return nil, refusal(kerr.UnknownMemberID, "Member %s is not a member of group %s.", in.id, d.g.name)
	}
	old := d.c.static(in.instance)
	switch {
	case in.epoch == joining && old == nil && m != nil:
		return m, beatOut{}
	case in.epoch == joining && old == nil:
		return &consumer{id: in.id, rebalance: -1}, beatOut{}
	case in.epoch == joining && old.id == in.id && old.epoch != leavingAgain:
		return old, beatOut{} // the answer to its join was lost
	case in.epoch == joining && old.classic == nil && old.epoch != leavingAgain:
		return nil, refusal(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", in.id, in.instance, old.id)
	case in.epoch == joining:
		return d.replace(old, in.id), beatOut{}
	case old == nil:
		return nil, refusal(kerr.UnknownMemberID, "Instance id %s is unknown.", in.instance)
	case old.id != in.id:
		return nil, refusal(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", in.id, in.instance, old.id)
	}
	return old, old.checkEpoch(in)
}

// checkEpoch accepts a member's epoch, and the one before if what it owns shows that only the last answer was lost.
func (m *consumer) checkEpoch(in beatIn) beatOut {
	switch {
	case in.epoch == joining || in.epoch == m.epoch:
		return beatOut{}
	case in.epoch > m.epoch:
		return refusal(kerr.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", in.epoch, m.epoch)
	case in.epoch == m.previous && in.owns != nil && m.has(*in.owns):
		return beatOut{}
	}
	return refusal(kerr.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", in.epoch, m.epoch)
}

// has reports whether ps are all among those that the member may read.
func (m *consumer) has(ps []tp) bool {
	for _, p := range ps {
		if _, ok := findOwned(m.assigned, p); !ok {
			return false
		}
	}
	return true
}

// depart carries out the end of a membership.
func (g *group) depart(e *env, in beatIn) beatOut {
	if g.consumer == nil {
		return refusal(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.name)
	}
	m := g.consumer.members[in.id]
	if in.instance != "" {
		m = g.consumer.static(in.instance)
		switch {
		case m == nil:
			return refusal(kerr.UnknownMemberID, "Instance id %s is unknown.", in.instance)
		case m.id != in.id:
			return refusal(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", in.id, in.instance, m.id)
		}
	}
	if m == nil {
		return refusal(kerr.UnknownMemberID, "Member %s is not a member of group %s.", in.id, g.name)
	}
	err := error(nil)
	if in.epoch == leavingAgain {
		d := g.draft(e)
		away := *m
		away.epoch, away.revoking, away.revokeBy = leavingAgain, nil, time.Time{}
		d.setCurrent(&away)
		err = d.commit()
	} else {
		err = g.expel(e, []*consumer{m})
	}
	if err != nil {
		return refusal(kerr.CoordinatorNotAvailable, "The group's state could not be written.")
	}
	return beatOut{id: in.id, epoch: in.epoch}
}

// expel removes members. What they had is free at once; the others hear of it with their next heartbeats. When only members that
// speak the classic protocol are left of a mixed group, it becomes a classic one.
func (g *group) expel(e *env, gone []*consumer) error {
	if len(gone) == 0 {
		return nil
	}
	if g.becomesClassic(gone) {
		return g.toClassic(e, gone)
	}
	d := g.draft(e)
	d.expel(gone)
	return d.commit()
}

func (d *draft) expel(gone []*consumer) {
	for _, m := range gone {
		d.remove(m.id)
	}
	d.resolve(false)
	d.c.look(d.e.topics)
	d.bump()
	if len(d.c.members) == 0 {
		d.retarget() // nobody is left whose heartbeat would
	}
}

// resolve finds the topics of regexes, and reports whether any has others than before.
func (d *draft) resolve(all bool) bool {
	changed, gone := d.c.resolve(d.e.topics, d.e.now, all)
	for _, re := range changed {
		r := d.c.regexes[re]
		d.add(consumerRecord{kind: regexKey, second: re, topics: r.topics, metadata: d.e.topics.Changes(), time: r.at})
	}
	for _, re := range gone {
		d.tombstone(regexKey, re)
	}
	return len(changed) > 0
}

// draft is a change of a consumer group that is not recorded yet. Nothing of the group is touched before commit, except for
// a classic group's waiting members.
type draft struct {
	e       *env
	g       *group
	c       *consumers
	own     bool // c is a copy
	records []record
	done    []func() // after the records are in the log
}

func (g *group) draft(e *env) *draft { return &draft{e: e, g: g, c: g.consumer} }

// opened begins a change by a heartbeat. A group that is not there yet, or that is a classic one, becomes a consumer group only
// by a member that joins.
func (g *group) opened(e *env, join bool) (*draft, beatOut) {
	switch {
	case g.consumer != nil:
		return g.draft(e), beatOut{}
	case !join:
		return nil, refusal(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.name)
	case len(g.members) > 0:
		return g.upgraded(e)
	}
	d := &draft{e: e, g: g, c: newConsumers(), own: true}
	d.c.epoch = 1 // and 2 with its first member, as in Kafka
	d.records = append(d.records, g.tombstones()...)
	return d, beatOut{}
}

func (d *draft) edit() {
	if !d.own {
		d.c, d.own = d.c.clone(), true
	}
}

func (d *draft) add(r consumerRecord) {
	r.group = d.g.name
	d.records = append(d.records, r.record())
}

func (d *draft) tombstone(kind int16, second string) {
	d.records = append(d.records, record{key: consumerRecordKey(kind, d.g.name, second)})
}

// setMetadata and setCurrent take a member over and record that part of it.
func (d *draft) setMetadata(m *consumer) {
	d.edit()
	d.c.put(m)
	d.add(consumerRecord{kind: memberKey, second: m.id, member: *m})
}

func (d *draft) setCurrent(m *consumer) {
	d.edit()
	d.c.put(m)
	d.add(consumerRecord{kind: currentKey, second: m.id, member: *m})
}

func (d *draft) setTarget(id string, ps []tp) {
	d.edit()
	d.c.targets[id] = ps
	d.add(consumerRecord{kind: targetKey, second: id, target: ps})
}

func (d *draft) remove(id string) {
	d.edit()
	d.tombstone(currentKey, id)
	if _, ok := d.c.targets[id]; ok {
		d.tombstone(targetKey, id)
	}
	d.tombstone(memberKey, id)
	d.c.drop(id)
}

// replace gives a static member's place to a new one.
func (d *draft) replace(old *consumer, id string) *consumer {
	m := *old
	m.id, m.epoch, m.previous = id, 0, 0
	m.revokeBy, m.joinBy, m.syncBy = time.Time{}, time.Time{}, time.Time{}
	target := d.c.targets[old.id]
	d.edit()
	d.remove(old.id)
	d.setMetadata(&m)
	d.setTarget(id, target)
	d.setCurrent(&m)
	return &m
}

// bump begins the next epoch of the group.
func (d *draft) bump() {
	d.edit()
	d.c.epoch++
	d.c.hash = hashOf(d.c.topics)
	d.add(consumerRecord{kind: epochKey, epoch: d.c.epoch, hash: d.c.hash})
}

// full refuses who would be one too many.
func (d *draft) full(id, instance string) beatOut {
	if len(d.c.members) >= d.e.limits.MaxMembers && d.c.members[id] == nil && d.c.static(instance) == nil {
		return refusal(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", d.e.limits.MaxMembers)
	}
	return beatOut{}
}

// settle takes what a member said over and moves it on: m is the member as it wants to be, before as it was. It returns the
// member as it is then.
func (d *draft) settle(before, m *consumer, owns *[]tp) *consumer {
	_, known := d.c.members[m.id]
	bump := !slices.Equal(m.names, before.names) || m.regex != before.regex
	wish := ""
	if m.assignor != before.assignor {
		wish = d.c.preferred()
	}
	if !known || !m.sameMetadata(before) {
		d.setMetadata(m)
	}
	bump = bump || d.c.epoch == 0 || wish != "" && d.c.preferred() != wish
	changes := d.e.topics.Changes()
	if bump || changes != d.c.looked {
		d.edit()
		news := d.resolve(changes != d.c.looked)
		d.c.looked = changes
		d.c.look(d.e.topics)
		if bump || news || hashOf(d.c.topics) != d.c.hash {
			d.bump()
		}
	}
	if d.c.epoch > d.c.target {
		d.retarget()
	}
	return d.reconcile(m, owns)
}

// retarget makes a target assignment for the group as it is now.
func (d *draft) retarget() {
	d.edit()
	s, ms := d.c.spec()
	for i, ps := range assign(d.c.preferred(), s) {
		if old, ok := d.c.targets[ms[i].id]; !ok || !slices.Equal(old, ps) {
			d.setTarget(ms[i].id, ps)
		}
	}
	d.c.target, d.c.targetAt = d.c.epoch, d.e.now.UnixMilli()
	d.add(consumerRecord{kind: targetEpochKey, epoch: d.c.target, time: d.c.targetAt})
}

// spec is the assignors' question about the group as it is, with its members in the question's order.
func (c *consumers) spec() (*spec, []*consumer) {
	s := &spec{}
	places := map[string]int{}
	for _, n := range sortedTopics(c.topics) {
		places[n] = len(s.topics)
		s.topics = append(s.topics, specTopic(c.topics[n]))
	}
	ms := c.sorted()
	for _, m := range ms {
		sm := specMember{id: m.id, instance: m.instance, had: c.targets[m.id]}
		for _, n := range c.subscription(m) {
			if t, ok := places[n]; ok {
				sm.topics = append(sm.topics, t)
			}
		}
		s.members = append(s.members, sm)
	}
	return s, ms
}

// reconcile moves a member towards its target, as far as what it still owns allows, and what others do.
func (d *draft) reconcile(m *consumer, owns *[]tp) *consumer {
	next, target := *m, d.c.targets[m.id]
	still := func(ps []owned) bool { // what is not reported may still be owned
		return owns == nil || slices.ContainsFunc(ps, func(p owned) bool { return hasTP(*owns, p.tp) })
	}
	switch {
	case m.reached(d.c.target):
	case m.state == unrevoked && still(m.revoking):
		d.unsubscribe(&next)
	case m.state == unrevoked:
		d.advance(&next, m.epoch+1, target, still)
	default:
		d.advance(&next, m.epoch, target, still)
	}
	if next.standsAs(m) {
		return m // also if only its previous epoch would be another: it is what tells a lost answer
	}
	next.revokeBy = time.Time{}
	if next.state == unrevoked && next.classic == nil && next.rebalance >= 0 {
		next.revokeBy = d.e.now.Add(next.rebalance)
	}
	d.setCurrent(&next)
	return &next
}

// unsubscribe takes from a member what it no longer asks for, while it has yet to give up other partitions.
func (d *draft) unsubscribe(m *consumer) {
	reads := map[[16]byte]bool{}
	for _, n := range d.c.subscription(m) {
		if t, ok := d.c.topics[n]; ok {
			reads[t.id] = true
		}
	}
	var keep []owned
	revoke := slices.Clone(m.revoking)
	for _, p := range m.assigned {
		if reads[p.topic] {
			keep = append(keep, p)
		} else {
			revoke = append(revoke, p)
		}
	}
	if len(revoke) > len(m.revoking) {
		m.assigned, m.revoking = keep, sortedOwned(revoke)
	}
}

// advance compares what a member has with its target. It must give up first what is no longer its own, staying where it
// is (epoch); then it comes to the target's epoch, and gets of it what nobody else has.
func (d *draft) advance(m *consumer, epoch int32, target []tp, still func([]owned) bool) {
	var keep, revoke []owned
	for _, p := range m.assigned {
		if hasTP(target, p.tp) {
			keep = append(keep, p)
		} else {
			revoke = append(revoke, p)
		}
	}
	m.previous = m.epoch
	if len(revoke) > 0 && still(revoke) {
		m.state, m.epoch, m.assigned, m.revoking = unrevoked, epoch, keep, revoke
		return
	}
	m.state = steady
	var got []owned
	for _, p := range target {
		if _, ok := findOwned(keep, p); ok {
			continue
		}
		if _, taken := d.c.owners[p]; taken {
			m.state = unreleased
		} else {
			got = append(got, owned{p, d.c.target})
		}
	}
	m.epoch, m.assigned, m.revoking = d.c.target, sortedOwned(append(keep, got...)), nil
}

// commit records the change and makes it the group's state. Without records it is only about what is not recorded.
func (d *draft) commit() error {
	if len(d.records) > 0 {
		if err := d.e.append(d.records); err != nil {
			return err
		}
	}
	d.e.weighs = true
	if d.g.consumer == nil {
		d.g.clearClassic()
	}
	if len(d.c.members) == 0 && (d.g.consumer == nil || len(d.g.consumer.members) > 0) {
		d.g.since = d.e.now // offsets are kept for a time from here on
	}
	d.g.consumer = d.c
	for _, f := range d.done {
		f()
	}
	return nil
}

// tickConsumers does what is due in a consumer group.
func (g *group) tickConsumers(e *env) {
	var gone []*consumer
	for _, m := range g.consumer.sorted() {
		for _, t := range m.deadlines() {
			if !t.IsZero() && !t.After(e.now) {
				gone = append(gone, m)
				break
			}
		}
	}
	if g.expel(e, gone) != nil {
		for _, m := range gone { // again, when there may be room in the log
			m.session, m.revokeBy, m.joinBy, m.syncBy = e.now.Add(time.Second), time.Time{}, time.Time{}, time.Time{}
		}
	}
}

func (m *consumer) deadlines() [4]time.Time {
	return [4]time.Time{m.session, m.revokeBy, m.joinBy, m.syncBy}
}
