package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
	"millrace/log/internal/memconn"
)

func ptr[T any](v T) *T { return &v }

// frameOf is a request as a client sends it.
func frameOf(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 77)
	b = binary.BigEndian.AppendUint16(b, 4)
	b = append(b, "test"...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestVersionTableStaysWithinTheCodec(t *testing.T) {
	for _, a := range ranges {
		req := kmsg.RequestForKey(a.Key)
		if req == nil {
			t.Errorf("kind %d is unknown to the codec", a.Key)
			continue
		}
		if a.Max > req.MaxVersion() {
			t.Errorf("%s: we announce %d, the codec ends at %d", Name(a.Key), a.Max, req.MaxVersion())
		}
		if a.Min > a.Max {
			t.Errorf("%s: %d to %d", Name(a.Key), a.Min, a.Max)
		}
		row, ok := Lookup(a.Key)
		for v := a.Min; v <= a.Max; v++ {
			req.SetVersion(v)
			if !ok || row.IsFlexible(v) != req.IsFlexible() {
				t.Errorf("%s version %d: flexible %v, want %v", Name(a.Key), v, row.IsFlexible(v), req.IsFlexible())
			}
		}
	}
}

func TestHeaderOfEveryServedVersion(t *testing.T) {
	for _, a := range ranges {
		for v := a.Min; v <= a.Max; v++ {
			b := frameOf(kmsg.RequestForKey(a.Key), v)
			h, body, err := ParseHeader(b[4:], "")
			if err != nil {
				t.Fatalf("%s version %d: %v", Name(a.Key), v, err)
			}
			if h.Key != a.Key || h.Version != v || h.Correlation != 77 || h.ClientID != "test" {
				t.Fatalf("%s version %d: %+v", Name(a.Key), v, h)
			}
			want := kmsg.RequestForKey(a.Key)
			want.SetVersion(v)
			if !bytes.Equal(body, want.AppendTo(nil)) {
				t.Fatalf("%s version %d: body %x", Name(a.Key), v, body)
			}
			// Every cut of the header is an error, never a panic.
			for n := range len(b) - 4 - len(body) {
				if _, _, err := ParseHeader(b[4:4+n], ""); err == nil {
					t.Fatalf("%s version %d: header cut to %d bytes was taken", Name(a.Key), v, n)
				}
			}
		}
	}
}

func TestProduceRequestEqualsTheCodec(t *testing.T) {
	for v := int16(0); v <= 13; v++ {
		req := kmsg.NewPtrProduceRequest()
		req.Acks = -1
		if v >= 3 {
			req.TransactionID = ptr("txn")
		}
		for i, name := range []string{"a", "topic-b"} {
			rt := kmsg.NewProduceRequestTopic()
			if rt.Topic = name; v >= 13 {
				rt.Topic, rt.TopicID = "", [16]byte{byte(i + 1)}
			}
			for p, records := range [][]byte{[]byte("records"), nil, {}} {
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = int32(p), records
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		_, body, err := ParseHeader(frameOf(req, v)[4:], "")
		if err != nil {
			t.Fatal(err)
		}
		var got ProduceRequest
		if err := got.Parse(v, body); err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		if (string(got.TransactionalID) == "txn") != (v >= 3) || got.Acks != -1 || len(got.Topics) != 2 || len(got.Parts) != 6 {
			t.Fatalf("version %d: %+v", v, got)
		}
		for i, gt := range got.Topics {
			if string(gt.Name) != req.Topics[i].Topic || gt.ID != req.Topics[i].TopicID {
				t.Errorf("version %d: topic %q %x", v, gt.Name, gt.ID)
			}
			for j, gp := range got.Parts[gt.From:gt.To] {
				want := req.Topics[i].Partitions[j]
				if gp.Partition != want.Partition || !bytes.Equal(gp.Records, want.Records) {
					t.Errorf("version %d: partition %+v, want %+v", v, gp, want)
				}
			}
		}
		for n := range body {
			if err := got.Parse(v, body[:n]); err == nil {
				t.Fatalf("version %d: body cut to %d of %d bytes was taken", v, n, len(body))
			}
		}
	}
}

func TestProduceAnswerEqualsTheCodec(t *testing.T) {
	topics := []ProduceTopic{{Name: []byte("a"), ID: [16]byte{1}, To: 2}, {Name: []byte("topic-b"), ID: [16]byte{2}, From: 2, To: 3}}
	parts := []Produced{
		{Partition: 0, Base: 5, LogAppendTime: -1, LogStart: 2},
		{Partition: 3, Code: 87, Base: -1, LogAppendTime: -1, LogStart: -1, Reason: "no key"},
		{Partition: 1, Base: 1 << 40, LogAppendTime: 1234, LogStart: 0},
	}
	for v := int16(0); v <= 13; v++ {
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = v
		for _, pt := range topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = string(pt.Name), pt.ID
			for _, p := range parts[pt.From:pt.To] {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = p.Partition, p.Code, p.Base, p.LogAppendTime, p.LogStart
				if p.Reason != "" {
					rp.ErrorMessage = &p.Reason
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		if got, want := AppendProduce(nil, v, topics, parts), resp.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("version %d:\n%x, want\n%x", v, got, want)
		}
	}
}

type payload []byte

func (p payload) Len() int { return len(p) }
func (p payload) ReadAt(b []byte, off int64) (int, error) {
	n := copy(b, p[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func TestFetchAnswerEqualsTheCodec(t *testing.T) {
	big := make(payload, 3*copyBuffer+17)
	for i := range big {
		big[i] = byte(i * 7)
	}
	topics := []FetchTopic{
		{Name: "a", ID: [16]byte{1}, Parts: []FetchPart{
			{Partition: 0, HighWatermark: 9, LastStable: 8, LogStart: 1, DivergedEpoch: -1, DivergedEnd: -1, Records: payload("batch")},
			{Partition: 1, Code: 1, HighWatermark: -1, LastStable: -1, LogStart: -1, DivergedEpoch: -1, DivergedEnd: -1},
			{Partition: 2, HighWatermark: 4, LastStable: 4, DivergedEpoch: 3, DivergedEnd: 44},
		}},
		{Name: "topic-b", ID: [16]byte{2}, Parts: []FetchPart{
			{Partition: 7, HighWatermark: 1 << 40, LastStable: 3, LogStart: 2, Committed: true, DivergedEpoch: -1, DivergedEnd: -1, Records: big,
				Aborted: []Aborted{{5, 6}, {7, 8}}},
			{Partition: 8, Committed: true, DivergedEpoch: -1, DivergedEnd: -1},
		}},
	}
	for v := int16(4); v <= 18; v++ {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = v
		for _, ft := range topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = ft.Name, ft.ID
			for _, p := range ft.Parts {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = p.Partition, p.Code, p.HighWatermark, p.LastStable, p.LogStart
				rp.RecordBatches = []byte{}
				if p.Records != nil {
					rp.RecordBatches = p.Records.(payload)
				}
				if p.Committed {
					rp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
				}
				for _, a := range p.Aborted {
					ra := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
					ra.ProducerID, ra.FirstOffset = a.ProducerID, a.FirstOffset
					rp.AbortedTransactions = append(rp.AbortedTransactions, ra)
				}
				rp.PreferredReadReplica = -1
				rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = p.DivergedEpoch, p.DivergedEnd
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		h := Header{Key: Fetch, Version: v, Correlation: 77, FlexibleReply: v >= 12}
		want := resp.AppendTo(AppendAnswerHeader(nil, h))
		binary.BigEndian.PutUint32(want, uint32(len(want)-4))
		var got bytes.Buffer
		if err := (&Writer{W: &got}).Fetch(h, 0, 0, topics); err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("version %d: %d bytes differ from the codec's %d", v, got.Len(), len(want))
		}
	}
}

func TestFetchAnswerWhosePayloadCannotBeReadIsAnError(t *testing.T) {
	broken := FetchTopic{Name: "a", Parts: []FetchPart{{DivergedEpoch: -1, Records: short{}}}}
	err := (&Writer{W: io.Discard}).Fetch(Header{Key: Fetch, Version: 12}, 0, 0, []FetchTopic{broken})
	if err == nil || !strings.Contains(err.Error(), "read records to send") {
		t.Errorf("got %v", err)
	}
}

type short struct{}

func (short) Len() int                          { return 10 }
func (short) ReadAt([]byte, int64) (int, error) { return 3, io.ErrUnexpectedEOF }

func limits(budget int64) Limits { return Limits{MaxRequest: 100 << 20, Budget: NewBudget(budget)} }

func TestFramesAreReadAsTheyCome(t *testing.T) {
	near, far := memconn.Pipe()
	small := frameOf(kmsg.NewPtrMetadataRequest(), 12)
	records := make([]byte, 700<<10)
	req := kmsg.NewPtrProduceRequest()
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	large := frameOf(req, 9)
	go func() {
		for range 3 {
			near.Write(small)
			near.Write(large)
		}
		near.Close()
	}()
	r := NewReader(far)
	lim := limits(1 << 20)
	for i := range 6 {
		want := small
		if i%2 == 1 {
			want = large
		}
		f, err := r.Next(context.Background(), lim)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(f.Bytes, want[4:]) {
			t.Fatalf("frame %d differs", i)
		}
		f.Release()
		f.Release() // again does nothing
	}
	if _, err := r.Next(context.Background(), lim); err != io.EOF {
		t.Fatalf("at the end: %v, want EOF", err)
	}
	if lim.Budget.free != 1<<20 || lim.Budget.exempt {
		t.Errorf("%d of %d bytes came back", lim.Budget.free, 1<<20)
	}
}

func TestHostileFramesAreRefused(t *testing.T) {
	be := binary.BigEndian
	head := func(size int32, key, version int16) []byte {
		b := be.AppendUint32(nil, uint32(size))
		b = be.AppendUint16(b, uint16(key))
		b = be.AppendUint16(b, uint16(version))
		return be.AppendUint32(b, 1)
	}
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"a negative size":                        {head(-1, 3, 1), "too short"},
		"a size below the header's":              {head(7, 3, 1), "too short"},
		"a size above the limit":                 {head(100<<20+1, 0, 9), "the limit is"},
		"two gibibytes claimed, none sent":       {head(1<<31-1, 0, 9), "the limit is"},
		"an unknown kind":                        {head(100, 999, 1), "unknown"},
		"a negative kind":                        {head(100, -1, 1), "unknown"},
		"a version that is not served":           {head(100, 3, 99), "we serve"},
		"a negative version":                     {head(100, 3, -1), "we serve"},
		"a control request as large as records":  {head(50<<20, 3, 1), "the limit is"},
		"a body that ends early":                 {head(5000, 3, 1), "unexpected EOF"},
		"a large body that ends early":           {append(head(90<<20, 0, 9), make([]byte, 300<<10)...), "unexpected EOF"},
		"an ApiVersions version from the future": {append(head(20, 18, 99), make([]byte, 12)...), "we serve"},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := memconn.Pipe()
			go func() { near.Write(c.bytes); near.Close() }()
			_, err := NewReader(far).Next(context.Background(), limits(64<<20))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			var refused *Refused
			if strings.Contains(c.want, "we serve") && !errors.As(err, &refused) {
				t.Errorf("%T is not *Refused", err)
			}
		})
	}
}

func TestClaimedSizeCostsNothing(t *testing.T) {
	near, far := memconn.Pipe()
	b := binary.BigEndian.AppendUint32(nil, 90<<20)
	b = append(b, 0, 0, 0, 9, 0, 0, 0, 1)
	near.Write(b)
	near.Write(make([]byte, 1000))
	near.Close()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	NewReader(far).Next(context.Background(), limits(64<<20))
	goruntime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("a frame that claims 90 MiB and sends 1000 bytes took %d bytes", took)
	}
}

func TestBodyWithoutProgressIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := memconn.Pipe()
		defer near.Close()
		near.Write(frameOf(kmsg.NewPtrMetadataRequest(), 12)[:14])
		start := time.Now()
		_, err := NewReader(far).Next(context.Background(), limits(1<<20))
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("got %v, want a timeout", err)
		}
		if d := time.Since(start); d != stall {
			t.Errorf("after %v, want %v", d, stall)
		}
	})
}

func TestIdleConnectionMayBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := memconn.Pipe()
		r := NewReader(far)
		go func() {
			for range 3 {
				time.Sleep(time.Hour)
				near.Write(frameOf(kmsg.NewPtrMetadataRequest(), 12))
			}
			near.Close()
		}()
		for range 3 {
			if _, err := r.Next(context.Background(), limits(1<<20)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Requests that each hold part of the budget must not wait for each other for ever.
func TestBudgetNeverDeadlocks(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1000)
		done := make(chan struct{})
		const leases = 50
		for range leases {
			steps, n := 1+rng.IntN(8), 1+rng.Int64N(400)
			cancel := rng.IntN(5) == 0
			go func() {
				defer func() { done <- struct{}{} }()
				ctx, stop := context.WithTimeout(context.Background(), time.Hour)
				defer stop()
				if cancel {
					ctx, stop = context.WithTimeout(ctx, 5*time.Millisecond)
					defer stop()
				}
				l := b.Lease()
				defer l.Release()
				for range steps {
					if err := l.Take(ctx, n); err != nil {
						if !cancel {
							t.Errorf("a lease waited for an hour")
						}
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
		for range leases {
			<-done
		}
		if b.free != 1000 || b.exempt || b.waiting() != 0 {
			t.Errorf("in the end %d free, exempt %v, %d waiting", b.free, b.exempt, b.waiting())
		}
	})
}

func TestRequestLargerThanTheBudgetIsAdmittedAlone(t *testing.T) {
	b := NewBudget(1000)
	big, other := b.Lease(), b.Lease()
	if err := big.Take(context.Background(), 5000); err != nil {
		t.Fatal(err)
	}
	if err := other.Take(context.Background(), 900); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	third := b.Lease()
	if err := third.Take(ctx, 5000); err == nil {
		t.Error("a second large request was admitted beside the first")
	}
	big.Release()
	if err := third.Take(context.Background(), 5000); err != nil {
		t.Fatal(err)
	}
}

func FuzzFrame(f *testing.F) {
	for _, a := range ranges {
		f.Add(frameOf(kmsg.RequestForKey(a.Key), a.Max))
		f.Add(frameOf(kmsg.RequestForKey(a.Key), a.Min))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := memconn.Pipe()
		if len(b) > 200<<10 {
			return // would block the pipe
		}
		near.Write(b)
		near.Close()
		r := NewReader(far)
		for {
			fr, err := r.Next(context.Background(), limits(1<<20))
			if err != nil {
				var refused *Refused
				if errors.As(err, &refused) && refused.Key == ApiVersions {
					continue
				}
				return
			}
			h, body, err := ParseHeader(fr.Bytes, "")
			if err != nil {
				return
			}
			if h.Key == Produce {
				var p ProduceRequest
				p.Parse(h.Version, body)
			} else {
				req := kmsg.RequestForKey(h.Key)
				req.SetVersion(h.Version)
				req.ReadFrom(body)
			}
			fr.Release()
		}
	})
}

func FuzzProduceRequest(f *testing.F) {
	f.Add(int16(9), []byte{0, 0xff, 0xff, 0, 0, 0, 0, 2, 2, 'a', 2, 0, 0, 0, 0, 3, 1, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 0 || version > 13 {
			return
		}
		var got ProduceRequest
		if got.Parse(version, body) != nil {
			return
		}
		want := kmsg.NewPtrProduceRequest()
		want.Version = version
		if err := want.ReadFrom(body); err != nil {
			return // the codec refuses more: names that are null, say
		}
		n := 0
		for i, wt := range want.Topics {
			if string(got.Topics[i].Name) != wt.Topic || got.Topics[i].ID != wt.TopicID {
				t.Fatalf("topic %d: %q, want %q", i, got.Topics[i].Name, wt.Topic)
			}
			for _, wp := range wt.Partitions {
				if g := got.Parts[n]; g.Partition != wp.Partition || !bytes.Equal(g.Records, wp.Records) {
					t.Fatalf("partition %d: %+v", n, g)
				}
				n++
			}
		}
		if n != len(got.Parts) {
			t.Fatalf("%d partitions, want %d", len(got.Parts), n)
		}
	})
}
