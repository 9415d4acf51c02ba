package elasticsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// onServers tests against each of the real servers that the run has.
func onServers(t *testing.T, test func(t *testing.T, url, index string)) {
	for _, name := range peers.SearchNames() {
		t.Run(name, func(t *testing.T) { test(t, peers.Search(t, name).URL, peers.Unique(t, "es")) })
	}
}

// lookup is a document's source and version, or nil.
func lookup(tb testing.TB, server, index, id string) (source map[string]any, version int64) {
	tb.Helper()
	resp, err := http.Get(server + "/" + index + "/_doc/" + id)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	var answer struct {
		Found   bool           `json:"found"`
		Version int64          `json:"_version"`
		Source  map[string]any `json:"_source"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	if !answer.Found {
		return nil, 0
	}
	return answer.Source, answer.Version
}

func on(r schema.Record, index string, offset int64) schema.Record {
	return connectortest.At(r, connectors.TopicPartition{Topic: index}, offset)
}

func sinkOn(t *testing.T, url, index string, pairs ...string) (*connectortest.SinkRun, connectors.TopicPartition) {
	part := connectors.TopicPartition{Topic: index}
	return connectortest.NewSinkRun(t, Sink, nil, conf(url, pairs...), false, part), part
}

// TestServersLifeOfADocument writes, changes, deletes and replays, as a table's changes come.
func TestServersLifeOfADocument(t *testing.T) {
	onServers(t, func(t *testing.T, url, index string) {
		changes := func() []schema.Record {
			return []schema.Record{on(doc("a", "1"), index, 0), on(doc("b", "1"), index, 1), on(doc("a", "2"), index, 2), on(tomb("b"), index, 3),
				on(tomb("never"), index, 4), on(doc("c", "1"), index, 5), on(tomb("c"), index, 6), on(doc("c", "2"), index, 7)}
		}
		for round := range 2 {
			run, part := sinkOn(t, url, index, "behavior.on.null.values", "delete")
			run.Put(changes())
			run.FlushTo(part, 8)
			for id, want := range map[string]string{"a": "2 2", "b": "", "c": "2 7"} {
				got := ""
				if source, version := lookup(t, url, index, id); source != nil {
					got = fmt.Sprint(source["text"], " ", version)
				}
				if got != want {
					t.Errorf("round %d: %s is %q, want %q", round, id, got, want)
				}
			}
			if n := run.Task.(*task).conflicts.count(); (n == 0) != (round == 0) {
				t.Errorf("round %d: %d conflicts", round, n)
			}
			run.Close(false, part)
			if len(run.Reported()) > 0 {
				t.Errorf("reported %v", run.Reported())
			}
		}
	})
}

// TestServersTakeOurMapping checks the mapping of every kind, and that its documents fit.
func TestServersTakeOurMapping(t *testing.T) {
	s := schema.NewStruct("all").
		Field("i8", schema.Int8Schema).Field("i16", schema.Int16Schema).Field("i32", schema.Int32Schema).Field("i64", schema.Int64Schema).
		Field("f32", schema.Float32Schema).Field("f64", schema.Float64Schema).Field("b", schema.BoolSchema).
		Field("s", schema.New(schema.String).Default(str("x")).Build()).Field("y", schema.BytesSchema).
		Field("date", schema.DateOf().Default(schema.DateValue(2)).Build()).Field("time", schema.TimeOf().Build()).Field("ts", schema.TimestampOf().Build()).
		Field("dec", schema.DecimalOf(2).Default(schema.DecimalInt64(150, 2)).Build()).
		Field("arr", schema.ArrayOf(schema.Int64Schema).Build()).Field("obj", schema.MapOf(schema.StringSchema, schema.Int32Schema).Build()).
		Field("map", schema.MapOf(schema.Int32Schema, schema.StringSchema).Build()).Field("in", docSchema).
		Field("loose", schema.ArrayOf(docSchema).Optional().Build()).Build()
	v := schema.StructValue(s, []schema.Value{schema.Int8Value(-128), schema.Int16Value(1), schema.Int32Value(1), schema.Int64Value(1 << 60),
		schema.Float32Value(1.5), schema.Float64Value(1e300), schema.BoolValue(true), str("é\u2028\x01"), schema.BytesValue([]byte{0, 255}),
		schema.DateValue(-1), schema.TimeValue(1), schema.TimestampValue(1_700_000_000_000), mustDecimal("12345678901234567890.10"),
		schema.ArrayValue([]schema.Value{schema.Int64Value(1)}), entries(str("k"), schema.Int32Value(1)), entries(schema.Int32Value(1), str("x")),
		schema.StructValue(docSchema, []schema.Value{str("t"), {}}), {}})
	onServers(t, func(t *testing.T, url, index string) {
		run, part := sinkOn(t, url, index)
		run.Put([]schema.Record{on(schema.Record{Key: str("k"), ValueSchema: s, Value: v}, index, 0)})
		run.FlushTo(part, 1)
		run.Close(false, part)
		if got := run.Reported(); len(got) > 0 {
			t.Fatal(got[0].Cause)
		}
		var answer map[string]struct {
			Mappings struct {
				Properties map[string]struct{ Type string }
			}
		}
		if err := json.Unmarshal(call(t, "GET", url+"/"+index+"/_mapping", ""), &answer); err != nil {
			t.Fatal(err)
		}
		got := answer[index].Mappings.Properties
		for name, want := range map[string]string{"i8": "byte", "i16": "short", "i32": "integer", "i64": "long", "f32": "float", "f64": "double",
			"b": "boolean", "s": "text", "y": "binary", "date": "date", "time": "date", "ts": "date", "dec": "double", "arr": "long"} {
			if got[name].Type != want {
				t.Errorf("%s is mapped as %q, want %q", name, got[name].Type, want)
			}
		}
		if source, _ := lookup(t, url, index, "k"); source["s"] != "é\u2028\x01" || source["ts"] != 1.7e12 {
			t.Errorf("the document is %v", source)
		}
	})
}

func TestServersRefuse(t *testing.T) {
	onServers(t, func(t *testing.T, url, index string) {
		call(t, "PUT", url+"/"+index, `{"mappings":{"dynamic":"strict","properties":{"text":{"type":"keyword"},"n":{"type":"long"}}}}`)
		m := func(pairs ...schema.Value) schema.Record {
			return schema.Record{Key: str("k"), Value: entries(pairs...)}
		}
		nan := schema.NewStruct("").Field("n", schema.Float64Schema).Build()
		run, part := sinkOn(t, url, index)
		run.Put([]schema.Record{
			on(doc("good", "1"), index, 0),
			on(m(str("text"), str("x"), str("n"), str("12.x")), index, 1),
			on(m(str("unknown"), str("x")), index, 2),
			on(schema.Record{Key: str("k"), ValueSchema: nan, Value: schema.StructValue(nan, []schema.Value{schema.Float64Value(math.NaN())})}, index, 3),
			on(doc("good2", "2"), index, 4),
		})
		run.FlushTo(part, 5)
		run.Close(false, part)
		var got []int64
		for _, r := range run.Reported() {
			got = append(got, r.Record.Origin.Offset)
			f := connectors.FailureOf(r.Cause)
			if f == nil || f.Reason != &mappingConflict || !strings.Contains(f.Error(), index) {
				t.Errorf("offset %d: %v", r.Record.Origin.Offset, r.Cause)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("reported %v", got)
		}
		if texts := searchTexts(t, url, index); len(texts) != 2 {
			t.Errorf("stored %q", texts)
		}
	})
}

func TestServersUpsert(t *testing.T) {
	onServers(t, func(t *testing.T, url, index string) {
		part := schema.NewStruct("").Field("text", schema.StringSchema).Field("more", schema.StringSchema).Build()
		r := schema.Record{Key: str("a"), ValueSchema: part, Value: schema.StructValue(part, []schema.Value{str("__debezium_unavailable_value"), str("new")})}
		run, tp := sinkOn(t, url, index, "write.method", "upsert", "behavior.on.null.values", "delete")
		run.Put([]schema.Record{on(doc("a", "kept"), index, 0), on(r, index, 1), on(doc("b", "1"), index, 2), on(tomb("b"), index, 3)})
		run.FlushTo(tp, 4)
		run.Close(false, tp)
		if a, _ := lookup(t, url, index, "a"); a["text"] != "kept" || a["more"] != "new" {
			t.Errorf("a is %v", a)
		}
		if b, _ := lookup(t, url, index, "b"); b != nil {
			t.Errorf("b is %v", b)
		}
	})
}

func TestServersValidate(t *testing.T) {
	onServers(t, func(t *testing.T, url, _ string) {
		v, _ := Sink.Config.Parse(conf(url))
		s, _ := Sink.New(connectors.Context{}, v)
		if errs := s.(connectors.Validator).Validate(context.Background()); len(errs) > 0 {
			t.Error(errs)
		}
	})
}

// TestServersOddNames has ids and names of indices at the edge of what servers take: what passes our checks passes theirs, and what does not is
// reported by itself.
func TestServersOddNames(t *testing.T) {
	onServers(t, func(t *testing.T, url, index string) {
		run, part := sinkOn(t, url, index)
		good := []string{strings.Repeat("x", 512), strings.Repeat("é", 256), "a/b?c=d&e#f", " ", "quote\"back\\slash", "line\nbreak", "nul\x00", "\u2028", "_x", ".", "-1"}
		long := []string{strings.Repeat("x", 513), "x" + strings.Repeat("é", 256), ""}
		var records []schema.Record
		for _, id := range append(slices.Clone(good), long...) {
			records = append(records, on(doc(id, id), index, int64(len(records))))
		}
		names := []string{".with.dots", "UPPER", "ünïcode", "a" + strings.Repeat("-", 20), "__twice", "a:b", "a b", "a#b", strings.Repeat("y", 300)}
		for _, name := range names {
			r := on(doc("id", name), index, int64(len(records)))
			r.Topic = index + name
			if strings.HasPrefix(name, "_") {
				r.Topic = name + index
			}
			records = append(records, r)
		}
		run.Put(records)
		run.FlushTo(part, int64(len(records)))
		run.Close(false, part)
		var refused []int
		for _, rep := range run.Reported() {
			refused = append(refused, int(rep.Record.Origin.Offset))
			if f := connectors.FailureOf(rep.Cause); f == nil || f.Reason != &badRecord {
				t.Errorf("refused by the server, not by us: %v", rep.Cause)
			}
		}
		slices.Sort(refused)
		first, names1 := len(good), len(good)+len(long)
		if want := []int{first, first + 1, first + 2, names1 + 4, names1 + 5, names1 + 6, names1 + 7}; !slices.Equal(refused, want) {
			t.Errorf("records %d are refused, want %d", refused, want)
		}
		if got := searchTexts(t, url, index); len(got) != len(good) {
			t.Errorf("stored %q", got)
		}
	})
}

// TestServersAreFull blocks writes to an index, as a server does whose disk is full, and later all writes: nothing is lost, no record is blamed, and the
// task goes on by itself.
func TestServersAreFull(t *testing.T) {
	onServers(t, func(t *testing.T, url, index string) {
		run, part := sinkOn(t, url, index, "max.retries", "1")
		run.Put([]schema.Record{on(doc("a", "1"), index, 0)})
		run.FlushTo(part, 1)
		for i, block := range []string{"read_only_allow_delete", "read_only", "write"} {
			set := func(value string) {
				call(t, "PUT", url+"/"+index+"/_settings", `{"index.blocks.`+block+`":`+value+`}`)
			}
			set("true")
			last := int64(i + 1)
			err := fails(t, run, []schema.Record{on(doc("a", fmt.Sprint(block)), index, last)})
			if f := connectors.FailureOf(err); f == nil || f.Reason != &unavailable || !strings.Contains(err.Error(), "cluster_block_exception") {
				t.Errorf("%s: %v", block, err)
			}
			if run.Committed[part] != last {
				t.Errorf("%s: flushed up to %d", block, run.Committed[part])
			}
			set("null")
			run.FlushTo(part, last+1)
		}
		run.Close(false, part)
		if got := run.Reported(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
		if source, version := lookup(t, url, index, "a"); source["text"] != "write" || version != 3 {
			t.Errorf("a is %v, version %d", source, version)
		}
	})
}

// TestServersAnswersAreCut cuts connections in the middle of the servers' answers, after any number of bytes, while documents change: in the end each is
// there once, in its latest version.
func TestServersAnswersAreCut(t *testing.T) {
	onServers(t, func(t *testing.T, url, index string) {
		relay := connectortest.NewRelay(t, strings.TrimPrefix(url, "http://"))
		run, part := sinkOn(t, fmt.Sprintf("http://%s:%d", relay.Host, relay.Port), index, "max.retries", "3", "batch.size", "50", "behavior.on.null.values", "delete")
		rnd := rand.New(rand.NewPCG(trial.Seed(t), 3))
		const keys, rounds = 40, 30
		want := map[string]string{}
		offset := int64(0)
		for round := range rounds {
			relay.BreakAfter(rnd.IntN(2000))
			var records []schema.Record
			for range 60 {
				key, text := fmt.Sprint("k", rnd.IntN(keys)), fmt.Sprint("v", offset)
				r := doc(key, text)
				want[key] = text
				if rnd.IntN(5) == 0 {
					r = tomb(key)
					delete(want, key)
				}
				records = append(records, on(r, index, offset))
				offset++
			}
			run.Put(records)
			if round%10 == 9 {
				run.FlushTo(part, offset)
			}
		}
		relay.BreakAfter(-1)
		run.FlushTo(part, offset)
		run.Close(false, part)
		if run.Task.(*task).conflicts.count() == 0 {
			t.Error("no answer was cut behind what it was an answer to: the test does not show what it is for")
		}
		got := searchTexts(t, url, index)
		slices.Sort(got)
		if latest := slices.Sorted(maps.Values(want)); !slices.Equal(got, latest) {
			t.Errorf("stored %q, want %q", got, latest)
		}
	})
}

// TestServerInTrouble has a server that refuses bulks while it has more than 200 KiB
// of them, and then halts and kills it.
func TestServerInTrouble(t *testing.T) {
	names := []string{"opensearch"}
	if trial.Soak() {
		names = peers.SearchNames()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			server := peers.SearchOwn(t, name, "indexing_pressure.memory.limit: 200kb")
			t.Run("it pushes back", func(t *testing.T) { pushedBack(t, server) })
			t.Run("it makes no index for now", func(t *testing.T) { blocked(t, server) })
			t.Run("it is silent for longer than read.timeout.ms", func(t *testing.T) { silenced(t, server) })
			t.Run("it is killed and comes back", func(t *testing.T) { killed(t, server) })
		})
	}
}

// pushedBack writes more at once than the server takes: the server's own count says that
// it refused some, and all are there in the end.
func pushedBack(t *testing.T, server *peers.SearchServer) {
	index := peers.Unique(t, "es")
	run, part := sinkOn(t, server.URL, index, "batch.size", "300", "max.retries", "1000000", "max.in.flight.requests", "5")
	const n = 10_000
	filler := strings.Repeat("x", 300)
	var records []schema.Record
	for o := range int64(n) {
		records = append(records, on(doc(fmt.Sprint(o), fmt.Sprint(o, filler)), index, o))
	}
	run.Put(records)
	run.FlushTo(part, n)
	run.Close(false, part)
	var count struct{ Count int }
	call(t, "POST", server.URL+"/"+index+"/_refresh", "")
	if err := json.Unmarshal(call(t, "GET", server.URL+"/"+index+"/_count", ""), &count); err != nil || count.Count != n {
		t.Errorf("%d documents, %v", count.Count, err)
	}
	var stats struct {
		Nodes map[string]struct {
			Pressure struct {
				Memory struct {
					Total map[string]json.RawMessage
				}
			} `json:"indexing_pressure"`
		}
	}
	if err := json.Unmarshal(call(t, "GET", server.URL+"/_nodes/stats/indexing_pressure", ""), &stats); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, node := range stats.Nodes {
		for _, name := range []string{"coordinating_rejections", "primary_rejections"} {
			var k int
			json.Unmarshal(node.Pressure.Memory.Total[name], &k)
			refused += k
		}
	}
	if refused == 0 {
		t.Error("the server refused nothing: the test does not show what it is for")
	}
	t.Logf("the server refused %d requests", refused)
}

// blocked lets the whole server take no writes when a topic's first record comes: its index is made later.
func blocked(t *testing.T, server *peers.SearchServer) {
	block := func(value string) {
		call(t, "PUT", server.URL+"/_cluster/settings", `{"persistent":{"cluster.blocks.read_only":`+value+`}}`)
	}
	index := peers.Unique(t, "es")
	run, part := sinkOn(t, server.URL, index, "max.retries", "1")
	block("true")
	records := []schema.Record{on(doc("a", "1"), index, 0)}
	n, err := run.TryPut(records)
	block("null")
	if f := connectors.FailureOf(err); n != 0 || f == nil || f.Reason != &unavailable || !strings.Contains(err.Error(), "cluster_block_exception") {
		t.Errorf("%d taken, %v", n, err)
	}
	run.Put(records[n:])
	run.FlushTo(part, 1)
	run.Close(false, part)
	if source, _ := lookup(t, server.URL, index, "a"); source["text"] != "1" {
		t.Errorf("stored %v", source)
	}
}

// silenced halts the server while it has requests, until the task has given up: what it does with them later changes nothing.
func silenced(t *testing.T, server *peers.SearchServer) {
	index := peers.Unique(t, "es")
	run, part := sinkOn(t, server.URL, index, "read.timeout.ms", "2000", "max.retries", "0")
	change := func(round int64) (records []schema.Record) {
		for k := range int64(100) {
			records = append(records, on(doc(fmt.Sprint(k), fmt.Sprint(k, " ", round)), index, round*100+k))
		}
		return records
	}
	slow := func(err error) bool { return connectors.RetryOf(err) == connectors.RetryHelps }
	run.Put(change(0))
	run.FlushTo(part, 100)
	server.Halt(t)
	err := fails(t, run, change(1))
	server.Resume(t)
	if f := connectors.FailureOf(err); f == nil || f.Reason != &unreachable || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("while the server is silent: %v", err)
	}
	records := change(2)
	for end := time.Now().Add(2 * time.Minute); run.Committed[part] < 300; {
		n, err := run.TryPut(records)
		if records = records[n:]; err == nil {
			err = run.TryFlush()
		}
		if err != nil && !slow(err) || time.Now().After(end) {
			t.Fatalf("flushed up to %d: %v", run.Committed[part], err)
		}
	}
	run.Close(false, part)
	texts := searchTexts(t, server.URL, index)
	for _, text := range texts {
		if !strings.HasSuffix(text, " 2") {
			t.Errorf("%q is stored, and is not the latest", text)
		}
	}
	if len(texts) != 100 {
		t.Errorf("%d documents", len(texts))
	}
}

// killed kills the server while records are written and starts it again: all are
// there in the end, each once.
func killed(t *testing.T, server *peers.SearchServer) {
	index := peers.Unique(t, "es")
	run, part := sinkOn(t, server.URL, index, "read.timeout.ms", "10000")
	put := func(from, to int64) {
		for o := from; o < to; o += 100 {
			var records []schema.Record
			for i := range int64(100) {
				records = append(records, on(doc(fmt.Sprint(o+i), fmt.Sprint(o+i)), index, o+i))
			}
			for end := time.Now().Add(3 * time.Minute); ; {
				n, err := run.TryPut(records)
				if records = records[n:]; err == nil {
					break
				}
				if connectors.RetryOf(err) != connectors.RetryHelps || time.Now().After(end) {
					t.Fatal(err)
				}
			}
		}
	}
	put(0, 2000)
	server.Kill(t)
	var failed error
	for end := time.Now().Add(time.Minute); failed == nil && time.Now().Before(end); {
		_, failed = run.TryPut([]schema.Record{on(doc("2000", "2000"), index, 2000)})
		if failed == nil {
			failed = run.TryFlush()
		}
	}
	if f := connectors.FailureOf(failed); f == nil || f.Reason != &unreachable || !strings.Contains(failed.Error(), server.URL) {
		t.Fatalf("with the server killed: %v", failed)
	}
	before := run.Committed[part]
	server.Start(t)
	put(2000, 4000)
	for end := time.Now().Add(3 * time.Minute); run.Committed[part] < 4000; {
		err := run.TryFlush()
		if err == nil {
			_, err = run.TryPut(nil)
		}
		if err != nil && connectors.RetryOf(err) != connectors.RetryHelps || time.Now().After(end) {
			t.Fatalf("flushed up to %d: %v", run.Committed[part], err)
		}
	}
	run.Close(false, part)
	texts := searchTexts(t, server.URL, index)
	if slices.Sort(texts); len(texts) != 4000 || len(slices.Compact(texts)) != 4000 {
		t.Errorf("%d documents; %d were flushed before the kill", len(texts), before)
	}
}
