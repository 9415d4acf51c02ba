package store

import (
	"errors"
	"slices"
	"testing"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

func TestWhatWasAppendedIsReadBackAfterEveryKindOfStop(t *testing.T) {
	for _, stop := range []string{"close", "kill", "crash"} {
		t.Run(stop, func(t *testing.T) {
			o := quiet()
			o.Logger = testLogger(t)
			fsys := vfs.NewCrashable()
			s := open(t, fsys, o)
			c := DefaultConfig()
			c.SegmentBytes = 4000
			p := create(t, s, "t", c)
			var want []batch.View
			for i := range 40 {
				v := plain(1+i%7, "some value")
				a := appendDurable(t, p, v)
				if a.Base != v.BaseOffset() || a.End != v.NextOffset() {
					t.Fatalf("appended %+v, batch says %d", a, v.BaseOffset())
				}
				want = append(want, slices.Clone(v))
			}
			if p.Segments() < 2 {
				t.Fatalf("%d segments", p.Segments())
			}
			check := func(p *Partition) {
				t.Helper()
				for _, max := range []int{0, 1, 500, 3000, 1 << 20} {
					if got := readAll(t, p, 0, max, ReadUncommitted); !same(got, want) {
						t.Fatalf("max %d: %d batches read, want %d", max, len(got), len(want))
					}
				}
				for _, v := range want {
					for o := v.BaseOffset(); o < v.NextOffset(); o++ {
						sl, err := p.Read(o, ReadOpts{MinOne: true})
						if err != nil {
							t.Fatal(err)
						}
						if sl.Len() != len(v) {
							t.Fatalf("offset %d: %d bytes, want %d", o, sl.Len(), len(v))
						}
						sl.Release()
					}
				}
			}
			check(p)
			switch stop {
			case "close":
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			case "kill":
				fsys = fsys.Kill()
			case "crash":
				fsys = fsys.Crash(7)
			}
			s = open(t, fsys, o)
			p = s.Get("t", 0)
			if p == nil {
				t.Fatal("partition is gone")
			}
			if p.TopicID() != [16]byte{1, 2, 3} {
				t.Fatalf("topic id %v", p.TopicID())
			}
			check(p)
			v := plain(3, "after")
			appendDurable(t, p, v)
			want = append(want, v)
			check(p)
		})
	}
}

func TestAProducersRetryIsStoredOnceAcrossEveryKindOfStop(t *testing.T) {
	for _, stop := range []string{"none", "close", "kill", "crash"} {
		t.Run(stop, func(t *testing.T) {
			fsys := vfs.NewCrashable()
			s := open(t, fsys, quiet())
			p := create(t, s, "t", DefaultConfig())
			var bases []int64
			for i := range 7 {
				bases = append(bases, appendDurable(t, p, idempotent(9, 0, int32(i*3), 3, "v")).Base)
			}
			switch stop {
			case "close":
				s.Close()
			case "kill":
				fsys = fsys.Kill()
			case "crash":
				fsys = fsys.Crash(3)
			}
			if stop != "none" {
				s = open(t, fsys, quiet())
				p = s.Get("t", 0)
			}
			for i := 2; i < 7; i++ { // the last five
				a := appendOne(t, p, idempotent(9, 0, int32(i*3), 3, "v"))
				if !a.Duplicate || a.Base != bases[i] || a.End != bases[i]+3 {
					t.Errorf("batch %d: %+v, want a duplicate at %d", i, a, bases[i])
				}
			}
			_, err := p.Append([]batch.View{idempotent(9, 0, 0, 3, "v")}, AppendOpts{})
			if code, _ := batch.CodeOf(err); code != batch.OutOfOrderSequence {
				t.Errorf("a batch older than the window: %v", err)
			}
			if a := appendDurable(t, p, idempotent(9, 0, 21, 1, "v")); a.Duplicate || a.Base != 21 {
				t.Errorf("the next batch: %+v", a)
			}
		})
	}
}

func TestASecondStoreOnTheSameDirectoryNamesTheHolder(t *testing.T) {
	fsys := vfs.NewMem()
	o := quiet()
	o.Process = "pid 4711, listening on 127.0.0.1:9092"
	open(t, fsys, o)
	_, err := Open(fsys, "data", quiet())
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder != o.Process {
		t.Fatalf("second open: %v", err)
	}
}
