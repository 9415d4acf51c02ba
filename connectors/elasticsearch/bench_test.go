package elasticsearch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors/connectortest"
	"millrace/deploy/trial"
	"millrace/schema"
)

// drain is a server that counts the lines of bulks and keeps nothing.
type drain struct {
	*httptest.Server
	lines atomic.Int64
	count bool
}

func newDrain(tb testing.TB, count bool) *drain {
	d := &drain{count: count}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/_bulk":
			fmt.Fprint(w, `{"x":{"mappings":{"properties":{"a":{"type":"long"}}}}}`)
			return
		case d.count:
			in := bufio.NewReaderSize(r.Body, 64<<10)
			for {
				b, err := in.ReadSlice('\n')
				if bytes.HasSuffix(b, []byte{'\n'}) {
					d.lines.Add(1)
				}
				if err != nil && err != bufio.ErrBufferFull {
					break
				}
			}
		default:
			io.Copy(io.Discard, r.Body)
		}
		fmt.Fprint(w, `{"errors":false,"items":[]}`)
	}))
	tb.Cleanup(d.Close)
	return d
}

// BenchmarkSink sends rows of 8 columns in deliveries of 500 to a server that drops
// them; beside it, in the same run, is what the bare HTTP client reaches with bodies of
// the same size.
func BenchmarkSink(b *testing.B) {
	var records []schema.Record
	for i := range int64(500) {
		records = append(records, change(i))
	}
	b.Run("sink", func(b *testing.B) {
		d := newDrain(b, false)
		run := connectortest.NewSinkRun(b, Sink, nil, conf(d.URL), true, tp(0))
		offset := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			batch := make([]schema.Record, len(records))
			for i := range records {
				batch[i] = at(records[i], 0, offset)
				batch[i].Key = schema.Int64Value(offset)
				offset++
			}
			run.Put(batch)
		}
		run.FlushTo(tp(0), offset)
		b.ReportMetric(float64(offset)/b.Elapsed().Seconds(), "docs/s")
		run.Close(false, tp(0))
	})
	b.Run("limit/http", func(b *testing.B) {
		d := newDrain(b, false)
		a := actor{set: set{versions: true}, enc: encoder{compact: true}}
		var body []byte
		for i := range records {
			act, _ := a.action(&records[i], a.topic("orders"))
			body, _ = a.append(body, act, "orders", &records[i])
		}
		for b.Loop() {
			resp, err := http.Post(d.URL+"/_bulk", "application/x-ndjson", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		b.ReportMetric(float64(b.N)*500/b.Elapsed().Seconds(), "docs/s")
	})
}

// TestMemory sends rows of 15 MiB in deliveries of one, and looks
// at the heap: what is live is bounded by what may be under way.
func TestMemory(t *testing.T) {
	d := newDrain(t, true)
	run := connectortest.NewSinkRun(t, Sink, nil, conf(d.URL), true, tp(0))
	var most atomic.Uint64
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			var m goruntime.MemStats
			goruntime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
		}
	}()
	n := int64(trial.Effort(40))
	for o := range n {
		run.Put([]schema.Record{at(doc(fmt.Sprint(o), strings.Repeat("x", 15<<20)), 0, o)})
	}
	run.FlushTo(tp(0), n)
	cancel()
	<-watched
	run.Close(false, tp(0))
	if d.lines.Load() != 2*n {
		t.Errorf("%d lines for %d documents", d.lines.Load(), n)
	}
	t.Logf("at most %d MiB", most.Load()>>20)
	if most.Load() > 3*300<<20 {
		t.Errorf("%d MiB of heap", most.Load()>>20)
	}
}
