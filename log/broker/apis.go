package broker

import "millrace/log/internal/wire"

// register fills the table of handlers. What has no line here is neither announced nor served; the
// versions stand in wire's table. A handler runs on the reader of its connection and ends its call
// at once or later (see call).
func (s *Server) register() {
	for key, h := range map[int16]handler{
		wire.ApiVersions:          inline(s.apiVersions),
		wire.Metadata:             inTurn(s.metadata),
		wire.Produce:              s.produce,
		wire.Fetch:                s.fetch,
		wire.ListOffsets:          inline(s.listOffsets),
		wire.OffsetForLeaderEpoch: inline(s.offsetForLeaderEpoch),
		wire.FindCoordinator:      inline(s.findCoordinator),
		wire.InitProducerID:       s.initProducerID,
		wire.CreateTopics:         inline(s.createTopics),
		wire.DeleteTopics:         inline(s.deleteTopics),
		wire.CreatePartitions:     inline(s.createPartitions),
		wire.DescribeConfigs:      inTurn(s.describeConfigs),
		wire.IncrementalAlter:     inline(s.incrementalAlterConfigs),
		wire.AlterConfigs:         inline(s.alterConfigs),
		wire.DeleteRecords:        inline(s.deleteRecords),
		wire.DescribeLogDirs:      inTurn(s.describeLogDirs),
		wire.DescribeCluster:      inline(s.describeCluster),
		wire.ListReassignments:    inline(s.listReassignments),
		wire.DescribeTopicParts:   inTurn(s.describeTopicPartitions),
		wire.SaslHandshake:        inline(s.saslHandshake),
		wire.SaslAuthenticate:     inline(s.saslAuthenticate),
		wire.DescribeQuotas:       inline(s.describeQuotas),
		wire.DescribeScram:        inline(s.describeScram),
		wire.AlterScram:           inline(s.alterScram),
	} {
		s.handlers[key] = h
	}
	for key, h := range s.groupHandlers() {
		s.handlers[key] = h
	}
	for key, h := range s.txnHandlers() {
		s.handlers[key] = h
	}
}
