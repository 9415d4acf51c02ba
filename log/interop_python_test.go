package log_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
)

// pythonHead is what all programs begin with. check fails with what was found.
const pythonHead = `
import sys, time, uuid
from confluent_kafka import Producer, Consumer, KafkaException, KafkaError, TopicPartition, OFFSET_BEGINNING, OFFSET_END, ConsumerGroupTopicPartitions, IsolationLevel, TopicCollection
from confluent_kafka.admin import (AdminClient, NewTopic, NewPartitions, ConfigResource, ConfigEntry, AlterConfigOpType, ResourceType, OffsetSpec)
at = sys.argv[1]
admin = AdminClient({"bootstrap.servers": at})

def check(what, got, want):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))

def wait(futures):
    return {k: f.result(60) for k, f in futures.items()}

def refused(what, future, code):
    try:
        future.result(60)
    except KafkaException as e:
        check(what, e.args[0].code(), code)
    else:
        raise AssertionError(what + ": was done")

def produce(topic, values, partition=-1, **conf):
    failed = []
    p = Producer(dict({"bootstrap.servers": at, "acks": "all"}, **conf))
    for i, v in enumerate(values):
        p.produce(topic, key="k%d" % i, value=v, partition=partition, headers=[("h", b"v")],
                  on_delivery=lambda err, msg: failed.append(err) if err else None)
        p.poll(0)
    check("unsent", p.flush(60), 0)
    check("failed", failed, [])

def read(consumer, n):
    out = []
    deadline = time.time() + 60
    while len(out) < n:
        if time.time() > deadline:
            raise AssertionError("%d of %d records came" % (len(out), n))
        m = consumer.poll(1)
        if m is None:
            continue
        if m.error():
            raise KafkaException(m.error())
        out.append(m)
    return out
`

func TestConfluentPython(t *testing.T) {
	py := peers.PythonClients(t)
	l := onDisk(t, t.TempDir())
	for _, c := range []struct{ name, program string }{
		{"creates, lists and describes topics", `
check("created", wait(admin.create_topics([NewTopic("t", 2, 1, config={"retention.ms": "3600000"}), NewTopic("u", 1, 1)])), {"t": None, "u": None})
refused("a topic that is there", admin.create_topics([NewTopic("t", 1, 1)])["t"], KafkaError.TOPIC_ALREADY_EXISTS)
refused("a bad value", admin.create_topics([NewTopic("v", 1, 1, config={"retention.ms": "x"})])["v"], KafkaError.INVALID_CONFIG)
refused("a bad name", admin.create_topics([NewTopic("a/b", 1, 1)])["a/b"], KafkaError.TOPIC_EXCEPTION)
md = admin.list_topics(timeout=60)
check("partitions", sorted((n, len(x.partitions)) for n, x in md.topics.items() if not n.startswith("__")), [("t", 2), ("u", 1)])
check("brokers", [b.port for b in md.brokers.values()], [int(at.split(":")[1])])
check("cluster", bool(md.cluster_id), True)
d = admin.describe_topics(TopicCollection(["t"]))["t"].result(60)
check("described", (d.name, len(d.partitions), d.partitions[0].leader.id, d.is_internal), ("t", 2, 1, False))
c = admin.describe_cluster().result(60)
check("cluster described", (c.cluster_id, len(c.nodes)), (md.cluster_id, 1))
check("more partitions", wait(admin.create_partitions([NewPartitions("u", 3)])), {"u": None})
refused("fewer partitions", admin.create_partitions([NewPartitions("u", 1)])["u"], KafkaError.INVALID_PARTITIONS)
`},
		{"describes and alters configurations", `
r = ConfigResource(ResourceType.TOPIC, "t")
def value(name):
    return {k: (e.value, e.is_default) for k, e in admin.describe_configs([r])[r].result(60).items()}[name]
check("set", value("retention.ms"), ("3600000", False))
check("default", value("cleanup.policy"), ("delete", True))
change = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[
    ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET),
    ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)])
check("altered", admin.incremental_alter_configs([change])[change].result(60), None)
check("after", (value("retention.ms")[0], value("cleanup.policy")[0]), ("7200000", "delete,compact"))
change = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[
    ConfigEntry("cleanup.policy", None, incremental_operation=AlterConfigOpType.DELETE)])
check("back", admin.incremental_alter_configs([change])[change].result(60), None)
check("back", value("cleanup.policy"), ("delete", True))
bad = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[ConfigEntry("segment.ms", "0", incremental_operation=AlterConfigOpType.SET)])
refused("out of range", admin.incremental_alter_configs([bad])[bad], KafkaError.INVALID_CONFIG)
b = ConfigResource(ResourceType.BROKER, "1")
check("broker", {k: e.value for k, e in admin.describe_configs([b])[b].result(60).items()}["node.id"], "1")
`},
		{"produces with every codec and idempotently, and consumes what it sent", `
for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
    topic = "c-" + codec
    values = ["%s %d" % (codec * 20, i) for i in range(300)]
    produce(topic, values, **{"compression.type": codec, "enable.idempotence": codec != "none"})
    c = Consumer({"bootstrap.servers": at, "group.id": "read-" + codec, "auto.offset.reset": "earliest", "check.crcs": True})
    c.subscribe([topic])
    got = read(c, 300)
    check(codec, [m.value().decode() for m in got], values)
    check("rest of it", (got[7].key(), got[7].headers(), got[7].offset(), got[7].timestamp()[1] > 0), (b"k7", [("h", b"v")], 7, True))
    c.close()
`},
		{"commits, goes on behind it, and seeks by time", `
produce("t", ["v%d" % i for i in range(50)], partition=0)
conf = {"bootstrap.servers": at, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
c = Consumer(conf)
c.subscribe(["t"])
got = read(c, 20)
c.commit(offsets=[TopicPartition("t", 0, 20)], asynchronous=False)
c.close()
c = Consumer(conf)
c.subscribe(["t"])
check("behind the commit", read(c, 1)[0].offset(), 20)
check("committed", c.committed([TopicPartition("t", 0)], timeout=60)[0].offset, 20)
check("watermarks", c.get_watermark_offsets(TopicPartition("t", 0), timeout=60), (0, 50))
middle = got[10].timestamp()[1]
o = c.offsets_for_times([TopicPartition("t", 0, middle)], timeout=60)[0].offset
check("by time", o <= 10 and got[o].timestamp()[1] == middle and (o == 0 or got[o-1].timestamp()[1] < middle), True)
check("later than all", c.offsets_for_times([TopicPartition("t", 0, middle + 3600000)], timeout=60)[0].offset, OFFSET_END)
c.seek(TopicPartition("t", 0, 5))
check("after a seek", read(c, 1)[0].offset(), 5)
c.close()
`},
		{"lists offsets and deletes records", `
tp = TopicPartition("t", 0)
check("latest", admin.list_offsets({tp: OffsetSpec.latest()})[tp].result(60).offset, 50)
check("earliest", admin.list_offsets({tp: OffsetSpec.earliest()})[tp].result(60).offset, 0)
check("committed only", admin.list_offsets({tp: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)[tp].result(60).offset, 50)
check("largest timestamp", admin.list_offsets({tp: OffsetSpec.max_timestamp()})[tp].result(60).offset >= 0, True)
check("deleted", admin.delete_records([TopicPartition("t", 0, 10)])[tp].result(60).low_watermark, 10)
check("earliest now", admin.list_offsets({tp: OffsetSpec.earliest()})[tp].result(60).offset, 10)
refused("beyond the end", admin.delete_records([TopicPartition("t", 0, 1000)])[tp], KafkaError.OFFSET_OUT_OF_RANGE)
`},
		{"lists, describes, alters and deletes groups", `
c = Consumer({"bootstrap.servers": at, "group.id": "live", "auto.offset.reset": "earliest", "client.id": "me", "group.instance.id": "i1"})
c.subscribe(["t"])
read(c, 5)
groups = admin.list_consumer_groups().result(60)
check("listed", {"g", "live"} <= {g.group_id for g in groups.valid}, True)
d = admin.describe_consumer_groups(["live"])["live"].result(60)
check("described", (d.state.name, len(d.members), d.members[0].client_id, d.members[0].group_instance_id, len(d.members[0].assignment.topic_partitions)), ("STABLE", 1, "me", "i1", 2))
refused("a group that is in use", admin.delete_consumer_groups(["live"])["live"], KafkaError.NON_EMPTY_GROUP)
c.close()
o = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(60)
check("offsets", [(p.topic, p.partition, p.offset) for p in o.topic_partitions], [("t", 0, 20)])
a = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 33)])])["g"].result(60)
check("altered", a.topic_partitions[0].error, None)
o = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(60)
check("offsets now", o.topic_partitions[0].offset, 33)
check("deleted", admin.delete_consumer_groups(["g"])["g"].result(60), None)
refused("a group that is gone", admin.delete_consumer_groups(["g"])["g"], KafkaError.GROUP_ID_NOT_FOUND)
`},
		{"rebalances cooperatively", `
conf = {"bootstrap.servers": at, "group.id": "coop", "partition.assignment.strategy": "cooperative-sticky", "auto.offset.reset": "earliest"}
admin.create_topics([NewTopic("four", 4, 1)])["four"].result(60)
a, b = Consumer(dict(conf)), Consumer(dict(conf))
a.subscribe(["four"])
deadline = time.time() + 60
while len(a.assignment()) < 4 and time.time() < deadline:
    a.poll(0.1)
b.subscribe(["four"])
while (len(a.assignment()), len(b.assignment())) != (2, 2) and time.time() < deadline:
    a.poll(0.05); b.poll(0.05)
check("shared", (len(a.assignment()), len(b.assignment())), (2, 2))
b.close()
while len(a.assignment()) < 4 and time.time() < deadline:
    a.poll(0.1)
check("back", len(a.assignment()), 4)
a.close()
`},
		{"commits and aborts transactions, with offsets in them", `
admin.create_topics([NewTopic("in", 1, 1), NewTopic("out", 1, 1)])["out"].result(60)
produce("in", ["i%d" % i for i in range(10)])
src = Consumer({"bootstrap.servers": at, "group.id": "copy", "auto.offset.reset": "earliest", "enable.auto.commit": False})
src.subscribe(["in"])
read(src, 10)
p = Producer({"bootstrap.servers": at, "transactional.id": "copier"})
p.init_transactions(60)
for commit in [False, True]:
    p.begin_transaction()
    for i in range(5):
        p.produce("out", ("good %d" if commit else "bad %d") % i)
    p.send_offsets_to_transaction([TopicPartition("in", 0, 10 if commit else 3)], src.consumer_group_metadata(), 60)
    p.flush(60)
    if commit:
        p.commit_transaction(60)
    else:
        p.abort_transaction(60)
src.close()
def values(level, n):
    c = Consumer({"bootstrap.servers": at, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest", "isolation.level": level})
    c.subscribe(["out"])
    out = [m.value().decode() for m in read(c, n)]
    c.close()
    return out
check("committed", values("read_committed", 5), ["good %d" % i for i in range(5)])
check("all", values("read_uncommitted", 10), ["bad %d" % i for i in range(5)] + ["good %d" % i for i in range(5)])
o = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("copy")])["copy"].result(60)
check("offsets", [x.offset for x in o.topic_partitions], [10])
# A second producer of that name fences the first.
q = Producer({"bootstrap.servers": at, "transactional.id": "copier"})
q.init_transactions(60)
try:
    p.begin_transaction()
    p.produce("out", "late")
    p.commit_transaction(60)
except KafkaException as e:
    check("fenced", e.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), True)
else:
    raise AssertionError("a fenced producer committed")
check("nothing came of it", values("read_committed", 5), ["good %d" % i for i in range(5)])
`},
		{"shares a topic by the newer group protocol", `
admin.create_topics([NewTopic("new", 4, 1)])["new"].result(60)
conf = {"bootstrap.servers": at, "group.id": "newer", "group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": False}
a, b = Consumer(dict(conf)), Consumer(dict(conf))
a.subscribe(["new"])
deadline = time.time() + 60
while len(a.assignment()) < 4 and time.time() < deadline:
    a.poll(0.1)
check("alone", len(a.assignment()), 4)
b.subscribe(["new"])
while (len(a.assignment()), len(b.assignment())) != (2, 2) and time.time() < deadline:
    a.poll(0.05); b.poll(0.05)
check("shared", (len(a.assignment()), len(b.assignment())), (2, 2))
d = admin.describe_consumer_groups(["newer"])["newer"].result(60)
check("described", (d.state.name, d.type.name, len(d.members)), ("STABLE", "CONSUMER", 2))
b.close()
while len(a.assignment()) < 4 and time.time() < deadline:
    a.poll(0.1)
check("back", len(a.assignment()), 4)
for i in range(4):
    produce("new", ["x", "y"], partition=i)
read(a, 8)
a.commit(asynchronous=False)
a.close()
o = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("newer")])["newer"].result(60)
check("committed", sorted(x.offset for x in o.topic_partitions), [2, 2, 2, 2])
`},
		{"deletes topics", `
check("deleted", wait(admin.delete_topics(["t", "u"])), {"t": None, "u": None})
refused("again", admin.delete_topics(["t"])["t"], KafkaError.UNKNOWN_TOPIC_OR_PART)
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			py.Run(ctx, t, pythonHead+strings.TrimLeft(c.program, "\n"), l.Addr())
		})
	}
}
