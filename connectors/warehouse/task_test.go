package warehouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/trial"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// folders is a Target in memory.
type folders struct {
	mu    sync.Mutex
	files map[string][]byte
	fail  func(name string) error // asked before a file becomes visible
	wrong []string
}

var unavailable = connectors.Reason{Code: "test.unavailable", Retry: connectors.RetryHelps, Doc: "The target is away.", Remedy: "wait"}

func (f *folders) Commit(_ context.Context, _ connectors.TopicPartition, files []File, moving func()) error {
	for _, file := range files {
		b, err := io.ReadAll(io.NewSectionReader(file.Body, 0, file.Size))
		if err != nil {
			return err
		}
		f.mu.Lock()
		if f.fail != nil {
			err = f.fail(file.Name)
		}
		if err == nil {
			if old, there := f.files[file.Name]; there && !bytes.Equal(old, b) {
				f.wrong = append(f.wrong, fmt.Sprintf("%s was %d bytes and comes again with %d", file.Name, len(old), len(b)))
			}
			f.files[file.Name] = b
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
		moving()
	}
	return nil
}

func (f *folders) Close() {}

// lines are the lines of all visible files.
func (f *folders) lines() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.files {
		if len(b) > 0 {
			out = append(out, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
		}
	}
	return out
}

func newFolders() *folders { return &folders{files: map[string][]byte{}} }

func sinkPlugin(f *folders) connectors.SinkPlugin {
	return connectors.SinkPlugin{
		Info: plugin.Info{Name: "folders", Config: Settings},
		NewTask: func(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
			return NewTask(cc, v, Options{}, func(context.Context) (Target, error) { return f, nil })
		},
	}
}

func conf(pairs ...string) map[string]string {
	m := map[string]string{"format.class": "io.confluent.connect.s3.format.json.JsonFormat", "flush.size": "1"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestSuite(t *testing.T) {
	f := newFolders()
	connectortest.Sink(t, connectortest.SinkCase{Plugin: sinkPlugin(f), New: func(testing.TB) connectortest.SinkTarget {
		f.mu.Lock()
		f.files, f.fail = map[string][]byte{}, nil
		f.mu.Unlock()
		return connectortest.SinkTarget{
			Config: conf("format.class", "ByteArrayFormat"), Idempotent: true,
			Record: func(_, text string) schema.Record {
				return schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue([]byte(text))}
			},
			Stored: func(testing.TB) []string { return f.lines() },
			Break: func(testing.TB) func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.fail = func(string) error { return connectors.Failed(&unavailable, nil, "away", "") }
				return func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.fail = nil
				}
			},
			Poison: func() schema.Record {
				return schema.Record{ValueSchema: schema.StringSchema, Value: schema.StringValue("no bytes")}
			},
		}
	}})
}

var topic = connectors.TopicPartition{Topic: "t"}

// at is a record of an offset with a country and a time.
func at(offset int64, country string, when time.Duration) schema.Record {
	r := schema.Record{Value: schema.MapValue([]schema.Entry{entry("c", schema.StringValue(country)), entry("n", schema.Int64Value(offset))})}
	r = connectortest.At(r, topic, offset)
	r.Timestamp = int64(1_700_000_000_000) + when.Milliseconds()
	return r
}

// names are the visible files, without what all names have in common, and their numbers of records.
func (f *folders) names() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for name, b := range f.files {
		out = append(out, fmt.Sprintf("%s:%d", strings.TrimSuffix(strings.TrimPrefix(name, "topics/t/"), ".json"), bytes.Count(b, []byte("\n"))))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestWhenFilesAreFinished(t *testing.T) {
	byField := []string{"partitioner.class", "FieldPartitioner", "partition.field.name", "c"}
	hourly := []string{"partitioner.class", "HourlyPartitioner", "timestamp.extractor", "Record", "timezone", "UTC", "locale", "en"}
	const m = time.Minute
	for _, c := range []struct {
		name    string
		pairs   []string
		records []schema.Record
		want    string
		next    int64 // committed
	}{
		{"by count", []string{"flush.size", "2"}, []schema.Record{at(0, "a", 0), at(1, "a", 0), at(2, "a", 0)},
			"partition=0/t+0+0000000000:2", 2},
		{"a full file takes the others with it", append([]string{"flush.size", "2"}, byField...), []schema.Record{at(0, "a", 0), at(1, "b", 0), at(2, "a", 0), at(3, "b", 0)},
			"c=a/t+0+0000000000:2 c=b/t+0+0000000001:1", 3},
		{"by the records' time", []string{"flush.size", "9", "rotate.interval.ms", "600000", "partitioner.class", "DailyPartitioner", "timestamp.extractor", "Record", "timezone", "UTC", "locale", "en"},
			[]schema.Record{at(0, "a", 0), at(1, "a", 9*m), at(2, "a", 10*m), at(3, "a", 11*m)}, "year=2023/month=11/day=14/t+0+0000000000:2", 2},
		{"a later hour", append([]string{"flush.size", "9", "rotate.interval.ms", "7200000"}, hourly...), []schema.Record{at(0, "a", 0), at(1, "a", 50*m), at(2, "a", 51*m)},
			"year=2023/month=11/day=14/hour=22/t+0+0000000000:1", 1},
		{"late records finish nothing", append([]string{"flush.size", "9", "rotate.interval.ms", "72000000"}, hourly...),
			[]schema.Record{at(0, "a", 50*m), at(1, "a", 0), at(2, "a", 51*m), at(3, "a", 1*m), at(4, "a", 52*m), at(5, "a", 120*m)},
			"year=2023/month=11/day=14/hour=22/t+0+0000000001:2 year=2023/month=11/day=14/hour=23/t+0+0000000000:3", 5},
		{"a change of folder may be no end", append([]string{"flush.size", "2", "rotate.interval.ms", "72000000", "rotate.file.on.partition.change", "false"}, hourly...),
			[]schema.Record{at(0, "a", 0), at(1, "a", 50*m), at(2, "a", 51*m)}, "year=2023/month=11/day=14/hour=22/t+0+0000000000:1 year=2023/month=11/day=14/hour=23/t+0+0000000001:2", 3},
		{"by size", []string{"flush.size", "99", "rotate.size.bytes", "30"}, []schema.Record{at(0, "a", 0), at(1, "a", 0), at(2, "a", 0)}, "partition=0/t+0+0000000000:2", 2},
		{"too many open", append([]string{"flush.size", "99", "partitioner.max.open.files", "2"}, byField...), []schema.Record{at(0, "a", 0), at(1, "a", 0), at(2, "b", 0), at(3, "c", 0)},
			"c=a/t+0+0000000000:2 c=b/t+0+0000000002:1", 3},
		{"nothing yet", []string{"flush.size", "9"}, []schema.Record{at(0, "a", 0)}, "", 0},
	} {
		f := newFolders()
		run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf(c.pairs...), true, topic)
		run.Put(c.records)
		if err := run.TryFlush(); err != nil {
			t.Fatal(err)
		}
		if got := f.names(); got != c.want || run.Committed[topic] != c.next {
			t.Errorf("%s: %s, committed %d", c.name, got, run.Committed[topic])
		}
		run.Close(false, topic)
	}
}

// cases: object-stores/1. Without the clock the last files of a silent partition stay open, and are read again after a stop.
func TestASilentPartition(t *testing.T) {
	f := newFolders()
	settings := conf("flush.size", "1000", "rotate.interval.ms", "600000", "partitioner.class", "DailyPartitioner", "timestamp.extractor", "Record", "timezone", "UTC", "locale", "en")
	batch := []schema.Record{at(0, "a", 0), at(1, "a", 0), at(2, "a", 0)}
	for range 2 { // a stop, and a start
		run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, settings, true, topic)
		run.Put(batch)
		run.Put(nil)
		if err := run.TryFlush(); err != nil || f.names() != "" || run.Committed[topic] != 0 {
			t.Errorf("%v, %s, committed %d", err, f.names(), run.Committed[topic])
		}
		run.Close(false, topic)
	}
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, settings, true, topic)
	run.Put(append(batch, at(3, "a", time.Hour)))
	if err := run.TryFlush(); err != nil || f.names() != "year=2023/month=11/day=14/t+0+0000000000:3" || run.Committed[topic] != 3 {
		t.Errorf("%v, %s, committed %d", err, f.names(), run.Committed[topic])
	}
	run.Close(false, topic)
}

// cases: object-stores/1. Files of partitions that are silent are finished by the clock, beside others that are busy.
func TestTheClockFinishesFiles(t *testing.T) {
	f := newFolders()
	busy := connectors.TopicPartition{Topic: "t", Partition: 1}
	offset := int64(0)
	more := func() []schema.Record {
		offset++
		return []schema.Record{connectortest.At(schema.Record{Value: schema.StringValue("busy")}, busy, offset-1)}
	}
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("flush.size", "1000", "rotate.schedule.interval.ms", "5000", "timezone", "UTC"), true, topic, busy)
	task := run.Task.(*Task)
	now := time.UnixMilli(1_700_000_001_000)
	task.now = func() time.Time { return now }
	run.Put([]schema.Record{at(0, "a", 0), at(1, "a", 0), at(2, "a", 0)})
	now = now.Add(3 * time.Second)
	run.Put(more())
	if err := run.TryFlush(); err != nil || f.names() != "" {
		t.Errorf("%v, too early: %s", err, f.names())
	}
	now = now.Add(time.Second) // 1_700_000_005 is a multiple of five seconds since midnight
	run.Put(more())
	if err := run.TryFlush(); err != nil || f.names() != "partition=0/t+0+0000000000:3 partition=1/t+1+0000000000:2" || run.Committed[topic] != 3 || run.Committed[busy] != 2 {
		t.Errorf("%v, %s, committed %v", err, f.names(), run.Committed)
	}
	run.Close(false, topic, busy)
}

// What is left out (null values that are ignored, records without a folder) is committed as well.
func TestRecordsThatAreLeftOut(t *testing.T) {
	f := newFolders()
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("flush.size", "2", "behavior.on.null.values", "ignore", "partitioner.class", "FieldPartitioner", "partition.field.name", "c"), false, topic)
	none := connectortest.At(schema.Record{}, topic, 0)
	foreign := connectortest.At(schema.Record{Value: schema.StringValue("x")}, topic, 1)
	run.Put([]schema.Record{none, foreign})
	if err := run.TryFlush(); err != nil || run.Committed[topic] != 2 {
		t.Errorf("%v, committed %d", err, run.Committed[topic])
	}
	if got := run.Reported(); len(got) != 1 || got[0].Record.Origin.Offset != 1 || connectors.FailureOf(got[0].Cause).Reason != &badRecord {
		t.Errorf("reported %v", got)
	}
	run.Put([]schema.Record{at(2, "a", 0), at(3, "a", 0), connectortest.At(schema.Record{}, topic, 4)})
	if err := run.TryFlush(); err != nil || run.Committed[topic] != 5 || f.names() != "c=a/t+0+0000000002:2" {
		t.Errorf("%v, committed %d, %s", err, run.Committed[topic], f.names())
	}
	run.Close(false, topic)
}

// Offsets that go back while a task has the partition are those of another topic of its name: its records are not mixed with what was written.
func TestOffsetsThatGoBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []schema.Record
		cause   string
		files   string
	}{
		{"behind finished files", []schema.Record{at(0, "a", 0), at(1, "a", 0), at(0, "b", 0)}, "from offset 0 on come, after those up to 1", "partition=0/t+0+0000000000:2"},
		{"while a file is open", []schema.Record{at(7, "a", 0), at(6, "b", 0)}, "from offset 6 on come, after those up to 7", ""},
		{"the same offset once more", []schema.Record{at(7, "a", 0), at(7, "a", 0)}, "from offset 7 on come, after those up to 7", ""},
		{"behind a record that was left out", []schema.Record{connectortest.At(schema.Record{}, topic, 3), at(2, "a", 0)}, "from offset 2 on come, after those up to 3", ""},
	} {
		f := newFolders()
		run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("flush.size", "2", "behavior.on.null.values", "ignore"), false, topic)
		last := len(c.records) - 1
		taken, err := run.TryPut(c.records)
		if f := connectors.FailureOf(err); taken != last || f == nil || f.Reason != &offsetsBehind || !strings.Contains(f.Cause, c.cause) {
			t.Errorf("%s: %d taken, %v", c.name, taken, err)
		}
		if err := run.TryFlush(); err != nil || f.names() != c.files {
			t.Errorf("%s: %s, %v", c.name, f.names(), err)
		}
		run.Close(false, topic)
		// A partition that comes anew may begin before.
		if err := run.Open(topic); err != nil {
			t.Fatal(err)
		}
		run.Put(c.records[last:])
		run.Close(false, topic)
	}
}

// A model of kills: whatever fails and whenever the task dies, what is visible holds each record up to the committed offset
// once, none twice, and a file that is written again is the same.
func TestEveryRecordStandsInOneFile(t *testing.T) {
	for _, seed := range trial.Seeds(12) {
		everyRecord(t, seed)
	}
}

func everyRecord(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	pairs := [][]string{
		{"flush.size", strconv.Itoa(1 + rng.IntN(40))},
		{"partitioner.class", "FieldPartitioner", "partition.field.name", "c"},
	}
	if rng.IntN(2) == 0 {
		pairs[1] = []string{"partitioner.class", "FieldAndTimeBasedPartitioner", "partition.field.name", "c", "path.format", "YYYY-MM-dd_HH", "partition.duration.ms", "3600000",
			"timestamp.extractor", "Record", "timezone", "Europe/Berlin", "locale", "en", "rotate.interval.ms", strconv.Itoa(1 + rng.IntN(10_000_000))}
	}
	if rng.IntN(2) == 0 {
		pairs = append(pairs, []string{"rotate.size.bytes", strconv.Itoa(1 + rng.IntN(2000))})
	}
	if rng.IntN(3) == 0 {
		pairs = append(pairs, []string{"partitioner.max.open.files", strconv.Itoa(1 + rng.IntN(5))})
	}
	settings := conf(slices.Concat(pairs...)...)
	const n = 1500
	var parts []connectors.TopicPartition
	records := map[connectors.TopicPartition][]schema.Record{}
	for p := range int32(1 + rng.IntN(3)) {
		tp := connectors.TopicPartition{Topic: "t", Partition: p}
		parts = append(parts, tp)
		when := time.Duration(0)
		for o := range int64(n) {
			when += time.Duration(rng.Int64N(int64(4*time.Minute))) - time.Minute
			r := at(o, []string{"a", "b/c", "ü", "null"}[rng.IntN(4)], when)
			stamp := r.Timestamp
			r = connectortest.At(r, tp, o)
			r.Timestamp = stamp
			records[tp] = append(records[tp], r)
		}
	}
	f := newFolders()
	var faults sync.Mutex
	frng := rand.New(rand.NewPCG(seed, 1))
	f.fail = func(string) error {
		faults.Lock()
		defer faults.Unlock()
		if frng.IntN(12) == 0 {
			return connectors.Failed(&unavailable, nil, "away", "")
		}
		return nil
	}
	fatal := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("MILLRACE_SEED=%d: %s", seed, fmt.Sprintf(format, args...))
	}
	committed := map[connectors.TopicPartition]int64{}
	for life := 0; ; life++ {
		v, errs := Settings.Parse(settings)
		if len(errs) > 0 {
			fatal("%v", errs)
		}
		task, err := NewTask(connectors.Context{Log: slog.New(slog.DiscardHandler), Report: func(_ context.Context, _ schema.Record, cause error) error { return cause }}, v, Options{},
			func(context.Context) (Target, error) { return f, nil })
		if err != nil {
			fatal("%v", err)
		}
		if _, err := task.Open(t.Context(), parts); err != nil {
			fatal("%v", err)
		}
		at := maps.Clone(committed)
		steps := rng.IntN(60)
		if life > 20 {
			steps = 1 << 20
		}
		done := false
		for step := 0; step < steps && !done; step++ {
			tp := parts[rng.IntN(len(parts))]
			batch := records[tp][at[tp]:min(int64(n), at[tp]+rng.Int64N(100))]
			err := task.Put(t.Context(), slices.Clone(batch))
			taken := len(batch)
			var put *connectors.PutError
			if errors.As(err, &put) {
				taken, err = put.Taken, put.Err
			}
			if err != nil && connectors.RetryOf(err) != connectors.RetryHelps {
				fatal("put: %v", err)
			}
			at[tp] += int64(taken)
			if rng.IntN(5) == 0 {
				offsets, err := task.Flush(t.Context())
				if err != nil && connectors.RetryOf(err) != connectors.RetryHelps {
					fatal("flush: %v", err)
				}
				for tp, o := range offsets {
					if o < committed[tp] || o > at[tp] {
						fatal("%v: offset %d after %d, with %d put", tp, o, committed[tp], at[tp])
					}
					if rng.IntN(4) > 0 { // else it is killed before the group has it
						committed[tp] = o
					}
				}
			}
			done = true
			for _, tp := range parts {
				done = done && at[tp] == n
			}
		}
		if err := task.Close(t.Context(), parts, true); err != nil {
			fatal("close: %v", err)
		}
		if done {
			break
		}
	}
	if len(f.wrong) > 0 {
		fatal("%s", strings.Join(f.wrong, "; "))
	}
	seen := map[string]int{}
	for name, b := range f.files {
		p := strings.Split(name[strings.LastIndexByte(name, '/')+1:], "+")[1]
		for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
			seen[p+line[strings.Index(line, `"n"`):]]++
		}
	}
	for key, times := range seen {
		if times != 1 {
			fatal("%s stands in %d files", key, times)
		}
	}
	for tp, o := range committed {
		for i := range o {
			if seen[fmt.Sprintf(`%d"n":%d}`, tp.Partition, i)] != 1 {
				fatal("%v @ %d is committed and in no file; committed is %d", tp, i, o)
			}
		}
	}
}

// A partition that is lost while its files become visible, and comes back, is open when they are through.
func TestAPartitionComesBackWhileItsFilesBecomeVisible(t *testing.T) {
	f := newFolders()
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var through atomic.Bool
	f.fail = func(string) error {
		once.Do(func() {
			close(begun)
			<-goOn
		})
		return nil
	}
	other := connectors.TopicPartition{Topic: topic.Topic, Partition: topic.Partition + 1}
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf(), true, topic, other)
	run.Put([]schema.Record{row(0, 2)})
	<-begun
	run.Close(true, topic)
	opened := make(chan error, 1)
	go func() {
		err := run.Open(topic)
		if !through.Load() {
			err = errors.Join(err, errors.New("open before they are visible"))
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Error(err)
		opened <- nil
	case <-time.After(100 * time.Millisecond):
	}
	through.Store(true)
	close(goOn)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	run.Close(false, topic, other)
}

// A name that no store takes is a data error of the record that would begin the file.
func TestLongNames(t *testing.T) {
	f := newFolders()
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("topics.dir", strings.Repeat("d", maxName)), false, topic)
	run.Put([]schema.Record{at(0, "a", 0), at(1, "a", 0)})
	if err := run.TryFlush(); err != nil || run.Committed[topic] != 2 || f.names() != "" {
		t.Errorf("%v, committed %d, %s", err, run.Committed[topic], f.names())
	}
	if got := run.Reported(); len(got) != 2 || connectors.FailureOf(got[0].Cause).Reason != &badRecord {
		t.Errorf("reported %v", got)
	}
	run.Close(false, topic)
}

// nowhere is a Target that takes files and keeps none.
type nowhere struct{}

func (nowhere) Commit(context.Context, connectors.TopicPartition, []File, func()) error { return nil }
func (nowhere) Close()                                                                  {}

// BenchmarkFiles is a record's way into a finished file, the target aside: ns/record is wall time, and counts what the committers do beside it.
func BenchmarkFiles(b *testing.B) {
	sale := schema.NewStruct("sale").Field("id", schema.Int64Schema).Field("customer", schema.OptionalString).Field("country", schema.StringSchema).Field("amount", schema.Float64Schema).
		Field("at", schema.TimestampOf().Build()).Field("count", schema.Int32Schema).Field("note", schema.OptionalString).Field("paid", schema.BoolSchema).Build()
	const each, folders = 500, 5000
	for _, c := range []struct {
		name  string
		pairs []string
	}{
		{"json", []string{"format.class", "JsonFormat", "flush.size", "100000"}},
		{"avro", []string{"format.class", "AvroFormat", "flush.size", "100000", "avro.codec", "snappy"}},
		{"parquet", []string{"format.class", "ParquetFormat", "flush.size", "100000"}},
		{"parquet in small files", []string{"format.class", "ParquetFormat", "flush.size", "200"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			v, errs := Settings.Parse(conf(c.pairs...))
			if len(errs) > 0 {
				b.Fatal(errs)
			}
			task, err := NewTask(connectors.Context{Log: slog.New(slog.DiscardHandler)}, v, Options{}, func(context.Context) (Target, error) { return nowhere{}, nil })
			if err != nil {
				b.Fatal(err)
			}
			if _, err := task.Open(b.Context(), []connectors.TopicPartition{topic}); err != nil {
				b.Fatal(err)
			}
			records, offset := make([]schema.Record, each), int64(0)
			for i := range records {
				records[i] = connectortest.At(schema.Record{ValueSchema: sale}, topic, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				for i := range records {
					records[i].Origin.Offset = offset
					records[i].Value = schema.StructValue(sale, []schema.Value{schema.Int64Value(offset), schema.StringValue(customers[offset%folders]), schema.StringValue(countries[offset%5]), schema.Float64Value(float64(offset) * 1.25),
						schema.TimestampValue(1_700_000_000_000 + offset*7), schema.Int32Value(int32(offset % 100)), schema.StringValue(notes[offset%each]), schema.BoolValue(offset%2 == 0)})
					offset++
				}
				if err := task.Put(b.Context(), records); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(offset), "ns/record")
			if err := task.Close(context.Background(), []connectors.TopicPartition{topic}, true); err != nil {
				b.Fatal(err)
			}
		})
	}
}

var (
	countries        = []string{"DE", "FR", "US", "GB", "IT"}
	customers, notes = texts("customer-%d", 5000), texts("some note that is longer %d", 500)
)

func texts(format string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}
