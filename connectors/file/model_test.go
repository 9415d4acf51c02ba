package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/deploy/trial"
)

// TestAnyOrder writes, rotates, copies and truncates, stops and starts in random
// order: every line comes at least once and whole, in the order of its first coming,
// and only what was not committed comes twice.
func TestAnyOrder(t *testing.T) {
	for _, seed := range trial.Seeds(12) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { anyOrder(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func anyOrder(t *testing.T, rnd *rand.Rand) {
	dir := tempDir(t)
	in := filepath.Join(dir, "in.log")
	conf := map[string]string{"file": in, "topic": "lines", "batch.size": fmt.Sprint(rnd.IntN(20) + 1)}
	m := newMemory()
	var run *running
	var steps []string
	written, half, at := 0, "", time.Unix(1_700_000_000, 0)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("steps: %s", strings.Join(steps, ", "))
		}
	})
	add := func(path string) {
		var b strings.Builder
		b.WriteString(half)
		half = ""
		for range rnd.IntN(30) + 1 {
			written++
			fmt.Fprintf(&b, "line %d %s\n", written, strings.Repeat("é", rnd.IntN(40)))
		}
		text := b.String()
		if rnd.IntN(4) == 0 { // the last line is written in two
			cut := len(text) - 1 - rnd.IntN(3)
			text, half = text[:cut], text[cut:]
		}
		write(t, path, text)
	}
	read := func() { // wait until all whole lines have come
		if run == nil {
			run = startSource(t, m, dir, conf)
		}
		want := written
		if half != "" {
			want--
		}
		m.waitFor(t, fmt.Sprintf("line %d", want), func(l []string) bool {
			for i := len(l) - 1; i >= 0; i-- {
				if strings.HasPrefix(l[i], fmt.Sprintf("line %d ", want)) {
					return true
				}
			}
			return want == 0
		})
	}
	rotations := 0
	for range 25 {
		switch step := rnd.IntN(10); {
		case step < 4:
			steps = append(steps, "write")
			add(in)
		case step < 6:
			if run == nil {
				steps = append(steps, "start")
				run = startSource(t, m, dir, conf)
			} else {
				steps = append(steps, "stop")
				run.end()
				run = nil
			}
		case step < 8: // rename, late lines, a new file
			if written == 0 || len(m.got()) == 0 {
				continue // without a stored offset nothing is known of the old file
			}
			steps = append(steps, "rename")
			rotations++
			old := fmt.Sprintf("%s.%d", in, rotations)
			must(t, os.Rename(in, old))
			add(old)
			if half != "" {
				write(t, old, half)
				half = ""
			}
			at = at.Add(time.Minute)
			must(t, os.Chtimes(old, at, at))
			add(in)
		case step < 9: // copy, truncate
			if half != "" || len(m.got()) == 0 {
				continue
			}
			steps = append(steps, "copy and truncate")
			read() // what a rotated file still holds when its follower is truncated has no name
			rotations++
			b, err := os.ReadFile(in)
			must(t, err)
			name := fmt.Sprintf("%s.%d", in, rotations)
			must(t, os.WriteFile(name, b, 0o644))
			at = at.Add(time.Minute)
			must(t, os.Chtimes(name, at, at))
			must(t, os.Truncate(in, 0))
			add(in)
		default:
			steps = append(steps, "read")
			read()
		}
	}
	if half != "" {
		write(t, in, half)
		half = ""
	}
	read()
	run.end()
	next, first := 1, map[string]bool{}
	for _, l := range m.got() {
		if first[l] {
			t.Fatalf("%q came twice", l)
		}
		first[l] = true
		var n int
		if _, err := fmt.Sscanf(l, "line %d ", &n); err != nil || n != next {
			t.Fatalf("%q came where line %d belongs", l, next)
		}
		next++
	}
	if next != written+1 {
		t.Fatalf("%d lines came of %d", next-1, written)
	}
}
