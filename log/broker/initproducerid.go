package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, key 22, versions 0 to 5. 2 brought flexible encoding, 3 the id and epoch that a
// producer has. A producer without transactional id always gets a new id with epoch 0, whatever it had.
// Transactional ids are refused: there is no transaction coordinator.

func (s *Server) initProducerID(_ *call, req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return resp
	}
	id, err := s.cat.ProducerID()
	if err != nil {
		resp.ErrorCode = codeOf(err)
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}
