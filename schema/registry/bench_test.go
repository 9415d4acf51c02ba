package registry_test

import (
	"fmt"
	"log/slog"
	"testing"

	"millrace/schema/registry"
)

// BenchmarkApply is what a start does with each version in the topic.
func BenchmarkApply(b *testing.B) {
	const many = 1000
	records := make([]registry.Record, many)
	for i := range records {
		records[i] = registry.Record{Key: fmt.Appendf(nil, `{"keytype":"SCHEMA","subject":"shop.t%d-value","version":1,"magic":1}`, i),
			Value: fmt.Appendf(nil, `{"subject":"shop.t%d-value","version":1,"id":%d,"schema":"{\"type\":\"record\",\"name\":\"Value\",\"namespace\":\"shop.t%d\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"},{\"name\":\"customer\",\"type\":\"long\"},{\"name\":\"status\",\"type\":[\"null\",\"string\"],\"default\":null}]}","deleted":false}`, i, i+1, i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		registry.NewState(slog.New(slog.DiscardHandler)).Apply(records)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/schema")
}
