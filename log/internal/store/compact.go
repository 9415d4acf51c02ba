package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/compact"
	"millrace/log/internal/vfs"
)

// Compaction rewrites the sealed segments of a partition, in groups that each become one segment, and swaps every group in whole:
//
//	<base>.cleaned, <base>.index.cleaned …    are written and synced
//	<base>-<end>.index.swap …                 then the indexes get this name, durably
//	<base>-<end>.swap                         then the log. From here on the group is replaced: recovery rolls forward
//	<base>.log.deleted …                      the old files step aside, the indexes get their final names, durably
//	<base>.log                                then the log
//
// end is the base of the segment that follows the group, so that the name says exactly what is replaced. Taken from the contents,
// the range would be too short whenever the last records were cleaned away, and old records would come back.
const (
	swapSuffix  = ".swap"
	cleanerFile = "cleaner-offset-checkpoint"
)

// Compaction is what one run over a partition did.
type Compaction struct {
	compact.Stats
	Groups   int   // of segments that were replaced
	CleanEnd int64 // below it every key has its newest record only
}

// errStopped ends a compaction because the store is closing, or the partition is being deleted.
var errStopped = errors.New("compaction was stopped")

// cleanable are the sealed segments whose records are decided, durable, and old enough; with how many of their bytes were never
// compacted.
func (p *Partition) cleanable(now time.Time) (segs []*segment, total, dirty int64, due bool) {
	cfg := p.cfg.Load()
	if !cfg.Compact || !p.known.Load() || len(p.damage()) > 0 || p.usable() != nil {
		return nil, 0, 0, false
	}
	all, n := p.sealed(p.lso.Load())
	clean := p.cleaned.Load()
	for i, seg := range all[:n] {
		end := all[i+1].base
		if end > clean && (cfg.MinCompactionLag > 0 || cfg.MaxCompactionLag >= 0) {
			newest, _, err := seg.lastTime()
			if err != nil {
				return nil, 0, 0, false // said by whoever reads it next
			}
			age := now.UnixMilli() - newest
			if age < cfg.MinCompactionLag.Milliseconds() {
				break
			}
			due = due || cfg.MaxCompactionLag >= 0 && age > cfg.MaxCompactionLag.Milliseconds()
		}
		segs = append(segs, seg)
		total += seg.size.Load()
		if end > clean {
			dirty += seg.size.Load()
		}
	}
	return segs, total, dirty, due && dirty > 0
}

// compactLoop compacts one partition at a time, the dirtiest first, until Close.
func (s *Store) compactLoop() {
	t := time.NewTicker(s.o.Maintain)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-t.C:
		}
		for s.CompactDirtiest() {
		}
	}
}

// CompactDirtiest compacts the partition with the largest share of bytes that were never compacted, if any has more than its
// min.cleanable.dirty.ratio. It reports whether it did something.
func (s *Store) CompactDirtiest() bool {
	var worst *Partition
	most := 0.0
	for _, p := range s.Partitions() {
		_, total, dirty, due := p.cleanable(s.now())
		if dirty == 0 {
			continue
		}
		ratio := float64(dirty) / float64(total)
		if due {
			ratio += 1
		}
		if (due || ratio >= p.Config().MinDirtyRatio) && ratio > most {
			worst, most = p, ratio
		}
	}
	if worst == nil {
		return false
	}
	c, err := worst.Compact()
	lg := s.lg.With("partition", worst.tp.String())
	switch {
	case errors.Is(err, errStopped):
		return false
	case err != nil:
		s.counters.compactionFailures.Add(1)
		lg.Warn("compaction failed; tried again later", "error", err)
		return false
	}
	lg.Info("compacted", "records", c.RecordsIn, "kept", c.RecordsOut, "bytes", c.BytesIn, "left", c.BytesOut, "segments", c.Groups)
	return true
}

// Compact compacts the partition's sealed segments now, whatever their share of dirty bytes. Only one call may run at a time.
func (p *Partition) Compact() (Compaction, error) {
	segs, _, dirty, _ := p.cleanable(p.s.now())
	if dirty == 0 {
		return Compaction{CleanEnd: p.cleaned.Load()}, nil
	}
	// A recovery must not begin inside what is merged here, for want of a snapshot at the merged segment's base.
	if err := p.s.Checkpoint(); err != nil {
		return Compaction{}, err
	}
	aborted, err := p.abortedBefore(segs)
	if err != nil {
		return Compaction{}, err
	}
	end := p.nextBase(segs[len(segs)-1])
	pace := &pace{s: p.s, p: p, rate: p.s.o.CompactRate, began: time.Now()}
	from := p.cleaned.Load()
	var m *compact.Map
	for budget := compact.DefaultBudget; ; budget *= 2 {
		// One batch can hold more keys than the usual map.
		if m, err = p.mapKeys(segs, from, budget, aborted, pace); err != nil {
			return Compaction{}, err
		}
		if m.End() > from || budget > 16*compact.DefaultBudget {
			break
		}
	}
	if m.End() <= from {
		return Compaction{}, fmt.Errorf("compact %v: a batch at offset %d has more keys than memory is set aside for", p.tp, from)
	}
	cleaner := compact.NewCleaner(compact.Options{
		Offsets: m.Offsets, End: m.End(), Aborted: aborted, Now: p.s.now().UnixMilli(),
		DeleteRetention: p.Config().DeleteRetention.Milliseconds(), LastOf: p.lastOffsets(),
	})
	out := Compaction{}
	for len(segs) > 0 && segs[0].base < m.End() {
		n := p.group(segs)
		groupEnd := end
		if n < len(segs) {
			groupEnd = segs[n].base
		}
		swapped, err := p.compactGroup(segs[:n], groupEnd, cleaner, pace)
		if err != nil {
			return out, err
		}
		if swapped {
			out.Groups++
		}
		segs = segs[n:]
	}
	p.cleaned.Store(min(m.End(), end))
	out.Stats, out.CleanEnd = cleaner.Stats, p.cleaned.Load()
	p.s.counters.compactions.Add(1)
	p.s.counters.compactedIn.Add(out.BytesIn)
	p.s.counters.compactedOut.Add(out.BytesOut)
	return out, p.s.writeCleaned()
}

// group is how many of the first segments fit into one.
func (p *Partition) group(segs []*segment) int {
	limit := p.Config().SegmentBytes
	size := segs[0].size.Load()
	n := 1
	for n < len(segs) {
		size += segs[n].size.Load()
		// The last offset of the next segment is not known here, but it was within reach of its own base.
		if size > limit || segs[n].base-segs[0].base > math.MaxInt32/2 {
			break
		}
		n++
	}
	return n
}

// abortedBefore lists the aborted transactions that have data in the segments. Their markers may lie behind.
func (p *Partition) abortedBefore(segs []*segment) ([]compact.Aborted, error) {
	end := p.nextBase(segs[len(segs)-1])
	var out []compact.Aborted
	for _, seg := range *p.segs.Load() {
		as, err := seg.abortedTxns()
		if err != nil {
			return nil, err
		}
		for _, a := range as {
			if a.first < end {
				out = append(out, compact.Aborted{ProducerID: a.producer, First: a.first, Last: a.last})
			}
		}
	}
	return out, nil
}

// lastOffsets tells the last offset of each producer's newest batch.
func (p *Partition) lastOffsets() func(int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := make(map[int64]int64, len(p.prod.m))
	for id, e := range p.prod.m {
		if e.n > 0 {
			last[id] = e.window[e.n-1].lastOffset()
		}
	}
	return func(id int64) int64 {
		if o, ok := last[id]; ok {
			return o
		}
		return -1
	}
}

func (p *Partition) mapKeys(segs []*segment, from int64, budget int, aborted []compact.Aborted, pace *pace) (*compact.Map, error) {
	m := compact.NewMap(budget, aborted)
	for _, seg := range segs {
		if next := p.nextBase(seg); next >= 0 && next <= from {
			continue
		}
		full := false
		err := seg.batches(func(v batch.View, _ bool) (bool, error) {
			if err := pace.step(len(v)); err != nil || v.NextOffset() <= from {
				return err == nil, err
			}
			var err error
			full, err = m.Add(v)
			return !full, err
		})
		if err != nil || full {
			return m, err
		}
	}
	return m, nil
}

// batches calls f for every batch of a sealed segment, whole and checked, until it returns false. The batch is valid during the
// call; last says that the file ends with it.
func (s *segment) batches(f func(v batch.View, last bool) (bool, error)) error {
	file, err := s.file.pin()
	if err != nil {
		return s.p.openError(err)
	}
	defer s.file.unpin()
	size := s.size.Load()
	c := &chunk{f: file, size: size}
	for pos := int64(0); pos < size; {
		b, err := c.need(pos, batch.HeaderSize, true)
		if err != nil {
			return err
		}
		if b == nil {
			return s.damage(pos, "too few bytes for a header")
		}
		n := int64(batch.View(b).Size())
		if n < batch.HeaderSize || n > size-pos {
			return s.damage(pos, "no batch header")
		}
		if b, err = c.need(pos, n, true); err != nil {
			return err
		}
		v := batch.View(b)
		if err := v.CheckFrame(); err != nil {
			return s.damage(pos, err.Error())
		}
		pos += n
		if more, err := f(v, pos == size); err != nil || !more {
			return err
		}
	}
	return nil
}

// compactGroup writes the group's segment anew and swaps it in, unless nothing would change.
func (p *Partition) compactGroup(old []*segment, end int64, cleaner *compact.Cleaner, pace *pace) (swapped bool, err error) {
	w, err := p.createCleaned(old[0].base)
	if err != nil {
		return false, p.compactError(err)
	}
	changed := len(old) > 1
	for i, seg := range old {
		markers := map[int64]bool{} // that stay, by offset
		err = seg.batches(func(v batch.View, last bool) (bool, error) {
			if err := pace.step(len(v)); err != nil {
				return false, err
			}
			out, err := cleaner.Batch(v, last && i == len(old)-1)
			if err != nil || out == nil {
				changed = true
				return err == nil, err
			}
			changed = changed || len(out) != len(v) || &out[0] != &v[0]
			if v.IsControl() {
				markers[v.LastOffset()] = true
			}
			return true, w.add(out)
		})
		if err == nil {
			err = w.aborted(seg, markers)
		}
		if err != nil {
			break
		}
	}
	if err == nil && changed {
		err = w.finish()
	}
	if err == nil && changed {
		// The file stays open: readers have it pinned before it has its final name.
		if swapped, err = p.swap(old, w, end); swapped {
			return true, err
		}
	}
	w.discard()
	return false, p.compactError(err)
}

// compactError tells what a full disk, a closing store and a deleted partition mean here.
func (p *Partition) compactError(err error) error {
	switch {
	case err == nil:
		return nil
	case p.gone.Load() || p.s.closed.Load():
		return errStopped
	case vfs.IsNoSpace(err):
		p.s.diskFull()
		return storageError("compact %v: the disk is full; nothing was changed", p.tp)
	}
	return fmt.Errorf("compact %v: %w", p.tp, err)
}

// cleanedSegment is a segment while compaction writes it.
type cleanedSegment struct {
	p   *Partition
	seg *segment
	f   vfs.File
	buf []byte
	pos int64 // written to the file
	// txn: there is an index of aborted transactions, an empty one perhaps. Where a segment before it had one, its own has to take its
	// place: a swap that is completed after a crash could not tell whose it is.
	txn bool
}

func (p *Partition) createCleaned(base int64) (*cleanedSegment, error) {
	if err := p.usable(); err != nil {
		return nil, err
	}
	seg := p.newSegment(base)
	seg.startLive()
	name := p.file(offsetName(base, cleanedSuffix))
	if err := removeIfExists(p.s.fs, name); err != nil {
		return nil, err
	}
	f, err := p.s.fs.Create(name)
	if err != nil {
		return nil, err
	}
	return &cleanedSegment{p: p, seg: seg, f: f}, nil
}

const cleanedBuffer = 1 << 20

func (w *cleanedSegment) add(v batch.View) error {
	w.seg.index(v, w.pos+int64(len(w.buf)), w.p.Config().IndexInterval)
	w.buf = append(w.buf, v...)
	if len(w.buf) < cleanedBuffer {
		return nil
	}
	return w.flush()
}

func (w *cleanedSegment) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if _, err := w.f.WriteAt(w.buf, w.pos); err != nil {
		return err
	}
	w.pos += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// aborted takes over what a segment knows of aborted transactions, of those whose marker stays. A reader that is told of another would
// wait for its marker in vain, and pass over all that its producer wrote since.
func (w *cleanedSegment) aborted(seg *segment, markers map[int64]bool) error {
	as, err := seg.abortedTxns()
	w.txn = w.txn || len(as) > 0
	for _, a := range as {
		if markers[a.last] {
			w.seg.addAborted(a)
		}
	}
	return err
}

// finish makes log and indexes durable under their .cleaned names.
func (w *cleanedSegment) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	s := w.seg
	s.size.Store(w.pos)
	s.mu.Lock()
	s.indexTime()
	files := map[string][]byte{indexSuffix: s.off, timeSuffix: s.tim}
	if w.txn {
		files[txnSuffix] = nil
	}
	for _, a := range s.aborted {
		files[txnSuffix] = appendAborted(files[txnSuffix], a)
	}
	s.mu.Unlock()
	for _, suffix := range indexSuffixes {
		if b, ok := files[suffix]; ok {
			if err := writeFile(w.p.s.fs, s.path(suffix+cleanedSuffix), b, true); err != nil {
				return err
			}
		}
	}
	return nil
}

var indexSuffixes = [...]string{indexSuffix, timeSuffix, txnSuffix}

// discard removes what was written; the next start removes what cannot be removed now.
func (w *cleanedSegment) discard() {
	w.f.Close()
	removeIfExists(w.p.s.fs, w.p.file(offsetName(w.seg.base, cleanedSuffix)))
	for _, suffix := range indexSuffixes {
		removeIfExists(w.p.s.fs, w.seg.path(suffix+cleanedSuffix))
	}
}

// swap replaces old by the written segment. swapped says that it did, or that only the next start can tell.
func (p *Partition) swap(old []*segment, w *cleanedSegment, end int64) (swapped bool, err error) {
	p.filesMu.Lock()
	defer p.filesMu.Unlock()
	if err := p.usable(); err != nil {
		return false, err
	}
	// Retention may have removed the beginning meanwhile.
	segs := *p.segs.Load()
	at := slices.Index(segs, old[0])
	if at < 0 || len(segs) < at+len(old)+1 || !slices.Equal(segs[at:at+len(old)], old) {
		return false, nil
	}
	if len(p.damage()) > 0 {
		return false, nil // found by the scrub meanwhile: its positions are those of the old files
	}
	fsys, next := p.s.fs, w.seg
	swapName := func(suffix string) string {
		return p.file(fmt.Sprintf("%020d-%020d%s%s", next.base, end, suffix, swapSuffix))
	}
	hasTxn := w.txn
	for _, suffix := range indexSuffixes {
		if suffix == txnSuffix && !hasTxn {
			continue
		}
		if err := fsys.Rename(next.path(suffix+cleanedSuffix), swapName(suffix)); err != nil {
			return false, err
		}
	}
	if err := fsys.SyncDir(p.dir); err != nil {
		return true, p.swapFailed(err)
	}
	if err := fsys.Rename(p.file(offsetName(next.base, cleanedSuffix)), swapName("")); err != nil {
		return true, p.swapFailed(err)
	}
	if err := fsys.SyncDir(p.dir); err != nil {
		return true, p.swapFailed(err)
	}

	// Replaced. Readers that come now get the new segment, through the open file. Those that still hold an old one either have its
	// file open, or find that it was dropped and look again.
	next.file.adopt(w.f)
	defer next.file.unpin()
	p.mu.Lock()
	segs = *p.segs.Load()
	at = slices.Index(segs, old[0])
	list := slices.Concat(segs[:at], []*segment{next}, segs[at+len(old):])
	p.segs.Store(&list)
	p.mu.Unlock()
	for _, seg := range old {
		seg.replace()
		seg.file.drop()
	}

	if err := p.finishSwap(old, swapName, hasTxn); err != nil {
		return true, p.swapFailed(err)
	}
	next.mu.Lock()
	next.timeKnown = true
	next.mu.Unlock()
	next.retire()
	for _, seg := range old {
		for _, suffix := range [...]string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
			if err := removeIfExists(fsys, seg.path(suffix+deletedSuffix)); err != nil {
				p.s.lg.Warn("files of a compacted segment could not be removed; tried again at the next start", "file", seg.file.name, "error", err)
			}
		}
	}
	return true, nil
}

// finishSwap gives the new files their names.
func (p *Partition) finishSwap(old []*segment, swapName func(string) string, hasTxn bool) error {
	fsys := p.s.fs
	for _, seg := range old {
		for _, suffix := range [...]string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
			if err := fsys.Rename(seg.path(suffix), seg.path(suffix+deletedSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, suffix := range indexSuffixes {
		if suffix == txnSuffix && !hasTxn {
			continue
		}
		if err := fsys.Rename(swapName(suffix), old[0].path(suffix)); err != nil {
			return err
		}
	}
	// No old segment may come back beside the new one, so their names go first.
	if err := fsys.SyncDir(p.dir); err != nil {
		return err
	}
	if err := fsys.Rename(swapName(""), old[0].path(logSuffix)); err != nil {
		return err
	}
	return fsys.SyncDir(p.dir)
}

// swapFailed takes the directory offline: between two names only the next start tells what is there.
func (p *Partition) swapFailed(err error) error {
	return p.s.goOffline(fmt.Errorf("swap in a compacted segment of %v: %w", p.tp, err))
}

// replace marks a segment whose files are about to belong to another.
func (s *segment) replace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced = true
}

// rollForward completes swaps that a crash cut short, before anything in the directory is looked at, and lists what is there then.
func (p *Partition) rollForward() ([]fs.DirEntry, error) {
	entries, err := p.s.fs.List(p.dir)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, e := range entries {
		base, end, ok := parseSwapName(e.Name())
		if !ok {
			continue
		}
		changed = true
		fsys := p.s.fs
		names := map[string]bool{}
		for _, e := range entries {
			names[e.Name()] = true
		}
		for name := range names {
			for _, suffix := range [...]string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
				o, ok := parseOffsetName(name, suffix)
				// The new segment's own index of aborted transactions may have its name already. The others are made anew.
				if !ok || o < base || o >= end || o == base && suffix == txnSuffix {
					continue
				}
				if err := removeIfExists(fsys, p.file(name)); err != nil {
					return nil, err
				}
			}
		}
		for _, suffix := range indexSuffixes {
			from := fmt.Sprintf("%020d-%020d%s%s", base, end, suffix, swapSuffix)
			if names[from] {
				if err := fsys.Rename(p.file(from), p.file(offsetName(base, suffix))); err != nil {
					return nil, err
				}
			}
		}
		if err := fsys.SyncDir(p.dir); err != nil {
			return nil, err
		}
		if err := fsys.Rename(p.file(e.Name()), p.file(offsetName(base, logSuffix))); err != nil {
			return nil, err
		}
		if err := fsys.SyncDir(p.dir); err != nil {
			return nil, err
		}
		p.s.lg.Info("compaction that was cut short is completed", "partition", p.tp.String(), "from", base, "to", end)
	}
	if changed {
		return p.s.fs.List(p.dir)
	}
	return entries, nil
}

// parseSwapName takes apart the name of a swapped log, `<base>-<end>.swap`.
func parseSwapName(name string) (base, end int64, ok bool) {
	rest, ok := strings.CutSuffix(name, swapSuffix)
	if !ok || len(rest) != 41 || rest[20] != '-' {
		return 0, 0, false
	}
	base, err1 := strconv.ParseInt(rest[:20], 10, 64)
	end, err2 := strconv.ParseInt(rest[21:], 10, 64)
	return base, end, err1 == nil && err2 == nil && base < end
}

// readCleaned reads how far partitions were compacted. It is only advice, since a pass that begins too early does no harm. One
// that begins too late would: what was cut off and written anew is dirty again.
func (s *Store) readCleaned() error {
	points, err := s.readCheckpoint(cleanerFile)
	if err != nil {
		return err
	}
	for _, p := range s.Partitions() {
		p.cleaned.Store(min(points[p.tp], p.end.Load()))
	}
	return nil
}

func (s *Store) writeCleaned() error {
	s.ckptMu.Lock()
	defer s.ckptMu.Unlock()
	points := map[TopicPartition]int64{}
	for _, p := range s.Partitions() {
		if o := p.cleaned.Load(); o > 0 {
			points[p.tp] = o
		}
	}
	path := filepath.Join(s.dir, cleanerFile)
	if err := vfs.WriteFileAtomic(s.fs, path, encodeOffsets(points)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// pace keeps compaction from taking the disk from those who wait for it.
type pace struct {
	s     *Store
	p     *Partition
	rate  int64 // bytes a second; negative: no limit
	began time.Time
	bytes int64
	since int64
}

// step counts bytes that were read, and sleeps when they were too many.
func (c *pace) step(n int) error {
	c.bytes += int64(n)
	if c.since += int64(n); c.since < 1<<20 {
		return nil
	}
	c.since = 0
	if err := c.p.usable(); err != nil {
		return err
	}
	if c.rate <= 0 {
		return nil
	}
	return sleepUntil(c.s.quit, c.began, c.bytes, c.rate)
}

// sleepUntil waits until so many bytes since began are no more than rate bytes a second, or errStopped.
func sleepUntil(quit <-chan struct{}, began time.Time, bytes, rate int64) error {
	ahead := time.Duration(float64(bytes)/float64(rate)*float64(time.Second)) - time.Since(began)
	if ahead <= 0 {
		return nil
	}
	t := time.NewTimer(ahead)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-quit:
		return errStopped
	}
}
