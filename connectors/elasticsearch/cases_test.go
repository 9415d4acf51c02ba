package elasticsearch

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

func tp(n int32) connectors.TopicPartition {
	return connectors.TopicPartition{Topic: "orders", Partition: n}
}

func at(r schema.Record, partition int32, offset int64) schema.Record {
	return connectortest.At(r, tp(partition), offset)
}

// tomb is a record with a null value.
func tomb(key string) schema.Record {
	return schema.Record{KeySchema: schema.StringSchema, Key: schema.StringValue(key)}
}

func ids(items []stubItem) []string {
	var out []string
	for _, it := range items {
		out = append(out, it.id)
	}
	return out
}

// fails puts and flushes until the task fails, and returns why.
func fails(t *testing.T, run *connectortest.SinkRun, records []schema.Record) error {
	t.Helper()
	_, err := run.TryPut(records)
	for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); {
		if err = run.TryFlush(); err == nil {
			_, err = run.TryPut(nil)
		}
	}
	if err == nil {
		t.Fatal("no error in a minute")
	}
	return err
}

// TestRejectedItems is elasticsearch/1.
func TestRejectedItems(t *testing.T) {
	three := func() []schema.Record {
		return []schema.Record{at(doc("a", "1"), 0, 0), at(doc("b", "2"), 0, 1), at(doc("c", "3"), 0, 2)}
	}
	busy := &serverError{Type: "es_rejected_execution_exception", Reason: "queue is full"}
	five := func(s *stub) map[string]string { return conf(s.URL, "max.retries", "5", "retry.backoff.ms", "50") }

	t.Run("items with 429 and 503 are sent again, and they alone", func(t *testing.T) {
		s := newStub(t)
		s.item = func(bulk int, it stubItem) (int, *serverError) {
			if bulk == 0 && it.id == "b" {
				return 429, busy
			}
			if bulk == 0 && it.id == "c" {
				return 503, &serverError{Type: "unavailable_shards_exception", Reason: "primary shard is not active"}
			}
			return 0, nil
		}
		run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
		run.Put(three())
		run.FlushTo(tp(0), 3)
		bulks := s.seen()
		if len(bulks) != 2 || !slices.Equal(ids(bulks[0].items), []string{"a", "b", "c"}) || !slices.Equal(ids(bulks[1].items), []string{"b", "c"}) {
			t.Errorf("bulks %+v", bulks)
		}
		if got := s.texts("orders", "text"); len(got) != 3 {
			t.Errorf("stored %q", got)
		}
		run.Close(false, tp(0))
	})
	t.Run("a whole request with 429 waits as long as Retry-After says", func(t *testing.T) {
		s := newStub(t)
		var mu sync.Mutex // the stub serves each connection on a goroutine of its own
		var first, second time.Time
		s.before = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path != "/_bulk" {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if first.IsZero() {
				first = time.Now()
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(429)
				return true
			}
			second = time.Now()
			return false
		}
		run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
		run.Put(three())
		run.FlushTo(tp(0), 3)
		mu.Lock()
		defer mu.Unlock()
		if wait := second.Sub(first); wait < time.Second {
			t.Errorf("sent again after %v", wait)
		}
		run.Close(false, tp(0))
	})
	t.Run("429 for ever fails the task after 5 retries", func(t *testing.T) {
		s := newStub(t)
		s.item = func(_ int, it stubItem) (int, *serverError) {
			if it.id == "a" {
				return 0, nil
			}
			return 429, busy
		}
		run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
		err := fails(t, run, three())
		if f := connectors.FailureOf(err); f == nil || f.Reason != &unavailable || !strings.Contains(err.Error(), "queue is full") {
			t.Errorf("got %v", err)
		}
		// One attempt that stores a, and 5 retries behind the last one that got on.
		if n := len(s.seen()); n != 6 {
			t.Errorf("%d bulks", n)
		}
		run.TryFlush()
		if run.Committed[tp(0)] > 1 {
			t.Errorf("flushed up to %d", run.Committed[tp(0)])
		}
		run.Close(true, tp(0))
	})
	t.Run("a connection that is cut once all is stored repeats without doubles", func(t *testing.T) {
		s := newStub(t)
		s.after = func(bulk int, w http.ResponseWriter) bool {
			if bulk > 0 {
				return false
			}
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
			return true
		}
		run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
		run.Put(three())
		run.FlushTo(tp(0), 3)
		if got := s.texts("orders", "text"); len(got) != 3 || len(s.seen()) != 2 {
			t.Errorf("stored %q by %d bulks", got, len(s.seen()))
		}
		run.Close(false, tp(0))
	})
	t.Run("an answer that breaks off in its middle stores nothing for sure", func(t *testing.T) {
		for _, head := range []string{`{"errors":false,"items":[{"index":{"sta`, `{"errors":true,"items":[{"index":{"status":201}},{"ind`} {
			s := newStub(t)
			s.after = func(bulk int, w http.ResponseWriter) bool {
				if bulk > 0 {
					return false
				}
				c, b, err := w.(http.Hijacker).Hijack()
				if err == nil {
					fmt.Fprintf(b, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n%s", head)
					b.Flush()
					c.Close()
				}
				return true
			}
			run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
			run.Put(three())
			run.FlushTo(tp(0), 3)
			if bulks := s.seen(); len(bulks) != 2 || len(bulks[1].items) != 3 || len(s.texts("orders", "text")) != 3 {
				t.Errorf("after %s: bulks %+v", head, bulks)
			}
			run.Close(false, tp(0))
		}
	})
	t.Run("an older change that was put off does not come behind a newer one", func(t *testing.T) {
		s := newStub(t)
		s.item = func(bulk int, it stubItem) (int, *serverError) {
			if bulk == 0 && it.version == 0 {
				return 429, busy
			}
			return 0, nil
		}
		run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
		run.Put([]schema.Record{at(doc("a", "old"), 0, 0), at(doc("a", "new"), 0, 1)})
		run.FlushTo(tp(0), 2)
		if got := s.texts("orders", "text"); !slices.Equal(got, []string{"new"}) || len(s.seen()) != 1 {
			t.Errorf("stored %q by %d bulks", got, len(s.seen()))
		}
		run.Close(false, tp(0))
	})
	t.Run("an answer that lacks items stores nothing for sure", func(t *testing.T) {
		s := newStub(t)
		s.after = func(bulk int, w http.ResponseWriter) bool {
			if bulk > 0 {
				return false
			}
			fmt.Fprint(w, `{"errors":true,"items":[{"index":{"status":201}}]}`)
			return true
		}
		run := connectortest.NewSinkRun(t, Sink, nil, five(s), true, tp(0))
		run.Put(three())
		run.FlushTo(tp(0), 3)
		if len(s.seen()) != 2 || len(s.seen()[1].items) != 3 {
			t.Errorf("bulks %+v", s.seen())
		}
		run.Close(false, tp(0))
	})
}

// logs collects what is logged.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logs) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// TestVersions is elasticsearch/2.
func TestVersions(t *testing.T) {
	for _, versions := range []string{"offset", "none"} {
		t.Run("document.versions="+versions, func(t *testing.T) {
			s := newStub(t)
			run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "document.versions", versions), true, tp(0), tp(1))
			lines := &logs{}
			run.Task.(*task).lg = slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
			step := func(partition int32, offset int64, text string) string {
				run.Put([]schema.Record{at(doc("k", text), partition, offset)})
				run.FlushTo(tp(partition), offset+1)
				return s.texts("orders", "text")[0]
			}
			expect := func(what, got, byOffset, lastWins string) {
				t.Helper()
				if want := map[string]string{"offset": byOffset, "none": lastWins}[versions]; got != want {
					t.Errorf("%s: %s is stored, want %s", what, got, want)
				}
			}
			expect("partition 1 at 500", step(1, 500, "A"), "A", "A")
			expect("later partition 0 at 20", step(0, 20, "B"), "A", "B")
			// A replay within the partition keeps the newest.
			replay := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "document.versions", versions), true, tp(1))
			replay.Put([]schema.Record{at(doc("k", "older"), 1, 400), at(doc("k", "A"), 1, 500)})
			replay.FlushTo(tp(1), 501)
			replay.Close(false, tp(1))
			if got := s.texts("orders", "text")[0]; got != "A" {
				t.Errorf("after a replay %s is stored", got)
			}
			run.Close(false, tp(0), tp(1))
			if n, want := run.Task.(*task).conflicts.count(), map[string]int64{"offset": 1, "none": 0}[versions]; n != want {
				t.Errorf("%d conflicts are counted, want %d", n, want)
			}
			if versions == "offset" {
				for _, want := range []string{"level=DEBUG", "level=WARN", "id=k", "version=20", "current version [500]", "ignored=1"} {
					if !strings.Contains(lines.all(), want) {
						t.Errorf("the log has no %s:\n%s", want, lines.all())
					}
				}
			}
			again := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "document.versions", versions), true, tp(0))
			again.Put([]schema.Record{at(doc("k", "C"), 0, 0)}) // the topic was made anew
			again.FlushTo(tp(0), 1)
			expect("a topic made anew", s.texts("orders", "text")[0], "A", "C")
			again.Close(false, tp(0))
		})
	}
	t.Run("a header may hold the version", func(t *testing.T) {
		s := newStub(t)
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "external.version.header", "v"), false, tp(0))
		versioned := func(offset int64, text string, h ...schema.Header) schema.Record {
			r := at(doc("k", text), 0, offset)
			r.Headers = h
			return r
		}
		run.Put([]schema.Record{
			versioned(0, "9", schema.Header{Key: "v", Value: schema.Int64Value(9)}),
			versioned(1, "8", schema.Header{Key: "v", Value: schema.StringValue("8")}),
			versioned(2, "none"),
			versioned(3, "minus", schema.Header{Key: "v", Value: schema.Int64Value(-1)}),
			versioned(4, "text", schema.Header{Key: "v", Value: schema.StringValue("x")}),
		})
		run.FlushTo(tp(0), 5)
		if got := s.texts("orders", "text"); !slices.Equal(got, []string{"9"}) || len(run.Reported()) != 3 {
			t.Errorf("stored %q, reported %v", got, run.Reported())
		}
		run.Close(false, tp(0))
	})
}

// TestDeletes is elasticsearch/3, on a server that takes its time and, in the second
// round, knows no versions.
func TestDeletes(t *testing.T) {
	for _, versions := range []string{"offset", "none"} {
		for _, last := range []bool{true, false} {
			t.Run(fmt.Sprintf("document.versions=%s,last is a value=%v", versions, last), func(t *testing.T) {
				s := newStub(t)
				s.delay = func() { time.Sleep(rand.N(10 * time.Millisecond)) }
				run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "max.in.flight.requests", "5", "batch.size", "1",
					"behavior.on.null.values", "delete", "document.versions", versions), true, tp(0), tp(1))
				var records []schema.Record
				const keys = 8 // several, so that a wrong order surely shows
				for i := range int64(20 * keys) {
					key, round := fmt.Sprint("k", i/20), i%20
					r := doc(key, fmt.Sprint("v", round))
					if (round%2 == 0) == last {
						r = tomb(key)
					}
					records = append(records, at(r, 0, i))
				}
				run.Put(records)
				run.FlushTo(tp(0), 20*keys)
				for k := range keys {
					s.mu.Lock()
					d := s.docs["orders"][fmt.Sprint("k", k)]
					s.mu.Unlock()
					if d.deleted == last || last && !strings.Contains(d.source, "v19") {
						t.Errorf("the end of key %d is %+v", k, d)
					}
				}
				run.Close(false, tp(0), tp(1))
			})
		}
	}
	t.Run("ignored null values are no errors where none is tolerated", func(t *testing.T) {
		s := newStub(t)
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "behavior.on.null.values", "ignore", "errors.tolerance", "none"), true, tp(0))
		run.Put([]schema.Record{at(tomb("k"), 0, 0), at(doc("k", "x"), 0, 1)})
		run.FlushTo(tp(0), 2)
		run.Close(false, tp(0))
	})
	t.Run("null values as behavior.on.null.values says", func(t *testing.T) {
		for behavior, want := range map[string]string{"delete": "", "ignore": "x", "fail": "x"} {
			s := newStub(t)
			run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "behavior.on.null.values", behavior), false, tp(0))
			run.Put([]schema.Record{at(doc("k", "x"), 0, 0), at(tomb("k"), 0, 1), at(schema.Record{}, 0, 2), at(tomb("never there"), 0, 3), at(doc("l", "y"), 0, 4)})
			run.FlushTo(tp(0), 5)
			got := slices.DeleteFunc(s.texts("orders", "text"), func(t string) bool { return t == "y" })
			if strings.Join(got, "") != want {
				t.Errorf("%s: stored %q", behavior, got)
			}
			reported := map[string]int{"fail": 3, "ignore": 3, "delete": 0}[behavior] // errors are tolerated here
			if got := run.Reported(); len(got) != reported || reported > 0 && connectors.FailureOf(got[0].Cause).Reason != &nullValue {
				t.Errorf("%s: reported %v", behavior, got)
			}
			for _, b := range s.seen() {
				for _, it := range b.items {
					if it.op == "delete" && it.id != "k" && it.id != "never there" {
						t.Errorf("%s: deletes %q", behavior, it.id)
					}
				}
			}
			run.Close(false, tp(0))
		}
	})
}

// TestTruncates is postgres/7 at its sink: the event of an emptied table has no key, and is left out; another record without one is not.
func TestTruncates(t *testing.T) {
	layout := schema.NewStruct("shop.public.ta.Envelope").Field("before", schema.New(schema.String).Optional().Build()).Field("after", schema.New(schema.String).Optional().Build()).
		Field("source", schema.StringSchema).Field("op", schema.StringSchema).Build()
	event := func(op string) schema.Value {
		return schema.StructValue(layout, []schema.Value{{}, {}, schema.StringValue("pg"), schema.StringValue(op)})
	}
	entry := func(k string, v schema.Value) schema.Entry { return schema.Entry{Key: schema.StringValue(k), Value: v} }
	s := newStub(t)
	run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL), false, tp(0))
	run.Put([]schema.Record{
		at(schema.Record{ValueSchema: layout, Value: event("t")}, 0, 0),
		at(schema.Record{Value: schema.MapValue([]schema.Entry{entry("before", schema.Value{}), entry("after", schema.Value{}), entry("source", schema.MapValue(nil)), entry("op", schema.StringValue("t"))})}, 0, 1),
		at(schema.Record{ValueSchema: layout, Value: event("c")}, 0, 2),
		at(doc("k", "x"), 0, 3),
	})
	run.FlushTo(tp(0), 4)
	if reported := run.Reported(); len(reported) != 1 || !strings.Contains(reported[0].Cause.Error(), "orders-0 @ 2 makes no document: its key is null") {
		t.Errorf("reported %v, want the created row that has no key", reported)
	}
	if got := s.texts("orders", "text"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("stored %q", got)
	}
	run.Close(false, tp(0))
}

// TestTooLarge is elasticsearch/4.
func TestTooLarge(t *testing.T) {
	records := func() []schema.Record {
		var out []schema.Record
		for i := range int64(21) {
			size := 100 << 10
			if i == 10 {
				size = 2 << 20
			}
			out = append(out, at(doc(fmt.Sprint("k", i), strings.Repeat("x", size)), 0, i))
		}
		return out
	}
	limited := func(t *testing.T) *stub {
		s := newStub(t)
		s.before = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			if len(body) <= 1<<20 {
				return false
			}
			w.WriteHeader(413)
			return true
		}
		return s
	}
	t.Run("split until they fit", func(t *testing.T) {
		s := limited(t)
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "batch.size", "2000"), false, tp(0))
		run.Put(records())
		run.FlushTo(tp(0), 21)
		if n := len(s.texts("orders", "text")); n != 20 {
			t.Errorf("%d documents", n)
		}
		got := run.Reported()
		if len(got) != 1 || got[0].Record.Origin.Offset != 10 || connectors.FailureOf(got[0].Cause).Reason != &tooLarge || !strings.Contains(got[0].Cause.Error(), "413") {
			t.Errorf("reported %v", got)
		}
		run.Close(false, tp(0))
	})
	t.Run("what the server takes is remembered", func(t *testing.T) {
		s := limited(t)
		var tooMany atomic.Int32 // the stub serves each connection on a goroutine of its own
		limit := s.before
		s.before = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if len(body) > 1<<20 {
				tooMany.Add(1)
			}
			return limit(w, r, body)
		}
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL), false, tp(0))
		for o := range int64(80) {
			run.Put([]schema.Record{at(doc(fmt.Sprint(o), strings.Repeat("x", 400<<10)), 0, o)})
			if o%20 == 19 {
				run.FlushTo(tp(0), o+1)
			}
		}
		if n := len(s.texts("orders", "text")); n != 80 || tooMany.Load() > 12 { // each of 7 full bulks would be refused thrice
			t.Errorf("%d documents, %d requests were too large", n, tooMany.Load())
		}
		run.Close(false, tp(0))
	})
	t.Run("a bulk that is refused with 429 again and again is halved", func(t *testing.T) {
		s := newStub(t)
		s.before = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if strings.Count(string(body), "\n") <= 2*30 {
				return false
			}
			w.WriteHeader(429)
			fmt.Fprint(w, `{"error":{"type":"rejected_execution_exception","reason":"too many bytes"},"status":429}`)
			return true
		}
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "max.retries", "5"), true, tp(0))
		var all []schema.Record
		for o := range int64(200) {
			all = append(all, at(doc(fmt.Sprint(o), "x"), 0, o))
		}
		run.Put(all)
		run.FlushTo(tp(0), 200)
		run.Close(false, tp(0))
	})
	t.Run("or the task fails", func(t *testing.T) {
		s := limited(t)
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL), true, tp(0))
		if f := connectors.FailureOf(fails(t, run, records())); f == nil || f.Reason != &tooLarge {
			t.Errorf("got %v", f)
		}
		run.TryFlush()
		if run.Committed[tp(0)] > 10 {
			t.Errorf("flushed up to %d", run.Committed[tp(0)])
		}
		run.Close(true, tp(0))
	})
	t.Run("bound by bytes", func(t *testing.T) {
		s := limited(t)
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL, "bulk.size.bytes", "300000"), false, tp(0))
		run.Put(records())
		run.FlushTo(tp(0), 21)
		for _, b := range s.seen() {
			if b.size > 300_000 && len(b.items) > 1 {
				t.Errorf("a bulk of %d documents has %d bytes", len(b.items), b.size)
			}
		}
		run.Close(false, tp(0))
	})
	t.Run("a request that is refused as a whole is searched for the record to blame", func(t *testing.T) {
		s := newStub(t)
		s.before = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			if !strings.Contains(string(body), "blame") {
				return false
			}
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":{"type":"illegal_argument_exception","reason":"no"},"status":400}`)
			return true
		}
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s.URL), false, tp(0))
		var all []schema.Record
		for i := range int64(50) {
			text := "x"
			if i == 33 {
				text = "blame"
			}
			all = append(all, at(doc(fmt.Sprint(i), text), 0, i))
		}
		run.Put(all)
		run.FlushTo(tp(0), 50)
		if got := run.Reported(); len(got) != 1 || got[0].Record.Origin.Offset != 33 || len(s.texts("orders", "text")) != 49 {
			t.Errorf("reported %v, %d documents", got, len(s.texts("orders", "text")))
		}
		run.Close(false, tp(0))
	})
}
