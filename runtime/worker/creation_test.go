package worker

import (
	"strings"
	"testing"

	"millrace/connectors"
)

func TestTopicCreation(t *testing.T) {
	raw := map[string]string{
		"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1", "topic.creation.default.retention.ms": "1000",
		"topic.creation.logs.include": "log\\..*,audit", "topic.creation.logs.exclude": "log\\.keep", "topic.creation.logs.partitions": "7",
		"topic.creation.logs.cleanup.policy": "compact",
	}
	c, err := newCreation([]string{"logs"}, raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		topic      string
		partitions int32
		policy     bool
	}{
		{"log.a", 7, true}, {"audit", 7, true}, {"audits", 3, false}, {"log.keep", 3, false}, {"orders", 3, false},
	} {
		partitions, replication, settings, err := c.of(tc.topic)
		if err != nil || partitions != tc.partitions || replication != -1 || (settings["cleanup.policy"] != nil) != tc.policy || *settings["retention.ms"] != "1000" {
			t.Errorf("%s: %d partitions, %d replicas, %v, %v", tc.topic, partitions, replication, settings, err)
		}
	}
	if p, r, s, err := (creation{}).of("x"); p != -1 || r != -1 || s != nil || err != nil {
		t.Errorf("without settings: %d %d %v %v", p, r, s, err)
	}
	for name, bad := range map[string]map[string]string{
		"topic.creation.default.partitions":           {"topic.creation.default.partitions": "0", "topic.creation.default.replication.factor": "1"},
		"topic.creation.g.include":                    {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1", "topic.creation.g.include": "("},
		"topic.creation.groups has no effect without": {},
	} {
		if _, err := newCreation([]string{"g"}, bad); err == nil || !strings.Contains(err.Error(), name) || connectors.RetryOf(err) != connectors.RetryNever {
			t.Errorf("%s: %v", name, err)
		}
	}
}
