package measure

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	perOctave = 4                // buckets of a doubling, so a value is known to a fifth of itself
	buckets   = 2 + 31*perOctave // from a microsecond to half an hour
	window    = 5 * time.Minute  // quantiles are of at least the last such time
	shift     = 2                // log2 of perOctave
	unit      = int64(time.Microsecond)
)

// Durations is a histogram. The zero value is empty. It may be used concurrently and must not be copied.
type Durations struct {
	nanos atomic.Int64
	cells [buckets]atomic.Int64

	mu     sync.Mutex // guards the fields below
	old    *frozen    // what was counted at the beginning of the window
	recent *frozen    // … and what will be its beginning next
}

type frozen struct {
	at    time.Time
	cells [buckets]int64
}

// Add counts one duration.
func (d *Durations) Add(x time.Duration) {
	d.nanos.Add(int64(x))
	d.cells[cell(int64(x)/unit)].Add(1)
}

// cell is the bucket of a number of microseconds.
func cell(n int64) int {
	if n < perOctave {
		return int(max(n, 0)) / perOctave // 0: less than four
	}
	top := bits.Len64(uint64(n)) - 1 // n is in [2^top, 2^(top+1))
	i := 1 + (top-shift)*perOctave + int(n>>(top-shift))&(perOctave-1)
	return min(i, buckets-1)
}

// upper is the largest number of microseconds of a bucket.
func upper(i int) int64 {
	if i == 0 {
		return perOctave - 1
	}
	octave, part := (i-1)/perOctave, int64((i-1)%perOctave)
	return (perOctave+part+1)<<octave - 1
}

// Summary is what was counted: all of it, and quantiles of the last five to ten minutes (or of the time between two
// looks, if that is longer).
type Summary struct {
	Count int64
	Sum   time.Duration
	At    []time.Duration // one for each of the quantiles asked for; empty when nothing was counted lately
}

// Look summarises. Quantiles rise.
func (d *Durations) Look(now time.Time, quantiles ...float64) Summary {
	f := &frozen{at: now}
	s := Summary{Sum: time.Duration(d.nanos.Load())}
	for i := range d.cells {
		f.cells[i] = d.cells[i].Load()
		s.Count += f.cells[i]
	}
	d.mu.Lock()
	if d.recent == nil {
		d.old, d.recent = &frozen{}, f
	} else if now.Sub(d.recent.at) >= window {
		d.old, d.recent = d.recent, f
	}
	since := d.old
	d.mu.Unlock()
	var lately int64
	cells := f.cells // f is kept as it is
	for i := range cells {
		cells[i] -= since.cells[i]
		lately += cells[i]
	}
	if lately == 0 {
		return s
	}
	at, seen := 0, cells[0]
	for _, q := range quantiles {
		for rank := int64(q * float64(lately)); seen <= rank && at < buckets-1; {
			at++
			seen += cells[at]
		}
		s.At = append(s.At, time.Duration(upper(at)*unit))
	}
	return s
}
