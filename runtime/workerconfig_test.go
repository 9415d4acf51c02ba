package runtime

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// distributed is the worker configuration that comes with Kafka.
func distributed() map[string]string {
	return map[string]string{
		"bootstrap.servers": "localhost:9092", "group.id": "connect-cluster",
		"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
		"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true",
		"offset.storage.topic": "connect-offsets", "offset.storage.replication.factor": "1",
		"config.storage.topic": "connect-configs", "config.storage.replication.factor": "1",
		"status.storage.topic": "connect-status", "status.storage.replication.factor": "1", "status.storage.min.insync.replicas": "1",
		"offset.flush.interval.ms": "10000", "plugin.path": "/usr/share/java",
	}
}

func TestParseWorker(t *testing.T) {
	c, errs := ParseWorker(distributed())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if c.GroupID != "connect-cluster" || c.OffsetFlushInterval != 10*time.Second || c.OffsetTopic.Partitions != 25 || c.StatusTopic.Partitions != 5 ||
		c.ConfigTopic.Partitions != 1 || c.RebalanceDelay != 5*time.Minute || c.SessionTimeout != 10*time.Second || c.TaskGrace != 5*time.Second ||
		c.Protocol != "sessioned" || !c.AutoRestart || c.HeaderConverter != "org.apache.kafka.connect.storage.SimpleHeaderConverter" {
		t.Errorf("%+v", c)
	}
	if s := c.StatusTopic.Settings; !maps.Equal(s, map[string]string{"min.insync.replicas": "1"}) {
		t.Errorf("settings of the status topic: %v", s)
	}
	if len(c.Notices) != 1 || !strings.Contains(c.Notices[0], "plugin.path") {
		t.Errorf("notices %q, want one about plugin.path", c.Notices)
	}
}

func TestParseWorkerReportsEveryWrongKey(t *testing.T) {
	for _, c := range []struct {
		name, key, value, text string
	}{
		{"a missing group", "group.id", "", `Missing required configuration "group.id"`},
		{"no number", "offset.flush.interval.ms", "soon", "offset.flush.interval.ms: Not a number"},
		{"a replication factor of 0", "config.storage.replication.factor", "0", "Replication factor must be"},
		{"a protocol that there is not", "connect.protocol", "static", "connect.protocol"},
		{"heartbeats slower than the session", "heartbeat.interval.ms", "10000", "must be shorter than session.timeout.ms"},
		{"one topic for two things", "status.storage.topic", "connect-configs", "config.storage.topic names the same topic"},
		{"a policy that there is not", "connector.client.config.override.policy", "Some", "connector.client.config.override.policy"},
	} {
		p := distributed()
		p[c.key] = c.value
		if c.value == "" {
			delete(p, c.key)
		}
		_, errs := ParseWorker(p)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.text) {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
	if _, errs := ParseWorker(nil); len(errs) < 6 {
		t.Errorf("an empty configuration: %v", errs)
	}
	p := distributed()
	p["offset.flush.intervall.ms"] = "1"
	if c, _ := ParseWorker(p); len(c.Notices) != 2 {
		t.Errorf("a key that nobody knows: %q", c.Notices)
	}
	for _, key := range []string{"rest.auht", "listeners.https.ssl.keystore.loc", "log.fsinc"} {
		p := distributed()
		p[key] = "wanted"
		c, errs := ParseWorker(p)
		if len(errs) > 0 || !slices.ContainsFunc(c.Notices, func(n string) bool { return strings.HasPrefix(n, key+" ") }) {
			t.Errorf("%s has no effect, and nobody is told: %q %v", key, c.Notices, errs)
		}
	}
}

func TestDefaultsGiveWayToProperties(t *testing.T) {
	c, errs := ParseWorker(WithDefaults(map[string]string{"key.converter": "X", "group.id": "mine"}, StandaloneDefaults()))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if c.GroupID != "mine" || c.KeyConverter != "X" || c.OffsetFlushInterval != time.Second || c.RebalanceDelay != 0 || c.OffsetTopic.Partitions != 1 {
		t.Errorf("%+v", c)
	}
	if _, there := c.Properties["key.converter.schemas.enable"]; there {
		t.Error("a converter of one's own takes settings that were meant for another")
	}
	if c.Properties["value.converter.schemas.enable"] != "false" {
		t.Error("the default converter lost its settings")
	}
}
