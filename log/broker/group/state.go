package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/batch"
)

// state is where a group stands; the texts are those of the protocol.
type state string

const (
	empty      state = "Empty"               // no members, perhaps offsets
	preparing  state = "PreparingRebalance"  // waiting for members to join
	completing state = "CompletingRebalance" // members know their generation, the leader owes the assignment
	stable     state = "Stable"              // every member can have its assignment
	dead       state = "Dead"                // deleted; the coordinator has forgotten it
)

// newMemberJoin bounds how long a member that never had an answer may wait in its first join: its client may be gone without
// our having heard of it, and it has no session yet that could expire.
const newMemberJoin = 5 * time.Minute

// EmbeddedHost is the client host of members that come over the in-memory connection. A TCP client's host begins with a
// slash, as in Kafka's records, so the two never collide. It is what tells the members of a dead process apart at load.
const EmbeddedHost = "embedded"

// Client is who sent a request.
type Client struct {
	ID   string // client.id of the request header
	Host string // "/" and the peer's address, or EmbeddedHost
}

type protocol struct {
	name     string
	metadata []byte
}

type member struct {
	id        string
	instance  string // empty: a dynamic member
	client    Client
	session   time.Duration
	rebalance time.Duration
	protocols []protocol // in the member's order of preference
	assigned  []byte

	fresh    bool // has never had an answer to a join
	synced   bool // has asked for the assignment of this generation
	deadline time.Time
	join     func(joinOut) // set while its join waits
	sync     func(syncOut) // set while its sync waits
}

// group is one group's whole state. It is not safe for concurrent use.
type group struct {
	name         string
	state        state
	since        time.Time // when it came into its state
	protocolType string    // of the present members, or of the last ones
	generation   int32
	protocol     string // chosen for this generation
	leader       string // member id

	members []*member            // in the order in which they joined first
	pending map[string]time.Time // ids handed out and not yet used, with the time at which they expire
	offsets map[string]map[int32]offset
	txns    map[int64]map[partition]offset // committed in a producer's open transaction; nil: none

	consumer *consumers // of a group of the newer protocol: its members, and no others; the fields above but offsets are then those of an empty group

	initial   bool      // the running rebalance is the first since the group was empty
	began     time.Time // when that one began
	rebalance time.Time // when the join phase ends with whoever has joined
	syncBy    time.Time // when members that have not synced are removed; zero: nothing is awaited
}

// env is what a rule may use besides the state.
type env struct {
	now    time.Time
	weighs bool // members have come, gone or changed: what they take is to be counted anew
	limits *Limits
	// room says whether members may say so many bytes more of themselves; nil: any number.
	room func(bytes int) bool
	// append writes records to the log, all or none. An error has been logged; the rule must leave the state as it was.
	append func([]record) error
	// appendInTxn does the same in a producer's transaction.
	appendInTxn func(batch.Producer, []record) error
	end         int64 // log end after the last append
	// id makes a member id that was never used before.
	id func(prefix string) string
	// topics are those that members of consumer groups read.
	topics Topics
	// Of members of the newer protocol, as configured for this group.
	consumerSession, consumerHeartbeat time.Duration
}

func newGroup(name string, now time.Time) *group {
	return &group{
		name:    name,
		state:   empty,
		since:   now,
		pending: map[string]time.Time{},
		offsets: map[string]map[int32]offset{},
	}
}

func (g *group) become(e *env, s state) {
	g.state, g.since = s, e.now
}

func (g *group) member(id string) *member {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (g *group) static(instance string) *member {
	if instance == "" {
		return nil
	}
	for _, m := range g.members {
		if m.instance == instance {
			return m
		}
	}
	return nil
}

// find checks who speaks: a member by its id, fenced when another member has taken over its instance id.
func (g *group) find(id, instance string) (*member, int16) {
	if instance != "" {
		switch m := g.static(instance); {
		case m == nil:
			return nil, kerr.UnknownMemberID.Code
		case m.id != id:
			return nil, kerr.FencedInstanceID.Code
		default:
			return m, 0
		}
	}
	if m := g.member(id); m != nil {
		return m, 0
	}
	return nil, kerr.UnknownMemberID.Code
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

func (m *member) supports(name string) bool {
	return slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name })
}

// touch restarts the member's session.
func (m *member) touch(now time.Time) { m.deadline = now.Add(m.session) }

// answerJoin and answerSync end a wait, if there is one. The session begins anew: while the member waited it was not counted.
func (m *member) answerJoin(now time.Time, out joinOut) {
	if m.join != nil {
		m.join(out)
		m.join = nil
		m.touch(now)
	}
}

func (m *member) answerSync(now time.Time, out syncOut) {
	if m.sync != nil {
		m.sync(out)
		m.sync = nil
		m.touch(now)
	}
}

// common lists the protocols that all members but the left-out one support, and the candidate too; in the candidate's order.
func (g *group) common(candidate []protocol, leftOut *member) []string {
	var names []string
	for _, p := range candidate {
		all := true
		for _, m := range g.members {
			if m != leftOut && !m.supports(p.name) {
				all = false
				break
			}
		}
		if all {
			names = append(names, p.name)
		}
	}
	return names
}

// vote chooses the protocol: each member gives its vote to the first protocol in its own order that all support. Equal votes
// go to the one that the leader prefers, so that the outcome does not depend on the order of a map.
func (g *group) vote() string {
	first := g.member(g.leader)
	if first == nil {
		first = g.members[0]
	}
	candidates := g.common(first.protocols, nil)
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if slices.Contains(candidates, p.name) {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for _, name := range candidates {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// longestRebalance is the time that the slowest member asked for.
func (g *group) longestRebalance() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// forgettable says that nothing would be lost if the group were not kept: it never had a generation, and holds nothing.
func (g *group) forgettable() bool {
	return g.consumer == nil && g.state == empty && g.generation == 0 && len(g.pending) == 0 && len(g.offsets) == 0 && len(g.txns) == 0
}

// now is where the group stands, of whichever kind it is.
func (g *group) now() state {
	if g.consumer != nil {
		return g.consumer.state()
	}
	return g.state
}

func (g *group) sortedTopics() []string { return sortedTopics(g.offsets) }

func sortedTopics[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
