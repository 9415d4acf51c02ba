package catalog

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/scram"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

func open(t testing.TB, fs vfs.FS) (*store.Store, *Catalog) {
	t.Helper()
	st, err := store.Open(fs, "/log", store.Options{MinFree: -1, Ballast: -1, Maintain: -1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st, c
}

func TestEveryConfigTakesItsOwnDefault(t *testing.T) {
	for i, c := range Configs {
		if err := CheckConfig(c.Name, c.Default); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if FindConfig(c.Name) != &Configs[i] {
			t.Errorf("%s is not found: the table must be in the order of names", c.Name)
		}
		if c.Doc == "" || c.Kind == 0 {
			t.Errorf("%s has no documentation or kind", c.Name)
		}
	}
}

func TestDefaultsMeanTheStoresDefaults(t *testing.T) {
	if got, want := partitionConfig("t", nil, nil), store.DefaultConfig(); got != want {
		t.Errorf("the table's defaults give\n%+v, the store's are\n%+v", got, want)
	}
}

// Each configuration that does something is shown to do it: another value changes the partition.
func TestConfigsReachThePartition(t *testing.T) {
	other := map[string]string{
		"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "min.cleanable.dirty.ratio": "0.1", "preallocate": "TRUE",
	}
	for _, c := range Configs {
		v, ok := other[c.Name]
		if !ok {
			v = "4711"
		}
		changed := partitionConfig("t", nil, map[string]string{c.Name: v}) != partitionConfig("t", nil, nil)
		if changed != (c.apply != nil) {
			t.Errorf("%s=%s changes the partition: %v", c.Name, v, changed)
		}
		if c.apply != nil && partitionConfig("t", map[string]string{c.Name: v}, nil) != partitionConfig("t", nil, map[string]string{c.Name: v}) {
			t.Errorf("%s=%s as the broker's default is not what it is on a topic", c.Name, v)
		}
	}
}

func TestValuesOutOfRangeAreRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"cleanup.policy":            {"keep", "delete,keep"},
		"retention.ms":              {"-2", "x", "", "9223372036854775808"},
		"segment.bytes":             {"-1", "0", "2147483648"},
		"min.cleanable.dirty.ratio": {"-0.1", "1.1", "NaN", "x"},
		"preallocate":               {"yes", ""},
		"message.timestamp.type":    {"createtime"},
		"compression.type":          {"brotli"},
		"no.such.name":              {"1"},
	} {
		for _, v := range values {
			if CheckConfig(name, v) == nil {
				t.Errorf("%s=%s was taken", name, v)
			}
		}
	}
	if got := partitionConfig("t", nil, map[string]string{"retention.ms": forever, "segment.ms": forever}); got.RetentionTime != -1 || got.SegmentAge < 50*365*24*time.Hour {
		t.Errorf("the largest values mean %+v", got)
	}
	if got := partitionConfig("t", nil, map[string]string{"retention.ms": "-1"}).RetentionTime; got >= 0 {
		t.Errorf("retention.ms=-1 means %v", got)
	}
}

func TestTopicsMadeAtOnce(t *testing.T) {
	st, c := open(t, vfs.NewMem())
	defer st.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for i := range 40 {
		wg.Go(func() {
			_, err := c.Create(Spec{Name: fmt.Sprint("t", i%10), Partitions: 2})
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if made != 10 || len(c.Topics()) != 10 {
		t.Errorf("%d of 10 topics were made, %d are there", made, len(c.Topics()))
	}
}

// Topics and ids whose records were lost with a damaged part of the catalogue come back from what partitions know.
func TestLostRecordsComeBackFromPartitions(t *testing.T) {
	fs := vfs.NewMem()
	st, c := open(t, fs)
	made, err := c.Create(Spec{Name: "t", Partitions: 3, Configs: map[string]string{"retention.ms": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(Spec{Name: "__consumer_offsets", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"}}); err != nil {
		t.Fatal(err)
	}
	id, err := c.ProducerID()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*store.Partition{made.Partition(1), c.Topic("__consumer_offsets").Partition(0)} {
		v := batch.Build(batch.Options{Producer: &batch.Producer{ID: id}}, batch.Record{Key: []byte("k"), Value: []byte("v")})
		a, err := p.Append([]batch.View{v}, store.AppendOpts{Origin: store.FromCoordinator})
		if err == nil {
			err = p.WaitDurable(t.Context(), a.End)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	st.Close()
	if err := fs.RemoveAll("/log/" + MetaTopic + "-0"); err != nil { // all of them at once
		t.Fatal(err)
	}
	for range 2 { // the second time from records of its own
		st, c = open(t, fs)
		// The last partition held nothing: nobody can tell it from a creation that was cut short.
		back := c.Topic("t")
		if back == nil || back.ID != made.ID || back.Partitions() != 2 || back.Partition(1).End() != 1 || back.Partition(0).End() != 0 || back.Configs["retention.ms"] != "-1" {
			t.Fatalf("%+v", back)
		}
		if o := c.Topic("__consumer_offsets"); o == nil || o.Configs["cleanup.policy"] != "compact" || o.Partition(0).End() != 1 {
			t.Fatalf("%+v", o)
		}
		next, err := c.ProducerID()
		if err != nil || next <= id {
			t.Errorf("producer id %d after %d, %v", next, id, err)
		}
		st.Close()
	}
}

func TestMissingDirectoryIsMadeAnew(t *testing.T) {
	fs := vfs.NewMem()
	st, c := open(t, fs)
	if _, err := c.Create(Spec{Name: "t", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	st.Close()
	if err := fs.RemoveAll("/log/t-1"); err != nil {
		t.Fatal(err)
	}
	st, c = open(t, fs)
	defer st.Close()
	if p := c.Topic("t").Partition(1); p == nil || p.End() != 0 {
		t.Errorf("partition %v", p)
	}
}

// A power loss at any call, in the middle of any change: what was acknowledged is there, what was not
// is there whole or not at all, and no id is given twice.
func TestPowerLossDuringChanges(t *testing.T) {
	seeds := trial.Seeds(150)
	cut := 0
	for _, seed := range seeds {
		if powerLoss(t, seed) {
			cut++
		}
		if t.Failed() {
			t.Fatalf("failed with MILLRACE_SEED=%d", seed)
		}
	}
	t.Logf("%d cut in the middle of a change", cut)
	if len(seeds) >= 100 && cut < len(seeds)/10 {
		t.Errorf("only %d of %d runs were cut in the middle of a change", cut, len(seeds))
	}
}

// want is what a topic must look like.
type want struct {
	id         [16]byte
	partitions int32
	configs    map[string]string
}

var errPower = errors.New("power is off")

func powerLoss(t *testing.T, seed uint64) (inTheMiddle bool) {
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashable()
	topics := map[string]want{}
	ids := map[int64]bool{}
	for range 3 {
		st, c := open(t, fs)
		check(t, st, c, topics)
		left := rng.IntN(400)
		fs.Inject(func(vfs.Op, string) *vfs.Fault {
			if left--; left < 0 {
				return &vfs.Fault{Err: errPower}
			}
			return nil
		})
		var name string
		var before, after *want // what the change that failed may have left
		for {
			name = fmt.Sprint("t", rng.IntN(4))
			old, there := topics[name]
			before, after = nil, nil
			if there {
				before = &old
			}
			var err error
			switch k := rng.IntN(5); {
			case k == 4:
				var id int64
				if id, err = c.ProducerID(); err == nil {
					if ids[id] {
						t.Errorf("producer id %d was given twice", id)
					}
					ids[id] = true
				}
				after = before
				for range rng.IntN(500) { // into the next block
					if id, err := c.ProducerID(); err == nil {
						ids[id] = true
					}
				}
			case !there:
				w := want{partitions: 1 + rng.Int32N(3), configs: map[string]string{"retention.ms": fmt.Sprint(rng.IntN(1000))}}
				after = &w
				var topic *Topic
				if topic, err = c.Create(Spec{Name: name, Partitions: w.partitions, Configs: w.configs}); err == nil {
					w.id = topic.ID
					if p := topic.Partition(0).Config().RetentionTime; p.Milliseconds() != num(w.configs["retention.ms"]) {
						t.Errorf("retention %v, want %v", p, w.configs)
					}
				}
			case k == 0:
				err = c.Delete(name)
			case k == 1:
				w := old
				w.partitions++
				after = &w
				err = c.AddPartitions(name, w.partitions, false)
			default:
				w := old
				w.configs = maps.Clone(old.configs)
				w.configs["segment.ms"] = fmt.Sprint(1 + rng.IntN(1000))
				after = &w
				err = c.AlterConfigs(name, false, func(set map[string]string) error { maps.Copy(set, w.configs); return nil })
			}
			if err != nil {
				break
			}
			if after == nil {
				delete(topics, name)
			} else {
				topics[name] = *after
			}
		}
		_ = st.Close() // its file system is dead
		fs = fs.Crash(seed)
		st, c = open(t, fs)
		got := c.Topic(name)
		switch {
		case matches(got, after) && !matches(got, before):
			inTheMiddle = true
			if after == nil {
				delete(topics, name)
			} else {
				after.id = got.ID
				topics[name] = *after
			}
		case !matches(got, before):
			t.Errorf("topic %s is neither as before nor as after the change that was cut: %+v", name, got)
		}
		check(t, st, c, topics)
		if id, err := c.ProducerID(); err != nil || ids[id] {
			t.Errorf("producer id %d was given before: %v", id, err)
		} else {
			ids[id] = true
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	return inTheMiddle
}

func matches(got *Topic, w *want) bool {
	if got == nil || w == nil {
		return got == nil && w == nil
	}
	return (w.id == [16]byte{} || got.ID == w.id) && got.Partitions() == w.partitions && maps.Equal(got.Configs, w.configs)
}

func check(t *testing.T, st *store.Store, c *Catalog, topics map[string]want) {
	t.Helper()
	n := 1 // the catalogue's own partition
	for name, w := range topics {
		if got := c.Topic(name); !matches(got, &w) {
			t.Errorf("topic %s is %+v, want %+v", name, got, w)
		}
		n += int(w.partitions)
	}
	if len(c.Topics()) != len(topics) {
		t.Errorf("%d topics, want %d", len(c.Topics()), len(topics))
	}
	if ps := st.Partitions(); len(ps) != n {
		t.Errorf("%d partitions on disk, want %d", len(ps), n)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("topic/t", encode(topicRecord{ID: FormatID(newID()), Partitions: 1}))
	f.Add("cluster", encode(clusterRecord{"x"}))
	f.Add("producers", encode(producersRecord{1000}))
	f.Add("topic/", []byte(`{"id":"","partitions":-1}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		s := state{topics: map[string]topicRecord{}, users: map[Account]scram.Credential{}}
		if s.apply(key, value) == nil {
			for name, r := range s.topics {
				if _, err := ParseID(r.ID); err != nil || r.Partitions < 1 {
					t.Errorf("topic %q was taken with id %q and %d partitions", name, r.ID, r.Partitions)
				}
			}
		}
	})
}

func TestIDs(t *testing.T) {
	for range 1000 {
		id := newID()
		s := FormatID(id)
		if back, err := ParseID(s); err != nil || back != id || s[0] == '-' || len(s) != 22 {
			t.Fatalf("%x as %s is %x, %v", id, s, back, err)
		}
	}
}
