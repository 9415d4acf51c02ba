package broker

import (
	"errors"
	"fmt"
	"io"
	"net"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

// Connections on which nothing happens end; a silent client that waits for an answer is not idle, nor one that asks now
// and then.
func TestIdleConnectionsEnd(t *testing.T) {
	n := start(t, func(o *Options) { o.IdleTime = 2 * time.Second })
	n.topic("t", 1)
	silent, half, asks, waits := n.dial(), n.dial(), n.dial(), n.dial()
	ask[*kmsg.ApiVersionsResponse](silent, kmsg.NewPtrApiVersionsRequest(), 3)
	half.nc.Write([]byte{0, 0}) // of a size
	c := waits.send(n.fetchReq("t", 0, 0, 6*time.Second), 12)
	for begun := time.Now(); time.Since(begun) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
		ask[*kmsg.ApiVersionsResponse](asks, kmsg.NewPtrApiVersionsRequest(), 3)
	}
	for name, w := range map[string]*wireConn{"silent": silent, "in the middle of a size": half} {
		if !w.closed() {
			t.Errorf("who is %s is not closed", name)
		}
	}
	if err := waits.receive(c, kmsg.NewPtrFetchResponse(), 12); err != nil {
		t.Errorf("who waits for an answer: %v", err)
	}
	if got := n.srv.stats.idled.Load(); got != 1 {
		t.Errorf("%d connections were idle", got)
	}
	if strings.Contains(n.lg.String(), "idle") {
		t.Errorf("it is worth a line:\n%s", n.lg)
	}
}

func TestOneAddressHasItsLimit(t *testing.T) {
	n := start(t, func(o *Options) { o.MaxPerIP = 2 })
	a, b := n.dial(), n.dial()
	ask[*kmsg.ApiVersionsResponse](a, kmsg.NewPtrApiVersionsRequest(), 3)
	ask[*kmsg.ApiVersionsResponse](b, kmsg.NewPtrApiVersionsRequest(), 3)
	if !n.dial().closed() {
		t.Error("a third connection from one address was taken")
	}
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	nc, err := from.Dial("tcp", n.tcp)
	if err != nil {
		t.Skipf("no second address on this machine: %v", err)
	}
	defer nc.Close()
	ask[*kmsg.ApiVersionsResponse](&wireConn{t: t, nc: nc}, kmsg.NewPtrApiVersionsRequest(), 3)
	a.nc.Close()
	await(t, "the place of a closed connection is given away", func() bool {
		w := n.dial()
		defer w.nc.Close()
		return w.receive(w.send(kmsg.NewPtrApiVersionsRequest(), 3), kmsg.NewPtrApiVersionsResponse(), 3) == nil
	})
	if !strings.Contains(n.lg.String(), "too many are open from its address") {
		t.Error("the log does not say it")
	}
}

// Many readers who ask for megabytes and take nothing cost the budget and a small buffer each, and others are served.
func TestManySlowReadersTakeNoMemory(t *testing.T) {
	const readers, budget = 200, 4 << 20
	n := startOnDisk(t, func(o *Options) { o.AnswerBudget = budget })
	n.topic("t", 1)
	for range 8 {
		ask[*kmsg.ProduceResponse](n.dial(), n.produceReq("t", 0, -1, records(strings.Repeat("x", 900<<10))), 9)
	}
	var before, after memory
	goruntime.GC()
	before.read()
	for range readers {
		w := n.dial()
		w.nc.(*net.TCPConn).SetReadBuffer(4 << 10)
		for range 3 {
			w.send(n.fetchReq("t", 0, 0, 0), 12)
		}
	}
	await(t, "all readers are stuck", func() bool { return n.srv.stats.fetches.Load() >= readers })
	goruntime.GC()
	after.read()
	if held := after.live - before.live; held > 3*(budget+readers*(16<<10)) {
		t.Errorf("%d readers hold %d KiB", readers, held>>10)
	} else {
		t.Logf("%d readers hold %d KiB", readers, held>>10)
	}
	if got := n.srv.Stats().AnswerMemory; got > budget {
		t.Errorf("%d bytes of a budget of %d are in use", got, budget)
	}
	resp := ask[*kmsg.FetchResponse](n.dial(), n.fetchReq("t", 0, 0, 0), 12)
	if len(fetched1(t, resp).RecordBatches) < 900<<10 {
		t.Error("another reader is not served")
	}
}

// A client that asks for everything again and again and takes nothing holds one answer, not a queue of them; with many
// such clients a few answers are made at a time.
func TestAnswersThatNobodyTakesAreMadeOnce(t *testing.T) {
	const clients = 60
	n := start(t)
	n.topic("t", manyPartitions+100)
	var before, after memory
	goruntime.GC()
	before.read()
	for range clients {
		w := n.dial()
		w.nc.(*net.TCPConn).SetReadBuffer(4 << 10)
		for range 30 {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = nil
			w.nc.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := w.nc.Write(frame(req, 12, 1)); err != nil {
				break
			}
		}
	}
	await(t, "as many as may work do", func() bool {
		return len(n.srv.overTCP.large) == largeRequests || n.srv.stats.kind(wire.Metadata).received.Load() > clients*inFlight/2
	})
	goruntime.GC()
	after.read()
	t.Logf("%d clients hold %d KiB", clients, (after.live-before.live)>>10)
	if held := after.live - before.live; held > 3*(16<<20) {
		t.Errorf("%d clients hold %d KiB", clients, held>>10)
	}
	// Those within the process are apart.
	cl := n.client()
	if _, err := kmsg.NewPtrMetadataRequest().RequestWith(within(t), cl); err != nil {
		t.Error(err)
	}
}

// What large requests hold while they wait is given back.
func TestLargeFetchesGiveBackWhatTheyHold(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	req := n.fetchReq("t", 0, 0, 0)
	for i := range 3000 {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = int32(i+1), 1
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	if size := len(frame(req, 12, 1)); size <= largeRequest {
		t.Fatalf("%d bytes are not large", size)
	}
	w := n.dial()
	for range 20 {
		ask[*kmsg.FetchResponse](w, req, 12)
	}
	await(t, "nothing is held", func() bool { return n.srv.overTCP.waiting.Load() == 0 && len(n.srv.overTCP.large) == 0 })
	n.srv.overTCP.waiting.Store(waitingMemory) // as if many waited
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].Partition = 0
	}
	req.MaxWaitMillis, req.MinBytes = 60_000, 1
	w.send(req, 12)
	w.nc.SetReadDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.Copy(io.Discard, w.nc); err != nil && !errors.Is(err, syscall.ECONNRESET) { // an answer may come before the end
		t.Errorf("one more was taken: %v", err)
	}
	await(t, "the log says why", func() bool { return strings.Contains(n.lg.String(), "too many large requests wait") })
	ask[*kmsg.FetchResponse](n.dial(), n.fetchReq("t", 0, 0, 0), 12) // small ones go on
	await(t, "nothing more is held", func() bool { return n.srv.overTCP.waiting.Load() == waitingMemory })
}

// Peers that vanish in the middle of a request or of an answer end, and leave nothing behind.
func TestPeersThatVanish(t *testing.T) {
	n := startOnDisk(t)
	n.topic("t", 1)
	ask[*kmsg.ProduceResponse](n.dial(), n.produceReq("t", 0, -1, records(strings.Repeat("x", 900<<10))), 9)
	before := goruntime.NumGoroutine()
	for i := range 50 {
		w := n.dial()
		switch i % 5 {
		case 0:
			w.nc.Write([]byte{0, 0, 1})
		case 1:
			w.nc.Write([]byte{0, 0, 1, 0, 0, 3, 0, 12, 0})
		case 2:
			w.send(n.fetchReq("t", 0, 1<<20, time.Minute), 12) // parked
		case 3:
			for range 5 {
				w.send(n.fetchReq("t", 0, 0, 0), 12)
			}
			io.CopyN(io.Discard, w.nc, 100)
		case 4:
			full := frame(n.produceReq("t", 0, -1, records(strings.Repeat("x", 300<<10))), 9, 1)
			w.nc.Write(full[:len(full)/2])
		}
		if i%2 == 0 {
			w.nc.(*net.TCPConn).SetLinger(0) // a reset
		}
		w.nc.Close()
	}
	await(t, "no goroutine is left behind", func() bool { return goruntime.NumGoroutine() <= before+2 })
	await(t, "nothing is held", func() bool { // the last of them may still be on its way out
		st := n.srv.Stats()
		return st.RequestMemory == 0 && st.AnswerMemory == 0 && st.LargeRequests == 0
	})
	end := n.cat.Topic("t").Partition(0).End()
	if end != 1 {
		t.Errorf("half a request was carried out: the log ends at %d", end)
	}
}

func TestErrorsAreCountedWhereverTheyStand(t *testing.T) {
	var s stats
	meta := kmsg.NewPtrMetadataResponse()
	meta.Topics = []kmsg.MetadataResponseTopic{{ErrorCode: 3, Partitions: []kmsg.MetadataResponseTopicPartition{{ErrorCode: 5}, {}}}, {}}
	s.answer(wire.Header{Key: wire.Metadata}, meta)
	s.answer(wire.Header{Key: wire.Heartbeat}, &kmsg.HeartbeatResponse{ErrorCode: 25})
	s.answer(wire.Header{Key: wire.Heartbeat}, &kmsg.HeartbeatResponse{ErrorCode: 9999})
	s.answer(wire.Header{Key: wire.Heartbeat}, (*kmsg.HeartbeatResponse)(nil))
	got := ""
	for _, key := range []int16{wire.Metadata, wire.Heartbeat} {
		for i := range s.kind(key).codes {
			if n := s.kind(key).codes[i].Load(); n > 0 {
				got += fmt.Sprintf("%s %s %d\n", wire.Name(key), ErrorName(int16(i+firstCode)), n)
			}
		}
	}
	want := "Metadata NONE 3\nMetadata UNKNOWN_TOPIC_OR_PARTITION 1\nMetadata LEADER_NOT_AVAILABLE 1\nHeartbeat UNKNOWN_MEMBER_ID 1\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
