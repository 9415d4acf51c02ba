package group

import (
	"cmp"
	"slices"
)

// The assignors that a consumer group can have, the default first. They are pure functions: of the members with what they read and
// what they had before to what they shall have. The outcome does not depend on any order but that of ids.
var assignorNames = []string{"uniform", "range"}

// spec is an assignor's question.
type spec struct {
	members []specMember
	topics  []specTopic
}

type specMember struct {
	id, instance string
	topics       []int // that it reads, as places in spec.topics, in order
	had          []tp  // its target until now, in order
}

type specTopic struct {
	id         [16]byte
	partitions int32
}

// assign answers in the order of the members; partitions are in order.
func assign(assignor string, s *spec) [][]tp {
	if assignor == "range" {
		return rangeAssignor(s)
	}
	return uniformAssignor(s)
}

// readers lists, for each topic, the places of the members that read it.
func (s *spec) readers() [][]int {
	rs := make([][]int, len(s.topics))
	for i := range s.members {
		for _, t := range s.members[i].topics {
			rs[t] = append(rs[t], i)
		}
	}
	return rs
}

// rangeAssignor gives each reader of a topic partitions that follow each other, in the order of instance ids, or else of member
// ids. Topics with as many partitions and the same readers are cut alike, so that they can be joined.
func rangeAssignor(s *spec) [][]tp {
	out := make([][]tp, len(s.members))
	name := func(i int) string { return cmp.Or(s.members[i].instance, s.members[i].id) }
	for t, readers := range s.readers() {
		slices.SortFunc(readers, func(a, b int) int { return cmp.Compare(name(a), name(b)) })
		next := int32(0)
		for i, r := range readers {
			n := s.topics[t].partitions / int32(len(readers))
			if int32(i) < s.topics[t].partitions%int32(len(readers)) {
				n++
			}
			for range n {
				out[r] = append(out[r], tp{s.topics[t].id, next})
				next++
			}
		}
	}
	for i := range out {
		out[i] = sortedTPs(out[i])
	}
	return out
}

// uniformAssignor gives all members as equal a number of partitions as what they read allows, and moves as few as it can.
func uniformAssignor(s *spec) [][]tp {
	a := balance{s: s, readers: s.readers(), has: make([][]tp, len(s.members)), topics: map[[16]byte]int{}}
	for t := range s.topics {
		a.topics[s.topics[t].id] = t
	}
	alike := true
	for i := range s.members {
		alike = alike && slices.Equal(s.members[i].topics, s.members[0].topics)
	}
	free := a.keep()
	if alike {
		free = a.trim(free)
	}
	// Topics with few readers first: others have more to choose from.
	slices.SortStableFunc(free, func(x, y tp) int {
		return cmp.Compare(len(a.readers[a.topics[x.topic]]), len(a.readers[a.topics[y.topic]]))
	})
	for _, p := range free {
		if to := a.least(p); to >= 0 {
			a.has[to] = append(a.has[to], p)
		}
	}
	if !alike {
		a.level()
	}
	for i := range a.has {
		a.has[i] = sortedTPs(a.has[i])
	}
	return a.has
}

type balance struct {
	s       *spec
	readers [][]int
	topics  map[[16]byte]int
	has     [][]tp // by member
}

// keep lets members keep what they had and still read, and returns what is left, in order.
func (a *balance) keep() []tp {
	taken := map[tp]bool{}
	for i := range a.s.members {
		m := &a.s.members[i]
		for _, p := range m.had {
			t, ok := a.topics[p.topic]
			if !ok || p.partition >= a.s.topics[t].partitions || taken[p] {
				continue
			}
			if _, reads := slices.BinarySearch(m.topics, t); reads {
				a.has[i] = append(a.has[i], p)
				taken[p] = true
			}
		}
	}
	var free []tp
	for t := range a.s.topics {
		for n := range a.s.topics[t].partitions {
			if p := (tp{a.s.topics[t].id, n}); !taken[p] {
				free = append(free, p)
			}
		}
	}
	return free
}

// trim takes from members what is more than their share, when all read the same: a share, and one more for as many of them as the
// division leaves over, first for those that have it.
func (a *balance) trim(free []tp) []tp {
	if len(a.has) == 0 {
		return free
	}
	total := len(free)
	for _, ps := range a.has {
		total += len(ps)
	}
	share, more := total/len(a.has), total%len(a.has)
	for i, ps := range a.has {
		most := share
		if len(ps) > share && more > 0 {
			most++
			more--
		}
		if len(ps) > most {
			free = append(free, ps[most:]...)
			a.has[i] = ps[:most:most]
		}
	}
	return free
}

// least is the reader of p that has the fewest partitions; −1 when nobody reads it.
func (a *balance) least(p tp) int {
	best := -1
	for _, i := range a.readers[a.topics[p.topic]] {
		if best < 0 || len(a.has[i]) < len(a.has[best]) {
			best = i
		}
	}
	return best
}

// level moves partitions from whoever has two more than another reader of the same, until nobody has. Each move makes the sum
// of squares smaller, so it comes to an end.
func (a *balance) level() {
	for moved := true; moved; {
		moved = false
		for from := range a.has {
			ps := a.has[from]
			for i := 0; i < len(ps); {
				to := a.least(ps[i])
				if len(ps)-len(a.has[to]) < 2 {
					i++
					continue
				}
				a.has[to] = append(a.has[to], ps[i])
				ps = slices.Delete(ps, i, i+1)
				a.has[from] = ps
				moved = true
			}
		}
	}
}
