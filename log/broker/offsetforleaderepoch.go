package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/store"
)

// OffsetForLeaderEpoch, key 23, versions 2 to 4. 3 added the replica id, 4 flexible encoding. A client
// asks where an epoch ended to learn whether the log was cut below what it has read.

func (s *Server) offsetForLeaderEpoch(_ *call, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		topic := s.cat.Topic(t.Topic)
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		for _, q := range t.Partitions {
			r := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			r.Partition, r.LeaderEpoch, r.EndOffset = q.Partition, -1, -1
			var p *store.Partition
			if topic != nil {
				p = topic.Partition(q.Partition)
			}
			if p == nil {
				r.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else if r.ErrorCode = checkEpoch(p, q.CurrentLeaderEpoch); r.ErrorCode == 0 {
				r.LeaderEpoch, r.EndOffset = p.EndOffsetForEpoch(q.LeaderEpoch)
			}
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
