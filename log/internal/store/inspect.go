package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// Inspection looks at data directories that no process serves. It changes nothing, expects nothing to be well-formed, and reads
// every byte of the segments.

// Trouble is the kind of a Finding.
type Trouble string

// The kinds, from what the next start deals with by itself to what is lost.
const (
	TornTail    Trouble = "torn tail"      // unacknowledged bytes that a crash left; the next start cuts them off
	BadIndex    Trouble = "index mismatch" // an index file that does not fit its log
	BadState    Trouble = "bad state file" // a small file that cannot be read; the next start does without
	DamagedHole Trouble = "hole"           // acknowledged data that is not what was written
)

// Finding is something that is not as it should be.
type Finding struct {
	TopicPartition
	Trouble       Trouble
	File          string // path
	Position, End int64  // bytes of File; End is behind the last
	From, To      int64  // offsets [From, To) that are concerned; -1 where there are none
	Reason        string
	Known         bool // the directory's own list of damaged ranges has it
	base          int64
	inLog         bool // a range of the segment at base, which repair can replace
}

// Segment is one segment as it was found.
type Segment struct {
	Base, Next int64 // offsets; Next is behind the last
	File       string
	Bytes      int64
	Batches    int64
	Records    int64
	MaxTime    int64 // ms, -1 none
	Active     bool
}

// Inspected is one partition as it was found.
type Inspected struct {
	TopicPartition
	Dir           string
	TopicID       [16]byte
	LogStart      int64
	Durable       int64 // everything below was durable when that was noted last
	Next          int64 // offset behind the last record
	Bytes         int64
	Segments      []Segment
	Findings      []Finding
	Notes         []string // what is no trouble and yet worth knowing
	segs          []*segment
	holes         []hole
	synced        syncedMark
	recoveryPoint int64
	startsKnown   bool // there is a list of log starts
}

// Inspector is a data directory that is looked at.
type Inspector struct {
	s *Store // with file system and directory alone: nothing of it runs
	// Partitions are those found, in order.
	Partitions []TopicPartition
	// Findings concern the directory, not one partition.
	Findings []Finding
	Clean    bool // the last process stopped in order
	starts   map[TopicPartition]int64
	points   map[TopicPartition]int64
	lock     io.Closer
	lockText []byte // what .lock held before
}

// InspectDir opens a data directory for looking, or with write for repairing. *LockedError when a process has it; with an
// error of fs.ErrNotExist there is no such directory.
func InspectDir(fsys vfs.FS, dir string, write bool, o Options) (_ *Inspector, err error) {
	o = o.withDefaults()
	info, err := fsys.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", dir)
	}
	in := &Inspector{s: &Store{fs: fsys, dir: dir, o: o, lg: o.Logger, files: newFileCache(fsys, 64)}}
	lockName := filepath.Join(dir, lockFile)
	if in.lockText, err = readRegular(fsys, lockName, 1<<16); err != nil && !isNotExist(err) {
		return nil, err
	}
	var holder []byte
	if write {
		// The boot that was noted stays: it says in which one the unsynced pages were written.
		boot, _ := parseLock(in.lockText)
		in.lock, holder, err = fsys.Lock(lockName, lockContent(boot, o.Process))
	} else if in.lock, holder, err = fsys.LockRead(lockName); isNotExist(err) {
		in.lock, err = nil, nil // a copy, perhaps
	}
	if errors.Is(err, vfs.ErrLocked) {
		_, process := parseLock(holder)
		return nil, &LockedError{Dir: dir, Holder: process}
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	defer func() {
		if err != nil {
			in.Close()
		}
	}()
	return in, in.list()
}

// Close gives the directory back.
func (in *Inspector) Close() error {
	in.s.files.closeAll()
	if in.lock == nil {
		return nil
	}
	return in.lock.Close()
}

func (in *Inspector) list() error {
	fsys, dir := in.s.fs, in.s.dir
	entries, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if tp, ok := parseDirName(e.Name()); ok && e.IsDir() {
			in.Partitions = append(in.Partitions, tp)
		}
	}
	slices.SortFunc(in.Partitions, compareTP)
	offsets := func(name string) map[TopicPartition]int64 {
		path := filepath.Join(dir, name)
		b, err := readRegular(fsys, path, maxStateFile)
		if isNotExist(err) {
			return nil
		}
		var m map[TopicPartition]int64
		if err == nil {
			m, err = parseOffsets(b)
		}
		if err != nil {
			in.Findings = append(in.Findings, Finding{Trouble: BadState, File: path, From: -1, To: -1, Reason: err.Error()})
		}
		return m
	}
	in.starts, in.points = offsets(logStartFile), offsets(recoveryPointFile)
	offsets(cleanerFile)
	path := filepath.Join(dir, cleanFile)
	b, err := readRegular(fsys, path, maxStateFile)
	if err == nil {
		_, err = parseClean(b)
		in.Clean = err == nil
	}
	if err != nil && !isNotExist(err) {
		in.Findings = append(in.Findings, Finding{Trouble: BadState, File: path, From: -1, To: -1, Reason: err.Error()})
	}
	return nil
}

// readRegular reads a file, unless it is something that reading hangs at.
func readRegular(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	info, err := fsys.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return vfs.ReadFile(fsys, name, limit)
}

// Inspect reads a partition whole. Damage is in Findings; the error says what kept it from looking. read is called with bytes
// as they are read, nil for nobody.
func (in *Inspector) Inspect(tp TopicPartition, read func(n int64) error) (*Inspected, error) {
	if read == nil {
		read = func(int64) error { return nil }
	}
	p := in.s.newPartition(tp)
	i := &inspection{p: p, read: read, out: &Inspected{
		TopicPartition: tp, Dir: p.dir, LogStart: in.starts[tp], recoveryPoint: in.points[tp], startsKnown: in.starts != nil, synced: syncedMark{base: -1},
	}}
	if err := i.list(); err != nil {
		return nil, err
	}
	i.state()
	if err := i.log(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(i.out.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Position, b.Position))
	})
	return i.out, nil
}

type inspection struct {
	p     *Partition
	out   *Inspected
	read  func(n int64) error
	files map[string]fs.FileInfo
}

func (i *inspection) found(t Trouble, file string, pos, end, from, to int64, reason string) *Finding {
	i.out.Findings = append(i.out.Findings, Finding{TopicPartition: i.p.tp, Trouble: t, File: file, Position: pos, End: end, From: from, To: to, Reason: reason})
	return &i.out.Findings[len(i.out.Findings)-1]
}

func (i *inspection) badFile(t Trouble, name string, err error) {
	i.found(t, i.p.file(name), 0, 0, -1, -1, err.Error())
}

func (i *inspection) list() error {
	p := i.p
	entries, err := p.s.fs.List(p.dir)
	if err != nil {
		return err
	}
	i.files = map[string]fs.FileInfo{}
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			i.badFile(BadState, name, errors.New("no regular file"))
			continue
		}
		i.files[name] = info
		base, isLog := parseOffsetName(name, logSuffix)
		switch {
		case isLog:
			seg := p.newSegment(base)
			seg.size.Store(info.Size())
			i.out.segs = append(i.out.segs, seg)
			i.out.Bytes += info.Size()
		case strings.HasSuffix(name, swapSuffix):
			i.out.Notes = append(i.out.Notes, name+": a compaction was cut short; the next start completes it")
		case strings.HasSuffix(name, cleanedSuffix), strings.HasSuffix(name, deletedSuffix), strings.HasSuffix(name, tmpSuffix):
			i.out.Notes = append(i.out.Notes, name+": left over by a crash; the next start removes it")
		case strings.HasPrefix(cutTail(name), cutInfix):
			i.out.Notes = append(i.out.Notes, fmt.Sprintf("%s: %d bytes that were cut out of the log earlier and kept", name, info.Size()))
		}
	}
	slices.SortFunc(i.out.segs, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
	for name := range i.files {
		for _, suffix := range indexSuffixes {
			if base, ok := parseOffsetName(name, suffix); ok && i.files[offsetName(base, logSuffix)] == nil {
				i.out.Notes = append(i.out.Notes, name+": belongs to no segment; the next start removes it")
			}
		}
	}
	slices.Sort(i.out.Notes)
	return nil
}

// state reads the partition's small files.
func (i *inspection) state() {
	p, out := i.p, i.out
	small := func(name string, parse func([]byte) error) {
		if i.files[name] == nil {
			return
		}
		b, err := vfs.ReadFile(p.s.fs, p.file(name), maxStateFile)
		if err == nil {
			err = parse(b)
		}
		if err != nil {
			i.badFile(BadState, name, err)
		}
	}
	small(metadataFile, func(b []byte) (err error) { out.TopicID, err = parseMetadata(b); return err })
	small(epochFile, func(b []byte) error { _, err := parseEpochs(b); return err })
	small(damagedFile, func(b []byte) (err error) { out.holes, err = parseHoles(b); return err })
	// It is never synced: torn is normal after a loss of power, and no trouble.
	if b, err := readRegular(p.s.fs, p.file(syncedFile), syncedSize); err == nil {
		if m, err := parseSynced(b); err == nil {
			out.synced = m
		} else {
			out.Notes = append(out.Notes, syncedFile+": how far the log was durable is not known: "+err.Error())
		}
	}
	for _, name := range sortedNames(i.files) {
		if o, ok := parseOffsetName(name, snapshotSuffix); ok {
			small(name, func(b []byte) error {
				m, err := parseSnapshot(b)
				if pwin := offsetName(o, pwinSuffix); err == nil && i.files[pwin] != nil {
					small(pwin, func(b []byte) error { return mergeWindows(m, b) })
				}
				return err
			})
		}
	}
	if i.files[metadataFile] == nil && len(out.segs) > 0 {
		i.badFile(BadState, metadataFile, errors.New("missing: the topic's id is not known"))
	}
}

func sortedNames(m map[string]fs.FileInfo) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// acked reports whether the bytes at pos of a segment, where offset expected should begin, are known to have been durable. See
// recovery.acked.
func (out *Inspected) acked(seg *segment, pos, expected int64) bool {
	return expected < out.recoveryPoint || seg.base < out.synced.base || seg.base == out.synced.base && pos < out.synced.pos
}

func (i *inspection) log() error {
	out := i.out
	if len(out.segs) == 0 {
		if out.recoveryPoint > 0 {
			i.found(DamagedHole, i.p.dir, 0, 0, out.LogStart, out.recoveryPoint, "no segments")
		}
		return nil
	}
	expected := out.segs[0].base
	prod := newProducers(nil)
	if m, _, err := i.snapshotAt(expected); err == nil {
		prod = newProducers(m)
	}
	if expected > out.LogStart && out.startsKnown {
		i.found(DamagedHole, i.p.dir, 0, 0, out.LogStart, expected, "no segment holds the log start")
	}
	for n, seg := range out.segs {
		if seg.base > expected && seg.base <= out.LogStart {
			expected = seg.base // deleted records
			prod = newProducers(nil)
		}
		switch {
		case seg.base < expected:
			i.found(DamagedHole, seg.file.name, 0, seg.size.Load(), seg.base, expected, fmt.Sprintf("it overlaps the segment before it, which reaches offset %d", expected))
		case seg.base > expected && n > 0:
			prev := out.segs[n-1]
			i.gap(prev, expected, seg.base)
		}
		next, err := i.segment(n, seg, seg.base, prod)
		if err != nil {
			return err
		}
		prod.settle(next)
		expected = max(expected, next)
	}
	out.Next = expected
	last := out.segs[len(out.segs)-1]
	out.Durable = out.recoveryPoint
	if out.synced.base == last.base && out.synced.pos >= last.size.Load() {
		out.Durable = max(out.Durable, expected)
	}
	return nil
}

func (i *inspection) snapshotAt(base int64) (map[int64]*producer, bool, error) {
	if i.files[offsetName(base, snapshotSuffix)] == nil {
		return nil, false, fs.ErrNotExist
	}
	return i.p.readSnapshot(base)
}

// gap is a range of offsets between two segments that neither holds.
func (i *inspection) gap(prev *segment, from, to int64) {
	size := prev.size.Load()
	for _, h := range i.out.holes {
		if h.base == prev.base && h.end == size && h.to >= to {
			if h.pos == size { // else it was reported with the segment's bytes
				fi := i.found(DamagedHole, prev.file.name, h.pos, h.end, h.from, h.to, "known since it was found")
				fi.Known, fi.base, fi.inLog = true, prev.base, true
			}
			return
		}
	}
	if i.out.acked(prev, size, to) {
		fi := i.found(DamagedHole, prev.file.name, size, size, from, to, "no segment holds these offsets")
		fi.base, fi.inLog = prev.base, true
	} else {
		i.found(TornTail, prev.file.name, size, size, from, to, "no segment holds these offsets; what follows was not acknowledged")
	}
}

// segment reads a segment and its indexes side by side.
func (i *inspection) segment(n int, seg *segment, expected int64, prod *producers) (next int64, err error) {
	p, out := i.p, i.out
	active := n == len(out.segs)-1
	info := Segment{Base: seg.base, File: seg.file.name, Bytes: seg.size.Load(), MaxTime: -1, Active: active}
	defer func() { info.Next = next; out.Segments = append(out.Segments, info) }()
	f, err := p.s.fs.Open(seg.file.name)
	if err != nil {
		return expected, err
	}
	defer f.Close()
	idx := i.openIndexes(seg, active)
	c := &chunk{f: f, size: info.Bytes, limit: limitOf(out.segs, n)}
	var aborted []abortedTxn
	for pos := int64(0); pos < c.size; {
		at := pos
		if h := known(out.holes, seg.base, pos); h != nil {
			fi := i.found(DamagedHole, seg.file.name, h.pos, h.end, h.from, h.to, "known since it was found")
			fi.Known, fi.base, fi.inLog = true, seg.base, true
			pos, expected = h.end, h.to
			idx.passOver(pos, expected)
		} else {
			v, reason, err := c.batchAt(pos, seg.base, expected, true)
			if err != nil {
				return expected, err
			}
			if reason == "" {
				idx.batch(v, pos)
				if a, ended := prod.apply(v, 0); ended {
					aborted = append(aborted, a)
				}
				info.Batches++
				info.Records += int64(v.Count())
				info.MaxTime = max(info.MaxTime, v.MaxTimestamp())
				pos, expected = pos+int64(v.Size()), v.NextOffset()
			} else if !out.acked(seg, pos, expected) {
				i.found(TornTail, seg.file.name, pos, c.size, expected, -1, reason)
				idx.give()
				return expected, nil
			} else {
				h, err := i.hole(n, c, pos, expected, reason)
				if err != nil {
					return expected, err
				}
				pos, expected = h.end, h.to
				idx.passOver(pos, expected)
			}
		}
		if err := i.read(pos - at); err != nil {
			return expected, err
		}
	}
	if active && out.acked(seg, c.size, expected) {
		if !slices.ContainsFunc(out.holes, func(h hole) bool { return h.base == seg.base && h.end == c.size }) {
			h, err := i.hole(n, c, c.size, expected, "the file ends before its durable end")
			if err != nil {
				return expected, err
			}
			expected = h.to
		}
	}
	idx.end(info.MaxTime, aborted)
	return expected, nil
}

func known(hs []hole, base, pos int64) *hole {
	for i := range hs {
		if h := &hs[i]; h.base == base && h.pos <= pos && pos < h.end {
			return h
		}
	}
	return nil
}

// hole is acknowledged data from pos on that is not what was written, up to the next valid batch. See recovery.damaged.
func (i *inspection) hole(n int, c *chunk, pos, expected int64, reason string) (hole, error) {
	out := i.out
	seg := out.segs[n]
	h := hole{from: expected, base: seg.base, pos: pos, end: c.size}
	at, v, err := c.resync(pos+1, seg.base, expected+1)
	switch {
	case err != nil:
		return h, err
	case v != nil:
		h.to, h.end = v.BaseOffset(), at
	case n+1 < len(out.segs) && out.segs[n+1].base > expected:
		h.to = out.segs[n+1].base
	default:
		h.to = max(out.recoveryPoint, expected+max(1, out.synced.pos-pos, c.size-pos), out.synced.base)
	}
	fi := i.found(DamagedHole, seg.file.name, h.pos, h.end, h.from, h.to, reason)
	fi.base, fi.inLog = seg.base, true
	return h, nil
}

// EachBatch calls f for every batch of a partition that ends at or after from and begins before to, until it returns false. Where a
// file holds something else, v is nil, reason says why, and the bytes up to end are passed over. The view is the whole batch, or its
// header when the batch is larger than whole bytes; it is valid during the call.
func (in *Inspector) EachBatch(tp TopicPartition, from, to, whole int64, f func(file string, pos, end int64, v batch.View, reason string) (bool, error)) error {
	p := in.s.newPartition(tp)
	i := &inspection{p: p, out: &Inspected{TopicPartition: tp}}
	if err := i.list(); err != nil {
		return err
	}
	for n, seg := range i.out.segs {
		if seg.base >= to {
			return nil
		}
		if n+1 < len(i.out.segs) && i.out.segs[n+1].base <= from {
			continue
		}
		more, err := eachBatch(in.s.fs, seg, limitOf(i.out.segs, n), from, to, whole, f)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func eachBatch(fsys vfs.FS, seg *segment, limit, from, to, whole int64, f func(file string, pos, end int64, v batch.View, reason string) (bool, error)) (bool, error) {
	file, err := fsys.Open(seg.file.name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	c := &chunk{f: file, size: seg.size.Load(), limit: limit}
	expected := seg.base
	for pos := int64(0); pos < c.size; {
		v, reason, err := c.batchAt(pos, seg.base, expected, true)
		if err != nil {
			return false, err
		}
		if reason != "" {
			end := c.size
			at, next, err := c.resync(pos+1, seg.base, expected)
			if err != nil {
				return false, err
			}
			if next != nil {
				end = at
			}
			if more, err := f(seg.file.name, pos, end, nil, reason); err != nil || !more {
				return false, err
			}
			pos = end
			continue
		}
		size := int64(v.Size())
		expected = v.NextOffset()
		if v.BaseOffset() >= to {
			return false, nil
		}
		if v.LastOffset() >= from {
			if int64(len(v)) < size && size <= whole {
				b := make([]byte, size)
				if err := readFull(file, b, pos); err != nil {
					return false, err
				}
				v = b
			}
			if more, err := f(seg.file.name, pos, pos+size, v, ""); err != nil || !more {
				return false, err
			}
		}
		pos += size
	}
	return true, nil
}

// indexCheck follows a segment's index files while its batches go by.
type indexCheck struct {
	i        *inspection
	seg      *segment
	active   bool
	off, tim []byte
	has      [3]bool // offset, time, transaction index
	txns     []abortedTxn
	bad      [3]bool // said once
	maxTime  int64
}

var indexNames = [3]string{indexSuffix, timeSuffix, txnSuffix}

func (i *inspection) openIndexes(seg *segment, active bool) *indexCheck {
	c := &indexCheck{i: i, seg: seg, active: active, maxTime: -1}
	size := seg.size.Load()
	for k, limit := range [3]int64{size + indexEntry, 2*size + timeEntry, maxStateFile} {
		name := offsetName(seg.base, indexNames[k])
		if i.files[name] == nil {
			if k < 2 && !active && size > 0 {
				i.out.Notes = append(i.out.Notes, name+": missing; it is made anew when the segment is read")
			}
			continue
		}
		b, err := vfs.ReadFile(i.p.s.fs, i.p.file(name), limit)
		if err == nil {
			switch k {
			case 0:
				c.off, err = b, checkIndex(b, size)
			case 1:
				c.tim, err = b, checkTimeIndex(b)
			case 2:
				c.txns, err = parseAborted(b)
			}
		}
		c.has[k] = err == nil
		if err != nil {
			c.mismatch(k, "%s", err.Error())
		}
	}
	return c
}

func (c *indexCheck) mismatch(k int, format string, a ...any) {
	c.has[k] = false
	if c.bad[k] {
		return
	}
	c.bad[k] = true
	c.i.found(BadIndex, c.seg.path(indexNames[k]), 0, 0, -1, -1, fmt.Sprintf(format, a...)).base = c.seg.base
}

// batch is told of every batch.
func (c *indexCheck) batch(v batch.View, pos int64) {
	last := uint32(v.LastOffset() - c.seg.base)
	c.maxTime = max(c.maxTime, v.MaxTimestamp())
	if c.has[0] && len(c.off) > 0 {
		o, at := be.Uint32(c.off), int64(be.Uint32(c.off[4:]))
		switch {
		case at == pos && o == last:
			c.off = c.off[indexEntry:]
		case at <= pos:
			c.mismatch(0, "an entry says that the batch at byte %d ends with offset %d; the one at byte %d ends with %d", at, c.seg.base+int64(o), pos, v.LastOffset())
		}
	}
	if c.has[1] && len(c.tim) > 0 {
		ts, o := int64(be.Uint64(c.tim)), be.Uint32(c.tim[8:])
		switch {
		case o == last && ts == c.maxTime:
			c.tim = c.tim[timeEntry:]
		case o <= last:
			c.mismatch(1, "an entry says that %d is the largest timestamp up to offset %d; it is %d up to %d", ts, c.seg.base+int64(o), c.maxTime, v.LastOffset())
		}
	}
}

// passOver leaves out entries that lead into a damaged range.
func (c *indexCheck) passOver(pos, next int64) {
	for c.has[0] && len(c.off) > 0 && int64(be.Uint32(c.off[4:])) < pos {
		c.off = c.off[indexEntry:]
	}
	for c.has[1] && len(c.tim) > 0 && c.seg.base+int64(be.Uint32(c.tim[8:])) < next {
		c.maxTime = max(c.maxTime, int64(be.Uint64(c.tim)))
		c.tim = c.tim[timeEntry:]
	}
}

// give ends the check where the log ends in a torn tail: what the indexes say beyond goes with it.
func (c *indexCheck) give() { c.has = [3]bool{} }

// end is told what the whole segment holds.
func (c *indexCheck) end(maxTime int64, aborted []abortedTxn) {
	if c.has[0] && len(c.off) > 0 {
		c.mismatch(0, "an entry names offset %d at byte %d, where no batch is", c.seg.base+int64(be.Uint32(c.off)), be.Uint32(c.off[4:]))
	}
	if c.has[1] && len(c.tim) > 0 {
		c.mismatch(1, "an entry names offset %d, with which no batch ends", c.seg.base+int64(be.Uint32(c.tim[8:])))
	}
	if c.active {
		return // its index files are those of an earlier stop, if any
	}
	if c.has[1] && !c.bad[1] {
		size := c.i.files[offsetName(c.seg.base, timeSuffix)].Size()
		if size == 0 && maxTime >= 0 {
			c.mismatch(1, "it is empty, and the segment's largest timestamp is %d", maxTime)
		}
	}
	for _, a := range aborted {
		if !slices.ContainsFunc(c.txns, func(t abortedTxn) bool { return t.producer == a.producer && t.last == a.last }) && !c.bad[2] {
			c.mismatch(2, "the transaction of producer %d that was aborted at offset %d is missing", a.producer, a.last)
		}
	}
}
