package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests of administrators. DescribeGroups 0–6: 3 the operations that are allowed, 4 instance ids, 6 an error for a
// group that is not there. ListGroups 0–5: 4 states, 5 types. DeleteGroups 0–2.

// groupOperations are the bits of READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: without access control, whoever
// asks may do all that can be done with a group.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// DescribeGroups carries out a DescribeGroups request.
func (c *Coordinator) DescribeGroups(req *kmsg.DescribeGroupsRequest) (*kmsg.DescribeGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range req.Groups {
		rg := kmsg.NewDescribeGroupsResponseGroup()
		rg.Group = name
		other := false
		found, err := c.with(name, false, func(s *slot, e *env) {
			if s.g.consumer != nil {
				other = true
				return
			}
			d := s.g.describe()
			rg.State, rg.ProtocolType, rg.Protocol = string(d.state), d.protocolType, d.protocol
			for _, m := range d.members {
				rm := kmsg.NewDescribeGroupsResponseGroupMember()
				rm.MemberID, rm.ClientID, rm.ClientHost = m.id, m.client.ID, m.client.Host
				rm.ProtocolMetadata, rm.MemberAssignment = m.metadata, m.assigned
				if m.instance != "" {
					rm.InstanceID = &m.instance
				}
				rg.Members = append(rg.Members, rm)
			}
		})
		if err != nil {
			return nil, err
		}
		if !found || other {
			rg.State = string(dead)
			if req.Version >= 6 {
				rg.ErrorCode = kerr.GroupIDNotFound.Code
				rg.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("Group %s not found.", name))
				if other {
					rg.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("Group %s is not a classic group.", name))
				}
			}
		}
		if req.IncludeAuthorizedOperations && rg.ErrorCode == 0 {
			rg.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp, nil
}

// ListGroups carries out a ListGroups request.
func (c *Coordinator) ListGroups(req *kmsg.ListGroupsRequest) (*kmsg.ListGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	among := func(filter []string, s string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, s) })
	}
	for _, name := range c.names() {
		_, err := c.with(name, false, func(s *slot, e *env) {
			kind := "classic"
			if s.g.consumer != nil {
				kind = "consumer"
			}
			if !among(req.StatesFilter, string(s.g.now())) || !among(req.TypesFilter, kind) {
				return
			}
			rg := kmsg.NewListGroupsResponseGroup()
			rg.Group, rg.ProtocolType, rg.GroupState, rg.GroupType = name, s.g.protocolType, string(s.g.now()), kind
			resp.Groups = append(resp.Groups, rg)
		})
		if err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// DeleteGroups carries out a DeleteGroups request.
func (c *Coordinator) DeleteGroups(req *kmsg.DeleteGroupsRequest, done func(*kmsg.DeleteGroupsResponse, error)) {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	var wait waits
	for _, name := range req.Groups {
		rg := kmsg.NewDeleteGroupsResponseGroup()
		rg.Group = name
		durable := wait.add()
		found, err := c.with(name, false, func(s *slot, e *env) {
			rg.ErrorCode = s.g.delete(e)
			c.later(s, durable)
		})
		if err != nil || !found {
			rg.ErrorCode = kerr.GroupIDNotFound.Code
			durable(err)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	wait.then(func(err error) { done(resp, err) })
}
