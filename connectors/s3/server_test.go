package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

var quick = map[string]string{"s3.retry.backoff.ms": "5", "s3.part.retries": "2", "format.class": "io.confluent.connect.s3.format.json.JsonFormat"}

// conf are settings for a folder of a server with more from pairs.
func conf(s *peers.S3Server, folder string, pairs ...string) map[string]string {
	m := map[string]string{"s3.bucket.name": s.Bucket, "s3.region": s.Region, "store.url": s.URL, "aws.access.key.id": s.AccessKey,
		"aws.secret.access.key": s.SecretKey, "topics.dir": folder, "flush.size": "10"}
	maps.Copy(m, quick)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// bucket is a client to look into the server.
func bucket(tb testing.TB, s *peers.S3Server) *target {
	tb.Helper()
	v, errs := settings.Parse(conf(s, "x"))
	if len(errs) > 0 {
		tb.Fatal(errs)
	}
	cl, err := newClient(tb.Context(), connectors.Context{}, v)
	if err != nil {
		tb.Fatal(err)
	}
	return &target{cl: cl, bucket: aws.String(s.Bucket)}
}

// objects are the objects of a folder.
func objects(tb testing.TB, s *peers.S3Server, folder string) map[string][]byte {
	tb.Helper()
	b := bucket(tb, s)
	out := map[string][]byte{}
	pages := s3.NewListObjectsV2Paginator(b.cl, &s3.ListObjectsV2Input{Bucket: b.bucket, Prefix: aws.String(folder + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		for _, o := range page.Contents {
			got, err := b.cl.GetObject(tb.Context(), &s3.GetObjectInput{Bucket: b.bucket, Key: o.Key})
			if err != nil {
				tb.Fatal(err)
			}
			body, err := io.ReadAll(got.Body)
			if err != nil {
				tb.Fatal(err)
			}
			out[strings.TrimPrefix(*o.Key, folder+"/")] = body
		}
	}
	return out
}

func lines(objects map[string][]byte) (out []string) {
	for _, b := range objects {
		out = append(out, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
	}
	slices.Sort(out)
	return out
}

var topic = connectors.TopicPartition{Topic: "t"}

func record(offset int64) schema.Record {
	return connectortest.At(schema.Record{Value: schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.Int64Value(offset)}})}, topic, offset)
}

func records(from, to int64) (out []schema.Record) {
	for o := from; o < to; o++ {
		out = append(out, record(o))
	}
	return out
}

// fault is a server's front that may answer in its stead.
type fault struct {
	peers.S3Server
	proxy  http.Handler
	mu     sync.Mutex
	before func(w http.ResponseWriter, r *http.Request) (answered bool)
	lose   func(r *http.Request) bool // the answer of what was done
}

func front(tb testing.TB, s *peers.S3Server) *fault {
	tb.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	f := &fault{S3Server: *s}
	f.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		r.Out.Host = r.In.Host // it is signed
	}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		before, lose := f.before, f.lose
		f.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if lose != nil && lose(r) {
			f.proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		f.proxy.ServeHTTP(w, r)
	}))
	tb.Cleanup(srv.Close)
	f.URL = srv.URL
	return f
}

func (f *fault) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func TestSuite(t *testing.T) {
	server := peers.S3(t)
	connectortest.Sink(t, connectortest.SinkCase{Plugin: Sink, New: func(tb testing.TB) connectortest.SinkTarget {
		f := front(tb, server)
		folder := peers.Unique(tb, "suite")
		return connectortest.SinkTarget{
			Config: conf(&f.S3Server, folder, "flush.size", "100", "rotate.schedule.interval.ms", "20", "timezone", "UTC", "format.class", "ByteArrayFormat"),
			Record: func(_, text string) schema.Record {
				return schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue([]byte(text))}
			},
			Stored: func(tb testing.TB) []string { return lines(objects(tb, server, folder)) },
			Break: func(testing.TB) func() {
				f.set(func() {
					f.before = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
				})
				return func() { f.set(func() { f.before = nil }) }
			},
			Poison: func() schema.Record { return schema.Record{Value: schema.StringValue("no bytes")} },
		}
	}})
}

// What an object says of itself, and its tags, checked where it lies.
func TestAnObject(t *testing.T) {
	s := peers.S3(t)
	folder := peers.Unique(t, "object")
	run := connectortest.NewSinkRun(t, Sink, nil, conf(s, folder, "s3.object.tagging", "true", "s3.object.tagging.key.value.pairs", "team:a b/c", "s3.compression.type", "gzip"), true, topic)
	run.Put(records(0, 12))
	run.FlushTo(topic, 10)
	run.Close(false, topic)
	b, key := bucket(t, s), folder+"/t/partition=0/t+0+0000000000.json.gz"
	head, err := b.cl.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: b.bucket, Key: &key})
	if err != nil || head.Metadata[metaLast] != "9" || head.Metadata[metaRecords] != "10" {
		t.Errorf("%v, %v", head, err)
	}
	tags, err := b.cl.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: b.bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, tag := range tags.TagSet {
		got[*tag.Key] = *tag.Value
	}
	if want := map[string]string{"startOffset": "0", "endOffset": "9", "recordCount": "10", "team": "a b/c"}; !maps.Equal(got, want) {
		t.Errorf("tags %v", got)
	}
}

// An object of several parts, some of which fail, is whole; what was sent for one that did not become visible is given up.
func TestPartsOfAnObject(t *testing.T) {
	s := front(t, peers.S3(t))
	folder := peers.Unique(t, "parts")
	seen := map[string]int{}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		part := r.URL.Query().Get("partNumber")
		if part == "" {
			return false
		}
		s.mu.Lock()
		seen[part]++
		fail := part == "2" && seen[part] == 1
		s.mu.Unlock()
		if fail {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(500)
		}
		return fail
	}
	text := schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))}
	run := connectortest.NewSinkRun(t, Sink, nil, conf(&s.S3Server, folder, "s3.part.size", "5242880", "flush.size", "13", "format.class", "ByteArrayFormat"), true, topic)
	for o := range int64(13) {
		run.Put([]schema.Record{connectortest.At(text, topic, o)})
	}
	run.FlushTo(topic, 13)
	run.Close(false, topic)
	got := objects(t, &s.S3Server, folder)["t/partition=0/t+0+0000000000.bin"]
	if want := bytes.Repeat(append(slices.Clone(text.Value.Bytes()), '\n'), 13); !bytes.Equal(got, want) {
		t.Errorf("the object has %d bytes, want %d", len(got), len(want))
	}
	if len(seen) != 3 || seen["2"] != 2 {
		t.Errorf("parts %v", seen)
	}

	// A part fails again and again: the task fails, and nothing stays open.
	s.set(func() {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("partNumber") != "3" {
				return false
			}
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(500)
			return true
		}
	})
	run = connectortest.NewSinkRun(t, Sink, nil, conf(&s.S3Server, folder+"2", "s3.part.size", "5242880", "flush.size", "13", "format.class", "ByteArrayFormat"), true, topic)
	var failed error
	for o := range int64(13) {
		if _, failed = run.TryPut([]schema.Record{connectortest.At(text, topic, o)}); failed != nil {
			break
		}
	}
	if failed == nil {
		failed = run.TryFlush()
	}
	if f := connectors.FailureOf(failed); f == nil || f.Reason != &unavailable {
		t.Errorf("got %v", failed)
	}
	run.Close(true, topic)
	uploads(t, &s.S3Server, folder+"2", 0)
}

// uploads checks how many uploads are open in a folder.
func uploads(t *testing.T, s *peers.S3Server, folder string, want int) {
	t.Helper()
	b := bucket(t, s)
	out, err := b.cl.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: b.bucket, Prefix: aws.String(folder + "/")})
	if err != nil || len(out.Uploads) != want {
		t.Errorf("%d uploads are open (%v), want %d", len(out.Uploads), err, want)
	}
}

// Uploads that a killed task left behind are given up by the next one that has the partition; others' are left alone.
func TestUploadsLeftBehind(t *testing.T) {
	s := peers.S3(t)
	folder := peers.Unique(t, "left")
	b := bucket(t, s)
	for _, name := range []string{"t/partition=0/t+0+0000000000.json", "t/partition=1/t+1+0000000000.json", "t/partition=10/t+10+0000000000.json"} {
		if _, err := b.cl.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: b.bucket, Key: aws.String(folder + "/" + name)}); err != nil {
			t.Fatal(err)
		}
	}
	one := connectors.TopicPartition{Topic: "t", Partition: 1}
	run := connectortest.NewSinkRun(t, Sink, nil, conf(s, folder), true, one)
	run.Close(true, one)
	uploads(t, s, folder, 2)
}

func TestObjectsThatAreThereAlready(t *testing.T) {
	s := peers.S3(t)
	write := func(folder string, n int64, pairs ...string) error {
		run := connectortest.NewSinkRun(t, Sink, nil, conf(s, folder, pairs...), true, topic)
		defer run.Close(true, topic)
		if _, err := run.TryPut(records(0, n)); err != nil {
			return err
		}
		return run.TryFlush()
	}
	folder := peers.Unique(t, "there")
	for range 2 { // the second finds what the first wrote
		if err := write(folder, 10); err != nil {
			t.Fatal(err)
		}
	}
	err := write(folder, 20, "flush.size", "20")
	if f := connectors.FailureOf(err); f == nil || f.Reason != &foreign || !strings.Contains(err.Error(), "t+0+0000000000.json") || !strings.Contains(err.Error(), "up to offset 9") {
		t.Errorf("other bounds: %v", err)
	}
	if err := write(folder, 20, "flush.size", "20", "enable.conditional.writes", "false"); err != nil {
		t.Errorf("without conditions: %v", err)
	}
	if got := lines(objects(t, s, folder)); len(got) != 20 {
		t.Errorf("%d lines", len(got))
	}
	// By the clock files end anywhere: an object of the task's own gives way, and another's does not.
	if err := write(folder, 5, "flush.size", "5", "rotate.schedule.interval.ms", "3600000", "timezone", "UTC"); err != nil {
		t.Errorf("by the clock: %v", err)
	}
	b := bucket(t, s)
	if _, err := b.cl.PutObject(t.Context(), &s3.PutObjectInput{Bucket: b.bucket, Key: aws.String(folder + "x/t/partition=0/t+0+0000000000.json"), Body: strings.NewReader("mine")}); err != nil {
		t.Fatal(err)
	}
	err = write(folder+"x", 5, "flush.size", "5", "rotate.schedule.interval.ms", "3600000", "timezone", "UTC")
	if f := connectors.FailureOf(err); f == nil || f.Reason != &foreign || !strings.Contains(err.Error(), "another program") {
		t.Errorf("another's: %v", err)
	}
}

// A topic that was made anew begins at offset 0 again. Its records are told from those of the objects that are there, wherever files end.
func TestATopicThatIsMadeAnew(t *testing.T) {
	s := peers.S3(t)
	anew := records(0, 10)
	for i := range anew {
		anew[i].Origin.Timestamp += 1000
	}
	for _, c := range []struct {
		name  string
		pairs []string
	}{
		{"as many records", nil},
		{"by the clock", []string{"rotate.schedule.interval.ms", "3600000", "timezone", "UTC"}},
	} {
		folder := peers.Unique(t, "anew")
		settings := conf(s, folder, c.pairs...)
		write := func(batch []schema.Record) error {
			run := connectortest.NewSinkRun(t, Sink, nil, settings, true, topic)
			defer run.Close(true, topic)
			if _, err := run.TryPut(batch); err != nil {
				return err
			}
			return run.TryFlush()
		}
		if err := write(records(0, 10)); err != nil {
			t.Fatal(err)
		}
		before := objects(t, s, folder)
		err := write(anew)
		if f := connectors.FailureOf(err); f == nil || f.Reason.Code != "files.offsets_behind" || !strings.Contains(f.Cause, "t+0+0000000000.json") || !strings.Contains(f.Cause, "timestamp 1700000000000") {
			t.Errorf("%s: %v", c.name, err)
		}
		if after := objects(t, s, folder); !maps.EqualFunc(before, after, bytes.Equal) {
			t.Errorf("%s: objects have changed", c.name)
		}
		if err := write(records(0, 10)); err != nil {
			t.Errorf("%s: the old records once more: %v", c.name, err)
		}
		// As the remedy says.
		b, key := bucket(t, s), folder+"/t/partition=0/t+0+0000000000.json"
		if _, err := b.cl.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: b.bucket, Key: &key}); err != nil {
			t.Fatal(err)
		}
		if err := write(anew); err != nil {
			t.Errorf("%s: after its objects were moved away: %v", c.name, err)
		}
	}
}

// cases: object-stores/5. A partition moves away and back: the files that were open before it went are forgotten.
func TestAPartitionMovesAwayAndBack(t *testing.T) {
	s := peers.S3(t)
	folder := peers.Unique(t, "moves")
	settings := conf(s, folder, "flush.size", "100")
	a := connectortest.NewSinkRun(t, Sink, nil, settings, true, topic)
	a.Put(records(0, 50))
	b := connectortest.NewSinkRun(t, Sink, nil, settings, true, topic) // before a hears of it
	b.Put(records(0, 120))
	b.FlushTo(topic, 100)
	b.Close(false, topic)
	a.Close(true, topic)
	if err := a.Open(topic); err != nil {
		t.Fatal(err)
	}
	a.Put(records(100, 300))
	a.FlushTo(topic, 300)
	a.Close(false, topic)
	seen := map[string]int{}
	for _, line := range lines(objects(t, s, folder)) {
		seen[line]++
	}
	for o := range 300 {
		if line := fmt.Sprintf(`{"n":%d}`, o); seen[line] != 1 {
			t.Errorf("%s stands in %d objects", line, seen[line])
		}
	}
}

// cases: object-stores/3. Whatever a field holds, its records lie below the topic, in a folder of their own.
func TestValuesInFolders(t *testing.T) {
	s := peers.S3(t)
	folder := peers.Unique(t, "values")
	values := []string{"a/b", "a%2Fb", "..", ".", "", "null", "x=y", "ü", " sp ", "line\nbreak", "7", "a:b", `a\b`, "a?b#c&d+e"}
	run := connectortest.NewSinkRun(t, Sink, nil, conf(s, folder, "flush.size", "1", "partitioner.class", "FieldPartitioner", "partition.field.name", "k"), true, topic)
	want := map[string]bool{}
	for o, text := range values {
		v := schema.MapValue([]schema.Entry{{Key: schema.StringValue("k"), Value: schema.StringValue(text)}})
		run.Put([]schema.Record{connectortest.At(schema.Record{Value: v}, topic, int64(o))})
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		want[`{"k":`+strings.ReplaceAll(string(line), `\u0026`, "&")+"}\n"] = true
	}
	run.FlushTo(topic, int64(len(values)))
	run.Close(false, topic)
	got := objects(t, s, folder)
	for name, body := range got {
		if parts := strings.Split(name, "/"); len(parts) != 3 || parts[0] != "t" || !strings.HasPrefix(parts[1], "k=") {
			t.Errorf("an object is called %q", name)
		}
		if !want[string(body)] {
			t.Errorf("%q holds %q", name, body)
		}
		delete(want, string(body))
	}
	if len(want) > 0 || len(got) != len(values) {
		t.Errorf("%d objects; there is none of %v", len(got), want)
	}
}

// Requests fail, and answers are lost, at random; tasks die: in the end each record is in one object.
func TestEveryRecordIsInOneObject(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	chance := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n) == 0
	}
	s := front(t, peers.S3(t))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !chance(6) {
			return false
		}
		io.Copy(io.Discard, r.Body)
		w.WriteHeader([]int{500, 503, 429}[len(r.URL.Path)%3])
		return true
	}
	s.lose = func(*http.Request) bool { return chance(6) }
	folder, committed := peers.Unique(t, "chaos"), int64(0)
	const n = 600
	for life := 0; committed < n; life++ {
		if life > 200 {
			t.Fatalf("seed %d: after %d lives up to %d", seed, life, committed)
		}
		run := connectortest.NewSinkRun(t, Sink, nil, conf(&s.S3Server, folder, "s3.part.retries", "1"), true, topic)
		at := committed
		for step := rng.IntN(40); step > 0 && committed < n; step-- {
			taken, err := run.TryPut(records(at, min(n, at+rng.Int64N(50))))
			at += int64(taken)
			if err == nil {
				err = run.TryFlush()
			}
			if err != nil && connectors.RetryOf(err) != connectors.RetryHelps {
				t.Fatalf("seed %d: %v", seed, err)
			}
			committed = max(committed, run.Committed[topic])
		}
		run.Close(true, topic)
	}
	s.set(func() { s.before, s.lose = nil, nil })
	got := lines(objects(t, &s.S3Server, folder))
	var want []string
	for o := range n {
		want = append(want, fmt.Sprintf(`{"n":%d}`, o))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: %d lines in %d lives, want %d", seed, len(got), n, len(want))
	}
}

func TestValidateLooksAtTheBucket(t *testing.T) {
	s := peers.S3(t)
	for _, c := range []struct {
		name  string
		pairs []string
		key   string
		want  string
	}{
		{"good", nil, "", ""},
		{"no such bucket", []string{"s3.bucket.name", "none-such"}, "s3.bucket.name", "create it"},
		{"a wrong secret", []string{"aws.secret.access.key", "wr0ngsecret"}, "aws.access.key.id", "bucket"},
		{"nothing answers", []string{"store.url", "http://127.0.0.1:1", "s3.part.retries", "0"}, "store.url", "connection refused"},
	} {
		v, errs := settings.Parse(conf(s, "x", c.pairs...))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		errs = (&sink{v: v}).Validate(ctx)
		cancel()
		switch {
		case c.key == "" && len(errs) > 0:
			t.Errorf("%s: %v", c.name, errs)
		case c.key != "" && (len(errs) != 1 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(), "wr0ng")):
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}
