package store

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// flip changes one byte of a file behind the store's back.
func flip(t testing.TB, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x20
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// sealedLog is a partition with n batches of two records in several sealed segments, and one batch in the active one.
func sealedLog(t testing.TB, s *Store, c PartitionConfig, n int) *Partition {
	t.Helper()
	c.SegmentBytes = 1024
	p := create(t, s, "t", c)
	for i := range n {
		appendDurable(t, p, plain(2, "a value of some length, so that segments fill up "+string(rune('a'+i%26))))
	}
	if p.Segments() < 4 {
		t.Fatalf("%d segments", p.Segments())
	}
	return p
}

func awaitSealed(t testing.TB, p *Partition) []*segment {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if all, n := p.sealed(1 << 62); n == len(all)-1 {
			return all[:n]
		}
		if time.Now().After(deadline) {
			t.Fatal("segments are not sealed")
		}
	}
}

func TestTheScrubMarksWhatTheDiskLostAndTheRestIsReadOn(t *testing.T) {
	fsys := vfs.NewMem()
	o := quiet()
	s := open(t, fsys, o)
	p := sealedLog(t, s, DefaultConfig(), 30)
	segs := awaitSealed(t, p)
	before := readAll(t, p, 0, 1<<20, ReadUncommitted)
	if r, err := s.Scrub(context.Background()); err != nil || r.Segments != len(segs) || len(r.Damaged) != 0 || r.Bytes == 0 {
		t.Fatalf("a log that is whole: %+v, %v", r, err)
	}
	// One batch in the middle of a segment, and the last one of another.
	second := before[slices.IndexFunc(before, func(v batch.View) bool { return v.BaseOffset() == segs[1].base })+1]
	lastOf2 := before[slices.IndexFunc(before, func(v batch.View) bool { return v.BaseOffset() == segs[3].base })-1]
	flip(t, fsys, segs[1].file.name, int64(before[0].Size())+70)
	flip(t, fsys, segs[2].file.name, segs[2].size.Load()-3)
	r, err := s.Scrub(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]int64{{second.BaseOffset(), second.NextOffset()}, {lastOf2.BaseOffset(), lastOf2.NextOffset()}}
	check := func(when string, holes []Hole) {
		t.Helper()
		var got [][2]int64
		for _, h := range holes {
			got = append(got, [2]int64{h.From, h.To})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: damaged %v, want %v", when, got, want)
		}
	}
	check("the scrub's report", r.Damaged)
	check("the partition", p.Damaged())
	check("health", s.Health().Damaged)
	if r.Damaged[0].File != segs[1].file.name || r.Damaged[0].Position != int64(before[0].Size()) {
		t.Errorf("at %s byte %d, want %s byte %d", r.Damaged[0].File, r.Damaged[0].Position, segs[1].file.name, before[0].Size())
	}
	for _, v := range before {
		got, err := p.Read(v.BaseOffset(), ReadOpts{MaxBytes: 1, MinOne: true})
		got.Release()
		code, _ := batch.CodeOf(err)
		bad := v.BaseOffset() == second.BaseOffset() || v.BaseOffset() == lastOf2.BaseOffset()
		if bad != (code == batch.CorruptMessage) || !bad && err != nil {
			t.Errorf("offset %d: %v", v.BaseOffset(), err)
		}
	}
	if got, err := tryReadAll(p, 0, 1<<20, ReadUncommitted); len(got) == 0 || got[len(got)-1].NextOffset() != second.BaseOffset() || err == nil {
		t.Errorf("a read runs up to the range and says why it ends: %d batches, %v", len(got), err)
	}
	if got := readAll(t, p, lastOf2.NextOffset(), 1<<20, ReadUncommitted); got[len(got)-1].NextOffset() != p.End() {
		t.Error("what follows is not read to the end")
	}
	appendDurable(t, p, plain(1, "more"))
	if again, err := s.Scrub(context.Background()); err != nil || len(again.Damaged) != 0 {
		t.Errorf("a second pass finds the same again: %+v, %v", again, err)
	}
	s.Close()
	s = open(t, fsys, o)
	check("after a clean stop", s.Get("t", 0).Damaged())
}

func TestTheScrubLeavesCompactionAndRetentionTheirWay(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	c := DefaultConfig()
	c.Compact, c.Delete = true, false
	p := sealedLog(t, s, c, 40)
	segs := awaitSealed(t, p)
	flip(t, fsys, segs[1].file.name, 70)
	if _, err := p.Compact(); err == nil {
		t.Error("compaction went over a damaged batch")
	}
	if r, err := s.Scrub(context.Background()); err != nil || len(r.Damaged) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := p.Compact(); err != nil || out.Groups != 0 {
		t.Errorf("a damaged partition was compacted: %+v, %v", out, err)
	}
	if _, err := p.DeleteRecordsTo(-1); err != nil {
		t.Fatal(err)
	}
	if len(p.Damaged()) != 0 {
		t.Errorf("deleted records are still reported: %v", p.Damaged())
	}
}

func TestTheScrubRunsBesideWritersReadersAndRetention(t *testing.T) {
	seed := trial.Seed(t)
	s := open(t, vfs.NewMem(), quiet())
	c := DefaultConfig()
	c.SegmentBytes, c.RetentionBytes, c.Compact = 2048, 8192, true
	p := create(t, s, "t", c)
	var stop atomic.Bool
	var wg sync.WaitGroup
	loop := func(f func(*rand.Rand)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for !stop.Load() {
				f(rng)
			}
		})
	}
	loop(func(rng *rand.Rand) { appendOne(t, p, plain(1+rng.IntN(5), "some value")) })
	loop(func(*rand.Rand) { _, _ = tryReadAll(p, p.LogStart(), 1<<12, ReadUncommitted) })
	loop(func(*rand.Rand) { _ = s.Maintain() })
	loop(func(*rand.Rand) { s.CompactDirtiest() })
	var bytes int64
	for deadline := time.Now().Add(30 * time.Second); bytes < int64(trial.Effort(4<<20)) && time.Now().Before(deadline); {
		r, err := s.Scrub(context.Background())
		if err != nil || len(r.Damaged) > 0 {
			t.Errorf("%+v, %v", r, err)
			break
		}
		bytes += r.Bytes
	}
	stop.Store(true)
	wg.Wait()
	if bytes == 0 {
		t.Error("nothing was scrubbed")
	}
}

func TestTheScrubInTheBackgroundKeepsItsRate(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	p := create(t, s, "t", func() PartitionConfig { c := DefaultConfig(); c.SegmentBytes = 1 << 20; return c }())
	for range 48 {
		appendOne(t, p, plain(1, string(make([]byte, 100<<10))))
	}
	wait(t, p, p.End())
	segs := awaitSealed(t, p)
	flip(t, fsys, segs[len(segs)-1].file.name, 500)
	s.Close()
	o := quiet()
	o.ScrubRate = 8 << 20
	began := time.Now()
	s = open(t, fsys, o)
	for len(s.Health().Damaged) == 0 {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the damage is not found")
		}
		time.Sleep(time.Millisecond)
	}
	var before int64
	for _, seg := range segs[:len(segs)-1] {
		before += seg.size.Load()
	}
	if took, least := time.Since(began), time.Duration(float64(before)/float64(o.ScrubRate)*float64(time.Second))*8/10; took < least {
		t.Errorf("%d bytes in %v: faster than its rate, which wants %v", before, took, least)
	}
}
