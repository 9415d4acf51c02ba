package broker

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
	"millrace/log/internal/wire"
)

// Fetch, key 1, versions 4 to 18. 5 added the log start offset, 7 sessions (fetchsession.go), 9 leader epochs, 11 racks,
// 12 flexible encoding and the epoch check on truncation, 13 topic ids. Left out: follower fetches and preferred replicas.

const maxFetch = 55 << 20 // bytes of records in one answer, whatever the client would take

const maxKeptAsks = 10_000 // the broker's partitions; lists of hostile lengths are not kept

// fetchAsk is what a client wants of one partition, by the topic's id from version 13 on and by its name before.
type fetchAsk struct {
	name        string
	id          [16]byte
	partition   int32
	leaderEpoch int32 // that the client knows; -1 none
	offset      int64
	lastEpoch   int32 // of the last record it has; -1 unknown
	maxBytes    int32
}

func (a *fetchAsk) sameTopic(b *fetchAsk) bool { return a.id == b.id && a.name == b.name }

// fetching is one fetch request on the connection's writer. It holds pinned file ranges only while
// it is being answered, and nothing while it is parked.
type fetching struct {
	srv   *Server
	req   *kmsg.FetchRequest
	asks  []fetchAsk
	parts []*store.Partition // of asks, nil where there is none
	out   []wire.FetchPart   // of asks
	held  []*store.Slice     // pinned: the records in out
}

// fetchings keeps the lists of fetches for the next ones: a consumer of a thousand idle partitions asks twice a second.
var fetchings = sync.Pool{New: func() any { return new(fetching) }}

func (s *Server) fetch(c *call) {
	req := c.req.(*kmsg.FetchRequest)
	c.later(func(w *wire.Writer) error {
		f := s.newFetching(req)
		defer f.done()
		ses, code := s.sessions.begin(f)
		if code != 0 {
			s.stats.code(wire.Fetch, code)
			return w.Fetch(c.h, code, 0, nil)
		}
		if err := f.collect(c.ctx, c.conn.unread); err != nil {
			return err
		}
		s.stats.fetched(f) // before the session leaves out what is not new
		id, code := ses.end(f)
		if code != 0 {
			s.stats.code(wire.Fetch, code)
			return w.Fetch(c.h, code, id, nil)
		}
		return w.Fetch(c.h, 0, id, f.topics())
	})
}

// appendAsks lists what a request names, in its order.
func appendAsks(asks []fetchAsk, req *kmsg.FetchRequest) []fetchAsk {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			a := fetchAsk{
				name: t.Topic, id: t.TopicID, partition: q.Partition, leaderEpoch: q.CurrentLeaderEpoch, offset: q.FetchOffset,
				lastEpoch: -1, maxBytes: q.PartitionMaxBytes,
			}
			if req.Version >= 12 {
				a.lastEpoch = q.LastFetchedEpoch
			}
			asks = append(asks, a)
		}
	}
	return asks
}

func (s *Server) newFetching(req *kmsg.FetchRequest) *fetching {
	f := fetchings.Get().(*fetching)
	f.srv, f.req = s, req
	return f
}

// done gives back what the fetch holds.
func (f *fetching) done() {
	f.release()
	n := len(f.parts) // the answer may have left some of the asks out
	clear(f.asks[:max(n, len(f.asks))])
	clear(f.parts[:n])
	clear(f.out[:n])
	*f = fetching{asks: f.asks[:0], parts: f.parts[:0], out: f.out[:0], held: f.held[:0]}
	if cap(f.asks) <= maxKeptAsks {
		fetchings.Put(f)
	}
}

// collect reads until there is enough to answer: the least number of bytes, an error, or the end of
// the longest wait, or of the connection's requests.
func (f *fetching) collect(ctx context.Context, unread <-chan struct{}) error {
	f.parts = append(f.parts[:0], make([]*store.Partition, len(f.asks))...)
	f.out = append(f.out[:0], make([]wire.FetchPart, len(f.asks))...)
	if f.read() || f.req.MaxWaitMillis <= 0 {
		return nil
	}
	w := store.NewWaiter()
	for _, p := range f.parts {
		if p != nil {
			p.Subscribe(w)
			defer p.Unsubscribe(w)
		}
	}
	timeout := time.NewTimer(time.Duration(f.req.MaxWaitMillis) * time.Millisecond)
	defer timeout.Stop()
	for {
		// Read again after subscribing, or what came in between would be waited out.
		if f.read() {
			return nil
		}
		f.release()
		select {
		case <-w.C:
		case <-timeout.C:
			f.read()
			return nil
		case <-unread: // the peer has closed, or the server stops
			f.read()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read looks at every partition once and reports whether the answer is worth sending.
func (f *fetching) read() bool {
	f.release()
	left := int(min(f.req.MaxBytes, maxFetch))
	total, failed := 0, false
	var topic *catalog.Topic
	var missing int16
	for i := range f.asks {
		a := &f.asks[i]
		if i == 0 || !a.sameTopic(&f.asks[i-1]) {
			topic, missing = f.topic(a)
		}
		out := &f.out[i]
		p, n, code := f.part(topic, missing, a, out, left, total == 0)
		f.parts[i] = p
		out.Code = code
		if code != 0 || out.DivergedEpoch >= 0 {
			failed = true
		}
		total += n
		left -= n
	}
	return failed || total >= int(f.req.MinBytes)
}

func (f *fetching) topic(a *fetchAsk) (topic *catalog.Topic, missing int16) {
	if f.req.Version >= 13 {
		return f.srv.cat.TopicByID(a.id), kerr.UnknownTopicID.Code
	}
	return f.srv.cat.Topic(a.name), kerr.UnknownTopicOrPartition.Code
}

func (f *fetching) part(topic *catalog.Topic, missing int16, a *fetchAsk, out *wire.FetchPart, left int, first bool) (p *store.Partition, n int, code int16) {
	*out = wire.FetchPart{
		Partition: a.partition, HighWatermark: -1, LastStable: -1, LogStart: -1,
		Committed: f.req.IsolationLevel == 1, DivergedEpoch: -1, DivergedEnd: -1,
	}
	if topic == nil {
		out.Committed = true // Kafka gives an empty list here, and null elsewhere
		return nil, 0, missing
	}
	p = topic.Partition(a.partition)
	if p == nil {
		out.Committed = true
		return nil, 0, kerr.UnknownTopicOrPartition.Code
	}
	if code := checkEpoch(p, a.leaderEpoch); code != 0 {
		return p, 0, code
	}
	if a.lastEpoch >= 0 {
		if epoch, end := p.EndOffsetForEpoch(a.lastEpoch); epoch != a.lastEpoch || end < a.offset {
			out.DivergedEpoch, out.DivergedEnd = epoch, end
			out.HighWatermark, out.LastStable, out.LogStart = p.HighWatermark(), p.LastStable(), p.LogStart()
			return p, 0, 0
		}
	}
	iso := store.ReadUncommitted
	if f.req.IsolationLevel == 1 {
		iso = store.ReadCommitted
	}
	var at store.Slice
	if p.Caught(a.offset, iso, &at) {
		out.HighWatermark, out.LastStable, out.LogStart = at.HighWatermark, at.LastStable, at.LogStart
		return p, 0, 0
	}
	s, err := p.Read(a.offset, store.ReadOpts{MaxBytes: max(0, min(int(a.maxBytes), left)), MinOne: first, Isolation: iso})
	if err != nil {
		return p, 0, codeOf(err)
	}
	out.HighWatermark, out.LastStable, out.LogStart = s.HighWatermark, s.LastStable, s.LogStart
	for _, a := range s.Aborted {
		out.Aborted = append(out.Aborted, wire.Aborted{ProducerID: a.ProducerID, FirstOffset: a.First})
	}
	if n = s.Len(); n > 0 {
		pinned := new(store.Slice)
		*pinned = s
		f.held = append(f.held, pinned)
		out.Records = pinned
	}
	return p, n, 0
}

// topics groups what is to be answered; neighbours of one topic share its name.
func (f *fetching) topics() []wire.FetchTopic {
	var ts []wire.FetchTopic
	for i := range f.asks {
		if a := &f.asks[i]; i == 0 || !a.sameTopic(&f.asks[i-1]) {
			ts = append(ts, wire.FetchTopic{Name: a.name, ID: a.id})
		}
		t := &ts[len(ts)-1]
		first := i - len(t.Parts)
		t.Parts = f.out[first : i+1 : i+1]
	}
	return ts
}

func (f *fetching) release() {
	for i, s := range f.held {
		s.Release()
		f.held[i] = nil
	}
	f.held = f.held[:0]
}

// checkEpoch compares the leader epoch that a client knows with ours; -1 means that it knows none.
func checkEpoch(p *store.Partition, known int32) int16 {
	switch ours := p.LeaderEpoch(); {
	case known < 0 || known == ours:
		return 0
	case known < ours:
		return kerr.FencedLeaderEpoch.Code
	default:
		return kerr.UnknownLeaderEpoch.Code
	}
}
