package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

const hour = time.Hour

type clock struct{ t atomic.Int64 }

func newClock() *clock { c := new(clock); c.t.Store(1_700_000_000_000); return c }

func (c *clock) now() time.Time          { return time.UnixMilli(c.t.Load()) }
func (c *clock) advance(d time.Duration) { c.t.Add(d.Milliseconds()) }

func at(ms int64, n int, value string) batch.View {
	rs := records(n, value)
	for i := range rs {
		rs[i].Timestamp = ms
	}
	return batch.Build(batch.Options{}, rs...)
}

func code(err error) batch.Code { c, _ := batch.CodeOf(err); return c }

func TestRetentionKeepsWhatIsYoungAndSmallEnough(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(c *PartitionConfig)
		age   time.Duration
		start int64 // expected log start, of 10 one-record segments
	}{
		{"nothing is old or large", func(c *PartitionConfig) {}, 0, 0},
		{"everything is old: the active segment is rolled and goes, too", func(c *PartitionConfig) { c.RetentionTime = hour }, 2 * hour, 10},
		{"everything is old, but there is no time limit", func(c *PartitionConfig) { c.RetentionTime = -1 }, 10000 * hour, 0},
		{"everything is old, but the policy is to compact", func(c *PartitionConfig) { c.RetentionTime, c.Delete, c.Compact = hour, false, true }, 2 * hour, 0},
		{"room for four and a half segments keeps five", func(c *PartitionConfig) { c.RetentionBytes = 4*segmentSize + segmentSize/2 }, 0, 5},
		{"no room at all keeps the active segment", func(c *PartitionConfig) { c.RetentionBytes = 0 }, 0, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newClock()
			o := quiet()
			o.Now = clk.now
			fsys := vfs.NewMem()
			s := open(t, fsys, o)
			cfg := DefaultConfig()
			cfg.SegmentBytes = segmentSize
			c.set(&cfg)
			p := create(t, s, "t", cfg)
			for range 10 {
				appendDurable(t, p, at(clk.now().UnixMilli(), 1, strings.Repeat("v", 100)))
			}
			if p.Size() != 10*segmentSize || p.Segments() != 10 {
				t.Fatalf("%d bytes in %d segments", p.Size(), p.Segments())
			}
			clk.advance(c.age)
			for range 2 { // rolled by the first round, sealed, dropped by the second
				if err := s.Maintain(); err != nil {
					t.Fatal(err)
				}
				p.waitIdle()
			}
			if p.LogStart() != c.start || p.End() != 10 {
				t.Fatalf("log [%d, %d), want start %d", p.LogStart(), p.End(), c.start)
			}
			if _, err := p.Read(c.start-1, ReadOpts{}); c.start > 0 && code(err) != batch.OffsetOutOfRange {
				t.Fatalf("read below the start: %v", err)
			}
			logs := 0
			for _, e := range listDir(t, fsys, "data/t-0") {
				if _, ok := parseOffsetName(e.Name(), logSuffix); ok {
					logs++
				}
			}
			if logs != p.Segments() {
				t.Fatalf("%d files for %d segments", logs, p.Segments())
			}
			s.Close()
			if p = open(t, fsys, o).Get("t", 0); p.LogStart() != c.start || p.End() != 10 {
				t.Fatalf("after a restart: [%d, %d)", p.LogStart(), p.End())
			}
		})
	}
}

// segmentSize is what at(now, 1, 100 bytes) takes.
var segmentSize = int64(len(at(1_700_000_000_000, 1, strings.Repeat("v", 100))))

func TestRetentionDoesNotTouchWhatItDoesNotKnow(t *testing.T) {
	clk := newClock()
	o := quiet()
	o.Now = clk.now
	fsys := vfs.NewMem()
	s := open(t, fsys, o)
	cfg := DefaultConfig()
	cfg.SegmentBytes, cfg.RetentionTime = segmentSize, -1
	p := create(t, s, "t", cfg)
	for range 3 {
		appendDurable(t, p, at(clk.now().UnixMilli(), 1, strings.Repeat("v", 100)))
	}
	s.Close()
	clk.advance(1000 * hour)
	s = open(t, fsys, o)
	if err := s.Maintain(); err != nil {
		t.Fatal(err)
	}
	if p = s.Get("t", 0); p.LogStart() != 0 {
		t.Fatalf("log start %d before the configuration was set", p.LogStart())
	}
}

func TestDeletedRecordsStayDeleted(t *testing.T) {
	fsys := vfs.NewCrashable()
	s := open(t, fsys, quiet())
	p := create(t, s, "t", DefaultConfig())
	for range 5 {
		appendDurable(t, p, plain(2, "v"))
	}
	w := NewWaiter()
	p.Subscribe(w)
	for _, c := range []struct{ to, want int64 }{{3, 3}, {2, 3}, {3, 3}, {7, 7}} {
		if got, err := p.DeleteRecordsTo(c.to); err != nil || got != c.want {
			t.Fatalf("delete to %d: %d %v", c.to, got, err)
		}
	}
	<-w.C // woken
	if _, err := p.DeleteRecordsTo(11); code(err) != batch.OffsetOutOfRange {
		t.Fatal(err)
	}
	fsys = fsys.Crash(1)
	if p = open(t, fsys, quiet()).Get("t", 0); p.LogStart() != 7 || p.End() != 10 {
		t.Fatalf("after a crash: [%d, %d)", p.LogStart(), p.End())
	}
	if got, err := p.DeleteRecordsTo(-1); got != 10 || err != nil {
		t.Fatal(got, err)
	}
	if a := appendDurable(t, p, plain(1, "v")); a.Base != 10 || a.LogStart != 10 {
		t.Fatalf("%+v", a)
	}
}

func TestAFailedSyncTakesTheDirectoryOffline(t *testing.T) {
	fsys := vfs.NewCrashable()
	o := quiet()
	offline := make(chan error, 1)
	o.OnOffline = func(err error) { offline <- err }
	s := open(t, fsys, o)
	p := create(t, s, "t", DefaultConfig())
	other := create(t, s, "other", DefaultConfig())
	appendDurable(t, p, plain(2, "kept"))
	fsys.Inject(func(op vfs.Op, name string) *vfs.Fault {
		if op == vfs.OpSync && strings.HasSuffix(name, logSuffix) {
			return &vfs.Fault{Err: syscall.EIO}
		}
		return nil
	})
	a := appendOne(t, p, plain(1, "in doubt"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitDurable(ctx, a.End); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("wait: %v", err)
	}
	if _, ok := batch.CodeOf(ErrOutcomeUnknown); ok {
		t.Fatal("an unknown outcome has a code")
	}
	fsys.Inject(nil) // the next sync would succeed, and would be a lie
	if err := <-offline; !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := p.WaitDurable(ctx, a.End); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("wait again: %v", err)
	}
	if p.HighWatermark() != 2 || s.Health().Offline == nil {
		t.Fatalf("high watermark %d, health %+v", p.HighWatermark(), s.Health())
	}
	for name, err := range map[string]error{
		"append": func() error { _, err := other.Append([]batch.View{plain(1, "v")}, AppendOpts{}); return err }(),
		"read":   func() error { _, err := p.Read(0, ReadOpts{}); return err }(),
		"create": func() error { _, err := s.Create(TopicPartition{"x", 0}, [16]byte{}, DefaultConfig()); return err }(),
		"delete": s.Delete("other", 0),
	} {
		if code(err) != batch.StorageError {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.files.open != 0 {
		t.Fatalf("%d files are still open", s.files.open)
	}
	// The next process does not trust the page cache: what was in doubt is gone or there, what was acknowledged is there.
	p = open(t, fsys.Kill(), quiet()).Get("t", 0)
	if p.End() != 2 {
		t.Fatalf("end %d: pages that are not on disk were believed", p.End())
	}
}

func TestAFullDiskRefusesAndNothingIsLost(t *testing.T) {
	fsys := vfs.NewMem()
	o := Options{Maintain: -1, Ballast: 64 << 10, MinFree: -1}
	s := open(t, fsys, o)
	cfg := DefaultConfig()
	p := create(t, s, "client", cfg)
	cfg.Internal = true
	in := create(t, s, "internal", cfg)
	space, _ := fsys.Space("")
	fsys.SetCapacity(space.Total - space.Free + 200<<10)
	v := func() batch.View { return plain(1, strings.Repeat("v", 4000)) }
	n := int64(0)
	for {
		a, err := p.Append([]batch.View{v()}, AppendOpts{})
		if err != nil {
			if code(err) != batch.StorageError {
				t.Fatal(err)
			}
			break
		}
		n++
		wait(t, p, a.End)
	}
	if p.End() != n || n < 10 {
		t.Fatalf("end %d after %d", p.End(), n)
	}
	if !s.Health().Ballast {
		t.Fatal("a client's write released the ballast")
	}
	for range 10 {
		a, err := in.Append([]batch.View{v()}, AppendOpts{Origin: FromCoordinator})
		if err != nil {
			t.Fatalf("internal topic: %v", err)
		}
		wait(t, in, a.End)
	}
	if s.Health().Ballast {
		t.Fatal("the ballast is still there")
	}
	if err := s.Delete("client", 0); err != nil {
		t.Fatal(err)
	}
	s.removals.Wait()
	if err := s.Maintain(); err != nil || !s.Health().Ballast {
		t.Fatalf("the ballast is not back: %v", err)
	}
	if got := len(readAll(t, in, 0, 1<<20, ReadUncommitted)); got != 10 {
		t.Fatalf("%d internal batches", got)
	}
}

func TestLowSpaceRefusesClientsOnly(t *testing.T) {
	fsys := vfs.NewMem()
	fsys.SetCapacity(10 << 20)
	o := Options{Maintain: -1, Ballast: -1, MinFree: 9 << 20}
	s := open(t, fsys, o)
	cfg := DefaultConfig()
	p := create(t, s, "client", cfg)
	cfg.Internal = true
	in := create(t, s, "internal", cfg)
	appendOne(t, p, plain(1, "v"))
	fsys.SetCapacity(9 << 20)
	if err := s.Maintain(); err != nil || !s.Health().LowSpace {
		t.Fatal(err)
	}
	if _, err := p.Append([]batch.View{plain(1, "v")}, AppendOpts{}); code(err) != batch.StorageError || !strings.Contains(err.Error(), "log.min.free.bytes") {
		t.Fatal(err)
	}
	if _, err := in.Append([]batch.View{plain(1, "v")}, AppendOpts{Origin: FromCoordinator}); err != nil {
		t.Fatal(err)
	}
	fsys.SetCapacity(100 << 20)
	if err := s.Maintain(); err != nil {
		t.Fatal(err)
	}
	appendOne(t, p, plain(1, "v"))
}

func TestAppendRefusesWhatTheTopicDoesNotTake(t *testing.T) {
	clk := newClock()
	now := clk.now().UnixMilli()
	keyless := batch.Build(batch.Options{Codec: batch.LZ4}, batch.Record{Timestamp: now, Value: []byte("v")})
	for _, c := range []struct {
		name string
		set  func(c *PartitionConfig)
		vs   []batch.View
		want batch.Code
	}{
		{"a batch over max.message.bytes", func(c *PartitionConfig) { c.MaxMessageBytes = 100 }, []batch.View{at(now, 10, "value")}, batch.MessageTooLarge},
		{"a record without key in a compacted topic", func(c *PartitionConfig) { c.Compact = true }, []batch.View{keyless}, batch.InvalidRecord},
		{"a timestamp far ahead", func(c *PartitionConfig) {}, []batch.View{at(now+2*hour.Milliseconds(), 1, "v")}, batch.InvalidTimestamp},
		{"a timestamp far ahead where the log stamps", func(c *PartitionConfig) { c.LogAppendTime = true }, []batch.View{at(now+2*hour.Milliseconds(), 1, "v")}, 0},
		{"a timestamp far back", func(c *PartitionConfig) { c.TimestampBefore = hour }, []batch.View{at(now-2*hour.Milliseconds(), 1, "v")}, batch.InvalidTimestamp},
		{"several batches", func(c *PartitionConfig) {}, []batch.View{at(now, 1, "v"), at(now, 2, "w")}, 0},
		{"several batches of an idempotent producer", func(c *PartitionConfig) { c.TimestampAfter = -1 }, []batch.View{idempotent(1, 0, 0, 1, "v"), idempotent(1, 0, 1, 1, "v")}, batch.InvalidRecord},
		{"no batch", func(c *PartitionConfig) {}, nil, batch.InvalidRecord},
		{"a good batch and a bad one: neither", func(c *PartitionConfig) {}, []batch.View{at(now, 1, "v"), at(now+2*hour.Milliseconds(), 1, "v")}, batch.InvalidTimestamp},
	} {
		o := quiet()
		o.Now = clk.now
		s := open(t, vfs.NewMem(), o)
		cfg := DefaultConfig()
		c.set(&cfg)
		p := create(t, s, "t", cfg)
		a, err := p.Append(c.vs, AppendOpts{})
		if code(err) != c.want {
			t.Errorf("%s: %v, want %d", c.name, err, c.want)
		}
		if c.want != 0 && p.End() != 0 {
			t.Errorf("%s: end %d", c.name, p.End())
		}
		if c.want == 0 {
			wait(t, p, a.End)
			if cfg.LogAppendTime != (a.Timestamp == now) {
				t.Errorf("%s: timestamp %d", c.name, a.Timestamp)
			}
			for _, v := range readAll(t, p, 0, 1<<20, ReadUncommitted) {
				if cfg.LogAppendTime && v.MaxTimestamp() != now {
					t.Errorf("%s: stored with time %d", c.name, v.MaxTimestamp())
				}
			}
		}
		s.Close()
	}
}

func TestTopicNamesNeverLeaveTheDirectory(t *testing.T) {
	s := open(t, vfs.NewMem(), quiet())
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a\x00b", "ä", strings.Repeat("x", 250), "a b"} {
		if _, err := s.Create(TopicPartition{name, 0}, [16]byte{}, DefaultConfig()); code(err) != batch.InvalidTopic {
			t.Errorf("%q: %v", name, err)
		}
	}
	long := strings.Repeat("x", 249)
	if _, err := s.Create(TopicPartition{long, 0}, [16]byte{}, DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(TopicPartition{long, 0}, [16]byte{}, DefaultConfig()); !errors.Is(err, ErrExist) {
		t.Fatal(err)
	}
	if err := s.Delete(long, 0); err != nil || s.Get(long, 0) != nil {
		t.Fatal(err)
	}
}

func TestADeletedPartitionWakesEverybodyAndKeepsReadersAlive(t *testing.T) {
	s := open(t, vfs.NewMem(), quiet())
	p := create(t, s, "t", DefaultConfig())
	appendDurable(t, p, plain(3, "v"))
	sl, err := p.Read(0, ReadOpts{MinOne: true})
	if err != nil || sl.Len() == 0 {
		t.Fatal(err)
	}
	w := NewWaiter()
	p.Subscribe(w)
	result := make(chan error, 1)
	p.AfterDurable(99, func(err error) { result <- err })
	if err := s.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	<-w.C
	if err := <-result; code(err) != batch.UnknownTopicOrPartition {
		t.Fatal(err)
	}
	if _, err := p.Append([]batch.View{plain(1, "v")}, AppendOpts{}); code(err) != batch.UnknownTopicOrPartition {
		t.Fatal(err)
	}
	if _, err := sl.ReadAt(make([]byte, sl.Len()), 0); err != nil {
		t.Fatalf("a slice that was being read: %v", err)
	}
	sl.Release()
	if p := create(t, s, "t", DefaultConfig()); p.End() != 0 {
		t.Fatalf("created anew with end %d", p.End())
	}
}

func TestThoseWhoWaitAreCalledInOrderAndOnce(t *testing.T) {
	s := open(t, vfs.NewMem(), quiet())
	p := create(t, s, "t", DefaultConfig())
	release := holdSyncs(s)
	var mu sync.Mutex
	var got []int64
	var ends []int64
	for range 20 {
		ends = append(ends, appendOne(t, p, plain(1, "v")).End)
	}
	shuffled := slices.Clone(ends)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, e := range shuffled {
		p.AfterDurable(e, func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			got = append(got, e)
			mu.Unlock()
		})
	}
	if len(got) != 0 {
		t.Fatal("called before anything was durable")
	}
	if sl, err := p.Read(0, ReadOpts{MinOne: true}); err != nil || sl.Len() != 0 {
		t.Fatalf("%d bytes shown that are not durable, %v", sl.Len(), err)
	}
	release()
	wait(t, p, ends[len(ends)-1])
	p.waitIdle()
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got, ends) {
		t.Fatalf("called for %v, want %v", got, ends)
	}
	if n := s.Stats().Syncs; n > 2 {
		t.Errorf("%d syncs for 20 batches that waited together", n)
	}
}

func TestTheIntervalModeAnswersAtOnceAndSyncsLater(t *testing.T) {
	o := quiet()
	o.Fsync, o.FsyncInterval = FsyncInterval, 20*time.Millisecond
	s := open(t, vfs.NewMem(), o)
	if s.Health().WeakFsync != "interval" {
		t.Errorf("health: %+v", s.Health())
	}
	p := create(t, s, "t", DefaultConfig())
	cfg := DefaultConfig()
	cfg.Internal = true
	in := create(t, s, "internal", cfg)
	release := holdSyncs(s)
	a := appendOne(t, p, plain(3, "v"))
	if p.HighWatermark() != a.End || p.Durable() != 0 || p.LastStable() != a.End {
		t.Fatalf("high watermark %d, durable %d, stable %d", p.HighWatermark(), p.Durable(), p.LastStable())
	}
	wait(t, p, a.End) // does not wait
	if got := readAll(t, p, 0, 1<<20, ReadUncommitted); len(got) != 1 {
		t.Fatalf("%d batches", len(got))
	}
	appendOne(t, in, plain(1, "v"))
	if in.HighWatermark() != 0 {
		t.Fatal("an internal topic does not wait for its sync")
	}
	release()
	wait(t, in, 1)
	for deadline := time.Now().Add(time.Minute); p.Durable() != a.End; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never synced")
		}
	}
}

func TestReplayGivesEveryBatchOnceAndStopsAtDamage(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	cfg := DefaultConfig()
	cfg.SegmentBytes = 500
	p := create(t, s, "t", cfg)
	for i := range 30 {
		appendDurable(t, p, plain(1+i%3, fmt.Sprint(i)))
	}
	replay := func(from int64) (offsets []int64, err error) {
		err = p.Replay(from, func(v batch.View) error {
			offsets = append(offsets, v.BaseOffset())
			return nil
		})
		return offsets, err
	}
	all, err := replay(0)
	if err != nil || len(all) != 30 {
		t.Fatalf("%v %v", all, err)
	}
	some, err := replay(all[10])
	if err != nil || !slices.Equal(some, all[10:]) {
		t.Fatalf("%v, want %v; %v", some, all[10:], err)
	}
	mine := errors.New("mine")
	if err := p.Replay(0, func(batch.View) error { return mine }); !errors.Is(err, mine) {
		t.Fatal(err)
	}
	// A bit flips in the middle of a sealed segment.
	segs := *p.segs.Load()
	f, err := fsys.OpenWrite(segs[2].file.name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 70); err != nil {
		t.Fatal(err)
	}
	got, err := replay(0)
	if code(err) != batch.CorruptMessage || len(got) == 0 || got[len(got)-1] >= segs[2].base {
		t.Fatalf("%v %v", got, err)
	}
}

func TestInterruptedReadsOfClosedFilesFindTheirWay(t *testing.T) {
	o := quiet()
	o.MaxOpenFiles = 2
	s := open(t, vfs.NewMem(), o)
	cfg := DefaultConfig()
	cfg.SegmentBytes = 200
	p := create(t, s, "t", cfg)
	var want []batch.View
	for i := range 40 {
		v := plain(1, fmt.Sprint(i))
		appendDurable(t, p, v)
		want = append(want, slices.Clone(v))
	}
	p.waitIdle()
	for range 3 {
		if got := readAll(t, p, 0, 1<<20, ReadUncommitted); !same(got, want) {
			t.Fatalf("%d batches", len(got))
		}
	}
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	if s.files.open > 2 {
		t.Errorf("%d files open", s.files.open)
	}
}

func TestASegmentFileThatSomebodyRemovedIsAnErrorNotALoop(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	cfg := DefaultConfig()
	cfg.SegmentBytes = segmentSize
	p := create(t, s, "t", cfg)
	for range 3 {
		appendDurable(t, p, plain(1, strings.Repeat("v", 100)))
	}
	s.Close()
	s = open(t, fsys, quiet())
	p = s.Get("t", 0)
	if err := fsys.Remove("data/t-0/" + offsetName(1, logSuffix)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(1, ReadOpts{MinOne: true}); code(err) != batch.StorageError {
		t.Fatal(err)
	}
	if _, _, err := p.OffsetForTime(time.Now().UnixMilli()+hour.Milliseconds(), ReadUncommitted); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, p, 2, 1000, ReadUncommitted); len(got) != 1 {
		t.Fatalf("%d batches behind it", len(got))
	}
	// After a start, too: nobody skips a record unawares.
	s = open(t, fsys.Kill(), quiet())
	p = s.Get("t", 0)
	for _, from := range []int64{0, 1} {
		got, err := tryReadAll(p, from, 1<<20, ReadUncommitted)
		if code(err) != batch.CorruptMessage || len(got) != int(1-from) {
			t.Fatalf("from %d: %d batches, %v", from, len(got), err)
		}
	}
	if got := readAll(t, p, 2, 1000, ReadUncommitted); len(got) != 1 {
		t.Fatalf("%d batches behind it", len(got))
	}
}

func TestBadIndexFilesAreMadeAnew(t *testing.T) {
	for _, suffix := range []string{indexSuffix, timeSuffix} {
		for name, spoil := range map[string]func(b []byte) []byte{
			"missing":   func(b []byte) []byte { return nil },
			"zeros":     func(b []byte) []byte { clear(b); return b },
			"half":      func(b []byte) []byte { return b[:len(b)/2-1] },
			"elsewhere": func(b []byte) []byte { b[len(b)-1]++; return b },
		} {
			fsys := vfs.NewMem()
			s := open(t, fsys, quiet())
			cfg := DefaultConfig()
			cfg.SegmentBytes, cfg.IndexInterval = 3000, 1
			p := create(t, s, "t", cfg)
			var want []batch.View
			for i := range 60 {
				v := at(1_700_000_000_000+int64(i), 1, "value value value")
				appendDurable(t, p, v)
				want = append(want, slices.Clone(v))
			}
			s.Close()
			file := "data/t-0/" + offsetName(0, suffix)
			b, err := vfs.ReadFile(fsys, file, 1<<20)
			if err != nil || len(b) < 16 {
				t.Fatalf("%s: %d bytes, %v", file, len(b), err)
			}
			if b = spoil(b); b == nil {
				err = fsys.Remove(file)
			} else {
				err = writeFile(fsys, file, b, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			s = open(t, fsys, quiet())
			p = s.Get("t", 0)
			for i, v := range want {
				sl, err := p.Read(v.BaseOffset(), ReadOpts{MinOne: true})
				if err != nil || sl.Len() != len(v) {
					t.Fatalf("%s %s: offset %d: %d bytes, %v", suffix, name, v.BaseOffset(), sl.Len(), err)
				}
				sl.Release()
				got, ok, err := p.OffsetForTime(1_700_000_000_000+int64(i), ReadUncommitted)
				if name != "elsewhere" && (err != nil || !ok || got.Offset != int64(i)) {
					t.Fatalf("%s %s: time %d: %+v %v", suffix, name, i, got, err)
				}
			}
			s.Close()
		}
	}
}

func TestABadIndexOfAbortedTransactionsIsMadeAnewFromTheLog(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	cfg := DefaultConfig()
	cfg.SegmentBytes = 700
	p := create(t, s, "t", cfg)
	for i := range int32(12) {
		appendDurable(t, p, transactional(1, 0, i, 1, "some value that takes room"))
		appendDurable(t, p, plain(1, "between"))
		wait(t, p, endTxn(t, p, 1, 0, i%3 == 0).End)
	}
	aborted := func(p *Partition) (out []Aborted) {
		for from := int64(0); from < p.End(); from++ {
			sl, err := p.Read(from, ReadOpts{MinOne: true, Isolation: ReadCommitted})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, sl.Aborted...)
			sl.Release()
		}
		return out
	}
	want := aborted(p)
	if len(want) < 8 || p.Segments() < 3 {
		t.Fatalf("%d aborted in %d segments", len(want), p.Segments())
	}
	s.Close()
	spoiled := 0
	for _, e := range listDir(t, fsys, "data/t-0") {
		if strings.HasSuffix(e.Name(), txnSuffix) {
			spoiled++
			if err := writeFile(fsys, "data/t-0/"+e.Name(), []byte("not an index"), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := aborted(open(t, fsys, quiet()).Get("t", 0)); spoiled < 2 || !slices.Equal(got, want) {
		t.Fatalf("%d files spoiled: %v, want %v", spoiled, got, want)
	}
}

// Everything at once on the real file system, for the race detector and for leaks.
func TestManyUsersAtOnceOnARealDisk(t *testing.T) {
	dir := t.TempDir()
	o := Options{Maintain: 5 * time.Millisecond, Ballast: 1 << 20, MaxOpenFiles: 4}
	s, err := Open(vfs.OS{}, filepath.Join(dir, "a", "b"), o)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.SegmentBytes, cfg.RetentionBytes = 20_000, 60_000
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rounds := trial.Effort(100)
	for n := range 3 {
		p, err := s.Create(TopicPartition{"t", int32(n)}, [16]byte{byte(n)}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		for w := range 2 {
			wg.Go(func() {
				if w == 0 {
					defer close(stop)
				}
				for i := range rounds {
					a, err := p.Append([]batch.View{idempotent(int64(w), 0, int32(i), 1, strings.Repeat("x", 500))}, AppendOpts{})
					if err == nil && i%7 == 0 {
						err = p.WaitDurable(ctx, a.End)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			w := NewWaiter()
			p.Subscribe(w)
			defer p.Unsubscribe(w)
			from := int64(0)
			for {
				vs, err := tryReadAll(p, from, 5000, ReadUncommitted)
				if len(vs) > 0 {
					from = vs[len(vs)-1].NextOffset()
				}
				if code(err) == batch.OffsetOutOfRange {
					from = p.LogStart()
				} else if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-w.C:
				case <-stop:
					return
				}
			}
		})
		wg.Go(func() {
			for i := range 20 {
				if i%5 == 0 {
					if _, err := p.DeleteRecordsTo(p.HighWatermark() / 2); err != nil {
						t.Error(err)
					}
				}
				if _, _, err := p.OffsetForTime(0, ReadUncommitted); err != nil {
					t.Error(err)
				}
				p.Producers()
				s.Health()
			}
		})
	}
	wg.Go(func() {
		for i := range 10 {
			name := fmt.Sprintf("short-%d", i)
			p, err := s.Create(TopicPartition{name, 0}, [16]byte{}, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := p.Append([]batch.View{plain(1, "v")}, AppendOpts{}); err != nil {
				t.Error(err)
			}
			if err := s.Delete(name, 0); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	ends := map[TopicPartition]int64{}
	for _, p := range s.Partitions() {
		ends[p.ID()] = p.End()
	}
	if len(ends) != 3 {
		t.Fatalf("partitions: %v", ends)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "b", cleanFile)); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(vfs.OS{}, filepath.Join(dir, "a", "b"), o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for tp, end := range ends {
		p := s.Get(tp.Topic, tp.Partition)
		if p == nil || p.End() != end {
			t.Errorf("%v: %v, want end %d", tp, p, end)
			continue
		}
		if err := checkIndexes(p); err != nil {
			t.Error(err)
		}
		next := map[int64]int32{}
		for _, v := range readAll(t, p, p.LogStart(), 1<<20, ReadUncommitted) {
			if want, seen := next[v.ProducerID()]; seen && v.BaseSequence() != want {
				t.Errorf("%v: producer %d has sequence %d after %d", tp, v.ProducerID(), v.BaseSequence(), want-1)
			}
			next[v.ProducerID()] = v.LastSequence() + 1
		}
	}
}

// FuzzRecovery starts on a directory of hostile files: it may refuse nothing, and
// a second start must find what the first one left.
func FuzzRecovery(f *testing.F) {
	f.Add([]byte(plain(2, "a")), []byte{}, []byte{}, uint8(0))
	f.Add(append([]byte(plain(2, "a")), 1, 2, 3), appendSynced(nil, syncedMark{0, 10}), []byte("0\n1\n0 0\n"), uint8(1))
	f.Add([]byte{}, appendSynced(nil, syncedMark{5, 1000}), []byte("0\n1\nt 0 9\n"), uint8(2))
	f.Add([]byte(plain(3, "b")), []byte("0\n1\n0 5 0 0 10\n"), []byte("0\n1\n3 2\n"), uint8(3))
	f.Fuzz(func(t *testing.T, log, a, b []byte, where uint8) {
		fsys := vfs.NewMem()
		if err := fsys.MkdirAll("data/t-0"); err != nil {
			t.Fatal(err)
		}
		put := func(name string, b []byte) {
			if err := writeFile(fsys, "data/"+name, b, false); err != nil {
				t.Fatal(err)
			}
		}
		put("t-0/"+metadataFile, encodeMetadata([16]byte{1}))
		put("t-0/"+offsetName(0, logSuffix), log)
		names := [][2]string{
			{"t-0/" + syncedFile, "t-0/" + epochFile}, {"t-0/" + offsetName(0, indexSuffix), logStartFile},
			{recoveryPointFile, "t-0/" + offsetName(2, logSuffix)}, {"t-0/" + damagedFile, cleanFile},
			{"t-0/" + offsetName(2, snapshotSuffix), "t-0/" + offsetName(2, pwinSuffix)}, {"t-0/" + offsetName(0, txnSuffix), "t-0/" + metadataFile},
		}[where%6]
		put(names[0], a)
		put(names[1], b)
		s, err := Open(fsys, "data", quiet())
		if err != nil {
			return // refused with a reason
		}
		p := s.Get("t", 0)
		if p == nil {
			s.Close()
			return
		}
		start, end, holes := p.LogStart(), p.End(), p.Damaged()
		got, _ := tryReadAll(p, start, 1<<16, ReadUncommitted)
		fsys2 := fsys.Kill()
		s.Close()
		s, err = Open(fsys2, "data", quiet())
		if err != nil {
			t.Fatalf("second start: %v", err)
		}
		p = s.Get("t", 0)
		again, _ := tryReadAll(p, start, 1<<16, ReadUncommitted)
		if p.LogStart() != start || p.End() != end || !same(got, again) || !slices.Equal(holes, p.Damaged()) {
			t.Fatalf("second start: [%d, %d) with %d batches and holes %v, was [%d, %d) with %d and %v", p.LogStart(), p.End(), len(again), p.Damaged(), start, end, len(got), holes)
		}
		s.Close()
	})
}
