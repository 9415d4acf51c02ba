package log_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"millrace/deploy/peers"
)

// A dialogue sends requests of chosen versions to a broker and writes down what it answers, with member ids, names that belong to
// the run, topic ids and texts masked.
type dialogue struct {
	t       testing.TB
	addr    string
	run     string // what makes names of this run unique
	topic   [16]byte
	clients map[string]*kgo.Client
	ids     []string
	said    []string
}

// at is a client that sends requests of the given key with that version. Everyone has clients of their own: an answer that waits
// holds up the others of its connection.
func (d *dialogue) at(who string, key, version int16) *kgo.Client {
	name := fmt.Sprint(who, key, " ", version)
	if cl := d.clients[name]; cl != nil {
		return cl
	}
	v := kversion.Stable()
	v.SetMaxKeyVersion(key, version)
	cl := client(d.t, kgo.SeedBrokers(d.addr), kgo.MaxVersions(v), kgo.ClientID("app"), kgo.RequestRetries(0))
	d.clients[name] = cl
	return cl
}

type pending struct {
	what string
	resp chan kmsg.Response
}

// start sends a request without waiting for its answer.
func (d *dialogue) start(what string, version int16, req kmsg.Request) pending {
	who, _, _ := strings.Cut(what, " ")
	cl := d.at(who, req.Key(), version)
	p := pending{what, make(chan kmsg.Response, 1)}
	b := cl.SeedBrokers()[0]
	go func() {
		resp, err := b.RetriableRequest(d.t.Context(), req)
		if err != nil {
			d.t.Errorf("%s: %v", what, err)
		}
		p.resp <- resp
	}()
	return p
}

func (d *dialogue) ask(what string, version int16, req kmsg.Request) kmsg.Response {
	d.t.Helper()
	return d.wait(d.start(what, version, req))
}

func (d *dialogue) wait(p pending) kmsg.Response {
	d.t.Helper()
	select {
	case resp := <-p.resp:
		if resp == nil {
			d.t.FailNow()
		}
		d.write(p.what, resp)
		return resp
	case <-time.After(time.Minute):
		d.t.Fatalf("%s: no answer", p.what)
		return nil
	}
}

var (
	memberIDs = regexp.MustCompile(`(app|one|two)-[0-9a-zA-Z_-]{22,36}`)
	texts     = regexp.MustCompile(`"ErrorMessage":"(?:[^"\\]|\\.)*"`)
	throttle  = regexp.MustCompile(`"(ThrottleMillis|UnknownTags)":(\d+|\{\}),?`)
)

func (d *dialogue) write(what string, resp kmsg.Response) {
	// Kafka's members come in the order of a hash table.
	order := func(a, b string) int { return cmp.Compare(slices.Index(d.ids, a), slices.Index(d.ids, b)) }
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		slices.SortFunc(resp.Members, func(a, b kmsg.JoinGroupResponseMember) int { return order(a.MemberID, b.MemberID) })
	case *kmsg.DescribeGroupsResponse:
		for i := range resp.Groups {
			slices.SortFunc(resp.Groups[i].Members, func(a, b kmsg.DescribeGroupsResponseGroupMember) int { return order(a.MemberID, b.MemberID) })
		}
	}
	b, err := json.Marshal(resp)
	if err != nil {
		d.t.Fatal(err)
	}
	s := memberIDs.ReplaceAllStringFunc(string(b), func(id string) string {
		for i, known := range d.ids {
			if known == id {
				return fmt.Sprintf("member %d", i+1)
			}
		}
		d.ids = append(d.ids, id)
		return fmt.Sprintf("member %d", len(d.ids))
	})
	s = strings.ReplaceAll(s, d.run, "")
	id, _ := json.Marshal(d.topic)
	s = strings.ReplaceAll(s, string(id), `"topic id"`)
	s = throttle.ReplaceAllString(texts.ReplaceAllString(s, `"ErrorMessage":"text"`), "")
	d.said = append(d.said, what+": "+s)
}

func (d *dialogue) join(who string, version int16, group, id string, change ...func(*kmsg.JoinGroupRequest)) pending {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group+d.run, id, "connect"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	for _, name := range []string{"first", "second"} {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, []byte(who+" "+name)
		req.Protocols = append(req.Protocols, p)
	}
	for _, f := range change {
		f(req)
	}
	return d.start(fmt.Sprintf("%s joins %s, version %d", who, group, version), version, req)
}

func (d *dialogue) sync(who string, version int16, group, id string, gen int32, change ...func(*kmsg.SyncGroupRequest)) pending {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group+d.run, id, gen
	if version >= 5 {
		req.ProtocolType, req.Protocol = kmsg.StringPtr("connect"), kmsg.StringPtr("first")
	}
	for _, f := range change {
		f(req)
	}
	return d.start(fmt.Sprintf("%s syncs %s generation %d, version %d", who, group, gen, version), version, req)
}

func assign(shares ...string) func(*kmsg.SyncGroupRequest) {
	return func(req *kmsg.SyncGroupRequest) {
		for i := 0; i < len(shares); i += 2 {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: shares[i], MemberAssignment: []byte(shares[i+1])})
		}
	}
}

func (d *dialogue) heartbeat(who string, version int16, group, id string, gen int32, instance *string) {
	d.t.Helper()
	d.ask(fmt.Sprintf("heartbeat of %s in %s generation %d, version %d", who, group, gen, version), version,
		&kmsg.HeartbeatRequest{Group: group + d.run, MemberID: id, Generation: gen, InstanceID: instance})
}

// hears waits until a member is told to rejoin.
func (d *dialogue) hears(who, group, id string, gen int32, instance *string) {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		req := &kmsg.HeartbeatRequest{Group: group + d.run, MemberID: id, Generation: gen, InstanceID: instance}
		resp, err := d.at(who, req.Key(), 4).SeedBrokers()[0].RetriableRequest(d.t.Context(), req)
		if err != nil {
			d.t.Fatal(err)
		}
		switch code := resp.(*kmsg.HeartbeatResponse).ErrorCode; {
		case code == kerr.RebalanceInProgress.Code:
			return
		case code != 0 || time.Now().After(deadline):
			d.t.Fatalf("%s is not told to rejoin but %v; before:\n%s", who, kerr.ErrorForCode(code), strings.Join(d.said, "\n"))
		}
	}
}

func (d *dialogue) commit(what string, version int16, group, id string, gen int32, topic string, partition int32, offset int64) {
	d.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group+d.run, id, gen
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic+d.run, d.topic
	if topic != "t" {
		rt.TopicID = [16]byte{1, 2, 3}
	}
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, kmsg.StringPtr("note")
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	d.ask(fmt.Sprintf("%s, commit version %d", what, version), version, req)
}

func (d *dialogue) fetch(what string, version int16, group string, all bool) {
	d.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = group+d.run, true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group + d.run
	if !all {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t" + d.run, Partitions: []int32{0, 1, 9}}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t" + d.run, TopicID: d.topic, Partitions: []int32{0, 1, 9}}}
	}
	if version >= 8 {
		req.Groups = append(req.Groups, g)
	}
	d.ask(fmt.Sprintf("%s, fetch version %d", what, version), version, req)
}

func (d *dialogue) describe(version int16, group string) {
	d.t.Helper()
	d.ask(fmt.Sprintf("describe %s, version %d", group, version), version, &kmsg.DescribeGroupsRequest{Groups: []string{group + d.run}, IncludeAuthorizedOperations: version >= 3})
}

func (d *dialogue) leave(who string, version int16, group string, members ...kmsg.LeaveGroupRequestMember) {
	d.t.Helper()
	for i := range members {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID = members[i].MemberID, members[i].InstanceID
		members[i] = m
	}
	d.ask(fmt.Sprintf("%s leaves %s, version %d", who, group, version), version,
		&kmsg.LeaveGroupRequest{Group: group + d.run, MemberID: members[0].MemberID, Members: members})
}

func talk(t *testing.T, addr string) []string {
	d := &dialogue{t: t, addr: addr, run: peers.Unique(t, "run"), clients: map[string]*kgo.Client{}}
	adm := kadm.NewClient(client(t, kgo.SeedBrokers(addr)))
	created, err := adm.CreateTopic(t.Context(), 3, 1, nil, "t"+d.run)
	if err != nil {
		t.Fatal(err)
	}
	d.topic = created.ID
	joinResp := func(p pending) *kmsg.JoinGroupResponse { t.Helper(); return d.wait(p).(*kmsg.JoinGroupResponse) }
	// The coordinator of a new cluster may need a moment.
	within(t, time.Minute, "the coordinator is there", func() bool {
		resp, err := (&kmsg.FindCoordinatorRequest{CoordinatorKey: "x", CoordinatorKeys: []string{"x"}}).RequestWith(t.Context(), d.at("", 10, 6))
		return err == nil && len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0
	})

	// Two members, from nothing to a rebalance.
	a := joinResp(d.join("a", 9, "g", "")).MemberID
	d.describe(6, "g")
	ja := joinResp(d.join("a", 9, "g", a))
	d.heartbeat("a", 4, "g", a, ja.Generation, nil)
	d.describe(6, "g")
	d.commit("before the assignment", 9, "g", a, ja.Generation, "t", 0, 3)
	d.wait(d.sync("a", 5, "g", a, ja.Generation, func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("other") }))
	d.wait(d.sync("a", 5, "g", a, ja.Generation+1))
	d.wait(d.sync("nobody", 5, "g", "nobody", ja.Generation))
	d.wait(d.sync("a", 5, "g", a, ja.Generation, assign(a, "everything", "nobody", "nothing")))
	d.wait(d.sync("a again", 3, "g", a, ja.Generation))
	d.describe(5, "g")
	d.describe(0, "g")
	for _, v := range []int16{2, 4, 6, 8, 9, 10} {
		d.commit("a", v, "g", a, ja.Generation, "t", 1, int64(v))
	}
	d.commit("to a partition that is not there", 9, "g", a, ja.Generation, "t", 9, 1)
	d.commit("to a topic that is not there", 9, "g", a, ja.Generation, "none", 0, 1)
	d.commit("to a topic that is not there", 10, "g", a, ja.Generation, "none", 0, 1)
	d.commit("of an old generation", 9, "g", a, ja.Generation-1, "t", 0, 1)
	d.commit("of a stranger", 9, "g", "nobody", ja.Generation, "t", 0, 1)
	d.commit("beside members", 9, "g", "", -1, "t", 0, 1)
	for v := int16(1); v <= 10; v++ {
		d.fetch("of g", v, "g", false)
		if v >= 2 {
			d.fetch("all of g", v, "g", true)
		}
	}
	bid := joinResp(d.join("b", 5, "g", "")).MemberID
	pb := d.join("b", 5, "g", bid)
	d.hears("a", "g", a, ja.Generation, nil)
	d.heartbeat("a", 4, "g", a, ja.Generation, nil)
	d.commit("while b joins", 9, "g", a, ja.Generation, "t", 0, 4)
	d.describe(6, "g")
	d.wait(d.sync("a", 5, "g", a, ja.Generation))
	ja = joinResp(d.join("a", 9, "g", a))
	jb := joinResp(pb)
	d.wait(d.join("b asks again", 5, "g", bid, func(r *kmsg.JoinGroupRequest) {
		for i := range r.Protocols {
			r.Protocols[i].Metadata = []byte("b " + r.Protocols[i].Name)
		}
	}))
	sb := d.sync("b", 5, "g", bid, jb.Generation)
	d.wait(d.sync("a", 5, "g", a, ja.Generation, assign(a, "half", bid, "other half")))
	d.wait(sb)
	d.heartbeat("b of an old generation", 4, "g", bid, jb.Generation-1, nil)

	// What is refused.
	d.wait(d.join("somebody of another type", 3, "g", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "consumer" }))
	d.wait(d.join("somebody with other protocols", 3, "g", "", func(r *kmsg.JoinGroupRequest) { r.Protocols = r.Protocols[:1]; r.Protocols[0].Name = "third" }))
	d.wait(d.join("somebody without protocols", 9, "g", "", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }))
	d.wait(d.join("somebody without a type", 9, "g", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }))
	d.wait(d.join("a hasty one", 9, "g", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 500 }))
	d.wait(d.join("a slow one", 9, "g", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1_800_001 }))
	d.wait(d.join("nobody", 9, "g", "nobody"))
	d.wait(d.join("somebody without a group", 9, "g", "", func(r *kmsg.JoinGroupRequest) { r.Group = "" }))
	d.wait(d.join("nobody in a new group", 9, "none", "nobody"))
	d.wait(d.sync("nobody", 5, "none", "nobody", 1))
	d.heartbeat("nobody", 4, "none", "nobody", 1, nil)
	d.leave("nobody", 2, "none", kmsg.LeaveGroupRequestMember{MemberID: "nobody"})
	d.leave("nobody", 5, "none", kmsg.LeaveGroupRequestMember{MemberID: "nobody"})
	d.leave("nobody", 5, "g", kmsg.LeaveGroupRequestMember{MemberID: "nobody"})
	d.describe(5, "none")
	d.describe(6, "none")
	d.fetch("of no group", 9, "none", false)
	d.fetch("all of no group", 9, "none", true)
	d.commit("for a generation of no group", 8, "none", "nobody", 1, "t", 0, 1)
	d.commit("for a generation of no group", 9, "none", "nobody", 1, "t", 0, 1)
	remove := func(what, group string) {
		t.Helper()
		d.ask("delete "+what, 2, &kmsg.DeleteGroupsRequest{Groups: []string{group + d.run}})
	}
	forget := func(what, group, topic string, partition int32) {
		t.Helper()
		d.ask("forget "+what, 0, &kmsg.OffsetDeleteRequest{Group: group + d.run, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: topic + d.run, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}}}}})
	}
	remove("no group", "none")
	remove("a live group", "g")
	forget("of no group", "none", "t", 0)
	forget("of a live group", "g", "t", 0)

	// Members leave.
	d.leave("a", 5, "g", kmsg.LeaveGroupRequestMember{MemberID: a})
	d.heartbeat("b", 4, "g", bid, jb.Generation, nil)
	d.heartbeat("a", 4, "g", a, ja.Generation, nil)
	d.leave("b", 2, "g", kmsg.LeaveGroupRequestMember{MemberID: bid})
	d.describe(6, "g")
	d.ask("list", 5, &kmsg.ListGroupsRequest{TypesFilter: []string{"share"}})
	forget("of an empty group", "g", "t", 0)
	forget("what is not there", "g", "t", 2)
	forget("of no topic", "g", "none", 0)
	d.fetch("all that is left", 9, "g", true)
	remove("an empty group", "g")
	d.fetch("all of what is gone", 9, "g", true)
	d.describe(6, "g")

	// Offsets without members.
	d.commit("alone", 9, "simple", "", -1, "t", 2, 5)
	d.describe(6, "simple")
	d.fetch("alone", 9, "simple", true)
	remove("a simple group", "simple")

	// Static members. Each is replaced without a rebalance, unless the protocol changes.
	one, two := kmsg.StringPtr("one"), kmsg.StringPtr("two")
	as := func(instance *string) func(*kmsg.JoinGroupRequest) {
		return func(r *kmsg.JoinGroupRequest) { r.InstanceID = instance }
	}
	j1 := joinResp(d.join("one", 9, "s", "", as(one)))
	d.wait(d.sync("one", 5, "s", j1.MemberID, j1.Generation, assign(j1.MemberID, "everything")))
	p2 := d.join("two", 9, "s", "", as(two))
	d.hears("one", "s", j1.MemberID, j1.Generation, one)
	j1 = joinResp(d.join("one", 9, "s", j1.MemberID, as(one)))
	j2 := joinResp(p2)
	s2 := d.sync("two", 5, "s", j2.MemberID, j2.Generation)
	d.wait(d.sync("one", 5, "s", j1.MemberID, j1.Generation, assign(j1.MemberID, "half", j2.MemberID, "other half")))
	d.wait(s2)
	old := j2.MemberID
	j2 = joinResp(d.join("two, started anew", 9, "s", "", as(two)))
	d.wait(d.sync("two, started anew", 5, "s", j2.MemberID, j2.Generation))
	d.heartbeat("the old two", 4, "s", old, j2.Generation, two)
	d.heartbeat("two", 4, "s", j2.MemberID, j2.Generation, two)
	d.wait(d.join("the old two", 9, "s", old, as(two)))
	d.wait(d.sync("the old two", 5, "s", old, j2.Generation, func(r *kmsg.SyncGroupRequest) { r.InstanceID = two }))
	d.heartbeat("nobody's instance", 4, "s", j2.MemberID, j2.Generation, kmsg.StringPtr("three"))
	d.wait(d.join("one, the leader, started anew", 9, "s", "", as(one)))
	j1 = joinResp(d.join("one, with an older client", 8, "s", "", as(one)))
	d.describe(6, "s")
	d.leave("the old two", 5, "s", kmsg.LeaveGroupRequestMember{MemberID: old, InstanceID: two})
	d.leave("two, by an administrator", 5, "s", kmsg.LeaveGroupRequestMember{InstanceID: two})
	d.leave("three", 5, "s", kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr("three")})
	d.heartbeat("one", 4, "s", j1.MemberID, j1.Generation, one)
	d.leave("one", 5, "s", kmsg.LeaveGroupRequestMember{MemberID: j1.MemberID, InstanceID: one})
	d.describe(6, "s")
	remove("the group of static members", "s")
	return d.said
}

// onPurpose are the differences to Kafka, each with its reason.
var onPurpose = map[string]string{}

// TestGroupsAnswerAsKafkaDoes has the same conversation with our broker and with Apache Kafka.
func TestGroupsAnswerAsKafkaDoes(t *testing.T) {
	kafka := peers.Kafka(t)
	got := talk(t, tcpLog(t).Addr())
	sameAsKafka(t, func() (differences []string) {
		want := talk(t, kafka.Addr)
		if len(got) != len(want) {
			return []string{fmt.Sprintf("%d answers, Kafka gave %d", len(got), len(want))}
		}
		listed := 0
		for i := range want {
			what, _, _ := strings.Cut(want[i], ": ")
			_, purpose := onPurpose[what]
			switch {
			case got[i] == want[i]:
			case purpose:
				listed++
			default:
				differences = append(differences, fmt.Sprintf("ours  %s\nKafka %s", got[i], want[i]))
			}
		}
		if listed != len(onPurpose) {
			differences = append(differences, fmt.Sprintf("%d differences are listed, %d were met", len(onPurpose), listed))
		}
		t.Logf("compared %d answers, %d differ on purpose", len(want), listed)
		return differences
	})
}
