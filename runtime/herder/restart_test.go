package herder

import (
	"errors"
	"testing"
	"time"

	"millrace/connectors"
)

func TestNextRestart(t *testing.T) {
	plain := errors.New("x")
	for _, c := range []struct {
		name string
		err  error
		n    int
		most time.Duration // 0: never
	}{
		{"what a retry helps is tried after a second", connectors.Retriable(plain), 0, time.Second},
		{"then after twice the time", connectors.Retriable(plain), 3, 8 * time.Second},
		{"never longer than a minute, without end", connectors.Retriable(plain), 1000, time.Minute},
		{"what is not marked is tried after ten seconds", plain, 0, 10 * time.Second},
		{"never longer than ten minutes", plain, 9, 10 * time.Minute},
		{"ten times in a row at most", plain, 10, 0},
		{"a wrong configuration never is", connectors.BadConfig(plain), 0, 0},
	} {
		d, ok := nextRestart(c.err, c.n)
		if ok != (c.most > 0) || d > c.most || d < c.most*9/10 {
			t.Errorf("%s: %v %v, want up to %v", c.name, d, ok, c.most)
		}
	}
}

// The pauses in a row, as decided: 1 s doubling to 60 s; 10 s doubling to 10 min, ten
// times. Each is up to a tenth shorter, so that many tasks do not come back together.
func TestThePausesBetweenRestarts(t *testing.T) {
	plain := errors.New("x")
	for _, c := range []struct {
		name string
		err  error
		want []time.Duration // 0: no more
	}{
		{"what a retry helps", connectors.Retriable(plain), []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60}},
		{"what is not marked", plain, []time.Duration{10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 0, 0}},
		{"a wrong configuration", connectors.BadConfig(plain), []time.Duration{0}},
	} {
		for n, want := range c.want {
			want *= time.Second
			d, ok := nextRestart(c.err, n)
			if ok != (want > 0) || d > want || d < want*9/10 {
				t.Errorf("%s, number %d: %v %v, want %v", c.name, n, d, ok, want)
			}
		}
	}
	next := time.Now()
	if d := lastRestart(next, 0).Sub(next); d != (20+40+80+160+320+4*600)*time.Second*9/10 {
		t.Errorf("the last of ten restarts is %v after the first", d)
	}
	if d := lastRestart(next, unknownTimes-1).Sub(next); d != 0 {
		t.Errorf("the last is %v after itself", d)
	}
}
