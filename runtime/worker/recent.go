package worker

import (
	"sync"
	"time"
)

// window is how long measurements count, twice: the present window and the one before
// it, as Connect's metrics do.
const window = 30 * time.Second

// Recent keeps what was measured of late. It is added to once a batch, a request or a
// commit, never once a record.
type Recent struct {
	mu        sync.Mutex // guards the fields below
	since     time.Time  // of the present window
	now, last span
}

type span struct {
	n             int64
	sum, min, max float64
}

func (s *span) add(v float64) {
	if s.n == 0 || v < s.min {
		s.min = v
	}
	if s.n == 0 || v > s.max {
		s.max = v
	}
	s.n++
	s.sum += v
}

// Add notes a measurement.
func (r *Recent) Add(v float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(time.Now())
	r.now.add(v)
}

// addMillis is Add of a duration in milliseconds, the unit of Connect's times.
func (r *Recent) addMillis(d time.Duration) { r.Add(float64(d) / float64(time.Millisecond)) }

// turn begins a new window where the present one is over. The caller holds the lock.
func (r *Recent) turn(now time.Time) {
	switch age := now.Sub(r.since); {
	case r.since.IsZero() || age >= 2*window:
		r.since, r.now, r.last = now, span{}, span{}
	case age >= window:
		r.since, r.now, r.last = r.since.Add(window), span{}, r.now
	}
}

// A Summary is what was measured within the last 30 to 60 seconds.
type Summary struct {
	Count         int64
	Sum, Min, Max float64
	Over          time.Duration // the time that it covers
}

// Avg is the mean, and whether there is one.
func (s Summary) Avg() (float64, bool) { return s.Sum / float64(max(s.Count, 1)), s.Count > 0 }

// PerSecond is the sum by time.
func (s Summary) PerSecond() float64 { return s.Sum / max(s.Over.Seconds(), window.Seconds()) }

// CountPerSecond is the number of measurements by time.
func (s Summary) CountPerSecond() float64 {
	return float64(s.Count) / max(s.Over.Seconds(), window.Seconds())
}

// Read is what was measured of late.
func (r *Recent) Read() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return Summary{}
	}
	now := time.Now()
	r.turn(now)
	s := Summary{Count: r.now.n + r.last.n, Sum: r.now.sum + r.last.sum, Min: r.now.min, Max: r.now.max, Over: now.Sub(r.since)}
	if r.last.n > 0 {
		s.Over += window
		if r.now.n == 0 {
			s.Min, s.Max = r.last.min, r.last.max
		}
		s.Min, s.Max = min(s.Min, r.last.min), max(s.Max, r.last.max)
	}
	return s
}
