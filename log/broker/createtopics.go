package broker

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
)

// CreateTopics, key 19, versions 2 to 7. 4 made -1 mean the defaults, 5 added flexible encoding and the
// topic's configuration in the answer, 7 topic ids. One node holds one replica: a replication factor
// other than -1 and 1 is refused, as is an assignment to other nodes.

func (s *Server) createTopics(_ *call, req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := kmsg.NewPtrCreateTopicsResponse()
	times := map[string]int{}
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		q := &req.Topics[i]
		if times[q.Topic] == 0 {
			continue // answered already
		}
		var r kmsg.CreateTopicsResponseTopic
		if times[q.Topic] > 1 {
			r = kmsg.NewCreateTopicsResponseTopic()
			r.Topic = q.Topic
			r.ErrorCode, r.ErrorMessage = refusal(&catalog.Error{Code: kerr.InvalidRequest, Reason: "Duplicate topic name."})
			times[q.Topic] = 0
		} else {
			r = s.createTopic(q, req.ValidateOnly)
		}
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

func (s *Server) createTopic(q *kmsg.CreateTopicsRequestTopic, validateOnly bool) kmsg.CreateTopicsResponseTopic {
	r := kmsg.NewCreateTopicsResponseTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = q.Topic, -1, -1
	spec, err := s.topicSpec(q)
	if err == nil {
		err = s.cat.Check(spec)
	}
	if err == nil && !validateOnly {
		var t *catalog.Topic
		if t, err = s.cat.Create(spec); err == nil {
			r.TopicID = t.ID
		}
	}
	if err != nil {
		r.ErrorCode, r.ErrorMessage = refusal(err)
		return r
	}
	r.NumPartitions, r.ReplicationFactor = spec.Partitions, 1
	for i := range catalog.Configs {
		d := &catalog.Configs[i]
		value, source := s.cat.Config(spec.Configs, d)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = d.Name, &value, int8(source)
		r.Configs = append(r.Configs, c)
	}
	return r
}

func (s *Server) topicSpec(q *kmsg.CreateTopicsRequestTopic) (catalog.Spec, error) {
	spec := catalog.Spec{Name: q.Topic, Partitions: q.NumPartitions}
	if len(q.ReplicaAssignment) > 0 {
		if q.NumPartitions != -1 || q.ReplicationFactor != -1 {
			return spec, &catalog.Error{Code: kerr.InvalidRequest, Reason: "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."}
		}
		if err := s.checkAssignment(q.ReplicaAssignment); err != nil {
			return spec, err
		}
		spec.Partitions = int32(len(q.ReplicaAssignment))
	} else {
		if spec.Partitions == -1 {
			spec.Partitions = s.opt.Partitions
		}
		if q.ReplicationFactor != -1 && q.ReplicationFactor != 1 {
			return spec, &catalog.Error{Code: kerr.InvalidReplicationFactor, Reason: "Replication factor must be 1, there is one broker; or -1 for the default."}
		}
	}
	for _, c := range q.Configs {
		if c.Value == nil {
			return spec, &catalog.Error{Code: kerr.InvalidConfig, Reason: "Null value not supported for topic configs: " + c.Name}
		}
		if spec.Configs == nil {
			spec.Configs = map[string]string{}
		}
		spec.Configs[c.Name] = *c.Value
	}
	return spec, nil
}

func (s *Server) checkAssignment(as []kmsg.CreateTopicsRequestTopicReplicaAssignment) error {
	as = slices.Clone(as)
	slices.SortFunc(as, func(a, b kmsg.CreateTopicsRequestTopicReplicaAssignment) int {
		return cmp.Compare(a.Partition, b.Partition)
	})
	for i, a := range as {
		if a.Partition != int32(i) {
			return &catalog.Error{Code: kerr.InvalidReplicaAssignment, Reason: "partitions should be a consecutive 0-based integer sequence"}
		}
		if err := s.checkReplicas(a.Replicas); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) checkReplicas(nodes []int32) error {
	if len(nodes) != 1 || nodes[0] != s.opt.NodeID {
		return &catalog.Error{Code: kerr.InvalidReplicaAssignment, Reason: "there is one broker, so every partition has one replica, on it"}
	}
	return nil
}
