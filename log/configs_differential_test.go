package log_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/peers"
)

// configValues are tried on every topic configuration: numbers in and out of ranges, and what is none.
var configValues = []string{"", " ", "x", "-1", "-2", "-3", "0", "1", "3", " 7 ", "1.5", "0.5", "true", "TRUE", "yes", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808",
	"delete", "compact,delete", "delete , compact", "delete,delete", "keep", "delete,keep", "CreateTime", "createtime", "gzip", "producer", "brotli", "0:1,1:2", "*"}

// otherRefusals are configurations about which answers differ from Kafka's on purpose.
var otherRefusals = map[string]string{"segment.bytes": "segments of less than 1 MiB are taken"}

// TestConfigurationsAreTakenAndRefusedAsKafkaDoes asks for a topic, only validated, with every configuration and many values, and compares
// code and text.
func TestConfigurationsAreTakenAndRefusedAsKafkaDoes(t *testing.T) {
	kafka := peers.Kafka(t)
	ctx := context.Background()
	names := append([]string{"no.such.name", "Retention.ms"}, allTopicConfigs(t)...)
	answers := func(addr string) map[string]string {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		out := map[string]string{}
		for _, name := range names {
			for _, v := range configValues {
				req := kmsg.NewPtrCreateTopicsRequest()
				req.ValidateOnly, req.TimeoutMillis = true, 30_000
				req.Topics = append(req.Topics, newTopic("validated", 1, 1, name, v))
				resp, err := req.RequestWith(ctx, cl)
				if err != nil {
					t.Fatalf("%s=%s: %v", name, v, err)
				}
				r := resp.Topics[0]
				text := ""
				if r.ErrorMessage != nil {
					text = *r.ErrorMessage
				}
				out[name+"="+v] = fmt.Sprintf("%d %s", r.ErrorCode, text)
			}
		}
		return out
	}
	ours, theirs := answers(tcpLog(t).Addr()), answers(kafka.Addr)
	refused, met := 0, map[string]bool{}
	for k, w := range theirs {
		if w[0] != '0' {
			refused++
		}
		name, _, _ := strings.Cut(k, "=")
		switch g := ours[k]; {
		case g == w:
		case otherRefusals[name] != "":
			met[name] = true
		default:
			t.Errorf("%s\nours  %s\nKafka %s", k, g, w)
		}
	}
	if len(met) != len(otherRefusals) || refused < 500 {
		t.Errorf("%d refusals were compared; of the %d listed differences %d were met", refused, len(otherRefusals), len(met))
	}
	t.Logf("compared %d answers, %d of them refusals", len(theirs), refused)
}

// allTopicConfigs are the names that a described topic has.
func allTopicConfigs(t *testing.T) []string {
	l := tcpLog(t)
	if err := l.EnsureTopic(deadline(t), "described", 1, 1, nil); err != nil {
		t.Fatal(err)
	}
	rs, err := l.Admin().DescribeTopicConfigs(deadline(t), "described")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range rs[0].Configs {
		out = append(out, c.Key)
	}
	return out
}
