package hdfs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// A cluster of two NameNodes loses the active one, its DataNode, its space; the task says why it waits, and goes on.
func TestACluster(t *testing.T) {
	s := peers.HDFSOwn(t, peers.HDFSOptions{NameNodes: 2})
	xml := hadoopFiles(t, []string{"fs.defaultFS", "hdfs://peer/tmp/cluster"}, []string{"dfs.nameservices", "peer", "dfs.ha.namenodes.peer", "nn0,nn1",
		"dfs.namenode.rpc-address.peer.nn0", s.NameNodes[0], "dfs.namenode.rpc-address.peer.nn1", s.NameNodes[1], "fs.permissions.umask-mode", "007", "dfs.blocksize", "1k"})
	settings := map[string]string{"hadoop.conf.dir": xml, "hdfs.user.name": "alice", "flush.size": "10", "format.class": "JsonFormat"}
	run := connectortest.NewSinkRun(t, Sink3, nil, settings, true, topic)
	at := int64(0)
	more := func() { // ten records become visible
		t.Helper()
		run.Put(records(at, at+10))
		at += 10
		run.FlushTo(topic, at)
	}
	waits := func(why *connectors.Reason) { // they do not, for that reason
		t.Helper()
		for batch, end := records(at, at+10), time.Now().Add(time.Minute); ; {
			taken, err := run.TryPut(batch)
			if batch = batch[taken:]; err == nil {
				err = run.TryFlush()
			}
			if run.Committed[topic] > at {
				t.Fatalf("committed %d", run.Committed[topic])
			}
			if f := connectors.FailureOf(err); f != nil && f.Reason == why && len(batch) == 0 {
				break
			} else if err != nil && connectors.RetryOf(err) != connectors.RetryHelps {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("not %s: %v", why.Code, err)
			}
		}
		at += 10
	}
	goesOn := func() {
		t.Helper()
		run.FlushTo(topic, at)
		more()
	}
	more()

	cl := look(t, s.NameNodes[0])
	root := "/tmp/cluster/"
	for name, mode := range map[string]os.FileMode{"topics/t/partition=0": 0o770 | os.ModeDir, "topics/t/partition=0/t+0+0000000000+0000000009.json": 0o660} {
		if is, err := cl.Stat(root + name); err != nil || is.Mode() != mode {
			t.Errorf("%s: %v, %v", name, is, err)
		}
	}

	s.Do(t, "datanode/stop")
	waits(&unreachable)
	s.Do(t, "datanode/start")
	goesOn()

	s.Do(t, "quota/1024?"+root) // a block of 1 KiB, once
	waits(&full)
	s.Do(t, "quota/1000000000?"+root)
	goesOn()

	s.Do(t, "namenode/0/stop")
	waits(&unreachable) // the other is there, and not active
	s.Do(t, "namenode/1/active")
	goesOn()
	run.Close(false, topic)

	again := connectortest.NewSinkRun(t, Sink3, nil, settings, true, topic) // the first address is dead
	if again.Start[topic] != at {
		t.Errorf("starts at %d, want %d", again.Start[topic], at)
	}
	again.Close(false, topic)
	whole(t, look(t, s.NameNodes[1]), "cluster", at)
	for _, name := range []string{"+tmp/t/0", "t/partition=0"} {
		there, err := look(t, s.NameNodes[1]).ReadDir(root + "topics/" + name)
		if want := map[string]int{"+tmp/t/0": 1, "t/partition=0": int(at / 10)}[name]; err != nil || len(there) != want {
			t.Errorf("%s has %d entries, want %d: %v", name, len(there), want, err)
		}
	}
}

// A NameNode that takes a call and says nothing more is given up after Hadoop's own limit.
func TestANameNodeThatSaysNothing(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "silent")
	w := newWay(t, s.NameNodes[0])
	settings := conf(w.addr, folder, "hadoop.conf.dir", hadoopFiles(t, []string{"ipc.client.rpc-timeout.ms", "3000"}, nil))
	run := opened(t, settings)
	for i, method := range []string{"create", "complete", "rename2"} {
		w.at(func(m string) verdict {
			if m == method {
				return silence
			}
			return pass
		})
		at := int64(i) * 10
		batch := records(at, at+10)
		for end := time.Now().Add(time.Minute); ; {
			taken, err := run.TryPut(batch)
			if batch = batch[taken:]; err == nil {
				err = run.TryFlush()
			}
			if f := connectors.FailureOf(err); f != nil && f.Reason == &unreachable && strings.Contains(err.Error(), "timeout") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", method, err)
			}
		}
		w.at(nil)
		run.Put(batch)
		run.FlushTo(topic, at+10)
	}
	// A task that is stopped does not wait for it.
	w.at(func(string) verdict { return silence })
	run.Put(records(30, 40))
	run.Close(true, topic)
	whole(t, cl, folder, 30)
}

// What a user may not do is said, and who it was.
func TestAUserWithoutPermission(t *testing.T) {
	s := peers.HDFS(t)
	folder := peers.Unique(t, "rights")
	cl := look(t, s.NameNodes[0])
	if err := cl.MkdirAll("/tmp/"+folder, 0o700); err != nil {
		t.Fatal(err)
	}
	settings := conf(s.NameNodes[0], folder, "hdfs.user.name", "bob")
	run := connectortest.NewSinkRun(t, Sink3, nil, settings, true)
	err := run.Open(topic)
	if f := connectors.FailureOf(err); f == nil || f.Reason != &unauthorized || !strings.Contains(f.Cause, "/tmp/"+folder) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ name, key, value, wrong string }{
		{"it is there", "hdfs.user.name", "alice", ""},
		{"nobody answers", "hdfs.url", "hdfs://127.0.0.1:1", "connection refused"},
	} {
		settings[c.key] = c.value
		v, errs := Sink3.Config.Parse(settings)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		errs = (&sink{contextOf(t), v}).Validate(t.Context())
		if (len(errs) > 0) != (c.wrong != "") || len(errs) > 0 && (errs[0].Key != "hdfs.url" || !strings.Contains(errs[0].Error(), c.wrong)) {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

// midway is a reader of nothing that does something when it is read.
type midway func() error

func (f midway) Read([]byte) (int, error) {
	if err := f(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// Whatever breaks while a file is written, no goroutine of the client that wrote it stays behind.
func TestFilesThatBreakLeaveNothingBehind(t *testing.T) {
	s := peers.HDFS(t)
	v, errs := Sink2.Config.Parse(conf(s.NameNodes[0], peers.Unique(t, "broken")))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	tt, wrong := newTarget(contextOf(t), v)
	if wrong != nil {
		t.Fatal(wrong)
	}
	defer tt.Close()
	cut := func(dataNodes bool) func(l *link) error {
		return func(l *link) error {
			l.dial.mu.Lock()
			defer l.dial.mu.Unlock()
			for c := range l.dial.open {
				if tc := c.(*timedConn); tc.steps == dataNodes {
					_ = tc.Conn.Close()
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name   string
		breaks func(l *link) error
	}{
		{"a connection to a DataNode ends", cut(true)},
		{"the connection to the NameNode ends", cut(false)},
		{"the link is given up", func(l *link) error { l.shut(); return nil }},
		{"what it is to hold cannot be read", func(*link) error { return io.ErrNoProgress }},
	} {
		half := make([]byte, 1<<20)
		for range 5 {
			err := tt.with(t.Context(), "write a file", func(l *link) error {
				if err := l.MkdirAll(tt.cluster.folder, tt.dirs); err != nil {
					return err
				}
				body := io.MultiReader(bytes.NewReader(half), midway(func() error { return c.breaks(l) }), bytes.NewReader(half))
				return tt.write(l, tt.cluster.folder+"/"+newID(), body, 2<<20, func() {})
			})
			if err == nil {
				t.Errorf("%s: no error", c.name)
			}
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			var stacks strings.Builder
			if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(stacks.String(), "hdfs/v2/internal/transfer.") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: goroutines are left\n%s", c.name, stacks.String())
			}
		}
	}
}

// Files are read back by Hadoop itself, over WebHDFS, and by fastavro.
func TestFilesAreReadBackByOthers(t *testing.T) {
	s := peers.HDFS(t)
	folder := peers.Unique(t, "readback")
	s1 := schema.NewStruct("row").Field("n", schema.Int64Schema).Field("name", schema.StringSchema).Field("paid", schema.BoolSchema).Build()
	var want []string
	put := func(tp connectors.TopicPartition, pairs ...string) {
		run := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder, append([]string{"flush.size", "5000"}, pairs...)...), true, tp)
		var batch []schema.Record
		for o := range int64(5000) {
			name := strings.Repeat("ü", int(o%7))
			batch = append(batch, connectortest.At(schema.Record{ValueSchema: s1, Value: schema.StructValue(s1, []schema.Value{schema.Int64Value(o), schema.StringValue(name), schema.BoolValue(o%2 == 0)})}, tp, o))
		}
		run.Put(batch)
		run.FlushTo(tp, 5000)
		run.Close(false, tp)
	}
	for o := range int64(5000) {
		b, err := json.Marshal(map[string]any{"n": o, "name": strings.Repeat("ü", int(o%7)), "paid": o%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(b))
	}
	put(connectors.TopicPartition{Topic: "t", Partition: 0})
	put(connectors.TopicPartition{Topic: "t", Partition: 1}, "format.class", "io.confluent.connect.hdfs.avro.AvroFormat", "avro.codec", "deflate")
	base := "/tmp/" + folder + "/topics/t/partition="
	if got := strings.Split(strings.TrimSpace(string(s.Read(t, 0, base+"0/t+0+0000000000+0000004999.json"))), "\n"); !slices.Equal(got, want) {
		t.Errorf("%d lines of JSON; the first is %s", len(got), got[0])
	}
	file := filepath.Join(t.TempDir(), "x.avro")
	if err := os.WriteFile(file, s.Read(t, 0, base+"1/t+1+0000000000+0000004999.avro"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got := peers.PythonClients(t).Run(ctx, t, `
import fastavro, json, sys
for row in fastavro.reader(open(sys.argv[1], "rb")):
    print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
`, file)
	if got := strings.Split(strings.TrimSpace(got), "\n"); !slices.Equal(got, want) {
		t.Errorf("%d rows of Avro; the first is %s", len(got), got[0])
	}
}

// A file of several blocks is whole; one of nothing is a file.
func TestLargeAndEmptyFiles(t *testing.T) {
	s := peers.HDFS(t)
	folder := peers.Unique(t, "blocks")
	run := connectortest.NewSinkRun(t, Sink2, nil, conf(s.NameNodes[0], folder, "hadoop.conf.dir", hadoopFiles(t, nil, []string{"dfs.blocksize", "64k"}), "format.class", "ByteArrayFormat", "format.bytearray.separator", ""), true, topic)
	text := make([]byte, 300<<10+17)
	for i := range text {
		text[i] = byte(i * i >> 7)
	}
	var batch []schema.Record
	for o := range int64(10) {
		batch = append(batch, connectortest.At(schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue(text)}, topic, o))
	}
	for o := int64(10); o < 20; o++ {
		batch = append(batch, connectortest.At(schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue(nil)}, topic, o))
	}
	run.Put(batch)
	run.FlushTo(topic, 20)
	run.Close(false, topic)
	base := "/tmp/" + folder + "/topics/t/partition=0/t+0+"
	if got := s.Read(t, 0, base+"0000000000+0000000009.bin"); string(got) != strings.Repeat(string(text), 10) {
		t.Errorf("%d bytes", len(got))
	}
	f, err := look(t, s.NameNodes[0]).Open(base + "0000000010+0000000019.bin")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); len(b) != 0 || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
