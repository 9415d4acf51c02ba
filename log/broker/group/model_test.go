package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
)

// TestGroupKeepsItsPromisesUnderChaos has clients join, sync, commit, leave, fall silent and send what is out of date, while
// the log refuses, delays and crashes and the coordinator is read from it again. It checks what a user relies on:
//
//   - one generation: whoever has a share of a generation has it from the same assignment, and a generation is never used twice;
//   - a leader's list is exactly those who joined its generation;
//   - a commit that was acknowledged is there until a newer one is; one that was refused never is;
//   - nobody commits for a generation after a newer one was announced;
//   - members of the in-memory connection are gone after a restart, and others are not;
//   - when the chaos ends, all come together in one generation.
func TestGroupKeepsItsPromisesUnderChaos(t *testing.T) {
	var total world
	for _, seed := range trial.Seeds(1500) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), seed: seed}
			w.run()
			total.add(w)
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("generations %d, commits %d, refused commits %d, crashes %d", total.generations, total.commits, total.refused, total.crashes)
	if total.generations == 0 || total.commits == 0 || total.refused == 0 || total.crashes == 0 {
		t.Error("the chaos missed something that it should meet")
	}
}

type world struct {
	t    *testing.T
	rnd  *rand.Rand
	seed uint64
	log  *memLog
	c    *Coordinator
	life int // counts coordinators; answers of a former one are not heard
	cs   []*client

	tokens   map[int32]string          // generation → the assignment that was handed out
	lists    map[int32][]string        // generation → what its leader was told, in this life
	joined   map[int32]map[string]bool // generation → who was told to be in it, in this life
	newest   int32                     // generation that was announced in this life
	next     int64                     // offset of the next commit
	acked    map[int32]int64           // partition → newest acknowledged commit
	refusedN map[int64]bool            // offsets of refused commits
	notes    []string
	failed   bool

	mu    sync.Mutex // guards inbox
	inbox []func()

	generations, commits, refused, crashes int
}

func (w *world) add(o *world) {
	w.generations += o.generations
	w.commits += o.commits
	w.refused += o.refused
	w.crashes += o.crashes
}

type client struct {
	name     string
	host     string
	instance *string
	version  int16

	id     string
	gen    int32
	old    int32 // a generation it was in before
	leader bool
	peers  []string
	state  string // "", joined, working
	parts  []int32
	busy   bool
	turn   int // counts its requests: an answer to an earlier one than the last is not heard
}

// reset is a client whose process starts anew.
func (c *client) reset() {
	*c = client{name: c.name, host: c.host, version: c.version, instance: c.instance, turn: c.turn + 1}
}

func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// fatal lets the run end with the step.
func (w *world) fatal(format string, args ...any) {
	if w.failed { // the first is the one to look at
		return
	}
	w.failed = true
	w.t.Errorf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.notes[max(0, len(w.notes)-60):], "\n"))
}

func (w *world) start() {
	w.life++
	w.lists, w.joined, w.newest = map[int32][]string{}, map[int32]map[string]bool{}, 0
	var err error
	if w.c, err = Open(w.log, newTopics("t"), Options{}); err != nil {
		w.fatal("open: %v", err)
	}
	for _, c := range w.cs {
		c.busy = false
		if c.state == "joined" {
			c.state = "" // its connection broke while it waited
		}
		if c.host == EmbeddedHost {
			c.reset()
		}
	}
	r, err := w.c.DescribeGroups(&kmsg.DescribeGroupsRequest{Version: 5, Groups: []string{"g"}})
	if err != nil {
		w.fatal("describe: %v", err)
	}
	for _, m := range r.Groups[0].Members {
		if m.ClientHost == EmbeddedHost {
			w.fatal("member %s of the dead process is still there", m.MemberID)
		}
	}
	w.checkOffsets()
}

// restart ends the coordinator: in order, or by a crash that loses what was not durable.
func (w *world) restart(crash bool) {
	w.note("restart crash=%v", crash)
	if !crash {
		w.log.sync()
		w.settle()
	}
	old := w.log
	w.log = w.log.crash(w.rnd.IntN(w.log.undurable() + 1))
	w.life++ // nobody hears the old one any more
	old.fail(ErrClosed)
	w.c.Close()
	w.crashes++
	w.start()
}

// heard makes a request's done of a function that gets the answer, if the client that asked still hears it. It runs on the
// test's own goroutine.
func heard[R any](w *world, f func(R)) func(R, error) {
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

// settle waits until nothing moves, and delivers the answers.
func (w *world) settle() {
	synctest.Wait()
	w.mu.Lock()
	inbox := w.inbox
	w.inbox = nil
	w.mu.Unlock()
	for _, f := range inbox {
		f()
	}
}

func (w *world) run() {
	w.log = &memLog{}
	w.tokens, w.acked, w.refusedN = map[int32]string{}, map[int32]int64{}, map[int64]bool{}
	w.next = 1
	for i := range 4 {
		c := &client{name: fmt.Sprintf("c%d", i), host: "/10.0.0.1", version: 9}
		switch i {
		case 1:
			c.version = 3
		case 2:
			c.host = EmbeddedHost
		case 3:
			c.instance = kmsg.StringPtr("static")
		}
		w.cs = append(w.cs, c)
	}
	w.start()
	defer func() { w.c.Close() }()
	for range 250 {
		w.chaos()
		w.settle()
		if err := weighed(w.c); err != nil {
			w.fatal("%v", err)
		}
		if w.failed {
			return
		}
	}
	w.note("calm")
	w.log.refuse, w.log.held = nil, false
	w.log.sync()
	deadline := time.Now().Add(10 * time.Minute)
	for !w.together() && !w.failed {
		if time.Now().After(deadline) {
			w.fatal("the members do not come together")
		}
		for _, c := range w.cs {
			if !c.busy {
				w.proceed(c)
			}
		}
		w.settle()
		time.Sleep(time.Second)
	}
	w.checkOffsets()
	w.settle()
}

// together says that all clients work, in one generation.
func (w *world) together() bool {
	for _, c := range w.cs {
		if c.state != "working" || c.gen != w.cs[0].gen {
			return false
		}
	}
	r, err := w.c.DescribeGroups(&kmsg.DescribeGroupsRequest{Version: 5, Groups: []string{"g"}})
	return err == nil && r.Groups[0].State == "Stable" && len(r.Groups[0].Members) == len(w.cs)
}

func (w *world) chaos() {
	c := w.cs[w.rnd.IntN(len(w.cs))]
	switch n := w.rnd.IntN(100); {
	case n < 8:
		time.Sleep(time.Duration(w.rnd.IntN(4000)) * time.Millisecond)
	case n < 10:
		time.Sleep(time.Duration(w.rnd.IntN(70)) * time.Second)
	case n < 13:
		w.log.mu.Lock()
		w.log.held = !w.log.held
		w.log.mu.Unlock()
	case n < 25:
		w.log.sync()
	case n < 28:
		w.log.mu.Lock()
		if w.log.refuse == nil {
			w.log.refuse = errFull
		} else {
			w.log.refuse = nil
		}
		w.log.mu.Unlock()
	case n < 30:
		w.restart(w.rnd.IntN(2) == 0)
	case n < 32:
		w.checkOffsets()
	case n < 34 && c.id != "" && c.instance == nil:
		w.leave(c)
	case n < 36:
		w.note("%s starts anew", c.name)
		c.reset()
	case n < 40 && c.old != 0:
		w.commit(c, c.old)
	case c.busy:
		if n < 45 {
			c.busy = false // it asks again
		}
	default:
		w.proceed(c)
	}
}

// proceed has a client do what comes next for it.
func (w *world) proceed(c *client) {
	switch c.state {
	case "":
		w.join(c)
	case "joined":
		w.sync(c)
	default:
		if w.rnd.IntN(2) == 0 {
			w.commit(c, c.gen)
			return
		}
		w.heartbeat(c)
	}
}

// told has a client draw the consequence of an error, as the Java client does.
func (w *world) told(c *client, id string, errCode int16) {
	if c.id != id {
		return
	}
	switch errCode {
	case 0, kerr.CoordinatorNotAvailable.Code:
		return
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		c.id = ""
	}
	if c.state == "working" {
		c.old = c.gen
	}
	c.state, c.parts = "", nil
}

func (w *world) join(c *client) {
	req := joinRequest("g", c.id, "consumer", "range")
	req.Version, req.InstanceID, req.RebalanceTimeoutMillis = c.version, c.instance, 20_000
	c.busy = true
	c.turn++
	turn := c.turn
	id := c.id
	w.note("%s joins as %q", c.name, id)
	w.c.JoinGroup(Client{ID: c.name, Host: c.host}, req, heard(w, func(r *kmsg.JoinGroupResponse) {
		w.note("%s join: %s generation=%d id=%s", c.name, code(r.ErrorCode), r.Generation, r.MemberID)
		if r.ErrorCode == 0 {
			w.newest = max(w.newest, r.Generation)
			if r.LeaderID == r.MemberID && len(r.Members) > 0 {
				var list []string
				for _, m := range r.Members {
					list = append(list, m.MemberID)
				}
				if before, ok := w.lists[r.Generation]; ok && !slices.Equal(before, list) && c.instance == nil {
					w.fatal("generation %d has members %v, and then %v", r.Generation, before, list)
				}
				w.lists[r.Generation] = list
			}
			if w.joined[r.Generation] == nil {
				w.joined[r.Generation] = map[string]bool{}
			}
			w.joined[r.Generation][r.MemberID] = true
			if list, ok := w.lists[r.Generation]; ok && c.instance == nil && !slices.Contains(list, r.MemberID) {
				w.fatal("%s is in generation %d, but its leader was told %v", r.MemberID, r.Generation, list)
			}
		}
		if c.turn != turn {
			return
		}
		c.busy = false
		if r.ErrorCode == kerr.MemberIDRequired.Code {
			c.id = r.MemberID
			return
		}
		if w.told(c, id, r.ErrorCode); r.ErrorCode != 0 {
			return
		}
		if c.gen != r.Generation {
			c.old = c.gen
		}
		c.id, c.gen, c.state = r.MemberID, r.Generation, "joined"
		c.leader, c.peers = r.LeaderID == r.MemberID && !r.SkipAssignment, nil
		for _, m := range r.Members {
			c.peers = append(c.peers, m.MemberID)
		}
	}))
}

func (w *world) sync(c *client) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 5, "g", c.id, c.gen, c.instance
	if c.leader {
		token := fmt.Sprintf("%s-%d-%d", c.id, c.gen, w.rnd.IntN(1_000_000))
		for i, m := range c.peers {
			share := token + " " + m
			for p := i; p < 4; p += len(c.peers) {
				share += " " + strconv.Itoa(p)
			}
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte(share)})
		}
	}
	c.busy = true
	c.turn++
	turn := c.turn
	id, gen := c.id, c.gen
	w.note("%s syncs generation %d, leader %v", c.name, gen, c.leader)
	w.c.SyncGroup(req, heard(w, func(r *kmsg.SyncGroupResponse) {
		w.note("%s sync: %s %q", c.name, code(r.ErrorCode), r.MemberAssignment)
		share := strings.Fields(string(r.MemberAssignment))
		if r.ErrorCode == 0 && len(share) > 0 {
			if before, ok := w.tokens[gen]; ok && before != share[0] {
				w.fatal("generation %d was assigned twice: %s and %s", gen, before, share[0])
			} else if !ok {
				w.generations++
				w.tokens[gen] = share[0]
			}
			if share[1] != id && c.instance == nil {
				w.fatal("%s has the share of %s", id, share[1])
			}
		}
		if c.turn != turn {
			return
		}
		c.busy = false
		if w.told(c, id, r.ErrorCode); r.ErrorCode != 0 {
			return
		}
		c.state, c.parts = "working", nil
		if len(share) > 2 {
			for _, p := range share[2:] {
				n, _ := strconv.Atoi(p)
				c.parts = append(c.parts, int32(n))
			}
		}
	}))
}

func (w *world) heartbeat(c *client) {
	r, err := w.c.Heartbeat(&kmsg.HeartbeatRequest{Version: 4, Group: "g", MemberID: c.id, Generation: c.gen, InstanceID: c.instance})
	if err != nil {
		w.fatal("heartbeat: %v", err)
	}
	w.told(c, c.id, r.ErrorCode)
}

func (w *world) leave(c *client) {
	w.note("%s leaves", c.name)
	w.c.LeaveGroup(&kmsg.LeaveGroupRequest{Version: 2, Group: "g", MemberID: c.id}, func(*kmsg.LeaveGroupResponse, error) {})
	c.reset()
}

func (w *world) commit(c *client, gen int32) {
	if len(c.parts) == 0 && gen == c.gen {
		w.heartbeat(c)
		return
	}
	part := int32(w.rnd.IntN(4))
	if gen == c.gen {
		part = c.parts[w.rnd.IntN(len(c.parts))]
	}
	offset := w.next
	w.next++
	req := commitRequest(9, "g", gen, c.id, "t", part, offset)
	req.InstanceID = c.instance
	id, newest := c.id, w.newest
	w.note("%s commits %d/%d generation %d", c.name, part, offset, gen)
	w.c.OffsetCommit(req, heard(w, func(r *kmsg.OffsetCommitResponse) {
		errCode := r.Topics[0].Partitions[0].ErrorCode
		w.note("%s commit %d/%d: %s", c.name, part, offset, code(errCode))
		if errCode != 0 {
			w.refused++
			w.refusedN[offset] = true
			if gen == c.gen {
				w.told(c, id, errCode)
			}
			return
		}
		if gen < newest {
			w.fatal("%s committed for generation %d, and %d was there", id, gen, newest)
		}
		w.commits++
		w.acked[part] = max(w.acked[part], offset)
	}))
}

func (w *world) checkOffsets() {
	acked := maps.Clone(w.acked)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 5, "g"
	for p := range int32(4) {
		if req.Topics == nil {
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t"}}
		}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	w.c.OffsetFetch(req, heard(w, func(r *kmsg.OffsetFetchResponse) {
		for _, p := range r.Topics[0].Partitions {
			if want, ok := acked[p.Partition]; ok && p.Offset < want {
				w.fatal("partition %d: offset %d was acknowledged and is %d", p.Partition, want, p.Offset)
			}
			if w.refusedN[p.Offset] || p.Offset >= w.next {
				w.fatal("partition %d: offset %d was refused, or never committed", p.Partition, p.Offset)
			}
			if p.Offset >= 0 {
				w.acked[p.Partition] = max(w.acked[p.Partition], p.Offset) // who has read it must find it again
			}
		}
	}))
}
