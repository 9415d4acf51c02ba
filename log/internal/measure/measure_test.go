package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/deploy/trial"
)

func TestBucketsFollowEachOther(t *testing.T) {
	last := -1
	for n := int64(0); n < 1<<20; n++ {
		i := cell(n)
		if i != last && i != last+1 {
			t.Fatalf("%d µs is in bucket %d, %d µs in %d", n-1, last, n, i)
		}
		if n > upper(i) || i > 0 && n <= upper(i-1) {
			t.Fatalf("%d µs is in bucket %d, from %d to %d", n, i, upper(i-1)+1, upper(i))
		}
		last = i
	}
	for _, n := range []int64{-1, math.MinInt64, math.MaxInt64} {
		if i := cell(n); i < 0 || i >= buckets {
			t.Errorf("%d µs is in bucket %d", n, i)
		}
	}
}

func TestQuantilesAreNearTheRealOnes(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var d Durations
	var all []time.Duration
	var sum time.Duration
	for range 20_000 {
		x := time.Duration(math.Exp(rng.NormFloat64()*2) * float64(time.Millisecond)).Truncate(time.Microsecond)
		all, sum = append(all, x), sum+x
		d.Add(x)
	}
	slices.Sort(all)
	qs := []float64{0, 0.5, 0.75, 0.95, 0.98, 0.99, 0.999}
	s := d.Look(time.Now(), qs...)
	if s.Count != int64(len(all)) || s.Sum != sum || len(s.At) != len(qs) {
		t.Fatalf("got %+v", s)
	}
	for i, q := range qs {
		real := all[int(q*float64(len(all)))]
		if s.At[i] < real-time.Microsecond || s.At[i] > real+real/3+4*time.Microsecond {
			t.Errorf("quantile %v is %v, got %v", q, real, s.At[i])
		}
	}
}

func TestQuantilesForget(t *testing.T) {
	var d Durations
	now := time.Now()
	if s := d.Look(now, 0.5); s.At != nil || s.Count != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	median := func() time.Duration {
		s := d.Look(now, 0.5)
		if s.At == nil {
			return -1
		}
		return s.At[0]
	}
	d.Add(time.Second)
	if got := median(); got < time.Second {
		t.Errorf("got %v", got)
	}
	now = now.Add(window)
	if got := median(); got < time.Second {
		t.Errorf("after one window it is forgotten: %v", got)
	}
	now = now.Add(window)
	median()
	now = now.Add(window)
	if got := median(); got != -1 {
		t.Errorf("after three windows it is there still: %v", got)
	}
	d.Add(time.Millisecond)
	if got := median(); got > 2*time.Millisecond {
		t.Errorf("got %v", got)
	}
	if s := d.Look(now); s.Count != 2 {
		t.Errorf("counts forget, too: %+v", s)
	}
}

func TestManyMayCountAndLook(t *testing.T) {
	var d Durations
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				d.Add(time.Millisecond)
				d.Look(time.Now(), 0.5)
			}
		})
	}
	wg.Wait()
	if s := d.Look(time.Now()); s.Count != 4000 {
		t.Errorf("counted %d", s.Count)
	}
}

func BenchmarkAdd(b *testing.B) {
	var d Durations
	b.ReportAllocs()
	for b.Loop() {
		d.Add(1234 * time.Microsecond)
	}
}
