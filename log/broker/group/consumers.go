package group

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"time"
)

// A group of the newer consumer protocol (KIP-848): the coordinator decides who reads what. Three epochs order what happens. The
// group's rises with every change of members, subscriptions or topics. The target assignment's says for which of them the
// present target was made. A member's says how far it has come: it moves to the target's epoch when it has given up all that
// is no longer its own, and gets what others have given up by then. A partition is given only when nobody owns it.
//
//	             who reads what               a member
//	epoch        the next target   target     the last one that it has reached
//
// The rules are in consumerheartbeat.go and consumerclassic.go, who gets what in assignors.go.

// tp is a partition by its topic's id.
type tp struct {
	topic     [16]byte
	partition int32
}

// owned is a partition that a member has, with the epoch in which it was given to it. Offsets for it are taken from that epoch
// on (KIP-1251).
type owned struct {
	tp
	since int32
}

func compareTP(a, b tp) int {
	return cmp.Or(slices.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
}

func compareOwned(a, b owned) int { return compareTP(a.tp, b.tp) }

func sortedTPs(ps []tp) []tp {
	slices.SortFunc(ps, compareTP)
	return slices.Compact(ps)
}

func sortedOwned(ps []owned) []owned {
	slices.SortFunc(ps, compareOwned)
	return slices.CompactFunc(ps, func(a, b owned) bool { return a.tp == b.tp })
}

// held and bare convert between partitions with and without epochs.
func held(ps []tp) []owned {
	out := make([]owned, len(ps))
	for i, p := range ps {
		out[i].tp = p
	}
	return out
}

func bare(ps []owned) []tp {
	out := make([]tp, len(ps))
	for i, p := range ps {
		out[i] = p.tp
	}
	return out
}

func sortedNames(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

func hasTP(ps []tp, p tp) bool {
	_, ok := slices.BinarySearchFunc(ps, p, compareTP)
	return ok
}

func findOwned(ps []owned, p tp) (owned, bool) {
	i, ok := slices.BinarySearchFunc(ps, p, func(a owned, p tp) int { return compareTP(a.tp, p) })
	if !ok {
		return owned{}, false
	}
	return ps[i], true
}

// reconciling is where a member stands on its way to its target, in the numbers of the records.
type reconciling int8

const (
	steady     reconciling = 0 // has its target
	unrevoked  reconciling = 1 // must give up some partitions first
	unreleased reconciling = 2 // waits for partitions that others have not given up yet
)

// The member epochs that are not epochs.
const (
	joining      = 0
	leaving      = -1
	leavingAgain = -2 // a static member that will be back
)

// consumer is a member of a consumer group. It is changed by replacing it, except for its deadlines.
type consumer struct {
	id        string
	instance  string // empty: a dynamic member
	rack      string
	client    Client
	names     []string // of topics, in order
	regex     string   // empty: none
	rebalance time.Duration
	assignor  string       // empty: no wish
	classic   *classicSide // of a member that speaks the classic protocol

	epoch    int32
	previous int32
	state    reconciling
	assigned []owned // in order; what it may read
	revoking []owned // in order; what it must give up before it may go on

	session  time.Time // when it is given up
	revokeBy time.Time // when it must have given up revoking; zero: nothing is awaited
	joinBy   time.Time // of a classic member that was told to rejoin
	syncBy   time.Time // of a classic member that has joined
}

// classicSide is what the classic protocol knows of a member.
type classicSide struct {
	session   time.Duration
	protocols []protocol
}

// sameMetadata compares what a member's record has.
func (m *consumer) sameMetadata(o *consumer) bool {
	return m.instance == o.instance && m.rack == o.rack && m.client == o.client && slices.Equal(m.names, o.names) && m.regex == o.regex &&
		m.rebalance == o.rebalance && m.assignor == o.assignor && m.classic.equal(o.classic)
}

func (c *classicSide) equal(o *classicSide) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.session == o.session && slices.EqualFunc(c.protocols, o.protocols, func(a, b protocol) bool {
		return a.name == b.name && slices.Equal(a.metadata, b.metadata)
	})
}

// standsAs compares what a member has, and how far it has come.
func (m *consumer) standsAs(o *consumer) bool {
	return m.epoch == o.epoch && m.state == o.state && slices.Equal(m.assigned, o.assigned) && slices.Equal(m.revoking, o.revoking)
}

// reached reports whether the member has come to a target.
func (m *consumer) reached(epoch int32) bool { return m.state == steady && m.epoch == epoch }

// topicInfo is what a group knows of a topic.
type topicInfo struct {
	id         [16]byte
	partitions int32
}

// resolved is the topics that a regex matches, in order.
type resolved struct {
	topics []string
	at     int64 // ms
}

// consumers is the state of a consumer group beside its offsets.
type consumers struct {
	epoch    int32
	hash     int64 // of the topics that the members read, see hashOf
	target   int32 // epoch of the targets
	targetAt int64 // ms
	members  map[string]*consumer
	statics  map[string]string // member ids by instance id
	targets  map[string][]tp   // by member id, in order
	owners   map[tp]string     // id of whoever has or must give up a partition
	regexes  map[string]resolved
	old      bool // the log has a record of the topics themselves

	looked int64                // Topics.Changes when the topics were looked at last; −1: not yet
	topics map[string]topicInfo // those that the members read and that there are
}

func newConsumers() *consumers {
	return &consumers{
		members: map[string]*consumer{}, statics: map[string]string{}, targets: map[string][]tp{}, owners: map[tp]string{}, regexes: map[string]resolved{},
		topics: map[string]topicInfo{}, looked: -1,
	}
}

// clone copies the state so that a change can be given up. Members are shared until they are replaced.
func (c *consumers) clone() *consumers {
	n := *c
	n.members, n.statics, n.targets, n.owners = maps.Clone(c.members), maps.Clone(c.statics), maps.Clone(c.targets), maps.Clone(c.owners)
	n.regexes, n.topics = maps.Clone(c.regexes), maps.Clone(c.topics)
	return &n
}

// sorted lists the members by id.
func (c *consumers) sorted() []*consumer {
	ms := slices.Collect(maps.Values(c.members))
	slices.SortFunc(ms, func(a, b *consumer) int { return cmp.Compare(a.id, b.id) })
	return ms
}

func (c *consumers) static(instance string) *consumer { return c.members[c.statics[instance]] }

// The states of consumer groups; Empty, Stable and Dead are those of classic ones.
const (
	assigning         state = "Assigning"   // the target is older than the group
	reconcilingMember state = "Reconciling" // a member is on its way to its target
)

func (c *consumers) state() state {
	switch {
	case len(c.members) == 0:
		return empty
	case c.epoch > c.target:
		return assigning
	}
	for _, m := range c.members {
		if !m.reached(c.target) {
			return reconcilingMember
		}
	}
	return stable
}

// own notes what a member has, in place of what it had.
func (c *consumers) own(m, before *consumer) {
	if before != nil {
		for _, ps := range [][]owned{before.assigned, before.revoking} {
			for _, p := range ps {
				if c.owners[p.tp] == before.id {
					delete(c.owners, p.tp)
				}
			}
		}
	}
	if m != nil {
		for _, ps := range [][]owned{m.assigned, m.revoking} {
			for _, p := range ps {
				c.owners[p.tp] = m.id
			}
		}
	}
}

// put adds or replaces a member.
func (c *consumers) put(m *consumer) {
	c.own(m, c.members[m.id])
	c.members[m.id] = m
	if m.instance != "" {
		c.statics[m.instance] = m.id
	}
}

func (c *consumers) drop(id string) {
	m := c.members[id]
	c.own(nil, m)
	if m != nil && c.statics[m.instance] == id {
		delete(c.statics, m.instance)
	}
	delete(c.members, id)
	delete(c.targets, id)
}

// subscription is the topics that a member reads, by its names and its regex, in order.
func (c *consumers) subscription(m *consumer) []string {
	if m.regex == "" {
		return m.names
	}
	names := append(slices.Clone(m.names), c.regexes[m.regex].topics...)
	slices.Sort(names)
	return slices.Compact(names)
}

// look finds out what there is of the topics that the members read.
func (c *consumers) look(topics Topics) {
	c.topics = map[string]topicInfo{}
	for _, m := range c.members {
		for _, ns := range [][]string{m.names, c.regexes[m.regex].topics} {
			for _, n := range ns {
				if _, ok := c.topics[n]; ok {
					continue
				}
				if id, partitions, ok := topics.TopicByName(n); ok {
					c.topics[n] = topicInfo{id, partitions}
				}
			}
		}
	}
}

// hashOf tells one set of topics from another: the same names with other ids or more partitions are another set.
func hashOf(topics map[string]topicInfo) int64 {
	if len(topics) == 0 {
		return 0
	}
	h := fnv.New64a()
	var b []byte
	for _, n := range slices.Sorted(maps.Keys(topics)) {
		t := topics[n]
		b = binary.AppendUvarint(b[:0], uint64(len(n)))
		b = append(b, n...)
		b = append(b, t.id[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(t.partitions))
		h.Write(b)
	}
	return max(1, int64(h.Sum64()>>1))
}

// compileSubscription makes a regex of a subscription: RE2's syntax, and it must match a name as a whole.
func compileSubscription(re string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(re); err != nil {
		return nil, err // in the user's own words
	}
	return regexp.Compile("^(?:" + re + ")$")
}

// resolve finds the topics of the regexes that members have, anew when the topics have changed. It reports what is other than
// before.
func (c *consumers) resolve(topics Topics, now time.Time, all bool) (changed []string, gone []string) {
	used := map[string]bool{}
	for _, m := range c.members {
		if m.regex != "" {
			used[m.regex] = true
		}
	}
	var names []string
	for _, re := range slices.Sorted(maps.Keys(used)) {
		before, known := c.regexes[re]
		if known && !all {
			continue
		}
		x, err := compileSubscription(re)
		if err != nil {
			continue // from a log that somebody else wrote; new ones are checked before
		}
		if names == nil {
			names = topics.TopicNames()
		}
		var found []string
		for _, n := range names {
			if x.MatchString(n) {
				found = append(found, n)
			}
		}
		if known && slices.Equal(before.topics, found) {
			continue
		}
		c.regexes[re] = resolved{found, now.UnixMilli()}
		changed = append(changed, re)
	}
	for _, re := range slices.Sorted(maps.Keys(c.regexes)) {
		if !used[re] {
			delete(c.regexes, re)
			gone = append(gone, re)
		}
	}
	return changed, gone
}

// preferred is the assignor that most members wish for; the first of our own with equal votes, and without any.
func (c *consumers) preferred() string {
	votes := map[string]int{}
	for _, m := range c.members {
		if m.assignor != "" {
			votes[m.assignor]++
		}
	}
	best := assignorNames[0]
	for _, n := range assignorNames {
		if votes[n] > votes[best] {
			best = n
		}
	}
	return best
}
