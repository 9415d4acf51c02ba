package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// beating is what a member of the newer protocol knows of itself.
type beating struct {
	epoch    int32
	has      []tp
	instance string
}

// runConsumer carries out the commands of consumer groups:
//
//	beat a [names=t,u|none] [regex=…] [owns=t/0,t/1|none] [rebalance=60s] [assignor=…] [instance=x] [epoch=…] [id=…] [rack=…]
//	topic t [partitions=8|id=…|gone]    capacity 2    epochs
//
// A member goes by its name, joins with its first beat (and again after it was fenced), and says the epoch that it was told last.
func (s *script) runConsumer(e *env, command, name string, opts map[string]string, rest []string) bool {
	switch command {
	case "beat":
		s.beat(e, name, opts)
	case "topic":
		switch {
		case opts["partitions"] != "":
			var n int32
			fmt.Sscan(opts["partitions"], &n)
			s.topics.grow(name, n)
		case slices.Contains(rest, "gone"):
			s.topics.set(name, 0)
		default:
			var id byte
			fmt.Sscan(opts["id"], &id)
			s.topics.set(name, id)
		}
	case "capacity":
		fmt.Sscan(name, &s.limits.MaxMembers)
	default:
		return false
	}
	return true
}

func (s *script) beat(e *env, name string, opts map[string]string) {
	b := s.beats[name]
	if b == nil {
		b = &beating{}
		s.beats[name] = b
	}
	in := beatIn{id: cmp.Or(opts["id"], name), client: Client{ID: "app", Host: "/10.0.0.2"}, epoch: b.epoch, rebalance: -1, assignor: opts["assignor"], rack: opts["rack"]}
	if v, ok := opts["instance"]; ok {
		b.instance = v
	}
	in.instance = b.instance
	if v, ok := opts["epoch"]; ok {
		fmt.Sscan(v, &in.epoch)
	}
	if in.epoch == joining {
		in.rebalance, in.owns = time.Minute, &[]tp{}
		if opts["names"] == "" && opts["regex"] == "" {
			opts["names"] = "t"
		}
	}
	if v, ok := opts["rebalance"]; ok {
		in.rebalance = s.duration(v)
	}
	if v, ok := opts["names"]; ok {
		names := []string{}
		if v != "none" {
			names = strings.Split(v, ",")
		}
		in.names = &names
	}
	if v, ok := opts["regex"]; ok {
		v = strings.TrimPrefix(v, "none")
		in.regex = &v
	}
	if v, ok := opts["owns"]; ok {
		ps := []tp{}
		if v != "none" {
			for _, p := range s.partitions(strings.Split(v, ",")) {
				id, _, _ := s.topics.TopicByName(p.topic)
				ps = append(ps, tp{id, p.partition})
			}
		}
		ps = sortedTPs(ps)
		in.owns = &ps
	}
	out := s.g.beat(e, in)
	switch {
	case out.refused():
		s.printf("%s: %s", name, code(out.err))
		if out.err == kerr.FencedMemberEpoch.Code || out.err == kerr.UnknownMemberID.Code {
			b.epoch, b.has = 0, nil
		}
		return
	case out.epoch < 0:
		s.printf("%s: left with %d", name, out.epoch)
		b.epoch, b.has = 0, nil
		return
	}
	b.epoch = out.epoch
	text := ""
	if out.told {
		b.has = bare(out.assigned)
		text = ", has " + s.show1(b.has)
	}
	s.printf("%s: epoch %d%s", name, out.epoch, text)
}

// show1 shows partitions by the names of their topics.
func (s *script) show1(ps []tp) string {
	if len(ps) == 0 {
		return "nothing"
	}
	var out []string
	for i := 0; i < len(ps); {
		name, ok := s.topics.TopicByID(ps[i].topic)
		if !ok {
			name = "?"
		}
		var ns []string
		id := ps[i].topic
		for ; i < len(ps) && ps[i].topic == id; i++ {
			ns = append(ns, fmt.Sprint(ps[i].partition))
		}
		out = append(out, name+"/"+strings.Join(ns, ","))
	}
	return strings.Join(out, " ")
}

func (s *script) epochOf(opts map[string]string) int32 {
	if b := s.beats[opts["as"]]; b != nil {
		return b.epoch
	}
	return -1
}

func (s *script) wroteConsumer(r record) {
	p, err := parseConsumerRecord(r.key, r.value)
	if err != nil || p.group != "g" {
		s.t.Fatalf("record %q: %v", r.key, err)
	}
	if r.value != nil {
		if again := p.record(); string(again.key) != string(r.key) || string(again.value) != string(r.value) {
			s.t.Errorf("record of kind %d is not what its parse makes", p.kind)
		}
	}
	what := map[int16]string{
		epochKey: "group", oldMetadataKey: "topics", memberKey: "member", targetEpochKey: "target", targetKey: "target of",
		currentKey: "state of", regexKey: "regex",
	}[p.kind]
	if p.second != "" {
		what += " " + p.second
	}
	if r.value == nil {
		s.printf("log: %s deleted", what)
		return
	}
	m := &p.member
	switch p.kind {
	case epochKey:
		s.printf("log: group epoch=%d", p.epoch)
	case memberKey:
		text := fmt.Sprintf("names=%v", m.names)
		for _, kv := range [][2]string{{"regex", m.regex}, {"instance", m.instance}, {"assignor", m.assignor}, {"rack", m.rack}} {
			if kv[1] != "" {
				text += fmt.Sprintf(" %s=%s", kv[0], kv[1])
			}
		}
		if m.classic != nil {
			text += " classic"
		}
		s.printf("log: %s %s", what, text)
	case targetEpochKey:
		s.printf("log: target epoch=%d", p.epoch)
	case targetKey:
		s.printf("log: %s: %s", what, s.show1(p.target))
	case currentKey:
		text := fmt.Sprintf("epoch=%d previous=%d", m.epoch, m.previous)
		if len(m.revoking) > 0 {
			text += ", must give up " + s.show1(bare(m.revoking))
		}
		if m.state == unreleased {
			text += ", waits"
		}
		s.printf("log: %s: %s, %s", what, s.show1(bare(m.assigned)), text)
	case regexKey:
		s.printf("log: %s: %v", what, p.topics)
	}
}

func (s *script) showConsumers() {
	c := s.g.consumer
	s.printf("%s epoch=%d target=%d by %s", c.state(), c.epoch, c.target, c.preferred())
	for _, m := range c.sorted() {
		text := fmt.Sprintf("%s: epoch=%d has %s, target %s", m.id, m.epoch, s.show1(bare(m.assigned)), s.show1(c.targets[m.id]))
		if len(m.revoking) > 0 {
			text += ", must give up " + s.show1(bare(m.revoking))
		}
		if m.classic != nil {
			text += ", classic"
		}
		s.printf("  %s", text)
	}
}

// subscriptionBytes is what a consumer of the classic protocol says in its join.
func subscriptionBytes(topics, owns string) []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version = 3
	s.Topics = strings.Split(topics, ",")
	for p := range strings.SplitSeq(owns, ",") {
		t, n, ok := strings.Cut(p, "/")
		if !ok {
			continue
		}
		var i int32
		fmt.Sscan(n, &i)
		s.OwnedPartitions = append(s.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t, Partitions: []int32{i}})
	}
	return s.AppendTo(nil)
}

// readable is what a script shows of bytes: text as it is, a consumer's subscription or assignment by its size.
func readable(b []byte) string {
	if slices.ContainsFunc(b, func(c byte) bool { return c < ' ' || c > '~' }) {
		return fmt.Sprintf("(%d bytes)", len(b))
	}
	return string(b)
}
