package hdfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
)

// put makes a file in a folder of /tmp.
func put(tb testing.TB, cl *hdfs.Client, folder, name, text string) {
	tb.Helper()
	full := "/tmp/" + folder + "/" + name
	if err := cl.MkdirAll(full[:strings.LastIndexByte(full, '/')], 0o755); err != nil {
		tb.Fatal(err)
	}
	w, err := cl.Create(full)
	if err == nil && text != "" { // the client makes a block for nothing, which has no end
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = closeFile(w)
	}
	if err != nil {
		tb.Fatalf("make %s: %v", full, err)
	}
}

// whole fails the test unless the records 0 to n-1 stand in visible files, each once, and nothing else is there.
func whole(tb testing.TB, cl *hdfs.Client, folder string, n int64) {
	tb.Helper()
	got := lines(visible(tb, cl, folder))
	var want []string
	for o := range n {
		want = append(want, fmt.Sprintf(`{"n":%d}`, o))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tb.Errorf("%d lines in %s, want %d", len(got), names(visible(tb, cl, folder)), n)
	}
}

// cases: object-stores/4.
func TestNamesOfFilesSayWhereToGoOn(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "names")
	for _, name := range []string{"topics/t/k=a/t+0+0000000000+0000000099.avro", "topics/t/k=b/t+0+0000000100+0000000199.avro", "topics/t/k=b/t+1+0000000000+0000000999.avro",
		"topics/t/t+0+junk.avro", "topics/t/k=b/u+0+0000000100+0000000599.avro", "topics/t/a+b+0+0000000100+0000000599.avro", "topics/t/t+0+0000000300", "topics/t/t+0+0000000900+0000000300.avro",
		"topics/+tmp/t/0/left/1_tmp", "topics/+tmp/t/k=a/t+0+0000000200+0000000250.avro"} {
		put(t, cl, folder, name, "x")
	}
	other := connectors.TopicPartition{Topic: "t", Partition: 2}
	for i := range 11 { // several pages, of which the last counts
		put(t, cl, folder, fmt.Sprintf("topics/t/many/t+3+%010d+%010d.avro", i, i), "")
	}
	third := connectors.TopicPartition{Topic: "t", Partition: 3}
	v, errs := Sink2.Config.Parse(conf(s.NameNodes[0], folder))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	tt, wrong := newTarget(contextOf(t), v)
	if wrong != nil {
		t.Fatal(wrong)
	}
	tt.page = 3
	if start, err := tt.open(t.Context(), []connectors.TopicPartition{third}, func() {}); err != nil || start[third] != 11 {
		t.Errorf("t-3 starts at %v: %v", start, err)
	}
	tt.Close()
	run := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder), true, topic, other, third)
	if got := run.Start[third]; got != 11 {
		t.Errorf("t-3 starts at %d", got)
	}
	if got, ok := run.Start[topic]; !ok || got != 200 {
		t.Errorf("t-0 starts at %d", got)
	}
	if got, ok := run.Start[other]; ok {
		t.Errorf("t-2 starts at %d, and has no files", got)
	}
	run.Put(records(200, 225))
	run.FlushTo(topic, 220)
	run.Close(false, topic, other, third)
	got := names(files(t, cl, folder))
	for _, want := range []string{"topics/t/partition=0/t+0+0000000200+0000000209.json", "topics/t/partition=0/t+0+0000000210+0000000219.json"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "1_tmp") {
		t.Errorf("what an earlier task left behind is there: %s", got)
	}
}

// cases: object-stores/5. A partition moves away and back; whoever lost it cannot make anything visible any more.
func TestAPartitionMovesAwayAndBack(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "moves")
	settings := conf(s.NameNodes[0], folder, "flush.size", "100")
	a := connectortest.NewSinkRun(t, Sink2, nil, settings, true, topic)
	a.Put(records(0, 50))
	b := connectortest.NewSinkRun(t, Sink2, nil, settings, true, topic) // before a hears of it
	b.Put(records(0, 120))
	b.FlushTo(topic, 100)
	a.Put(records(50, 100)) // a's file is full
	for end := time.Now().Add(time.Minute); ; {
		err := a.TryFlush()
		if f := connectors.FailureOf(err); f != nil && f.Reason == &takenOver {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("flush of a task that lost its partition: %v", err)
		}
		_, _ = a.TryPut(nil)
	}
	a.Close(true, topic)
	b.Close(false, topic)
	if err := a.Open(topic); err != nil {
		t.Fatal(err)
	}
	if a.Start[topic] != 100 {
		t.Errorf("a goes on at %d", a.Start[topic])
	}
	a.Put(records(100, 300))
	a.FlushTo(topic, 300)
	a.Close(false, topic)
	whole(t, cl, folder, 300)
}

// failed puts records and returns why they do not become visible.
func failed(t *testing.T, run *connectortest.SinkRun, batch []schema.Record) error {
	t.Helper()
	taken, err := run.TryPut(batch)
	for end := time.Now().Add(time.Minute); err == nil; {
		if time.Now().After(end) {
			t.Fatalf("no error, %d of %d records taken", taken, len(batch))
		}
		if err = run.TryFlush(); err == nil {
			_, err = run.TryPut(nil)
		}
	}
	return err
}

// A task's partition is taken over while the task writes a file. Whatever the NameNode says then of what is gone, the task says why.
func TestAPartitionIsTakenOverWhileAFileIsWritten(t *testing.T) {
	s := peers.HDFS(t)
	for _, method := range []string{"mkdirs", "create", "addBlock", "updateBlockForPipeline", "complete", "rename2"} {
		t.Run(method, func(t *testing.T) {
			cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "amid")
			w := newWay(t, s.NameNodes[0])
			a := connectortest.NewSinkRun(t, Sink2, nil, conf(w.addr, folder), true, topic)
			b := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder), true)
			opened := make(chan error, 1)
			var once sync.Once
			w.at(func(m string) verdict { // before the call arrives
				if m == method {
					once.Do(func() { opened <- b.Open(topic) })
				}
				return pass
			})
			err := failed(t, a, records(0, 10))
			if f := connectors.FailureOf(err); f == nil || f.Reason != &takenOver {
				t.Errorf("%v", err)
			}
			if err := <-opened; err != nil {
				t.Fatal(err)
			}
			a.Close(true, topic)
			b.Put(records(0, 10))
			b.FlushTo(topic, 10)
			b.Close(false, topic)
			whole(t, cl, folder, 10)
		})
	}
}

// A topic that was made anew begins at 0 again. Its records are not taken for those that are visible, and not left out.
func TestATopicThatIsMadeAnew(t *testing.T) {
	s := peers.HDFS(t)
	cl := look(t, s.NameNodes[0])
	for _, c := range []struct {
		name    string
		remove  string // between two lives
		oneLife bool
		batch   []schema.Record
		cause   string
	}{
		{"claim and names of files tell", "", false, records(0, 10), "up to 99"},
		{"the claim alone tells", "topics/t", false, records(0, 10), "up to 99"},
		{"names of files alone tell", "logs", false, records(0, 10), "up to 99"},
		{"in one life", "", true, records(0, 10), "up to 99"},
		{"while a file is open", "", true, append(records(100, 105), records(0, 5)...), "up to 104"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := peers.Unique(t, "anew")
			settings := conf(s.NameNodes[0], folder)
			run := connectortest.NewSinkRun(t, Sink2, nil, settings, true, topic)
			run.Put(records(0, 100))
			run.FlushTo(topic, 100)
			if !c.oneLife {
				run.Close(false, topic)
				if c.remove != "" {
					if err := cl.RemoveAll("/tmp/" + folder + "/" + c.remove); err != nil {
						t.Fatal(err)
					}
				}
				if err := run.Open(topic); err != nil || run.Start[topic] != 100 {
					t.Fatalf("starts at %d: %v", run.Start[topic], err)
				}
			}
			before := names(visible(t, cl, folder))
			clear(run.Start) // the log has no such offset
			err := failed(t, run, c.batch)
			if f := connectors.FailureOf(err); f == nil || f.Reason.Code != "files.offsets_behind" || !strings.Contains(f.Cause, c.cause) {
				t.Errorf("%v", err)
			}
			run.Close(true, topic)
			if after := names(visible(t, cl, folder)); after != before {
				t.Errorf("visible were %s, and are %s", before, after)
			}
			// As the remedy says.
			if err := cl.RemoveAll("/tmp/" + folder + "/topics/t"); err != nil {
				t.Fatal(err)
			}
			if err := alter(t, settings, nil); err != nil {
				t.Fatal(err)
			}
			again := connectortest.NewSinkRun(t, Sink2, nil, settings, true, topic)
			again.Put(records(0, 10))
			again.FlushTo(topic, 10)
			again.Close(false, topic)
			whole(t, cl, folder, 10)
		})
	}
}

// byCountry is a record that goes into one of three folders.
func byCountry(offset int64) schema.Record {
	return connectortest.At(schema.Record{Value: schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.Int64Value(offset)},
		{Key: schema.StringValue("c"), Value: schema.StringValue(string("abc"[offset%3]))}})}, topic, offset)
}

var threeFolders = []string{"flush.size", "4", "partitioner.class", "FieldPartitioner", "partition.field.name", "c"}

// life runs a task until it has committed what makes one commit of three files, and returns the offset behind it.
func life(t *testing.T, address, folder string) (next int64, err error) {
	run := connectortest.NewSinkRun(t, Sink2, nil, conf(address, folder, threeFolders...), true)
	if err := run.Open(topic); err != nil {
		return 0, err
	}
	defer func() { _ = run.Task.Close(t.Context(), []connectors.TopicPartition{topic}, true) }()
	from := run.Start[topic]
	var batch []schema.Record
	for o := from; o < from+12; o++ {
		batch = append(batch, byCountry(o))
	}
	for run.Committed[topic] < from+10 { // the tenth makes one of three files full
		taken, err := run.TryPut(batch)
		batch = batch[taken:]
		if err == nil {
			err = run.TryFlush()
		}
		if err != nil {
			return run.Committed[topic], err
		}
	}
	return run.Committed[topic], nil
}

// A task's connection ends for ever after each call of a NameNode in turn (every second one, but in a soak), whose answer is lost, as when its process dies there; and another
// takes over. In the end each record stands in one visible file.
func TestATaskThatDiesAfterAnyCall(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "dies")
	committed, died := int64(0), map[string]int{}
	step, must := 2, []string{"getFileInfo", "getListing"} // of few calls of a kind each may be among the others
	if trial.Soak() {
		step, must = 1, []string{"mkdirs", "create", "addBlock", "complete", "rename2", "delete", "getListing"}
	}
	for n := 1; ; n += step {
		if n > 300 {
			t.Fatal("a commit has no end")
		}
		w := newWay(t, s.NameNodes[0])
		calls, last := 0, ""
		w.at(func(method string) verdict {
			switch calls++; {
			case calls < n:
				return pass
			case calls == n:
				last = method
				return cutAfter
			}
			return cutBefore // it is dead
		})
		next, err := life(t, w.addr, folder)
		committed = max(committed, next)
		w.mu.Lock()
		method := last
		w.mu.Unlock()
		if err == nil && method == "" {
			break
		}
		if died[method]++; err != nil && connectors.RetryOf(err) != connectors.RetryHelps {
			t.Fatalf("call %d (%s): %v", n, method, err)
		}
		if next, err = life(t, s.NameNodes[0], folder); err != nil || next < committed+10 {
			t.Fatalf("after call %d (%s) with %d committed: %d, %v", n, method, committed, next, err)
		}
		committed = next
	}
	t.Logf("died after %v", died)
	for _, method := range must {
		if died[method] == 0 {
			t.Errorf("no task died at %s: %v", method, died)
		}
	}
	eachOnce(t, cl, folder, committed)
}

// eachOnce fails the test unless the records 0 to n-1 of byCountry stand in visible files, and no record twice.
func eachOnce(t *testing.T, cl *hdfs.Client, folder string, n int64) {
	t.Helper()
	seen := map[string]int{}
	for _, line := range lines(visible(t, cl, folder)) {
		if seen[line]++; seen[line] == 2 {
			t.Errorf("%s stands in two files", line)
		}
	}
	for o := range n {
		if line := fmt.Sprintf(`{"n":%d,"c":"%c"}`, o, "abc"[o%3]); seen[line] == 0 {
			t.Fatalf("%s is in no file, and %d are committed", line, n)
		}
	}
	if n == 0 {
		t.Error("nothing is committed")
	}
}

// A commit that was published is carried out by whoever has the partition next, also where claims lie in claims.
func TestAPublishedCommitIsCarriedOut(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "published")
	final := "/tmp/" + folder + "/topics/t/k=%s/t+0+000000000%d+000000000%d.json"
	put(t, cl, folder, "logs/t/0/millrace-x/done-1/left", "")
	put(t, cl, folder, "logs/t/0/millrace-x/commit-4"+fmt.Sprintf(final, "a", 1, 3), "{}\n")
	put(t, cl, folder, "logs/t/0/millrace-x/millrace-y/commit-1"+fmt.Sprintf(final, "b", 0, 0), "{}\n")
	put(t, cl, folder, "logs/t/0/millrace-z/commit-x/t", "no number")
	run := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder), true, topic)
	if run.Start[topic] != 4 {
		t.Errorf("starts at %d", run.Start[topic])
	}
	run.Close(false, topic)
	if got := names(visible(t, cl, folder)); got != "t/k=a/t+0+0000000001+0000000003.json t/k=b/t+0+0000000000+0000000000.json" {
		t.Errorf("visible: %s", got)
	}
	again := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder), true, topic)
	if again.Start[topic] != 4 {
		t.Errorf("starts again at %d", again.Start[topic])
	}
	again.Close(false, topic)
	// Who moves files away does not have them written again.
	if err := cl.RemoveAll("/tmp/" + folder + "/topics/t"); err != nil {
		t.Fatal(err)
	}
	if err := again.Open(topic); err != nil || again.Start[topic] != 4 {
		t.Errorf("starts at %d without files: %v", again.Start[topic], err)
	}
	again.Close(false, topic)
}

// A file of the name that a task wants, of somebody else's, is never overwritten.
func TestAForeignFile(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "foreign")
	run := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder), true, topic)
	put(t, cl, folder, "topics/t/partition=0/t+0+0000000000+0000000009.json", "mine")
	run.Put(records(0, 9))
	err := failed(t, run, records(9, 10))
	if f := connectors.FailureOf(err); f == nil || f.Reason != &foreign || !strings.Contains(err.Error(), "t+0+0000000000+0000000009.json") {
		t.Errorf("%v", err)
	}
	run.Close(true, topic)
	if got := files(t, cl, folder)["topics/t/partition=0/t+0+0000000000+0000000009.json"]; string(got) != "mine" {
		t.Errorf("it holds %q", got)
	}
}

// logOf is a log of Confluent's sink with entries of a temporary and a final name.
func logOf(entries ...string) []byte {
	sync := "0123456789abcdef"
	b := append([]byte("WAL\x00"), sync...)
	text := func(s string) []byte {
		if len(s) < 128 {
			return append([]byte{byte(len(s))}, s...)
		}
		if len(s) < 256 {
			return append([]byte{0x8f, byte(len(s))}, s...) // -113: one byte of length
		}
		return append([]byte{0x8e, byte(len(s) >> 8), byte(len(s))}, s...)
	}
	for i := 0; i < len(entries); i += 2 {
		if i%4 == 2 {
			b = append(append(b, 0xff, 0xff, 0xff, 0xff), sync...)
		}
		key, value := text(entries[i]), text(entries[i+1])
		b = binary.BigEndian.AppendUint32(b, uint32(len(key)+len(value)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
		b = append(append(b, key...), value...)
	}
	return b
}

func TestALogOfConfluentsSinkIsCarriedOut(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "confluent")
	at := "hdfs://" + s.NameNodes[0] + "/tmp/" + folder
	put(t, cl, folder, "topics/+tmp/t/k=a/one_tmp.json", "{\"n\":0}\n")
	put(t, cl, folder, "topics/t/k=b/t+0+0000000001+0000000001.json", "{\"n\":1}\n") // was renamed already
	put(t, cl, folder, "topics/+tmp/t/k=a/three_tmp.json", "{\"n\":3}\n")
	put(t, cl, folder, "logs/t/0/log", string(logOf("BEGIN", "", at+"/topics/+tmp/t/k=a/one_tmp.json", at+"/topics/t/k=a/t+0+0000000000+0000000000.json",
		at+"/topics/+tmp/t/k=b/two_tmp.json", at+"/topics/t/k=b/t+0+0000000001+0000000001.json", "END", "",
		"BEGIN", "", at+"/topics/+tmp/t/k=a/three_tmp.json", at+"/topics/t/k=a/t+0+0000000002+0000000003.json")))
	run := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder), true, topic)
	if run.Start[topic] != 2 {
		t.Errorf("starts at %d", run.Start[topic])
	}
	run.Close(false, topic)
	if got := names(visible(t, cl, folder)); got != "t/k=a/t+0+0000000000+0000000000.json t/k=b/t+0+0000000001+0000000001.json" {
		t.Errorf("visible: %s", got)
	}
	if got := names(files(t, cl, folder)); strings.Contains(got, "logs/t/0/log ") || !strings.Contains(got, "logs/t/0/log.1") {
		t.Errorf("all: %s", got)
	}
	// One that is open belongs to a sink that runs, or died just now.
	if err := cl.MkdirAll("/tmp/"+folder+"/logs/t/1", 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := cl.Create("/tmp/" + folder + "/logs/t/1/log")
	if err == nil {
		_, err = w.Write(logOf("BEGIN", ""))
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	one := connectors.TopicPartition{Topic: "t", Partition: 1}
	err = run.Open(one)
	if f := connectors.FailureOf(err); f == nil || f.Reason != &busyLog {
		t.Errorf("open beside a sink that runs: %v", err)
	}
	if err := closeFile(w); err != nil {
		t.Fatal(err)
	}
	if err := run.Open(one); err != nil {
		t.Errorf("open after it: %v", err)
	}
	run.Close(false, one)
}

// alter has a connector alter the offset of topic; nil resets it.
func alter(t *testing.T, settings map[string]string, to *int64) error {
	t.Helper()
	v, errs := Sink2.Config.Parse(settings)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	snk, err := Sink2.New(contextOf(t), v)
	if err != nil {
		t.Fatal(err)
	}
	done, err := snk.(connectors.SinkOffsetAlterer).AlterOffsets(t.Context(), map[connectors.TopicPartition]*int64{topic: to})
	if !done && err == nil {
		t.Error("it says that it is not done")
	}
	return err
}

func TestOffsetsAreAlteredOnlyForward(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "alter")
	settings := conf(s.NameNodes[0], folder)
	offset := func(n int64) *int64 { return &n }
	put(t, cl, folder, "topics/t/t+0+0000000000+0000000009.json", "x")
	for _, to := range []*int64{nil, offset(0), offset(9)} {
		if err := alter(t, settings, to); err == nil || !strings.Contains(err.Error(), "up to offset 9") || connectors.FailureOf(err) != nil {
			t.Errorf("before the files' end: %v", err) // it is no failure of HDFS
		}
	}
	if err := alter(t, settings, offset(25)); err != nil {
		t.Error(err)
	}
	run := connectortest.NewSinkRun(t, Sink2, nil, settings, true, topic)
	if run.Start[topic] != 25 {
		t.Errorf("starts at %d", run.Start[topic])
	}
	run.Close(false, topic)
	if err := cl.RemoveAll("/tmp/" + folder + "/topics/t"); err != nil {
		t.Fatal(err)
	}
	if err := alter(t, settings, nil); err != nil {
		t.Error(err)
	}
	if err := errors.Join(run.Open(topic)); err != nil {
		t.Fatal(err)
	}
	run.Close(false, topic)
	clear(run.Start)
	if err := run.Open(topic); err != nil || len(run.Start) > 0 {
		t.Errorf("after a reset it starts at %v: %v", run.Start, err)
	}
	run.Close(false, topic)
}
