package store

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// tornLog is a partition's files: some batches, then a tail of which every byte
// is going to be damaged.
type tornLog struct {
	log    []byte
	bounds []int64 // of batches, the end included
	views  []batch.View
	tail   int64 // where the tail begins
}

func makeTornLog(t *testing.T) tornLog {
	t.Helper()
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	p := create(t, s, "t", DefaultConfig())
	lz4 := batch.Build(batch.Options{Codec: batch.LZ4}, records(8, "compressed compressed")...)
	for _, v := range []batch.View{plain(2, "first"), idempotent(5, 0, 0, 2, "second")} {
		appendDurable(t, p, v)
	}
	tail := p.active().size.Load()
	appendDurable(t, p, plain(2, "tail"))
	appendDurable(t, p, lz4)
	appendDurable(t, p, transactional(6, 0, 0, 2, "txn"))
	a := endTxn(t, p, 6, 0, false)
	wait(t, p, a.End)
	views := readAll(t, p, 0, 1<<20, ReadUncommitted)
	s.Close()
	l := tornLog{tail: tail, views: views}
	for _, v := range views {
		l.bounds = append(l.bounds, int64(len(l.log)))
		l.log = append(l.log, v...)
	}
	l.bounds = append(l.bounds, int64(len(l.log)))
	return l
}

// install makes a data directory as a killed process leaves it. synced is the durable position that it noted.
func (l tornLog) install(t *testing.T, log []byte, synced int64) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fsys.MkdirAll("data/t-0"))
	must(writeFile(fsys, "data/t-0/"+metadataFile, encodeMetadata([16]byte{1}), false))
	must(writeFile(fsys, "data/t-0/"+epochFile, encodeEpochs([]epochStart{{0, 0}}), false))
	must(writeFile(fsys, "data/t-0/"+offsetName(0, logSuffix), log, false))
	must(writeFile(fsys, "data/t-0/"+syncedFile, appendSynced(nil, syncedMark{0, synced}), false))
	return fsys
}

func (l tornLog) prefix(pos int64) int {
	n := 0
	for n+1 < len(l.bounds) && l.bounds[n+1] <= pos {
		n++
	}
	return n
}

// ways of damaging the tail from byte pos on; they return the bytes, and how far they are intact.
var damages = []struct {
	name string
	do   func(l tornLog, pos int64, rng *rand.Rand) []byte
}{
	{"truncated", func(l tornLog, pos int64, _ *rand.Rand) []byte { return l.log[:pos] }},
	{"zeros", func(l tornLog, pos int64, _ *rand.Rand) []byte {
		b := slices.Clone(l.log)
		clear(b[pos:])
		return b
	}},
	{"one bit", func(l tornLog, pos int64, rng *rand.Rand) []byte {
		b := slices.Clone(l.log)
		b[pos] ^= 1 << rng.IntN(8)
		return b
	}},
	{"garbage", func(l tornLog, pos int64, rng *rand.Rand) []byte {
		b := slices.Clone(l.log)
		for i := pos; i < int64(len(b)); i++ {
			b[i] = byte(rng.Uint32())
		}
		b[pos] = l.log[pos] ^ 0x55
		return b
	}},
}

// harmless reports whether a change at pos leaves a valid batch: base offset, as long as it rises, and leader epoch are outside the checksum.
func (l tornLog) harmless(changed []byte, n int) bool {
	if n+1 >= len(l.bounds) {
		return false
	}
	v, _, err := batch.Next(changed[l.bounds[n]:])
	return err == nil && v.CheckFrame() == nil && v.BaseOffset() >= l.views[n].BaseOffset() && v.LastOffset() < 1<<31
}

func TestATornTailIsCutToTheLastWholeBatch(t *testing.T) {
	l := makeTornLog(t)
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	step := int64(max(1, 100/trial.Effort(100)))
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			checked := 0
			for pos := l.tail; pos < int64(len(l.log)); pos += step {
				log := d.do(l, pos, rng)
				n := l.prefix(pos)
				if l.harmless(log, n) {
					continue
				}
				checked++
				fsys := l.install(t, log, l.tail)
				s := open(t, fsys, quiet())
				p := s.Get("t", 0)
				fail := func(format string, a ...any) {
					t.Helper()
					t.Fatalf("byte %d: %s", pos, fmt.Sprintf(format, a...))
				}
				got := readAll(t, p, 0, 100, ReadUncommitted)
				if !same(got, l.views[:n]) {
					fail("%d batches, want the first %d", len(got), n)
				}
				if n > 0 && p.End() != l.views[n-1].NextOffset() {
					fail("end %d, want %d", p.End(), l.views[n-1].NextOffset())
				}
				cut := log[l.bounds[n]:]
				if kept := cutBytes(t, fsys); !bytes.Equal(kept, cut) {
					fail("%d bytes in .cut files, want %d", len(kept), len(cut))
				}
				if wantEpoch := int32(min(1, len(cut))); p.LeaderEpoch() != wantEpoch {
					fail("leader epoch %d, want %d", p.LeaderEpoch(), wantEpoch)
				}
				if len(p.Damaged()) > 0 {
					fail("damaged: %v", p.Damaged())
				}
				if err := checkIndexes(p); err != nil {
					fail("%v", err)
				}
				// A second start changes nothing.
				before := dump(t, fsys)
				fsys = fsys.Kill()
				s = open(t, fsys, quiet())
				if after := dump(t, fsys); after != before {
					fail("a second start changed\n%s\nto\n%s", before, after)
				}
				if got := readAll(t, s.Get("t", 0), 0, 1<<20, ReadUncommitted); !same(got, l.views[:n]) {
					fail("after the second start: %d batches", len(got))
				}
				appendDurable(t, s.Get("t", 0), plain(1, "more"))
				s.Close()
			}
			if checked < int(int64(len(l.log))-l.tail)/int(step)/2 {
				t.Fatalf("only %d positions were checked", checked)
			}
		})
	}
}

func TestDamageBelowTheDurablePositionIsKept(t *testing.T) {
	l := makeTornLog(t)
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	step := int64(max(1, 100/trial.Effort(100)))
	end := int64(len(l.log))
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			for pos := l.tail; pos < end; pos += step {
				log := d.do(l, pos, rng)
				n := l.prefix(pos)
				if l.harmless(log, n) {
					continue
				}
				fsys := l.install(t, log, end)
				o := quiet()
				s := open(t, fsys, o)
				p := s.Get("t", 0)
				fail := func(format string, a ...any) {
					t.Helper()
					t.Fatalf("byte %d: %s", pos, fmt.Sprintf(format, a...))
				}
				now, err := vfs.ReadFile(fsys, "data/t-0/"+offsetName(0, logSuffix), 1<<20)
				if err != nil || !bytes.Equal(now, log) {
					fail("the file was changed: %d bytes, were %d, %v", len(now), len(log), err)
				}
				holes := p.Damaged()
				if len(holes) != 1 || len(s.Health().Damaged) != 1 {
					fail("damaged: %v", holes)
				}
				h := holes[0]
				if h.From != l.views[n].BaseOffset() || h.Position != l.bounds[n] || h.To <= h.From || p.End() < h.To {
					fail("hole %+v, want it to begin at offset %d, byte %d", h, l.views[n].BaseOffset(), l.bounds[n])
				}
				got, err := tryReadAll(p, 0, 1<<20, ReadUncommitted)
				if code, _ := batch.CodeOf(err); code != batch.CorruptMessage || !same(got, l.views[:n]) {
					fail("before the hole: %d batches, want %d; %v", len(got), n, err)
				}
				if d.name == "one bit" && h.To < h.From+1<<30 {
					// What follows the one bad batch is read as ever.
					if got := readAll(t, p, h.To, 1<<20, ReadUncommitted); n+1 < len(l.views) && !same(got, l.views[n+1:]) && h.To == l.views[n+1].BaseOffset() {
						fail("behind the hole: %d batches, want %d", len(got), len(l.views)-n-1)
					}
				}
				a := appendDurable(t, p, plain(1, "new"))
				if a.Base < h.To {
					fail("appended at %d, inside the hole %+v", a.Base, h)
				}
				epoch := p.LeaderEpoch()
				fsys = fsys.Kill()
				s = open(t, fsys, o)
				p = s.Get("t", 0)
				if again := p.Damaged(); !slices.Equal(again, holes) {
					fail("after another start: %v, was %v", again, holes)
				}
				if p.LeaderEpoch() != epoch {
					fail("after another start: epoch %d, was %d", p.LeaderEpoch(), epoch)
				}
				if got := readAll(t, p, a.Base, 1<<20, ReadUncommitted); len(got) != 1 {
					fail("after another start the new batch is gone")
				}
				// A clean stop does not make it forget.
				s.Close()
				s = open(t, fsys, o)
				if again := s.Get("t", 0).Damaged(); !slices.Equal(again, holes) {
					fail("after a clean stop: %v, was %v", again, holes)
				}
				s.Close()
			}
		})
	}
}

func cutBytes(t *testing.T, fsys vfs.FS) []byte {
	t.Helper()
	var out []byte
	for _, e := range listDir(t, fsys, "data/t-0") {
		if strings.Contains(e.Name(), cutInfix) {
			b, err := vfs.ReadFile(fsys, "data/t-0/"+e.Name(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		}
	}
	return out
}

func listDir(t *testing.T, fsys vfs.FS, dir string) []fs.DirEntry {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// dump is all files of the data directory but the lock.
func dump(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	var b strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		for _, e := range listDir(t, fsys, dir) {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				walk(name)
			} else if e.Name() != lockFile {
				c, err := vfs.ReadFile(fsys, name, 1<<24)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "%s %d %08x\n", name, len(c), crcOf(c))
			}
		}
	}
	walk("data")
	return b.String()
}

// checkIndexes compares what a partition knows of its log with what the log says.
func checkIndexes(p *Partition) error {
	for _, seg := range *p.segs.Load() {
		off, err := seg.offsetIndex()
		if err == nil {
			err = checkIndex(off, seg.size.Load())
		}
		if err != nil {
			return fmt.Errorf("%s: %v", seg.path(indexSuffix), err)
		}
		tim, err := seg.timeIndex()
		if err == nil {
			err = checkTimeIndex(tim)
		}
		if err != nil {
			return fmt.Errorf("%s: %v", seg.path(timeSuffix), err)
		}
		at := map[int64]int64{}     // position of the batch with this last offset
		latest := map[int64]int64{} // largest timestamp up to the batch with this last offset
		highest := int64(-1)
		err = seg.each(0, seg.size.Load(), func(pos int64, h batch.View) (bool, error) {
			at[h.LastOffset()] = pos
			highest = max(highest, h.MaxTimestamp())
			latest[h.LastOffset()] = highest
			return true, nil
		})
		if err != nil {
			return err
		}
		for i := 0; i < len(off); i += indexEntry {
			last, pos := seg.base+int64(be.Uint32(off[i:])), int64(be.Uint32(off[i+4:]))
			if got, ok := at[last]; !ok || got != pos {
				return fmt.Errorf("%s: entry %d: offset %d at byte %d, it is at %d", seg.path(indexSuffix), i/indexEntry, last, pos, got)
			}
		}
		for i := 0; i < len(tim); i += timeEntry {
			ms, last := int64(be.Uint64(tim[i:])), seg.base+int64(be.Uint32(tim[i+8:]))
			if latest[last] != ms {
				return fmt.Errorf("%s: entry %d: time %d at offset %d, it is %d", seg.path(timeSuffix), i/timeEntry, ms, last, latest[last])
			}
		}
		if ms, _, err := seg.lastTime(); err != nil || ms != highest {
			return fmt.Errorf("%s: largest time %d, want %d, %v", seg.file.name, ms, highest, err)
		}
	}
	return nil
}
