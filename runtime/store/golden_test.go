package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/runtime"
)

// goldenRecords are the records that a JVM worker wrote, file by file.
func goldenRecords(t testing.TB) map[string][]*kgo.Record {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	out := map[string][]*kgo.Record{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var g struct {
				Topic     string
				Partition int32
				Offset    int64
				Key       json.RawMessage
				Value     json.RawMessage
			}
			if err := json.Unmarshal(line, &g); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			out[f] = append(out[f], &kgo.Record{Topic: g.Topic, Partition: g.Partition, Offset: g.Offset, Key: goldenBytes(t, g.Key), Value: goldenBytes(t, g.Value)})
		}
	}
	return out
}

func goldenBytes(t testing.TB, raw json.RawMessage) []byte {
	t.Helper()
	var s *string
	if json.Unmarshal(raw, &s) == nil {
		if s == nil {
			return nil
		}
		return []byte(*s)
	}
	var b struct{ Base64 string }
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	out, err := base64.StdEncoding.DecodeString(b.Base64)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// again is the record that we would write to say the same.
func again(t *testing.T, r *kgo.Record) *kgo.Record {
	t.Helper()
	key := string(r.Key)
	if r.Value == nil {
		return record(key, nil)
	}
	into := func(v any) {
		if err := unmarshal(r.Key, r.Value, v); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case strings.HasPrefix(key, "connector-"), strings.HasPrefix(key, "task-"):
		p, err := parseProperties(r)
		if err != nil {
			t.Fatal(err)
		}
		return record(key, appendProperties(nil, p))
	case strings.HasPrefix(key, "commit-"):
		var v struct{ Tasks int }
		into(&v)
		return commitRecord(strings.TrimPrefix(key, "commit-"), v.Tasks)
	case strings.HasPrefix(key, "target-state-"):
		var v struct {
			V2 string `json:"state.v2"`
		}
		into(&v)
		return targetRecord(strings.TrimPrefix(key, "target-state-"), runtime.TargetState(v.V2))
	case strings.HasPrefix(key, "tasks-fencing-"):
		var v struct {
			Count int `json:"task-count"`
		}
		into(&v)
		return fencingRecord(strings.TrimPrefix(key, "tasks-fencing-"), v.Count)
	case strings.HasPrefix(key, "restart-connector-"):
		var v struct {
			I bool `json:"include-tasks"`
			O bool `json:"only-failed"`
		}
		into(&v)
		return restartRecord(Restart{strings.TrimPrefix(key, "restart-connector-"), v.I, v.O})
	case strings.HasPrefix(key, "logger-cluster-"):
		var v struct{ Level string }
		into(&v)
		return loggerRecord(strings.TrimPrefix(key, "logger-cluster-"), v.Level)
	case key == "session-key":
		var k SessionKey
		into(&k)
		return sessionKeyRecord(k)
	}
	return nil
}

// byteForByte are the kinds of config records whose values we write with the very
// bytes of a JVM worker. Among a configuration's properties a JVM keeps the client's
// order, or its own where that does not decide; it has no meaning, and they are
// compared as JSON.
func byteForByte(key string) bool {
	return !strings.HasPrefix(key, "connector-") && !strings.HasPrefix(key, "task-")
}

// configKinds are the beginnings of all keys that the config topic can have.
var configKinds = []string{"connector-", "task-", "commit-", "target-state-", "tasks-fencing-", "session-key", "restart-connector-", "logger-cluster-"}

func TestConfigRecordsEqualThoseOfConnect(t *testing.T) {
	compared, identical := 0, 0
	kinds := map[string]int{}
	for file, records := range goldenRecords(t) {
		for _, r := range records {
			if !strings.HasSuffix(r.Topic, "-configs") {
				continue
			}
			for _, kind := range configKinds {
				if strings.HasPrefix(string(r.Key), kind) {
					kinds[kind]++
				}
			}
			w := again(t, r)
			switch {
			case w == nil:
				t.Errorf("%s: unknown key %q", file, r.Key)
			case !bytes.Equal(w.Key, r.Key) || (w.Value == nil) != (r.Value == nil):
				t.Errorf("%s: offset %d: got key %q", file, r.Offset, w.Key)
			case byteForByte(string(r.Key)) && !bytes.Equal(w.Value, r.Value):
				t.Errorf("%s: offset %d: key %q:\n got %s\nwant %s", file, r.Offset, r.Key, w.Value, r.Value)
			case r.Value != nil && !sameJSON(t, w.Value, r.Value):
				t.Errorf("%s: offset %d: key %q:\n got %s\nwant %s", file, r.Offset, r.Key, w.Value, r.Value)
			}
			compared++
			if bytes.Equal(w.Value, r.Value) {
				identical++
			}
		}
	}
	t.Logf("%d records compared, %d of them identical to the byte: %v", compared, identical, kinds)
	for _, kind := range configKinds {
		if kinds[kind] == 0 {
			t.Errorf("no record %s… was compared", kind)
		}
	}
	if compared < 200 || identical < 150 {
		t.Errorf("compared %d records, %d identical, want at least 200 and 150", compared, identical)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	norm := func(b []byte) string {
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return norm(a) == norm(b)
}

func TestStatusRecordsEqualThoseOfConnect(t *testing.T) {
	compared := 0
	for file, records := range goldenRecords(t) {
		for _, r := range records {
			if !strings.HasSuffix(r.Topic, "-status") || r.Value == nil {
				continue
			}
			s := newStatuses(slog.New(slog.DiscardHandler))
			if err := s.one(r); err != nil {
				t.Errorf("%s: offset %d: %v", file, r.Offset, err)
				continue
			}
			var w []byte
			var key string
			for k, st := range s.logged {
				key, w = k, appendStatus(nil, st)
			}
			for _, uses := range s.topics {
				for _, u := range uses {
					key, w = topicKey(u.Topic, u.Connector), appendTopicUse(nil, u)
				}
			}
			if key != string(r.Key) || !bytes.Equal(w, r.Value) {
				t.Errorf("%s: offset %d:\n got %s %s\nwant %s %s", file, r.Offset, key, w, r.Key, r.Value)
			}
			compared++
		}
	}
	t.Logf("%d records compared", compared)
	if compared < 700 {
		t.Errorf("compared %d records, want at least 700", compared)
	}
}

func TestOffsetRecordsEqualThoseOfConnect(t *testing.T) {
	compared, c := 0, NewCodec()
	// Java's partitioner puts a key into this partition of 25; so must ours.
	place := kgo.StickyKeyPartitioner(nil)
	for file, records := range goldenRecords(t) {
		for _, r := range records {
			if !strings.Contains(r.Topic, "-offsets") {
				continue
			}
			o := &Offsets{codec: c, stored: map[string]*partitions{}}
			if err := o.one(r); err != nil {
				t.Errorf("%s: offset %d: %v", file, r.Offset, err)
				continue
			}
			name, partition, err := c.ParseKey(r.Key)
			if err != nil {
				t.Fatal(err)
			}
			key, err := c.AppendKey(nil, name, partition)
			if err != nil || !bytes.Equal(key, r.Key) {
				t.Errorf("%s: offset %d: got key %s (%v), want %s", file, r.Offset, key, err, r.Key)
			}
			if r.Value == nil {
				if len(o.All(name)) != 0 {
					t.Errorf("%s: offset %d: a tombstone leaves an offset", file, r.Offset)
				}
			} else {
				w, err := c.Record(name, o.All(name)[0])
				if err != nil || !bytes.Equal(w.Value, r.Value) {
					t.Errorf("%s: offset %d: got %s (%v), want %s", file, r.Offset, w.Value, err, r.Value)
				}
			}
			if got := place.ForTopic(r.Topic).Partition(&kgo.Record{Key: key}, 25); int32(got) != r.Partition {
				t.Errorf("%s: key %s: partition %d, want %d", file, key, got, r.Partition)
			}
			compared++
		}
	}
	t.Logf("%d records compared", compared)
	if compared < 50 {
		t.Errorf("compared %d records, want at least 50", compared)
	}
}

// A worker that comes after a JVM worker finds the same connectors, tasks and states.
func TestConfigTopicOfConnectIsUnderstood(t *testing.T) {
	var changed int
	c := newConfigs(slog.New(slog.DiscardHandler), Changes{Changed: func(*Snapshot) { changed++ }})
	file := goldenRecords(t)["testdata/configs-end.jsonl"]
	var asked []Restart
	c.changes.Restart = func(r Restart) { asked = append(asked, r) }
	upTo := func(offset int64) *Snapshot {
		for len(file) > 0 && file[0].Offset <= offset {
			c.apply(file[:1])
			file = file[1:]
		}
		return c.Now()
	}
	s := upTo(14)
	if got := len(s.Connectors); got != 5 {
		t.Fatalf("%d connectors, want src, numbers, born stopped ü, paused, sink", got)
	}
	if s.Connectors["born stopped ü"].Target != runtime.StoppedTarget || s.Connectors["paused"].Target != runtime.PausedTarget || s.Connectors["src"].Target != runtime.Started {
		t.Errorf("target states: %+v", s.Connectors)
	}
	if n := len(s.Connectors["sink"].Tasks); n != 2 {
		t.Errorf("sink has %d tasks, want 2", n)
	}
	if s.SessionKey == nil || s.SessionKey.Algorithm != "HmacSHA256" {
		t.Errorf("session key %+v", s.SessionKey)
	}
	s = upTo(20)
	if s.Connectors["sink2"] != nil {
		t.Error("sink2 was deleted")
	}
	c.Live()
	s = upTo(34)
	if want := []Restart{{"src", true, false}, {"src", true, true}, {"src", false, true}}; len(asked) != 3 || asked[0] != want[0] || asked[1] != want[1] || asked[2] != want[2] {
		t.Errorf("restarts %+v, want %+v", asked, want)
	}
	if !sameProperties(s.Connectors["src"].Applied, s.Connectors["src"].Config) {
		t.Error("the configuration that was put twice counts as applied")
	}
	s = upTo(39)
	if c := s.Connectors["src"]; c.Target != runtime.StoppedTarget || len(c.Tasks) != 0 {
		t.Errorf("src: %+v, want stopped without tasks", c)
	}
	s = upTo(1 << 60)
	if len(s.Connectors) != 0 {
		t.Errorf("%d connectors at the end, want none", len(s.Connectors))
	}
	if changed == 0 {
		t.Error("nobody heard of changes")
	}
}

func sameProperties(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// A name that no assignment can hold would cut every worker off, so the topic's own is not taken either.
func TestAConnectorWhoseNameIsTooLongIsSkipped(t *testing.T) {
	var logged strings.Builder
	c := newConfigs(slog.New(slog.NewTextHandler(&logged, nil)), Changes{})
	long := strings.Repeat("n", runtime.MaxNameBytes+1)
	config := map[string]string{"connector.class": "x"}
	c.apply([]*kgo.Record{connectorRecord(long, config), connectorRecord(long[1:], config)})
	if s := c.Now(); len(s.Connectors) != 1 || s.Connectors[long[1:]] == nil {
		t.Errorf("%d connectors, want the one with the shorter name", len(s.Connectors))
	}
	if text := logged.String(); !strings.Contains(text, "at most 1024 bytes") || len(text) > 500 {
		t.Errorf("logged: %s", text)
	}
}
