package broker

import (
	"cmp"
	"net"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
	"millrace/log/internal/catalog"
	"millrace/log/internal/measure"
	"millrace/log/internal/store"
	"millrace/log/internal/wire"
)

// stats are counters since the start. A request costs a handful of atomic adds.
type stats struct {
	panics   atomic.Int64
	refused  atomic.Int64 // connections beyond a limit
	denied   atomic.Int64 // sign-ins that failed
	signedIn atomic.Int64
	idled    atomic.Int64 // connections that were closed for doing nothing

	records, bytesIn, bytesOut                       atomic.Int64
	produces, fetches, failedProduces, failedFetches atomic.Int64 // partitions in such requests, as Kafka counts them

	kinds [kmsg.MaxKey + 1]atomic.Pointer[kindStats] // made when the first request of a kind comes
}

// maxVersion is above every version that is served.
const maxVersion = 24

// Codes are counted from UNKNOWN_SERVER_ERROR, -1, on.
const (
	firstCode = -1
	codeCount = 160
)

// kindStats are the counters of one request kind.
type kindStats struct {
	received                   atomic.Int64
	requests                   [maxVersion]atomic.Int64
	codes                      [codeCount]atomic.Int64
	total, local, remote, send measure.Durations
}

func (s *stats) kind(key int16) *kindStats {
	p := &s.kinds[key]
	k := p.Load()
	if k == nil {
		p.CompareAndSwap(nil, new(kindStats))
		k = p.Load()
	}
	return k
}

// count takes one request in whose answer is written, or which has none.
func (s *stats) count(c *call, now time.Time, sending time.Duration) {
	k := s.kind(c.h.Key)
	if v := c.h.Version; v >= 0 && v < maxVersion {
		k.requests[v].Add(1)
	}
	total, local := now.Sub(c.began), time.Duration(c.handled.Load())
	local = min(local, total)
	k.total.Add(total)
	k.local.Add(local)
	k.send.Add(sending)
	k.remote.Add(max(0, total-local-sending))
}

func (s *stats) code(key, code int16) {
	if i := int(code) - firstCode; i >= 0 && i < codeCount {
		s.kind(key).codes[i].Add(1)
	}
}

// answer counts the error codes of an answer, success included.
func (s *stats) answer(h wire.Header, resp kmsg.Response) {
	v := reflect.ValueOf(resp)
	if v.IsNil() {
		return
	}
	if v = v.Elem(); v.Kind() == reflect.Struct {
		planOf(v.Type()).walk(v, func(code int16) { s.code(h.Key, code) })
	}
}

// plan says where in a struct of the protocol error codes stand.
type plan struct {
	codes  []int // fields
	within []struct {
		field int
		plan  *plan
	}
}

var plans sync.Map // of reflect.Type

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
			p.codes = append(p.codes, i)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			if sub := planOf(f.Type.Elem()); len(sub.codes)+len(sub.within) > 0 {
				p.within = append(p.within, struct {
					field int
					plan  *plan
				}{i, sub})
			}
		}
	}
	plans.Store(t, p)
	return p
}

func (p *plan) walk(v reflect.Value, f func(code int16)) {
	for _, i := range p.codes {
		f(int16(v.Field(i).Int()))
	}
	for _, w := range p.within {
		for list, i := v.Field(w.field), 0; i < list.Len(); i++ {
			w.plan.walk(list.Index(i), f)
		}
	}
}

// produced counts one partition of a Produce request.
func (s *stats) produced(topic *catalog.Topic, part wire.ProducePart, code int16) {
	s.code(wire.Produce, code)
	s.produces.Add(1)
	failed := int64(min(1, max(code, -code)))
	s.failedProduces.Add(failed)
	if topic != nil {
		if p := topic.Partition(part.Partition); p != nil {
			p.Traffic().Produces.Add(1)
			p.Traffic().FailedProduces.Add(failed)
		}
	}
}

// written counts records that were appended.
func (s *stats) written(p *store.Partition, views []batch.View, bytes int) {
	n := int64(0)
	for _, v := range views {
		n += int64(v.Count())
	}
	s.records.Add(n)
	s.bytesIn.Add(int64(bytes))
	p.Traffic().Records.Add(n)
	p.Traffic().BytesIn.Add(int64(bytes))
}

// fetched counts a Fetch answer.
func (s *stats) fetched(f *fetching) {
	var bytes, failed int64
	for i, p := range f.parts {
		out := &f.out[i]
		n := int64(0)
		if out.Records != nil {
			n = int64(out.Records.Len())
		}
		s.code(wire.Fetch, out.Code)
		bad := int64(min(1, max(out.Code, -out.Code)))
		bytes, failed = bytes+n, failed+bad
		if p != nil {
			t := p.Traffic()
			t.Fetches.Add(1)
			if n > 0 {
				t.BytesOut.Add(n)
			}
			if bad > 0 {
				t.FailedFetches.Add(bad)
			}
		}
	}
	s.fetches.Add(int64(len(f.parts)))
	s.bytesOut.Add(bytes)
	s.failedFetches.Add(failed)
}

// Stats are what a server has counted, and what it holds now.
type Stats struct {
	Records, BytesIn, BytesOut                       int64
	Produces, Fetches, FailedProduces, FailedFetches int64
	Kinds                                            []KindStats // of requests that came, by kind

	Panics, Refused, Denied, SignedIn, Idled int64
	Connections                              map[string]int // by listener
	RequestMemory, AnswerMemory              int64          // bytes in use
	LargeRequests                            int            // that are worked on
	Busy                                     time.Duration  // of handlers, all together
}

// KindStats are those of one request kind.
type KindStats struct {
	Name                       string
	Versions                   []Count // requests by version
	Errors                     []Count // by code
	Total, Local, Remote, Send measure.Summary
}

// Count is a number of something.
type Count struct {
	What int16
	N    int64
}

// Stats looks at the counters. Quantiles are those of the durations.
func (s *Server) Stats(quantiles ...float64) Stats {
	c := &s.stats
	out := Stats{
		Records: c.records.Load(), BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
		Produces: c.produces.Load(), Fetches: c.fetches.Load(), FailedProduces: c.failedProduces.Load(), FailedFetches: c.failedFetches.Load(),
		Panics: c.panics.Load(), Refused: c.refused.Load(), Denied: c.denied.Load(), SignedIn: c.signedIn.Load(), Idled: c.idled.Load(),
		Connections: map[string]int{}, LargeRequests: len(s.overTCP.large) + len(s.inMemory.large),
		RequestMemory: s.overTCP.requests.InUse() + s.inMemory.requests.InUse(),
		AnswerMemory:  s.overTCP.answers.InUse() + s.inMemory.answers.InUse(),
	}
	s.mu.Lock()
	for _, name := range s.listening {
		out.Connections[name] = 0
	}
	for conn := range s.conns {
		out.Connections[conn.at.label()]++
	}
	s.mu.Unlock()
	now := time.Now()
	for key := range c.kinds {
		k := c.kinds[key].Load()
		if k == nil {
			continue
		}
		ks := KindStats{
			Name:  wire.Name(int16(key)),
			Total: k.total.Look(now, quantiles...), Local: k.local.Look(now, quantiles...), Remote: k.remote.Look(now, quantiles...), Send: k.send.Look(now, quantiles...),
		}
		for v := range k.requests {
			if n := k.requests[v].Load(); n > 0 {
				ks.Versions = append(ks.Versions, Count{int16(v), n})
			}
		}
		for i := range k.codes {
			if n := k.codes[i].Load(); n > 0 {
				ks.Errors = append(ks.Errors, Count{int16(i + firstCode), n})
			}
		}
		out.Busy += ks.Local.Sum
		out.Kinds = append(out.Kinds, ks)
	}
	slices.SortFunc(out.Kinds, func(a, b KindStats) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Processors is how many handlers can run at once.
func Processors() int { return goruntime.GOMAXPROCS(0) }

// ErrorName is a code's name in the protocol.
func ErrorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return "UNKNOWN_SERVER_ERROR"
}

// label is a listener's name as a label has it: SASL_SSL-9093.
func (l Listener) label() string {
	protocol, addr, ok := strings.Cut(l.Name, "://")
	if !ok {
		return l.Name
	}
	if _, port, err := net.SplitHostPort(addr); err == nil {
		return protocol + "-" + port
	}
	return protocol
}
