package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
)

// Metadata, key 3, versions 0 to 13. 1 made null mean all topics and empty none, 4 lets the client
// forbid auto-creation, 5 added offline replicas, 7 leader epochs, 9 flexible encoding, 10 topic ids,
// 13 an error for the whole answer. Left out: authorized operations (there are no ACLs).

func (s *Server) metadata(c *call, req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = s.opt.NodeID, c.conn.at.Host, c.conn.at.Port
	resp.Brokers = append(resp.Brokers, b)
	resp.ClusterID = kmsg.StringPtr(s.cat.ClusterID())
	resp.ControllerID = s.opt.NodeID
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		for _, t := range s.cat.Topics() {
			resp.Topics = append(resp.Topics, s.describe(t))
		}
		return resp
	}
	create := (req.Version < 4 || req.AllowAutoTopicCreation) && !s.opt.NoAutoCreate
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		resp.Topics = append(resp.Topics, s.lookUp(&req.Topics[i], create))
	}
	return resp
}

func (s *Server) lookUp(q *kmsg.MetadataRequestTopic, create bool) kmsg.MetadataResponseTopic {
	fail := func(code int16) kmsg.MetadataResponseTopic {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = q.Topic, q.TopicID, code
		return t
	}
	if q.Topic == nil {
		if t := s.cat.TopicByID(q.TopicID); t != nil {
			return s.describe(t)
		}
		return fail(kerr.UnknownTopicID.Code)
	}
	t := s.cat.Topic(*q.Topic)
	if t == nil && create {
		var err error
		if t, err = s.autoCreate(*q.Topic); err != nil {
			return fail(codeOf(err))
		}
	}
	if t == nil {
		return fail(kerr.UnknownTopicOrPartition.Code)
	}
	return s.describe(t)
}

// autoCreate makes a topic because a client asked for it. Somebody else may be quicker.
func (s *Server) autoCreate(name string) (*catalog.Topic, error) {
	spec := catalog.Spec{Name: name, Partitions: s.opt.Partitions}
	if catalog.IsInternal(name) {
		spec.Partitions, spec.Configs = 1, internalConfigs()
	}
	t, err := s.cat.Create(spec)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		if t := s.cat.Topic(name); t != nil {
			return t, nil
		}
	}
	return t, err
}

func internalConfigs() map[string]string {
	return map[string]string{"cleanup.policy": "compact", "compression.type": "producer"}
}

func (s *Server) describe(t *catalog.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, catalog.IsInternal(t.Name)
	node := []int32{s.opt.NodeID}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions())
	for i := range out.Partitions {
		p := &out.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), s.opt.NodeID, t.Partition(int32(i)).LeaderEpoch()
		p.Replicas, p.ISR, p.OfflineReplicas = node, node, []int32{}
	}
	return out
}
