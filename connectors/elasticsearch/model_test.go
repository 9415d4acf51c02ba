package elasticsearch

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/trial"
	"millrace/schema"
)

// TestAnyTrouble writes random changes to a server that refuses items and requests,
// cuts connections before and after it stored, and is slow, while tasks come and go and
// start again where offsets were committed. In the end the index equals the last change
// of each key, and whatever was refused for ever was reported.
func TestAnyTrouble(t *testing.T) {
	for _, seed := range trial.Seeds(6) {
		for _, pairs := range [][]string{
			{"behavior.on.null.values", "delete"},
			{"behavior.on.null.values", "delete", "document.versions", "none"},
			{"behavior.on.null.values", "delete", "write.method", "upsert"},
		} {
			t.Run(fmt.Sprintf("seed=%d,%s", seed, pairs[len(pairs)-1]), func(t *testing.T) {
				anyTrouble(t, rand.New(rand.NewPCG(seed, 1)), pairs)
			})
		}
	}
}

func anyTrouble(t *testing.T, rnd *rand.Rand, pairs []string) {
	s := newStub(t)
	trouble := true // guarded by the stub's mutex
	luck := rand.New(rand.NewPCG(rnd.Uint64(), 2))
	hit := func(percent int) bool { return trouble && luck.IntN(100) < percent }
	// cut ends a connection, after some bytes of an answer that promises more.
	cut := func(w http.ResponseWriter, answer string) bool {
		if c, b, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprint(b, answer)
			b.Flush()
			c.Close()
		}
		return true
	}
	s.set(func() {
		s.item = func(int, stubItem) (int, *serverError) {
			if hit(5) {
				return 429, &serverError{Type: "es_rejected_execution_exception", Reason: "busy"}
			}
			return 0, nil
		}
		s.before = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			s.mu.Lock()
			what := 0
			switch {
			case hit(6):
				what = 503
			case hit(4):
				what = 1
			case trouble && len(body) > 3000:
				what = 413
			}
			s.mu.Unlock()
			switch what {
			case 0:
				return false
			case 1:
				return cut(w, "")
			}
			w.WriteHeader(what)
			return true
		}
		s.after = func(_ int, w http.ResponseWriter) bool {
			s.mu.Lock()
			yes, begun := hit(6), hit(50)
			s.mu.Unlock()
			answer := ""
			if begun {
				answer = "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + `{"errors":false,"items":[{"index":{"sta`
			}
			return yes && cut(w, answer)
		}
		s.delay = func() {
			s.mu.Lock()
			d := time.Duration(luck.IntN(1500)) * time.Microsecond
			s.mu.Unlock()
			time.Sleep(d)
		}
	})

	// The topic, and what is to be in the index in the end.
	const parts, keys = 3, 12
	var topic [parts][]schema.Record
	want, poisoned := map[string]string{}, map[string]bool{}
	for n := range 600 {
		k := rnd.IntN(keys)
		p := int32(k % parts)
		key := fmt.Sprint("k", k)
		offset := int64(len(topic[p]))
		var r schema.Record
		switch roll := rnd.IntN(20); {
		case roll < 4:
			r = tomb(key)
			delete(want, key)
		case roll == 4 && pairs[len(pairs)-1] != "upsert": // the stub's updates refuse nothing
			r = doc(key, "poison")
			poisoned[fmt.Sprint(p, "/", offset)] = true
		default:
			r = doc(key, fmt.Sprint("v", n))
			want[key] = fmt.Sprint("v", n)
		}
		topic[p] = append(topic[p], at(r, p, offset))
	}
	conf := conf(s.URL, append(pairs, "max.retries", "3", "retry.backoff.ms", "1", "batch.size", fmt.Sprint(rnd.IntN(30)+1),
		"max.in.flight.requests", fmt.Sprint(rnd.IntN(5)+1), "max.buffered.records", fmt.Sprint(rnd.IntN(100)+20))...)

	committed := map[connectors.TopicPartition]int64{}
	reported := map[string]bool{}
	all := []connectors.TopicPartition{tp(0), tp(1), tp(2)}
	finished := func() bool {
		for p := range parts {
			if committed[tp(int32(p))] < int64(len(topic[p])) {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(2 * time.Minute); !finished(); {
		if time.Now().After(end) {
			t.Fatalf("committed %v of %d, %d, %d", committed, len(topic[0]), len(topic[1]), len(topic[2]))
		}
		run := connectortest.NewSinkRun(t, Sink, nil, conf, false, all...)
		next, open := maps.Clone(committed), map[connectors.TopicPartition]bool{tp(0): true, tp(1): true, tp(2): true}
		flush := func() {
			if err := run.TryFlush(); err != nil && !connectors.IsRetriable(err) {
				t.Fatal(err)
			}
			for tp, o := range run.Committed {
				committed[tp] = max(committed[tp], o)
			}
		}
		steps := rnd.IntN(30) + 5
		if rnd.IntN(4) == 0 {
			steps = 1000 // this one sees it through
		}
		for range steps {
			switch roll := rnd.IntN(20); {
			case roll == 0: // a rebalance takes a partition and gives it back
				p := all[rnd.IntN(parts)]
				if !open[p] {
					continue
				}
				lost := rnd.IntN(2) == 0
				if !lost {
					flush()
				}
				run.Close(lost, p)
				delete(run.Committed, p)
				if len(open) > 1 && rnd.IntN(2) == 0 {
					delete(open, p)
					continue
				}
				if _, err := run.Task.Open(t.Context(), []connectors.TopicPartition{p}); err != nil {
					t.Fatal(err)
				}
				next[p] = committed[p]
			case roll < 5:
				flush()
			default:
				p := all[rnd.IntN(parts)]
				if !open[p] {
					continue
				}
				records := topic[p.Partition][next[p]:]
				records = records[:min(len(records), rnd.IntN(25)+1)]
				for len(records) > 0 {
					n, err := run.TryPut(records)
					if err != nil && !connectors.IsRetriable(err) {
						t.Fatal(err)
					}
					records, next[p] = records[n:], next[p]+int64(n)
				}
			}
			if finished() {
				break
			}
		}
		flush()
		var left []connectors.TopicPartition
		for p := range open {
			left = append(left, p)
		}
		run.Close(rnd.IntN(2) == 0, left...)
		for _, rep := range run.Reported() {
			o := rep.Record.Origin
			reported[fmt.Sprint(o.Partition, "/", o.Offset)] = true
		}
		// A request that was cut may still be under way in the server when its task is gone;
		// a successor that knows no versions must not be overtaken by it.
		s.idle()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	got := map[string]string{}
	for id, d := range s.docs["orders"] {
		var body struct{ Text string }
		if d.deleted {
			continue
		}
		if err := json.Unmarshal([]byte(d.source), &body); err != nil {
			t.Fatal(err)
		}
		got[id] = body.Text
	}
	if !maps.Equal(got, want) {
		t.Errorf("the index holds %v\nwant %v", got, want)
	}
	for o := range poisoned {
		// With versions one that was put off (429) may be overtaken by a newer change in the
		// same bulk, and is then never judged.
		if !reported[o] && len(pairs) > 2 {
			t.Errorf("%s was refused and not reported", o)
		}
	}
	for o := range reported {
		if !poisoned[o] {
			t.Errorf("%s was reported and is good", o)
		}
	}
}
