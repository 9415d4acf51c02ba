package store

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// What segments do that neither a refusal nor a deletion shows. Retention, refusals and compaction have tests of their own.
func TestSegmentsBeginWhenTheConfigurationSaysSo(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(c *PartitionConfig)
		age  time.Duration // between the first record and the look
		want int           // segments after ten records and, if they are old enough, a look that nobody's append caused
	}{
		{"all in one", func(c *PartitionConfig) {}, 0, 1},
		{"by size", func(c *PartitionConfig) { c.SegmentBytes = 3 * segmentSize }, 0, 4},
		{"by age, of a partition to which nobody writes any more", func(c *PartitionConfig) { c.SegmentAge = hour }, 2 * hour, 2},
		{"not before its age", func(c *PartitionConfig) { c.SegmentAge = hour }, hour, 1},
		{"before its age by all of the jitter at most", func(c *PartitionConfig) { c.SegmentAge, c.SegmentJitter = hour, hour }, hour, 2},
		{"by the lag that compaction allows, which needs a sealed segment", func(c *PartitionConfig) { c.Compact, c.MaxCompactionLag = true, hour }, 2 * hour, 2},
		{"the lag means nothing where nothing is compacted", func(c *PartitionConfig) { c.MaxCompactionLag = hour }, 2 * hour, 1},
		{"by the size of the offset index", func(c *PartitionConfig) { c.IndexInterval, c.IndexBytes = 1, 3*indexEntry+5 }, 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newClock()
			o := quiet()
			o.Now = clk.now
			s := open(t, vfs.NewMem(), o)
			cfg := DefaultConfig()
			cfg.RetentionTime = -1
			c.set(&cfg)
			p := create(t, s, "t", cfg)
			for range 10 {
				appendDurable(t, p, at(clk.now().UnixMilli(), 1, strings.Repeat("v", 100)))
			}
			clk.advance(c.age)
			if err := s.Maintain(); err != nil {
				t.Fatal(err)
			}
			p.waitIdle()
			if got := p.Segments(); got != c.want {
				t.Errorf("%d segments, want %d", got, c.want)
			}
		})
	}
}

func TestJitterSpreadsTheBeginningsOfSegments(t *testing.T) {
	clk := newClock()
	o := quiet()
	o.Now = clk.now
	s := open(t, vfs.NewMem(), o)
	cfg := DefaultConfig()
	cfg.SegmentAge, cfg.SegmentJitter = 10*hour, 8*hour
	var ps []*Partition
	for i := range 20 {
		p := create(t, s, fmt.Sprint("t", i), cfg)
		appendDurable(t, p, at(clk.now().UnixMilli(), 1, "v"))
		ps = append(ps, p)
	}
	rolled := map[int]int{} // by hour
	for h := range 11 {
		if err := s.Maintain(); err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if p.Segments() > 1 {
				rolled[h]++
			}
		}
		clk.advance(hour)
	}
	if rolled[2] != 0 || rolled[6] == 0 || rolled[6] == 20 || rolled[10] != 20 {
		t.Errorf("rolled by hour: %v; want none before the second, some at the sixth, all after the tenth", rolled)
	}
}

// A log that is stopped and started every day would never be as old as segment.ms, if the file's time counted.
func TestTheAgeOfASegmentOutlivesRestarts(t *testing.T) {
	clk := newClock()
	o := quiet()
	o.Now = clk.now
	fsys := vfs.NewMem()
	cfg := DefaultConfig()
	cfg.SegmentAge, cfg.RetentionTime = 10*hour, -1
	s := open(t, fsys, o)
	p := create(t, s, "t", cfg)
	for range 12 {
		appendDurable(t, p, at(clk.now().UnixMilli(), 1, "v"))
		s.Close()
		clk.advance(hour)
		s = open(t, fsys, o)
		p = s.Get("t", 0)
		p.SetConfig(cfg)
	}
	if n := p.Segments(); n != 2 {
		t.Errorf("%d segments after twelve hours, want 2", n)
	}
}

func TestPreallocateSetsAWholeSegmentAside(t *testing.T) {
	for _, on := range []bool{false, true} {
		m := vfs.NewMem()
		s := open(t, m, quiet())
		cfg := DefaultConfig()
		cfg.SegmentBytes, cfg.Preallocate = 32<<20, on
		p := create(t, s, "t", cfg)
		before, err := m.Space("data")
		if err != nil {
			t.Fatal(err)
		}
		appendDurable(t, p, plain(1, "v"))
		after, err := m.Space("data")
		if err != nil {
			t.Fatal(err)
		}
		if taken := before.Free - after.Free; on != (taken >= 32<<20) {
			t.Errorf("preallocate %v: %d bytes are set aside", on, taken)
		}
	}
}

// cleanup.policy may change at any time; what is there obeys the new one.
func TestTheCleanupPolicyChangesAtRunTime(t *testing.T) {
	clk := newClock()
	o := compactQuiet()
	o.Now = clk.now
	s := open(t, vfs.NewMem(), o)
	cfg := compacted()
	cfg.Compact, cfg.Delete, cfg.RetentionTime, cfg.MinDirtyRatio = false, true, -1, 0.1
	p := create(t, s, "t", cfg)
	fill := func(from int) {
		for i := range 60 {
			appendOne(t, p, batch.Build(batch.Options{}, batch.Record{Timestamp: clk.now().UnixMilli(), Key: fmt.Append(nil, "k", i%5), Value: fmt.Append(nil, from+i, strings.Repeat("v", 100))}))
		}
		wait(t, p, p.End())
		p.waitIdle()
	}
	policy := func(compact, del bool) {
		cfg.Compact, cfg.Delete = compact, del
		p.SetConfig(cfg)
	}
	fill(0)
	if s.CompactDirtiest() {
		t.Fatal("compacted under the policy to delete")
	}
	policy(true, false)
	size := p.Size()
	if !s.CompactDirtiest() || p.Size() >= size/2 {
		t.Fatalf("not compacted: %d bytes of %d", p.Size(), size)
	}
	values, _ := contents(t, p)
	if len(values) != 5 {
		t.Fatalf("%v", values)
	}
	cfg.RetentionTime = hour
	p.SetConfig(cfg)
	clk.advance(3 * hour)
	if err := s.Maintain(); err != nil || p.LogStart() != 0 {
		t.Fatalf("deleted under the policy to compact: log start %d, %v", p.LogStart(), err)
	}
	policy(true, true)
	fill(100)
	start := p.LogStart()
	if err := s.Maintain(); err != nil || p.LogStart() <= start {
		t.Fatalf("not deleted under both: log start %d, %v", p.LogStart(), err)
	}
	if !s.CompactDirtiest() {
		t.Fatal("not compacted under both")
	}
	policy(false, true)
	fill(200)
	if s.CompactDirtiest() {
		t.Fatal("compacted after it was taken back")
	}
	clk.advance(3 * hour)
	for range 2 { // the active segment is sealed first
		if err := s.Maintain(); err != nil {
			t.Fatal(err)
		}
		p.waitIdle()
	}
	if left := readAll(t, p, p.LogStart(), 1<<20, ReadUncommitted); len(left) != 0 {
		t.Errorf("%d batches are left of what is old", len(left))
	}
}

// stuckFS is a disk on which calls that stuck picks do not come back before it is released.
type stuckFS struct {
	vfs.FS
	mu    sync.Mutex
	stuck func(op, name string) bool // guarded by mu
	met   chan struct{}              // closed by the first call that is stuck
	once  sync.Once
	free  chan struct{}
}

func (f *stuckFS) pass(op, name string) {
	f.mu.Lock()
	stuck := f.stuck != nil && f.stuck(op, name)
	f.mu.Unlock()
	if stuck {
		f.once.Do(func() { close(f.met) })
		<-f.free
	}
}

func (f *stuckFS) Create(name string) (vfs.File, error) { return f.wrap(f.FS.Create(name)) }
func (f *stuckFS) Remove(name string) error             { f.pass("remove", name); return f.FS.Remove(name) }
func (f *stuckFS) Rename(a, b string) error             { f.pass("rename", a); return f.FS.Rename(a, b) }
func (f *stuckFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &stuckFile{file, f}, nil
}

type stuckFile struct {
	vfs.File
	fs *stuckFS
}

func (f *stuckFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.pass("write", f.Name())
	return f.File.WriteAt(b, off)
}
func (f *stuckFile) Sync() error { f.fs.pass("sync", f.Name()); return f.File.Sync() }

// However long the disk takes over a step of compaction or retention, appends are acknowledged and records are read meanwhile.
func TestCompactionAndRetentionNeverHoldWritersUp(t *testing.T) {
	isLog := func(name string) bool { return strings.HasSuffix(name, logSuffix) }
	for _, c := range []struct {
		name  string
		stuck func(op, name string) bool
		do    func(s *Store, p *Partition) error
	}{
		{"compaction writes", func(op, name string) bool { return op == "write" && strings.HasSuffix(name, cleanedSuffix) }, func(_ *Store, p *Partition) error { _, err := p.Compact(); return err }},
		{"compaction syncs", func(op, name string) bool { return op == "sync" && strings.HasSuffix(name, cleanedSuffix) }, func(_ *Store, p *Partition) error { _, err := p.Compact(); return err }},
		{"compaction renames", func(op, name string) bool { return op == "rename" && strings.HasSuffix(name, swapSuffix) }, func(_ *Store, p *Partition) error { _, err := p.Compact(); return err }},
		{"retention removes", func(op, name string) bool { return op == "remove" && isLog(name) }, func(s *Store, _ *Partition) error { return s.Maintain() }},
		{"retention writes the log start", func(op, name string) bool { return op == "write" && strings.Contains(name, logStartFile) }, func(s *Store, _ *Partition) error { return s.Maintain() }},
		{"records are deleted", func(op, name string) bool { return op == "remove" && isLog(name) }, func(_ *Store, p *Partition) error { _, err := p.DeleteRecordsTo(-1); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := &stuckFS{FS: vfs.NewMem(), met: make(chan struct{}), free: make(chan struct{})}
			release := sync.OnceFunc(func() { close(fsys.free) })
			s := open(t, fsys, compactQuiet())
			defer release()
			cfg := compacted()
			cfg.Delete, cfg.RetentionBytes = true, 4096
			p := create(t, s, "t", cfg)
			churn(t, p, 1, 100)
			p.waitIdle()
			before, _ := contents(t, p)
			fsys.mu.Lock()
			fsys.stuck = c.stuck
			fsys.mu.Unlock()
			done := make(chan error, 1)
			go func() { done <- c.do(s, p) }()
			select {
			case <-fsys.met:
			case err := <-done:
				t.Fatalf("it never came to that: %v", err)
			case <-time.After(30 * time.Second):
				t.Fatal("it never came to that")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			for i := range 20 { // without a roll, which may have to wait for names in the same directory
				a, err := p.Append([]batch.View{kv(batch.Options{}, fmt.Sprint("new", i), "v")}, AppendOpts{})
				if err == nil {
					err = p.WaitDurable(ctx, a.End)
				}
				if err != nil {
					t.Fatalf("append %d meanwhile: %v", i, err)
				}
				sl, err := p.Read(a.Base, ReadOpts{MaxBytes: 1 << 20, MinOne: true})
				if err != nil || sl.Len() == 0 {
					t.Fatalf("read meanwhile: %d bytes, %v", sl.Len(), err)
				}
				sl.Release()
			}
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			after, _ := contents(t, p)
			for i := range 20 {
				if after[fmt.Sprint("new", i)] != "v" {
					t.Errorf("record new%d is gone", i)
				}
			}
			if strings.HasPrefix(c.name, "compaction") {
				for i := range 20 {
					delete(after, fmt.Sprint("new", i))
				}
				if !maps.Equal(before, after) {
					t.Errorf("values changed: %v, were %v", after, before)
				}
			}
		})
	}
}
