package group

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// Topic is the name of the topic that groups and offsets are kept in. It has one partition.
const Topic = "__consumer_offsets"

// ErrClosed is the error of calls that Close cut short.
var ErrClosed = errors.New("group coordinator: closed")

// Log is the partition that the coordinator keeps its state in; *store.Partition is one.
type Log interface {
	Append(batches []batch.View, o store.AppendOpts) (store.Appended, error)
	AfterDurable(end int64, done func(error))
	Replay(from int64, f func(batch.View) error) error
	LogStart() int64
}

// Topics knows the topics that offsets are committed for.
type Topics interface {
	// TopicByName returns the topic's id and number of partitions; ok is false when there is no such topic.
	TopicByName(name string) (id [16]byte, partitions int32, ok bool)
	// TopicByID returns the topic's name.
	TopicByID(id [16]byte) (name string, ok bool)
	// TopicNames returns the names of all topics, in order.
	TopicNames() []string
	// Changes rises whenever there is a topic more or less, or one has more partitions.
	Changes() int64
}

// Coordinator holds all groups. Its methods may be called concurrently.
//
// The methods of requests take a function done, call it exactly once, and do not wait: it may run before the method returns,
// or later on another goroutine, and must not block. Its error is not nil when there can be no true answer (the log went
// offline, the coordinator was closed); then the connection is to be closed without one. Requests' byte slices are copied,
// their strings kept.
type Coordinator struct {
	lg     *slog.Logger
	log    Log
	topics Topics
	limits Limits
	times  func(group string) (session, heartbeat time.Duration)

	weight atomic.Int64 // bytes that members take, of all groups

	mu     sync.Mutex // guards the fields below
	slots  map[string]*slot
	inTxn  map[int64]map[string]bool // groups with offsets in a producer's open transaction
	buried int64                     // log end after the last tombstones of a deleted group: what answers that know of no group wait for
	closed bool
	timers sync.WaitGroup // ticks that run
	expire *time.Timer
}

// slot is one group with its mutex and timer.
type slot struct {
	mu     sync.Mutex // guards the fields below, and is never held across a wait
	g      *group
	end    int64 // log end after the group's last record: what its answers wait for
	timer  *time.Timer
	armed  time.Time // when timer fires; zero: it does not
	weight int64     // what its members take, as far as it is in the coordinator's sum
	outbox []func()  // answers to be sent once mu is free
}

// Options of a coordinator.
type Options struct {
	Limits Limits
	Logger *slog.Logger // default: discards

	// ConsumerTimes is how long members of the newer protocol in a group may be silent, and how often they are to be heard of;
	// default: 45 s and 5 s.
	ConsumerTimes func(group string) (session, heartbeat time.Duration)
}

// Open reads the groups from the log. Members of the in-memory connection and offsets of topics that are gone are dropped. It
// must run after the topics are known and before requests are served.
func Open(log Log, topics Topics, o Options) (*Coordinator, error) {
	c := &Coordinator{lg: o.Logger, log: log, topics: topics, limits: o.Limits.withDefaults(), slots: map[string]*slot{}, inTxn: map[int64]map[string]bool{}}
	if c.lg == nil {
		c.lg = slog.New(slog.DiscardHandler)
	}
	if c.times = o.ConsumerTimes; c.times == nil {
		c.times = func(string) (session, heartbeat time.Duration) { return 45 * time.Second, 5 * time.Second }
	}
	began := time.Now()
	im := image{values: map[string]entry{}}
	records := 0
	err := log.Replay(log.LogStart(), func(v batch.View) error {
		records += int(v.Count())
		return im.add(v)
	})
	if err != nil {
		return nil, fmt.Errorf("read groups from %s: %w", Topic, err)
	}
	groups := im.groups(began, func(key string, err error) {
		c.lg.Error("record of a group cannot be read and is passed over", "topic", Topic, "key", fmt.Sprintf("%.64x", key), "error", err)
	})
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		s := &slot{g: groups[name]}
		c.slots[name] = s
		for pid := range s.g.txns {
			c.enterTxn(pid, name)
		}
		c.within(s, func(e *env) {
			e.weighs = true
			s.g.beginSessions(e)
			s.g.dropEmbedded(e)
			s.g.forgetGone(e, c.topicGone)
		})
	}
	c.expire = time.AfterFunc(c.limits.ExpireEvery, c.expireOffsets)
	if records > 0 {
		c.lg.Info("groups loaded", "groups", len(groups), "records", records, "took", time.Since(began))
	}
	return c, nil
}

func (c *Coordinator) topicGone(topic string, id [16]byte) bool {
	now, _, ok := c.topics.TopicByName(topic)
	return !ok || (id != [16]byte{} && id != now)
}

// Close ends timers and answers whoever waits. Nothing is written: members that are there stay members.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	c.expire.Stop()
	slots := slices.Collect(maps.Values(c.slots))
	c.mu.Unlock()
	for _, s := range slots {
		s.mu.Lock()
		if s.timer != nil {
			s.timer.Stop()
		}
		for _, m := range s.g.members {
			m.answerJoin(time.Time{}, joinOut{err: kerr.CoordinatorNotAvailable.Code, generation: -1, id: m.id})
			m.answerSync(time.Time{}, syncOut{err: kerr.CoordinatorNotAvailable.Code})
		}
		s.g.state = dead // whoever comes late finds the coordinator closed
		s.flush()
	}
	c.timers.Wait()
}

// with runs f on a group under its mutex; then the group's timer is set and answers are sent. Without create it does nothing
// and reports false when there is no such group.
func (c *Coordinator) with(name string, create bool, f func(s *slot, e *env)) (bool, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return false, ErrClosed
		}
		s := c.slots[name]
		if s == nil {
			if !create {
				c.mu.Unlock()
				return false, nil
			}
			s = &slot{g: newGroup(name, time.Now()), end: c.buried}
			c.slots[name] = s
		}
		c.mu.Unlock()
		if c.within(s, func(e *env) { f(s, e) }) {
			return true, nil
		}
	}
}

// within runs f unless the group died meanwhile.
func (c *Coordinator) within(s *slot, f func(e *env)) bool {
	s.mu.Lock()
	if s.g.state == dead {
		s.mu.Unlock()
		return false
	}
	e := c.env(s)
	f(e)
	if s.g.forgettable() {
		s.g.become(e, dead)
	}
	if e.weighs || s.g.state == dead {
		w := s.g.weight()
		c.weight.Add(w - s.weight)
		s.weight = w
	}
	c.arm(s)
	died, end := s.g.state == dead, s.end
	s.flush()
	if died {
		c.mu.Lock()
		if c.slots[s.g.name] == s {
			delete(c.slots, s.g.name)
			c.buried = max(c.buried, end)
		}
		c.mu.Unlock()
	}
	return true
}

// flush sends what the rules wanted answered, and frees the mutex first.
func (s *slot) flush() {
	out := s.outbox
	s.outbox = nil
	s.mu.Unlock()
	for _, f := range out {
		f()
	}
}

func (c *Coordinator) env(s *slot) *env {
	e := &env{
		now: time.Now(), limits: &c.limits, id: memberID, topics: c.topics, room: c.room,
	}
	e.consumerSession, e.consumerHeartbeat = c.times(s.g.name)
	write := func(views []batch.View, records int) error {
		a, err := c.log.Append(views, store.AppendOpts{Origin: store.FromCoordinator})
		if err != nil {
			c.lg.Warn("group could not be recorded", "group", s.g.name, "records", records, "error", err)
			return err
		}
		s.end, e.end = a.End, a.End
		return nil
	}
	e.append = func(records []record) error { return write(batches(records, e.now), len(records)) }
	e.appendInTxn = func(p batch.Producer, records []record) error {
		return write([]batch.View{txnBatch(p, records, e.now)}, len(records))
	}
	return e
}

// memberID makes an id in Kafka's form: the client's name and a random UUID.
func memberID(prefix string) string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	if prefix != "" {
		prefix += "-"
	}
	return prefix + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// room reports whether members may say so many bytes more of themselves: together they are bounded, since any client can be one.
func (c *Coordinator) room(size int) bool { return c.weight.Load()+int64(size) <= c.limits.MaxMemory }

// later puts an answer into the outbox. It leaves when all that the group has written until now is durable.
func (c *Coordinator) later(s *slot, send func(error)) {
	end := s.end
	s.outbox = append(s.outbox, func() { c.log.AfterDurable(end, send) })
}

// arm makes the timer fire no later than the group's next deadline. It may fire earlier, since deadlines move on with every
// heartbeat: then tick finds nothing to do.
func (c *Coordinator) arm(s *slot) {
	next := s.g.next()
	if next.IsZero() || s.g.state == dead {
		if s.timer != nil {
			s.timer.Stop()
		}
		s.armed = time.Time{}
		return
	}
	if !s.armed.IsZero() && !next.Before(s.armed) {
		return
	}
	s.armed = next
	wait := max(time.Until(next), 0)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, func() { c.tick(s) })
		return
	}
	s.timer.Reset(wait)
}

func (c *Coordinator) tick(s *slot) {
	if !c.begin() {
		return
	}
	defer c.timers.Done()
	c.within(s, func(e *env) {
		s.armed = time.Time{}
		s.g.tick(e)
	})
}

// begin enters a tick, unless the coordinator is closed.
func (c *Coordinator) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.timers.Add(1)
	return true
}

// names lists the groups there are, in order.
func (c *Coordinator) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.slots))
}

func (c *Coordinator) expireOffsets() {
	if !c.begin() {
		return
	}
	defer c.timers.Done()
	for _, name := range c.names() {
		c.with(name, false, func(s *slot, e *env) { s.g.expire(e) }) // what fails is tried again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.expire.Reset(c.limits.ExpireEvery)
	}
}

// TopicDeleted removes the offsets of a topic from all groups. The topic must be gone from Topics. It waits for nothing: what a
// crash brings back is known by the topic's id, and removed when the groups are read.
func (c *Coordinator) TopicDeleted(topic string) {
	for _, name := range c.names() {
		c.with(name, false, func(s *slot, e *env) {
			s.g.forgetGone(e, func(t string, id [16]byte) bool { return t == topic && c.topicGone(t, id) })
		})
	}
}
