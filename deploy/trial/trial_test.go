package trial

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		name, seed, effort, soak string
		want                     []uint64
	}{
		{name: "the usual run has the same ones each time", want: []uint64{1, 2, 3, 4}},
		{name: "effort is a share of the rounds", effort: "50", want: []uint64{1, 2}},
		{name: "little effort leaves one", effort: "1", want: []uint64{1}},
		{name: "one that failed runs alone", seed: "18446744073709551615", effort: "200", soak: "1", want: []uint64{18446744073709551615}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("MILLRACE_SEED", c.seed)
			t.Setenv("MILLRACE_EFFORT", c.effort)
			t.Setenv("MILLRACE_SOAK", c.soak)
			if got := Seeds(4); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestASoakTakesSeedsThatNobodyHasTried(t *testing.T) {
	t.Setenv("MILLRACE_SEED", "")
	t.Setenv("MILLRACE_EFFORT", "")
	t.Setenv("MILLRACE_SOAK", "1")
	if got := Seeds(2); got[0] < 1<<40 || got[1] != got[0]+1 {
		t.Errorf("%v", got)
	}
}

func TestWhatIsNoNumberIsRefused(t *testing.T) {
	for name, f := range map[string]func(){"MILLRACE_EFFORT": func() { Effort(1) }, "MILLRACE_SEED": func() { Seed(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "many")
			defer func() {
				if recover() == nil {
					t.Error("taken")
				}
			}()
			f()
		})
	}
}
