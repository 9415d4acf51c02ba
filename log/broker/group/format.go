package group

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
)

// Records of the topic __consumer_offsets, in Kafka's schemas (its OffsetCommitKey, OffsetCommitValue, GroupMetadataKey and
// GroupMetadataValue). Integers are big-endian; a string is an i16 length and its bytes; "bytes" have an i32 length; nullable
// ones have length −1. A null value is a tombstone. All of it is fixed for ever.
//
//	offset key      i16 1 · string group · string topic · i32 partition
//	offset value    i16 3 · i64 offset · i32 leader epoch (−1 unknown) · string metadata · i64 commit time (ms)
//	                i16 4 · the same, the string with a varint length + 1, then tags: 0 = the topic's id (16 bytes)
//	                i16 1 · i64 offset · string metadata · i64 commit time · i64 expire time (ms); when a client sets one
//	group key       i16 2 · string group
//	group value     i16 3 · string protocol type · i32 generation · nullable string protocol · nullable string leader ·
//	                i64 state time (ms) · i32 count, members: string id · nullable string instance id · string client id ·
//	                string host · i32 rebalance timeout (ms) · i32 session timeout (ms) · bytes metadata · bytes assignment
//
// Read are all versions that Kafka has written: offset keys 0 and 1, offset values 0 to 4, group values 0 to 4. Keys of other
// versions are left alone; those of consumer groups are in consumerformat.go.
const (
	offsetKeyVersion   = 1
	groupKeyVersion    = 2
	offsetValueVersion = 3
	offsetValueTopicID = 4
	offsetValueExpire  = 1
	groupValueVersion  = 3
)

// maxName is the longest group, member, client and protocol name that we take. Newer requests could carry longer ones than
// the i16 lengths of the records hold; a member id is a name with 37 more characters.
const maxName = 32_000

// record is one key and value; a nil value is a tombstone.
type record struct{ key, value []byte }

func offsetKey(group string, p partition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: p.topic, Partition: p.partition}
	return k.AppendTo(nil)
}

func offsetRecord(group string, p partition, o offset) record {
	v := kmsg.OffsetCommitValue{
		Version: offsetValueVersion, Offset: o.offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata,
		CommitTimestamp: o.committed, TopicID: o.topicID,
	}
	switch {
	case o.expire >= 0:
		v.Version, v.ExpireTimestamp = offsetValueExpire, o.expire
	case o.topicID != [16]byte{}:
		v.Version = offsetValueTopicID
	}
	return record{offsetKey(group, p), v.AppendTo(nil)}
}

func offsetTombstone(group string, p partition) record { return record{key: offsetKey(group, p)} }

func parseOffset(b []byte) (offset, error) {
	var v kmsg.OffsetCommitValue
	if len(b) < 2 {
		return offset{}, fmt.Errorf("offset value of %d bytes", len(b))
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 || version > offsetValueTopicID {
		return offset{}, fmt.Errorf("offset value version %d is not known", version)
	}
	if err := v.ReadFrom(b); err != nil {
		return offset{}, fmt.Errorf("offset value: %w", err)
	}
	o := offset{
		offset: v.Offset, leaderEpoch: -1, metadata: v.Metadata, committed: v.CommitTimestamp, expire: -1, topicID: v.TopicID,
	}
	if v.Version >= 3 {
		o.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == 1 {
		o.expire = v.ExpireTimestamp
	}
	return o, nil
}

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return k.AppendTo(nil)
}

// groupRecord is the group as it stands: type, generation, protocol and members with their assignments.
func groupRecord(g *group) record {
	v := kmsg.GroupMetadataValue{
		Version: groupValueVersion, ProtocolType: g.protocolType, Generation: g.generation,
		CurrentStateTimestamp: g.since.UnixMilli(),
	}
	if len(g.members) > 0 {
		v.Protocol, v.Leader = &g.protocol, &g.leader
	}
	for _, m := range g.members {
		vm := kmsg.GroupMetadataValueMember{
			MemberID: m.id, ClientID: m.client.ID, ClientHost: m.client.Host,
			RebalanceTimeoutMillis: int32(m.rebalance.Milliseconds()), SessionTimeoutMillis: int32(m.session.Milliseconds()),
			Subscription: m.metadata(g.protocol), Assignment: m.assigned,
		}
		if m.instance != "" {
			vm.InstanceID = &m.instance
		}
		v.Members = append(v.Members, vm)
	}
	return record{groupKey(g.name), v.AppendTo(nil)}
}

func groupTombstone(group string) record { return record{key: groupKey(group)} }

// parseGroup fills a group from its record. Members know only the protocol that was chosen; the others are learnt when they
// rejoin.
func parseGroup(name string, b []byte, now time.Time) (*group, error) {
	var v kmsg.GroupMetadataValue
	if len(b) < 2 {
		return nil, fmt.Errorf("group value of %d bytes", len(b))
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 || version > 4 {
		return nil, fmt.Errorf("group value version %d is not known", version)
	}
	if err := v.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("group value: %w", err)
	}
	g := newGroup(name, now)
	g.protocolType, g.generation = v.ProtocolType, v.Generation
	if v.Version >= 2 && v.CurrentStateTimestamp >= 0 {
		g.since = time.UnixMilli(v.CurrentStateTimestamp)
	}
	if len(v.Members) == 0 {
		return g, nil
	}
	if v.Protocol == nil || v.Leader == nil {
		return nil, fmt.Errorf("group value: %d members without protocol or leader", len(v.Members))
	}
	g.state, g.protocol, g.leader = stable, *v.Protocol, *v.Leader
	for _, vm := range v.Members {
		m := &member{
			id:       vm.MemberID,
			client:   Client{ID: vm.ClientID, Host: vm.ClientHost},
			session:  time.Duration(vm.SessionTimeoutMillis) * time.Millisecond,
			assigned: slices.Clone(vm.Assignment),
			synced:   true,
			protocols: []protocol{
				{name: *v.Protocol, metadata: slices.Clone(vm.Subscription)},
			},
		}
		m.rebalance = m.session
		if vm.RebalanceTimeoutMillis >= 0 {
			m.rebalance = time.Duration(vm.RebalanceTimeoutMillis) * time.Millisecond
		}
		if vm.InstanceID != nil {
			m.instance = *vm.InstanceID
		}
		m.touch(now)
		g.members = append(g.members, m)
	}
	return g, nil
}

// parseKey tells which record a key belongs to: an offset (with its partition), a group (empty topic), or neither.
func parseKey(b []byte) (group string, p partition, known bool, err error) {
	if len(b) < 2 {
		return "", p, false, fmt.Errorf("key of %d bytes", len(b))
	}
	switch version := int16(binary.BigEndian.Uint16(b)); version {
	case 0, offsetKeyVersion:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(b); err != nil {
			return "", p, false, fmt.Errorf("offset key: %w", err)
		}
		return k.Group, partition{k.Topic, k.Partition}, true, nil
	case groupKeyVersion:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(b); err != nil {
			return "", p, false, fmt.Errorf("group key: %w", err)
		}
		return k.Group, p, true, nil
	}
	return "", p, false, nil
}

const (
	maxBatchRecords = 1000
	maxBatchBytes   = 1 << 20
)

// batches packs records for one append. A record that is larger than a batch should be travels alone.
func batches(records []record, now time.Time) []batch.View {
	var views []batch.View
	var rs []batch.Record
	size := 0
	flush := func() {
		if len(rs) > 0 {
			views = append(views, batch.Build(batch.Options{}, rs...))
			rs, size = nil, 0
		}
	}
	for _, r := range records {
		n := len(r.key) + len(r.value)
		if len(rs) == maxBatchRecords || size+n > maxBatchBytes {
			flush()
		}
		rs = append(rs, batch.Record{Timestamp: now.UnixMilli(), Key: r.key, Value: r.value})
		size += n
	}
	flush()
	return views
}

// txnBatch packs records that belong to a producer's transaction: one batch, as producers' batches come alone.
func txnBatch(p batch.Producer, records []record, now time.Time) batch.View {
	rs := make([]batch.Record, len(records))
	for i, r := range records {
		rs[i] = batch.Record{Timestamp: now.UnixMilli(), Key: r.key, Value: r.value}
	}
	return batch.Build(batch.Options{Producer: &p, Transactional: true}, rs...)
}
