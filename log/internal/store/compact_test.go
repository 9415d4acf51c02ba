package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

var errCut = errors.New("the power is gone")

// compacted is a configuration with small segments that compaction may take at once.
func compacted() PartitionConfig {
	c := DefaultConfig()
	c.Compact, c.Delete, c.SegmentBytes, c.IndexInterval, c.DeleteRetention = true, false, 2048, 256, time.Hour
	return c
}

// kv builds a batch of one record per pair; a nil value deletes.
func kv(o batch.Options, pairs ...string) batch.View {
	var rs []batch.Record
	for i := 0; i < len(pairs); i += 2 {
		r := batch.Record{Timestamp: 1000 + int64(i), Key: []byte(pairs[i])}
		if pairs[i+1] != "-" {
			r.Value = []byte(pairs[i+1])
		}
		rs = append(rs, r)
	}
	return batch.Build(o, rs...)
}

// contents is what a reader of the whole partition sees: the table, and the offsets of the records.
func contents(t testing.TB, p *Partition) (table map[string]string, offsets []int64) {
	t.Helper()
	table = map[string]string{}
	for _, v := range readAll(t, p, p.LogStart(), 3000, ReadUncommitted) {
		if v.IsControl() {
			continue
		}
		for r, err := range v.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if n := len(offsets); n > 0 && offsets[n-1] >= r.Offset {
				t.Fatalf("offset %d after %d", r.Offset, offsets[n-1])
			}
			offsets = append(offsets, r.Offset)
			if table[string(r.Key)] = string(r.Value); r.Value == nil {
				delete(table, string(r.Key))
			}
		}
	}
	return table, offsets
}

// churn writes n batches over a few keys, with deletions, codecs and an idempotent producer, and returns the table they make.
func churn(t testing.TB, p *Partition, seed uint64, n int) map[string]string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	table, _ := contents(t, p)
	seq := int32(0)
	for _, i := range p.Producers() {
		if i.ID == 7 {
			seq = batch.AddSequence(i.LastSequence, 1)
		}
	}
	end := int64(0)
	for i := range n {
		var pairs []string
		for range 1 + rnd.IntN(4) {
			k, v := fmt.Sprint("key", rnd.IntN(12)), fmt.Sprintf("%d of %d %s", i, seed, strings.Repeat("x", rnd.IntN(60)))
			if rnd.IntN(5) == 0 {
				v = "-"
			}
			pairs = append(pairs, k, v)
			if table[k] = v; v == "-" {
				delete(table, k)
			}
		}
		o := batch.Options{}
		if rnd.IntN(10) == 0 {
			o.Codec = batch.Codec(rnd.IntN(5))
		}
		if rnd.IntN(3) == 0 {
			o.Producer = &batch.Producer{ID: 7, Epoch: 0, Sequence: seq}
			seq += int32(len(pairs) / 2)
		}
		end = appendOne(t, p, kv(o, pairs...)).End
	}
	wait(t, p, end)
	p.waitIdle()
	return table
}

func compactQuiet() Options {
	o := quiet()
	o.CompactRate = -1
	return o
}

func mustCompact(t testing.TB, p *Partition) Compaction {
	t.Helper()
	c, err := p.Compact()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompactionLeavesTheNewestOfEachKey(t *testing.T) {
	now := time.Now()
	o := compactQuiet()
	o.Now = func() time.Time { return now }
	m := vfs.NewMem()
	s := open(t, m, o)
	p := create(t, s, "t", compacted())
	want := churn(t, p, 1, 150)
	end, size := p.End(), p.Size()
	c := mustCompact(t, p)
	if c.Groups == 0 || c.RecordsOut >= c.RecordsIn/2 || p.Size() >= size/2 {
		t.Fatalf("%+v; %d of %d bytes", c, p.Size(), size)
	}
	check := func(p *Partition, what string) {
		t.Helper()
		got, offsets := contents(t, p)
		if !maps.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
		if p.End() != end || p.LogStart() != 0 || len(p.Damaged()) != 0 {
			t.Fatalf("%s: [%d, %d), want [0, %d); damaged %v", what, p.LogStart(), p.End(), end, p.Damaged())
		}
		// Reading from any offset finds the next record that is left.
		for from := int64(0); from < end; from += 7 {
			next := int64(-1)
			for _, v := range readAll(t, p, from, 1, ReadUncommitted) {
				for r := range v.Records() {
					if r.Offset >= from && next < 0 {
						next = r.Offset
					}
				}
			}
			i, _ := slices.BinarySearch(offsets, from)
			if i < len(offsets) && next != offsets[i] || i == len(offsets) && next != -1 {
				t.Fatalf("%s: from %d the next record is at %d", what, from, next)
			}
		}
		if ts, ok, err := p.OffsetForTime(0, ReadUncommitted); err != nil || !ok || ts.Offset != offsets[0] {
			t.Fatalf("%s: the first by time: %+v %v %v", what, ts, ok, err)
		}
	}
	check(p, "compacted")
	if c := mustCompact(t, p); c.Groups != 0 {
		t.Fatalf("there is nothing to do, and it did %+v", c)
	}
	for what, again := range map[string]func() vfs.FS{
		"after a stop": func() vfs.FS { s.Close(); return m },
		"after a kill": func() vfs.FS { m = m.Kill(); return m },
		// Recovery then reads everything, and must not take for lost what was compacted away between two files.
		"after a kill without snapshots": func() vfs.FS {
			m = m.Kill()
			for _, name := range listNames(t, m, "data/t-0") {
				if strings.HasSuffix(name, snapshotSuffix) {
					if err := m.Remove("data/t-0/" + name); err != nil {
						t.Fatal(err)
					}
				}
			}
			return m
		},
	} {
		fsys := again()
		s = open(t, fsys, o)
		p = s.Get("t", 0)
		p.SetConfig(compacted())
		check(p, what)
		if p.cleaned.Load() != c.CleanEnd {
			t.Errorf("%s: compacted up to %d, want %d", what, p.cleaned.Load(), c.CleanEnd)
		}
	}
	// It goes on from there, and the retention of deletions passes.
	for i := range uint64(4) {
		now = now.Add(40 * time.Minute)
		want = churn(t, p, 2+i, 60)
		end = p.End()
		segments := p.Segments()
		mustCompact(t, p)
		if p.Segments() >= segments {
			t.Errorf("round %d: %d segments of %d, small ones were not put together", i, p.Segments(), segments)
		}
		check(p, fmt.Sprint("round ", i))
	}
	if e := p.Producers(); len(e) != 1 || e[0].ID != 7 {
		t.Fatalf("producers: %+v", e)
	}
}

// TestCompactionSurvivesACrashAtEveryStep cuts the power at every call to the file system that a compaction makes, with several
// outcomes each, and kills the process there. No key gets an old value back, nothing is lost, and the next compaction succeeds.
func TestCompactionSurvivesACrashAtEveryStep(t *testing.T) {
	cfg := compacted()
	cfg.DeleteRetention = 0 // the ends of aborted transactions go in the third compaction
	setup := func(t testing.TB) (*vfs.Mem, *Partition, map[string]string) {
		m := vfs.NewCrashable()
		s := open(t, m, compactQuiet())
		p := create(t, s, "t", cfg)
		for i := range int32(6) {
			for j, commit := range []bool{false, true} {
				appendOne(t, p, kv(batch.Options{Producer: &batch.Producer{ID: 1, Sequence: 2*i + int32(j)}, Transactional: true}, fmt.Sprint("txn", i), fmt.Sprint("committed ", commit)))
				endTxn(t, p, 1, 0, commit)
			}
		}
		churn(t, p, 5, 60)
		mustCompact(t, p)
		p.cleaned.Store(0)
		mustCompact(t, p)
		churn(t, p, 6, 60)
		want := committedTable(t, p)
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		return m, p, want
	}
	steps := 0
	m, p, _ := setup(t)
	var mu sync.Mutex
	names := map[vfs.Op]int{}
	m.Inject(func(op vfs.Op, _ string) *vfs.Fault {
		mu.Lock()
		defer mu.Unlock()
		steps++
		names[op]++
		return nil
	})
	if c := mustCompact(t, p); c.Groups == 0 {
		t.Fatal("nothing was swapped")
	}
	m.Inject(nil)
	if names[vfs.OpRename] < 6 || names[vfs.OpSyncDir] < 4 {
		t.Fatalf("steps: %v", names)
	}
	outcomes := trial.Effort(3)
	rolled := 0
	for step := range steps + 1 {
		for outcome := range outcomes + 1 {
			m, p, want := setup(t)
			end := p.End()
			n := 0
			var mu sync.Mutex
			m.Inject(func(vfs.Op, string) *vfs.Fault {
				mu.Lock()
				defer mu.Unlock()
				if n++; n > step {
					return &vfs.Fault{Err: errCut}
				}
				return nil
			})
			_, err := p.Compact()
			if n <= step && err != nil {
				t.Fatal(err)
			}
			var after *vfs.Mem
			if outcome == outcomes {
				after = m.Kill()
			} else {
				after = m.Crash(uint64(step*1000 + outcome))
			}
			for _, name := range listNames(t, after, "data/t-0") {
				if strings.HasSuffix(name, swapSuffix) {
					rolled++
					break
				}
			}
			s, err := Open(after, "data", compactQuiet())
			if err != nil {
				t.Fatalf("step %d, outcome %d: %v", step, outcome, err)
			}
			p = s.Get("t", 0)
			p.SetConfig(cfg)
			fail := func(what string, args ...any) {
				t.Helper()
				t.Fatalf("step %d of %d, outcome %d: %s", step, steps, outcome, fmt.Sprintf(what, args...))
			}
			got := committedTable(t, p)
			if !maps.Equal(got, want) || p.End() != end || len(p.Damaged()) > 0 {
				fail("%v, want %v; end %d, want %d; damaged %v", got, want, p.End(), end, p.Damaged())
			}
			for _, name := range listNames(t, after, "data/t-0") {
				for _, suffix := range []string{swapSuffix, cleanedSuffix, deletedSuffix} {
					if strings.HasSuffix(name, suffix) {
						fail("%s is left", name)
					}
				}
			}
			churn(t, p, 7, 30)
			want = committedTable(t, p)
			if _, err := p.Compact(); err != nil {
				fail("the next compaction: %v", err)
			}
			if got := committedTable(t, p); !maps.Equal(got, want) {
				fail("after the next compaction %v, want %v", got, want)
			}
			if err := s.Close(); err != nil {
				fail("close: %v", err)
			}
		}
	}
	t.Logf("%d steps, %d times a swap was completed", steps, rolled)
	if rolled == 0 {
		t.Error("no crash left a swap to be completed")
	}
}

func listNames(t testing.TB, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	es, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names
}

// TestReadersNoticeNothingOfACompaction reads and writes while one compaction follows the other. Few files may be open, so that
// readers open old ones late.
func TestReadersNoticeNothingOfACompaction(t *testing.T) {
	o := compactQuiet()
	o.MaxOpenFiles = 2
	dir := t.TempDir()
	s, err := Open(vfs.OS{}, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := create(t, s, "t", compacted())
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				vs, err := tryReadAll(p, 0, 1500, ReadUncommitted)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				for _, v := range vs {
					for r, err := range v.Records() {
						if err != nil {
							t.Errorf("batch at %d: %v", r.Offset, err)
							return
						}
					}
				}
				if _, _, err := p.OffsetForTime(1001, ReadUncommitted); err != nil {
					t.Errorf("by time: %v", err)
					return
				}
			}
		})
	}
	groups := 0
	var want map[string]string
	for i := range uint64(trial.Effort(12)) {
		want = churn(t, p, 100+i, 40)
		groups += mustCompact(t, p).Groups
	}
	stop.Store(true)
	wg.Wait()
	if got, _ := contents(t, p); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if groups == 0 {
		t.Error("nothing was compacted")
	}
	for _, name := range listNames(t, vfs.OS{}, dir+"/t-0") {
		for _, suffix := range []string{swapSuffix, cleanedSuffix, deletedSuffix} {
			if strings.HasSuffix(name, suffix) {
				t.Errorf("%s is left", name)
			}
		}
	}
}

func TestCompactionOnAFullDiskChangesNothing(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m, compactQuiet())
	p := create(t, s, "t", compacted())
	want := churn(t, p, 1, 100)
	before := readAll(t, p, 0, 3000, ReadUncommitted)
	m.SetCapacity(1)
	if _, err := p.Compact(); err == nil {
		t.Fatal("compacted without room")
	}
	if !same(before, readAll(t, p, 0, 3000, ReadUncommitted)) {
		t.Fatal("the log has changed")
	}
	m.SetCapacity(1 << 40)
	mustCompact(t, p)
	if got, _ := contents(t, p); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCompactionTakesTheDirtiestAndWaitsForTheLag(t *testing.T) {
	now := time.UnixMilli(1000)
	o := compactQuiet()
	o.Now = func() time.Time { return now }
	s := open(t, vfs.NewMem(), o)
	lagging := compacted()
	lagging.MinCompactionLag = time.Hour
	overdue := compacted()
	overdue.MinDirtyRatio, overdue.MaxCompactionLag = 1.1, time.Hour
	plainTopic := compacted()
	plainTopic.Compact, plainTopic.Delete = false, true
	a, b := create(t, s, "a", compacted()), create(t, s, "lagging", lagging)
	c, d := create(t, s, "overdue", overdue), create(t, s, "plain", plainTopic)
	for _, p := range []*Partition{a, b, c, d} {
		churn(t, p, 1, 60)
	}
	if !s.CompactDirtiest() || a.cleaned.Load() == 0 {
		t.Fatal("a was not compacted")
	}
	if s.CompactDirtiest() {
		t.Fatal("something was compacted that may not be yet")
	}
	now = now.Add(2 * time.Hour)
	if !s.CompactDirtiest() || c.cleaned.Load() == 0 || b.cleaned.Load() != 0 {
		t.Fatal("the overdue one comes first")
	}
	if !s.CompactDirtiest() || b.cleaned.Load() == 0 {
		t.Fatal("the one whose lag has passed was not compacted")
	}
	if s.CompactDirtiest() || d.cleaned.Load() != 0 {
		t.Fatal("nothing is left to be compacted")
	}
}

// committedTable is what a read_committed consumer makes of a partition, as Kafka's clients do it: from the first offset of an aborted
// transaction on it passes over its producer's records, up to an abort marker.
func committedTable(t testing.TB, p *Partition) map[string]string {
	t.Helper()
	got, skip := map[string]string{}, map[int64]bool{}
	for from := int64(0); ; {
		sl, err := p.Read(from, ReadOpts{MaxBytes: 1 << 20, Isolation: ReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if _, err := sl.WriteTo(&buf); err != nil {
			t.Fatal(err)
		}
		sl.Release()
		if buf.Len() == 0 {
			return got
		}
		vs, err := batch.Split(nil, buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		aborted := sl.Aborted
		for _, v := range vs {
			from = v.NextOffset()
			for len(aborted) > 0 && aborted[0].First <= v.LastOffset() {
				skip[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			if v.IsControl() {
				if m, _, _ := v.Marker(); !m.Commit {
					delete(skip, v.ProducerID())
				}
				continue
			}
			if v.Transactional() && skip[v.ProducerID()] {
				continue
			}
			for r := range v.Records() {
				if got[string(r.Key)] = string(r.Value); r.Value == nil {
					delete(got, string(r.Key))
				}
			}
		}
	}
}

// When the marker of an aborted transaction goes, nobody is told of the transaction any more: who waited for its end would pass over
// what its producer wrote later.
func TestAnAbortThatIsGoneHidesNothing(t *testing.T) {
	s := open(t, vfs.NewMem(), compactQuiet())
	cfg := compacted()
	cfg.DeleteRetention = 0
	p := create(t, s, "t", cfg)
	txn := func(pid int64, seq int32, commit bool, pairs ...string) {
		appendOne(t, p, kv(batch.Options{Producer: &batch.Producer{ID: pid, Sequence: seq}, Transactional: true}, pairs...))
		endTxn(t, p, pid, 0, commit)
	}
	for i := range int32(40) {
		txn(1, 2*i, false, "a", fmt.Sprint("aborted ", i))
		txn(1, 2*i+1, true, fmt.Sprint("b", i), "committed")
	}
	for range 60 {
		appendOne(t, p, kv(batch.Options{}, "c", strings.Repeat("z", 50)))
	}
	wait(t, p, p.End())
	p.waitIdle()
	want := committedTable(t, p)
	if len(want) != 41 {
		t.Fatalf("before: %v", want)
	}
	for range 3 {
		mustCompact(t, p)
		if got := committedTable(t, p); !maps.Equal(got, want) {
			t.Fatalf("%d keys, want %d: %v", len(got), len(want), got)
		}
		p.cleaned.Store(0)
	}
	markers := map[int64]bool{}
	for _, v := range readAll(t, p, 0, 1<<20, ReadUncommitted) {
		if m, ok, _ := v.Marker(); ok && !m.Commit {
			markers[v.LastOffset()] = true
		}
	}
	if len(markers) >= 40 {
		t.Errorf("%d markers of aborted transactions are left", len(markers))
	}
	for _, seg := range *p.segs.Load() {
		as, err := seg.abortedTxns()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range as {
			if !markers[a.last] {
				t.Errorf("the aborted transaction at %d is listed, and its marker at %d is gone", a.first, a.last)
			}
		}
	}
}

func TestTransactionsOutliveCompaction(t *testing.T) {
	s := open(t, vfs.NewMem(), compactQuiet())
	p := create(t, s, "t", compacted())
	txn := func(pid int64, seq int32, pairs ...string) {
		appendOne(t, p, kv(batch.Options{Producer: &batch.Producer{ID: pid, Sequence: seq}, Transactional: true}, pairs...))
	}
	for i := range int32(30) {
		txn(1, 2*i, "a", fmt.Sprint("committed ", i), "b", strings.Repeat("y", 40))
		txn(2, i, "a", fmt.Sprint("aborted ", i))
		endTxn(t, p, 1, 0, true)
		endTxn(t, p, 2, 0, false)
	}
	txn(3, 0, "a", "open")
	open := p.End() - 1
	for range 100 { // sealed segments behind the open transaction
		appendOne(t, p, kv(batch.Options{}, "c", strings.Repeat("z", 50)))
	}
	wait(t, p, p.End())
	p.waitIdle()
	want := committedTable(t, p)
	if want["a"] != "committed 29" {
		t.Fatalf("before: %v", want)
	}
	for range 3 {
		c := mustCompact(t, p)
		if c.CleanEnd > open {
			t.Fatalf("compacted up to %d, over the open transaction at %d", c.CleanEnd, open)
		}
		if got := committedTable(t, p); !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		p.cleaned.Store(0) // once more from the beginning
	}
	for _, v := range readAll(t, p, 0, 1<<20, ReadUncommitted) {
		for r := range v.Records() {
			if !v.IsControl() && v.ProducerID() == 2 && r.Offset < open-10 && v.Count() > 0 {
				t.Fatalf("aborted data is left at %d", r.Offset)
			}
		}
	}
}

func FuzzSwapName(f *testing.F) {
	f.Add("00000000000000000000-00000000000000000010.swap")
	f.Fuzz(func(t *testing.T, name string) {
		if base, end, ok := parseSwapName(name); ok && name != fmt.Sprintf("%020d-%020d%s", base, end, swapSuffix) {
			t.Errorf("%q is taken for %d to %d", name, base, end)
		}
	})
}

func TestALogWhoseEndWasCompactedAwayIsReadToItsEnd(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	o := compactQuiet()
	o.Now = func() time.Time { return now }
	m := vfs.NewMem()
	s := open(t, m, o)
	c := compacted()
	c.SegmentAge = time.Minute
	p := create(t, s, "t", c)
	for i := range 40 {
		appendOne(t, p, kv(batch.Options{}, fmt.Sprint("k", i%5), strings.Repeat("v", 40)))
	}
	for i := range 5 {
		appendOne(t, p, kv(batch.Options{}, fmt.Sprint("k", i), "-"))
	}
	end := p.End()
	wait(t, p, end)
	now = now.Add(2 * time.Minute)
	p.rollIfDue(now) // the active segment is empty: everything can be compacted
	p.waitIdle()
	mustCompact(t, p)
	if _, offsets := contents(t, p); len(offsets) != 5 {
		t.Fatalf("%d deletions are left, want 5", len(offsets))
	}
	now = now.Add(2 * time.Hour)
	p.cleaned.Store(0)
	mustCompact(t, p)
	check := func(p *Partition) {
		t.Helper()
		vs := readAll(t, p, 0, 100, ReadUncommitted)
		if len(vs) == 0 || vs[len(vs)-1].NextOffset() != end || p.End() != end || len(p.Damaged()) > 0 {
			t.Fatalf("%d batches, end %d, want %d", len(vs), p.End(), end)
		}
		for _, v := range vs {
			if v.Count() != 0 {
				t.Fatalf("%d records at %d", v.Count(), v.BaseOffset())
			}
		}
		last := int64(0)
		if err := p.Replay(0, func(v batch.View) error { last = v.NextOffset(); return nil }); err != nil || last != end {
			t.Fatalf("replayed to %d, want %d: %v", last, end, err)
		}
	}
	check(p)
	s = open(t, m.Kill(), o)
	check(s.Get("t", 0))
}
