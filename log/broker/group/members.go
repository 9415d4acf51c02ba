package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests of members. JoinGroup 0–9: 1 added the rebalance timeout, 4 MEMBER_ID_REQUIRED, 5 the instance id, 7 the
// protocol type in the answer, 9 SkipAssignment. SyncGroup 0–5: 3 the instance id, 5 the protocol. Heartbeat 0–4: 3 the
// instance id. LeaveGroup 0–5: 3 several members with instance ids, 5 a reason, which is not kept.

// JoinGroup carries out a JoinGroup request; the answer may take as long as a rebalance does.
func (c *Coordinator) JoinGroup(cl Client, req *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse, error)) {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.MemberID = req.MemberID
	instance, code := instanceID(req.InstanceID)
	names := []string{req.Group, req.MemberID, instance, req.ProtocolType, cl.ID}
	for _, p := range req.Protocols {
		names = append(names, p.Name)
	}
	switch {
	case req.Group == "":
		code = kerr.InvalidGroupID.Code
	case code == 0 && tooLong(names...):
		code = kerr.InvalidRequest.Code
	}
	if code != 0 {
		resp.ErrorCode = code
		done(resp, nil)
		return
	}
	in := joinIn{
		id: req.MemberID, instance: instance, client: cl,
		session:      time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		rebalance:    time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		protocolType: req.ProtocolType,
		needsID:      req.Version >= 4,
		canSkip:      req.Version >= 9,
	}
	if req.Version < 1 || in.rebalance < 0 {
		in.rebalance = in.session
	}
	for _, p := range req.Protocols {
		in.protocols = append(in.protocols, protocol{p.Name, slices.Clone(p.Metadata)})
	}
	found, err := c.with(req.Group, req.MemberID == "", func(s *slot, e *env) {
		s.g.join(e, in, func(out joinOut) {
			c.later(s, func(err error) {
				out.fill(resp)
				done(resp, err)
			})
		})
	})
	if err != nil || !found {
		resp.ErrorCode = kerr.UnknownMemberID.Code
		done(resp, err)
	}
}

func (out *joinOut) fill(resp *kmsg.JoinGroupResponse) {
	resp.ErrorCode, resp.Generation, resp.MemberID = out.err, out.generation, out.id
	resp.LeaderID, resp.SkipAssignment = out.leader, out.skip
	if out.err == 0 {
		resp.ProtocolType, resp.Protocol = &out.protocolType, &out.protocol
	} else if resp.Version < 7 {
		resp.Protocol = new(string) // not nullable yet
	}
	for _, m := range out.members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.ProtocolMetadata = m.id, m.metadata
		if m.instance != "" {
			rm.InstanceID = &m.instance
		}
		resp.Members = append(resp.Members, rm)
	}
}

// SyncGroup carries out a SyncGroup request; the answer comes when the leader's assignment is durable.
func (c *Coordinator) SyncGroup(req *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse, error)) {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	instance, code := instanceID(req.InstanceID)
	if req.Group == "" {
		code = kerr.InvalidGroupID.Code
	}
	if code != 0 {
		resp.ErrorCode = code
		done(resp, nil)
		return
	}
	in := syncIn{
		id: req.MemberID, instance: instance, generation: req.Generation,
		protocolType: req.ProtocolType, protocol: req.Protocol, assignments: map[string][]byte{},
	}
	for _, a := range req.GroupAssignment {
		in.assignments[a.MemberID] = slices.Clone(a.MemberAssignment)
	}
	found, err := c.with(req.Group, false, func(s *slot, e *env) {
		s.g.sync(e, in, func(out syncOut) {
			c.later(s, func(err error) {
				resp.ErrorCode, resp.MemberAssignment = out.err, out.assignment
				if out.err == 0 {
					resp.ProtocolType, resp.Protocol = &out.protocolType, &out.protocol
				}
				done(resp, err)
			})
		})
	})
	if err != nil || !found {
		resp.ErrorCode = kerr.UnknownMemberID.Code
		done(resp, err)
	}
}

// Heartbeat carries out a Heartbeat request. It tells nothing that the log holds, so it waits for nothing.
func (c *Coordinator) Heartbeat(req *kmsg.HeartbeatRequest) (*kmsg.HeartbeatResponse, error) {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	instance, code := instanceID(req.InstanceID)
	if req.Group == "" {
		code = kerr.InvalidGroupID.Code
	}
	if resp.ErrorCode = code; code != 0 {
		return resp, nil
	}
	found, err := c.with(req.Group, false, func(s *slot, e *env) {
		resp.ErrorCode = s.g.heartbeat(e, req.MemberID, instance, req.Generation)
	})
	if !found {
		resp.ErrorCode = kerr.UnknownMemberID.Code
	}
	return resp, err
}

// LeaveGroup carries out a LeaveGroup request.
func (c *Coordinator) LeaveGroup(req *kmsg.LeaveGroupRequest, done func(*kmsg.LeaveGroupResponse, error)) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		done(resp, nil)
		return
	}
	var who []leaver
	if req.Version < 3 {
		who = []leaver{{id: req.MemberID}}
	}
	for _, m := range req.Members {
		w := leaver{id: m.MemberID}
		if m.InstanceID != nil {
			w.instance = *m.InstanceID
		}
		who = append(who, w)
	}
	fill := func(codes []int16) {
		if req.Version < 3 {
			resp.ErrorCode = codes[0]
			return
		}
		for i, m := range req.Members {
			rm := kmsg.NewLeaveGroupResponseMember()
			rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, codes[i]
			resp.Members = append(resp.Members, rm)
		}
	}
	found, err := c.with(req.Group, false, func(s *slot, e *env) {
		fill(s.g.leave(e, who))
		c.later(s, func(err error) { done(resp, err) })
	})
	if err != nil || !found {
		codes := make([]int16, len(who))
		for i := range codes {
			codes[i] = kerr.UnknownMemberID.Code
		}
		fill(codes)
		done(resp, err)
	}
}

// instanceID reads the id of a static member. An empty one would make every client that sends it the same member.
func instanceID(p *string) (string, int16) {
	switch {
	case p == nil:
		return "", 0
	case *p == "" || tooLong(*p):
		return "", kerr.InvalidRequest.Code
	}
	return *p, 0
}

func tooLong(names ...string) bool {
	return slices.ContainsFunc(names, func(s string) bool { return len(s) > maxName })
}
