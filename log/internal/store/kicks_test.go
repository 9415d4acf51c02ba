package store

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// queued is how many partitions wait for a worker.
func queued(s *Store) int {
	s.syncer.mu.Lock()
	defer s.syncer.mu.Unlock()
	return len(s.syncer.queue)
}

func TestNothingIsSyncedBeforeTheKicksStart(t *testing.T) {
	s := open(t, vfs.NewMem(), quiet())
	var k Kicks
	var ends []Appended
	ps := []*Partition{create(t, s, "a", DefaultConfig()), create(t, s, "b", DefaultConfig()), create(t, s, "c", DefaultConfig())}
	syncs := func() int64 { return s.counters.syncs.Look(time.Now()).Count }
	before := syncs()
	for _, p := range append(ps, ps...) { // each twice
		a, err := p.Append([]batch.View{plain(1, "v")}, AppendOpts{Kicks: &k})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, a)
	}
	// Who writes to one of them meanwhile waits for the same sync.
	other := appendOne(t, ps[0], plain(1, "of another"))
	if n := queued(s); n > 0 || syncs() != before || ps[0].HighWatermark() != 0 {
		t.Errorf("before Start %d partitions are queued, %d syncs were made, and %d is durable", n, syncs()-before, ps[0].HighWatermark())
	}
	k.Start()
	for i, a := range ends {
		wait(t, ps[i%3], a.End)
	}
	wait(t, ps[0], other.End)
	if len(k.parts) > 0 || k.bytes > 0 {
		t.Errorf("after Start there are %d partitions and %d bytes in it", len(k.parts), k.bytes)
	}
}

func TestMuchToWriteStartsTheKicks(t *testing.T) {
	s := open(t, vfs.NewMem(), quiet())
	p := create(t, s, "t", DefaultConfig())
	var k Kicks
	a, err := p.Append([]batch.View{plain(1, string(make([]byte, maxPutOff)))}, AppendOpts{Kicks: &k})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p, a.End) // nobody has called Start
}

// TestALazyWriteWaits has the sync of what was written lazily begin with what comes first of all that makes it due.
func TestALazyWriteWaits(t *testing.T) {
	for name, due := range map[string]func(t *testing.T, s *Store, p *Partition, end int64){
		"somebody waits": func(t *testing.T, _ *Store, p *Partition, end int64) { wait(t, p, end) },
		"somebody is to be called back": func(t *testing.T, _ *Store, p *Partition, end int64) {
			c := make(chan error, 1)
			p.AfterDurable(end, func(err error) { c <- err })
			select {
			case err := <-c:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("not called")
			}
		},
		"more is written": func(t *testing.T, _ *Store, p *Partition, _ int64) { appendOne(t, p, plain(1, "w")) },
		"the partition is maintained": func(t *testing.T, s *Store, _ *Partition, _ int64) {
			if err := s.Maintain(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, vfs.NewMem(), quiet())
			p := create(t, s, "t", DefaultConfig())
			appendDurable(t, p, plain(1, "u"))
			a, err := p.Append([]batch.View{plain(1, "v")}, AppendOpts{Lazy: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := queued(s); n > 0 || p.HighWatermark() >= a.End {
				t.Errorf("%d partitions are queued, %d is durable", n, p.HighWatermark())
			}
			due(t, s, p, a.End)
			for deadline := time.Now().Add(time.Minute); p.HighWatermark() < a.End; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it is still not durable")
				}
			}
		})
	}
}

// An internal topic is synced whatever the mode: what was written to it lazily is not left lying where nothing else is ever synced.
func TestALazyWriteIsMaintainedWithoutFsync(t *testing.T) {
	o := quiet()
	o.Fsync = FsyncNever
	s := open(t, vfs.NewMem(), o)
	internal := DefaultConfig()
	internal.Internal = true
	p, data := create(t, s, "i", internal), create(t, s, "t", DefaultConfig())
	a, err := p.Append([]batch.View{plain(1, "v")}, AppendOpts{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	appendOne(t, data, plain(1, "v"))
	if err := s.Maintain(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); p.Durable() < a.End; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is still not durable")
		}
	}
	if data.Durable() > 0 {
		t.Error("the topic of a client was synced")
	}
}

// TestADeletedPartitionIsNotedBefore has a worker that has made a partition durable and not noted it yet while the partition is deleted
// and made anew: an old mark in the new one's file would make recovery call what is not there damaged.
func TestADeletedPartitionIsNotedBefore(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	p := create(t, s, "t", DefaultConfig())
	release := holdSyncs(s)
	appendOne(t, p, plain(100, "v"))
	s.syncer.mu.Lock()
	s.syncer.queue = nil // we are its worker
	s.syncer.mu.Unlock()
	if !p.runSync() {
		t.Fatal("there is nothing to note")
	}
	release()
	deleted := make(chan error, 1)
	go func() { deleted <- s.Delete("t", 0) }()
	select {
	case err := <-deleted:
		t.Fatalf("deleted before its mark was written: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	p.note()
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	p = create(t, s, "t", DefaultConfig())
	appendDurable(t, p, plain(1, "w"))
	fsys = fsys.Kill()
	again := open(t, fsys, quiet()).Get("t", 0)
	if holes := again.holes.Load(); again.End() != 1 || holes != nil && len(*holes) > 0 {
		t.Errorf("it has %d records and the holes %v", again.End(), holes)
	}
}

// TestTheDurablePositionIsNotedUnderLoad has more to sync than a worker ever finishes: it notes the positions all the same.
func TestTheDurablePositionIsNotedUnderLoad(t *testing.T) {
	fsys := vfs.NewMem()
	o := quiet()
	o.MaxSyncs = 1
	s := open(t, fsys, o)
	p := create(t, s, "t", DefaultConfig())
	var noted atomic.Int64
	var again func(error)
	done := make(chan error, 1)
	again = func(err error) {
		// The next batch is there before the worker comes back for more.
		if err == nil && noted.Load() < 3 {
			var a Appended
			if a, err = p.Append([]batch.View{plain(1, "v")}, AppendOpts{}); err == nil {
				p.AfterDurable(a.End, again)
				return
			}
		}
		done <- err
	}
	fsys.Inject(func(op vfs.Op, name string) *vfs.Fault {
		if op == vfs.OpWrite && filepath.Base(name) == syncedFile {
			noted.Add(1)
		}
		return nil
	})
	go again(nil)
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal(errors.New("after a minute of syncs the position was not noted"))
	}
}
