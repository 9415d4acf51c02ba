package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/runtime"
)

// TestClientsBehaveAsIsSaidOfThem compares what a client does without settings with what the listing of its settings says it does.
func TestClientsBehaveAsIsSaidOfThem(t *testing.T) {
	sink := (&sinkTask{}).options()
	for _, row := range []struct {
		kind runtime.ClientKind
		opts []kgo.Opt
		key  string
		opt  any
	}{
		{runtime.Consumer, sink, "max.poll.interval.ms", kgo.RebalanceTimeout},
		{runtime.Consumer, sink, "session.timeout.ms", kgo.SessionTimeout},
		{runtime.Consumer, sink, "heartbeat.interval.ms", kgo.HeartbeatInterval},
		{runtime.Consumer, sink, "fetch.max.wait.ms", kgo.FetchMaxWait},
		{runtime.Consumer, sink, "fetch.min.bytes", kgo.FetchMinBytes},
		{runtime.Consumer, sink, "fetch.max.bytes", kgo.FetchMaxBytes},
		{runtime.Consumer, sink, "max.partition.fetch.bytes", kgo.FetchMaxPartitionBytes},
		{runtime.Consumer, sink, "request.timeout.ms", kgo.RequestTimeoutOverhead},
		{runtime.Consumer, sink, "connections.max.idle.ms", kgo.ConnIdleTimeout},
		{runtime.Producer, nil, "metadata.max.age.ms", kgo.MetadataMaxAge},
		{runtime.Producer, nil, "socket.connection.setup.timeout.ms", kgo.DialTimeout},
	} {
		cl, err := kgo.NewClient(append(row.opts, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))...)
		if err != nil {
			t.Fatal(err)
		}
		info, ok := runtime.ClientSettings(row.kind).Info(row.key)
		if !ok {
			t.Fatalf("%s is no setting of a %s", row.key, row.kind)
		}
		got := cl.OptValue(row.opt)
		if d, ok := got.(time.Duration); ok {
			got = d.Milliseconds()
		}
		if want, _ := info.DefaultText(); fmt.Sprint(got) != want {
			t.Errorf("%s of a %s is %v, and its listing says %s", row.key, row.kind, got, want)
		}
		cl.Close()
	}
}
