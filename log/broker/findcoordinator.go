package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator, key 10, versions 0 to 6. 1 added key types, 3 flexible encoding, 4 several keys, 5
// and 6 error codes that do not occur here. One node coordinates everything: groups (type 0) and
// transactions (type 1). Other types are refused.

func (s *Server) findCoordinator(c *call, req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	find := func(key string) kmsg.FindCoordinatorResponseCoordinator {
		r := kmsg.NewFindCoordinatorResponseCoordinator()
		r.Key, r.NodeID, r.Host, r.Port = key, s.opt.NodeID, c.conn.at.Host, c.conn.at.Port
		if req.CoordinatorType != 0 && req.CoordinatorType != 1 {
			r.NodeID, r.Host, r.Port = -1, "", -1
			r.ErrorCode, r.ErrorMessage = refusal(kerr.InvalidRequest)
		}
		return r
	}
	if req.Version >= 4 {
		for _, key := range req.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, find(key))
		}
		return resp
	}
	r := find(req.CoordinatorKey)
	resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = r.ErrorCode, r.ErrorMessage, r.NodeID, r.Host, r.Port
	return resp
}
