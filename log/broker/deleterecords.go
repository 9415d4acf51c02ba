package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
)

// DeleteRecords, key 21, versions 0 to 2. 2 brought flexible encoding. Offset -1 means the high
// watermark.

func (s *Server) deleteRecords(_ *call, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	for _, t := range req.Topics {
		topic := s.cat.Topic(t.Topic)
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = t.Topic
		for _, q := range t.Partitions {
			r := kmsg.NewDeleteRecordsResponseTopicPartition()
			r.Partition, r.LowWatermark = q.Partition, -1
			var p *store.Partition
			if topic != nil {
				p = topic.Partition(q.Partition)
			}
			switch {
			case p == nil:
				r.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case catalog.IsInternal(t.Topic):
				r.ErrorCode = kerr.InvalidTopicException.Code
			case q.Offset < -1:
				r.ErrorCode = kerr.OffsetOutOfRange.Code
			default:
				low, err := p.DeleteRecordsTo(q.Offset)
				if err != nil {
					r.ErrorCode = codeOf(err)
				} else {
					r.LowWatermark = low
				}
			}
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
