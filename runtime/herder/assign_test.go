package herder

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/deploy/trial"
)

// world is a group in a script: members that do what they are told, at once.
type world struct {
	now        time.Time
	delay      time.Duration
	generation int32
	owned      map[string]work
	configured map[string]int // tasks by connector
	plan       plan
	wait       time.Duration // until the members join again
	out        strings.Builder
}

func newWorld() *world {
	return &world{now: time.Unix(1000, 0), owned: map[string]work{}, configured: map[string]int{}, delay: 5 * time.Minute}
}

func (w *world) work() work {
	var all work
	for c, n := range w.configured {
		all.connectors = append(all.connectors, c)
		for i := range n {
			all.tasks = append(all.tasks, taskID{Connector: c, Task: i})
		}
	}
	return all.normal()
}

// rebalance runs one round. It reports whether somebody gave up work.
func (w *world) rebalance() (revoked bool) {
	if len(w.owned) == 0 {
		return false
	}
	w.generation++
	members := map[string]work{}
	maps.Copy(members, w.owned)
	var shares map[string]share
	w.plan, shares = assign(w.plan, group{now: w.now, generation: w.generation, members: members, configured: w.work(), maxDelay: w.delay})
	w.wait = 0
	for m, s := range shares {
		w.owned[m] = w.owned[m].minus(s.revoked).plus(s.assigned)
		revoked = revoked || !s.revoked.empty()
		w.wait = s.delay
	}
	return revoked
}

// settle rebalances until nobody gives up work, and returns the number of rounds.
func (w *world) settle() int {
	rounds := 1
	for w.rebalance() {
		if rounds++; rounds > 20 {
			panic("the group never settles")
		}
	}
	return rounds
}

func (w *world) show() {
	for _, m := range slices.Sorted(maps.Keys(w.owned)) {
		fmt.Fprintf(&w.out, "%s: connectors=%v tasks=%v\n", m, w.owned[m].connectors, w.owned[m].tasks)
	}
	if w.wait > 0 {
		fmt.Fprintf(&w.out, "again in %v\n", w.wait)
	}
}

// run does one line of a script.
func (w *world) run(line string) error {
	f := strings.Fields(line)
	args := map[string]string{}
	for _, a := range f[1:] {
		k, v, _ := strings.Cut(a, "=")
		args[k] = v
	}
	switch f[0] {
	case "delay":
		d, err := time.ParseDuration(f[1])
		w.delay = d
		return err
	case "config": // config c1=3 c2=0, replaces all
		clear(w.configured)
		for k, v := range args {
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			w.configured[k] = n
		}
	case "join":
		w.owned[f[1]] = work{}
	case "leave":
		delete(w.owned, f[1])
	case "restart": // comes back with nothing under another id
		delete(w.owned, f[1])
		w.owned[f[2]] = work{}
	case "take": // take a c1-0: two have it
		w.owned[f[1]] = w.owned[f[1]].plus(work{tasks: []taskID{parseTask(f[2])}})
	case "leader": // another leads, and remembers nothing
		w.plan = plan{}
	case "tick":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		w.now = w.now.Add(d)
		return nil
	case "round":
		fmt.Fprintf(&w.out, "revoked=%v\n", w.rebalance())
		w.show()
		return nil
	default:
		return fmt.Errorf("unknown command %q", f[0])
	}
	return nil
}

func parseTask(s string) taskID {
	c, n, _ := strings.Cut(s, "-")
	i, _ := strconv.Atoi(n)
	return taskID{Connector: c, Task: i}
}

var update = flag.Bool("update", false, "write what the scripts give into them")

// TestAssignScripts runs the scripts in testdata: commands, then "----", then what
// the group looks like after it has settled.
func TestAssignScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/assign-*.txt")
	if len(files) < 5 {
		t.Fatalf("%d scripts", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld()
			var got strings.Builder
			expecting := false
			for line := range strings.Lines(string(script)) {
				line = strings.TrimSuffix(line, "\n")
				switch {
				case line == "----":
					expecting = true
					fmt.Fprintf(&w.out, "rounds=%d\n", w.settle())
					w.show()
					got.WriteString("----\n" + w.out.String())
					w.out.Reset()
					continue
				case line == "":
					expecting = false
				case expecting:
					continue
				case !strings.HasPrefix(line, "#"):
					if err := w.run(line); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
				}
				got.WriteString(line + "\n")
			}
			switch {
			case *update:
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			case got.String() != string(script):
				t.Errorf("got\n%s\nwant\n%s", got.String(), script)
			}
		})
	}
}

// Whatever happens, once the group has settled and no delay runs: all work has one
// owner, nobody has more than one piece of a kind above another, and what was where
// it should be did not move without need.
func TestAssignKeepsItsPromises(t *testing.T) {
	seed := trial.Seed(t)
	for round := range 300 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		w := newWorld()
		if rng.IntN(2) == 0 {
			w.delay = 0
		}
		names := []string{"a", "b", "c", "d"}
		for step := range 30 {
			switch rng.IntN(6) {
			case 0:
				if m := names[rng.IntN(len(names))]; w.owned[m].empty() {
					w.owned[m] = work{}
				}
			case 1:
				delete(w.owned, names[rng.IntN(len(names))])
			case 2:
				w.configured[fmt.Sprintf("c%d", rng.IntN(5))] = rng.IntN(6)
			case 3:
				delete(w.configured, fmt.Sprintf("c%d", rng.IntN(5)))
			case 4:
				w.now = w.now.Add(time.Duration(rng.IntN(200)) * time.Second)
			case 5:
				if rng.IntN(4) == 0 {
					w.plan = plan{} // another leads
				}
			}
			w.settle()
			// No piece has two owners at any time.
			seen := map[any]string{}
			for m, have := range w.owned {
				for _, c := range have.connectors {
					if o, twice := seen[c]; twice {
						t.Fatalf("seed %d round %d step %d: %s has two owners, %s and %s", seed, round, step, c, m, o)
					}
					seen[c] = m
				}
				for _, c := range have.tasks {
					if o, twice := seen[c]; twice {
						t.Fatalf("seed %d round %d step %d: %s has two owners, %s and %s", seed, round, step, c, m, o)
					}
					seen[c] = m
				}
				if extra := have.minus(w.work()); !extra.empty() {
					t.Fatalf("seed %d round %d step %d: %s has %v, which is not configured", seed, round, step, m, extra)
				}
			}
		}
		if len(w.owned) == 0 {
			continue
		}
		for range 10 { // let all delays run out
			w.now = w.now.Add(10 * time.Minute)
			w.settle()
		}
		var all work
		least, most := [2]int{1 << 30, 1 << 30}, [2]int{}
		for _, have := range w.owned {
			all = all.plus(have)
			for i, n := range []int{len(have.connectors), len(have.tasks)} {
				least[i], most[i] = min(least[i], n), max(most[i], n)
			}
		}
		if !all.equal(w.work()) {
			t.Fatalf("seed %d round %d: assigned %v, configured %v", seed, round, all, w.work())
		}
		if most[0]-least[0] > 1 || most[1]-least[1] > 1 {
			t.Fatalf("seed %d round %d: unbalanced: %v to %v: %v", seed, round, least, most, w.owned)
		}
		before := maps.Clone(w.owned)
		w.settle()
		for m := range before {
			if !before[m].equal(w.owned[m]) {
				t.Fatalf("seed %d round %d: work moved without need: %v to %v", seed, round, before[m], w.owned[m])
			}
		}
	}
}
