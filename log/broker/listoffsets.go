package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/store"
)

// ListOffsets, key 2, versions 1 to 11. 2 added isolation, 4 leader epochs, 6 flexible encoding, 7 the
// record with the largest timestamp, 8 the earliest local offset, 9 and 11 offsets of remote storage,
// which there is none of, 10 a timeout.

const (
	latestOffset     = -1
	earliestOffset   = -2
	maxTimestamp     = -3
	earliestLocal    = -4
	latestTiered     = -5
	earliestToUpload = -6
)

func (s *Server) listOffsets(_ *call, req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	iso := store.ReadUncommitted
	if req.IsolationLevel == 1 {
		iso = store.ReadCommitted
	}
	for _, t := range req.Topics {
		topic := s.cat.Topic(t.Topic)
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for i := range t.Partitions {
			q := &t.Partitions[i]
			r := kmsg.NewListOffsetsResponseTopicPartition()
			r.Partition, r.Timestamp, r.Offset, r.LeaderEpoch = q.Partition, -1, -1, -1
			var p *store.Partition
			if topic != nil {
				p = topic.Partition(q.Partition)
			}
			if p == nil {
				r.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else if r.ErrorCode = checkEpoch(p, q.CurrentLeaderEpoch); r.ErrorCode == 0 {
				if err := listOffset(p, q.Timestamp, iso, &r); err != nil {
					r.ErrorCode = codeOf(err)
				}
			}
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func listOffset(p *store.Partition, timestamp int64, iso store.Isolation, r *kmsg.ListOffsetsResponseTopicPartition) error {
	var at store.TimeOffset
	var ok bool
	var err error
	switch {
	case timestamp == latestOffset:
		r.Offset, r.LeaderEpoch = p.HighWatermark(), p.LeaderEpoch()
		if iso == store.ReadCommitted {
			r.Offset = p.LastStable()
		}
		return nil
	case timestamp == earliestOffset || timestamp == earliestLocal:
		r.Offset, r.LeaderEpoch = p.LogStart(), p.LeaderEpoch()
		return nil
	case timestamp == latestTiered || timestamp == earliestToUpload:
		return nil
	case timestamp == maxTimestamp:
		at, ok, err = p.MaxTimestamp(iso)
	case timestamp >= 0:
		at, ok, err = p.OffsetForTime(timestamp, iso)
	default:
		return kerr.InvalidRequest
	}
	if ok && err == nil {
		r.Offset, r.Timestamp, r.LeaderEpoch = at.Offset, at.Timestamp, at.LeaderEpoch
	}
	return err
}
