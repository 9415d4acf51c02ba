package connectors

import (
	"math"
	"testing"
	"time"
)

func TestBackoffIsBounded(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name        string
		first, most time.Duration
		attempt     int
		bound       time.Duration // the pause is below
	}{
		{"the first pause", second, time.Minute, 1, second},
		{"it doubles", second, time.Minute, 4, 8 * second},
		{"up to its most", second, time.Minute, 100, time.Minute},
		{"a first one above the most", time.Hour, 20 * second, 1, 20 * second},
		{"and what follows", time.Hour, 20 * second, 2, 20 * second},
		{"no pause", 0, time.Minute, 5, 0},
		{"no overflow", math.MaxInt64 / 3 * 2, math.MaxInt64, 9, math.MaxInt64},
	} {
		longest := time.Duration(0)
		for range 1000 {
			d := Backoff(c.first, c.most, c.attempt)
			if longest = max(longest, d); d < 0 || d > 0 && d >= c.bound {
				t.Fatalf("%s: a pause of %v", c.name, d)
			}
		}
		if longest < c.bound/2 { // of a thousand pauses at random
			t.Errorf("%s: no pause is longer than %v", c.name, longest)
		}
	}
}
