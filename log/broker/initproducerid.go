package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, key 22, versions 0 to 5. A producer without transactional id always gets a new id with epoch 0, whatever it had.
// Those with one are package txn's.

func (s *Server) initProducerID(c *call) {
	req := c.req.(*kmsg.InitProducerIDRequest)
	if req.TransactionalID != nil && s.opt.Txns != nil {
		s.opt.Txns.InitProducerID(req, c.conn.at.InMemory, answer[*kmsg.InitProducerIDResponse](c))
		return
	}
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		c.reply(resp)
		return
	}
	id, err := s.cat.ProducerID()
	if resp.ErrorCode = codeOf(err); err == nil {
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	c.reply(resp)
}
