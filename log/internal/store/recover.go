package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// recovery of one partition.
type recovery struct {
	p         *Partition
	st        *startState
	logStart  int64
	point     int64      // recovery point
	synced    syncedMark // base -1: none
	segs      []*segment
	snapshots []int64
	verify    mark // from here on batches are checked whole; before only headers are read
	cutBytes  int64
	cut       bool
	newHoles  bool
	distrust  bool      // scan even after a clean stop
	states    []sealJob // of the producers, at the beginning of the last two segments scanned
}

// loadPartition brings a partition to life from its directory. nil without an
// error: it was never created completely, and is removed.
func (s *Store) loadPartition(tp TopicPartition, st *startState) (*Partition, error) {
	p := s.newPartition(tp)
	r := &recovery{p: p, st: st, logStart: st.starts[tp], point: st.points[tp], synced: syncedMark{base: -1}}
	if err := r.list(); err != nil {
		return nil, err
	}
	if ok, err := r.metadata(); !ok || err != nil {
		return nil, err
	}
	if clean, ok := st.clean[tp]; ok && !r.distrust {
		if reason, err := r.trust(clean); err != nil {
			return nil, err
		} else if reason == "" {
			return p, nil
		} else {
			s.lg.Warn("the clean marker does not fit the files; the partition is scanned", "partition", tp.String(), "reason", reason)
		}
	}
	st.scanned.Store(true)
	s.counters.scannedPartitions.Add(1)
	if err := r.scan(); err != nil {
		return nil, err
	}
	return p, nil
}

// list takes stock of the directory and removes what a crash left over.
func (r *recovery) list() error {
	p := r.p
	names, err := p.rollForward()
	if err != nil {
		return err
	}
	bases := map[int64]bool{}
	for _, e := range names {
		if base, ok := parseOffsetName(e.Name(), logSuffix); ok {
			info, err := e.Info()
			if err != nil {
				return err
			}
			seg := p.newSegment(base)
			seg.size.Store(info.Size())
			if info.Size() > 0 {
				seg.started, seg.found = info.ModTime().UnixMilli(), true
			}
			r.segs = append(r.segs, seg)
			bases[base] = true
		}
	}
	slices.SortFunc(r.segs, func(a, b *segment) int { return int(min(1, max(-1, a.base-b.base))) })
	for _, e := range names {
		name := e.Name()
		remove := false
		switch {
		case strings.HasSuffix(name, cleanedSuffix), strings.HasSuffix(name, swapSuffix), strings.HasSuffix(name, deletedSuffix), strings.HasSuffix(name, tmpSuffix):
			remove = true
		default:
			for _, suffix := range [...]string{indexSuffix, timeSuffix, txnSuffix} {
				if base, ok := parseOffsetName(name, suffix); ok && !bases[base] {
					remove = true
				}
			}
			if o, ok := parseOffsetName(name, snapshotSuffix); ok {
				r.snapshots = append(r.snapshots, o)
			}
			if strings.HasPrefix(cutTail(name), cutInfix) {
				if info, err := e.Info(); err == nil {
					r.cutBytes += info.Size()
				}
			}
		}
		if remove {
			if err := removeIfExists(p.s.fs, p.file(name)); err != nil {
				return err
			}
		}
	}
	slices.Sort(r.snapshots)
	if !slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == damagedFile }) {
		return nil // there are thousands of partitions to start with, and hardly ever one with damage
	}
	b, err := vfs.ReadFile(p.s.fs, p.file(damagedFile), maxStateFile)
	switch {
	case isNotExist(err):
	case err != nil:
		return err
	default:
		hs, err := parseHoles(b)
		p.holes.Store(&hs)
		if err != nil {
			// Where the damage lies is found anew below; what is not scanned answers when it is read.
			p.s.lg.Error("list of damaged ranges is bad; the partition is scanned whole", "file", p.file(damagedFile), "cause", err)
			r.point, r.distrust = 0, true
		}
	}
	return nil
}

// cutTail is what follows the 20 digits of a name.
func cutTail(name string) string {
	if len(name) < 20 {
		return ""
	}
	return name[20:]
}

// dropOld finishes a retention that was cut short: the log start is durable, so
// the files below it go. Up to keep they are still needed for the state of the producers.
func (r *recovery) dropOld(keep int) (dropped int, err error) {
	for len(r.segs) > 1 && dropped < keep && r.segs[1].base <= r.logStart {
		if err := r.p.removeSegment(r.segs[0].base); err != nil {
			return dropped, err
		}
		r.segs = r.segs[1:]
		dropped++
	}
	return dropped, nil
}

// metadata reads the topic's id. ok is false for a partition whose creation was cut short.
func (r *recovery) metadata() (ok bool, err error) {
	p := r.p
	b, err := vfs.ReadFile(p.s.fs, p.file(metadataFile), 1<<16)
	if err == nil {
		p.topicID, err = parseMetadata(b)
		if err == nil {
			return true, nil
		}
	} else if !isNotExist(err) {
		return false, err
	}
	for _, seg := range r.segs {
		if seg.size.Load() > 0 || seg.base > 0 {
			p.s.lg.Error("partition.metadata is missing or bad; the topic id is unknown", "directory", p.dir, "cause", err)
			// Said once. The id is all zeros from now on, Kafka's word for none.
			return true, vfs.WriteFileAtomic(p.s.fs, p.file(metadataFile), encodeMetadata(p.topicID))
		}
	}
	p.s.lg.Info("creation was cut short; removed", "directory", p.dir)
	return false, p.s.fs.RemoveAll(p.dir)
}

// trust takes the clean marker's word. reason says why it cannot.
func (r *recovery) trust(c cleanPartition) (reason string, err error) {
	p := r.p
	if len(r.segs) == 0 {
		return "no segments", nil
	}
	last := r.segs[len(r.segs)-1]
	if last.base != c.Base || last.size.Load() != c.Size || r.logStart > c.End {
		return fmt.Sprintf("last segment %d of %d bytes, want %d of %d", last.base, last.size.Load(), c.Base, c.Size), nil
	}
	if c.Producers > 0 {
		m, _, err := p.readSnapshot(c.End)
		if err != nil {
			return err.Error(), nil
		}
		p.prod = newProducers(m)
	}
	if _, err := r.dropOld(len(r.segs)); err != nil {
		return "", err
	}
	last.maxTime, last.maxOffset, last.timeKnown = c.MaxTime, c.MaxOffset, true
	if err := p.loadEpochs(r.segs); err != nil {
		return "", err
	}
	p.logStart.Store(max(r.logStart, r.segs[0].base))
	p.start(r.segs, c.End)
	return "", nil
}

// readSnapshot reads the state of the producers at an offset. It is complete with
// the windows of .pwin; else each producer has the one batch that Kafka keeps.
func (p *Partition) readSnapshot(offset int64) (m map[int64]*producer, complete bool, err error) {
	name := p.file(offsetName(offset, snapshotSuffix))
	b, err := vfs.ReadFile(p.s.fs, name, maxStateFile)
	if err != nil {
		return nil, false, err
	}
	if m, err = parseSnapshot(b); err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	if b, err = vfs.ReadFile(p.s.fs, p.file(offsetName(offset, pwinSuffix)), maxStateFile); err == nil {
		err = mergeWindows(m, b)
	}
	if err != nil {
		p.s.lg.Warn("sequence windows are missing; a producer that resends several unanswered batches may be refused", "partition", p.tp.String(), "offset", offset, "cause", err)
		return m, false, nil
	}
	return m, true, nil
}

// scan reads the partition from a safe point to its end, cuts off what a crash
// tore, marks what is damaged, and rebuilds indexes and state.
func (r *recovery) scan() error {
	p := r.p
	if err := r.readSynced(); err != nil {
		return err
	}
	r.findVerify()
	from, m := r.findSnapshot()
	p.prod = newProducers(m)
	dropped, err := r.dropOld(from)
	if err != nil {
		return err
	}
	from -= dropped
	lastTime := p.s.now().UnixMilli() // keeps every producer that the log knows for another term

	expected := int64(-1)
	if from < len(r.segs) {
		expected = r.segs[from].base
		if from == 0 && r.st.starts != nil && expected > r.logStart {
			p.s.lg.Error("records at the beginning are missing: no segment holds the log start", "partition", p.tp.String(), "logStart", r.logStart, "firstSegment", expected)
		}
	}
	for i := from; i < len(r.segs); i++ {
		seg := r.segs[i]
		if seg.base > expected && seg.base <= r.logStart {
			// Deleted records, of which a loss of power took what was not synced. The state of
			// the producers there is not known.
			expected, r.cut = seg.base, true
			p.prod = newProducers(nil)
		}
		if seg.base != expected {
			prev := r.segs[i-1]
			size := prev.size.Load()
			if !r.acked(prev, size, expected) {
				// The end of the segment before was lost in a crash, and with it what follows.
				r.cut = true
				if err := r.dropFrom(i); err != nil {
					return err
				}
				break
			}
			if seg.base < expected {
				return fmt.Errorf("%s overlaps the segment before it, which reaches offset %d", seg.file.name, expected)
			}
			if p.holeEnding(prev.base, size) == nil {
				r.addHole(hole{from: expected, to: seg.base, base: prev.base, pos: size, end: size})
				p.s.lg.Error("acknowledged data is missing; reads of this range fail", "partition", p.tp.String(), "from", expected, "to", seg.base, "file", prev.file.name, "position", size)
			}
			expected = seg.base
		}
		snapshot, pwin := encodeSnapshot(p.prod.m)
		r.states = append(r.states[max(0, len(r.states)-1):], sealJob{seg: seg, snapshot: snapshot, pwin: pwin})
		next, cut, err := r.scanSegment(i, expected, lastTime)
		if err != nil {
			return err
		}
		expected = next
		if cut {
			if err := r.dropFrom(i + 1); err != nil {
				return err
			}
			break
		}
	}
	return r.finish(max(expected, 0))
}

func (r *recovery) readSynced() error {
	b, err := vfs.ReadFile(r.p.s.fs, r.p.file(syncedFile), syncedSize)
	if isNotExist(err) {
		return nil
	}
	if err == nil {
		var m syncedMark
		if m, err = parseSynced(b); err == nil {
			r.synced = m
			return nil
		}
	}
	// It is never synced: torn is normal after a loss of power.
	r.p.s.lg.Debug("durable position unknown", "partition", r.p.tp.String(), "cause", err)
	return nil
}

// acked reports whether the byte at pos of seg, where offset expected should
// begin, is below what is known to have been durable.
func (r *recovery) acked(seg *segment, pos, expected int64) bool {
	return expected < r.point || seg.base < r.synced.base || seg.base == r.synced.base && pos < r.synced.pos
}

// findVerify sets where checking begins: at the segment that holds the recovery
// point, or, when the page cache survived, at the last sync.
func (r *recovery) findVerify() {
	if len(r.segs) == 0 {
		return
	}
	// What lies below the log start is of no interest, and may be there in part: its removal is not synced.
	seg := r.segs[segmentFor(r.segs, max(r.point, r.logStart))]
	r.verify = mark{seg: seg}
	if r.st.sameBoot && r.synced.base >= seg.base {
		if i := segmentFor(r.segs, r.synced.base); r.segs[i].base == r.synced.base {
			r.verify = mark{seg: r.segs[i], pos: r.synced.pos}
		}
	}
}

// findSnapshot picks the segment where reading begins and the state of the
// producers there: the newest snapshot at the beginning of a segment that is not
// behind the point where checking begins; else the first segment, with nothing.
// A snapshot without its windows is taken only when the log does not reach back to the state's beginning.
func (r *recovery) findSnapshot() (from int, m map[int64]*producer) {
	if len(r.segs) == 0 {
		return 0, nil
	}
	at, partial := -1, map[int64]*producer(nil)
	for i := segmentFor(r.segs, r.verify.seg.base); i >= 0; i-- {
		if _, found := slices.BinarySearch(r.snapshots, r.segs[i].base); !found {
			continue
		}
		m, complete, err := r.p.readSnapshot(r.segs[i].base)
		switch {
		case err != nil:
			r.p.s.lg.Warn("producer snapshot is bad; an older one is used", "partition", r.p.tp.String(), "cause", err)
		case complete:
			return i, m
		case at < 0:
			at, partial = i, m
		}
	}
	if at >= 0 && r.segs[0].base > 0 {
		return at, partial
	}
	return 0, nil
}

// scanSegment reads segment i, whose first batch should begin at expected.
func (r *recovery) scanSegment(i int, expected, now int64) (next int64, cut bool, err error) {
	p := r.p
	seg := r.segs[i]
	f, err := seg.file.pin()
	if err != nil {
		return 0, false, err
	}
	defer seg.file.unpin()
	if !r.st.sameBoot {
		if err := f.DropCache(); err != nil {
			p.s.lg.Warn("page cache not dropped; a fault of the disk may hide behind it", "file", f.Name(), "error", err)
		}
	}
	size := seg.size.Load()
	seg.startLive()
	seg.touched = true
	c := &chunk{f: f, size: size, limit: limitOf(r.segs, i)}
	interval := p.cfg.Load().IndexInterval
	pos := int64(0)
	for pos < size {
		if h := p.holeAt(seg.base, pos); h != nil {
			pos, expected = h.end, h.to
			continue
		}
		whole := seg.base > r.verify.seg.base || seg.base == r.verify.seg.base && pos >= r.verify.pos
		v, reason, err := c.batchAt(pos, seg.base, expected, whole)
		if err != nil {
			return 0, false, err
		}
		if reason == "" {
			seg.index(v, pos, interval)
			if a, aborted := p.prod.apply(v, now); aborted {
				seg.addAborted(a)
			}
			pos, expected = pos+int64(v.Size()), v.NextOffset()
			continue
		}
		if !r.acked(seg, pos, expected) {
			return expected, true, r.cutTail(i, c, pos, expected, reason)
		}
		if pos, expected, err = r.damaged(i, c, pos, expected, reason); err != nil {
			return 0, false, err
		}
	}
	if i == len(r.segs)-1 && r.acked(seg, size, expected) {
		// The file is shorter than what was durable.
		if h := p.holeEnding(seg.base, size); h != nil {
			return h.to, false, nil
		}
		if _, expected, err = r.damaged(i, c, size, expected, "the file ends before its durable end"); err != nil {
			return 0, false, err
		}
	}
	return expected, false, nil
}

// limitOf is the offset that no batch of segment i reaches, 0 unknown.
func limitOf(segs []*segment, i int) int64 {
	if i+1 < len(segs) {
		return segs[i+1].base
	}
	return 0
}

// holeEnding is a known hole that reaches to the end of a segment.
func (p *Partition) holeEnding(base, size int64) *hole {
	hs := p.damage()
	for i := range hs {
		if h := &hs[i]; h.base == base && h.end == size {
			return h
		}
	}
	return nil
}

// damaged marks the acknowledged data that begins at pos as a hole and finds the
// batch after it. Nothing is cut off.
func (r *recovery) damaged(i int, c *chunk, pos, expected int64, reason string) (next, offset int64, err error) {
	seg := r.segs[i]
	h := hole{from: expected, base: seg.base, pos: pos, end: c.size}
	at, v, err := c.resync(pos+1, seg.base, expected+1)
	switch {
	case err != nil:
		return 0, 0, err
	case v != nil:
		h.to, h.end = v.BaseOffset(), at
	case i+1 < len(r.segs) && r.segs[i+1].base > expected:
		h.to = r.segs[i+1].base
	default:
		// How many records were there is unknown. New ones get offsets behind any that
		// these can have had.
		h.to = max(r.point, expected+max(1, r.synced.pos-pos, c.size-pos), r.synced.base)
	}
	r.addHole(h)
	r.p.s.lg.Error("acknowledged data is damaged; it is kept as it is, and reads of this range fail", "partition", r.p.tp.String(), "from", h.from, "to", h.to,
		"file", seg.file.name, "position", pos, "reason", reason)
	return h.end, h.to, nil
}

func (r *recovery) addHole(h hole) {
	r.p.withHole(h)
	r.newHoles = true
}

// withHole adds a damaged range to the list.
func (p *Partition) withHole(h hole) []hole {
	hs := append(slices.Clone(p.damage()), h)
	slices.SortFunc(hs, func(a, b hole) int { return int(min(1, max(-1, a.from-b.from))) })
	p.holes.Store(&hs)
	return hs
}

// maxCutBytes bounds what is kept of torn tails per partition.
const maxCutBytes = 64 << 20

// cutTail keeps the bytes from pos on in a file of their own and truncates.
func (r *recovery) cutTail(i int, c *chunk, pos, expected int64, reason string) error {
	p := r.p
	seg := r.segs[i]
	at, v, err := c.resync(pos+1, seg.base, expected)
	if err != nil {
		return err
	}
	args := []any{"partition", p.tp.String(), "offset", expected, "file", seg.file.name, "position", pos, "bytes", c.size - pos, "reason", reason}
	if v != nil {
		p.s.lg.Error("unacknowledged tail cut off, although valid batches follow the torn one", append(args, "nextValid", at)...)
	} else {
		p.s.lg.Warn("torn tail cut off", args...)
	}
	if err := r.keepCut(seg, c.f, pos, c.size); err != nil {
		return err
	}
	if err := c.f.Truncate(pos); err != nil {
		return err
	}
	seg.size.Store(pos)
	r.cut = true
	return nil
}

// keepCut copies [pos, end) to `<base>.cut-<ms>`, durably.
func (r *recovery) keepCut(seg *segment, f vfs.File, pos, end int64) error {
	p := r.p
	p.s.counters.cutBytes.Add(end - pos)
	n := min(end-pos, maxCutBytes-r.cutBytes)
	if n < end-pos {
		p.s.lg.Error("not all of a cut tail is kept: too much was kept before; remove old .cut files", "file", seg.file.name, "dropped", end-pos-max(n, 0))
	}
	if n <= 0 {
		return nil
	}
	r.cutBytes += n
	name := fmt.Sprintf("%s%d", p.file(offsetName(seg.base, cutInfix)), p.s.now().UnixMilli())
	out, err := p.s.fs.Create(name)
	for errors.Is(err, fs.ErrExist) { // a second cut within the millisecond
		name += "x"
		out, err = p.s.fs.Create(name)
	}
	if err != nil {
		return err
	}
	buf := make([]byte, min(n, 256<<10))
	for at := int64(0); at < n && err == nil; at += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), n-at)]
		if err = readFull(f, b, pos+at); err == nil {
			_, err = out.WriteAt(b, at)
		}
	}
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = p.s.fs.SyncDir(p.dir)
	}
	return err
}

// dropFrom takes the segments from i on out of the log: what came before them is gone.
func (r *recovery) dropFrom(i int) error {
	p := r.p
	for _, seg := range r.segs[i:] {
		if seg.size.Load() > 0 {
			p.s.lg.Warn("unacknowledged segment dropped, since the one before it is torn", "partition", p.tp.String(), "file", seg.file.name, "bytes", seg.size.Load())
			f, err := seg.file.pin()
			if err != nil {
				return err
			}
			err = r.keepCut(seg, f, 0, seg.size.Load())
			seg.file.unpin()
			if err != nil {
				return err
			}
			r.cut = true
		}
		seg.file.drop()
		if err := p.removeSegment(seg.base); err != nil {
			return err
		}
	}
	r.segs = r.segs[:i]
	return nil
}

// finish makes everything durable that recovery found or wrote, before anybody is served.
func (r *recovery) finish(end int64) error {
	p := r.p
	if n := len(r.segs); n > 0 {
		end = max(end, r.segs[n-1].base)
	}
	if end < r.logStart && len(r.segs) > 0 {
		// Only without group sync: deleted records were cut off besides. Begin anew behind them.
		p.s.lg.Warn("the log ends before its start; it begins anew there", "partition", p.tp.String(), "end", end, "logStart", r.logStart)
		if err := r.dropFrom(0); err != nil {
			return err
		}
		p.prod = newProducers(nil)
		r.cut = true
	}
	end = max(end, r.logStart)
	if err := p.loadEpochs(r.segs); err != nil {
		return err
	}
	holes := p.damage()
	tailHole := len(holes) > 0 && holes[len(holes)-1].to == end
	if len(r.segs) == 0 || tailHole && r.segs[len(r.segs)-1].base < end {
		seg, err := p.createSegment(end)
		if err != nil {
			return err
		}
		r.segs = append(r.segs, seg)
	}
	if r.newHoles {
		if err := vfs.WriteFileAtomic(p.s.fs, p.file(damagedFile), encodeHoles(holes)); err != nil {
			return err
		}
	}
	for i, seg := range r.segs {
		if !seg.isLive() {
			continue // not scanned: durable and indexed since long
		}
		if err := r.makeDurable(seg); err != nil {
			return err
		}
		if i == len(r.segs)-1 {
			break
		}
		if err := seg.writeIndexes(); err != nil {
			return err
		}
		seg.retire()
		seg.touched = false
	}
	for _, o := range r.snapshots {
		// One at the end, left by a stop that was cut short, does not vouch for index files yet, and
		// would seem to once a segment begins there.
		if o > end || o == end && r.segs[len(r.segs)-1].base < end {
			if err := p.removeSnapshot(o); err != nil {
				return err
			}
		}
	}
	for _, name := range [...]string{metadataFile, epochFile} {
		if err := syncFile(p.s.fs, p.file(name)); err != nil { // the process may have died while it created them
			return err
		}
	}
	if err := p.s.fs.SyncDir(p.dir); err != nil { // index files before the snapshot, see sealOne
		return err
	}
	last := r.segs[len(r.segs)-1]
	if err := r.snapshotAt(last); err != nil {
		return err
	}
	if err := writeFile(p.s.fs, p.file(syncedFile), appendSynced(nil, syncedMark{last.base, last.size.Load()}), false); err != nil {
		return err
	}
	if err := p.s.fs.SyncDir(p.dir); err != nil {
		return err
	}
	if r.cut || tailHole && r.newHoles {
		if err := p.bumpEpoch(end); err != nil {
			return err
		}
	}
	p.logStart.Store(max(r.logStart, r.segs[0].base))
	p.start(r.segs, end)
	return nil
}

// makeDurable syncs a segment that was scanned. After a kill the bytes behind the
// last sync come from the page cache, and a sync of which nobody learned any more may have failed and
// left them there as clean: they are written again, so that this sync covers them.
func (r *recovery) makeDurable(seg *segment) error {
	f, err := seg.file.pin()
	if err != nil {
		return err
	}
	defer seg.file.unpin()
	if r.st.sameBoot && r.verify.seg != nil && seg.base >= r.verify.seg.base {
		pos := int64(0)
		if seg == r.verify.seg {
			pos = r.verify.pos
		}
		size := seg.size.Load()
		buf := make([]byte, min(max(size-pos, 0), chunkSize))
		for ; pos < size; pos += int64(len(buf)) {
			buf = buf[:min(int64(len(buf)), size-pos)]
			if err := readFull(f, buf, pos); err != nil {
				return err
			}
			if _, err := f.WriteAt(buf, pos); err != nil {
				return fmt.Errorf("write again %s at byte %d: %w", f.Name(), pos, err)
			}
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// snapshotAt makes sure that the next recovery, which may begin at this segment,
// finds the state of the producers there.
func (r *recovery) snapshotAt(seg *segment) error {
	p := r.p
	if seg.base == 0 {
		return nil
	}
	if _, found := slices.BinarySearch(r.snapshots, seg.base); found {
		if _, complete, err := p.readSnapshot(seg.base); err == nil && complete {
			p.goodFrom, p.goodTo = seg.base, seg.base
			return nil
		}
	}
	var snapshot, pwin []byte
	for _, st := range r.states {
		if st.seg == seg {
			snapshot, pwin = st.snapshot, st.pwin
		}
	}
	switch {
	case snapshot != nil:
	case seg.size.Load() > 0:
		return nil // not scanned, and its snapshot is bad: the next recovery reads more
	default:
		snapshot, pwin = encodeSnapshot(p.prod.m)
	}
	p.goodFrom, p.goodTo = seg.base, seg.base
	return p.writeSnapshot(seg.base, snapshot, pwin)
}

// scanAborted finds the aborted transactions whose marker lies in target, by
// following all producers from the beginning of the log.
func (p *Partition) scanAborted(target *segment) ([]abortedTxn, error) {
	ps := newProducers(nil)
	var out []abortedTxn
	for _, seg := range *p.segs.Load() {
		if seg.base > target.base {
			break
		}
		file, err := seg.file.pin()
		if err != nil {
			return nil, p.openError(err)
		}
		err = seg.each(0, seg.size.Load(), func(pos int64, h batch.View) (bool, error) {
			v := h
			if h.IsControl() {
				v = make(batch.View, h.Size())
				if err := readFull(file, v, pos); err != nil {
					return false, err
				}
			}
			if a, aborted := ps.apply(v, 0); aborted && seg == target {
				out = append(out, a)
			}
			return true, nil
		})
		seg.file.unpin()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// chunk reads a segment front to back.
type chunk struct {
	f     vfs.File
	size  int64
	limit int64 // the base of the next segment, which no offset reaches; 0 unknown
	buf   []byte
	pos   int64 // of buf in the file
}

const (
	chunkSize  = 256 << 10
	maxControl = 64 << 10 // larger control batches do not exist
)

// need returns n bytes at pos, nil if the file ends before. The bytes are valid until the next call.
func (c *chunk) need(pos, n int64, ahead bool) ([]byte, error) {
	if pos+n > c.size {
		return nil, nil
	}
	if pos < c.pos || pos+n > c.pos+int64(len(c.buf)) {
		want := max(n, 4096)
		if ahead {
			want = max(n, chunkSize)
		}
		want = min(want, c.size-pos)
		if int64(cap(c.buf)) < want {
			c.buf = make([]byte, want, max(want, chunkSize))
		}
		c.buf = c.buf[:want]
		c.pos = pos
		if err := readFull(c.f, c.buf, pos); err != nil {
			c.buf = c.buf[:0]
			return nil, err
		}
	}
	i := pos - c.pos
	return c.buf[i : i+n], nil
}

// batchAt looks at the batch at pos: its header, and with whole its checksum. A
// view of the whole batch comes back for control batches, else of the header. reason says what is wrong.
func (c *chunk) batchAt(pos, base, expected int64, whole bool) (v batch.View, reason string, err error) {
	b, err := c.need(pos, batch.HeaderSize, whole)
	if err != nil {
		return nil, "", err
	}
	if b == nil {
		return nil, fmt.Sprintf("%d bytes are too few for a header", c.size-pos), nil
	}
	h := batch.View(b)
	size := int64(h.Size())
	switch {
	case h.MagicByte() != batch.Magic:
		return nil, fmt.Sprintf("magic %d, want %d", h.MagicByte(), batch.Magic), nil
	case h.Length() < batch.MinLength || size > c.size-pos:
		return nil, fmt.Sprintf("length %d with %d bytes left", h.Length(), c.size-pos), nil
	case h.BaseOffset() < expected || h.LastOffsetDelta() < 0 || h.Count() < 0:
		return nil, fmt.Sprintf("base offset %d, expected %d; last offset delta %d, count %d", h.BaseOffset(), expected, h.LastOffsetDelta(), h.Count()), nil
	case h.LastOffset()-base > math.MaxInt32:
		return nil, fmt.Sprintf("offset %d is too far from the segment's base", h.LastOffset()), nil
	case h.IsControl() && size > maxControl:
		return nil, fmt.Sprintf("control batch of %d bytes", size), nil
	}
	if reason, err := c.misplaced(pos, h, expected); err != nil || reason != "" {
		return nil, reason, err
	}
	if b, err = c.need(pos, batch.HeaderSize, whole); err != nil {
		return nil, "", err
	}
	h = batch.View(b)
	if !whole && !h.IsControl() {
		return h, "", nil
	}
	if size <= chunkSize {
		if b, err = c.need(pos, size, whole); err != nil {
			return nil, "", err
		}
		v = batch.View(b)
		if err := v.CheckFrame(); err != nil {
			return nil, err.Error(), nil
		}
		if err := v.CheckControl(); err != nil {
			return nil, err.Error(), nil
		}
		return v, "", nil
	}
	// A large batch: the checksum in steps, the header kept.
	h = slices.Clone(h)
	sum := batch.NewSum(h)
	for at := pos + batch.HeaderSize; at < pos+size; {
		n := min(chunkSize, pos+size-at)
		if b, err = c.need(at, n, true); err != nil {
			return nil, "", err
		}
		sum = sum.Add(b)
		at += n
	}
	if uint32(sum) != h.CRC() {
		return nil, fmt.Sprintf("crc %08x, want %08x", uint32(sum), h.CRC()), nil
	}
	return h, "", nil
}

// misplaced says why a batch's base offset, which no checksum covers, cannot be right: its offsets reach into what follows. Else
// one flipped bit there would make all that follows look wrong.
func (c *chunk) misplaced(pos int64, h batch.View, expected int64) (reason string, err error) {
	base, last, after := h.BaseOffset(), h.LastOffset(), pos+int64(h.Size())
	if c.limit > 0 && last >= c.limit {
		return fmt.Sprintf("offsets %d to %d reach into the next segment, which begins at %d", base, last, c.limit), nil
	}
	if base == expected {
		return "", nil
	}
	b, err := c.need(after, batch.HeaderSize, true)
	if err != nil || b == nil {
		return "", err
	}
	next := batch.View(b)
	if o := next.BaseOffset(); next.MagicByte() == batch.Magic && next.Length() >= batch.MinLength && int64(next.Size()) <= c.size-after && o > expected && o <= last {
		return fmt.Sprintf("base offset %d, expected %d; the batch behind it begins at %d", base, expected, o), nil
	}
	return "", nil
}

// resync looks byte by byte from pos for the next valid batch with at least this base offset.
func (c *chunk) resync(pos, base, atLeast int64) (at int64, v batch.View, err error) {
	for ; pos+batch.HeaderSize <= c.size; pos++ {
		b, err := c.need(pos, batch.HeaderSize, true)
		if err != nil {
			return 0, nil, err
		}
		if b[16] != batch.Magic {
			continue
		}
		v, reason, err := c.batchAt(pos, base, atLeast, true)
		if err != nil {
			return 0, nil, err
		}
		if reason == "" {
			return pos, v, nil
		}
	}
	return 0, nil, nil
}
