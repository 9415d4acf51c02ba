package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/store"
)

// answers collects what a request's done was called with.
type answers[R any] struct {
	got []R
	err error
}

// ask sends a request and waits, in a bubble, until nothing moves. No answer is nil.
func ask[Q, R any](t *testing.T, f func(Q, func(*R, error)), req Q) *R {
	t.Helper()
	a := send(f, req)
	synctest.Wait()
	if a.err != nil {
		t.Fatal(a.err)
	}
	if len(a.got) == 0 {
		return nil
	}
	return a.got[0]
}

func send[Q, R any](f func(Q, func(*R, error)), req Q) *answers[*R] {
	a := &answers[*R]{}
	f(req, func(r *R, err error) {
		if len(a.got) > 0 || a.err != nil {
			panic("answered twice")
		}
		if err != nil {
			a.err = err
			return
		}
		a.got = append(a.got, r)
	})
	return a
}

func open(t *testing.T, l Log, topics Topics) *Coordinator {
	t.Helper()
	c, err := Open(l, topics, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Coordinator) joinFrom(cl Client) func(*kmsg.JoinGroupRequest, func(*kmsg.JoinGroupResponse, error)) {
	return func(req *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse, error)) {
		c.JoinGroup(cl, req, done)
	}
}

func joinRequest(group, id, protocolType string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 9, group, id, protocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
	for _, p := range protocols {
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = p, []byte("meta of "+p)
		req.Protocols = append(req.Protocols, rp)
	}
	return req
}

// alone makes a group of one member and returns its id; the generation is 1 in a new group.
func alone(t *testing.T, c *Coordinator, cl Client, group, protocolType string) string {
	t.Helper()
	first := ask(t, c.joinFrom(cl), joinRequest(group, "", protocolType, "range"))
	if first.ErrorCode != kerr.MemberIDRequired.Code || !strings.HasPrefix(first.MemberID, cl.ID+"-") {
		t.Fatalf("first join: %+v", first)
	}
	a := send(c.joinFrom(cl), joinRequest(group, first.MemberID, protocolType, "range"))
	time.Sleep(time.Second)
	synctest.Wait()
	if a.err != nil || len(a.got) != 1 || a.got[0].ErrorCode != 0 {
		t.Fatalf("join: %+v", a)
	}
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, group, first.MemberID, a.got[0].Generation
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: first.MemberID, MemberAssignment: []byte("everything")}}
	if s := ask(t, c.SyncGroup, req); s == nil || s.ErrorCode != 0 || string(s.MemberAssignment) != "everything" || *s.Protocol != "range" || *s.ProtocolType != protocolType {
		t.Fatalf("sync: %+v", s)
	}
	return first.MemberID
}

func commitRequest(version int16, group string, generation int32, id, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.MemberID = version, group, generation, id
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, offset, 7, kmsg.StringPtr("note")
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func commit(t *testing.T, c *Coordinator, group, topic string, partition int32, offset int64) {
	t.Helper()
	if r := ask(t, c.OffsetCommit, commitRequest(9, group, -1, "", topic, partition, offset)); r == nil || r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("commit: %+v", r)
	}
}

// offsets reads all offsets of a group, as topic/partition=offset.
func offsets(t *testing.T, c *Coordinator, group string) []string {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 9
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group}}
	r := ask(t, c.OffsetFetch, req)
	if r == nil {
		return nil
	}
	out := []string{}
	for _, rt := range r.Groups[0].Topics {
		for _, p := range rt.Partitions {
			out = append(out, fmt.Sprintf("%s/%d=%d", rt.Topic, p.Partition, p.Offset))
		}
	}
	return out
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

var tcp = Client{ID: "app", Host: "/127.0.0.1"}

func TestAnswersLeaveWhenTheirGroupsRecordsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &memLog{held: true}
		c := open(t, l, newTopics("t"))
		defer c.Close()
		commitA := send(c.OffsetCommit, commitRequest(9, "g", -1, "", "t", 0, 5))
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version, fetch.Groups = 9, []kmsg.OffsetFetchRequestGroup{{Group: "g"}, {Group: "other"}}
		read := send(c.OffsetFetch, fetch)
		synctest.Wait()
		if len(commitA.got) != 0 || len(read.got) != 0 {
			t.Fatal("answered what a power loss takes back")
		}
		l.sync()
		synctest.Wait()
		if len(commitA.got) != 1 || len(read.got) != 1 || len(read.got[0].Groups) != 2 || read.got[0].Groups[0].Topics[0].Partitions[0].Offset != 5 {
			t.Fatalf("after the sync: %+v, %+v", commitA, read)
		}

		// A deletion, and that there is nothing any more, is told when it is durable.
		del := send(c.DeleteGroups, &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"g"}})
		read = send(c.OffsetFetch, fetch)
		again := send(c.OffsetCommit, commitRequest(9, "g", -1, "", "t", 1, 6))
		synctest.Wait()
		if len(del.got)+len(read.got)+len(again.got) != 0 {
			t.Fatal("answered what a power loss takes back")
		}
		l.sync()
		synctest.Wait()
		if len(del.got) != 1 || del.got[0].Groups[0].ErrorCode != 0 || len(read.got) != 1 || len(read.got[0].Groups[0].Topics) != 0 || len(again.got) != 1 {
			t.Fatalf("after the sync: %+v, %+v, %+v", del, read, again)
		}
		equal(t, offsets(t, c, "g"), []string{"t/1=6"})

		// An assignment is handed out when it is durable.
		cl := tcp
		id := ask(t, c.joinFrom(cl), joinRequest("w", "", "connect", "compatible")).MemberID
		j := ask(t, c.joinFrom(cl), joinRequest("w", id, "connect", "compatible"))
		s := kmsg.NewPtrSyncGroupRequest()
		s.Version, s.Group, s.MemberID, s.Generation = 5, "w", id, j.Generation
		if r := ask(t, c.SyncGroup, s); r != nil {
			t.Fatalf("answered what a power loss takes back: %+v", r)
		}
		l.sync()
	})
}

func TestOfflineLogEndsCallsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &memLog{held: true}
		c := open(t, l, newTopics("t"))
		a := send(c.OffsetCommit, commitRequest(9, "g", -1, "", "t", 0, 5))
		l.fail(store.ErrOutcomeUnknown)
		synctest.Wait()
		if !errors.Is(a.err, store.ErrOutcomeUnknown) {
			t.Fatalf("%+v", a)
		}
		c.Close()
		if a := send(c.OffsetCommit, commitRequest(9, "g", -1, "", "t", 0, 5)); !errors.Is(a.err, ErrClosed) {
			t.Fatalf("after Close: %+v", a)
		}
	})
}

func TestCloseAnswersWhoeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &memLog{}, newTopics())
		alone(t, c, tcp, "g", "consumer")
		req := joinRequest("g", "", "consumer", "range")
		req.Version = 3
		a := send(c.joinFrom(tcp), req)
		synctest.Wait()
		if len(a.got) != 0 {
			t.Fatalf("joined without the other: %+v", a.got[0])
		}
		c.Close()
		if len(a.got) != 1 || a.got[0].ErrorCode != kerr.CoordinatorNotAvailable.Code {
			t.Fatalf("%+v", a)
		}
	})
}

func TestOffsetsInEveryVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics := newTopics("t", "u")
		id := topics.ids["t"]
		for version := int16(2); version <= 10; version++ {
			l := &memLog{}
			c := open(t, l, topics)
			req := commitRequest(version, "g", -1, "", "t", 0, 5)
			req.Topics[0].TopicID = id
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0], req.Topics[0].Partitions[0])
			req.Topics[0].Partitions[1].Partition = 4
			req.Topics[0].Partitions[2].Partition, req.Topics[0].Partitions[2].Metadata = 1, kmsg.StringPtr(strings.Repeat("x", 4097))
			unknown := kmsg.NewOffsetCommitRequestTopic()
			unknown.Topic, unknown.TopicID, unknown.Partitions = "none", [16]byte{1}, req.Topics[0].Partitions[:1]
			req.Topics = append(req.Topics, unknown)
			r := ask(t, c.OffsetCommit, req)
			var codes []string
			for _, rt := range r.Topics {
				for _, p := range rt.Partitions {
					codes = append(codes, code(p.ErrorCode))
				}
			}
			missing := "UNKNOWN_TOPIC_OR_PARTITION"
			if version >= 10 {
				missing = "UNKNOWN_TOPIC_ID"
			}
			equal(t, codes, []string{"ok", "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_METADATA_TOO_LARGE", missing})
			c.Close()
			c = open(t, l, topics)
			equal(t, offsets(t, c, "g"), []string{"t/0=5"})
			c.Close()
		}

		l := &memLog{}
		c := open(t, l, topics)
		defer c.Close()
		commit(t, c, "g", "t", 0, 5)
		commit(t, c, "g", "u", 3, 6)
		for version := int16(1); version <= 10; version++ {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version = version
			var got []string
			if version < 8 {
				req.Group = "g"
				req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
				for _, rt := range ask(t, c.OffsetFetch, req).Topics {
					for _, p := range rt.Partitions {
						got = append(got, fmt.Sprintf("%s/%d=%d %d %q %s", rt.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, code(p.ErrorCode)))
					}
				}
			} else {
				rt := kmsg.OffsetFetchRequestGroupTopic{Topic: "t", Partitions: []int32{0, 1}}
				if version >= 10 {
					rt.Topic, rt.TopicID = "", id
				}
				req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{rt}}}
				for _, rt := range ask(t, c.OffsetFetch, req).Groups[0].Topics {
					if version >= 10 && rt.TopicID == id {
						rt.Topic = "t"
					}
					for _, p := range rt.Partitions {
						got = append(got, fmt.Sprintf("%s/%d=%d %d %q %s", rt.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, code(p.ErrorCode)))
					}
				}
			}
			equal(t, got, []string{`t/0=5 7 "note" ok`, `t/1=-1 -1 "" ok`})
		}
		all := kmsg.NewPtrOffsetFetchRequest()
		all.Version, all.Group = 7, "g"
		if r := ask(t, c.OffsetFetch, all); len(r.Topics) != 2 {
			t.Fatalf("null topics: %+v", r)
		}
		all.Topics = []kmsg.OffsetFetchRequestTopic{}
		if r := ask(t, c.OffsetFetch, all); len(r.Topics) != 0 {
			t.Fatalf("no topics: %+v", r)
		}
		byID := kmsg.NewPtrOffsetFetchRequest()
		byID.Version = 10
		byID.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}, {Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{TopicID: [16]byte{9}, Partitions: []int32{0}}}}}
		r := ask(t, c.OffsetFetch, byID)
		if len(r.Groups[0].Topics) != 2 || r.Groups[0].Topics[0].TopicID != id || r.Groups[1].Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicID.Code {
			t.Fatalf("by id: %+v", r)
		}
	})
}

func TestOffsetsGoWithTheirTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics := newTopics("kept", "dropped", "remade")
		l := &memLog{}
		c := open(t, l, topics)
		for _, name := range []string{"kept", "dropped", "remade"} {
			commit(t, c, "g", name, 0, 1)
			commit(t, c, "h", name, 1, 1)
		}
		topics.set("dropped", 0)
		c.TopicDeleted("dropped")
		equal(t, offsets(t, c, "g"), []string{"kept/0=1", "remade/0=1"})
		// A commit that was under way while the topic was made anew is not taken for the new one's.
		topics.set("kept", 8)
		equal(t, offsets(t, c, "g"), []string{"remade/0=1"})
		topics.set("kept", 1)
		c.Close()

		// The process died before it could remove them: the topic's id tells.
		topics.set("remade", 9)
		l.refuse = errFull
		c = open(t, l, topics)
		equal(t, offsets(t, c, "g"), []string{"kept/0=1"})
		c.Close()
		l.refuse = nil
		c = open(t, l, topics)
		equal(t, offsets(t, c, "h"), []string{"kept/1=1"})
		commit(t, c, "h", "remade", 1, 2)
		c.Close()
		c = open(t, l, topics)
		equal(t, offsets(t, c, "h"), []string{"kept/1=1", "remade/1=2"})
		c.Close()
	})
}

func TestAdministration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &memLog{}, newTopics("t", "u"))
		defer c.Close()
		id := alone(t, c, tcp, "live", "consumer")
		alone(t, c, Client{ID: "w", Host: EmbeddedHost}, "workers", "connect")
		commit(t, c, "simple", "t", 0, 1)

		list := func(states, types []string) (got []string) {
			r, err := c.ListGroups(&kmsg.ListGroupsRequest{Version: 5, StatesFilter: states, TypesFilter: types})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range r.Groups {
				got = append(got, g.Group+" "+g.ProtocolType+" "+g.GroupState+" "+g.GroupType)
			}
			return got
		}
		equal(t, list(nil, nil), []string{"live consumer Stable classic", "simple  Empty classic", "workers connect Stable classic"})
		equal(t, list([]string{"stable"}, []string{"Classic"}), []string{"live consumer Stable classic", "workers connect Stable classic"})
		equal(t, list(nil, []string{"consumer"}), nil)

		for _, version := range []int16{5, 6} {
			r, err := c.DescribeGroups(&kmsg.DescribeGroupsRequest{Version: version, Groups: []string{"live", "none"}, IncludeAuthorizedOperations: version == 6})
			if err != nil {
				t.Fatal(err)
			}
			g, none := r.Groups[0], r.Groups[1]
			m := g.Members[0]
			if g.State != "Stable" || g.Protocol != "range" || m.MemberID != id || m.ClientHost != "/127.0.0.1" || string(m.ProtocolMetadata) != "meta of range" ||
				string(m.MemberAssignment) != "everything" || (version == 6) != (g.AuthorizedOperations == groupOperations) {
				t.Fatalf("version %d: %+v", version, g)
			}
			if none.State != "Dead" || (version == 6) != (none.ErrorCode == kerr.GroupIDNotFound.Code) || (version == 6) != (none.ErrorMessage != nil) {
				t.Fatalf("version %d: %+v", version, none)
			}
		}

		forget := func(group string, topic string, ps ...int32) (got []string) {
			req := &kmsg.OffsetDeleteRequest{Group: group}
			rt := kmsg.OffsetDeleteRequestTopic{Topic: topic}
			for _, p := range ps {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
			}
			req.Topics = append(req.Topics, rt)
			r := ask(t, c.OffsetDelete, req)
			got = append(got, code(r.ErrorCode))
			for _, rt := range r.Topics {
				for _, p := range rt.Partitions {
					got = append(got, code(p.ErrorCode))
				}
			}
			return got
		}
		equal(t, forget("none", "t", 0), []string{"GROUP_ID_NOT_FOUND"})
		equal(t, forget("workers", "t", 0), []string{"NON_EMPTY_GROUP"})
		equal(t, forget("simple", "t", 0, 4), []string{"ok", "ok", "UNKNOWN_TOPIC_OR_PARTITION"})

		// Of a group that reads t, offsets of u can go.
		req := joinRequest("live", id, "consumer", "range")
		req.Protocols[0].Metadata = (&kmsg.ConsumerMemberMetadata{Version: 1, Topics: []string{"t"}}).AppendTo(nil)
		gen := ask(t, c.joinFrom(tcp), req).Generation
		s := &kmsg.SyncGroupRequest{Version: 5, Group: "live", MemberID: id, Generation: gen}
		ask(t, c.SyncGroup, s)
		for _, topic := range []string{"t", "u"} {
			if r := ask(t, c.OffsetCommit, commitRequest(9, "live", gen, id, topic, 0, 1)); r.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatalf("%+v", r)
			}
		}
		equal(t, forget("live", "t", 0), []string{"ok", "GROUP_SUBSCRIBED_TO_TOPIC"})
		equal(t, forget("live", "u", 0), []string{"ok", "ok"})
		equal(t, offsets(t, c, "live"), []string{"t/0=1"})

		r := ask(t, c.DeleteGroups, &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"live", "none", "simple"}})
		var codes []string
		for _, g := range r.Groups {
			codes = append(codes, code(g.ErrorCode))
		}
		// simple had no offsets left and is not there any more.
		equal(t, codes, []string{"NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND", "GROUP_ID_NOT_FOUND"})
		commit(t, c, "simple", "t", 0, 1)
		if r := ask(t, c.DeleteGroups, &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"simple"}}); r.Groups[0].ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
		equal(t, list([]string{"Empty"}, nil), nil)

		leave := &kmsg.LeaveGroupRequest{Version: 5, Group: "live", Members: []kmsg.LeaveGroupRequestMember{{MemberID: id}, {MemberID: "other"}}}
		l := ask(t, c.LeaveGroup, leave)
		if l.ErrorCode != 0 || l.Members[0].ErrorCode != 0 || l.Members[1].ErrorCode != kerr.UnknownMemberID.Code {
			t.Fatalf("leave: %+v", l)
		}
		if l := ask(t, c.LeaveGroup, &kmsg.LeaveGroupRequest{Version: 2, Group: "live", MemberID: id}); l.ErrorCode != kerr.UnknownMemberID.Code {
			t.Fatalf("leave of version 2: %+v", l)
		}
	})
}

func TestNamesThatRecordsCannotHoldAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &memLog{}, newTopics("t"))
		defer c.Close()
		long := strings.Repeat("g", maxName+1)
		empty := ""
		instance := joinRequest("g", "", "consumer", "range")
		instance.InstanceID = &empty
		for name, req := range map[string]*kmsg.JoinGroupRequest{
			"group": joinRequest(long, "", "consumer", "range"), "protocol": joinRequest("g", "", "consumer", long),
			"type": joinRequest("g", "", long, "range"), "empty instance": instance,
		} {
			if r := ask(t, c.joinFrom(tcp), req); r.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("%s: %s", name, code(r.ErrorCode))
			}
		}
		if r := ask(t, c.joinFrom(tcp), joinRequest("", "", "consumer", "range")); r.ErrorCode != kerr.InvalidGroupID.Code {
			t.Errorf("no group: %s", code(r.ErrorCode))
		}
		if r := ask(t, c.OffsetCommit, commitRequest(9, long, -1, "", "t", 0, 1)); r.Topics[0].Partitions[0].ErrorCode != kerr.InvalidGroupID.Code {
			t.Errorf("commit: %+v", r)
		}
		if len(c.names()) != 0 {
			t.Errorf("refused requests made groups: %.40q", c.names())
		}
	})
}

func TestOldOffsetsExpireByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &memLog{}
		c := open(t, l, newTopics("t"))
		commit(t, c, "g", "t", 0, 1)
		time.Sleep(7*24*time.Hour - time.Minute)
		equal(t, offsets(t, c, "g"), []string{"t/0=1"})
		time.Sleep(12 * time.Minute)
		equal(t, offsets(t, c, "g"), []string{})
		c.Close()
		c = open(t, l, newTopics("t"))
		if len(c.names()) != 0 {
			t.Fatalf("%q came back", c.names())
		}
		c.Close()
	})
}
