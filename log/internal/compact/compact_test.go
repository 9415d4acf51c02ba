package compact

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
)

func TestOffsetMapKeepsTheNewestOffset(t *testing.T) {
	for name, budget := range map[string]int{"exact": 1 << 20, "hashed": 3000} {
		t.Run(name, func(t *testing.T) {
			m, want := NewOffsetMap(budget), map[string]int64{}
			full := false
			for i := range int64(500) {
				k := fmt.Sprint("key ", i%90)
				if i >= 300 {
					k = fmt.Sprint("more ", i)
				}
				if !m.Put([]byte(k), i) {
					full = true
					continue
				}
				want[k] = i
			}
			if full != (name == "hashed") || (m.table != nil) != full {
				t.Fatalf("full %v with a table of %d", full, len(m.table))
			}
			if m.Len() != len(want) {
				t.Errorf("%d keys, want %d", m.Len(), len(want))
			}
			for k, o := range want {
				if got, ok := m.Get([]byte(k)); !ok || got != o {
					t.Errorf("%s: %d %v, want %d", k, got, ok, o)
				}
			}
			if _, ok := m.Get([]byte("another")); ok {
				t.Error("a key that was never put is there")
			}
			// A key that is there can still be moved when the map is full.
			if !m.Put([]byte("key 1"), 1000) {
				t.Error("a known key was refused")
			}
		})
	}
}

// record is what a consumer sees.
type record struct {
	offset, time int64
	key, value   string
	deleted      bool
}

// committed lists what a read_committed consumer sees.
func committed(t *testing.T, log []batch.View, aborted []Aborted) (rs []record) {
	t.Helper()
	tx := newTxns(aborted)
	for _, v := range log {
		if err := v.CheckFrame(); err != nil {
			t.Fatal(err)
		}
		if v.IsControl() {
			tx.markerOf(v)
			continue
		}
		if tx.dataOf(v) {
			continue
		}
		for r, err := range v.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if r.Key == nil {
				continue // compacted topics have no such records; those of an earlier time go
			}
			rs = append(rs, record{r.Offset, r.Timestamp, string(r.Key), string(r.Value), r.Value == nil})
		}
	}
	return rs
}

// table is what a reader of a compacted topic ends with.
func table(rs []record) map[string]string {
	m := map[string]string{}
	for _, r := range rs {
		if m[r.key] = r.value; r.deleted {
			delete(m, r.key)
		}
	}
	return m
}

// compactOnce runs both passes; the log is cut into files of the given number of batches.
func compactOnce(t *testing.T, log []batch.View, dirty int64, budget, perFile int, now int64, aborted []Aborted, lastOf map[int64]int64) (out []batch.View, end int64) {
	t.Helper()
	m := NewMap(budget, aborted)
	for _, v := range log {
		if v.NextOffset() <= dirty {
			continue
		}
		full, err := m.Add(v)
		if err != nil {
			t.Fatal(err)
		}
		if full {
			break
		}
	}
	c := NewCleaner(Options{Offsets: m.Offsets, End: m.End(), Aborted: aborted, Now: now, DeleteRetention: 100, LastOf: func(id int64) int64 {
		if o, ok := lastOf[id]; ok {
			return o
		}
		return -1
	}})
	for i, v := range log {
		before := bytes.Clone(v)
		w, err := c.Batch(v, i%perFile == perFile-1 || i == len(log)-1)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, v) {
			t.Fatal("the batch was changed in place")
		}
		if w != nil {
			if w.BaseOffset() != v.BaseOffset() || w.NextOffset() != v.NextOffset() || w.ProducerID() != v.ProducerID() || w.BaseSequence() != v.BaseSequence() ||
				w.LastSequence() != v.LastSequence() || w.ProducerEpoch() != v.ProducerEpoch() || w.LeaderEpoch() != v.LeaderEpoch() || w.Transactional() != v.Transactional() {
				t.Fatalf("batch at %d came back with another header", v.BaseOffset())
			}
			out = append(out, w)
		} else if i%perFile == perFile-1 || i == len(log)-1 {
			t.Fatalf("the last batch of a file, at %d, is gone", v.BaseOffset())
		}
	}
	return out, max(m.End(), dirty)
}

// TestCompactionKeepsWhatReadersMustSee compacts random logs of producers, transactions, codecs and tombstones again and again while
// they grow, with maps that are too small, and compares with the same log uncompacted.
func TestCompactionKeepsWhatReadersMustSee(t *testing.T) {
	var dropped, tombstones, markers int
	for _, seed := range trial.Seeds(60) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, args...))
		}
		var whole, log []batch.View
		var aborted []Aborted
		lastOf, openTxn, seq := map[int64]int64{}, map[int64]int64{}, map[int64]int32{}
		end, now, dirty := int64(0), int64(1000), int64(0)
		write := func(v batch.View) {
			v.SetBaseOffset(end)
			v.SetLeaderEpoch(int32(seed))
			end = v.NextOffset()
			whole, log = append(whole, v), append(log, bytes.Clone(v))
		}
		finish := func(id int64) {
			commit := rnd.IntN(2) == 0
			if !commit {
				aborted = append(aborted, Aborted{id, openTxn[id], end})
			}
			write(batch.NewMarker(id, 1, batch.Marker{Commit: commit}, now))
			delete(openTxn, id)
		}
		for range 6 {
			for range 30 {
				now += rnd.Int64N(5)
				var rs []batch.Record
				for range 1 + rnd.IntN(6) {
					r := batch.Record{Timestamp: now - rnd.Int64N(50), Key: fmt.Appendf(nil, "k%d", rnd.IntN(25)), Value: fmt.Appendf(nil, "%d of %d", len(rs), end)}
					if rnd.IntN(4) == 0 {
						r.Value = nil
					}
					if rnd.IntN(3) == 0 {
						r.Headers = []batch.Header{{Key: "h", Value: []byte("v")}}
					}
					if seed%7 == 0 && rnd.IntN(10) == 0 {
						r.Key = nil
					}
					rs = append(rs, r)
				}
				o := batch.Options{Codec: batch.Codec(rnd.IntN(5))}
				id := int64(rnd.IntN(4))
				if id > 0 {
					o.Producer = &batch.Producer{ID: id, Epoch: 1, Sequence: seq[id]}
					seq[id] += int32(len(rs))
					if o.Transactional = id > 1; o.Transactional {
						if _, ok := openTxn[id]; !ok {
							openTxn[id] = end
						}
					}
				}
				v := batch.Build(o, rs...)
				if rnd.IntN(8) == 0 {
					v.SetLogAppendTime(now)
				}
				write(v)
				if id > 0 {
					lastOf[id] = end - 1
				}
				if _, ok := openTxn[id]; ok && rnd.IntN(3) == 0 {
					finish(id)
				}
			}
			for _, id := range slices.Sorted(maps.Keys(openTxn)) { // only what is decided is compacted
				finish(id)
			}
			before := committed(t, log, aborted)
			var cleaned []batch.View
			budget := DefaultBudget
			if seed%3 == 0 {
				budget = 30 * slotSize
			}
			cleaned, dirty = compactOnce(t, log, dirty, budget, 1+rnd.IntN(12), now, aborted, lastOf)
			all, left := committed(t, whole, aborted), committed(t, cleaned, aborted)
			if !maps.Equal(table(all), table(left)) {
				fail("the table is %v, want %v", table(left), table(all))
			}
			// What is left is what was written, at its offset, with its time.
			byOffset := map[int64]record{}
			for _, r := range all {
				byOffset[r.offset] = r
			}
			newest := map[string]int64{}
			for _, r := range all {
				newest[r.key] = r.offset
			}
			lastOffset := int64(-1)
			for _, r := range left {
				if byOffset[r.offset] != r || r.offset <= lastOffset {
					fail("record %+v, was %+v", r, byOffset[r.offset])
				}
				lastOffset = r.offset
			}
			// A reader that stopped anywhere before this pass and goes on after it ends with the same table, unless it was away for longer
			// than the retention of deletions.
			stop := rnd.IntN(len(before) + 1)
			resumed := append(slices.Clone(before[:stop]), left...)
			if stop > 0 {
				at := before[stop-1].offset
				resumed = slices.Clone(before[:stop])
				for _, r := range left {
					if r.offset > at {
						resumed = append(resumed, r)
					}
				}
			}
			if got, want := table(resumed), table(all); !maps.Equal(got, want) {
				for k, v := range got {
					// A deletion may be missed by who was away since before it was due.
					if _, ok := want[k]; !ok && v != "" && !slices.ContainsFunc(before, func(r record) bool { return r.key == k && r.deleted }) {
						fail("a reader that was away has %s=%s", k, v)
					}
				}
				for k, v := range want {
					if got[k] != v {
						fail("a reader that was away has %s=%q, want %q", k, got[k], v)
					}
				}
			}
			for _, v := range log {
				if v.IsControl() {
					markers++
				}
			}
			for _, v := range cleaned {
				if v.IsControl() {
					markers--
				}
			}
			for _, r := range before {
				if r.deleted && !slices.ContainsFunc(left, func(l record) bool { return l.offset == r.offset }) && newest[r.key] == r.offset {
					tombstones++
				}
			}
			// Every producer's newest batch is there.
			for id, o := range lastOf {
				if !slices.ContainsFunc(cleaned, func(v batch.View) bool { return v.ProducerID() == id && v.LastOffset() == o }) {
					fail("producer %d has lost its newest batch at %d", id, o)
				}
			}
			dropped += len(before) - len(left)
			if budget == DefaultBudget {
				seen := map[string]int{}
				for _, r := range left {
					if seen[r.key]++; seen[r.key] > 1 {
						fail("key %s is there more than once", r.key)
					}
				}
			}
			log = cleaned
			now += rnd.Int64N(150)
		}
	}
	if dropped == 0 || tombstones == 0 || markers == 0 {
		t.Errorf("dropped %d records, %d tombstones, %d markers: something was never met", dropped, tombstones, markers)
	}
	t.Logf("dropped %d records, %d tombstones, %d markers", dropped, tombstones, markers)
}

func TestTombstonesStayForTheirTermAfterTheFirstPass(t *testing.T) {
	key := []byte("k")
	log := []batch.View{
		batch.Build(batch.Options{}, batch.Record{Timestamp: 1, Key: key, Value: []byte("v")}),
		batch.Build(batch.Options{BaseOffset: 1, Codec: batch.LZ4}, batch.Record{Timestamp: 2, Key: key}, batch.Record{Timestamp: 3, Key: []byte("other"), Value: []byte("w")}),
		batch.Build(batch.Options{BaseOffset: 3}, batch.Record{Timestamp: 4, Key: []byte("end"), Value: []byte("x")}),
	}
	at := func(now int64) []record {
		log, _ = compactOnce(t, log, 0, DefaultBudget, 10, now, nil, nil)
		return committed(t, log, nil)
	}
	tombstone, other, last := record{1, 2, "k", "", true}, record{2, 3, "other", "w", false}, record{3, 4, "end", "x", false}
	for _, c := range []struct {
		now  int64
		want []record
	}{
		{1_000_000, []record{tombstone, other, last}}, // far behind its own timestamp: the term begins now
		{1_000_099, []record{tombstone, other, last}},
		{1_000_100, []record{other, last}},
		{2_000_000, []record{other, last}},
	} {
		if got := at(c.now); !slices.Equal(got, c.want) {
			t.Fatalf("at %d: %+v, want %+v", c.now, got, c.want)
		}
		if h := log[0].DeleteHorizon(); c.now < 1_000_100 && h != 1_000_100 || c.now >= 1_000_100 && h != batch.NoHorizon {
			t.Fatalf("at %d: horizon %d", c.now, h)
		}
	}
}

func TestMarkersGoAfterTheirData(t *testing.T) {
	txn := func(base int64, seq int32, value string) batch.View {
		return batch.Build(batch.Options{BaseOffset: base, Producer: &batch.Producer{ID: 1, Sequence: seq}, Transactional: true}, batch.Record{Key: []byte("k"), Value: []byte(value)})
	}
	marker := func(base int64, commit bool) batch.View {
		v := batch.NewMarker(1, 0, batch.Marker{Commit: commit}, 0)
		v.SetBaseOffset(base)
		return v
	}
	log := []batch.View{txn(0, 0, "old"), marker(1, true), txn(2, 1, "aborted"), marker(3, false), txn(4, 2, "new"), marker(5, true)}
	aborted := []Aborted{{1, 2, 3}}
	for i, c := range []struct {
		now     int64
		offsets []int64
	}{
		{1000, []int64{1, 3, 4, 5}}, // data was there at the beginning of this pass
		{2000, []int64{1, 3, 4, 5}}, // not any more: the term begins
		{2099, []int64{1, 3, 4, 5}},
		{2100, []int64{4, 5}},
		{9000, []int64{4, 5}},
	} {
		log, _ = compactOnce(t, log, 0, DefaultBudget, 10, c.now, aborted, map[int64]int64{1: 4})
		var got []int64
		for _, v := range log {
			got = append(got, v.BaseOffset())
			if v.IsControl() {
				if m, ok, err := v.Marker(); !ok || err != nil || m.Commit != (v.BaseOffset() != 3) {
					t.Fatalf("pass %d: marker at %d: %+v %v %v", i, v.BaseOffset(), m, ok, err)
				}
			}
		}
		if !slices.Equal(got, c.offsets) {
			t.Fatalf("pass %d: batches %v, want %v", i, got, c.offsets)
		}
		if rs := committed(t, log, aborted); len(rs) != 1 || rs[0].value != "new" {
			t.Fatalf("pass %d: %+v", i, rs)
		}
	}
}
