package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
	"millrace/log/internal/wire"
)

// Fetch, key 1, versions 4 to 18. 5 added the log start offset, 7 sessions, 9 leader epochs, 11 racks,
// 12 flexible encoding and the epoch check on truncation, 13 topic ids. Left out: sessions (every answer
// says session 0, so clients send full requests), follower fetches and preferred replicas.

const maxFetch = 55 << 20 // bytes of records in one answer, whatever the client would take

// fetching is one fetch request on the connection's writer. It holds pinned file ranges only while
// it is being answered, and nothing while it is parked.
type fetching struct {
	srv    *Server
	req    *kmsg.FetchRequest
	topics []wire.FetchTopic
	parts  []*store.Partition // by position, nil where there is none
	slices []store.Slice
}

func (s *Server) fetch(c *call) {
	req := c.req.(*kmsg.FetchRequest)
	c.later(func(w *wire.Writer) error {
		if req.Version >= 7 && req.SessionID != 0 {
			return w.Fetch(c.h, kerr.FetchSessionIDNotFound.Code, 0, nil)
		}
		f := s.newFetching(req)
		defer f.release()
		if err := f.collect(c.ctx, c.conn.unread); err != nil {
			return err
		}
		return w.Fetch(c.h, 0, 0, f.topics)
	})
}

func (s *Server) newFetching(req *kmsg.FetchRequest) *fetching {
	f := &fetching{srv: s, req: req, topics: make([]wire.FetchTopic, len(req.Topics))}
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	parts := make([]wire.FetchPart, n)
	f.parts = make([]*store.Partition, n)
	f.slices = make([]store.Slice, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		f.topics[i] = wire.FetchTopic{Name: t.Topic, ID: t.TopicID, Parts: parts[:len(t.Partitions):len(t.Partitions)]}
		parts = parts[len(t.Partitions):]
	}
	return f
}

// collect reads until there is enough to answer: the least number of bytes, an error, or the end of
// the longest wait, or of the connection's requests.
func (f *fetching) collect(ctx context.Context, unread <-chan struct{}) error {
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
	total, failed, at := 0, false, 0
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		topic, missing := f.topic(t)
		for j := range t.Partitions {
			out := &f.topics[i].Parts[j]
			p, code := f.part(topic, missing, &t.Partitions[j], out, at, left, total == 0)
			f.parts[at] = p
			out.Code = code
			if code != 0 || out.DivergedEpoch >= 0 {
				failed = true
			}
			n := f.slices[at].Len()
			total += n
			left -= n
			at++
		}
	}
	return failed || total >= int(f.req.MinBytes)
}

func (f *fetching) topic(t *kmsg.FetchRequestTopic) (topic *catalog.Topic, missing int16) {
	if f.req.Version >= 13 {
		return f.srv.cat.TopicByID(t.TopicID), kerr.UnknownTopicID.Code
	}
	return f.srv.cat.Topic(t.Topic), kerr.UnknownTopicOrPartition.Code
}

func (f *fetching) part(topic *catalog.Topic, missing int16, q *kmsg.FetchRequestTopicPartition, out *wire.FetchPart, at, left int, first bool) (*store.Partition, int16) {
	*out = wire.FetchPart{
		Partition: q.Partition, HighWatermark: -1, LastStable: -1, LogStart: -1,
		Committed: f.req.IsolationLevel == 1, DivergedEpoch: -1, DivergedEnd: -1,
	}
	if topic == nil {
		out.Committed = true // Kafka gives an empty list here, and null elsewhere
		return nil, missing
	}
	p := topic.Partition(q.Partition)
	if p == nil {
		out.Committed = true
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	if code := checkEpoch(p, q.CurrentLeaderEpoch); code != 0 {
		return p, code
	}
	if q.LastFetchedEpoch >= 0 && f.req.Version >= 12 {
		if epoch, end := p.EndOffsetForEpoch(q.LastFetchedEpoch); epoch != q.LastFetchedEpoch || end < q.FetchOffset {
			out.DivergedEpoch, out.DivergedEnd = epoch, end
			out.HighWatermark, out.LastStable, out.LogStart = p.HighWatermark(), p.LastStable(), p.LogStart()
			return p, 0
		}
	}
	iso := store.ReadUncommitted
	if f.req.IsolationLevel == 1 {
		iso = store.ReadCommitted
	}
	s, err := p.Read(q.FetchOffset, store.ReadOpts{MaxBytes: max(0, min(int(q.PartitionMaxBytes), left)), MinOne: first, Isolation: iso})
	if err != nil {
		return p, codeOf(err)
	}
	f.slices[at] = s
	out.HighWatermark, out.LastStable, out.LogStart = s.HighWatermark, s.LastStable, s.LogStart
	for _, a := range s.Aborted {
		out.Aborted = append(out.Aborted, wire.Aborted{ProducerID: a.ProducerID, FirstOffset: a.First})
	}
	if s.Len() > 0 {
		out.Records = &f.slices[at]
	}
	return p, 0
}

func (f *fetching) release() {
	for i := range f.slices {
		f.slices[i].Release()
		f.slices[i] = store.Slice{}
	}
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
