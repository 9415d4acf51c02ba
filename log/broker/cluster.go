package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
)

// DescribeCluster, key 60, versions 0 to 2: 1 added the kind of endpoint, 2 fenced brokers.
// DescribeLogDirs, key 35, versions 1 to 5: 2 brought flexible encoding, 4 the disk's size, 5 cordoned
// directories, which there are none of.
// ListPartitionReassignments, key 46, version 0: nothing is ever reassigned.
// DescribeTopicPartitions, key 75, version 0: Metadata in pages.

func (s *Server) describeCluster(c *call, req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = req.EndpointType
	if req.Version >= 1 && req.EndpointType != 1 {
		resp.ErrorCode, resp.ErrorMessage = refusal(&catalog.Error{Code: kerr.MismatchedEndpointType, Reason: "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"})
		return resp
	}
	resp.ClusterID, resp.ControllerID = s.cat.ClusterID(), s.opt.NodeID
	b := kmsg.NewDescribeClusterResponseBroker()
	b.NodeID, b.Host, b.Port = s.opt.NodeID, c.conn.at.Host, c.conn.at.Port
	resp.Brokers = append(resp.Brokers, b)
	return resp
}

func (s *Server) describeLogDirs(_ *call, req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = s.opt.DataDir
	h := s.st.Health()
	dir.TotalBytes, dir.UsableBytes = h.Space.Total, h.Space.Free
	if h.Offline != nil {
		dir.ErrorCode = kerr.KafkaStorageError.Code
	}
	wants := map[string][]int32{}
	for _, t := range req.Topics {
		wants[t.Topic] = append(wants[t.Topic], t.Partitions...)
	}
	for _, t := range s.cat.Topics() {
		partitions, named := wants[t.Name]
		if req.Topics != nil && !named {
			continue
		}
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = t.Name
		for n := range t.Partitions() {
			if req.Topics != nil && !slices.Contains(partitions, n) {
				continue
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size = n, t.Partition(n).Size()
			out.Partitions = append(out.Partitions, p)
		}
		dir.Topics = append(dir.Topics, out)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

func (s *Server) listReassignments(*call, *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	return kmsg.NewPtrListPartitionReassignmentsResponse()
}

const describePage = 2000 // partitions in one answer

func (s *Server) describeTopicPartitions(_ *call, req *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	var names []string
	if len(req.Topics) == 0 {
		for _, t := range s.cat.Topics() {
			names = append(names, t.Name)
		}
	} else {
		for _, t := range req.Topics {
			names = append(names, t.Topic)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	left := int32(describePage)
	if req.ResponsePartitionLimit > 0 {
		left = min(left, req.ResponsePartitionLimit)
	}
	for _, name := range names {
		from := int32(0)
		if req.Cursor != nil {
			if name < req.Cursor.Topic {
				continue
			}
			if name == req.Cursor.Topic {
				from = max(0, req.Cursor.Partition)
			}
		}
		t := s.cat.Topic(name)
		if t != nil && (left == 0 || from > t.Partitions()) {
			if left == 0 {
				resp.NextCursor = cursor(name, from)
				return resp
			}
			from = t.Partitions()
		}
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic = &name
		if t == nil {
			out.ErrorCode = kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, out)
			continue
		}
		out.TopicID, out.IsInternal = t.ID, catalog.IsInternal(name)
		to := min(t.Partitions(), from+left)
		for n := from; n < to; n++ {
			p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
			node := []int32{s.opt.NodeID}
			p.Partition, p.LeaderID, p.LeaderEpoch = n, s.opt.NodeID, t.Partition(n).LeaderEpoch()
			p.Replicas, p.ISR = node, node
			p.EligibleLeaderReplicas, p.LastKnownELR, p.OfflineReplicas = []int32{}, []int32{}, []int32{}
			out.Partitions = append(out.Partitions, p)
		}
		left -= to - from
		resp.Topics = append(resp.Topics, out)
		if to < t.Partitions() {
			resp.NextCursor = cursor(name, to)
			return resp
		}
	}
	return resp
}

func cursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}
