package broker

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// produceReq is a Produce request of these batches for one partition.
func (n *node) produceReq(topic string, partition int32, acks int16, batches ...batch.View) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	if t := n.cat.Topic(topic); t != nil {
		rt.TopicID = t.ID
	}
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition = partition
	for _, b := range batches {
		rp.Records = append(rp.Records, b...)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (n *node) fetchReq(topic string, partition int32, from int64, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(wait.Milliseconds()), 1, 50<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	if t := n.cat.Topic(topic); t != nil {
		rt.TopicID = t.ID
	}
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = partition, from, 1<<20, -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func records(values ...string) batch.View {
	rs := make([]batch.Record, len(values))
	for i, v := range values {
		rs[i] = batch.Record{Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: []byte(v)}
	}
	return batch.Build(batch.Options{}, rs...)
}

func produced1(t testing.TB, resp *kmsg.ProduceResponse) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("answer %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

func fetched1(t testing.TB, resp *kmsg.FetchResponse) kmsg.FetchResponseTopicPartition {
	t.Helper()
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("answer %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

func TestEveryVersionOfProduceAndFetchMovesTheSameBytes(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	var want []byte
	for v := int16(3); v <= 13; v++ {
		b := records(fmt.Sprint("version ", v), "second")
		p := produced1(t, ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, b), v))
		if p.ErrorCode != 0 || p.BaseOffset != int64(v-3)*2 {
			t.Fatalf("produce version %d: error %d, offset %d", v, p.ErrorCode, p.BaseOffset)
		}
		b.SetBaseOffset(p.BaseOffset)
		want = append(want, b...)
	}
	for v := int16(4); v <= 18; v++ {
		p := fetched1(t, ask[*kmsg.FetchResponse](w, n.fetchReq("t", 0, 0, 0), v))
		if p.ErrorCode != 0 || !bytes.Equal(p.RecordBatches, want) {
			t.Fatalf("fetch version %d: error %d, %d bytes, want %d", v, p.ErrorCode, len(p.RecordBatches), len(want))
		}
		if p.HighWatermark != 22 || p.LastStableOffset != 22 {
			t.Fatalf("fetch version %d: high watermark %d, last stable %d, want 22", v, p.HighWatermark, p.LastStableOffset)
		}
	}
}

func TestProduceRefusals(t *testing.T) {
	n := start(t)
	n.topic("t", 1, "max.message.bytes", "2000")
	n.topic("compacted", 1, "cleanup.policy", "compact")
	w := n.dial()
	corrupt := records("v")
	corrupt[len(corrupt)-1] ^= 1
	idem := func(seq int32) batch.View {
		return batch.Build(batch.Options{Producer: &batch.Producer{ID: 4711, Sequence: seq}}, batch.Record{Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
	}
	noKey := batch.Build(batch.Options{}, batch.Record{Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
	txn := batch.Build(batch.Options{Transactional: true, Producer: &batch.Producer{ID: 1}}, batch.Record{Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
	for name, c := range map[string]struct {
		req     *kmsg.ProduceRequest
		version int16
		want    int16
	}{
		"an unknown topic":                               {n.produceReq("none", 0, -1, records("v")), 9, 3},
		"an unknown topic id":                            {n.produceReq("none", 0, -1, records("v")), 13, 100},
		"an unknown partition":                           {n.produceReq("t", 7, -1, records("v")), 9, 3},
		"a negative partition":                           {n.produceReq("t", -1, -1, records("v")), 9, 3},
		"a wrong checksum":                               {n.produceReq("t", 0, -1, corrupt), 9, 2},
		"a batch that is cut off":                        {n.produceReq("t", 0, -1, records("v")[:65]), 9, 2},
		"bytes that are no batch":                        {n.produceReq("t", 0, -1, batch.View("no batch")), 9, 2},
		"no records":                                     {n.produceReq("t", 0, -1), 9, 87},
		"a batch above max.message.bytes":                {n.produceReq("t", 0, -1, records(strings.Repeat("x", 3000))), 9, 10},
		"a record without key in a compacted topic":      {n.produceReq("compacted", 0, -1, noKey), 9, 87},
		"acks of 2":                                      {n.produceReq("t", 0, 2, records("v")), 9, 21},
		"a version that is announced for detection only": {n.produceReq("t", 0, -1, records("v")), 2, 35},
		"a topic of the broker's own":                    {n.produceReq("__consumer_offsets", 0, -1, records("v")), 9, 17},
		"the catalogue":                                  {n.produceReq("__embedded_meta", 0, -1, records("v")), 9, 3},
		"two batches of an idempotent producer":          {n.produceReq("t", 0, -1, idem(0), idem(1)), 9, 87},
		"a sequence that begins with a gap":              {n.produceReq("t", 0, -1, idem(5)), 9, 45},
		"a transaction":                                  {n.produceReq("t", 0, -1, txn), 9, 53},
	} {
		t.Run(name, func(t *testing.T) {
			p := produced1(t, ask[*kmsg.ProduceResponse](w, c.req, c.version))
			if p.ErrorCode != c.want || p.BaseOffset != -1 {
				t.Errorf("error %d, offset %d; want %d, -1", p.ErrorCode, p.BaseOffset, c.want)
			}
			if c.version >= 8 && (p.ErrorMessage == nil || *p.ErrorMessage == "") {
				t.Error("no reason is given")
			}
		})
	}
	if end := n.cat.Topic("t").Partition(0).End(); end != 0 {
		t.Errorf("%d records were written by refused requests", end)
	}
}

func TestOnePartitionsRefusalLeavesTheOthers(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	n.topic("b", 1)
	req := n.produceReq("a", 0, -1, records("v"))
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, n.produceReq("a", 9, -1, records("v")).Topics[0].Partitions...)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, n.produceReq("a", 1, -1, records("v", "w")).Topics[0].Partitions...)
	req.Topics = append(req.Topics, n.produceReq("b", 0, -1, records("v")).Topics...)
	resp := ask[*kmsg.ProduceResponse](n.dial(), req, 9)
	got := ""
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			got += fmt.Sprintf("%s-%d:%d ", rt.Topic, p.Partition, p.ErrorCode)
		}
	}
	if want := "a-0:0 a-9:3 a-1:0 b-0:0 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAcksZero(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	w.send(n.produceReq("t", 0, 0, records("v")), 9)
	// No answer comes for it: the next one is to the next request.
	if resp := ask[*kmsg.ListOffsetsResponse](w, latest("t"), 4); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	if end := n.cat.Topic("t").Partition(0).End(); end != 1 {
		t.Errorf("log end %d, want 1", end)
	}
	w.send(n.produceReq("none", 0, 0, records("v")), 9)
	if !w.closed() {
		t.Error("a refused produce without acknowledgement did not close the connection")
	}
}

func latest(topic string) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp, rp.CurrentLeaderEpoch = -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// gate holds syncs of a topic's segments until it is opened, and counts them.
type gate struct {
	topic string
	open  chan struct{}
	begun chan struct{}

	mu    sync.Mutex // guards count
	count int
}

func (n *node) gate(topic string) *gate {
	g := &gate{topic: topic, open: make(chan struct{}), begun: make(chan struct{}, 1000)}
	n.hold.Store(g)
	return g
}

func (g *gate) sync(name string) {
	if g == nil || !strings.Contains(name, "/"+g.topic+"-") || !strings.HasSuffix(name, ".log") {
		return
	}
	g.mu.Lock()
	g.count++
	g.mu.Unlock()
	g.begun <- struct{}{}
	<-g.open
}

// gateFS asks the gate before it syncs a file.
type gateFS struct {
	vfs.FS
	hold *atomic.Pointer[gate]
}

type gateFile struct {
	vfs.File
	hold *atomic.Pointer[gate]
}

func (f gateFS) Create(name string) (vfs.File, error)    { return f.wrap(f.FS.Create(name)) }
func (f gateFS) OpenWrite(name string) (vfs.File, error) { return f.wrap(f.FS.OpenWrite(name)) }

func (f gateFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return gateFile{file, f.hold}, nil
}

func (f gateFile) Sync() error {
	f.hold.Load().sync(f.Name())
	return f.File.Sync()
}

func (g *gate) syncs() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

func TestNothingIsAcknowledgedOrShownBeforeItIsDurable(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	g := n.gate("t")
	w, r := n.dial(), n.dial()
	c := w.send(n.produceReq("t", 0, -1, records("v")), 9)
	<-g.begun
	if p := fetched1(t, ask[*kmsg.FetchResponse](r, n.fetchReq("t", 0, 0, 50*time.Millisecond), 12)); len(p.RecordBatches) != 0 || p.HighWatermark != 0 {
		t.Errorf("%d bytes and high watermark %d were shown before the sync", len(p.RecordBatches), p.HighWatermark)
	}
	w.nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if m, _ := w.nc.Read(make([]byte, 1)); m != 0 {
		t.Fatal("the answer came before the sync")
	}
	close(g.open)
	resp := kmsg.NewPtrProduceResponse()
	if err := w.receive(c, resp, 9); err != nil {
		t.Fatal(err)
	}
	if p := produced1(t, resp); p.ErrorCode != 0 {
		t.Errorf("error %d", p.ErrorCode)
	}
	if p := fetched1(t, ask[*kmsg.FetchResponse](r, n.fetchReq("t", 0, 0, time.Minute), 12)); len(p.RecordBatches) == 0 || p.HighWatermark != 1 {
		t.Errorf("%d bytes and high watermark %d after the sync", len(p.RecordBatches), p.HighWatermark)
	}
}

func TestAcksOneIsAnsweredAfterTheWrite(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	g := n.gate("t")
	defer close(g.open)
	w := n.dial()
	if p := produced1(t, ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, 1, records("v")), 9)); p.ErrorCode != 0 {
		t.Errorf("error %d", p.ErrorCode)
	}
}

func TestRequestsInFlightShareASync(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	g := n.gate("t")
	w := n.dial()
	const inFlight = 6
	var cs []int32
	for i := range inFlight {
		cs = append(cs, w.send(n.produceReq("t", 0, -1, records(fmt.Sprint(i))), 9))
	}
	// All of them are written while the first sync runs.
	p := n.cat.Topic("t").Partition(0)
	for p.End() < inFlight {
		time.Sleep(time.Millisecond)
	}
	close(g.open)
	for i, c := range cs {
		resp := kmsg.NewPtrProduceResponse()
		if err := w.receive(c, resp, 9); err != nil {
			t.Fatal(err)
		}
		if got := produced1(t, resp); got.ErrorCode != 0 || got.BaseOffset != int64(i) {
			t.Errorf("request %d: error %d, offset %d", i, got.ErrorCode, got.BaseOffset)
		}
	}
	if s := g.syncs(); s > 2 {
		t.Errorf("%d syncs for %d requests in flight, want 2", s, inFlight)
	}
}

func TestFailedSyncIsNotAnswered(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	n.fs.Inject(func(op vfs.Op, name string) *vfs.Fault {
		if op == vfs.OpSync && strings.Contains(name, "/t-0/") {
			return &vfs.Fault{Err: fmt.Errorf("input/output error")}
		}
		return nil
	})
	w := n.dial()
	w.send(n.produceReq("t", 0, -1, records("v")), 9)
	if !w.closed() {
		t.Error("a produce whose sync failed was answered")
	}
	p := produced1(t, ask[*kmsg.ProduceResponse](n.dial(), n.produceReq("t", 0, -1, records("v")), 9))
	if p.ErrorCode != kerr.KafkaStorageError.Code {
		t.Errorf("afterwards: error %d, want %d", p.ErrorCode, kerr.KafkaStorageError.Code)
	}
	n.fs.Inject(nil)
	n.t = ignoreErrors{t} // the store reports at Close that it is offline
	n.stop()
}

// ignoreErrors is for what a test breaks on purpose.
type ignoreErrors struct{ testing.TB }

func (ignoreErrors) Error(...any) {}

func TestParkedFetch(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.topic("b", 1)
	both := n.fetchReq("a", 0, 0, time.Minute)
	both.Topics = append(both.Topics, n.fetchReq("b", 0, 0, 0).Topics...)
	t.Run("is woken by any of its partitions", func(t *testing.T) {
		r, w := n.dial(), n.dial()
		c := r.send(both, 12)
		begin := time.Now()
		ask[*kmsg.ProduceResponse](w, n.produceReq("b", 0, -1, records("v")), 9)
		resp := kmsg.NewPtrFetchResponse()
		if err := r.receive(c, resp, 12); err != nil {
			t.Fatal(err)
		}
		if len(resp.Topics) != 2 || len(resp.Topics[1].Partitions[0].RecordBatches) == 0 {
			t.Errorf("%+v", resp)
		}
		if d := time.Since(begin); d > 30*time.Second {
			t.Errorf("woken after %v", d)
		}
	})
	t.Run("ends when its time is over", func(t *testing.T) {
		begin := time.Now()
		p := fetched1(t, ask[*kmsg.FetchResponse](n.dial(), n.fetchReq("a", 0, 0, 100*time.Millisecond), 12))
		if d := time.Since(begin); len(p.RecordBatches) != 0 || p.ErrorCode != 0 || d < 100*time.Millisecond {
			t.Errorf("after %v: error %d, %d bytes", d, p.ErrorCode, len(p.RecordBatches))
		}
	})
	t.Run("waits for the least number of bytes", func(t *testing.T) {
		r, w := n.dial(), n.dial()
		req := n.fetchReq("a", 0, 0, time.Minute)
		req.MinBytes = 150
		c := r.send(req, 12)
		for range 2 {
			ask[*kmsg.ProduceResponse](w, n.produceReq("a", 0, -1, records("v")), 9)
		}
		ask[*kmsg.ProduceResponse](w, n.produceReq("a", 0, -1, records("v")), 9)
		resp := kmsg.NewPtrFetchResponse()
		if err := r.receive(c, resp, 12); err != nil {
			t.Fatal(err)
		}
		if got := len(fetched1(t, resp).RecordBatches); got < 150 {
			t.Errorf("%d bytes, want at least 150", got)
		}
	})
	t.Run("ends when its topic is deleted", func(t *testing.T) {
		r := n.dial()
		req := n.fetchReq("b", 0, 1, time.Minute)
		c := r.send(req, 12)
		for n.srv.stats.kind(1).received.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		del := kmsg.NewPtrDeleteTopicsRequest()
		del.TopicNames = []string{"b"}
		ask[*kmsg.DeleteTopicsResponse](n.dial(), del, 4)
		resp := kmsg.NewPtrFetchResponse()
		if err := r.receive(c, resp, 12); err != nil {
			t.Fatal(err)
		}
		if p := fetched1(t, resp); p.ErrorCode != 3 {
			t.Errorf("error %d, want 3", p.ErrorCode)
		}
	})
	t.Run("does not hold up the end of the server", func(t *testing.T) {
		r := n.dial()
		c := r.send(n.fetchReq("a", 0, 3, time.Hour), 12)
		time.Sleep(10 * time.Millisecond) // it may be parked or not: both must end
		begin := time.Now()
		n.stop()
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("the end took %v", d)
		}
		_ = r.receive(c, kmsg.NewPtrFetchResponse(), 12) // answered empty, or closed
	})
}

func TestFetchLimits(t *testing.T) {
	n := start(t)
	n.topic("t", 2)
	w := n.dial()
	size := 0
	for p := range int32(2) {
		for range 3 {
			b := records(strings.Repeat("x", 1000))
			size = len(b)
			ask[*kmsg.ProduceResponse](w, n.produceReq("t", p, -1, b), 9)
		}
	}
	for name, c := range map[string]struct {
		request, partition int32
		want               []int // batches per partition
	}{
		"the first batch comes even if it is larger than every limit": {1, 1, []int{1, 0}},
		"a partition's limit":                   {1 << 20, int32(2*size + 1), []int{2, 2}},
		"the request's limit ends the sum":      {int32(4 * size), 1 << 20, []int{3, 1}},
		"no limit is reached":                   {1 << 20, 1 << 20, []int{3, 3}},
		"limits of zero still give one batch":   {0, 0, []int{1, 0}},
		"negative limits still give one batch ": {-1, -1, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			req := n.fetchReq("t", 0, 0, 0)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, n.fetchReq("t", 1, 0, 0).Topics[0].Partitions...)
			req.MaxBytes = c.request
			for i := range req.Topics[0].Partitions {
				req.Topics[0].Partitions[i].PartitionMaxBytes = c.partition
			}
			resp := ask[*kmsg.FetchResponse](w, req, 12)
			for i, p := range resp.Topics[0].Partitions {
				if len(p.RecordBatches) != c.want[i]*size {
					t.Errorf("partition %d: %d bytes, want %d batches of %d", i, len(p.RecordBatches), c.want[i], size)
				}
			}
		})
	}
}

func TestFetchErrors(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, records("a", "b")), 9)
	epoch := n.cat.Topic("t").Partition(0).LeaderEpoch()
	for name, c := range map[string]struct {
		change  func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)
		version int16
		want    int16
	}{
		"an offset beyond the end":     {func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 3 }, 12, 1},
		"a negative offset":            {func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -5 }, 12, 1},
		"the end itself is no error":   {func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 2 }, 12, 0},
		"an unknown partition":         {func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 5 }, 12, 3},
		"an unknown topic":             {func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.Topics[0].Topic = "none" }, 12, 3},
		"an unknown topic id":          {func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.Topics[0].TopicID = [16]byte{9} }, 13, 100},
		"a leader epoch from the past": {func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = epoch - 1 }, 12, ifElse(epoch > 0, 74, 0)},
		"a leader epoch not yet known": {func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = epoch + 1 }, 12, 75},
	} {
		t.Run(name, func(t *testing.T) {
			req := n.fetchReq("t", 0, 0, 0)
			c.change(req, &req.Topics[0].Partitions[0])
			if p := fetched1(t, ask[*kmsg.FetchResponse](w, req, c.version)); p.ErrorCode != c.want {
				t.Errorf("error %d, want %d", p.ErrorCode, c.want)
			}
		})
	}
	t.Run("a session that was never given", func(t *testing.T) {
		req := n.fetchReq("t", 0, 0, 0)
		req.SessionID, req.SessionEpoch = 5, 1
		if resp := ask[*kmsg.FetchResponse](w, req, 12); resp.ErrorCode != 70 {
			t.Errorf("error %d, want 70", resp.ErrorCode)
		}
	})
	t.Run("an epoch that ended earlier", func(t *testing.T) {
		req := n.fetchReq("t", 0, 2, 0)
		req.Topics[0].Partitions[0].LastFetchedEpoch = epoch + 3
		p := fetched1(t, ask[*kmsg.FetchResponse](w, req, 12))
		if p.DivergingEpoch.Epoch < 0 && p.DivergingEpoch.EndOffset < 0 && p.ErrorCode == 0 && epoch >= 0 {
			t.Logf("no divergence is told for an epoch the log has never had: %+v", p.DivergingEpoch)
		}
	})
}

func ifElse(c bool, a, b int16) int16 {
	if c {
		return a
	}
	return b
}

// What clients wrote comes back whole, over either transport, whatever the codec and the size.
func TestClientsReadWhatTheyWrote(t *testing.T) {
	n := start(t)
	for name, transport := range n.transports() {
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			t.Run(fmt.Sprintf("%s, codec %v", name, codec), func(t *testing.T) {
				topic := strings.NewReplacer(" ", "-", "{", "", "}", "").Replace(fmt.Sprintf("%s-%v", name, codec))
				n.topic(topic, 3)
				p := newClient(t, append(transport, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(8<<20))...)
				want := map[string]string{}
				var rs []*kgo.Record
				for i := range 500 {
					k, v := fmt.Sprint("key-", i), strings.Repeat(fmt.Sprint(i), 1+i%700)
					if i == 250 {
						v = strings.Repeat("large ", 1<<20)
					}
					want[k] = v
					rs = append(rs, &kgo.Record{Key: []byte(k), Value: []byte(v), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(k)}}})
				}
				if err := p.ProduceSync(within(t), rs...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				c := newClient(t, append(transport, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
				next := map[int32]int64{}
				for ctx := within(t); len(want) > 0; {
					fs := c.PollFetches(ctx)
					if err := fs.Err(); err != nil {
						t.Fatal(err)
					}
					fs.EachRecord(func(r *kgo.Record) {
						if want[string(r.Key)] != string(r.Value) || len(r.Headers) != 1 || string(r.Headers[0].Value) != string(r.Key) {
							t.Errorf("record %s has %d bytes, want %d, or a wrong header", r.Key, len(r.Value), len(want[string(r.Key)]))
						}
						if r.Offset != next[r.Partition] {
							t.Errorf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[r.Partition])
						}
						next[r.Partition]++
						delete(want, string(r.Key))
					})
				}
			})
		}
	}
}

// A connection that breaks between append and acknowledgement leaves the client in doubt; its retry
// must neither be lost nor stored twice.
func TestRetryAfterABrokenConnectionIsStoredOnce(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	g := n.gate("t")
	b := batch.Build(batch.Options{Producer: &batch.Producer{ID: 1000}}, batch.Record{Key: []byte("k"), Value: []byte("once"), Timestamp: time.Now().UnixMilli()})
	w := n.dial()
	w.send(n.produceReq("t", 0, -1, b), 9)
	<-g.begun
	w.nc.Close()
	// The retry overtakes the sync of the original, and must wait for it.
	w = n.dial()
	c := w.send(n.produceReq("t", 0, -1, b), 9)
	w.nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if m, _ := w.nc.Read(make([]byte, 1)); m != 0 {
		t.Fatal("the retry was answered before the original was durable")
	}
	close(g.open)
	resp := kmsg.NewPtrProduceResponse()
	if err := w.receive(c, resp, 9); err != nil {
		t.Fatal(err)
	}
	if p := produced1(t, resp); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("the retry got error %d, offset %d", p.ErrorCode, p.BaseOffset)
	}
	if end := n.cat.Topic("t").Partition(0).End(); end != 1 {
		t.Errorf("log end %d: the batch was stored %d times", end, end)
	}
}

// A peer that does not read its answer holds a connection, not the broker.
func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	for range 20 {
		ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, records(strings.Repeat("x", 1<<20))), 9)
	}
	for range 10 {
		slow := n.dial()
		for range 4 {
			req := n.fetchReq("t", 0, 0, 0)
			req.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
			slow.send(req, 12)
		}
	}
	p := newClient(t, kgo.SeedBrokers(n.tcp), kgo.DefaultProduceTopic("t"))
	for range 20 {
		if err := p.ProduceSync(within(t), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	n.srv.Close(ctx) // their answers cannot be written: the end is by force
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("the end took %v", d)
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	fs := vfs.NewMem()
	n := startOn(t, fs)
	n.topic("t", 2, "retention.ms", "-1")
	w := n.dial()
	ask[*kmsg.ProduceResponse](w, n.produceReq("t", 1, -1, records("a", "b")), 9)
	id, cluster := n.cat.Topic("t").ID, n.cat.ClusterID()
	first, err := n.cat.ProducerID()
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	n = startOn(t, fs)
	topic := n.cat.Topic("t")
	if topic == nil || topic.ID != id || topic.Partitions() != 2 || topic.Configs["retention.ms"] != "-1" {
		t.Fatalf("after the restart: %+v", topic)
	}
	if n.cat.ClusterID() != cluster {
		t.Errorf("cluster id %s, was %s", n.cat.ClusterID(), cluster)
	}
	if second, err := n.cat.ProducerID(); err != nil || second <= first {
		t.Errorf("producer id %d after %d, %v", second, first, err)
	}
	p := fetched1(t, ask[*kmsg.FetchResponse](n.dial(), n.fetchReq("t", 1, 0, 0), 12))
	if p.HighWatermark != 2 || len(p.RecordBatches) == 0 {
		t.Errorf("high watermark %d, %d bytes", p.HighWatermark, len(p.RecordBatches))
	}
	if p := produced1(t, ask[*kmsg.ProduceResponse](n.dial(), n.produceReq("t", 1, -1, records("c")), 9)); p.BaseOffset != 2 {
		t.Errorf("the next offset is %d, want 2", p.BaseOffset)
	}
}

// A full disk refuses records with a code that means that nothing was written, and takes them again
// when there is space.
func TestFullDisk(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	w := n.dial()
	b := records(strings.Repeat("x", 64<<10))
	n.fs.SetCapacity(8 << 20)
	stored := int64(0)
	for {
		p := produced1(t, ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, b), 9))
		if p.ErrorCode == kerr.KafkaStorageError.Code {
			break
		}
		if p.ErrorCode != 0 || p.BaseOffset != stored {
			t.Fatalf("error %d, offset %d after %d", p.ErrorCode, p.BaseOffset, stored)
		}
		if stored++; stored > 1000 {
			t.Fatal("the disk is never full")
		}
	}
	if stored == 0 {
		t.Fatal("nothing was stored")
	}
	if p := fetched1(t, ask[*kmsg.FetchResponse](n.dial(), n.fetchReq("t", 0, stored-1, 0), 12)); p.ErrorCode != 0 || p.HighWatermark != stored || len(p.RecordBatches) == 0 {
		t.Errorf("a reader got error %d, high watermark %d of %d", p.ErrorCode, p.HighWatermark, stored)
	}
	n.fs.SetCapacity(1 << 40)
	if p := produced1(t, ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, b), 9)); p.ErrorCode != 0 || p.BaseOffset != stored {
		t.Errorf("with space again: error %d, offset %d, want %d", p.ErrorCode, p.BaseOffset, stored)
	}
}

// Peers that begin a request and fall silent hold neither the budget nor others up.
func TestHalfSentRequestsHoldNobodyUp(t *testing.T) {
	n := start(t, func(o *Options) { o.RequestBudget = 1 << 20 })
	n.topic("t", 1)
	large := frame(n.produceReq("t", 0, -1, records(strings.Repeat("x", 900<<10))), 9, 1)
	for range 20 {
		w := n.dial()
		if _, err := w.nc.Write(large[:600<<10]); err != nil {
			t.Fatal(err)
		}
	}
	// Small requests pass by the budget.
	w := n.dial()
	for range 5 {
		if p := produced1(t, ask[*kmsg.ProduceResponse](w, n.produceReq("t", 0, -1, records("v")), 9)); p.ErrorCode != 0 {
			t.Errorf("error %d", p.ErrorCode)
		}
	}
}

// Requests far larger than the budget all get through, one at a time.
func TestLargeRequestsTakeTurns(t *testing.T) {
	n := start(t, func(o *Options) { o.RequestBudget = 1 << 20 })
	n.topic("t", 1)
	var wg sync.WaitGroup
	for range 6 {
		w := n.dial()
		req := frame(n.produceReq("t", 0, -1, records(strings.Repeat("x", 6<<20))), 9, 1)
		wg.Go(func() {
			if _, err := w.nc.Write(req); err != nil {
				t.Error(err)
				return
			}
			resp := kmsg.NewPtrProduceResponse()
			if err := w.receive(1, resp, 9); err != nil {
				t.Error(err)
			} else if c := resp.Topics[0].Partitions[0].ErrorCode; c != 0 {
				t.Errorf("error %d", c)
			}
		})
	}
	wg.Wait()
	if end := n.cat.Topic("t").Partition(0).End(); end != 6 {
		t.Errorf("%d records, want 6", end)
	}
}
