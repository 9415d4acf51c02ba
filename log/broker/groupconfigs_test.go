package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestConfigurationsOfGroups(t *testing.T) {
	n := start(t)
	w := n.dial()
	set := func(group, name, value string) int16 {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
		return ask[*kmsg.IncrementalAlterConfigsResponse](w, req, 1).Resources[0].ErrorCode
	}
	described := func() map[string]string {
		req := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
		req.Resources = append(req.Resources, r)
		out := map[string]string{}
		for _, c := range ask[*kmsg.DescribeConfigsResponse](w, req, 4).Resources[0].Configs {
			out[c.Name] = fmt.Sprint(*c.Value, " ", int8(c.Source))
		}
		return out
	}
	interval := func() int32 {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.RebalanceTimeoutMillis = "g", "m", 60_000
		req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		return ask[*kmsg.ConsumerGroupHeartbeatResponse](w, req, 1).HeartbeatIntervalMillis
	}
	if got := interval(); got != 5000 {
		t.Errorf("heartbeats every %d ms", got)
	}
	for _, c := range []struct {
		what, name, value string
		want              int16
	}{
		{"a heartbeat interval", "consumer.heartbeat.interval.ms", "7000", 0},
		{"a session timeout", "consumer.session.timeout.ms", "50000", 0},
		{"a session that is too short", "consumer.session.timeout.ms", "6000", 40},
		{"no number", "consumer.session.timeout.ms", "long", 40},
		{"a name that there is not", "session.timeout.ms", "50000", 40},
	} {
		if got := set("g", c.name, c.value); got != c.want {
			t.Errorf("%s: error %d, want %d", c.what, got, c.want)
		}
	}
	if set("", "consumer.session.timeout.ms", "50000") != 42 {
		t.Error("the nameless group can be configured")
	}
	check := func(when string) {
		t.Helper()
		got := described()
		if got["consumer.heartbeat.interval.ms"] != "7000 8" || got["consumer.session.timeout.ms"] != "50000 8" || got["consumer.assignment.interval.ms"] != "0 5" {
			t.Errorf("%s: %v", when, got)
		}
		if got := interval(); got != 7000 {
			t.Errorf("%s: heartbeats every %d ms", when, got)
		}
	}
	check("at once")
	n.stop()
	n2 := startOn(t, n.fs)
	w = n2.dial()
	check("after a restart")
}
