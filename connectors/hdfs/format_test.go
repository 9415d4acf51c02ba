package hdfs

import (
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// Where a transform gives records another topic, their files lie under that one, and the claim is still the partition's they came from.
func TestStringsOfARenamedTopic(t *testing.T) {
	s := peers.HDFS(t)
	cl, folder := look(t, s.NameNodes[0]), peers.Unique(t, "strings")
	settings := conf(s.NameNodes[0], folder, "flush.size", "2", "format.class", "io.confluent.connect.hdfs.string.StringFormat",
		"topics.dir", "/lake//${1}/", "logs.dir", "logs/${1}", "topic.capture.groups.regex", `^(\w+)`)
	run := connectortest.NewSinkRun(t, Sink2, nil, settings, false, topic)
	var batch []schema.Record
	for o, text := range []string{"ü", "a b", "c", "d"} {
		r := connectortest.At(schema.Record{ValueSchema: schema.StringSchema, Value: schema.StringValue(text)}, topic, int64(o))
		r.Topic = "shop.orders"
		batch = append(batch, r)
	}
	run.Put(append(batch, connectortest.At(schema.Record{Value: schema.Int64Value(1)}, topic, 4)))
	run.FlushTo(topic, 5)
	if got := run.Reported(); len(got) != 1 || connectors.FailureOf(got[0].Cause) == nil {
		t.Errorf("reported %v", got)
	}
	run.Close(false, topic)
	all := files(t, cl, folder)
	for name, want := range map[string]string{"lake/shop/shop.orders/partition=0/shop.orders+0+0000000000+0000000001.txt": "ü\na b\n", "lake/shop/shop.orders/partition=0/shop.orders+0+0000000002+0000000003.txt": "c\nd\n"} {
		if got := string(all[name]); got != want {
			t.Errorf("%s: %q; there are %s", name, got, names(all))
		}
	}
	again := connectortest.NewSinkRun(t, Sink2, nil, settings, false, topic)
	if again.Start[topic] != 4 { // no name of a file under the partition's own topic says so
		t.Errorf("starts at %d", again.Start[topic])
	}
	again.Close(false, topic)
}
