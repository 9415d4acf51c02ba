package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// API is one row of the version table: the versions we serve of one request kind, and from which
// version on its header and body are flexible (KIP-482).
type API struct {
	Key      int16
	Min, Max int16
	Flexible int16 // first flexible version; 32767 when none
}

// The request kinds that the broker knows by name, in the protocol's numbers.
const (
	Produce              int16 = 0
	Fetch                int16 = 1
	ListOffsets          int16 = 2
	Metadata             int16 = 3
	OffsetCommit         int16 = 8
	OffsetFetch          int16 = 9
	FindCoordinator      int16 = 10
	JoinGroup            int16 = 11
	Heartbeat            int16 = 12
	LeaveGroup           int16 = 13
	SyncGroup            int16 = 14
	DescribeGroups       int16 = 15
	ListGroups           int16 = 16
	SaslHandshake        int16 = 17
	ApiVersions          int16 = 18
	CreateTopics         int16 = 19
	DeleteTopics         int16 = 20
	DeleteRecords        int16 = 21
	InitProducerID       int16 = 22
	OffsetForLeaderEpoch int16 = 23
	AddPartitionsToTxn   int16 = 24
	AddOffsetsToTxn      int16 = 25
	EndTxn               int16 = 26
	WriteTxnMarkers      int16 = 27
	TxnOffsetCommit      int16 = 28
	DescribeConfigs      int16 = 32
	AlterConfigs         int16 = 33
	DescribeLogDirs      int16 = 35
	SaslAuthenticate     int16 = 36
	CreatePartitions     int16 = 37
	DeleteGroups         int16 = 42
	IncrementalAlter     int16 = 44
	ListReassignments    int16 = 46
	OffsetDelete         int16 = 47
	DescribeQuotas       int16 = 48
	DescribeScram        int16 = 50
	AlterScram           int16 = 51
	DescribeCluster      int16 = 60
	DescribeProducers    int16 = 61
	DescribeTransactions int16 = 65
	ListTransactions     int16 = 66
	GroupHeartbeat848    int16 = 68
	GroupDescribe848     int16 = 69
	DescribeTopicParts   int16 = 75
)

// ranges is the one place where served versions stand. The minimums equal Kafka 4.3's, because
// librdkafka derives features from exact ranges. Produce 0 to 2 are announced for its detection and
// refused when used. A kind is announced only when the broker has a handler for it.
var ranges = []API{
	{Key: Produce, Min: 0, Max: 13},
	{Key: Fetch, Min: 4, Max: 18},
	{Key: ListOffsets, Min: 1, Max: 11},
	{Key: Metadata, Min: 0, Max: 13},
	{Key: OffsetCommit, Min: 2, Max: 10},
	{Key: OffsetFetch, Min: 1, Max: 10},
	{Key: FindCoordinator, Min: 0, Max: 6},
	{Key: JoinGroup, Min: 0, Max: 9},
	{Key: Heartbeat, Min: 0, Max: 4},
	{Key: LeaveGroup, Min: 0, Max: 5},
	{Key: SyncGroup, Min: 0, Max: 5},
	{Key: DescribeGroups, Min: 0, Max: 6},
	{Key: ListGroups, Min: 0, Max: 5},
	{Key: SaslHandshake, Min: 0, Max: 1},
	{Key: ApiVersions, Min: 0, Max: 4},
	{Key: CreateTopics, Min: 2, Max: 7},
	{Key: DeleteTopics, Min: 1, Max: 6},
	{Key: DeleteRecords, Min: 0, Max: 2},
	{Key: InitProducerID, Min: 0, Max: 5},
	{Key: OffsetForLeaderEpoch, Min: 2, Max: 4},
	{Key: AddPartitionsToTxn, Min: 0, Max: 5},
	{Key: AddOffsetsToTxn, Min: 0, Max: 4},
	{Key: EndTxn, Min: 0, Max: 5},
	{Key: WriteTxnMarkers, Min: 1, Max: 2},
	{Key: TxnOffsetCommit, Min: 0, Max: 5},
	{Key: DescribeConfigs, Min: 1, Max: 4},
	{Key: AlterConfigs, Min: 0, Max: 2},
	{Key: DescribeLogDirs, Min: 1, Max: 5},
	{Key: SaslAuthenticate, Min: 0, Max: 2},
	{Key: CreatePartitions, Min: 0, Max: 3},
	{Key: DeleteGroups, Min: 0, Max: 2},
	{Key: IncrementalAlter, Min: 0, Max: 1},
	{Key: ListReassignments, Min: 0, Max: 0},
	{Key: OffsetDelete, Min: 0, Max: 0},
	{Key: DescribeQuotas, Min: 0, Max: 1},
	{Key: DescribeScram, Min: 0, Max: 0},
	{Key: AlterScram, Min: 0, Max: 0},
	{Key: DescribeCluster, Min: 0, Max: 2},
	{Key: DescribeProducers, Min: 0, Max: 0},
	{Key: DescribeTransactions, Min: 0, Max: 0},
	{Key: ListTransactions, Min: 0, Max: 2},
	{Key: GroupHeartbeat848, Min: 0, Max: 1},
	{Key: GroupDescribe848, Min: 0, Max: 1},
	{Key: DescribeTopicParts, Min: 0, Max: 0},
}

const neverFlexible = 32767

// table is ranges indexed by key; rows of unknown kinds have Max -1.
var table = func() (t [kmsg.MaxKey + 1]API) {
	for i := range t {
		t[i] = API{Key: int16(i), Max: -1}
	}
	for _, a := range ranges {
		a.Flexible = neverFlexible
		r := kmsg.RequestForKey(a.Key)
		for v := a.Min; v <= a.Max; v++ {
			r.SetVersion(v)
			if r.IsFlexible() {
				a.Flexible = v
				break
			}
		}
		t[a.Key] = a
	}
	return t
}()

// Lookup returns the row of a request kind, and whether there is one.
func Lookup(key int16) (API, bool) {
	if key < 0 || int(key) >= len(table) || table[key].Max < 0 {
		return API{}, false
	}
	return table[key], true
}

// Serves reports whether version is in the row's range.
func (a API) Serves(version int16) bool { return version >= a.Min && version <= a.Max }

// IsFlexible reports whether that version has the flexible encoding.
func (a API) IsFlexible(version int16) bool { return version >= a.Flexible }

// Name is the request kind's name in the protocol, for logs and metrics.
func Name(key int16) string { return kmsg.NameForKey(key) }
