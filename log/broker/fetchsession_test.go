package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

// wants is a request of session id and epoch for partitions of t, each from an offset.
func (n *node) wants(id, epoch int32, offsets map[int32]int64) *kmsg.FetchRequest {
	req := n.fetchReq("t", 0, 0, 0)
	req.SessionID, req.SessionEpoch = id, epoch
	one := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for p := range int32(1000) {
		if from, ok := offsets[p]; ok {
			one.Partition, one.FetchOffset = p, from
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
		}
	}
	if len(offsets) == 0 {
		req.Topics = nil
	}
	return req
}

func (n *node) forget(req *kmsg.FetchRequest, ps ...int32) *kmsg.FetchRequest {
	req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: "t", TopicID: n.cat.Topic("t").ID, Partitions: ps})
	return req
}

// told shows an answer: the error or the partitions with the number of their bytes' batches, in order.
func told(resp *kmsg.FetchResponse) string {
	if resp.ErrorCode != 0 {
		return fmt.Sprint("error ", resp.ErrorCode)
	}
	var out []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			what := fmt.Sprintf("%d to %d", p.Partition, p.HighWatermark)
			if len(p.RecordBatches) > 0 {
				what += " records"
			}
			if p.ErrorCode != 0 {
				what += fmt.Sprint(" error ", p.ErrorCode)
			}
			out = append(out, what)
		}
	}
	return strings.Join(out, ", ")
}

func TestSessionsTellOnlyWhatIsNew(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			n := start(t)
			n.topic("t", 3)
			w := n.dial()
			put := func(p int32) { ask[*kmsg.ProduceResponse](w, n.produceReq("t", p, -1, records("v")), 9) }
			get := func(req *kmsg.FetchRequest) *kmsg.FetchResponse { return ask[*kmsg.FetchResponse](w, req, version) }
			put(1)
			first := get(n.wants(0, 0, map[int32]int64{0: 0, 1: 0, 2: 0}))
			id, epoch := first.SessionID, int32(0)
			if id <= 0 {
				t.Fatalf("session %d", id)
			}
			next := func(offsets map[int32]int64) *kmsg.FetchRequest { epoch++; return n.wants(id, epoch, offsets) }
			for _, step := range []struct {
				what string
				do   func() *kmsg.FetchResponse
				want string
			}{
				{"the first answer has every partition", func() *kmsg.FetchResponse { return first }, "0 to 0, 1 to 1 records, 2 to 0"},
				{"what was read is read again when its position stays", func() *kmsg.FetchResponse { return get(next(nil)) }, "1 to 1 records"},
				{"a new position is remembered, and nothing is new", func() *kmsg.FetchResponse { return get(next(map[int32]int64{1: 1})) }, ""},
				{"nothing is new", func() *kmsg.FetchResponse { return get(next(nil)) }, ""},
				{"a record is", func() *kmsg.FetchResponse { put(2); return get(next(nil)) }, "2 to 1 records"},
				{"who had records waits for its next turn behind the others", func() *kmsg.FetchResponse { put(0); return get(next(nil)) }, "0 to 1 records, 2 to 1 records"},
				{"a partition that there is not is told every time", func() *kmsg.FetchResponse { return get(next(map[int32]int64{0: 1, 2: 1, 7: 0})) }, "7 to -1 error 3"},
				{"again", func() *kmsg.FetchResponse { return get(next(nil)) }, "7 to -1 error 3"},
				{"and not when it is forgotten", func() *kmsg.FetchResponse { return get(n.forget(next(nil), 7)) }, ""},
				{"what is forgotten is not read", func() *kmsg.FetchResponse { put(0); put(1); return get(n.forget(next(nil), 0)) }, "1 to 2 records"},
				{"a moved log start is news", func() *kmsg.FetchResponse {
					req := kmsg.NewPtrDeleteRecordsRequest()
					req.TimeoutMillis = 30_000
					req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 2, Offset: 1}}}}
					ask[*kmsg.DeleteRecordsResponse](w, req, 2)
					return get(next(map[int32]int64{1: 2}))
				}, "2 to 1"},
				{"an epoch that was used", func() *kmsg.FetchResponse { return get(n.wants(id, epoch, nil)) }, "error 71"},
				{"an epoch that is ahead", func() *kmsg.FetchResponse { return get(n.wants(id, epoch+2, nil)) }, "error 71"},
				{"the session goes on after both", func() *kmsg.FetchResponse { return get(next(nil)) }, ""},
				{"another form of names", func() *kmsg.FetchResponse {
					other := int16(25 - version) // 13 for 12
					if version < 12 || version > 13 {
						other = map[bool]int16{true: 13, false: 12}[version < 13]
					}
					epoch++
					defer func() { epoch-- }()
					return ask[*kmsg.FetchResponse](w, n.wants(id, epoch, nil), other)
				}, "error 106"},
				{"the end of the session", func() *kmsg.FetchResponse { return get(n.wants(id, -1, nil)) }, ""},
				{"is its end", func() *kmsg.FetchResponse { return get(next(nil)) }, "error 70"},
			} {
				resp := step.do()
				if got := told(resp); got != step.want {
					t.Errorf("%s: %q, want %q", step.what, got, step.want)
				}
			}
			if s := n.srv.FetchSessions(); s.Sessions != 0 || s.Partitions != 0 {
				t.Errorf("%+v is left", s)
			}
		})
	}
}

func TestSessionsBelongToNoConnection(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	a, b := n.dial(), n.dial()
	id := ask[*kmsg.FetchResponse](a, n.wants(0, 0, map[int32]int64{0: 0}), 18).SessionID
	a.nc.Close()
	if resp := ask[*kmsg.FetchResponse](b, n.wants(id, 1, nil), 18); resp.ErrorCode != 0 || resp.SessionID != id {
		t.Errorf("another connection: %+v", resp)
	}
}

func TestAnAnswerOfASessionThatSomebodyElseUsesIsAnError(t *testing.T) {
	n := start(t)
	n.topic("t", 1)
	a, b := n.dial(), n.dial()
	id := ask[*kmsg.FetchResponse](a, n.wants(0, 0, map[int32]int64{0: 0}), 18).SessionID
	parked := n.wants(id, 1, nil)
	parked.MaxWaitMillis = 60_000
	c := a.send(parked, 18)
	limit := time.Now().Add(time.Minute)
	for {
		resp := ask[*kmsg.FetchResponse](b, n.wants(id, 2, nil), 18)
		if resp.ErrorCode == 0 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the parked request did not begin: %+v", resp)
		}
	}
	ask[*kmsg.ProduceResponse](b, n.produceReq("t", 0, -1, records("v")), 9)
	resp := kmsg.NewPtrFetchResponse()
	if err := a.receive(c, resp, 18); err != nil || resp.ErrorCode != 71 {
		t.Errorf("the first of two: %v, %+v", err, resp)
	}
}

func TestSessionsKeepNothingBeyondTheirBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs fetchSessions
		open := func(parts int) int32 {
			f := &fetching{}
			for p := range parts {
				f.asks = append(f.asks, fetchAsk{name: "t", partition: int32(p)})
			}
			f.out = make([]wire.FetchPart, parts)
			return fs.open(f, false)
		}
		use := func(id, epoch int32, more ...int32) int16 {
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.SessionID, req.SessionEpoch = 12, id, epoch
			for _, p := range more {
				req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: "u", Partitions: []kmsg.FetchRequestTopicPartition{{Partition: p}}})
			}
			_, code := fs.begin(&fetching{req: req})
			return code
		}
		ids := []int32{open(5), open(2)}
		for len(ids) < maxFetchSessions {
			ids = append(ids, open(3))
		}
		if slices.Contains(ids, 0) {
			t.Fatal("a session was refused while there was room")
		}
		if open(50) != 0 {
			t.Error("a young session lost its place")
		}
		time.Sleep(sessionStale)
		for _, id := range ids {
			use(id, 1)
		}
		time.Sleep(time.Second)
		if open(2) != 0 {
			t.Error("an equal lost its place to a new one")
		}
		if open(3) == 0 || use(ids[1], 2) != 70 {
			t.Error("the smallest keeps its place against a larger one")
		}
		time.Sleep(sessionStale - time.Second)
		use(ids[0], 2)
		time.Sleep(2 * time.Second)
		if open(1) == 0 || use(ids[0], 3) != 0 {
			t.Error("what nobody uses keeps its place, or what is used has lost it")
		}
		if fs.evictions.Load() != 2 {
			t.Errorf("%d evictions", fs.evictions.Load())
		}

		// Partitions in all are bounded, too.
		fs = fetchSessions{}
		big := open(maxSessionParts - 1)
		if big == 0 || open(2) != 0 {
			t.Error("more partitions are remembered than there may be")
		}
		if small := open(1); small == 0 || use(small, 1, 1) != 70 || use(small, 2) != 70 {
			t.Error("a session grew beyond the bound")
		}
		if fs.parts != maxSessionParts-1 {
			t.Errorf("%d partitions are counted", fs.parts)
		}
		if use(big, 1, 1) != 0 || use(big, 2, 2) != 70 || fs.parts != 0 || len(fs.sessions) != 0 {
			t.Errorf("%d partitions in %d sessions are left", fs.parts, len(fs.sessions))
		}
	})
}

func TestEpochsOfSessionsBeginAnewAfterTheLargest(t *testing.T) {
	if e := nextFetchEpoch(1<<31 - 1); e != 1 {
		t.Errorf("epoch %d", e)
	}
}

// BenchmarkIdleFetch is what a consumer of 1,000 partitions without news costs, with a session and without.
func BenchmarkIdleFetch(b *testing.B) {
	n := startOnDisk(b)
	n.topic("t", 1000)
	all := map[int32]int64{}
	for p := range int32(1000) {
		all[p] = 0
	}
	b.Run("full requests", func(b *testing.B) {
		req := frame(n.wants(0, -1, all), 18, 1)
		f := n.roundTrips(req)
		b.ReportAllocs()
		b.ReportMetric(float64(len(req)), "bytes/request")
		for b.Loop() {
			f()
		}
	})
	b.Run("session", func(b *testing.B) {
		w := n.dial()
		id := ask[*kmsg.FetchResponse](w, n.wants(0, 0, all), 18).SessionID
		req := n.wants(id, 1, nil)
		f := frame(req, 18, 1)
		b.ReportAllocs()
		b.ReportMetric(float64(len(f)), "bytes/request")
		for b.Loop() {
			ask[*kmsg.FetchResponse](w, req, 18)
			req.SessionEpoch++
		}
	})
}
