package warehouse

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/schema"
)

// heap is what is alive, in MiB.
func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}

// 5,000 open files take a block of memory each, whatever they hold; the rest lies on disk.
func TestManyOpenFiles(t *testing.T) {
	const folders, each = 5000, 12
	s := schema.NewStruct("order").Field("k", schema.StringSchema).Field("id", schema.Int64Schema).Field("text", schema.StringSchema).Build()
	text := schema.StringValue(strings.Repeat("x", 1000))
	run := connectortest.NewSinkRun(t, withTarget(nowhere{}), nil, conf("format.class", "ParquetFormat", "flush.size", "1000000", "partitioner.class", "FieldPartitioner", "partition.field.name", "k"), true, topic)
	before := heap()
	offset := int64(0)
	for range each {
		var records []schema.Record
		for i := range folders {
			v := schema.StructValue(s, []schema.Value{schema.StringValue(fmt.Sprintf("customer-%d", i)), schema.Int64Value(offset), text})
			records = append(records, connectortest.At(schema.Record{ValueSchema: s, Value: v}, topic, offset))
			offset++
		}
		run.Put(records)
	}
	task := run.Task.(*Task)
	if files := len(task.parts[topic].open); files != folders {
		t.Fatalf("%d files are open", files)
	}
	// 45 MiB on the machine where this was written: 5,000 blocks of 8 KiB, and what tells files apart.
	if took := heap() - before; took > 135 {
		t.Errorf("%d open files with %d bytes each take %d MiB", folders, each*1000, took)
	} else {
		t.Logf("%d open files take %d MiB, %d MiB are on disk", folders, took, task.spool.used()>>20)
	}
	run.Close(true, topic)
}
