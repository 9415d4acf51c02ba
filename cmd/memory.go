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
// machine does not have, so memory is bounded: by memoryFloor, with which a connector at full
// speed stays below 96 MiB, the binary included; by half as much again as what is alive, where that is more, up to
// memoryLarge; and beyond it by a quarter more, lest the collector run all the time.
const (
	memoryFloor = 64 << 20
	memoryLarge = 160 << 20
)

// memoryBound is the bound where so much is alive.
func memoryBound(live int64) int64 {
	return max(memoryFloor, min(live/2*3, memoryLarge), live/4*5)
}

// guardMemory keeps the process's memory bounded until ctx ends or end is called, which
// waits until nothing of it runs any more. GOMEMLIMIT, where somebody has set it, is the
// bound instead.
func guardMemory(ctx context.Context) (end func()) {
	_ = unmapProgram() // what stays mapped is the system's to take back
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	debug.SetMemoryLimit(memoryFloor)
	done := make(chan struct{})
	go func() {
		defer close(done)
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
		value := func(i int) int64 { return int64(live[i].Value.Uint64()) }
		tick := time.NewTicker(memoryTick)
		defer tick.Stop()
		var still stillness
		for limit := int64(memoryFloor); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			metrics.Read(live)
			if want := memoryBound(value(0)); want != limit {
				limit = want
				debug.SetMemoryLimit(limit)
			}
			if still.tick(value(1), value(2)-value(0)+value(3), value(0)) {
				debug.FreeOSMemory()
				_ = unmapProgram()
			}
		}
	}()
	return func() { cancel(); <-done }
}

const memoryTick = 2 * time.Second

// stillness finds out when the collector should be asked to give back what work that is over has left behind: by itself it
// waits until the heap has doubled, and a process whose connectors have nothing to do would hold on to twice what it needs for
// hours.
type stillness struct {
	allocated int64 // at the last tick
	quiet     int   // ticks in a row with little allocated
	wait      int   // ticks until memory may be given back again
}

const (
	littleAllocated = 8 << 20 // in a tick
	ticksOfRest     = 5
	ticksBetween    = 30 // what it may cost when there is always a little to do: one collection in a minute
	leastGain       = 8 << 20
)

// tick is called every memoryTick with the bytes allocated since the start, those that could be given back and those that were alive
// after the last collection; it reports whether to give back memory now.
func (s *stillness) tick(allocated, gain, live int64) bool {
	little := allocated-s.allocated < littleAllocated
	s.allocated = allocated
	s.wait = max(0, s.wait-1)
	if s.quiet++; !little {
		s.quiet = 0
	}
	if s.quiet < ticksOfRest || s.wait > 0 || gain < max(leastGain, live/4) {
		return false
	}
	s.wait = ticksBetween
	return true
}
