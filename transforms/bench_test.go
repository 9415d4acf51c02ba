package transforms_test

import (
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"millrace/schema"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// chainOfFive is what deploy/bench/Chain.java gives Kafka's own classes.
var chainOfFive = map[string]string{
	"transforms":             "insert,replace,cast,mask,key",
	"transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value", "transforms.insert.static.field": "origin", "transforms.insert.static.value": "shop", "transforms.insert.topic.field": "topic",
	"transforms.replace.type": "org.apache.kafka.connect.transforms.ReplaceField$Value", "transforms.replace.exclude": "note", "transforms.replace.renames": "name:customer",
	"transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value", "transforms.cast.spec": "amount:string",
	"transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value", "transforms.mask.fields": "email",
	"transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey", "transforms.key.fields": "id",
}

func eightFields() (*schema.Schema, schema.Value) {
	s := schema.NewStruct("orders.Value").Field("id", schema.Int64Schema).Field("name", schema.OptionalString).Field("email", schema.OptionalString).Field("amount", schema.Int32Schema).
		Field("price", schema.Float64Schema).Field("paid", schema.BoolSchema).Field("note", schema.OptionalString).Field("at", schema.Int64Schema).Build()
	return s, schema.StructValue(s, []schema.Value{schema.Int64Value(7), schema.StringValue("Ann"), schema.StringValue("ann@example.com"), schema.Int32Value(12), schema.Float64Value(1.5),
		schema.BoolValue(true), schema.StringValue("by the door"), schema.Int64Value(1709210096789)})
}

// BenchmarkChainOfFive also tells the records per second of this process's CPU, the
// collector included.
func BenchmarkChainOfFive(b *testing.B) {
	ts, err := plugin.NewTable(transforms.All()...)
	if err != nil {
		b.Fatal(err)
	}
	ps, err := plugin.NewTable(transforms.Predicates()...)
	if err != nil {
		b.Fatal(err)
	}
	chain, errs := transforms.NewChain(chainOfFive, ts, ps)
	if errs != nil {
		b.Fatal(errs)
	}
	s, v := eightFields()
	r := schema.Record{Topic: "orders", Timestamp: 1709210096789, Partition: schema.NoPartition, ValueSchema: s, Value: v}
	// The collector as the worker sets it: it runs when 160 MiB are used, not at each 4 MiB.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(160 << 20))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		if _, _, err := chain.Apply(r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/(cpuTime()-began).Seconds(), "records/cpu-s")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
