package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
)

func TestMetadataInEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	n.topic("b", 1)
	w := n.dial()
	for v := int16(0); v <= 13; v++ {
		all := kmsg.NewPtrMetadataRequest()
		all.Topics = nil
		if v == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		resp := ask[*kmsg.MetadataResponse](w, all, v)
		var names []string
		for _, rt := range resp.Topics {
			names = append(names, *rt.Topic)
			for i, p := range rt.Partitions {
				if p.Partition != int32(i) || p.Leader != 1 || fmt.Sprint(p.Replicas, p.ISR, p.OfflineReplicas) != "[1] [1] []" {
					t.Errorf("version %d: %+v", v, p)
				}
			}
			if internal := strings.HasPrefix(*rt.Topic, "__"); v >= 1 && rt.IsInternal != internal {
				t.Errorf("version %d: %s internal: %v", v, *rt.Topic, rt.IsInternal)
			}
		}
		if got, want := fmt.Sprint(names), "[__consumer_offsets __transaction_state a b]"; got != want {
			t.Errorf("version %d: topics %s, want %s", v, got, want)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port) != n.tcp {
			t.Errorf("version %d: brokers %+v, want node 1 at %s", v, resp.Brokers, n.tcp)
		}
		if v >= 2 && *resp.ClusterID != n.cat.ClusterID() {
			t.Errorf("version %d: cluster %s", v, *resp.ClusterID)
		}
		if v >= 1 {
			none := kmsg.NewPtrMetadataRequest()
			none.Topics = []kmsg.MetadataRequestTopic{}
			if resp := ask[*kmsg.MetadataResponse](w, none, v); len(resp.Topics) != 0 {
				t.Errorf("version %d: an empty list gave %d topics", v, len(resp.Topics))
			}
		}
	}
}

func TestMetadataByName(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	w := n.dial()
	byName := func(name string, create bool, version int16) kmsg.MetadataResponseTopic {
		t.Helper()
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		req.Topics, req.AllowAutoTopicCreation = append(req.Topics, rt), create
		resp := ask[*kmsg.MetadataResponse](w, req, version)
		if len(resp.Topics) != 1 {
			t.Fatalf("%+v", resp)
		}
		return resp.Topics[0]
	}
	if rt := byName("new", false, 12); rt.ErrorCode != 3 {
		t.Errorf("a missing topic that may not be made: error %d, want 3", rt.ErrorCode)
	}
	if rt := byName("new", true, 12); rt.ErrorCode != 0 || len(rt.Partitions) != 1 || rt.TopicID == [16]byte{} {
		t.Errorf("a missing topic that may be made: %+v", rt)
	}
	if rt := byName("old-client", true, 3); rt.ErrorCode != 0 {
		t.Errorf("versions before 4 always make topics: error %d", rt.ErrorCode)
	}
	for _, bad := range []string{"", ".", "..", "../../etc", "a/b", "a b", strings.Repeat("x", 250), "über", "__embedded_meta"} {
		if rt := byName(bad, true, 12); rt.ErrorCode != 17 {
			t.Errorf("topic %q: error %d, want 17", bad, rt.ErrorCode)
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	byID := kmsg.NewMetadataRequestTopic()
	byID.TopicID = n.cat.Topic("a").ID
	unknown := kmsg.NewMetadataRequestTopic()
	unknown.TopicID = [16]byte{1, 2, 3}
	req.Topics = append(req.Topics, byID, unknown)
	resp := ask[*kmsg.MetadataResponse](w, req, 12)
	if *resp.Topics[0].Topic != "a" || resp.Topics[1].ErrorCode != 100 {
		t.Errorf("by id: %+v", resp.Topics)
	}
	quiet := start(t, func(o *Options) { o.NoAutoCreate = true })
	req = kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr("new")
	req.Topics, req.AllowAutoTopicCreation = append(req.Topics, rt), true
	if resp := ask[*kmsg.MetadataResponse](quiet.dial(), req, 12); resp.Topics[0].ErrorCode != 3 {
		t.Errorf("with auto-creation off: error %d", resp.Topics[0].ErrorCode)
	}
}

func TestEmbeddedClientsAreNeverToldATCPAddress(t *testing.T) {
	n := start(t)
	m, err := kadm.NewClient(n.client()).BrokerMetadata(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Brokers) != 1 || m.Brokers[0].Host != "embedded" {
		t.Errorf("brokers %+v", m.Brokers)
	}
}

func TestListOffsetsInEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	base := time.Now().UnixMilli()
	at := func(ms int64) batch.View {
		return batch.Build(batch.Options{}, batch.Record{Timestamp: base + ms, Key: []byte("k")}, batch.Record{Timestamp: base + ms + 5, Key: []byte("k")})
	}
	for _, ms := range []int64{0, 100, 50, 20} {
		if p := produced1(t, ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, at(ms)), 9)); p.ErrorCode != 0 {
			t.Fatal(p.ErrorCode)
		}
	}
	for v := int16(1); v <= 11; v++ {
		for name, c := range map[string]struct {
			timestamp, offset, time int64
			from                    int16
		}{
			"latest":                        {-1, 8, -1, 1},
			"earliest":                      {-2, 0, -1, 1},
			"largest timestamp":             {-3, 3, base + 105, 7},
			"earliest local":                {-4, 0, -1, 8},
			"latest in remote storage":      {-5, -1, -1, 9},
			"earliest to be uploaded":       {-6, -1, -1, 11},
			"at the first record":           {base, 0, base, 1},
			"between the first two records": {base + 1, 1, base + 5, 1},
			"later than the first batch":    {base + 6, 2, base + 100, 1},
			"later than every record":       {base + 1000, -1, -1, 1},
		} {
			if v < c.from {
				continue
			}
			req := latest("t")
			req.Topics[0].Partitions[0].Timestamp = c.timestamp
			p := ask[*kmsg.ListOffsetsResponse](w, req, v).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.Offset != c.offset || p.Timestamp != c.time {
				t.Errorf("version %d, %s: error %d, offset %d, timestamp %d; want 0, %d, %d", v, name, p.ErrorCode, p.Offset, p.Timestamp-base, c.offset, c.time-base)
			}
		}
	}
	req := latest("t")
	req.Topics[0].Partitions[0].Timestamp = -99
	if p := ask[*kmsg.ListOffsetsResponse](w, req, 4).Topics[0].Partitions[0]; p.ErrorCode != 42 {
		t.Errorf("an unknown special timestamp: error %d, want 42", p.ErrorCode)
	}
	if p := ask[*kmsg.ListOffsetsResponse](w, latest("none"), 4).Topics[0].Partitions[0]; p.ErrorCode != 3 {
		t.Errorf("an unknown topic: error %d, want 3", p.ErrorCode)
	}
}

func TestCreateTopics(t *testing.T) {
	n := start(t)
	n.topic("there", 1)
	w := n.dial()
	topic := func(name string, partitions int32, replication int16) kmsg.CreateTopicsRequestTopic {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replication
		return rt
	}
	config := func(rt kmsg.CreateTopicsRequestTopic, k, v string) kmsg.CreateTopicsRequestTopic {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = k, &v
		rt.Configs = append(rt.Configs, rc)
		return rt
	}
	assign := func(rt kmsg.CreateTopicsRequestTopic, partition int32, nodes ...int32) kmsg.CreateTopicsRequestTopic {
		ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		ra.Partition, ra.Replicas = partition, nodes
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
		return rt
	}
	for name, c := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		want  int16
	}{
		"defaults":                         {topic("t1", -1, -1), 0},
		"three partitions":                 {topic("t2", 3, 1), 0},
		"a configuration":                  {config(topic("t3", 1, 1), "retention.ms", "1000"), 0},
		"an assignment to this node":       {assign(assign(topic("t4", -1, -1), 1, 1), 0, 1), 0},
		"one that exists":                  {topic("there", 1, 1), 36},
		"no partitions":                    {topic("x", 0, 1), 37},
		"more than the limit":              {topic("x", 1<<20, 1), 37},
		"three replicas":                   {topic("x", 1, 3), 38},
		"no replica":                       {topic("x", 1, 0), 38},
		"an assignment to another node":    {assign(topic("x", -1, -1), 0, 2), 39},
		"an assignment with a gap":         {assign(topic("x", -1, -1), 1, 1), 39},
		"an assignment and a number":       {assign(topic("x", 2, -1), 0, 1), 42},
		"an unknown configuration":         {config(topic("x", 1, 1), "no.such", "1"), 40},
		"a value out of range":             {config(topic("x", 1, 1), "retention.ms", "-2"), 40},
		"a value of the wrong kind":        {config(topic("x", 1, 1), "segment.bytes", "many"), 40},
		"a policy that there is not":       {config(topic("x", 1, 1), "cleanup.policy", "keep"), 40},
		"a name that leaves the directory": {topic("../x", 1, 1), 17},
		"the catalogue's own name":         {topic("__embedded_meta", 1, 1), 17},
	} {
		for _, v := range []int16{2, 4, 5, 7} {
			t.Run(fmt.Sprint(name, ", version ", v), func(t *testing.T) {
				req := kmsg.NewPtrCreateTopicsRequest()
				req.Topics = append(req.Topics, c.topic)
				req.ValidateOnly = true
				check := func() {
					r := ask[*kmsg.CreateTopicsResponse](w, req, v).Topics[0]
					if r.ErrorCode != c.want {
						t.Errorf("error %d (%v), want %d", r.ErrorCode, r.ErrorMessage, c.want)
					}
					if c.want != 0 && (r.ErrorMessage == nil || *r.ErrorMessage == "") {
						t.Error("no reason is given")
					}
				}
				check()
				if n.cat.Topic(c.topic.Topic) != nil && c.topic.Topic != "there" {
					t.Fatal("validation made a topic")
				}
				if v == 7 {
					req.ValidateOnly = false
					check()
				}
			})
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic("twice", 1, 1), topic("other", 1, 1), topic("twice", 1, 1))
	resp := ask[*kmsg.CreateTopicsResponse](w, req, 7)
	if len(resp.Topics) != 2 || resp.Topics[0].ErrorCode != 42 || resp.Topics[1].ErrorCode != 0 {
		t.Errorf("a name given twice: %+v", resp.Topics)
	}
}

func TestTopicLife(t *testing.T) {
	n := start(t)
	adm := kadm.NewClient(n.client())
	ctx := within(t)
	if _, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"segment.bytes": kadm.StringPtr("1048576")}, "t"); err != nil {
		t.Fatal(err)
	}
	if rs, err := adm.CreatePartitions(ctx, 3, "t"); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	if got := n.cat.Topic("t").Partitions(); got != 5 {
		t.Errorf("%d partitions, want 5", got)
	}
	if rs, err := adm.UpdatePartitions(ctx, 2, "t"); err == nil && !errors.Is(rs.Error(), kerr.InvalidPartitions) {
		t.Errorf("fewer partitions: %v", rs.Error())
	}
	if ls, err := adm.DescribeAllLogDirs(ctx, nil); err != nil {
		t.Error(err)
	} else if d, ok := ls[1]["/log"]; !ok || len(d.Topics["t"]) != 5 {
		t.Errorf("log dirs %+v", ls)
	}
	id := n.cat.Topic("t").ID
	if rs, err := adm.DeleteTopics(ctx, "t"); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	if n.cat.Topic("t") != nil || n.cat.TopicByID(id) != nil || n.st.Get("t", 0) != nil {
		t.Error("the topic is still there")
	}
	if rs, _ := adm.DeleteTopics(ctx, "t"); !errors.Is(rs.Error(), kerr.UnknownTopicOrPartition) {
		t.Errorf("deleting it again: %v", rs.Error())
	}
	if rs, _ := adm.DeleteTopics(ctx, "__consumer_offsets"); !errors.Is(rs.Error(), kerr.InvalidTopicException) {
		t.Errorf("deleting an internal topic: %v", rs.Error())
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if n.cat.Topic("t").ID == id {
		t.Error("the new topic has the old one's id")
	}
	if end := n.cat.Topic("t").Partition(0).End(); end != 0 {
		t.Errorf("the new topic begins at %d", end)
	}
}

func TestConfigs(t *testing.T) {
	n := start(t)
	adm := kadm.NewClient(n.client())
	ctx := within(t)
	n.topic("t", 1)
	value := func(name string) kadm.Config {
		t.Helper()
		rs, err := adm.DescribeTopicConfigs(ctx, "t")
		if err != nil || len(rs) != 1 || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		i := slices.IndexFunc(rs[0].Configs, func(c kadm.Config) bool { return c.Key == name })
		if i < 0 {
			t.Fatalf("%s is not described", name)
		}
		return rs[0].Configs[i]
	}
	alter := func(cs ...kadm.AlterConfig) error {
		t.Helper()
		rs, err := adm.AlterTopicConfigs(ctx, cs, "t")
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].Err
	}
	if c := value("retention.ms"); c.MaybeValue() != "604800000" || c.Source != kmsg.ConfigSourceDefaultConfig || len(c.Synonyms) != 0 {
		t.Errorf("a default: %+v", c)
	}
	if c := value("cleanup.policy"); len(c.Synonyms) != 1 || c.Synonyms[0].Key != "log.cleanup.policy" {
		t.Errorf("a default: %+v", c)
	}
	if err := alter(kadm.AlterConfig{Name: "retention.ms", Value: kadm.StringPtr("1000")}); err != nil {
		t.Fatal(err)
	}
	if c := value("retention.ms"); c.MaybeValue() != "1000" || c.Source != kmsg.ConfigSourceDynamicTopicConfig || len(c.Synonyms) != 1 {
		t.Errorf("after it was set: %+v", c)
	}
	if got := n.cat.Topic("t").Partition(0).Config().RetentionTime; got != time.Second {
		t.Errorf("the partition keeps records for %v", got)
	}
	if err := alter(kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}); err != nil {
		t.Fatal(err)
	}
	if c := value("cleanup.policy"); c.MaybeValue() != "delete,compact" {
		t.Errorf("after compact was appended: %s", c.MaybeValue())
	}
	if err := alter(kadm.AlterConfig{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: kadm.StringPtr("delete")}); err != nil {
		t.Fatal(err)
	}
	if pc := n.cat.Topic("t").Partition(0).Config(); !pc.Compact || pc.Delete {
		t.Errorf("the partition: compact %v, delete %v", pc.Compact, pc.Delete)
	}
	if err := alter(kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}); err != nil {
		t.Fatal(err)
	}
	if c := value("retention.ms"); c.MaybeValue() != "604800000" {
		t.Errorf("after it was deleted: %+v", c)
	}
	for name, c := range map[string]kadm.AlterConfig{
		"an unknown name":              {Name: "no.such", Value: kadm.StringPtr("1")},
		"deleting an unknown name":     {Op: kadm.DeleteConfig, Name: "no.such"},
		"a value out of range":         {Name: "min.cleanable.dirty.ratio", Value: kadm.StringPtr("2")},
		"appending to what is no list": {Op: kadm.AppendConfig, Name: "retention.ms", Value: kadm.StringPtr("1")},
	} {
		if err := alter(c); !errors.Is(err, kerr.InvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What failed changed nothing, not even the part before the failure.
	if err := alter(kadm.AlterConfig{Name: "retention.ms", Value: kadm.StringPtr("5")}, kadm.AlterConfig{Name: "no.such", Value: kadm.StringPtr("1")}); err == nil {
		t.Error("an unknown name was taken")
	}
	if c := value("retention.ms"); c.MaybeValue() != "604800000" {
		t.Errorf("after a refused change: %s", c.MaybeValue())
	}
	if rs, err := adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: kadm.StringPtr("5000")}}, "t"); err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	if got := n.cat.Topic("t").Configs; len(got) != 1 || got["max.message.bytes"] != "5000" {
		t.Errorf("after all was replaced: %v", got)
	}
	rs, err := adm.DescribeBrokerConfigs(ctx, 1)
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	found := map[string]string{}
	for _, c := range rs[0].Configs {
		found[c.Key] = c.MaybeValue()
	}
	if found["log.cleanup.policy"] != "delete" || found["node.id"] != "1" || found["log.retention.ms"] != "604800000" {
		t.Errorf("broker configuration %v", found)
	}
	if rs, err := adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "log.retention.ms", Value: kadm.StringPtr("5")}}, 1); err != nil || !errors.Is(rs[0].Err, kerr.InvalidRequest) {
		t.Errorf("altering the broker: %v %v", err, rs)
	}
}

func TestDeleteRecords(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, records("a", "b", "c")), 9)
	del := func(topic string, partition int32, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
		req := kmsg.NewPtrDeleteRecordsRequest()
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = partition, offset
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return ask[*kmsg.DeleteRecordsResponse](w, req, 2).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		name      string
		topic     string
		partition int32
		offset    int64
		code      int16
		low       int64
	}{
		{"to an offset", "t", 0, 1, 0, 1},
		{"to an earlier one: nothing happens", "t", 0, 0, 0, 1},
		{"beyond the high watermark", "t", 0, 4, 1, -1},
		{"to the high watermark", "t", 0, -1, 0, 3},
		{"a negative offset", "t", 0, -7, 1, -1},
		{"an unknown partition", "t", 5, 0, 3, -1},
		{"an unknown topic", "none", 0, 0, 3, -1},
		{"a topic of the broker's own", "__consumer_offsets", 0, -1, 17, -1},
	} {
		if p := del(c.topic, c.partition, c.offset); p.ErrorCode != c.code || p.LowWatermark != c.low {
			t.Errorf("%s: error %d, low watermark %d; want %d, %d", c.name, p.ErrorCode, p.LowWatermark, c.code, c.low)
		}
	}
	if p := fetched1(t, ask[*kmsg.FetchResponse](w, n.fetchReq("t", 0, 0, 0), 12)); p.ErrorCode != 1 || p.LogStartOffset != 3 {
		t.Logf("fetch below the log start: error %d, log start %d", p.ErrorCode, p.LogStartOffset)
		if p.ErrorCode != 1 {
			t.Error("records that were deleted can be fetched")
		}
	}
}

func TestDescribeTopicPartitionsInPages(t *testing.T) {
	n := start(t)
	n.topic("a", 3)
	n.topic("b", 2)
	n.topic("c", 1)
	w := n.dial()
	var got []string
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range []string{"c", "a", "none", "b"} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
	}
	req.ResponsePartitionLimit = 2
	for pages := 0; ; pages++ {
		if pages > 10 {
			t.Fatalf("pages without end: %v", got)
		}
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](w, req, 0)
		for _, rt := range resp.Topics {
			if rt.ErrorCode != 0 {
				got = append(got, fmt.Sprintf("%s!%d", *rt.Topic, rt.ErrorCode))
			}
			for _, p := range rt.Partitions {
				got = append(got, fmt.Sprintf("%s-%d", *rt.Topic, p.Partition))
			}
		}
		if resp.NextCursor == nil {
			break
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
	}
	if want := "[a-0 a-1 a-2 b-0 b-1 c-0 none!3]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestFindCoordinatorInEveryVersion(t *testing.T) {
	n := start(t)
	w := n.dial()
	for v := int16(0); v <= 6; v++ {
		for kind := int8(0); kind <= 2; kind++ {
			if v == 0 && kind > 0 {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = "g", []string{"g", "h"}, kind
			resp := ask[*kmsg.FindCoordinatorResponse](w, req, v)
			rs := resp.Coordinators
			if v < 4 {
				rs = []kmsg.FindCoordinatorResponseCoordinator{{Key: "g", ErrorCode: resp.ErrorCode, NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port}}
			} else if len(rs) != 2 {
				t.Errorf("version %d: %d coordinators, want 2", v, len(rs))
			}
			for _, r := range rs {
				if ok := r.ErrorCode == 0 && r.NodeID == 1 && fmt.Sprintf("%s:%d", r.Host, r.Port) == n.tcp; ok != (kind < 2) {
					t.Errorf("version %d, kind %d: %+v", v, kind, r)
				}
			}
		}
	}
}

func TestProducerIDs(t *testing.T) {
	n := start(t)
	w := n.dial()
	seen := map[int64]bool{}
	for i := range 2500 {
		req := kmsg.NewPtrInitProducerIDRequest()
		resp := ask[*kmsg.InitProducerIDResponse](w, req, int16(i%6))
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
			t.Fatalf("%+v", resp)
		}
		seen[resp.ProducerID] = true
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = kmsg.StringPtr("t")
	req.TransactionTimeoutMillis = 1000
	if resp := ask[*kmsg.InitProducerIDResponse](w, req, 4); resp.ErrorCode != 0 || seen[resp.ProducerID] {
		t.Errorf("with a transactional id: %+v", resp)
	}
}

func TestDescribeCluster(t *testing.T) {
	n := start(t)
	w := n.dial()
	for v := int16(0); v <= 2; v++ {
		resp := ask[*kmsg.DescribeClusterResponse](w, kmsg.NewPtrDescribeClusterRequest(), v)
		if resp.ErrorCode != 0 || resp.ClusterID != n.cat.ClusterID() || resp.ControllerID != 1 || len(resp.Brokers) != 1 {
			t.Errorf("version %d: %+v", v, resp)
		}
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2
	if resp := ask[*kmsg.DescribeClusterResponse](w, req, 1); resp.ErrorCode == 0 {
		t.Error("a question to the controller was answered")
	}
	if resp := ask[*kmsg.ListPartitionReassignmentsResponse](w, kmsg.NewPtrListPartitionReassignmentsRequest(), 0); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("reassignments: %+v", resp)
	}
}
