package group

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

var update = flag.Bool("update", false, "rewrite the expected output of testdata")

// TestRules runs the scripts of testdata: commands, a line of dashes, what the rules answered and wrote. Members are called by
// the client id they join with. A script's groups live in one log, so that restart shows what a record keeps.
//
//	join a [v=9] [type=consumer] [protocols=range:m] [session=10s] [rebalance=60s] [instance=x] [id=…|new] [embedded]
//	sync a [gen=1] [id=…] [protocol=…] [a=share b=share …]    heartbeat a [gen=1]    leave a b …
//	commit a|- [gen=1] [expire=1h] topic/0=5 …    fetch topic/0 …    forget topic/0 …    delete    expire    dropped topic
//	tick 10s    fail on|off    restart    show    most 8ms
//
// Members behave as clients do: one that is told that it is not known, or that has left, asks for a new id next time.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScript(t)
			var got strings.Builder
			for i, block := range strings.Split(strings.TrimSpace(string(b)), "\n\n") {
				commands, _, _ := strings.Cut(block, "\n----")
				if i > 0 {
					got.WriteByte('\n')
				}
				got.WriteString(commands + "\n----\n")
				for line := range strings.Lines(commands) {
					if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
						s.run(line)
					}
				}
				got.WriteString(s.out.String())
				s.out.Reset()
			}
			if got.String() == string(b) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: the rules say (-update accepts it):\n%s", file, got.String())
		})
	}
}

type script struct {
	t      *testing.T
	g      *group
	now    time.Time
	ids    map[string]string // member name → its id
	nextID int
	log    map[string][]byte
	full   bool
	out    strings.Builder
	limits Limits
	topics *memTopics
	beats  map[string]*beating // by name: what a member of the newer protocol was told last
}

func newScript(t *testing.T) *script {
	s := &script{t: t, now: time.UnixMilli(1_000_000), ids: map[string]string{}, log: map[string][]byte{}}
	s.limits = Limits{MaxMembers: 4}.withDefaults()
	s.g = newGroup("g", s.now)
	s.topics, s.beats = newTopics("t", "u"), map[string]*beating{}
	return s
}

func (s *script) env() *env {
	return &env{
		now:    s.now,
		limits: &s.limits,
		append: func(rs []record) error {
			if s.full {
				return errors.New("disk full")
			}
			for _, r := range rs {
				s.wrote(r)
				if s.log[string(r.key)] = r.value; r.value == nil {
					delete(s.log, string(r.key))
				}
			}
			return nil
		},
		id: func(prefix string) string {
			s.nextID++
			return cmp.Or(prefix, "id") + "-" + strconv.Itoa(s.nextID)
		},
		topics:          s.topics,
		consumerSession: 45 * time.Second, consumerHeartbeat: 5 * time.Second,
	}
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// wrote prints a record as a reader of the topic finds it.
func (s *script) wrote(r record) {
	if isConsumerKey(r.key) {
		s.wroteConsumer(r)
		return
	}
	name, p, known, err := parseKey(r.key)
	switch {
	case err != nil || !known || name != "g":
		s.t.Fatalf("key %q: %v", r.key, err)
	case p.topic != "" && r.value == nil:
		s.printf("log: offset %s/%d deleted", p.topic, p.partition)
	case p.topic != "":
		o, err := parseOffset(r.value)
		if err != nil {
			s.t.Fatal(err)
		}
		s.printf("log: offset %s/%d = %d", p.topic, p.partition, o.offset)
	case r.value == nil:
		s.printf("log: group deleted")
	default:
		g, err := parseGroup(name, r.value, s.now)
		if err != nil {
			s.t.Fatal(err)
		}
		var ms []string
		for _, m := range g.members {
			ms = append(ms, m.id+"="+readable(m.assigned))
		}
		s.printf("log: generation=%d type=%s protocol=%s leader=%s members=%v", g.generation, g.protocolType, g.protocol, g.leader, ms)
	}
}

func code(c int16) string {
	if c == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(c).Message
}

// told has a member forget an id that is not known any more.
func (s *script) told(name, id string, c int16) string {
	if c == kerr.UnknownMemberID.Code && s.ids[name] == id {
		delete(s.ids, name)
	}
	return code(c)
}

// args splits key=value words from the others.
func args(words []string) (opts map[string]string, rest []string) {
	opts = map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			opts[k] = v
		} else {
			rest = append(rest, w)
		}
	}
	return opts, rest
}

func (s *script) duration(d string) time.Duration {
	v, err := time.ParseDuration(d)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *script) generation(opts map[string]string) int32 {
	v, ok := opts["gen"]
	if !ok {
		if c := s.g.consumer; c != nil {
			return s.epochOf(opts)
		}
		return s.g.generation
	}
	delete(opts, "gen")
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return int32(n)
}

// who returns the id that a member sends: its own, unless the command names another.
func (s *script) who(name string, opts map[string]string) string {
	id, ok := opts["id"]
	delete(opts, "id")
	switch {
	case !ok:
		return s.ids[name]
	case id == "new":
		return ""
	}
	return id
}

func (s *script) partition(w string) partition {
	topic, n, _ := strings.Cut(w, "/")
	p, err := strconv.Atoi(n)
	if err != nil {
		s.t.Fatalf("partition %q", w)
	}
	return partition{topic, int32(p)}
}

func (s *script) partitions(words []string) (ps []partition) {
	for _, w := range words {
		ps = append(ps, s.partition(w))
	}
	return ps
}

func (s *script) run(line string) {
	words := strings.Fields(line)
	opts, rest := args(words[1:])
	name := ""
	if len(rest) > 0 {
		name = rest[0]
	}
	if s.g.consumer != nil {
		opts["as"] = name // whose epoch is said
	}
	e := s.env()
	switch words[0] {
	case "join":
		s.join(e, name, opts, slices.Contains(rest, "embedded"))
	case "sync":
		id := s.who(name, opts)
		in := syncIn{id: id, instance: opts["instance"], generation: s.generation(opts), assignments: map[string][]byte{}}
		if v, ok := opts["protocol"]; ok {
			in.protocol = &v
		}
		for k, v := range opts {
			if id, ok := s.ids[k]; ok {
				in.assignments[id] = []byte(v)
			}
		}
		s.g.sync(e, in, func(out syncOut) {
			if out.err != 0 {
				s.printf("%s: sync %s", name, s.told(name, id, out.err))
				return
			}
			if s.g.consumer != nil {
				s.printf("%s: has %s by %s/%s", name, s.show1(assignedPartitions(out.assignment, s.topics)), out.protocolType, out.protocol)
				return
			}
			s.printf("%s: has %q by %s/%s", name, out.assignment, out.protocolType, out.protocol)
		})
	case "heartbeat":
		id := s.who(name, opts)
		s.printf("%s: heartbeat %s", name, s.told(name, id, s.g.heartbeat(e, id, opts["instance"], s.generation(opts))))
	case "leave":
		var who []leaver
		for _, n := range rest {
			l := leaver{id: s.ids[n]}
			if inst, ok := strings.CutPrefix(n, "instance:"); ok {
				l = leaver{instance: inst}
			}
			who = append(who, l)
		}
		for i, c := range s.g.leave(e, who) {
			s.printf("%s: left %s", rest[i], code(c))
			delete(s.ids, rest[i])
		}
	case "commit":
		in := commitIn{committer: committer{id: s.who(name, opts), instance: opts["instance"], generation: s.generation(opts), version: 9}}
		if name == "-" {
			in.id, in.generation = "", -1
		}
		expire := int64(-1)
		if d, ok := opts["expire"]; ok {
			expire = s.now.Add(s.duration(d)).UnixMilli()
		}
		for _, k := range slices.Sorted(maps.Keys(opts)) {
			if strings.Contains(k, "/") {
				n, _ := strconv.ParseInt(opts[k], 10, 64)
				topicID, _, _ := s.topics.TopicByName(s.partition(k).topic)
				in.offsets = append(in.offsets, committed{s.partition(k), offset{topicID: topicID, offset: n, leaderEpoch: -1, committed: s.now.UnixMilli(), expire: expire}})
			}
		}
		codes := s.g.commit(e, in)
		slices.Sort(codes)
		for _, c := range slices.Compact(codes) {
			s.printf("%s: commit %s", name, s.told(name, in.id, c))
		}
	case "fetch":
		for _, p := range s.partitions(rest) {
			o, ok := s.g.fetch(p)
			if !ok {
				o.offset = -1
			}
			s.printf("%s/%d: %d", p.topic, p.partition, o.offset)
		}
	case "forget":
		ps := s.partitions(rest)
		codes, whole := s.g.deleteOffsets(e, ps)
		if whole != 0 {
			s.printf("forget %s", code(whole))
		}
		for i, c := range codes {
			s.printf("%s/%d: forgotten %s", ps[i].topic, ps[i].partition, code(c))
		}
	case "delete":
		s.printf("delete %s", code(s.g.delete(e)))
	case "expire":
		if err := s.g.expire(e); err != nil {
			s.printf("expire: %v", err)
		}
	case "dropped":
		s.g.forgetGone(e, func(topic string, _ [16]byte) bool { return topic == name })
	case "tick":
		s.tick(s.duration(name))
	case "most":
		s.limits.InitialMost = s.duration(name)
	case "fail":
		s.full = name == "on"
	case "restart":
		im := image{values: map[string]entry{}}
		for key, value := range s.log {
			im.values[key] = entry{b: value}
		}
		s.g = im.groups(s.now, func(key string, err error) { s.t.Fatalf("key %q: %v", key, err) })["g"]
		if s.g == nil {
			s.g = newGroup("g", s.now)
		}
		s.g.beginSessions(e)
		s.g.dropEmbedded(e)
	case "show":
		s.show()
	default:
		if !s.runConsumer(e, words[0], name, opts, rest) {
			s.t.Fatalf("command %q", line)
		}
	}
}

func (s *script) join(e *env, name string, opts map[string]string, embedded bool) {
	in := joinIn{
		id: s.who(name, opts), instance: opts["instance"], client: Client{ID: name, Host: "/10.0.0.1"},
		session: s.duration(cmp.Or(opts["session"], "10s")), rebalance: s.duration(cmp.Or(opts["rebalance"], "60s")),
		protocolType: cmp.Or(opts["type"], "consumer"),
	}
	if embedded {
		in.client.Host = EmbeddedHost
	}
	if topics, ok := opts["subscribe"]; ok {
		opts["protocols"] = cmp.Or(opts["protocols"], "cooperative-sticky")
		defer delete(opts, "subscribe")
		for p := range strings.SplitSeq(opts["protocols"], ",") {
			in.protocols = append(in.protocols, protocol{p, subscriptionBytes(topics, opts["owns"])})
		}
		opts["protocols"] = "none"
	}
	version, _ := strconv.Atoi(cmp.Or(opts["v"], "9"))
	in.needsID, in.canSkip = version >= 4, version >= 9
	for p := range strings.SplitSeq(cmp.Or(opts["protocols"], "range:m"), ",") {
		if p == "none" {
			continue
		}
		n, meta, _ := strings.Cut(p, ":")
		in.protocols = append(in.protocols, protocol{n, []byte(meta)})
	}
	s.g.join(e, in, func(out joinOut) {
		if out.err == 0 && s.g.consumer != nil {
			s.beats[name] = &beating{epoch: out.generation}
		}
		switch {
		case out.err == kerr.MemberIDRequired.Code:
			s.ids[name] = out.id
			s.printf("%s: join again as %s", name, out.id)
			return
		case out.err != 0:
			s.printf("%s: join %s", name, s.told(name, in.id, out.err))
			return
		}
		s.ids[name] = out.id
		role := "follows " + out.leader
		if out.leader == out.id {
			var ms []string
			for _, m := range out.members {
				text := m.id + ":" + readable(m.metadata)
				if m.instance != "" {
					text += "(" + m.instance + ")"
				}
				ms = append(ms, text)
			}
			role = fmt.Sprintf("leads %v", ms)
		} else if len(out.members) > 0 {
			s.t.Errorf("%s follows and was told the members", name)
		}
		if out.skip {
			role += ", need not assign"
		}
		s.printf("%s: joined generation=%d as %s by %s/%s, %s", name, out.generation, out.id, out.protocolType, out.protocol, role)
	})
}

// tick moves the time on, and does what is due at the moment it is due.
func (s *script) tick(d time.Duration) {
	end := s.now.Add(d)
	for range 100 {
		next := s.g.next()
		if next.IsZero() || next.After(end) {
			s.now = end
			s.g.tick(s.env())
			return
		}
		s.now = next
		s.g.tick(s.env())
	}
	s.t.Fatalf("time stands still: %v is due again and again", s.g.next())
}

func (s *script) show() {
	if s.g.consumer != nil {
		s.showConsumers()
		return
	}
	var ms []string
	for _, m := range s.g.members {
		text := m.id
		if m.join != nil {
			text += "(joining)"
		}
		if m.sync != nil {
			text += "(syncing)"
		}
		ms = append(ms, text)
	}
	s.printf("%s generation=%d type=%s protocol=%s leader=%s members=%v pending=%d", s.g.state, s.g.generation, s.g.protocolType, s.g.protocol,
		s.g.leader, ms, len(s.g.pending))
}
