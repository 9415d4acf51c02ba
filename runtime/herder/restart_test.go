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
