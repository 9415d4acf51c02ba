package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests of the newer consumer protocol (KIP-848). ConsumerGroupHeartbeat 0–1: 1 added the regex, and that members choose
// their ids. ConsumerGroupDescribe 0–1: 1 added the type of each member. Left out: assignments that are made later than with the
// heartbeat that asks for them (consumer.assignment.interval.ms).

// ConsumerGroupHeartbeat carries out a ConsumerGroupHeartbeat request; the answer comes when what it tells is durable.
func (c *Coordinator) ConsumerGroupHeartbeat(cl Client, req *kmsg.ConsumerGroupHeartbeatRequest, done func(*kmsg.ConsumerGroupHeartbeatResponse, error)) {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	refuse := func(code int16, reason string) {
		resp.ErrorCode, resp.ErrorMessage = code, &reason
	}
	if err, reason := checkBeat(cl, req); err != nil {
		refuse(err.Code, reason)
		done(resp, nil)
		return
	}
	in := beatIn{id: req.MemberID, client: cl, epoch: req.MemberEpoch, rebalance: -1, regex: req.SubscribedTopicRegex}
	if req.InstanceID != nil {
		in.instance = *req.InstanceID
	}
	if req.RackID != nil {
		in.rack = *req.RackID
	}
	if req.RebalanceTimeoutMillis >= 0 {
		in.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	if req.SubscribedTopicNames != nil {
		in.names = &req.SubscribedTopicNames
	}
	if req.ServerAssignor != nil {
		in.assignor = *req.ServerAssignor
	}
	if req.Topics != nil {
		ps := []tp{}
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				ps = append(ps, tp{t.TopicID, p})
			}
		}
		ps = sortedTPs(ps)
		in.owns = &ps
	}
	found, err := c.with(req.Group, req.MemberEpoch == joining, func(s *slot, e *env) {
		out := s.g.beat(e, in)
		c.later(s, func(err error) {
			if out.refused() {
				refuse(out.err, out.reason)
			} else {
				out.fill(resp)
			}
			done(resp, err)
		})
	})
	if err != nil || !found {
		refuse(kerr.GroupIDNotFound.Code, fmt.Sprintf("Group %s not found.", req.Group))
		done(resp, err)
	}
}

func (out *beatOut) fill(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	resp.MemberID, resp.MemberEpoch = &out.id, out.epoch
	resp.HeartbeatIntervalMillis = int32(out.interval.Milliseconds())
	if !out.told {
		return
	}
	resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
	for i, p := range out.assigned {
		ts := &resp.Assignment.Topics
		if i == 0 || p.topic != out.assigned[i-1].topic {
			*ts = append(*ts, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: p.topic})
		}
		t := &(*ts)[len(*ts)-1]
		t.Partitions = append(t.Partitions, p.partition)
	}
}

// checkBeat refuses what makes no sense, whatever the group.
func checkBeat(cl Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*kerr.Error, string) {
	blank := func(s *string) bool { return s != nil && *s == "" }
	names := append([]string{req.Group, req.MemberID, cl.ID}, req.SubscribedTopicNames...)
	for _, s := range []*string{req.InstanceID, req.RackID, req.SubscribedTopicRegex} {
		if s != nil {
			names = append(names, *s)
		}
	}
	switch {
	case req.MemberID == "" && (req.Version >= 1 || req.MemberEpoch > 0 || req.MemberEpoch == leaving):
		return kerr.InvalidRequest, "MemberId can't be empty."
	case req.Group == "":
		return kerr.InvalidRequest, "GroupId can't be empty."
	case blank(req.InstanceID):
		return kerr.InvalidRequest, "InstanceId can't be empty."
	case blank(req.RackID):
		return kerr.InvalidRequest, "RackId can't be empty."
	case req.MemberEpoch < leavingAgain:
		return kerr.InvalidRequest, "MemberEpoch is invalid."
	case req.MemberEpoch == leavingAgain && req.InstanceID == nil:
		return kerr.InvalidRequest, "InstanceId can't be null."
	case req.MemberEpoch == joining && req.RebalanceTimeoutMillis < 0:
		return kerr.InvalidRequest, "RebalanceTimeoutMs must be provided in first request."
	case req.MemberEpoch == joining && (req.Topics == nil || len(req.Topics) > 0):
		return kerr.InvalidRequest, "TopicPartitions must be empty when (re-)joining."
	case req.MemberEpoch == joining && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return kerr.InvalidRequest, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
	case req.ServerAssignor != nil && !slices.Contains(assignorNames, *req.ServerAssignor):
		return kerr.UnsupportedAssignor, fmt.Sprintf("ServerAssignor %s is not supported. Supported assignors: %s.", *req.ServerAssignor, strings.Join(assignorNames, ", "))
	case tooLong(names...):
		return kerr.InvalidRequest, fmt.Sprintf("A name is longer than %d bytes.", maxName)
	}
	return nil, ""
}

// ConsumerGroupDescribe carries out a ConsumerGroupDescribe request.
func (c *Coordinator) ConsumerGroupDescribe(req *kmsg.ConsumerGroupDescribeRequest, done func(*kmsg.ConsumerGroupDescribeResponse, error)) {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	var wait waits
	for _, name := range req.Groups {
		rg := kmsg.NewConsumerGroupDescribeResponseGroup()
		rg.Group = name
		missing := "Group %s not found."
		switch {
		case name == "":
			rg.ErrorCode = kerr.InvalidGroupID.Code
			resp.Groups = append(resp.Groups, rg)
			continue
		}
		durable := wait.add()
		found, err := c.with(name, false, func(s *slot, e *env) {
			if s.g.consumer == nil {
				missing = "Group %s is not a consumer group."
			} else {
				missing = ""
				c.describeConsumers(&rg, s.g, req.Version)
			}
			c.later(s, durable)
		})
		if err != nil || !found {
			durable(err)
		}
		if missing != "" {
			rg.ErrorCode = kerr.GroupIDNotFound.Code
			rg.ErrorMessage = kmsg.StringPtr(fmt.Sprintf(missing, name))
		} else if req.IncludeAuthorizedOperations {
			rg.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, rg)
	}
	wait.then(func(err error) { done(resp, err) })
}

func (c *Coordinator) describeConsumers(rg *kmsg.ConsumerGroupDescribeResponseGroup, g *group, version int16) {
	s := g.consumer
	rg.State, rg.Epoch, rg.AssignmentEpoch, rg.AssignorName = string(s.state()), s.epoch, s.target, s.preferred()
	for _, m := range s.sorted() {
		rm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		rm.MemberID, rm.MemberEpoch, rm.ClientID, rm.ClientHost = m.id, m.epoch, m.client.ID, m.client.Host
		rm.SubscribedTopics = m.names
		if m.instance != "" {
			rm.InstanceID = &m.instance
		}
		if m.rack != "" {
			rm.RackID = &m.rack
		}
		rm.SubscribedTopicRegex = &m.regex
		has := sortedTPs(append(bare(m.assigned), bare(m.revoking)...))
		rm.Assignment.TopicPartitions = c.describeTopics(has)
		rm.TargetAssignment.TopicPartitions = c.describeTopics(s.targets[m.id])
		if version >= 1 {
			rm.MemberType = 1
			if m.classic != nil {
				rm.MemberType = 0
			}
		}
		rg.Members = append(rg.Members, rm)
	}
}

// describeTopics names partitions; those of topics that are gone are left out.
func (c *Coordinator) describeTopics(ps []tp) []kmsg.AssignmentTopicPartition {
	var ts []kmsg.AssignmentTopicPartition
	for i := 0; i < len(ps); {
		t := kmsg.NewAssignmentTopicPartition()
		id := ps[i].topic
		for ; i < len(ps) && ps[i].topic == id; i++ {
			t.Partitions = append(t.Partitions, ps[i].partition)
		}
		if name, ok := c.topics.TopicByID(id); ok {
			t.TopicID, t.Topic = id, name
			ts = append(ts, t)
		}
	}
	return ts
}
