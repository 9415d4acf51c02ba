package herder

import (
	"math/rand/v2"
	"time"

	"millrace/connectors"
)

// How a failed part is restarted by itself.
const (
	helpsFirst, helpsMost     = time.Second, time.Minute
	unknownFirst, unknownMost = 10 * time.Second, 10 * time.Minute
	unknownTimes              = 10
	// forgiven is how long a part must have run for its failures to be counted anew.
	forgiven = 10 * time.Minute
)

// nextRestart is the pause before a part is restarted by itself after its nth failure
// in a row, counted from 0, and whether it is. Where a retry helps it is tried for
// ever, a wrong configuration never is.
func nextRestart(err error, n int) (time.Duration, bool) {
	first, most := unknownFirst, unknownMost
	switch connectors.RetryOf(err) {
	case connectors.RetryNever:
		return 0, false
	case connectors.RetryHelps:
		first, most = helpsFirst, helpsMost
	default:
		if n >= unknownTimes {
			return 0, false
		}
	}
	d := pause(first, most, n)
	return d - time.Duration(rand.Int64N(int64(d)/10+1)), true
}

// pause is first doubled n times, up to most.
func pause(first, most time.Duration, n int) time.Duration {
	if n < 20 && first<<n < most {
		return first << n
	}
	return most
}

// lastRestart is when the last restart of a part with an unmarked failure is at the
// earliest, where the next one, its nth in a row counted from 0, is at next.
func lastRestart(next time.Time, n int) time.Time {
	for n++; n < unknownTimes; n++ {
		next = next.Add(pause(unknownFirst, unknownMost, n) * 9 / 10)
	}
	return next
}
