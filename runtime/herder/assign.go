package herder

import (
	"maps"
	"math"
	"slices"
	"time"

	"millrace/runtime"
)

type taskID = runtime.TaskID

// A plan is what the leader remembers from one assignment to the next. The zero
// plan is that of a leader who remembers nothing.
type plan struct {
	generation int32
	assigned   map[string]work // by member
	all        work            // of all members

	delayUntil time.Time       // lost work waits until then; zero: none waits
	returned   map[string]bool // members that joined while it waits
	revoking   int             // rounds in a row that revoked for balance
	waitUntil  time.Time       // the next such round not before; zero: at once
}

// group is what the leader knows when it assigns.
type group struct {
	now        time.Time
	generation int32
	members    map[string]work // what each says it owns
	configured work
	maxDelay   time.Duration
}

// share is what a member gets to know.
type share struct {
	assigned work // in addition to what it keeps
	revoked  work
	delay    time.Duration
}

// assign shares the configured work out among the members and says what the leader
// remembers for the next time. Work that goes on where it is stays undisturbed; work
// that moves is revoked in one round and assigned in a later one, so that two members
// never have it at once. It is a function of its arguments alone.
func assign(last plan, g group) (plan, map[string]share) {
	var active work
	owners := map[any]int{}
	for _, w := range g.members {
		active = active.plus(w)
		for _, c := range w.connectors {
			owners[c]++
		}
		for _, t := range w.tasks {
			owners[t]++
		}
	}
	// What was remembered holds only where no other leader assigned in between.
	if last.assigned == nil || last.generation+1 != g.generation {
		last = plan{assigned: maps.Clone(g.members), all: active, delayUntil: last.delayUntil, returned: last.returned}
		if last.delayUntil.Before(g.now) {
			last.delayUntil = time.Time{}
		}
	}
	next := plan{
		generation: g.generation, assigned: map[string]work{}, delayUntil: last.delayUntil,
		returned: maps.Clone(last.returned), revoking: last.revoking, waitUntil: last.waitUntil,
	}
	if next.returned == nil {
		next.returned = map[string]bool{}
	}

	// Deleted work and work with two owners is revoked at once.
	var twice work
	for w, n := range owners {
		if n > 1 {
			twice = twice.plus(workOf(w))
		}
	}
	out := map[string]share{}
	kept := map[string]work{}
	for m, w := range g.members {
		s := share{revoked: w.minus(g.configured).plus(w.and(twice))}
		kept[m] = w.minus(s.revoked)
		out[m] = s
	}

	// Lost work had an owner that is no more. It waits for it, or for another in its place.
	lost := last.all.and(g.configured).minus(active)
	fresh := g.configured.minus(last.all).minus(active)
	left := false
	for m := range last.assigned {
		if _, still := g.members[m]; !still {
			left = true
		}
	}
	var toReturned work
	switch {
	case lost.empty():
		next.delayUntil, next.returned = time.Time{}, map[string]bool{}
	case g.maxDelay <= 0, !left && next.delayUntil.IsZero():
		fresh = fresh.plus(lost)
		lost = work{}
		next.delayUntil, next.returned = time.Time{}, map[string]bool{}
	default:
		if next.delayUntil.IsZero() {
			next.delayUntil = g.now.Add(g.maxDelay)
		}
		for m := range g.members {
			if _, was := last.assigned[m]; !was {
				next.returned[m] = true
			}
		}
		maps.DeleteFunc(next.returned, func(m string, _ bool) bool { _, here := g.members[m]; return !here })
		if !g.now.Before(next.delayUntil) {
			if len(next.returned) > 0 {
				toReturned = lost
			} else {
				fresh = fresh.plus(lost)
			}
			lost = work{}
			for m := range next.returned {
				if !g.members[m].empty() {
					delete(next.returned, m)
				}
			}
			if len(next.returned) == 0 {
				fresh, toReturned = fresh.plus(toReturned), work{}
			}
			next.delayUntil = time.Time{}
		}
	}

	// New work goes to who has least of its kind.
	have := maps.Clone(kept)
	if !toReturned.empty() {
		only := map[string]work{}
		for m := range next.returned {
			only[m] = have[m]
		}
		spread(only, toReturned)
		maps.Copy(have, only)
		next.returned = map[string]bool{}
	}
	spread(have, fresh)

	// Balance: who has more than its share gives up some, to be assigned next time.
	if next.delayUntil.IsZero() && len(g.members) > 0 {
		excess := over(have, kept)
		moved := false
		for _, w := range excess {
			moved = moved || !w.empty()
		}
		switch {
		case !moved:
			next.revoking, next.waitUntil = 0, time.Time{}
		case next.waitUntil.IsZero() || !g.now.Before(next.waitUntil):
			for m, w := range excess {
				s := out[m]
				s.revoked = s.revoked.plus(w)
				out[m] = s
				kept[m], have[m] = kept[m].minus(w), have[m].minus(w)
			}
			if g.maxDelay > 0 {
				next.waitUntil = g.now.Add(backoff(next.revoking, g.maxDelay))
			}
			next.revoking++
		}
	}

	wait := time.Duration(0)
	for _, until := range []time.Time{next.delayUntil, next.waitUntil} {
		if d := until.Sub(g.now); !until.IsZero() && d > 0 && (wait == 0 || d < wait) {
			wait = d
		}
	}
	for m := range g.members {
		s := out[m]
		s.assigned, s.delay = have[m].minus(kept[m]), wait
		out[m] = s
		next.assigned[m] = have[m]
		next.all = next.all.plus(have[m])
	}
	next.all = next.all.plus(lost) // so that it is still known as lost the next time
	return next, out
}

// assignEager shares all work out anew, in turn, as the oldest protocol does: every
// member has dropped what it had.
func assignEager(members []string, configured work) map[string]work {
	slices.Sort(members)
	out := map[string]work{}
	for i, c := range configured.connectors {
		m := members[i%len(members)]
		out[m] = out[m].plus(work{connectors: []string{c}})
	}
	for i, t := range configured.tasks {
		m := members[(len(configured.connectors)+i)%len(members)]
		out[m] = out[m].plus(work{tasks: []taskID{t}})
	}
	return out
}

// workOf is one connector or task as work.
func workOf(one any) work {
	switch one := one.(type) {
	case string:
		return work{connectors: []string{one}}
	case taskID:
		return work{tasks: []taskID{one}}
	}
	return work{}
}

// backoff is the time before the nth revoking round in a row: 1 ms times 40^n.
func backoff(n int, most time.Duration) time.Duration {
	d := float64(time.Millisecond) * math.Pow(40, float64(n))
	return time.Duration(min(d, float64(most)))
}

// spread adds work to the members' lists in place, each piece to the member that has
// least of its kind, the first by name among equals.
func spread(have map[string]work, add work) {
	if len(have) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(have))
	least := func(size func(work) int) string {
		best := names[0]
		for _, n := range names[1:] {
			if size(have[n]) < size(have[best]) {
				best = n
			}
		}
		return best
	}
	for _, c := range add.connectors {
		m := least(func(w work) int { return len(w.connectors) })
		have[m] = have[m].plus(work{connectors: []string{c}})
	}
	for _, t := range add.tasks {
		m := least(func(w work) int { return len(w.tasks) })
		have[m] = have[m].plus(work{tasks: []taskID{t}})
	}
}

// over is what each member has in excess of a fair share, connectors and tasks
// counted apart, chosen among what it kept: the last ones by name.
func over(have, kept map[string]work) map[string]work {
	names := slices.Sorted(maps.Keys(have))
	out := map[string]work{}
	excess := func(count func(work) int, give func(m string, n int)) {
		sum := 0
		for _, n := range names {
			sum += count(have[n])
		}
		floor, extra := sum/len(names), sum%len(names)
		for _, n := range slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return count(have[b]) - count(have[a]) }) {
			allowed := floor
			if extra > 0 && count(have[n]) > floor {
				allowed++
				extra--
			}
			if d := count(have[n]) - allowed; d > 0 {
				give(n, d)
			}
		}
	}
	excess(func(w work) int { return len(w.connectors) }, func(m string, n int) {
		k := kept[m].connectors
		w := out[m]
		w.connectors = append(w.connectors, k[max(0, len(k)-n):]...)
		out[m] = w
	})
	excess(func(w work) int { return len(w.tasks) }, func(m string, n int) {
		k := kept[m].tasks
		w := out[m]
		w.tasks = append(w.tasks, k[max(0, len(k)-n):]...)
		out[m] = w
	})
	return out
}
