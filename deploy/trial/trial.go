package trial

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Soak reports whether this run may take hours and things that few machines have.
func Soak() bool { return os.Getenv("MILLRACE_SOAK") != "" }

// Effort scales a number of rounds by MILLRACE_EFFORT; at least one is left.
func Effort(rounds int) int {
	text := os.Getenv("MILLRACE_EFFORT")
	if text == "" {
		return rounds
	}
	percent, err := strconv.Atoi(text)
	if err != nil || percent <= 0 {
		panic("MILLRACE_EFFORT=" + text + ": want a percentage")
	}
	return max(1, rounds*percent/100)
}

// Again is the seed that MILLRACE_SEED asks for, if it does.
func Again() (seed uint64, asked bool) {
	text := os.Getenv("MILLRACE_SEED")
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("MILLRACE_SEED=" + text + ": want the number that a failed test has printed")
	}
	return seed, true
}

// Seed is the seed of all that a test does by chance. A failed test's log has it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := Seeds(1)[0]
	t.Logf("MILLRACE_SEED=%d", seed)
	return seed
}

// Seeds are those of as many runs as Effort makes of rounds. The caller prints the one that failed.
func Seeds(rounds int) []uint64 {
	if seed, asked := Again(); asked {
		return []uint64{seed}
	}
	first := uint64(1)
	if Soak() {
		first = uint64(time.Now().UnixNano()) / 1000
	}
	seeds := make([]uint64, Effort(rounds))
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}
