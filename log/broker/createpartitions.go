package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
)

// CreatePartitions, key 37, versions 0 to 3. 2 brought flexible encoding.

func (s *Server) createPartitions(_ *call, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	for i := range req.Topics {
		q := &req.Topics[i]
		r := kmsg.NewCreatePartitionsResponseTopic()
		r.Topic = q.Topic
		r.ErrorCode, r.ErrorMessage = refusal(s.addPartitions(q, req.ValidateOnly))
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

func (s *Server) addPartitions(q *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	if catalog.IsInternal(q.Topic) {
		return &catalog.Error{Code: kerr.InvalidPartitions, Reason: "topic " + q.Topic + " has one partition"}
	}
	if q.Assignment != nil {
		if t := s.cat.Topic(q.Topic); t != nil && len(q.Assignment) != int(q.Count-t.Partitions()) {
			return &catalog.Error{Code: kerr.InvalidReplicaAssignment, Reason: fmt.Sprintf("Increasing the number of partitions by %d but %d assignments provided.", q.Count-t.Partitions(), len(q.Assignment))}
		}
		for _, a := range q.Assignment {
			if err := s.checkReplicas(a.Replicas); err != nil {
				return err
			}
		}
	}
	return s.cat.AddPartitions(q.Topic, q.Count, validateOnly)
}
