package runtimetest

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
)

func TestAConnectorMayHaveAnOffsetTopicOfItsOwn(t *testing.T) {
	l := logtest.New(t)
	source := NewSource()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers")))
	conf := []string{"connector.class", "Numbers", "topic", "n", "count", "20", "offsets.storage.topic", "own-offsets"}
	Create(t, h, "c", conf...)
	Until(t, "the commit", func() bool { return source.Committed("c", 0) == 20 })
	for _, topic := range []string{"own-offsets", "connect-offsets"} {
		rs := Records(t, l, topic)
		if len(rs) == 0 || string(rs[len(rs)-1].Key) != `["c",{"task":0}]` || string(rs[len(rs)-1].Value) != `{"n":20}` {
			t.Errorf("%s: %v", topic, rs)
		}
	}
	if err := h.RestartTask(context.Background(), runtime.TaskID{Connector: "c"}); err != nil {
		t.Fatal(err)
	}
	Until(t, "the second run", func() bool { return len(source.Starts()) == 2 })
	if at := source.Starts()[1]; at != 20 {
		t.Errorf("it resumes at %d, want 20", at)
	}
	// A connector that gets a topic of its own later goes on where it stood.
	Create(t, h, "d", "connector.class", "Numbers", "topic", "m", "count", "20")
	Until(t, "the commit", func() bool { return source.Committed("d", 0) == 20 })
	Create(t, h, "d", "connector.class", "Numbers", "topic", "m", "count", "20", "offsets.storage.topic", "d-offsets")
	Until(t, "the next run", func() bool { return len(source.Starts()) == 4 })
	if at := source.Starts()[3]; at != 20 {
		t.Errorf("it resumes at %d, want 20", at)
	}
}

func TestTopicsAreMadeAsTopicCreationSays(t *testing.T) {
	l := logtest.New(t)
	h := Worker(t, l, Plugins(t, NewSource().Plugin("Numbers")))
	Create(t, h, "c", "connector.class", "Numbers", "topic", "three", "count", "1",
		"topic.creation.default.partitions", "3", "topic.creation.default.replication.factor", "-1", "topic.creation.default.cleanup.policy", "compact")
	Create(t, h, "d", "connector.class", "Numbers", "topic", "plain", "count", "1")
	var found kadm.TopicDetails
	Until(t, "the topics", func() bool {
		var err error
		found, err = l.Admin().ListTopics(context.Background(), "three", "plain")
		return err == nil && found["three"].Err == nil && found["plain"].Err == nil
	})
	if n, m := len(found["three"].Partitions), len(found["plain"].Partitions); n != 3 || m != 1 {
		t.Errorf("%d and %d partitions, want 3 and 1", n, m)
	}
	if policy := setting(t, l, "three", "cleanup.policy"); policy != "compact" {
		t.Errorf("cleanup.policy %s", policy)
	}
	// What no topic can be made with is refused with the configuration.
	_, _, err := h.PutConfig(context.Background(), "e", map[string]string{"connector.class": "Numbers", "topic": "x", "count": "1",
		"topic.creation.default.partitions": "many", "topic.creation.default.replication.factor": "1"}, "", true)
	if err == nil || !strings.Contains(err.Error(), "topic.creation.default.partitions") {
		t.Errorf("a number of partitions that is none: %v", err)
	}
}

func setting(t testing.TB, l *log.Log, topic, key string) string {
	t.Helper()
	rs, err := l.Admin().DescribeTopicConfigs(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rs[0].Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}

// A record larger than its topic takes is a record's error: it says so, and can be skipped.
func TestARecordThatIsTooLarge(t *testing.T) {
	l := logtest.New(t)
	if err := l.EnsureTopic(context.Background(), "n", 1, -1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	source := NewSource()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers")))
	conf := []string{"connector.class", "Numbers", "topic", "n", "count", "3", "batch", "1", "value", strings.Repeat("x", 5000), "auto.restart", "false"}
	Create(t, h, "c", conf...)
	AwaitState(t, h, "c", 0, runtime.Failed)
	st, _ := h.Status(context.Background(), "c")
	for _, part := range []string{"topic n", "2000", "max.message.bytes", `key "0"`} {
		if !strings.Contains(st.Tasks[0].Trace, part) {
			t.Errorf("trace %q lacks %q", st.Tasks[0].Trace, part)
		}
	}
	if source.Committed("c", 0) != 0 {
		t.Error("the offset passed the record")
	}
	Create(t, h, "c", append(conf, "errors.tolerance", "all")...)
	Until(t, "the offset to pass them", func() bool { return source.Committed("c", 0) == 3 })
}
