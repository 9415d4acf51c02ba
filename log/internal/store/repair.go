package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// Repair makes a partition's files fit each other again. In the place of a damaged range it puts an empty batch that has the range's
// offsets, as compaction leaves one where all records of a batch are gone: readers pass over it, and no later start takes the range for
// missing. The damaged bytes are kept in a file of their own. Order, so that a crash leaves nothing that looks whole and is not:
//
//	<base>.cut-<ms>           the damaged bytes, durable
//	<base>.log.tmp            the segment without them, durable
//	damaged, synced, .clean   what the directory says of the old bytes is taken back, durable
//	<base>.log                the new file takes the name, durable
//	<base>.index …            made anew
type Repair struct {
	Did []string // what was done, in sentences
}

// RepairPartition repairs what Inspect found. Torn tails are left to the next start. A partition without troubles is not touched.
func (in *Inspector) RepairPartition(found *Inspected) (r Repair, err error) {
	p := in.s.newPartition(found.TopicPartition)
	w := &repair{in: in, p: p, found: found}
	holes := map[int64][]hole{}
	indexes := map[int64]map[string]bool{} // by segment and suffix
	anew := func(base int64, suffix ...string) {
		if indexes[base] == nil {
			indexes[base] = map[string]bool{}
		}
		for _, s := range suffix {
			indexes[base][s] = true
		}
	}
	for _, f := range found.Findings {
		switch f.Trouble {
		case DamagedHole:
			if !f.inLog || f.To <= f.From {
				return r, fmt.Errorf("%v: %s: %s: this cannot be repaired; restore the file from a copy", f.TopicPartition, f.File, f.Reason)
			}
			holes[f.base] = append(holes[f.base], hole{from: f.From, to: f.To, base: f.base, pos: f.Position, end: f.End})
			anew(f.base, indexSuffix, timeSuffix)
		case BadIndex:
			anew(f.base, filepath.Ext(f.File))
		case BadState:
			if err := w.state(f); err != nil {
				return w.Repair, err
			}
		}
	}
	if len(indexes) == 0 {
		return w.Repair, nil
	}
	// The end of the active segment and its size are no longer those that were noted.
	if err := in.forgetClean(); err != nil {
		return w.Repair, err
	}
	for n, seg := range found.segs {
		if hs := holes[seg.base]; len(hs) > 0 {
			if err := w.cut(seg, hs, n == len(found.segs)-1); err != nil {
				return w.Repair, fmt.Errorf("repair %s: %w", seg.file.name, err)
			}
			if w.sealed {
				anew(seg.base, indexSuffixes[:]...)
			}
		}
	}
	// Producers are followed from the first segment on: aborted transactions may have begun before the one whose index is bad.
	return w.Repair, w.indexes(indexes)
}

// RepairState sets the directory's own state files aside that cannot be read.
func (in *Inspector) RepairState() (did []string, err error) {
	w := &repair{in: in, p: in.s.newPartition(TopicPartition{})}
	for _, f := range in.Findings {
		if err := w.state(f); err != nil {
			return w.Did, err
		}
	}
	return w.Did, nil
}

type repair struct {
	Repair
	in    *Inspector
	p     *Partition
	found *Inspected

	sealed bool // the last segment is not the active one any more
}

func (w *repair) did(format string, a ...any) {
	w.Did = append(w.Did, fmt.Sprintf(format, a...))
}

// forgetClean lets the next start look for itself.
func (in *Inspector) forgetClean() error {
	in.Clean = false
	if err := removeIfExists(in.s.fs, filepath.Join(in.s.dir, cleanFile)); err != nil {
		return err
	}
	return in.s.fs.SyncDir(in.s.dir)
}

// state sets a small file aside that cannot be read. The store does without it, or makes it anew.
func (w *repair) state(f Finding) error {
	fsys := w.p.s.fs
	name := filepath.Base(f.File)
	if name == metadataFile || name == epochFile {
		return nil // the next start says it, and goes on without
	}
	if info, err := fsys.Stat(f.File); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if err := fsys.Rename(f.File, f.File+".bad"); err != nil {
		return err
	}
	w.did("set %s aside as %s.bad: %s", f.File, name, f.Reason)
	return fsys.SyncDir(filepath.Dir(f.File))
}

// cut replaces damaged ranges of a segment by empty batches.
func (w *repair) cut(seg *segment, hs []hole, active bool) error {
	p, fsys := w.p, w.p.s.fs
	slices.SortFunc(hs, func(a, b hole) int { return int(min(1, max(-1, a.from-b.from))) })
	f, err := fsys.Open(seg.file.name)
	if err != nil {
		return err
	}
	defer f.Close()
	size := seg.size.Load()
	tmp := seg.file.name + tmpSuffix
	if err := removeIfExists(fsys, tmp); err != nil {
		return err
	}
	out, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	at, pos := int64(0), int64(0)
	copyTo := func(dst vfs.File, dstAt, from, to int64) error {
		buf := make([]byte, min(max(to-from, 0), 256<<10))
		for from < to {
			b := buf[:min(int64(len(buf)), to-from)]
			if err := readFull(f, b, from); err != nil {
				return err
			}
			if _, err := dst.WriteAt(b, dstAt); err != nil {
				return err
			}
			from, dstAt = from+int64(len(b)), dstAt+int64(len(b))
		}
		return nil
	}
	err = func() error {
		for _, h := range hs {
			if h.pos < pos || h.end > size {
				return fmt.Errorf("damaged ranges overlap at byte %d", h.pos)
			}
			if h.end > h.pos {
				kept, err := w.keep(seg, h, copyTo)
				if err != nil {
					return err
				}
				w.did("cut bytes %d to %d, offsets %d to %d, out of %s and kept them in %s", h.pos, h.end, h.from, h.to-1, seg.file.name, kept)
			} else {
				w.did("marked offsets %d to %d, which no segment held, as passed in %s", h.from, h.to-1, seg.file.name)
			}
			if err := copyTo(out, at, pos, h.pos); err != nil {
				return err
			}
			at += h.pos - pos
			v, err := placeholder(h, seg.base, w.p.s.now().UnixMilli(), w.epochAt(h.from))
			if err != nil {
				return err
			}
			if _, err := out.WriteAt(v, at); err != nil {
				return err
			}
			at, pos = at+int64(len(v)), h.end
		}
		if err := copyTo(out, at, pos, size); err != nil {
			return err
		}
		at += size - pos
		return out.Sync()
	}()
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, removeIfExists(fsys, tmp))
	}
	last := hs[len(hs)-1]
	beyond := active && last.end == size // how far the log was durable is not known: it goes on behind
	if beyond {
		if err := writeFile(fsys, p.file(offsetName(last.to, logSuffix)), nil, true); err != nil {
			return err
		}
		w.sealed = true
		w.did("began a new segment at offset %d", last.to)
	}
	if err := w.takeBack(seg, hs); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, seg.file.name); err != nil {
		return err
	}
	if err := fsys.SyncDir(p.dir); err != nil {
		return err
	}
	seg.size.Store(at)
	mark := syncedMark{seg.base, at}
	if beyond {
		mark = syncedMark{last.to, 0}
	} else if w.found.synced.base != seg.base {
		return nil
	}
	return writeFile(fsys, p.file(syncedFile), appendSynced(nil, mark), true)
}

// placeholder is an empty batch in the place of a range of offsets.
func placeholder(h hole, base, now int64, epoch int32) (batch.View, error) {
	if h.to-1-base > math.MaxInt32 || h.to-h.from > math.MaxInt32 {
		return nil, fmt.Errorf("offsets %d to %d are too many for one segment", h.from, h.to-1)
	}
	v := batch.Rebuild(batch.Build(batch.Options{}, batch.Record{Timestamp: now}), nil, batch.NoHorizon)
	be.PutUint32(v[23:], uint32(h.to-h.from-1))
	be.PutUint64(v[35:], math.MaxUint64) // no timestamp: -1
	be.PutUint64(v[27:], math.MaxUint64)
	v.SealCRC()
	v.SetBaseOffset(h.from)
	v.SetLeaderEpoch(epoch)
	return v, nil
}

// epochAt is the leader epoch of an offset.
func (w *repair) epochAt(offset int64) int32 {
	b, err := vfs.ReadFile(w.p.s.fs, w.p.file(epochFile), maxStateFile)
	if err != nil {
		return 0
	}
	es, _ := parseEpochs(b)
	epoch := int32(0)
	for _, e := range es {
		if e.start <= offset {
			epoch = e.epoch
		}
	}
	return epoch
}

// keep copies a range's bytes into a file of their own, durably.
func (w *repair) keep(seg *segment, h hole, copyTo func(vfs.File, int64, int64, int64) error) (name string, err error) {
	p, fsys := w.p, w.p.s.fs
	name = fmt.Sprintf("%s%d", p.file(offsetName(seg.base, cutInfix)), p.s.now().UnixMilli())
	out, err := fsys.Create(name)
	for errors.Is(err, fs.ErrExist) { // another cut within the millisecond
		name += "x"
		out, err = fsys.Create(name)
	}
	if err != nil {
		return "", err
	}
	if err = copyTo(out, 0, h.pos, h.end); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = fsys.SyncDir(p.dir)
	}
	return name, err
}

// takeBack removes what the directory says of bytes that are about to change.
func (w *repair) takeBack(seg *segment, hs []hole) error {
	p, fsys := w.p, w.p.s.fs
	rest := slices.DeleteFunc(slices.Clone(w.found.holes), func(h hole) bool {
		return slices.ContainsFunc(hs, func(c hole) bool { return c.base == h.base && c.from == h.from })
	})
	if len(rest) != len(w.found.holes) {
		w.found.holes = rest
		if len(rest) == 0 {
			if err := removeIfExists(fsys, p.file(damagedFile)); err != nil {
				return err
			}
		} else if err := vfs.WriteFileAtomic(fsys, p.file(damagedFile), encodeHoles(rest)); err != nil {
			return err
		}
	}
	if w.found.synced.base >= seg.base {
		// A lower bound stays true: the bytes before the first range do not move.
		if err := writeFile(fsys, p.file(syncedFile), appendSynced(nil, syncedMark{seg.base, min(hs[0].pos, w.found.synced.pos)}), true); err != nil {
			return err
		}
	}
	// The index of aborted transactions stays: what it says is of offsets, and a lost marker cannot be read again.
	for _, suffix := range [...]string{indexSuffix, timeSuffix} {
		if err := removeIfExists(fsys, p.file(offsetName(seg.base, suffix))); err != nil {
			return err
		}
	}
	return fsys.SyncDir(p.dir)
}

// indexes makes index files of segments anew from their logs.
func (w *repair) indexes(bases map[int64]map[string]bool) error {
	p := w.p
	segs := w.found.segs
	prod := newProducers(nil)
	if m, _, err := p.readSnapshot(segs[0].base); err == nil {
		prod = newProducers(m)
	}
	hs := slices.Clone(w.found.holes)
	p.holes.Store(&hs)
	for n, seg := range segs {
		err := func() error {
			f, err := p.s.fs.Open(seg.file.name)
			if err != nil {
				return err
			}
			defer f.Close()
			seg.startLive()
			c := &chunk{f: f, size: seg.size.Load(), limit: limitOf(segs, n)}
			expected := seg.base
			for pos := int64(0); pos < c.size; {
				v, reason, err := c.batchAt(pos, seg.base, expected, true)
				if err != nil {
					return err
				}
				if reason != "" {
					break // a torn tail: the next start's
				}
				seg.index(v, pos, p.Config().IndexInterval)
				if a, ended := prod.apply(v, 0); ended {
					seg.addAborted(a)
				}
				pos, expected = pos+int64(v.Size()), v.NextOffset()
			}
			return nil
		}()
		if err != nil {
			return fmt.Errorf("repair %s: %w", seg.file.name, err)
		}
		for _, suffix := range indexSuffixes {
			if !bases[seg.base][suffix] {
				continue
			}
			name := seg.path(suffix)
			if n == len(segs)-1 && !w.sealed { // those of the active segment are made at the next stop
				if err := removeIfExists(p.s.fs, name); err != nil {
					return err
				}
				w.did("removed %s, which is made anew by the next start", name)
				continue
			}
			if err := seg.writeIndex(suffix); err != nil {
				return fmt.Errorf("repair %s: %w", name, err)
			}
			w.did("made %s anew from the log", name)
		}
	}
	return p.s.fs.SyncDir(p.dir)
}
