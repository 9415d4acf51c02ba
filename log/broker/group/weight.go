package group

// What members say of themselves is kept for as long as they are members, and any client can be one. So it is counted, roughly, over
// all groups, and nobody is let in beyond Limits.MaxMemory.
const (
	memberWeight = 512 // a member's fixed part
	nameWeight   = 16  // a string beside its bytes
	ownedWeight  = 64  // a partition: with its member, in its target, and with its owner
)

// weight is about how many bytes the group's members take.
func (g *group) weight() int64 {
	if g.state == dead {
		return 0
	}
	n := 0
	if len(g.members)+len(g.pending) > 0 || g.consumer != nil {
		n = memberWeight + len(g.name)
	}
	for id := range g.pending {
		n += memberWeight + len(id)
	}
	for _, m := range g.members {
		n += memberWeight + len(m.id) + len(m.instance) + len(m.client.ID) + len(m.assigned) + protocolsWeight(m.protocols)
	}
	if g.consumer == nil {
		return int64(n)
	}
	for _, m := range g.consumer.members {
		n += memberWeight + len(m.id) + len(m.instance) + len(m.client.ID) + m.saidWeight()
		n += ownedWeight * (len(m.assigned) + len(m.revoking))
	}
	for _, r := range g.consumer.regexes {
		n += nameWeight * len(r.topics)
	}
	return int64(n)
}

// fits reports whether there is room for what a member says more than before. Who says no more than before is never refused.
func (e *env) fits(grown int) bool { return grown <= 0 || e.room == nil || e.room(grown) }

// grown is what a member takes more than before.
func (d *draft) grown(before, m *consumer) int {
	n := m.saidWeight() - before.saidWeight()
	if d.c.members[m.id] == nil {
		n += memberWeight
	}
	return n
}

// saidWeight is the part of a member's weight that it decides itself.
func (m *consumer) saidWeight() int {
	n := len(m.rack) + len(m.regex)
	for _, name := range m.names {
		n += nameWeight + len(name)
	}
	if m.classic != nil {
		n += protocolsWeight(m.classic.protocols)
	}
	return n
}

func protocolsWeight(ps []protocol) (n int) {
	for _, p := range ps {
		n += nameWeight + len(p.name) + len(p.metadata)
	}
	return n
}
