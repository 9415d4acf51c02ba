package cmd

import (
	"context"
	"math"
	goruntime "runtime"
	"runtime/debug"
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
