package cdc

import (
	"time"

	"millrace/schema/envelope"
)

// A Clock is the time at which events are processed, read once for every 64 of them: it is
// in every event, and asking the system for it each time shows in the figures. The zero
// Clock is ready. It is used by one goroutine.
type Clock struct {
	n   int
	now envelope.Moment
}

// Moment is the time of the next event.
func (c *Clock) Moment() envelope.Moment {
	if c.n%64 == 0 {
		c.now = envelope.MomentOf(time.Now())
	}
	c.n++
	return c.now
}

// Reset has the next moment read anew: after a wait.
func (c *Clock) Reset() { c.n = 0 }
