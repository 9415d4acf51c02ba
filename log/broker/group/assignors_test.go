package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/deploy/trial"
)

// TestAssignorsGiveEverythingOnce holds for any group: each partition that somebody reads is given to one of its readers, nothing
// else is given, equal questions have equal answers, and the answer to its own answer is the same.
func TestAssignorsGiveEverythingOnce(t *testing.T) {
	for seed := range uint64(trial.Effort(3000)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := randomSpec(rnd)
		for _, name := range assignorNames {
			out := assign(name, s)
			given := map[tp]int{}
			for i, ps := range out {
				if !slices.IsSortedFunc(ps, compareTP) {
					t.Fatalf("seed %d, %s: a share is not in order", seed, name)
				}
				for _, p := range ps {
					at := slices.IndexFunc(s.topics, func(x specTopic) bool { return x.id == p.topic })
					if at < 0 || p.partition >= s.topics[at].partitions || !slices.Contains(s.members[i].topics, at) {
						t.Fatalf("seed %d, %s: %s has %v, which it does not read", seed, name, s.members[i].id, p)
					}
					given[p]++
				}
			}
			want := 0
			for at, readers := range s.readers() {
				if len(readers) > 0 {
					want += int(s.topics[at].partitions)
				}
			}
			for p, n := range given {
				if n != 1 {
					t.Fatalf("seed %d, %s: %v is given %d times", seed, name, p, n)
				}
			}
			if len(given) != want {
				t.Fatalf("seed %d, %s: %d partitions are given of %d", seed, name, len(given), want)
			}
			for i := range s.members {
				s.members[i].had = out[i]
			}
			if again := assign(name, s); !slices.EqualFunc(again, out, func(a, b []tp) bool { return slices.Equal(a, b) }) {
				t.Fatalf("seed %d, %s: a second time it moves what nobody asked to move", seed, name)
			}
			if name == "uniform" {
				checkLevel(t, seed, s, out)
			}
		}
	}
}

// checkLevel: nobody has two more than another who could have one of them.
func checkLevel(t *testing.T, seed uint64, s *spec, out [][]tp) {
	t.Helper()
	for i, ps := range out {
		for _, p := range ps {
			at := slices.IndexFunc(s.topics, func(x specTopic) bool { return x.id == p.topic })
			for j := range out {
				if slices.Contains(s.members[j].topics, at) && len(ps) > len(out[j])+1 {
					t.Fatalf("seed %d: %s has %d, %s has %d and reads topic %d, too", seed, s.members[i].id, len(ps), s.members[j].id, len(out[j]), at)
				}
			}
		}
	}
}

func randomSpec(rnd *rand.Rand) *spec {
	s := &spec{}
	for i := range 1 + rnd.IntN(4) {
		s.topics = append(s.topics, specTopic{id: [16]byte{byte(i + 1)}, partitions: rnd.Int32N(9)})
	}
	alike := rnd.IntN(2) == 0
	for i := range rnd.IntN(6) {
		m := specMember{id: fmt.Sprintf("m%02d", i)}
		if rnd.IntN(3) == 0 {
			m.instance = fmt.Sprintf("i%02d", 9-i)
		}
		for at := range s.topics {
			if alike || rnd.IntN(2) == 0 {
				m.topics = append(m.topics, at)
			}
		}
		for range rnd.IntN(6) { // also what there is no more, and what others had
			m.had = append(m.had, tp{[16]byte{byte(1 + rnd.IntN(5))}, rnd.Int32N(10)})
		}
		m.had = sortedTPs(m.had)
		s.members = append(s.members, m)
	}
	return s
}

func TestUniformMovesNoMoreThanItMust(t *testing.T) {
	topic := [16]byte{1}
	had := func(ps ...int32) (out []tp) {
		for _, p := range ps {
			out = append(out, tp{topic, p})
		}
		return out
	}
	s := &spec{topics: []specTopic{{topic, 7}}, members: []specMember{
		{id: "a", topics: []int{0}, had: had(0, 1, 2, 3)}, {id: "b", topics: []int{0}, had: had(4, 5, 6)}, {id: "c", topics: []int{0}},
	}}
	out := assign("uniform", s)
	if !slices.Equal(out[0], had(0, 1, 2)) || !slices.Equal(out[1], had(4, 5)) || !slices.Equal(out[2], had(3, 6)) {
		t.Errorf("a third member: %v", out)
	}
	s.members = s.members[:2]
	s.members[1].had = had(3, 4, 5, 6)
	s.members[0].had = had(0, 1, 2)
	if out := assign("uniform", s); !slices.Equal(out[0], had(0, 1, 2)) || !slices.Equal(out[1], had(3, 4, 5, 6)) {
		t.Errorf("whoever has the odd one keeps it: %v", out)
	}
}

func TestRangeCutsTopicsAlike(t *testing.T) {
	a, b := [16]byte{1}, [16]byte{2}
	s := &spec{topics: []specTopic{{a, 5}, {b, 5}}, members: []specMember{
		{id: "m1", instance: "z", topics: []int{0, 1}}, {id: "m2", instance: "y", topics: []int{0, 1}},
	}}
	out := assign("range", s)
	first, second := []tp{{a, 0}, {a, 1}, {a, 2}, {b, 0}, {b, 1}, {b, 2}}, []tp{{a, 3}, {a, 4}, {b, 3}, {b, 4}}
	if !slices.Equal(out[1], first) || !slices.Equal(out[0], second) {
		t.Errorf("%v", out)
	}
}

// BenchmarkAssign is the largest group that there can be on this broker's partitions: 1,000 members, 10,000 partitions.
func BenchmarkAssign(b *testing.B) {
	for _, alike := range []bool{true, false} {
		s := &spec{}
		for i := range 100 {
			s.topics = append(s.topics, specTopic{id: [16]byte{byte(i), 1}, partitions: 100})
		}
		for i := range 1000 {
			m := specMember{id: fmt.Sprintf("m%04d", i)}
			for at := range s.topics {
				if alike || at%10 == i%10 || at == i%100 {
					m.topics = append(m.topics, at)
				}
			}
			s.members = append(s.members, m)
		}
		b.Run(fmt.Sprintf("uniform/alike=%v", alike), func(b *testing.B) {
			for b.Loop() {
				assign("uniform", s)
			}
		})
	}
}
