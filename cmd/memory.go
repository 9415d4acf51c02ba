package cmd

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The collector's usual rule lets the heap grow to twice what is alive. Rows of many
// megabytes are alive in several stages at once, and twice that would be what a small
// machine does not have, so memory is bounded: by memoryFloor, or a quarter more than
// what is alive where that is more, lest the collector run all the time.
const memoryFloor = 160 << 20

// guardMemory keeps the process's memory bounded until ctx ends or end is called, which
// waits until nothing of it runs any more. GOMEMLIMIT, where somebody has set it, is the
// bound instead.
func guardMemory(ctx context.Context) (end func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	debug.SetMemoryLimit(memoryFloor)
	done := make(chan struct{})
	go func() {
		defer close(done)
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for limit := int64(memoryFloor); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			metrics.Read(live)
			if want := max(memoryFloor, int64(live[0].Value.Uint64()/4*5)); want != limit {
				limit = want
				debug.SetMemoryLimit(limit)
			}
		}
	}()
	return func() { cancel(); <-done }
}
