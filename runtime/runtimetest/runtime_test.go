package runtimetest

import (
	"fmt"
	"testing"

	"millrace/log/logtest"
	"millrace/runtime"
)

func TestRecordsFlowFromSourceToSink(t *testing.T) {
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")))
	Create(t, h, "numbers", "connector.class", "Numbers", "topic", "n", "count", "1000")
	Create(t, h, "memory", "connector.class", "Memory", "topics", "n")
	AwaitState(t, h, "numbers", -1, runtime.Running)
	AwaitState(t, h, "numbers", 0, runtime.Running)
	Until(t, "all records to be in the sink", func() bool { return len(sink.Values()) == 1000 })
	for i, v := range sink.Values() {
		if v != fmt.Sprintf("v%d", i) {
			t.Fatalf("record %d is %s", i, v)
		}
	}
	Until(t, "the source to hear of the commit", func() bool { return source.Committed("numbers", 0) == 1000 })
	if sink.Overlap() {
		t.Error("two methods of the sink task ran at once")
	}
}
