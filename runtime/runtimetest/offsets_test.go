package runtimetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/schema"
)

// Offsets are not changed while tasks of another worker may still write theirs.
func TestOffsetsWaitForTasksOfOtherWorkers(t *testing.T) {
	l := logtest.New(t)
	source := NewSource()
	p := Plugins(t, source.Plugin("Numbers"))
	settings := []string{"task.shutdown.graceful.timeout.ms", "2000", "exactly.once.source.support", "disabled"}
	workers := []*herder.Herder{Worker(t, l, p, settings...), Worker(t, l, p, settings...)}
	leads := func(h *herder.Herder) bool {
		_, err := h.ResetOffsets(context.Background(), "a")
		return !errors.As(err, new(*runtime.ForwardError))
	}
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		Create(t, workers[0], name, "connector.class", "Numbers", "topic", "n", "count", "1000000")
	}
	leader, other := workers[0], workers[1]
	if !leads(leader) {
		leader, other = other, leader
	}
	// Of a connector whose task runs at the other worker.
	far := ""
	Until(t, "a task at the worker that does not lead", func() bool {
		for _, name := range names {
			st, err := leader.Status(context.Background(), name)
			if err != nil || len(st.Tasks) != 1 || st.Tasks[0].State != runtime.Running {
				return false
			}
			if st.Tasks[0].WorkerID == other.WorkerID() {
				far = name
			}
		}
		return far != ""
	})
	Until(t, "a commit", func() bool { return source.Committed(far, 0) > 0 })
	source.Deaf.Store(true) // they stop only when they are abandoned
	began := time.Now()
	if err := leader.SetTargetState(context.Background(), far, runtime.StoppedTarget); err != nil {
		t.Fatal(err)
	}
	var err error
	Until(t, "the offsets to be reset", func() bool {
		_, err = leader.ResetOffsets(context.Background(), far)
		return !errors.As(err, new(*runtime.ConflictError))
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("they were reset after %v, while tasks still ran", took)
	}
	five := []runtime.OffsetInfo{{
		Partition: schema.MapValue([]schema.Entry{{Key: schema.StringValue("task"), Value: schema.StringValue("0")}}),
		Offset:    schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.Int64Value(5)}}),
	}}
	if _, err := leader.AlterOffsets(context.Background(), far, five); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got, err := leader.Offsets(context.Background(), far)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || !schema.EqualValues(got[0].Partition, five[0].Partition) || !schema.EqualValues(got[0].Offset, five[0].Offset) {
			t.Fatalf("offsets %v, want what was set and no more", got)
		}
	}
	source.Deaf.Store(false)
}
