package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatIsRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recent
		if s := r.Read(); s.Count != 0 {
			t.Fatalf("nothing was measured: %+v", s)
		}
		check := func(when string, n int64, sum, least, most float64) {
			t.Helper()
			if s := r.Read(); s.Count != n || s.Sum != sum || s.Min != least || s.Max != most {
				t.Errorf("%s: %+v, want %d, %v, %v, %v", when, s, n, sum, least, most)
			}
		}
		r.Add(4)
		r.Add(2)
		check("at once", 2, 6, 2, 4)
		time.Sleep(31 * time.Second)
		check("a window later it still counts", 2, 6, 2, 4)
		r.Add(10)
		check("with what came since", 3, 16, 2, 10)
		if rate := r.Read().PerSecond(); rate < 16/62.0 || rate > 16/30.0 {
			t.Errorf("%v a second", rate)
		}
		time.Sleep(30 * time.Second)
		check("what is two windows old counts no more", 1, 10, 10, 10)
		time.Sleep(time.Hour)
		check("nor does anything after an hour", 0, 0, 0, 0)
	})
}
