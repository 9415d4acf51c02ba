package settings

import (
	"maps"
	"strings"
	"testing"
)

func TestTopicCreation(t *testing.T) {
	raw := map[string]string{
		"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1", "topic.creation.default.retention.ms": "1000",
		"topic.creation.logs.include": "log\\..*,audit", "topic.creation.logs.exclude": "log\\.keep", "topic.creation.logs.partitions": "7",
		"topic.creation.logs.cleanup.policy": "compact",
	}
	c, errs := NewTopicCreation([]string{"logs"}, raw)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, tc := range []struct {
		topic      string
		partitions int32
		policy     bool
	}{
		{"log.a", 7, true}, {"audit", 7, true}, {"audits", 3, false}, {"log.keep", 3, false}, {"orders", 3, false},
	} {
		partitions, replication, settings, err := c.Of(tc.topic)
		if err != nil || partitions != tc.partitions || replication != -1 || (settings["cleanup.policy"] != nil) != tc.policy || *settings["retention.ms"] != "1000" {
			t.Errorf("%s: %d partitions, %d replicas, %v, %v", tc.topic, partitions, replication, settings, err)
		}
	}
	if p, r, s, err := (TopicCreation{}).Of("x"); p != -1 || r != -1 || s != nil || err != nil {
		t.Errorf("without settings: %d %d %v %v", p, r, s, err)
	}
	both := map[string]string{"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
	for _, tc := range []struct {
		key, value string
		words      string
		alone      bool // without both
	}{
		{"topic.creation.default.partitions", "0", "Number of partitions must be", false},
		{"topic.creation.default.replication.factor", "x", "Replication factor must be", false},
		{"topic.creation.g.include", "(", "Unclosed group", false},
		{"topic.creation.g.include", "", "a group needs patterns", false},
		{"topic.creation.groups", "", "has no effect without", true},
	} {
		bad := map[string]string{"topic.creation.g.include": "a"}
		if !tc.alone {
			maps.Copy(bad, both)
		}
		if bad[tc.key] = tc.value; tc.value == "" {
			delete(bad, tc.key)
		}
		_, errs := NewTopicCreation([]string{"g"}, bad)
		if len(errs) != 1 || errs[0].Key != tc.key || tc.words != "Unclosed group" && !strings.Contains(errs[0].Error(), tc.words) {
			t.Errorf("%s=%s: %v, want one error with %q", tc.key, tc.value, errs, tc.words)
		}
	}
}
