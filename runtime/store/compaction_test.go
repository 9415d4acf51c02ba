package store

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/trial"
	"millrace/runtime"
)

// snapshotOf reads records that have their offsets.
func snapshotOf(rs []*kgo.Record) *Snapshot {
	c := newConfigs(slog.New(slog.DiscardHandler), Changes{})
	c.apply(rs)
	return c.Now()
}

// compacted is what is left when a log was cleaned up to an offset: of each key before it the last record.
func compacted(rs []*kgo.Record, below int64) (out []*kgo.Record) {
	last := map[string]int64{}
	for _, r := range rs {
		if r.Offset < below {
			last[string(r.Key)] = r.Offset
		}
	}
	for _, r := range rs {
		if r.Offset >= below || last[string(r.Key)] == r.Offset {
			out = append(out, r)
		}
	}
	return out
}

// written are random records as workers write them, some of which died before the commit of a plan.
func written(rnd *rand.Rand, n int) (rs []*kgo.Record) {
	put := func(more ...*kgo.Record) {
		for _, r := range more {
			r.Offset = int64(len(rs))
			rs = append(rs, r)
		}
	}
	there := map[string]bool{}
	for rev := 0; len(rs) < n; rev++ {
		name := string(rune('a' + rnd.IntN(3)))
		switch k := rnd.IntN(10); {
		case k < 2 || !there[name]:
			there[name] = true
			put(connectorRecord(name, conf("rev", fmt.Sprint(rev))))
		case k < 7:
			tasks := 1 + rnd.IntN(4)
			dies := tasks + 1
			if rnd.IntN(4) == 0 {
				dies = rnd.IntN(tasks + 1)
			}
			for i := range min(tasks, dies) {
				put(taskRecord(name, i, conf("plan", fmt.Sprint(rev))))
			}
			if dies > tasks {
				put(commitRecord(name, tasks))
			}
		case k < 8:
			put(targetRecord(name, []runtime.TargetState{runtime.Started, runtime.PausedTarget, runtime.StoppedTarget}[rnd.IntN(3)]))
		case k < 9:
			put(fencingRecord(name, rnd.IntN(4)))
		default:
			delete(there, name)
			put(record("connector-"+name, nil), record("target-state-"+name, nil))
		}
	}
	return rs
}

// Wherever the config topic was compacted, a worker that reads it sees what one sees that read all of it: the same connectors, and of
// each either the same tasks or none, which are planned anew. It never sees tasks of two plans at once.
func TestACompactedConfigTopicSaysTheSame(t *testing.T) {
	same, anew := 0, 0
	for _, seed := range trial.Seeds(100) {
		rs := written(rand.New(rand.NewPCG(seed, 5)), 40)
		whole := snapshotOf(rs)
		for below := range int64(len(rs) + 1) {
			got := snapshotOf(compacted(rs, below))
			where := fmt.Sprintf("MILLRACE_SEED=%d, compacted below %d", seed, below)
			if a, b := slices.Sorted(maps.Keys(got.Connectors)), slices.Sorted(maps.Keys(whole.Connectors)); !slices.Equal(a, b) || got.Offset != whole.Offset {
				t.Fatalf("%s: connectors %v at %d, want %v at %d", where, a, got.Offset, b, whole.Offset)
			}
			for name, w := range whole.Connectors {
				c := got.Connectors[name]
				if !maps.Equal(c.Config, w.Config) || c.Version != w.Version || c.Target != w.Target || c.FencedTasks != w.FencedTasks || c.FencedVersion != w.FencedVersion {
					t.Fatalf("%s: %s is %+v, want %+v", where, name, c, w)
				}
				for _, task := range c.Tasks {
					if task["plan"] != c.Tasks[0]["plan"] {
						t.Fatalf("%s: %s has tasks of two plans: %v", where, name, c.Tasks)
					}
				}
				switch {
				case c.TasksVersion == w.TasksVersion && slices.EqualFunc(c.Tasks, w.Tasks, maps.Equal):
					same++
				case c.Inconsistent, c.Applied == nil: // of what was deleted and made again the former tasks may be seen
					anew++
				default:
					t.Fatalf("%s: %s has the tasks %v of version %d, want %v of %d", where, name, c.Tasks, c.TasksVersion, w.Tasks, w.TasksVersion)
				}
			}
		}
	}
	t.Logf("the tasks were the same %d times, to be planned anew %d times", same, anew)
	if same < 10*anew || anew == 0 {
		t.Errorf("the tasks were the same %d times, to be planned anew %d times", same, anew)
	}
}
