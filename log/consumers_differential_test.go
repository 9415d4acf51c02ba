package log_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/peers"
)

// A conversation in the newer consumer protocol.
type consumerScript struct {
	*script
	epochs map[string]int32 // by member, as it was told last
}

// beat sends a heartbeat of a member: to join when it has no epoch yet, else what the changes say.
func (s *consumerScript) beat(who string, version int16, group string, change ...func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	s.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group+s.run, who+s.run, s.epochs[group+who]
	if req.MemberEpoch == 0 {
		req.RebalanceTimeoutMillis = 60_000
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		req.SubscribedTopicNames = []string{"t" + s.run}
	}
	for _, f := range change {
		f(req)
	}
	resp := s.say(fmt.Sprintf("%s beats in %s, epoch %d, version %d", who, group, req.MemberEpoch, version), version, req).(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode == 0 {
		s.epochs[group+who] = max(0, resp.MemberEpoch)
	}
	return resp
}

func (s *consumerScript) owns(ps ...int32) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(ps) > 0 {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.topics["t"], Partitions: ps})
		}
	}
}

func says(epoch int32) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = epoch }
}

func instance(id string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &id }
}

func (s *consumerScript) describe(group string, version int16) {
	s.t.Helper()
	req := &kmsg.ConsumerGroupDescribeRequest{Groups: []string{group + s.run}, IncludeAuthorizedOperations: true}
	resp := s.ask(fmt.Sprintf("describe %s, version %d", group, version), version, req).(*kmsg.ConsumerGroupDescribeResponse)
	s.said = s.said[:len(s.said)-1]
	for i := range resp.Groups {
		g := &resp.Groups[i]
		g.AuthorizedOperations = 0 // Kafka's without an authorizer are those of a list of its own
		slices.SortFunc(g.Members, func(a, b kmsg.ConsumerGroupDescribeResponseGroupMember) int {
			// The ids of classic ones are the broker's.
			return cmp.Or(cmp.Compare(b.MemberType, a.MemberType), cmp.Compare(a.MemberID, b.MemberID))
		})
		for j := range g.Members {
			for _, a := range []*kmsg.Assignment{&g.Members[j].Assignment, &g.Members[j].TargetAssignment} {
				for k := range a.TopicPartitions {
					slices.Sort(a.TopicPartitions[k].Partitions)
				}
			}
		}
	}
	b, err := json.Marshal(resp)
	if err != nil {
		s.t.Fatal(err)
	}
	line := strings.ReplaceAll(string(b), s.run, "")
	id, _ := json.Marshal(s.topics["t"])
	line = strings.ReplaceAll(line, string(id), `"id of t"`)
	line = throttle.ReplaceAllString(texts.ReplaceAllString(line, `"ErrorMessage":"text"`), "")
	s.said = append(s.said, fmt.Sprintf("describe %s, version %d: %s", group, version, line))
}

// consumerConversation holds it with one broker and returns what was said.
func consumerConversation(t *testing.T, addr string) []string {
	s := &consumerScript{newScript(t, addr), map[string]int32{}}
	s.create("create t", false, 7, newTopic("t", 4, 1))
	s.serves("t", 4)
	s.topic = s.topics["t"]
	// Assignments are made at once.
	for _, g := range []string{"g", "static", "regex", "mixed", "up"} {
		s.say("configure "+g, 1, &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: g + s.run, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
				{Name: "consumer.assignment.interval.ms", Value: kmsg.StringPtr("0")}, {Name: "consumer.assignor.offload.enable", Value: kmsg.StringPtr("false")},
				{Name: "consumer.heartbeat.interval.ms", Value: kmsg.StringPtr("6000")},
			},
		}}})
	}
	for _, kv := range [][2]string{{"consumer.session.timeout.ms", "1000"}, {"consumer.heartbeat.interval.ms", "100"}, {"consumer.session.timeout.ms", "60001"}, {"other", "1"}} {
		name, value := kv[0], kv[1]
		s.say("configure "+name, 1, &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g" + s.run, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
		}}})
	}

	// What makes no sense.
	str := kmsg.StringPtr
	for _, v := range []int16{0, 1} {
		for i, f := range []func(r *kmsg.ConsumerGroupHeartbeatRequest){
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", 5 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", -1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = str("") },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = str("") },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { s.owns(1)(r) },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = str("none") },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 7 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 },
		} {
			s.beat(fmt.Sprintf("nonsense %d", i), v, "none", f)
		}
	}
	s.describe("none", 1)
	s.describe("", 1)

	// Two share, a third comes.
	s.beat("a", 1, "g")
	s.beat("a", 1, "g")
	s.beat("b", 1, "g")
	s.describe("g", 1)
	s.beat("a", 1, "g")
	s.beat("b", 1, "g")
	s.beat("a", 1, "g", s.owns(0, 1, 2, 3))
	s.describe("g", 0)
	s.beat("a", 1, "g", s.owns())
	s.beat("b", 1, "g")
	s.describe("g", 1)
	s.beat("a", 1, "g", says(s.epochs["ga"]-1))
	s.beat("a", 1, "g", says(s.epochs["ga"]-1), s.owns())
	s.beat("a", 1, "g", says(9))
	s.beat("a", 1, "g", says(0))
	s.beat("z", 1, "g", says(3))
	s.beat("a", 1, "g", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = str("range") })
	s.beat("a", 1, "g", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 50_000, []string{"t" + s.run}
		s.owns()(r)
	})
	s.beat("a", 1, "g", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"nothing" + s.run} })
	s.beat("a", 1, "g", s.owns())
	s.beat("b", 1, "g")
	s.describe("g", 1)

	// Offsets.
	epochB := s.epochs["gb"]
	s.commit("b commits", 9, "g", "b"+s.run, epochB, "t", 0, 5)
	s.commit("b commits with an old epoch", 9, "g", "b"+s.run, epochB-1, "t", 0, 6)
	s.commit("b commits with epoch 1", 9, "g", "b"+s.run, 1, "t", 1, 6)
	s.commit("b commits with an epoch to come", 9, "g", "b"+s.run, epochB+1, "t", 0, 7)
	s.commit("b commits in an old version", 8, "g", "b"+s.run, epochB, "t", 0, 8)
	s.commit("a stranger commits", 9, "g", "z", epochB, "t", 0, 9)
	s.commit("nobody commits", 9, "g", "", -1, "t", 0, 9)
	s.commit("b commits by id", 10, "g", "b"+s.run, epochB, "t", 2, 5)
	fetch := func(what string, member *string, epoch int32) {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = "g"+s.run, member, epoch
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t" + s.run, Partitions: []int32{0, 2}}}
		s.ask(what, 9, &kmsg.OffsetFetchRequest{Groups: []kmsg.OffsetFetchRequestGroup{g}})
	}
	fetch("b fetches", str("b"+s.run), epochB)
	fetch("b fetches with an old epoch", str("b"+s.run), epochB-1)
	fetch("a stranger fetches", str("z"), 1)
	fetch("anybody fetches", nil, -1)
	s.say("classic describe", 6, &kmsg.DescribeGroupsRequest{Groups: []string{"g" + s.run}})
	s.say("classic describe, before there was an error for it", 5, &kmsg.DescribeGroupsRequest{Groups: []string{"g" + s.run}})
	s.say("delete", 2, &kmsg.DeleteGroupsRequest{Groups: []string{"g" + s.run}})
	s.heartbeat("b", 4, "g", "b"+s.run, epochB, nil)
	s.wait(s.join("a worker", 9, "g", "", func(r *kmsg.JoinGroupRequest) {}))
	s.beat("b", 1, "g", says(-1))
	s.beat("a", 1, "g", says(-1))
	s.describe("g", 1)
	s.say("delete the empty group", 2, &kmsg.DeleteGroupsRequest{Groups: []string{"g" + s.run}})
	s.describe("g", 1)

	// Static members.
	s.beat("a", 1, "static", instance("one"))
	s.beat("b", 1, "static", instance("two"))
	s.beat("c", 1, "static", instance("one"))
	s.beat("a", 1, "static", says(-2), instance("two"))
	s.beat("a", 1, "static", says(-2), instance("one"))
	s.describe("static", 1)
	s.beat("c", 1, "static", instance("one"))
	s.beat("a", 1, "static", says(1), instance("one"))
	s.beat("a", 1, "static", says(1))
	s.beat("x", 1, "static", says(1), instance("three"))
	s.beat("c", 1, "static", instance("one"), s.owns())
	s.beat("b", 1, "static", instance("two"))
	s.describe("static", 1)

	// Regexes.
	regex := func(re string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
		return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicRegex = &re
			if r.MemberEpoch == 0 {
				r.SubscribedTopicNames = nil
			}
		}
	}
	s.beat("a", 1, "regex", regex("("))
	s.beat("a", 1, "regex", regex("(?=t)"))
	s.beat("a", 1, "regex", regex("(a)\\1"))
	s.beat("a", 1, "regex", regex(""))
	s.describe("regex", 1)
	s.beat("a", 1, "regex", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{} })
	s.beat("a", 1, "regex", says(-1))

	// Both protocols in one group.
	consumer := func(owns ...int32) func(*kmsg.JoinGroupRequest) {
		return func(r *kmsg.JoinGroupRequest) {
			sub := kmsg.NewConsumerMemberMetadata()
			sub.Version, sub.Topics = 3, []string{"t" + s.run}
			if len(owns) > 0 {
				sub.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "t" + s.run, Partitions: owns}}
			}
			r.ProtocolType = "consumer"
			r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: sub.AppendTo(nil)}}
		}
	}
	typed := func(r *kmsg.SyncGroupRequest) { r.ProtocolType, r.Protocol = str("consumer"), str("range") }
	first := func(group string) (id string, generation int32) {
		id = s.wait(s.join("one", 9, group, "", consumer())).(*kmsg.JoinGroupResponse).MemberID
		r := s.wait(s.join("one", 9, group, id, consumer())).(*kmsg.JoinGroupResponse)
		return id, r.Generation
	}
	s.beat("a", 1, "mixed")
	one, gen := first("mixed")
	s.wait(s.sync("one", 5, "mixed", one, gen, typed))
	s.describe("mixed", 1)
	s.beat("a", 1, "mixed", s.owns(0, 1))
	s.hears("one", "mixed", one, gen, nil)
	r := s.wait(s.join("one", 9, "mixed", one, consumer())).(*kmsg.JoinGroupResponse)
	s.wait(s.sync("one", 5, "mixed", one, r.Generation, typed))
	s.wait(s.sync("one", 5, "mixed", one, r.Generation+1, typed))
	s.wait(s.sync("one", 5, "mixed", one, r.Generation))
	s.heartbeat("one", 4, "mixed", one, r.Generation, nil)
	s.heartbeat("one", 4, "mixed", one, r.Generation-1, nil)
	s.commit("one commits", 8, "mixed", one, r.Generation, "t", 2, 5)
	s.commit("one commits with an old generation", 8, "mixed", one, r.Generation-1, "t", 2, 6)
	s.describe("mixed", 1)
	s.wait(s.join("of another kind", 9, "mixed", "", func(r *kmsg.JoinGroupRequest) {}))
	s.say("a leaves by a request of the other protocol", 5, &kmsg.LeaveGroupRequest{Group: "mixed" + s.run, Members: []kmsg.LeaveGroupRequestMember{{MemberID: "a" + s.run}}})
	s.beat("a", 1, "mixed", says(-1))
	s.say("mixed is a classic group", 6, &kmsg.DescribeGroupsRequest{Groups: []string{"mixed" + s.run}})
	s.describe("mixed", 1)

	// A classic group becomes another.
	s.wait(s.join("a worker", 9, "worker", "", func(r *kmsg.JoinGroupRequest) {}))
	two, gen := first("up")
	s.wait(s.sync("one", 5, "up", two, gen, typed, func(r *kmsg.SyncGroupRequest) {
		a := kmsg.NewConsumerMemberAssignment()
		a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t" + s.run, Partitions: []int32{0, 1, 2, 3}}}
		r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: two, MemberAssignment: a.AppendTo(nil)}}
	}))
	s.beat("b", 1, "up", says(3))
	s.beat("b", 1, "up")
	s.describe("up", 1)
	s.hears("one", "up", two, gen, nil)
	r = s.wait(s.join("one", 9, "up", two, consumer(0, 1, 2, 3))).(*kmsg.JoinGroupResponse)
	s.wait(s.sync("one", 5, "up", two, r.Generation, typed))
	s.describe("up", 1)
	r = s.wait(s.join("one", 9, "up", two, consumer(0, 1))).(*kmsg.JoinGroupResponse)
	s.wait(s.sync("one", 5, "up", two, r.Generation, typed))
	s.beat("b", 1, "up")
	s.describe("up", 1)
	for i, line := range s.said {
		line = strings.NewReplacer(one, "id of one", two, "id of two").Replace(line)
		s.said[i] = embedded.ReplaceAllStringFunc(line, func(m string) string {
			f := embedded.FindStringSubmatch(m)
			b, _ := base64.StdEncoding.DecodeString(f[2])
			return fmt.Sprintf("%q:%q", f[1], strings.ReplaceAll(string(b), s.run, ""))
		})
	}
	return s.said
}

// embedded are consumers' subscriptions and assignments inside of answers of the classic protocol.
var embedded = regexp.MustCompile(`"(MemberAssignment|ProtocolMetadata)":"([^"]*)"`)

// TestConsumerGroupsAnswerAsKafkaDoes has the same conversation in the newer protocol with our broker and Apache Kafka.
func TestConsumerGroupsAnswerAsKafkaDoes(t *testing.T) {
	kafka := peers.Kafka(t)
	got := consumerConversation(t, tcpLog(t).Addr())
	sameAsKafka(t, func() (differences []string) {
		want := consumerConversation(t, kafka.Addr)
		if len(got) != len(want) {
			differences = append(differences, fmt.Sprintf("%d answers, Kafka gave %d", len(got), len(want)))
		}
		for i := range min(len(want), len(got)) {
			if got[i] != want[i] {
				differences = append(differences, fmt.Sprintf("%d: ours  %s\nKafka %s", i, got[i], want[i]))
			}
		}
		t.Logf("compared %d answers", len(want))
		return differences
	})
}
