package cmd

import (
	"context"
	"math"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestTheGuardOfMemoryEndsBeforeItsOwner(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(was) })
	runs := func() bool {
		b := make([]byte, 1<<20)
		return strings.Contains(string(b[:goruntime.Stack(b, true)]), "cmd.guardMemory.func")
	}
	end := guardMemory(context.Background())
	if !runs() {
		t.Error("nobody guards the memory")
	}
	if limit := debug.SetMemoryLimit(-1); limit != memoryFloor {
		t.Errorf("the limit is %d", limit)
	}
	end()
	if runs() {
		t.Error("the guard outlives its owner")
	}
	debug.SetMemoryLimit(math.MaxInt64)
	t.Setenv("GOMEMLIMIT", "1GiB")
	guardMemory(context.Background())()
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("a limit that somebody has set is replaced by %d", limit)
	}
}

func TestMemoryIsGivenBackOnceTheWorkIsOver(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		each, gain, live int64 // MiB at a tick
		busy             int   // ticks at the beginning that allocate 100 MiB
		want             []int // ticks at which memory is given back, of a hundred
	}{
		"a start that leaves garbage behind":        {0, 20, 40, 3, []int{7, 37, 67, 97}},
		"work without an end":                       {100, 20, 40, 0, nil},
		"a little to do all the time":               {3, 20, 40, 0, []int{4, 34, 64, 94}},
		"little to be had":                          {0, 7, 3, 0, nil},
		"little to be had for what is alive":        {0, 20, 100, 0, nil},
		"much is alive and there is much to be had": {0, 30, 100, 0, []int{4, 34, 64, 94}},
	} {
		var s stillness
		var got []int
		allocated := int64(0)
		for i := range 100 {
			if allocated += c.each * mib; i < c.busy {
				allocated += 100 * mib
			}
			if s.tick(allocated, c.gain*mib, c.live*mib) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: given back at %v, want %v", name, got, c.want)
		}
	}
}

func TestMemoryBound(t *testing.T) {
	for _, c := range []struct {
		name       string
		live, want int64
	}{
		{"little is alive", 5 << 20, memoryFloor}, {"half as much again", 60 << 20, 90 << 20}, {"up to the large bound", 120 << 20, memoryLarge},
		{"a quarter more", 400 << 20, 500 << 20},
	} {
		if got := memoryBound(c.live); got != c.want {
			t.Errorf("%s: %d MiB alive are bounded by %d MiB, want %d", c.name, c.live>>20, got>>20, c.want>>20)
		}
	}
}
