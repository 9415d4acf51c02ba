package member

import (
	"testing"
	"time"
)

// A word of the coordinator counts from when it was asked for, and an older one takes nothing back of a newer one.
func TestCountedIsASessionFromTheLastQuestion(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name    string
		heard   []time.Duration // ago
		counted bool
	}{
		{"nothing was heard", nil, false},
		{"a word of just now", []time.Duration{0}, true},
		{"a word within the session", []time.Duration{30 * time.Minute}, true},
		{"an answer that was read when the session was over", []time.Duration{2 * time.Hour}, false},
		{"an old answer behind a newer one", []time.Duration{0, 2 * time.Hour}, true},
		{"a newer answer behind an old one", []time.Duration{2 * time.Hour, 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(Config{Session: time.Hour})
			for _, ago := range c.heard {
				m.heard(now.Add(-ago))
			}
			if m.Counted() != c.counted {
				t.Errorf("counted in: %t", m.Counted())
			}
		})
	}
}

// worker-log/1: a clock that jumps neither ends a session nor prolongs one. Its end is kept with a reading of the clock that does not
// jump, and times that both have one are compared by that alone.
func TestASessionDoesNotFollowAClockThatJumps(t *testing.T) {
	m := New(Config{Session: time.Hour})
	m.heard(time.Now())
	until := *m.until.Load()
	if until == until.Round(0) {
		t.Error("the session's end has no reading of the monotonic clock")
	}
}
