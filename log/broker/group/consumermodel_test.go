package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
)

// TestConsumerGroupsKeepTheirPromisesUnderChaos has members of the newer protocol join, beat, hold on to what they should give up,
// fall silent, die, leave and change their minds, and topics come, grow and go, while answers are lost, the log refuses, delays and
// crashes between any two records, and the coordinator is read from it again. It checks what a user relies on:
//
//   - at no moment do two members read one partition, as long as they keep their sessions and give up in time;
//   - in the coordinator's state a partition has one owner, and what a target gives it gives once;
//   - a member's epoch never goes back while it is a member, nor does the group's, over restarts and crashes too;
//   - a commit that was acknowledged is there until a newer one is;
//   - when the chaos ends, every partition that somebody reads has its reader, and nobody has much more than others.
func TestConsumerGroupsKeepTheirPromisesUnderChaos(t *testing.T) {
	var total consumerWorld
	seeds := trial.Seeds(600)
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := &consumerWorld{t: t, rnd: rand.New(rand.NewPCG(seed, 848)), seed: seed}
			w.run()
			total.add(w)
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("answers %d, fenced %d, commits %d, crashes %d, handed over %d", total.answers, total.fenced, total.commits, total.crashes, total.handed)
	if len(seeds) > 1 && (total.fenced == 0 || total.commits == 0 || total.crashes == 0 || total.handed == 0) {
		t.Error("the chaos missed something that it should meet")
	}
}

type consumerWorld struct {
	t      *testing.T
	rnd    *rand.Rand
	seed   uint64
	log    *memLog
	topics *memTopics
	c      *Coordinator
	life   int
	ms     []*reader
	// rebalance is how long members may take to give up; longer or shorter than a session.
	rebalance time.Duration
	nextID    int

	epoch int32           // the highest that anybody was told
	acked map[int32]int64 // by partition of topic t: newest acknowledged commit
	next  int64           // offset of the next one
	last  map[tp]string   // who read a partition last
	notes []string
	done  bool

	mu    sync.Mutex // guards inbox
	inbox []func()

	answers, fenced, commits, crashes, handed int
}

func (w *consumerWorld) add(o *consumerWorld) {
	w.answers += o.answers
	w.fenced += o.fenced
	w.commits += o.commits
	w.crashes += o.crashes
	w.handed += o.handed
}

// reader is a client of the newer protocol as its user sees it.
type reader struct {
	name     string
	instance string
	names    []string
	regex    string

	id     string
	epoch  int32
	owns   map[tp]bool
	target map[tp]bool
	said   bool      // the coordinator knows what it owns
	full   bool      // it is not sure what the coordinator knows
	busy   bool      // a request is on its way
	turn   int       // of its requests
	heard  time.Time // when it sent the last request that was answered well
	holds  bool      // it has something to give up
	owes   time.Time // since when, until the coordinator has heard that it did
	asleep time.Time // until then it is silent
	gone   bool      // it has left
}

func (w *consumerWorld) note(format string, args ...any) {
	w.notes = append(w.notes, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *consumerWorld) fatal(format string, args ...any) {
	if !w.done {
		w.done = true
		w.t.Errorf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.notes[max(0, len(w.notes)-80):], "\n"))
	}
}

func (w *consumerWorld) start() {
	w.life++
	var err error
	if w.c, err = Open(w.log, w.topics, Options{}); err != nil {
		w.fatal("open: %v", err)
	}
	for _, m := range w.ms {
		if m.busy {
			m.busy, m.full = false, true
		}
	}
}

func (w *consumerWorld) restart(crash bool) {
	w.note("restart crash=%v", crash)
	if !crash {
		w.log.sync()
		w.settle()
	}
	old := w.log
	w.log = w.log.crash(w.rnd.IntN(w.log.undurable() + 1))
	w.life++
	old.fail(ErrClosed)
	w.c.Close()
	w.crashes++
	w.start()
	w.checkCommits()
}

func (w *consumerWorld) settle() {
	synctest.Wait()
	w.mu.Lock()
	inbox := w.inbox
	w.inbox = nil
	w.mu.Unlock()
	for _, f := range inbox {
		f()
	}
}

// later delivers an answer to whoever still hears it.
func later[R any](w *consumerWorld, f func(R)) func(R, error) {
	life := w.life
	return func(r R, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inbox = append(w.inbox, func() {
			if w.life == life && err == nil {
				f(r)
			}
		})
	}
}

// anew is a process that starts: it has another id, and owns nothing.
func (w *consumerWorld) anew(m *reader) {
	w.nextID++
	*m = reader{name: m.name, instance: m.instance, names: m.names, regex: m.regex, id: fmt.Sprint(m.name, "-", w.nextID), owns: map[tp]bool{}, turn: m.turn + 1}
}

func (m *reader) lose() {
	m.epoch, m.owns, m.target, m.holds, m.owes, m.said, m.full = 0, map[tp]bool{}, nil, false, time.Time{}, false, false
}

func (m *reader) owned() []tp {
	ps := []tp{}
	for p := range m.owns {
		ps = append(ps, p)
	}
	return sortedTPs(ps)
}

func (w *consumerWorld) beat(m *reader) {
	if m.busy || m.gone {
		return
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = 1
	req.Group, req.MemberID, req.MemberEpoch = "g", m.id, m.epoch
	if m.instance != "" {
		req.InstanceID = &m.instance
	}
	if m.epoch == 0 || m.full || w.rnd.IntN(10) == 0 {
		req.RebalanceTimeoutMillis = int32(w.rebalance.Milliseconds())
		req.SubscribedTopicNames = append([]string{}, m.names...)
		req.SubscribedTopicRegex = &m.regex
	}
	sent := m.owned()
	if m.epoch == 0 || m.full || !m.said || w.rnd.IntN(10) == 0 {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, p := range sent {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.topic, Partitions: []int32{p.partition}})
		}
	}
	m.busy = true
	m.turn++
	turn, at, lost := m.turn, time.Now(), w.rnd.IntN(12) == 0
	w.c.ConsumerGroupHeartbeat(Client{ID: m.name, Host: "/10.0.0.1"}, req, later(w, func(r *kmsg.ConsumerGroupHeartbeatResponse) {
		if m.turn != turn {
			return
		}
		m.busy = false
		if lost {
			m.full = true
			return
		}
		w.told(m, at, sent, req.Topics != nil, r)
	}))
}

func (w *consumerWorld) told(m *reader, at time.Time, sent []tp, reported bool, r *kmsg.ConsumerGroupHeartbeatResponse) {
	w.answers++
	switch r.ErrorCode {
	case 0:
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code, kerr.GroupIDNotFound.Code:
		w.note("%s is fenced: %v", m.id, kerr.ErrorForCode(r.ErrorCode))
		w.fenced++
		m.lose()
		return
	case kerr.FencedInstanceID.Code:
		w.fenced++
		w.anew(m)
		return
	case kerr.UnreleasedInstanceID.Code, kerr.CoordinatorNotAvailable.Code:
		m.full = m.epoch != 0
		return
	default:
		w.fatal("%s is told %v", m.id, kerr.ErrorForCode(r.ErrorCode))
		return
	}
	if r.MemberEpoch < m.epoch {
		w.fatal("%s went back from epoch %d to %d", m.id, m.epoch, r.MemberEpoch)
	}
	before := m.heard
	m.epoch, m.heard, m.full = r.MemberEpoch, at, false
	w.epoch = max(w.epoch, m.epoch)
	if reported && slices.Equal(sent, m.owned()) {
		m.said = true
		if !m.holds {
			m.owes = time.Time{}
		}
	}
	if r.Assignment == nil {
		return
	}
	m.target = map[tp]bool{}
	for _, t := range r.Assignment.Topics {
		for _, p := range t.Partitions {
			m.target[tp{t.TopicID, p}] = true
		}
	}
	w.note("%s has epoch %d and %d partitions", m.id, m.epoch, len(m.target))
	for p := range m.target {
		if !m.owns[p] {
			m.owns[p], m.said = true, false
			if who := w.last[p]; who != "" && who != m.id {
				w.handed++
			}
			w.last[p] = m.id
		}
	}
	m.holds = false
	for p := range m.owns {
		if !m.target[p] {
			m.holds = true
		}
	}
	if m.holds && m.owes.IsZero() {
		m.owes = before // answers may have been lost since then: the coordinator counts from the first one
	}
	if w.rnd.IntN(3) > 0 {
		w.release(m)
	}
	w.checkOwners()
}

// release gives up what is no longer the reader's.
func (w *consumerWorld) release(m *reader) {
	if !m.holds {
		return
	}
	for p := range m.owns {
		if !m.target[p] {
			delete(m.owns, p)
		}
	}
	m.said, m.holds = false, false
}

// reads reports whether a reader may rely on what it owns: its session has not ended, and it is not late in giving up and in saying so.
// An answer that it did not get may have asked it to give something up, so that it cannot rely on longer than that takes.
func (w *consumerWorld) reads(m *reader) bool {
	now := time.Now()
	return !m.gone && m.epoch > 0 && now.Sub(m.heard) < min(45*time.Second, w.rebalance) && (m.owes.IsZero() || now.Sub(m.owes) < w.rebalance)
}

func (w *consumerWorld) checkOwners() {
	who := map[tp]*reader{}
	for _, m := range w.ms {
		if !w.reads(m) {
			continue
		}
		for p := range m.owns {
			if o := who[p]; o != nil {
				w.fatal("%s and %s both read %v/%d", o.id, m.id, p.topic[15], p.partition)
			}
			who[p] = m
		}
	}
	w.checkState()
}

// checkState looks at the coordinator's own state.
func (w *consumerWorld) checkState() {
	w.c.with("g", false, func(s *slot, e *env) {
		c := s.g.consumer
		if c == nil {
			return
		}
		if c.epoch < w.epoch || c.epoch < c.target {
			w.fatal("the group has epoch %d, its target %d, and %d was told", c.epoch, c.target, w.epoch)
		}
		owners := map[tp]string{}
		for _, m := range c.members {
			if m.epoch > c.target || m.epoch < leavingAgain || m.epoch == leaving {
				w.fatal("member %s has epoch %d, the target %d", m.id, m.epoch, c.target)
			}
			for _, ps := range [][]owned{m.assigned, m.revoking} {
				for _, p := range ps {
					if o := owners[p.tp]; o != "" {
						w.fatal("%s and %s both have %v/%d", o, m.id, p.topic[15], p.partition)
					}
					owners[p.tp] = m.id
				}
			}
		}
		for p, o := range owners {
			if c.owners[p] != o {
				w.fatal("%v/%d belongs to %s, and is noted for %q", p.topic[15], p.partition, o, c.owners[p])
			}
		}
		if len(c.owners) != len(owners) {
			w.fatal("%d partitions are noted, %d are owned", len(c.owners), len(owners))
		}
		given := map[tp]string{}
		for id, ps := range c.targets {
			if c.members[id] == nil {
				w.fatal("%s has a target and is no member", id)
			}
			for _, p := range ps {
				if o := given[p]; o != "" && c.epoch == c.target {
					w.fatal("the target gives %v/%d to %s and %s", p.topic[15], p.partition, o, id)
				}
				given[p] = id
			}
		}
	})
}

func (w *consumerWorld) commit(m *reader) {
	if m.busy || m.gone || m.epoch <= 0 {
		return
	}
	id, n, _ := w.topics.TopicByName("t")
	p := w.rnd.Int32N(n)
	if !m.owns[tp{id, p}] {
		return
	}
	at := w.next
	w.next++
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = 9
	req.Group, req.MemberID, req.Generation = "g", m.id, m.epoch
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: p, Offset: at, LeaderEpoch: -1}}}}
	w.c.OffsetCommit(req, later(w, func(r *kmsg.OffsetCommitResponse) {
		if r.Topics[0].Partitions[0].ErrorCode == 0 {
			w.commits++
			w.acked[p] = max(w.acked[p], at)
		}
	}))
}

// checkCommits compares what is committed with what was acknowledged. What is newer was not answered yet.
func (w *consumerWorld) checkCommits() {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	req.Groups = append(req.Groups, g)
	w.c.OffsetFetch(req, later(w, func(r *kmsg.OffsetFetchResponse) {
		got := map[int32]int64{}
		for _, t := range r.Groups[0].Topics {
			for _, p := range t.Partitions {
				got[p.Partition] = p.Offset
			}
		}
		for p, at := range w.acked {
			if got[p] < at {
				w.fatal("partition %d: %d is committed, %d was acknowledged", p, got[p], at)
			}
		}
	}))
}

func (w *consumerWorld) leave(m *reader) {
	if m.busy || m.gone || m.epoch <= 0 {
		return
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", m.id, leaving
	if m.instance != "" {
		req.InstanceID = &m.instance
		if w.rnd.IntN(2) == 0 {
			req.MemberEpoch = leavingAgain
		}
	}
	w.note("%s leaves with %d", m.id, req.MemberEpoch)
	m.turn++
	w.c.ConsumerGroupHeartbeat(Client{ID: m.name, Host: "/10.0.0.1"}, req, later(w, func(r *kmsg.ConsumerGroupHeartbeatResponse) {}))
	w.anew(m)
	m.asleep = time.Now().Add(time.Duration(w.rnd.IntN(60)) * time.Second)
}

func (w *consumerWorld) subscribe(m *reader) {
	m.names, m.regex = nil, ""
	switch w.rnd.IntN(4) {
	case 0:
		m.names = []string{"t", "u"}
	case 1:
		m.regex = "t|v.*"
	case 2:
		m.names, m.regex = []string{"u"}, "t"
	default:
		m.names = []string{"t"}
	}
	if m.epoch > 0 {
		m.full = true
	}
}

func (w *consumerWorld) step() {
	m := w.ms[w.rnd.IntN(len(w.ms))]
	awake := !time.Now().Before(m.asleep)
	switch n := w.rnd.IntN(100); {
	case n < 50 && awake:
		w.beat(m)
	case n < 60 && awake:
		w.commit(m)
	case n < 66 && awake:
		w.release(m)
	case n < 68:
		m.asleep = time.Now().Add(time.Duration(w.rnd.IntN(70)) * time.Second)
	case n < 70:
		w.note("%s dies", m.id)
		w.anew(m)
	case n < 72 && awake:
		w.leave(m)
	case n < 74 && awake:
		w.subscribe(m)
	case n == 74:
		_, parts, _ := w.topics.TopicByName("t")
		w.topics.grow("t", min(parts+1, 7))
	case n == 75:
		w.note("topic v")
		w.topics.set("v", byte(w.rnd.IntN(3))*10) // sometimes gone, sometimes another
	case n == 76:
		w.log.mu.Lock()
		w.log.refuse = nil
		if w.rnd.IntN(2) == 0 {
			w.log.refuse = errFull
		}
		w.log.mu.Unlock()
	case n < 79:
		w.log.mu.Lock()
		w.log.held = w.rnd.IntN(3) == 0
		w.log.mu.Unlock()
	case n < 87:
		w.log.sync()
	case n == 87:
		w.restart(w.rnd.IntN(3) > 0)
	default:
		time.Sleep(time.Duration(w.rnd.IntN(8000)) * time.Millisecond)
	}
	w.settle()
	w.checkOwners()
	if err := weighed(w.c); err != nil {
		w.fatal("%v", err)
	}
}

func (w *consumerWorld) run() {
	w.log = &memLog{single: true}
	w.topics = newTopics("t", "u")
	w.rebalance = []time.Duration{20, 60}[w.rnd.IntN(2)] * time.Second
	w.acked, w.last, w.next = map[int32]int64{}, map[tp]string{}, 1
	for i := range 4 {
		m := &reader{name: fmt.Sprint("m", i)}
		if i >= 2 {
			m.instance = fmt.Sprint("i", i)
		}
		w.subscribe(m)
		w.anew(m)
		w.ms = append(w.ms, m)
	}
	w.start()
	for range 250 {
		if w.step(); w.done {
			break
		}
	}
	if !w.done {
		w.calm()
	}
	w.life++
	w.log.fail(ErrClosed)
	w.c.Close()
}

// calm ends the chaos: all are awake, say the truth, and want the same.
func (w *consumerWorld) calm() {
	w.note("calm")
	w.log.mu.Lock()
	w.log.refuse, w.log.held = nil, false
	w.log.mu.Unlock()
	w.log.sync()
	for _, m := range w.ms {
		m.asleep, m.gone = time.Time{}, false
		m.names, m.regex = []string{"t", "u"}, ""
		m.full = m.epoch > 0
	}
	for range 60 {
		for _, m := range w.ms {
			w.release(m)
			w.beat(m)
			w.settle()
			w.checkOwners()
			if w.done {
				return
			}
		}
		time.Sleep(3 * time.Second)
	}
	have, most, least := 0, 0, 1<<30
	for _, m := range w.ms {
		have += len(m.owns)
		most, least = max(most, len(m.owns)), min(least, len(m.owns))
	}
	_, parts, _ := w.topics.TopicByName("t")
	if have != int(parts)+4 || most-least > 1 {
		w.fatal("%d partitions of %d have readers, the most has %d and the least %d", have, parts+4, most, least)
	}
	w.checkCommits()
	w.settle()
}
