package log_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/peers"
	"millrace/log/internal/batch"
)

// A script about topics: requests in chosen versions, what they were about, and what was answered.
type script struct {
	*dialogue
	topics map[string][16]byte // ids, by name without the run
}

func newScript(t *testing.T, addr string) *script {
	return &script{&dialogue{t: t, addr: addr, run: "." + peers.Unique(t, "run"), clients: map[string]*kgo.Client{}}, map[string][16]byte{}}
}

// say asks and writes down, with ids and what belongs to the machine masked.
func (s *script) say(what string, version int16, req kmsg.Request) kmsg.Response {
	s.t.Helper()
	resp := s.ask(what, version, req)
	last := &s.said[len(s.said)-1]
	for name, id := range s.topics {
		b, _ := json.Marshal(id)
		*last = strings.ReplaceAll(*last, string(b), `"id of `+name+`"`)
	}
	return resp
}

var (
	answerTime = regexp.MustCompile(`"LogAppendTime":1\d{12}`)
	otherIDs   = regexp.MustCompile(`"TopicID":\[[0-9,]+\]`)
)

func (s *script) create(what string, validate bool, version int16, topic kmsg.CreateTopicsRequestTopic) {
	s.t.Helper()
	topic.Topic += s.run
	resp := s.ask(what, version, &kmsg.CreateTopicsRequest{Topics: []kmsg.CreateTopicsRequestTopic{topic}, ValidateOnly: validate, TimeoutMillis: 30_000}).(*kmsg.CreateTopicsResponse)
	r := &resp.Topics[0]
	if id := r.TopicID; r.ErrorCode == 0 && !validate {
		s.topics[strings.TrimSuffix(r.Topic, s.run)] = id
	}
	// Which configurations are told is a matter of versions; their values are compared by name below.
	r.Configs, r.TopicID = nil, [16]byte{}
	s.said = s.said[:len(s.said)-1]
	s.write(what, resp)
}

func newTopic(name string, partitions int32, replication int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replication
	for i := 0; i < len(configs); i += 2 {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	return rt
}

// stamp is the time of the script's records: recent enough for every limit, and the same for both.
var stamp = time.Now().Add(-time.Minute).UnixMilli()

func plain(values ...string) batch.View {
	var rs []batch.Record
	for i, v := range values {
		rs = append(rs, batch.Record{Timestamp: stamp + int64(i), Key: []byte("k"), Value: []byte(v)})
	}
	return batch.Build(batch.Options{}, rs...)
}

func idempotent(pid int64, epoch int16, sequence int32, values ...string) batch.View {
	var rs []batch.Record
	for _, v := range values {
		rs = append(rs, batch.Record{Timestamp: stamp, Key: []byte("k"), Value: []byte(v)})
	}
	return batch.Build(batch.Options{Producer: &batch.Producer{ID: pid, Epoch: epoch, Sequence: sequence}}, rs...)
}

func (s *script) produce(what string, version int16, topic string, partition int32, acks int16, records []byte) {
	s.t.Helper()
	req := &kmsg.ProduceRequest{Acks: acks, TimeoutMillis: 30_000}
	rt := kmsg.ProduceRequestTopic{Topic: topic + s.run, TopicID: s.topics[topic]}
	rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Partition: partition, Records: records})
	req.Topics = append(req.Topics, rt)
	s.say("produce "+what, version, req)
	last := &s.said[len(s.said)-1]
	*last = answerTime.ReplaceAllString(*last, `"LogAppendTime":"now"`)
	// Ours give a reason with every refusal, Kafka with some.
	*last = strings.ReplaceAll(*last, `"ErrorMessage":"text"`, `"ErrorMessage":null`)
}

func (s *script) fetchFrom(what string, version int16, topic string, partition int32, offset int64, change ...func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)) {
	s.t.Helper()
	req := &kmsg.FetchRequest{ReplicaID: -1, MaxWaitMillis: 100, MinBytes: 1, MaxBytes: 1 << 20, SessionEpoch: -1}
	req.ReplicaState.ID, req.ReplicaState.Epoch = -1, -1
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = partition, offset, 1<<20, -1, -1, -1
	for _, f := range change {
		f(req, &rp)
	}
	req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: topic + s.run, TopicID: s.topics[topic], Partitions: []kmsg.FetchRequestTopicPartition{rp}})
	s.say("fetch "+what, version, req)
	last := &s.said[len(s.said)-1]
	*last = batches.ReplaceAllStringFunc(*last, func(m string) string {
		b, _ := base64.StdEncoding.DecodeString(batches.FindStringSubmatch(m)[1])
		return `"RecordBatches":"` + show(b) + `"`
	})
}

var batches = regexp.MustCompile(`"RecordBatches":"([^"]*)"`)

// show says what the batches are, byte for byte but for the time that the log stamped them with.
func show(b []byte) string {
	vs, err := batch.Split(nil, b)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, v := range vs {
		s := fmt.Sprintf("offset %d epoch %d attributes %d producer %d/%d/%d:", v.BaseOffset(), v.LeaderEpoch(), v.Attributes(), v.ProducerID(), v.ProducerEpoch(), v.BaseSequence())
		for r, err := range v.Records() {
			if err != nil {
				return err.Error()
			}
			at := fmt.Sprint(r.Timestamp - stamp)
			if v.LogAppendTime() || v.IsControl() {
				at = "now"
			}
			s += fmt.Sprintf(" %d@%s %s=%.20s", r.Offset, at, r.Key, r.Value)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func (s *script) list(what string, version int16, topic string, partition int32, timestamp int64) {
	s.t.Helper()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
	s.say("list "+what, version, &kmsg.ListOffsetsRequest{ReplicaID: -1, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: topic + s.run, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}})
	last := &s.said[len(s.said)-1]
	*last = strings.ReplaceAll(*last, fmt.Sprint(stamp), `"stamp"`)
	*last = strings.ReplaceAll(*last, fmt.Sprint(stamp+1), `"stamp+1"`)
}

// configs writes down name, value, kind, source and synonyms of a topic's configurations, sorted.
func (s *script) configs(what string, version int16, topic string, names ...string) {
	s.t.Helper()
	req := &kmsg.DescribeConfigsRequest{IncludeSynonyms: true}
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic+s.run, names
	req.Resources = append(req.Resources, r)
	resp := s.ask("configs "+what, version, req).(*kmsg.DescribeConfigsResponse)
	s.said = s.said[:len(s.said)-1]
	for _, r := range resp.Resources {
		s.said = append(s.said, fmt.Sprintf("configs %s: error %d", what, r.ErrorCode))
		slices.SortFunc(r.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) })
		for _, c := range r.Configs {
			text := func(v *string) string {
				if v == nil {
					return "null"
				}
				return *v
			}
			syn := ""
			for _, y := range c.ConfigSynonyms {
				syn += fmt.Sprintf(" %s=%s/%d", y.Name, text(y.Value), y.Source)
			}
			s.said = append(s.said, fmt.Sprintf("configs %s %s: %s kind %d source %d read-only %v sensitive %v, synonyms%s", what, c.Name, text(c.Value), c.ConfigType, c.Source, c.ReadOnly, c.IsSensitive, syn))
		}
	}
}

func (s *script) alter(what string, version int16, topic, name string, op kmsg.IncrementalAlterConfigOp, value *string) {
	s.t.Helper()
	s.say("alter "+what, version, &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic + s.run,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: value}},
	}}})
}

// configured waits until a topic is described with a configuration: Kafka's controller answers a change before its brokers know of it.
func (s *script) configured(topic, name, value string) {
	s.t.Helper()
	within(s.t, time.Minute, fmt.Sprintf("%s has %s=%s", topic, name, value), func() bool {
		req := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic+s.run, []string{name}
		req.Resources = append(req.Resources, r)
		resp, err := req.RequestWith(s.t.Context(), s.at("", req.Key(), 4))
		if err != nil || len(resp.Resources) != 1 || len(resp.Resources[0].Configs) != 1 {
			return false
		}
		is := resp.Resources[0].Configs[0].Value
		return is != nil && *is == value
	})
}

func (s *script) deleteTo(what string, topic string, partition int32, offset int64) {
	s.t.Helper()
	s.say("delete records "+what, 2, &kmsg.DeleteRecordsRequest{TimeoutMillis: 30_000, Topics: []kmsg.DeleteRecordsRequestTopic{{
		Topic: topic + s.run, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}},
	}}})
}

func (s *script) metadata(what string, version int16, topics ...string) {
	s.t.Helper()
	req := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{}}
	for _, name := range topics {
		name += s.run
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	resp := s.ask("metadata "+what, version, req).(*kmsg.MetadataResponse)
	s.said = s.said[:len(s.said)-1]
	resp.Brokers, resp.ClusterID, resp.ControllerID = nil, nil, 0
	for i := range resp.Topics {
		if resp.Topics[i].ErrorCode == 0 {
			resp.Topics[i].TopicID = [16]byte{}
		}
		slices.SortFunc(resp.Topics[i].Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return int(a.Partition - b.Partition) })
	}
	s.write("metadata "+what, resp)
}

func text(s string) *string { return &s }

func topicScript(t *testing.T, addr string) []string {
	s := newScript(t, addr)
	for _, v := range []int16{2, 4, 5, 7} {
		s.create(fmt.Sprint("with defaults, only validated, version ", v), true, v, newTopic("x", -1, -1))
		s.create(fmt.Sprint("with an unknown configuration, version ", v), true, v, newTopic("x", 1, 1, "no.such", "1"))
	}
	s.create("no partitions", false, 7, newTopic("x", 0, 1))
	s.create("fewer than none", false, 7, newTopic("x", -2, 1))
	s.create("no replicas", false, 7, newTopic("x", 1, 0))
	s.create("more replicas than brokers", false, 7, newTopic("x", 1, 3))
	s.create("a bad value", false, 7, newTopic("x", 1, 1, "retention.ms", "abc"))
	s.create("a value out of range", false, 7, newTopic("x", 1, 1, "min.cleanable.dirty.ratio", "1.5"))
	s.create("a bad name", false, 7, newTopic("a/b", 1, 1))
	s.create("t", false, 7, newTopic("t", 2, 1))
	s.create("t again", false, 7, newTopic("t", 2, 1))
	s.create("compacted", false, 7, newTopic("compacted", 1, 1, "cleanup.policy", "compact"))
	s.create("stamped", false, 7, newTopic("stamped", 1, 1, "message.timestamp.type", "LogAppendTime"))
	s.create("small", false, 7, newTopic("small", 1, 1, "max.message.bytes", "200"))
	s.create("empty", false, 7, newTopic("empty", 1, 1))
	for v := int16(0); v <= 13; v++ {
		s.metadata(fmt.Sprint("of t and none, version ", v), v, "t")
	}
	s.metadata("of what is not there", 13, "none")

	for v := int16(3); v <= 13; v++ {
		s.produce(fmt.Sprint("version ", v), v, "t", 0, -1, plain("a", "b"))
	}
	corrupt := plain("v")
	corrupt[len(corrupt)-1] ^= 1
	for _, v := range []int16{3, 7, 8, 9, 12, 13} {
		if v < 13 {
			s.produce(fmt.Sprint("to no topic, version ", v), v, "none", 0, -1, plain("v"))
		}
		s.produce(fmt.Sprint("to no partition, version ", v), v, "t", 9, -1, plain("v"))
		s.produce(fmt.Sprint("a wrong checksum, version ", v), v, "t", 1, -1, corrupt)
	}
	s.topics["none"] = [16]byte{1, 2, 3}
	s.produce("to no topic's id", 13, "none", 0, -1, plain("v"))
	delete(s.topics, "none")
	s.produce("acks of 2", 9, "t", 0, 2, plain("v"))
	s.produce("acks of 1", 9, "t", 0, 1, plain("v"))
	s.produce("without key to a compacted topic", 9, "compacted", 0, -1, batch.Build(batch.Options{}, batch.Record{Timestamp: stamp, Value: []byte("v")}))
	s.produce("with key to a compacted topic", 9, "compacted", 0, -1, plain("v"))
	s.produce("too large", 9, "small", 0, -1, plain(strings.Repeat("x", 300)))
	s.produce("to a topic that stamps", 9, "stamped", 0, -1, plain("v"))
	far := batch.Build(batch.Options{}, batch.Record{Timestamp: stamp + 7200_000, Key: []byte("k")})
	s.produce("from two hours ahead", 9, "t", 1, -1, far)

	// Idempotent producers. Ids of the script's own: the broker need not have given them.
	s.produce("first of a producer, sequence 1", 9, "small", 0, -1, idempotent(70001, 0, 1, "v"))
	for i := range int32(7) {
		s.produce(fmt.Sprint("sequence ", i), 9, "t", 1, -1, idempotent(70001, 0, i, "v"))
	}
	for _, i := range []int32{6, 2, 1} {
		s.produce(fmt.Sprint("sequence again ", i), 9, "t", 1, -1, idempotent(70001, 0, i, "v"))
	}
	s.produce("a gap", 9, "t", 1, -1, idempotent(70001, 0, 9, "v"))
	s.produce("a new epoch with a sequence", 9, "t", 1, -1, idempotent(70001, 1, 7, "v"))
	s.produce("a new epoch", 9, "t", 1, -1, idempotent(70001, 1, 0, "v", "w"))
	s.produce("an old epoch", 9, "t", 1, -1, idempotent(70001, 0, 7, "v"))
	s.produce("an unknown producer in the middle", 9, "t", 1, -1, idempotent(70002, 0, 5, "v"))

	for v := int16(4); v <= 18; v++ {
		s.fetchFrom(fmt.Sprint("from 19, version ", v), v, "t", 0, 19)
	}
	s.fetchFrom("read committed", 12, "t", 0, 20, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.IsolationLevel = 1 })
	s.fetchFrom("all of partition 1", 12, "t", 1, 0)
	s.fetchFrom("what was stamped", 12, "stamped", 0, 0)
	s.fetchFrom("at the end", 12, "t", 0, 23)
	s.fetchFrom("beyond the end", 12, "t", 0, 24)
	s.fetchFrom("before the start", 12, "t", 0, -1)
	s.fetchFrom("no partition", 12, "t", 9, 0)
	s.fetchFrom("no topic", 12, "none", 0, 0)
	s.fetchFrom("with limits of one byte", 12, "t", 0, 0, func(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { r.MaxBytes, p.PartitionMaxBytes = 1, 1 })
	s.fetchFrom("the second record of a batch", 12, "t", 0, 1, func(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.PartitionMaxBytes = 1 })
	s.fetchFrom("with an epoch that is ahead", 12, "t", 0, 0, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 9 })
	s.fetchFrom("with a session that there is not", 12, "t", 0, 0, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) {
		r.SessionID, r.SessionEpoch = 77, 1
	})

	for v := int16(1); v <= 11; v++ {
		for _, at := range []int64{-1, -2, stamp, stamp + 1, stamp + 2, stamp - 1000} {
			s.list(fmt.Sprintf("%d, version %d", at-map[bool]int64{true: stamp}[at > 0], v), v, "t", 0, at)
		}
	}
	s.list("the largest timestamp", 7, "t", 0, -3)
	s.list("the earliest local one", 8, "t", 0, -4)
	s.list("the latest in remote storage", 9, "t", 0, -5)
	s.list("of no partition", 7, "t", 9, -1)
	s.list("of no topic", 7, "none", 0, -1)
	s.list("of an empty log", 7, "empty", 0, -1)
	s.list("the largest timestamp of an empty log", 7, "empty", 0, -3)
	for _, v := range []int16{2, 3, 4} {
		for _, epoch := range []int32{0, 1, 9} {
			s.say(fmt.Sprintf("epoch %d ends, version %d", epoch, v), v, &kmsg.OffsetForLeaderEpochRequest{ReplicaID: -1, Topics: []kmsg.OffsetForLeaderEpochRequestTopic{{
				Topic: "t" + s.run, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{Partition: 0, CurrentLeaderEpoch: -1, LeaderEpoch: epoch}},
			}}})
		}
	}

	s.deleteTo("to 5", "t", 0, 5)
	s.deleteTo("to 3, which is gone", "t", 0, 3)
	s.deleteTo("beyond the end", "t", 0, 100)
	s.deleteTo("below zero", "t", 0, -2)
	s.deleteTo("of no partition", "t", 9, 0)
	s.deleteTo("of no topic", "none", 0, 0)
	s.list("after the deletion", 7, "t", 0, -2)
	s.fetchFrom("what was deleted", 12, "t", 0, 2)
	s.fetchFrom("in the middle of a batch", 12, "t", 0, 5, func(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.PartitionMaxBytes = 1 })
	s.deleteTo("all", "t", 0, -1)
	s.fetchFrom("the end of an emptied log", 12, "t", 0, 23)
	s.list("by time in an emptied log", 7, "t", 0, stamp)

	s.configs("of t", 4, "t")
	s.configs("of compacted", 1, "compacted", "cleanup.policy", "no.such")
	s.configs("of no topic", 4, "none")
	set, del, add, sub := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	for _, v := range []int16{0, 1} {
		s.alter(fmt.Sprint("retention, version ", v), v, "t", "retention.ms", set, text("5000"))
		s.alter(fmt.Sprint("append to the policy, version ", v), v, "t", "cleanup.policy", add, text("compact"))
		s.configured("t", "cleanup.policy", "delete,compact")
		s.configs(fmt.Sprint("after changes, version ", v), 4, "t", "retention.ms", "cleanup.policy")
		s.alter(fmt.Sprint("subtract from the policy, version ", v), v, "t", "cleanup.policy", sub, text("delete"))
		s.configs(fmt.Sprint("after more changes, version ", v), 4, "t", "cleanup.policy")
		s.alter(fmt.Sprint("delete, version ", v), v, "t", "cleanup.policy", del, nil)
		s.alter(fmt.Sprint("delete what is not set, version ", v), v, "t", "segment.ms", del, nil)
		s.alter(fmt.Sprint("an unknown name, version ", v), v, "t", "no.such", set, text("1"))
		s.alter(fmt.Sprint("a bad value, version ", v), v, "t", "segment.bytes", set, text("x"))
		s.alter(fmt.Sprint("append to a number, version ", v), v, "t", "segment.bytes", add, text("1"))
		s.alter(fmt.Sprint("null, version ", v), v, "t", "segment.bytes", set, nil)
		s.alter(fmt.Sprint("of no topic, version ", v), v, "none", "segment.bytes", set, text("1048576"))
	}
	partitions := func(what string, topic string, count int32, assignment ...int32) {
		t.Helper()
		q := kmsg.CreatePartitionsRequestTopic{Topic: topic + s.run, Count: count}
		for _, a := range assignment {
			q.Assignment = append(q.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{a}})
		}
		s.say("partitions "+what, 3, &kmsg.CreatePartitionsRequest{Topics: []kmsg.CreatePartitionsRequestTopic{q}, TimeoutMillis: 30_000})
	}
	partitions("as many as there are", "t", 2)
	partitions("fewer", "t", 1)
	partitions("of no topic", "none", 3)
	partitions("with too few assignments", "t", 4, 1)
	partitions("on a broker that there is not", "t", 3, 99)
	partitions("one more", "t", 3)
	s.metadata("after one more partition", 12, "t")
	remove := func(what string, version int16, topic string) {
		t.Helper()
		name := topic + s.run
		req := &kmsg.DeleteTopicsRequest{TopicNames: []string{name}, TimeoutMillis: 30_000}
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		s.say("remove "+what, version, req)
		last := &s.said[len(s.said)-1]
		*last = otherIDs.ReplaceAllString(*last, `"TopicID":"id"`)
	}
	remove("small", 1, "small")
	remove("stamped", 5, "stamped")
	remove("t", 6, "t")
	remove("t again", 6, "t")
	s.topics["nobody"] = [16]byte{1, 2, 3}
	s.say("remove an id that there is not", 6, &kmsg.DeleteTopicsRequest{TimeoutMillis: 30_000, Topics: []kmsg.DeleteTopicsRequestTopic{{TopicID: s.topics["nobody"]}}})
	within(t, time.Minute, "t is gone", func() bool {
		req := kmsg.NewPtrMetadataRequest()
		name := "t" + s.run
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		resp, err := req.RequestWith(t.Context(), s.at("", 3, 12))
		return err == nil && resp.Topics[0].ErrorCode == 3
	})
	s.produce("to what is gone", 9, "t", 0, -1, plain("v"))
	s.fetchFrom("what is gone", 12, "t", 0, 0)
	return s.said
}

// otherThanKafka are the answers about topics that differ on purpose, each with its reason.
var otherThanKafka = map[string]string{
	"produce without key to a compacted topic": "a batch is refused whole: no list of its bad records",
	"produce from two hours ahead":             "a batch is refused whole: no list of its bad records",
	"produce first of a producer, sequence 1":  "a partition that never held a record takes a producer's first sequence only: what came before was lost",
	"produce sequence again 6":                 "the client's time stands, also in the answer to a retry",
	"produce sequence again 2":                 "the client's time stands, also in the answer to a retry",
	"configs of t max.message.bytes":           "rows with large values are normal in change capture",
	"configs of t segment.bytes":               "earlier retention and compaction",
	"configs of t min.insync.replicas":         "Kafka's is set for the whole cluster when that is formatted",
	"partitions of no topic":                   "the refusal has a reason",
}

// TestTopicsAnswerAsKafkaDoes runs the same script against our broker and Apache Kafka.
func TestTopicsAnswerAsKafkaDoes(t *testing.T) {
	kafka := peers.Kafka(t)
	got := topicScript(t, tcpLog(t).Addr())
	// Lists of configurations may differ in length: answers are matched by what they answer.
	key := func(line string) string { k, _, _ := strings.Cut(line, ": "); return k }
	ours := map[string]string{}
	for _, g := range got {
		ours[key(g)] = g
	}
	sameAsKafka(t, func() (differences []string) {
		want := topicScript(t, kafka.Addr)
		if len(got) != len(want) {
			differences = append(differences, fmt.Sprintf("%d answers, Kafka gave %d", len(got), len(want)))
		}
		met := 0
		for _, w := range want {
			g := ours[key(w)]
			_, purpose := otherThanKafka[key(w)]
			switch {
			case g == w:
			case purpose:
				met++
			default:
				differences = append(differences, fmt.Sprintf("ours  %s\nKafka %s", g, w))
			}
		}
		if met != len(otherThanKafka) {
			differences = append(differences, fmt.Sprintf("%d differences are listed, %d were met", len(otherThanKafka), met))
		}
		t.Logf("compared %d answers, %d differ on purpose", len(want), met)
		return differences
	})
}

// sameAsKafka holds a conversation with Kafka up to three times, until there is no
// difference: its brokers learn of a change a moment after its controller has answered,
// so that an answer may show what was before. What differs each time is a difference.
func sameAsKafka(t *testing.T, converse func() (differences []string)) {
	t.Helper()
	var differences []string
	for range 3 {
		if differences = converse(); len(differences) == 0 {
			return
		}
	}
	for _, d := range differences {
		t.Error(d)
	}
}
