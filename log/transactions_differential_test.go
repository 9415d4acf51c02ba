package log_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/peers"
	"millrace/log/internal/batch"
)

// A script about transactions. Producer ids are masked in the order in which they appear.
type txnScript struct {
	*script
	pids []int64
}

type prod struct {
	id    string // transactional
	pid   int64
	epoch int16
}

var (
	answeredPID = regexp.MustCompile(`"ProducerID":(\d+)`)
	storedPID   = regexp.MustCompile(`producer (\d+)/`)
	times       = regexp.MustCompile(`"(StartTimestamp|LastTimestamp)":\d{13}`)
	codes       = regexp.MustCompile(`\{"Partition":\d,"ErrorCode":\d+,\},?`)
	ownEpoch    = regexp.MustCompile(`"(CoordinatorEpoch|LeaderEpoch)":\d+`)
)

func (s *txnScript) mask(line string) string {
	name := func(id string) string {
		var pid int64
		fmt.Sscan(id, &pid)
		i := slices.Index(s.pids, pid)
		if i < 0 {
			return "none"
		}
		return fmt.Sprintf("#%d", i+1)
	}
	line = answeredPID.ReplaceAllStringFunc(line, func(m string) string { return `"ProducerID":` + name(answeredPID.FindStringSubmatch(m)[1]) })
	line = storedPID.ReplaceAllStringFunc(line, func(m string) string { return "producer " + name(storedPID.FindStringSubmatch(m)[1]) + "/" })
	line = times.ReplaceAllString(line, `"$1":"time"`)
	return ownEpoch.ReplaceAllString(line, `"$1":0`)
}

// try asks until the answer is no longer that the coordinator is busy: Kafka answers before it has carried out what it decided.
func (s *txnScript) try(what string, version int16, req kmsg.Request) kmsg.Response {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp := s.say(what, version, req)
		last := len(s.said) - 1
		b, _ := json.Marshal(resp)
		busy := false
		for _, e := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
			busy = busy || strings.Contains(string(b), fmt.Sprintf(`"ErrorCode":%d,`, e.Code)) || strings.Contains(string(b), fmt.Sprintf(`"ErrorCode":%d}`, e.Code))
		}
		if !busy || time.Now().After(deadline) {
			if r, ok := resp.(*kmsg.InitProducerIDResponse); ok && r.ErrorCode == 0 && !slices.Contains(s.pids, r.ProducerID) {
				s.pids = append(s.pids, r.ProducerID)
			}
			s.said[last] = s.mask(s.said[last])
			return resp
		}
		s.said = s.said[:last]
	}
}

func (s *txnScript) init(what string, version int16, id string, pid int64, epoch int16, timeout int32) prod {
	s.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	id += s.run
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = &id, pid, epoch, timeout
	resp := s.try(fmt.Sprintf("init %s, version %d", what, version), version, req).(*kmsg.InitProducerIDResponse)
	return prod{id, resp.ProducerID, resp.ProducerEpoch}
}

func (s *txnScript) add(what string, version int16, p prod, topic string, partitions ...int32) {
	s.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.pid, p.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic + s.run, Partitions: partitions}}
	req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic + s.run, Partitions: partitions}}}}
	s.try(fmt.Sprintf("add %s, version %d", what, version), version, req)
	s.sortCodes()
}

// sortCodes: Kafka's partitions come in the order of a hash table.
func (s *txnScript) sortCodes() {
	last := &s.said[len(s.said)-1]
	var found []string
	for _, m := range codes.FindAllString(*last, -1) {
		found = append(found, strings.TrimRight(m, ","))
	}
	slices.Sort(found)
	*last = codes.ReplaceAllString(*last, "") + strings.Join(found, "")
}

func (s *txnScript) verify(what string, p prod, topic string, partitions ...int32) {
	s.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, VerifyOnly: true,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic + s.run, Partitions: partitions}}}}
	s.try("verify "+what, 4, req)
	s.sortCodes()
}

func (s *txnScript) addOffsets(what string, version int16, p prod, group string) {
	s.t.Helper()
	if group != "" {
		group += s.run
	}
	s.try(fmt.Sprintf("add offsets %s, version %d", what, version), version, &kmsg.AddOffsetsToTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Group: group})
}

func (s *txnScript) end(what string, version int16, p prod, commit bool) prod {
	s.t.Helper()
	resp := s.try(fmt.Sprintf("end %s, version %d", what, version), version, &kmsg.EndTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Commit: commit}).(*kmsg.EndTxnResponse)
	if version >= 5 && resp.ErrorCode == 0 {
		p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
	}
	return p
}

func (s *txnScript) write(what string, version int16, p prod, topic string, partition, sequence int32, values ...string) {
	s.t.Helper()
	var rs []batch.Record
	for _, v := range values {
		rs = append(rs, batch.Record{Timestamp: stamp, Key: []byte("k"), Value: []byte(v)})
	}
	v := batch.Build(batch.Options{Producer: &batch.Producer{ID: p.pid, Epoch: p.epoch, Sequence: sequence}, Transactional: true}, rs...)
	req := &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: 30_000}
	if p.id != "" {
		req.TransactionID = &p.id
	}
	rt := kmsg.ProduceRequestTopic{Topic: topic + s.run, TopicID: s.topics[topic]}
	rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Partition: partition, Records: v})
	req.Topics = append(req.Topics, rt)
	s.try(fmt.Sprintf("write %s, version %d", what, version), version, req)
	last := &s.said[len(s.said)-1]
	*last = strings.ReplaceAll(*last, `"ErrorMessage":"text"`, `"ErrorMessage":null`)
	// A retry is answered with the time of the log, although the client's stands.
	*last = strings.ReplaceAll(*last, fmt.Sprintf(`"LogAppendTime":%d`, stamp), `"LogAppendTime":-1`)
}

func (s *txnScript) commit(what string, version int16, p prod, group, member string, generation int32, topic string, partition int32, offset int64) {
	s.t.Helper()
	if group != "" {
		group += s.run
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.MemberID, req.Generation = p.id, p.pid, p.epoch, group, member, generation
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic + s.run, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: partition, Offset: offset, LeaderEpoch: -1, Metadata: kmsg.StringPtr("note")}}}}
	s.try(fmt.Sprintf("commit %s, version %d", what, version), version, req)
}

func (s *txnScript) offsets(what string, group string, stable bool) {
	s.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group + s.run, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t" + s.run, Partitions: []int32{0, 1}}}}}
	s.try("offsets "+what, 9, req)
}

func (s *txnScript) read(what string, topic string, partition int32, isolation int8) {
	s.t.Helper()
	// Markers are written after Kafka has answered.
	s.fetchFrom("read "+what, 12, topic, partition, 0, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.IsolationLevel = isolation })
	last := len(s.said) - 1
	s.said[last] = s.mask(s.said[last])
}

func (s *txnScript) stable(what string, topic string, partition int32) {
	s.t.Helper()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
	s.try("stable "+what, 7, &kmsg.ListOffsetsRequest{ReplicaID: -1, IsolationLevel: 1, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: topic + s.run, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}})
}

func (s *txnScript) describe(what string, ids ...string) {
	s.t.Helper()
	for i := range ids {
		if ids[i] != "" && !strings.HasSuffix(ids[i], s.run) {
			ids[i] += s.run
		}
	}
	resp := s.try("describe "+what, 0, &kmsg.DescribeTransactionsRequest{TransactionalIDs: ids}).(*kmsg.DescribeTransactionsResponse)
	for i := range resp.TransactionStates {
		if r := &resp.TransactionStates[i]; r.ErrorCode != 0 {
			r.ProducerID = -1
		} else { // Kafka's come in the order of a hash table
			slices.SortFunc(r.Topics, func(a, b kmsg.DescribeTransactionsResponseTransactionStateTopic) int {
				return strings.Compare(a.Topic, b.Topic)
			})
			for _, topic := range r.Topics {
				slices.Sort(topic.Partitions)
			}
		}
	}
	s.said = s.said[:len(s.said)-1]
	s.dialogue.write("describe "+what, resp)
	s.said[len(s.said)-1] = s.mask(s.said[len(s.said)-1])
}

func (s *txnScript) listed(what string, version int16, change func(*kmsg.ListTransactionsRequest)) {
	s.t.Helper()
	req := kmsg.NewPtrListTransactionsRequest()
	change(req)
	resp := s.ask("list transactions "+what, version, req).(*kmsg.ListTransactionsResponse)
	resp.TransactionStates = slices.DeleteFunc(resp.TransactionStates, func(r kmsg.ListTransactionsResponseTransactionState) bool {
		return !strings.HasSuffix(r.TransactionalID, s.run) // others' on a shared Kafka
	})
	slices.SortFunc(resp.TransactionStates, func(a, b kmsg.ListTransactionsResponseTransactionState) int {
		return strings.Compare(a.TransactionalID, b.TransactionalID)
	})
	s.said = s.said[:len(s.said)-1]
	s.dialogue.write("list transactions "+what, resp)
	last := len(s.said) - 1
	s.said[last] = s.mask(s.said[last])
}

func (s *txnScript) producers(what string, topic string, partitions ...int32) {
	s.t.Helper()
	resp := s.ask("producers "+what, 0, &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: topic + s.run, Partitions: partitions}}}).(*kmsg.DescribeProducersResponse)
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			slices.SortFunc(resp.Topics[i].Partitions[j].ActiveProducers, func(a, b kmsg.DescribeProducersResponseTopicPartitionActiveProducer) int {
				return int(a.ProducerID - b.ProducerID)
			})
		}
	}
	s.said = s.said[:len(s.said)-1]
	s.dialogue.write("producers "+what, resp)
	last := len(s.said) - 1
	s.said[last] = s.mask(s.said[last])
}

func (s *txnScript) marker(what string, version int16, p prod, topic string, partition int32, coordinatorEpoch int32) {
	s.t.Helper()
	s.try(fmt.Sprintf("marker %s, version %d", what, version), version, &kmsg.WriteTxnMarkersRequest{Markers: []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: p.pid, ProducerEpoch: p.epoch, CoordinatorEpoch: coordinatorEpoch,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic + s.run, Partitions: []int32{partition}}},
	}}})
}

func transactionScript(t *testing.T, addr string) []string {
	s := &txnScript{script: newScript(t, addr)}
	s.create("t", false, 7, newTopic("t", 3, 1))
	s.create("u", false, 7, newTopic("u", 1, 1))
	within(t, time.Minute, "the coordinator is there", func() bool {
		req := &kmsg.FindCoordinatorRequest{CoordinatorType: 1, CoordinatorKey: "x" + s.run, CoordinatorKeys: []string{"x" + s.run}}
		resp, err := req.RequestWith(t.Context(), s.at("", 10, 6))
		return err == nil && len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0
	})
	within(t, time.Minute, "groups are there", func() bool {
		req := &kmsg.FindCoordinatorRequest{CoordinatorKey: "x" + s.run, CoordinatorKeys: []string{"x" + s.run}}
		resp, err := req.RequestWith(t.Context(), s.at("", 10, 6))
		return err == nil && len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0
	})

	// Getting an id.
	for v := int16(0); v <= 5; v++ {
		s.init("of a new id", v, fmt.Sprint("v", v), -1, -1, 60_000)
		s.init("again", v, fmt.Sprint("v", v), -1, -1, 60_000)
	}
	empty := ""
	s.try("init with an empty id", 4, &kmsg.InitProducerIDRequest{TransactionalID: &empty, TransactionTimeoutMillis: 1000, ProducerID: -1, ProducerEpoch: -1})
	s.init("with no timeout", 4, "bad", -1, -1, 0)
	s.init("with too long a timeout", 4, "bad", -1, -1, 900_001)
	s.init("with the longest timeout", 4, "long", -1, -1, 900_000)
	s.init("with an id and no epoch", 4, "bad", 5, -1, 1000)
	s.init("with an epoch and no id", 4, "bad", -1, 5, 1000)
	p := s.init("of e", 5, "e", -1, -1, 60_000)
	q := s.init("of e by its owner", 5, "e", p.pid, p.epoch, 60_000)
	s.init("of e by its owner, repeated", 5, "e", p.pid, p.epoch, 60_000)
	s.init("of e by its owner, once more", 5, "e", q.pid, q.epoch, 60_000)
	for _, v := range []int16{3, 4, 5} {
		s.init("of e with an old epoch", v, "e", p.pid, p.epoch, 60_000)
		s.init("of e with another id", v, "e", p.pid+7, 0, 60_000)
	}
	s.init("of a new id by one who has an id", 5, "fresh", p.pid, 3, 60_000)
	s.describe("what is not there, what has no name, what is empty", "none", "", "e")

	// The older flow.
	a := s.init("of a", 4, "a", -1, -1, 60_000)
	stranger, older, newer := a, a, a
	stranger.pid += 100_000
	older.epoch--
	newer.epoch++
	nobody := prod{id: "nobody" + s.run, pid: a.pid}
	for v := int16(0); v <= 4; v++ {
		s.add("a stranger's partition", v, stranger, "t", 0)
		s.add("with an epoch ahead", v, newer, "t", 0)
		s.add("of an unknown id", v, nobody, "t", 0)
		s.add("to no topic", v, a, "none", 0)
		s.add("to no partition", v, a, "t", 0, 9)
		s.add("without an id", v, prod{pid: a.pid, epoch: a.epoch}, "t", 0)
	}
	for v := int16(0); v <= 4; v++ {
		s.end("what was not begun", v, a, true)
		s.end("what was not begun, with an abort", v, a, false)
		s.end("a stranger's", v, stranger, true)
		s.end("with an epoch ahead", v, newer, true)
		s.end("of an unknown id", v, nobody, true)
		s.end("without an id", v, prod{pid: a.pid}, true)
	}
	for _, v := range []int16{3, 7, 9, 10, 11} {
		s.write("without having added", v, a, "t", 0, 0, "lost")
		s.write("without a transactional id", v, prod{pid: a.pid, epoch: a.epoch}, "t", 0, 0, "lost")
		s.write("of an unknown id", v, nobody, "t", 0, 0, "lost")
		s.write("of a stranger", v, stranger, "t", 0, 0, "lost")
		s.write("with an epoch ahead", v, newer, "t", 0, 0, "lost")
	}
	s.add("0 and 1", 3, a, "t", 0, 1)
	s.add("0 again", 3, a, "t", 0)
	s.verify("0, 1 and 2", a, "t", 0, 1, 2)
	s.verify("of a stranger", stranger, "t", 0)
	s.verify("with an epoch ahead", newer, "t", 0)
	s.describe("what is open", "a")
	for i, v := range []int16{3, 9, 11} {
		s.write("what was added", v, a, "t", 0, int32(i), fmt.Sprint("v", i))
		s.write("what was added, repeated", v, a, "t", 0, int32(i), fmt.Sprint("v", i))
		s.write("beside what was added", v, a, "t", 2, 0, "lost")
	}
	s.write("a gap", 11, a, "t", 0, 7, "lost")
	s.produce("without a transaction amid it", 11, "t", 0, -1, idempotent(a.pid, a.epoch, 3, "lost"))
	s.produce("of somebody else", 11, "t", 0, -1, plain("plain"))
	s.read("while it is open", "t", 0, 1)
	s.read("while it is open, without isolation", "t", 0, 0)
	s.stable("while it is open", "t", 0)
	s.producers("while it is open", "t", 0, 1, 9)
	s.end("with a commit", 3, a, true)
	s.end("with a commit, repeated", 3, a, true)
	s.end("with an abort after the commit", 3, a, false)
	s.describe("what was committed", "a")
	s.waitStable("t", 0)
	s.read("after the commit", "t", 0, 1)
	s.stable("after the commit", "t", 0)
	s.stable("where nothing was written", "t", 1)
	s.producers("after the commit", "t", 0, 1)
	s.write("after the end", 11, a, "t", 0, 3, "lost")
	s.add("0 once more", 0, a, "t", 0)
	s.write("an aborted one", 9, a, "t", 0, 3, "aborted")
	s.end("with an abort", 0, a, false)
	s.end("with an abort, repeated", 0, a, false)
	s.end("with a commit after the abort", 1, a, true)
	s.waitStable("t", 0)
	s.read("after the abort", "t", 0, 1)
	s.describe("what was aborted", "a")

	// Offsets in the older flow.
	for v := int16(0); v <= 4; v++ {
		s.commit("without having added", v, a, "g", "", -1, "t", 0, 5)
		s.commit("of a stranger", v, stranger, "g", "", -1, "t", 0, 5)
		s.commit("with an epoch ahead", v, newer, "g", "", -1, "t", 0, 5)
		s.commit("of an unknown id", v, nobody, "g", "", -1, "t", 0, 5)
		s.addOffsets("of a stranger", v, stranger, "g")
		s.addOffsets("with an epoch ahead", v, newer, "g")
		s.addOffsets("of an unknown id", v, nobody, "g")
		s.addOffsets("without an id", v, prod{pid: a.pid}, "g")
	}
	s.addOffsets("of no group", 3, a, "")
	for v := int16(0); v <= 4; v++ {
		s.addOffsets("of g", v, a, "g")
		s.commit("what counts later", v, a, "g", "", -1, "t", 0, int64(10+v))
		s.commit("to no topic", v, a, "g", "", -1, "none", 0, 5)
		s.commit("to no partition", v, a, "g", "", -1, "t", 9, 5)
	}
	s.commit("of a member that there is not", 3, a, "g", "nobody", 1, "t", 0, 5)
	s.addOffsets("of h", 3, a, "h")
	s.commit("of a member that there is not, in no group", 3, a, "h", "nobody", 1, "t", 0, 5)
	s.commit("of a generation without a member", 3, a, "g", "", 1, "t", 0, 5)
	s.commit("of no group", 3, a, "", "", -1, "t", 0, 5)
	s.offsets("while they are open", "g", false)
	s.offsets("while they are open, stable ones", "g", true)
	s.end("with a commit of offsets", 3, a, true)
	s.settled("g")
	s.offsets("after the commit, stable ones", "g", true)
	s.addOffsets("once more", 3, a, "g")
	s.commit("what is aborted", 3, a, "g", "", -1, "t", 1, 99)
	s.offsets("of an abort, while open", "g", true)
	s.end("with an abort of offsets", 3, a, false)
	s.settled("g")
	s.offsets("after the abort", "g", true)

	// The newer flow.
	b := s.init("of b", 5, "b", -1, -1, 60_000)
	old := b
	s.end("nothing, with a commit", 5, b, true)
	b = s.end("nothing, with an abort", 5, b, false)
	s.end("nothing, with an abort, repeated", 5, old, false)
	s.end("nothing, with a commit, repeated", 5, old, true)
	s.write("the first", 12, b, "u", 0, 0, "one")
	s.write("the first, repeated", 12, b, "u", 0, 0, "one")
	s.write("another partition", 12, b, "t", 2, 0, "one")
	s.write("with an old epoch", 12, old, "u", 0, 1, "lost")
	// Not to u: where a producer has a transaction open, Kafka does not look at the transactional id.
	s.write("without a transactional id", 12, prod{pid: b.pid, epoch: b.epoch}, "t", 1, 0, "lost")
	s.write("of an unknown id", 12, prod{id: "nobody" + s.run, pid: b.pid, epoch: b.epoch}, "t", 1, 0, "lost")
	s.write("of a stranger", 12, prod{id: b.id, pid: b.pid + 100_000, epoch: b.epoch}, "t", 1, 0, "lost")
	s.write("to no topic", 12, b, "none", 0, 0, "lost")
	s.describe("what is open in the newer flow", "b")
	s.commit("with an old epoch", 5, old, "n", "", -1, "t", 0, 7)
	s.commit("of a stranger", 5, prod{id: b.id, pid: b.pid + 100_000, epoch: b.epoch}, "n", "", -1, "t", 0, 7)
	s.commit("of an unknown id", 5, prod{id: "nobody" + s.run, pid: b.pid, epoch: b.epoch}, "n", "", -1, "t", 0, 7)
	s.commit("in the newer flow", 5, b, "n", "", -1, "t", 0, 7)
	s.end("with an epoch ahead", 5, prod{b.id, b.pid, b.epoch + 1}, true)
	s.end("with an old epoch", 5, prod{b.id, b.pid, b.epoch - 1}, true)
	s.end("a stranger's", 5, prod{b.id, b.pid + 100_000, b.epoch}, true)
	old = b
	b = s.end("the newer flow", 5, b, true)
	s.end("the newer flow, repeated", 5, old, true)
	s.end("the newer flow with an abort after the commit", 5, old, false)
	s.waitStable("u", 0)
	s.settled("n")
	s.read("after the newer flow", "u", 0, 1)
	s.producers("after the newer flow", "u", 0)
	s.offsets("after the newer flow", "n", true)
	s.write("with the epoch that has ended", 12, old, "u", 0, 1, "lost")
	s.write("with a sequence that goes on", 12, b, "u", 0, 1, "lost")
	s.write("the second", 12, b, "u", 0, 0, "two")
	old = b
	b = s.end("the second, with an abort", 5, b, false)
	s.end("the second, repeated", 5, old, false)
	s.end("the second, with a commit after the abort", 5, old, true)
	s.end("with a commit of nothing", 5, b, true)
	b = s.end("with an abort of nothing", 5, b, false)
	s.waitStable("u", 0)
	s.read("after the second", "u", 0, 1)
	s.describe("after the newer flow", "b")

	// A producer that comes again aborts what it left open.
	s.write("what is left open", 12, b, "u", 0, 0, "left")
	c := s.init("of b, which left something open", 5, "b", -1, -1, 60_000)
	s.waitStable("u", 0)
	s.read("after it came again", "u", 0, 1)
	s.write("of the one before", 12, b, "u", 0, 1, "lost")
	s.end("of the one before", 5, b, true)
	s.end("of the one before", 3, b, true)
	s.write("of the new one", 12, c, "u", 0, 0, "new")
	s.end("of the new one", 5, c, true)

	// One that takes too long is aborted, and fenced.
	d := s.init("with a short timeout", 5, "d", -1, -1, 100)
	s.write("what takes too long", 12, d, "u", 0, 0, "late")
	within(t, 2*time.Minute, "it is aborted", func() bool {
		resp, err := (&kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{d.id}}).RequestWith(t.Context(), s.at("", 65, 0))
		return err == nil && resp.TransactionStates[0].State == "CompleteAbort"
	})
	s.write("after the timeout", 12, d, "u", 0, 1, "lost")
	s.end("after the timeout", 5, d, true)
	d = s.end("after the timeout, with an abort", 5, d, false)
	s.write("with the epoch that it got", 12, d, "u", 0, 0, "goes on")
	s.end("what goes on", 5, d, true)
	s.waitStable("u", 0)
	s.read("after the timeout", "u", 0, 1)

	// Administrators.
	s.listed("all", 0, func(*kmsg.ListTransactionsRequest) {})
	s.listed("by state", 1, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"CompleteAbort", "Nonsense"} })
	s.listed("by producer", 0, func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{a.pid} })
	s.listed("by age", 1, func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 3_600_000 })
	s.listed("by pattern", 2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = text("[ab].*") })
	s.listed("by a bad pattern", 2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = text("[ab") })
	for _, v := range []int16{1, 2} {
		s.marker("to no topic", v, a, "none", 0, 0)
		s.marker("to no partition", v, a, "t", 9, 0)
		s.marker("with an old epoch", v, prod{pid: b.pid, epoch: 0}, "u", 0, 1000)
	}
	return s.said
}

// waitStable waits until a partition has no open transaction: Kafka writes markers after its answer.
func (s *txnScript) waitStable(topic string, partition int32) {
	s.t.Helper()
	offset := func(isolation int8) int64 {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
		req := &kmsg.ListOffsetsRequest{ReplicaID: -1, IsolationLevel: isolation, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: topic + s.run, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}}
		resp, err := req.RequestWith(s.t.Context(), s.at("", 2, 7))
		if err != nil {
			s.t.Fatal(err)
		}
		return resp.Topics[0].Partitions[0].Offset
	}
	within(s.t, time.Minute, "nothing is open in "+topic, func() bool { return offset(0) == offset(1) })
}

// settled waits until a group has no offsets of an open transaction.
func (s *txnScript) settled(group string) {
	s.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group + s.run, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t" + s.run, Partitions: []int32{0, 1}}}}}
	within(s.t, time.Minute, "offsets are settled", func() bool {
		resp, err := req.RequestWith(s.t.Context(), s.at("", 9, 9))
		if err != nil {
			return false
		}
		for _, p := range resp.Groups[0].Topics[0].Partitions {
			if p.ErrorCode == kerr.UnstableOffsetCommit.Code {
				return false
			}
		}
		return true
	})
}

// otherTransactions are the answers about transactions that differ on purpose, each with its reason.
var otherTransactions = map[string]string{
	"list transactions by age": "ids without a transaction are not old transactions",
}

// TestTransactionsAnswerAsKafkaDoes runs the same script against our broker and Apache Kafka.
func TestTransactionsAnswerAsKafkaDoes(t *testing.T) {
	kafka := peers.Kafka(t)
	got := transactionScript(t, tcpLog(t).Addr())
	sameAsKafka(t, func() (differences []string) {
		want := transactionScript(t, kafka.Addr)
		if len(got) != len(want) {
			return []string{fmt.Sprintf("%d answers, Kafka gave %d", len(got), len(want))}
		}
		met := map[string]bool{}
		for i := range want {
			what, _, _ := strings.Cut(want[i], ": ")
			_, purpose := otherTransactions[what]
			switch {
			case got[i] == want[i]:
			case purpose:
				met[what] = true
			default:
				differences = append(differences, fmt.Sprintf("ours  %s\nKafka %s", got[i], want[i]))
			}
		}
		if len(met) != len(otherTransactions) {
			differences = append(differences, fmt.Sprintf("%d differences are listed, %d were met", len(otherTransactions), len(met)))
		}
		t.Logf("compared %d answers, %d differ on purpose", len(want), len(met))
		return differences
	})
}
