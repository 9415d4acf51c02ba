package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// segment is one .log file with its indexes. The last one of a partition is
// active; the others never change, except that compaction replaces them whole.
type segment struct {
	p    *Partition
	base int64
	file cachedFile
	size atomic.Int64 // bytes of whole batches; what a reader sees below it stays

	// Guarded by the partition's lock.
	reserved int64 // bytes set aside on disk
	dirty    bool  // in Partition.dirty, pinned
	started  int64 // ms, when its first batch was written, 0 if empty
	found    bool  // started is the file's time, as it was found at the start
	touched  bool  // written to, or scanned, since its index files were written

	mu       sync.Mutex // guards what follows; taken last
	replaced bool       // compaction has put another in its place: its index files are not its own any more
	// The indexes in file format. live: they are complete in memory and their files
	// may not exist (the active segment, and a sealed one until its files are
	// written). Else off is a cache of the file, nil when not loaded. Entries are only
	// ever appended, so that a copied slice header stays valid.
	live      bool
	off, tim  []byte
	since     int   // bytes written since the last entry of off
	maxTime   int64 // largest timestamp of a batch, -1 none
	maxOffset int64 // last offset of that batch
	timeKnown bool  // maxTime is right; else it is read from the time index
	aborted   []abortedTxn
	txnKnown  bool  // aborted is complete; else it is read from the file
	next      int64 // offset after the last batch of a sealed segment, 0 not known yet
	hints     [4]hint
	nextHint  int
}

// hint remembers where a reader stopped, so that its next read need not search.
type hint struct{ offset, pos int64 }

func (p *Partition) newSegment(base int64) *segment {
	s := &segment{p: p, base: base, maxTime: -1, maxOffset: base}
	s.file = cachedFile{cache: p.s.files, name: s.path(logSuffix)}
	s.file.onClose = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forgetIndex()
	}
	return s
}

func (s *segment) path(suffix string) string {
	return filepath.Join(s.p.dir, offsetName(s.base, suffix))
}

// older reports whether the segment is due for its age: segment.ms less its jitter, and in a compacted topic no more than
// max.compaction.lag.ms, since only what is sealed is compacted. Called with the partition's lock.
func (s *segment) older(cfg *PartitionConfig, now int64) bool {
	if s.started == 0 {
		return false
	}
	if s.found {
		// A file that is appended to after a restart looks young. Its first record knows better.
		s.found = false
		_ = s.each(0, s.size.Load(), func(_ int64, h batch.View) (bool, error) {
			if t := h.MaxTimestamp(); t > 0 {
				s.started = min(s.started, t)
			}
			return false, nil
		})
	}
	limit := cfg.SegmentAge.Milliseconds()
	if cfg.Compact && cfg.MaxCompactionLag >= 0 {
		limit = min(limit, cfg.MaxCompactionLag.Milliseconds())
	}
	if jitter := min(cfg.SegmentJitter.Milliseconds(), limit); jitter > 0 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%d", s.p.tp, s.base)
		limit -= int64(h.Sum64() % uint64(jitter))
	}
	return now-s.started > limit
}

// indexFull reports whether the offset index has no room for another entry.
func (s *segment) indexFull(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return limit > 0 && len(s.off)+indexEntry > limit/indexEntry*indexEntry
}

func (s *segment) forgetIndex() {
	if !s.live && s.off != nil {
		s.p.s.files.indexBytes.Add(-int64(len(s.off)))
		s.off = nil
	}
}

// startLive makes the segment's indexes empty and kept in memory.
func (s *segment) startLive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetIndex()
	s.live, s.off, s.tim, s.since = true, nil, nil, 0
	s.maxTime, s.maxOffset, s.timeKnown = -1, s.base, true
	s.aborted, s.txnKnown = nil, true
}

// index takes up a batch at pos, in the order of the file, as Kafka does: an
// entry for each batch that comes after more than interval bytes.
func (s *segment) index(v batch.View, pos int64, interval int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := v.MaxTimestamp(); t > s.maxTime {
		s.maxTime, s.maxOffset = t, v.LastOffset()
	}
	if s.since > interval {
		s.off = be.AppendUint32(s.off, uint32(v.LastOffset()-s.base))
		s.off = be.AppendUint32(s.off, uint32(pos))
		s.indexTime()
		s.since = 0
	}
	s.since += v.Size()
}

// indexTime appends the largest timestamp so far if it is new.
func (s *segment) indexTime() {
	if s.maxTime < 0 {
		return
	}
	if n := len(s.tim); n > 0 && int64(be.Uint64(s.tim[n-timeEntry:])) >= s.maxTime {
		return
	}
	s.tim = be.AppendUint64(s.tim, uint64(s.maxTime))
	s.tim = be.AppendUint32(s.tim, uint32(s.maxOffset-s.base))
}

func (s *segment) addAborted(a abortedTxn) {
	s.mu.Lock()
	s.aborted = append(s.aborted, a)
	s.mu.Unlock()
}

// writeIndexes writes the index files from memory, the time index with its last
// entry, and syncs them. Each is replaced as a whole: recovery may write again what
// a snapshot already vouches for. Their names become durable by the caller's SyncDir.
func (s *segment) writeIndexes() error {
	for _, suffix := range indexSuffixes {
		if err := s.writeIndex(suffix); err != nil {
			return err
		}
	}
	return nil
}

func (s *segment) writeIndex(suffix string) error {
	var b []byte
	s.mu.Lock()
	switch suffix {
	case indexSuffix:
		b = s.off
	case timeSuffix:
		s.indexTime()
		b = s.tim
	case txnSuffix:
		for _, a := range s.aborted {
			b = appendAborted(b, a)
		}
	}
	s.mu.Unlock()
	if suffix == txnSuffix && b == nil {
		return removeIfExists(s.p.s.fs, s.path(txnSuffix))
	}
	return vfs.WriteFileAtomic(s.p.s.fs, s.path(suffix), b)
}

// retire ends live: the files hold what memory held.
func (s *segment) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.off, s.tim = false, nil, nil
}

// offsetIndex returns the offset index in file format, from memory or from disk.
// A missing or bad file is made anew from the log.
func (s *segment) offsetIndex() ([]byte, error) {
	s.mu.Lock()
	if s.live || s.off != nil {
		off := s.off
		s.mu.Unlock()
		return off, nil
	}
	s.mu.Unlock()
	if s.size.Load() == 0 {
		return nil, nil
	}
	off, err := vfs.ReadFile(s.p.s.fs, s.path(indexSuffix), s.size.Load()+indexEntry)
	if s.isReplaced() {
		return nil, errDropped
	}
	if err == nil {
		err = checkIndex(off, s.size.Load())
	}
	if err != nil {
		if off, _, err = s.rebuildIndexes(err); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live && s.off == nil {
		s.off = off
		if s.off == nil {
			s.off = []byte{}
		}
		s.p.s.files.indexBytes.Add(int64(len(off)))
	}
	return off, nil
}

// timeIndex is offsetIndex for the time index, which is not kept.
func (s *segment) timeIndex() ([]byte, error) {
	s.mu.Lock()
	live, tim := s.live, s.tim
	s.mu.Unlock()
	if live || s.size.Load() == 0 {
		return tim, nil
	}
	tim, err := vfs.ReadFile(s.p.s.fs, s.path(timeSuffix), 2*s.size.Load()+timeEntry)
	if s.isReplaced() {
		return nil, errDropped
	}
	if err == nil {
		err = checkTimeIndex(tim)
	}
	if err == nil && len(tim) == 0 && s.size.Load() > 0 {
		err = errors.New("empty beside a log that is not") // every batch has a timestamp, or -1 throughout; looking costs one scan
	}
	if err != nil {
		if _, tim, err = s.rebuildIndexes(err); err != nil {
			return nil, err
		}
	}
	return tim, nil
}

// rebuildIndexes makes both indexes from the batches' headers and writes their
// files, which is an optimisation and may fail.
func (s *segment) rebuildIndexes(cause error) (off, tim []byte, err error) {
	tmp := &segment{p: s.p, base: s.base, maxTime: -1}
	err = s.each(0, s.size.Load(), func(pos int64, h batch.View) (bool, error) {
		tmp.index(h, pos, s.p.Config().IndexInterval)
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	tmp.indexTime()
	lg := s.p.s.lg.With("file", s.path(indexSuffix), "cause", cause)
	fsys := s.p.s.fs
	s.mu.Lock() // whoever replaces the segment waits
	defer s.mu.Unlock()
	if s.replaced {
		return nil, nil, errDropped
	}
	if err := errors.Join(vfs.WriteFileAtomic(fsys, s.path(indexSuffix), tmp.off), vfs.WriteFileAtomic(fsys, s.path(timeSuffix), tmp.tim)); err != nil {
		lg.Warn("index rebuilt in memory; its file could not be written", "error", err)
	} else {
		lg.Info("index rebuilt from the log")
	}
	return tmp.off, tmp.tim, nil
}

func checkIndex(b []byte, size int64) error {
	if len(b)%indexEntry != 0 {
		return fmt.Errorf("size %d is not a multiple of %d", len(b), indexEntry)
	}
	lastOff, lastPos := int64(-1), int64(0) // the first batch never has an entry
	for i := 0; i < len(b); i += indexEntry {
		off, pos := int64(be.Uint32(b[i:])), int64(be.Uint32(b[i+4:]))
		if off <= lastOff || pos <= lastPos || pos > size-batch.HeaderSize {
			return fmt.Errorf("entry %d: offset +%d at %d does not follow +%d at %d in a log of %d bytes", i/indexEntry, off, pos, lastOff, lastPos, size)
		}
		lastOff, lastPos = off, pos
	}
	return nil
}

func checkTimeIndex(b []byte) error {
	if len(b)%timeEntry != 0 {
		return fmt.Errorf("size %d is not a multiple of %d", len(b), timeEntry)
	}
	lastTime, lastOff := int64(-1), int64(-1)
	for i := 0; i < len(b); i += timeEntry {
		t, off := int64(be.Uint64(b[i:])), int64(be.Uint32(b[i+8:]))
		if t <= lastTime || off <= lastOff {
			return fmt.Errorf("entry %d does not follow the one before", i/timeEntry)
		}
		lastTime, lastOff = t, off
	}
	return nil
}

// lastTime is the largest timestamp of the segment and the last offset of the batch that has it; -1 for none.
func (s *segment) lastTime() (ms, offset int64, err error) {
	s.mu.Lock()
	if s.live || s.timeKnown {
		defer s.mu.Unlock()
		return s.maxTime, s.maxOffset, nil
	}
	s.mu.Unlock()
	tim, err := s.timeIndex()
	if err != nil {
		return -1, s.base, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(tim); n > 0 && !s.timeKnown {
		s.maxTime = int64(be.Uint64(tim[n-timeEntry:]))
		s.maxOffset = s.base + int64(be.Uint32(tim[n-timeEntry+8:]))
	}
	s.timeKnown = true
	return s.maxTime, s.maxOffset, nil
}

// abortedTxns are the aborted transactions whose marker lies in this segment.
func (s *segment) abortedTxns() ([]abortedTxn, error) {
	s.mu.Lock()
	if s.txnKnown {
		defer s.mu.Unlock()
		return s.aborted, nil
	}
	s.mu.Unlock()
	b, err := vfs.ReadFile(s.p.s.fs, s.path(txnSuffix), maxStateFile)
	if s.isReplaced() {
		return nil, errDropped
	}
	var as []abortedTxn
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, storageError("read %s: %v", s.path(txnSuffix), err)
	default:
		if as, err = parseAborted(b); err != nil {
			s.p.s.lg.Warn("index of aborted transactions is bad; made anew from the log", "file", s.path(txnSuffix), "cause", err)
			if as, err = s.p.scanAborted(s); err != nil {
				return nil, err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.txnKnown {
		s.aborted, s.txnKnown = as, true
	}
	return s.aborted, nil
}

// window reads headers through a small buffer: many small batches per read, and
// not much more than the header of a large one.
type window struct {
	buf    [4096]byte
	pos, n int64
}

var windows = sync.Pool{New: func() any { return new(window) }}

// header returns the header at pos of f, which has at least HeaderSize bytes there. It is valid until the next call.
func (w *window) header(f vfs.File, pos int64) (batch.View, error) {
	if pos < w.pos || pos+batch.HeaderSize > w.pos+w.n {
		n, err := f.ReadAt(w.buf[:], pos)
		if n < batch.HeaderSize {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			w.n = 0
			return nil, err
		}
		w.pos, w.n = pos, int64(n)
	}
	i := pos - w.pos
	return batch.View(w.buf[i : i+batch.HeaderSize]), nil
}

// each calls f for the header of every batch in [pos, end), which are bounds of
// batches, until f returns false. Damaged ranges are passed over. The header is valid during the call.
func (s *segment) each(pos, end int64, f func(pos int64, h batch.View) (bool, error)) error {
	file, err := s.file.pin()
	if err != nil {
		return s.p.openError(err)
	}
	defer s.file.unpin()
	w := windows.Get().(*window)
	w.n = 0
	defer windows.Put(w)
	for pos < end {
		if h := s.p.holeAt(s.base, pos); h != nil {
			pos = h.end
			continue
		}
		if end-pos < batch.HeaderSize {
			return s.damage(pos, "too few bytes for a header")
		}
		h, err := w.header(file, pos)
		if err != nil {
			return storageError("read %s at byte %d: %v", file.Name(), pos, err)
		}
		if h.MagicByte() != batch.Magic || h.Length() < batch.MinLength || int64(h.Size()) > end-pos {
			return s.damage(pos, "no batch header")
		}
		next := pos + int64(h.Size())
		if more, err := f(pos, h); err != nil || !more {
			return err
		}
		pos = next
	}
	return nil
}

func (s *segment) damage(pos int64, what string) error {
	return &batch.Error{Code: batch.CorruptMessage, Reason: fmt.Sprintf("%s: batch at byte %d: %s", s.path(logSuffix), pos, what)}
}

// goLive takes the indexes of a segment that was closed cleanly into memory, to be continued.
func (s *segment) goLive() error {
	if s.isLive() {
		return nil
	}
	off, err := s.offsetIndex()
	if err != nil {
		return err
	}
	tim, err := s.timeIndex()
	if err != nil {
		return err
	}
	if _, err = s.abortedTxns(); err != nil {
		return err
	}
	if _, _, err = s.lastTime(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetIndex()
	s.live, s.off, s.tim, s.since = true, off[:len(off):len(off)], tim[:len(tim):len(tim)], 0
	return nil
}

// errStaleIndex says that an index entry does not lead to the batch it names.
var errStaleIndex = errors.New("an entry does not lead to its batch")

// find returns the position of the first batch in [0, end) that ends at or after
// offset; end when there is none. end is a bound of batches.
func (s *segment) find(offset, end int64) (int64, error) {
	s.mu.Lock()
	for _, h := range s.hints {
		if h.offset == offset && h.pos > 0 && h.pos <= end {
			s.mu.Unlock()
			return h.pos, nil
		}
	}
	s.mu.Unlock()
	idx, err := s.offsetIndex()
	if err != nil {
		return 0, err
	}
	pos, err := s.findWith(idx, offset, end)
	if code, _ := batch.CodeOf(err); err != nil && (errors.Is(err, errStaleIndex) || code == batch.CorruptMessage) && len(idx) > 0 {
		// The index may be to blame: look again without it, then with a new one.
		if pos, err = s.findWith(nil, offset, end); err == nil && !s.isLive() {
			s.mu.Lock()
			s.forgetIndex()
			s.mu.Unlock()
			_, _, err = s.rebuildIndexes(errStaleIndex)
		}
	}
	return pos, err
}

// isReplaced is asked after a file was read by its name: if it is true the file may have been another segment's.
func (s *segment) isReplaced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaced
}

func (s *segment) isLive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

func (s *segment) findWith(idx []byte, offset, end int64) (int64, error) {
	rel := offset - s.base
	// The last entry whose batch ends at or before offset, and lies before end.
	i := sort.Search(len(idx)/indexEntry, func(i int) bool {
		return int64(be.Uint32(idx[i*indexEntry:])) > rel || int64(be.Uint32(idx[i*indexEntry+4:])) >= end
	})
	start, last := int64(0), int64(-1)
	if i > 0 {
		last, start = s.base+int64(be.Uint32(idx[(i-1)*indexEntry:])), int64(be.Uint32(idx[(i-1)*indexEntry+4:]))
	}
	pos := end
	err := s.each(start, end, func(at int64, h batch.View) (bool, error) {
		if at == start && i > 0 && h.LastOffset() != last {
			return false, errStaleIndex
		}
		if h.LastOffset() < offset {
			return true, nil
		}
		pos = at
		return false, nil
	})
	return pos, err
}

// endOffset is the offset after the last batch of a sealed segment.
func (s *segment) endOffset() (int64, error) {
	s.mu.Lock()
	next := s.next
	s.mu.Unlock()
	if next > 0 {
		return next, nil
	}
	idx, err := s.offsetIndex()
	if err != nil {
		return 0, err
	}
	size, start := s.size.Load(), int64(0)
	if n := len(idx); n > 0 {
		start = int64(be.Uint32(idx[n-indexEntry+4:]))
	}
	next = s.base
	walk := func(start int64) error {
		return s.each(start, size, func(_ int64, h batch.View) (bool, error) {
			next = h.NextOffset()
			return true, nil
		})
	}
	if err := walk(start); err != nil { // a bad index entry, perhaps
		if err := walk(0); err != nil {
			return 0, err
		}
	}
	if h := s.p.holeEnding(s.base, size); h != nil {
		next = max(next, h.to)
	}
	s.mu.Lock()
	s.next = next
	s.mu.Unlock()
	return next, nil
}

// fit returns where the whole batches that start at pos and take at most max
// bytes end, at most at limit, and the offset after them; the first batch counts even if it is larger, with
// one. limit and pos are bounds of batches, and no damaged range lies between.
func (s *segment) fit(pos, limit, max int64, one bool) (end, next int64, err error) {
	target := limit
	if limit-pos > max {
		target = pos + max
		idx, err := s.offsetIndex()
		if err != nil {
			return 0, 0, err
		}
		// Jump to the last entry that fits, walk from there.
		i := sort.Search(len(idx)/indexEntry, func(i int) bool { return int64(be.Uint32(idx[i*indexEntry+4:])) > target })
		if i > 0 {
			last, start := s.base+int64(be.Uint32(idx[(i-1)*indexEntry:])), int64(be.Uint32(idx[(i-1)*indexEntry+4:]))
			if start > pos {
				end, next, err := s.walkTo(start, limit, target, false, last)
				if err == nil {
					return end, next, nil
				}
				// A bad entry: walk the whole way.
			}
		}
	} else {
		return limit, -1, nil
	}
	return s.walkTo(pos, limit, target, one, -1)
}

// walkTo walks batches from pos while they end at or before target. last is what
// the index says of the first one, -1 for nothing.
func (s *segment) walkTo(pos, limit, target int64, one bool, last int64) (end, next int64, err error) {
	end, next = pos, -1
	start := pos
	err = s.each(pos, limit, func(at int64, h batch.View) (bool, error) {
		if at == start && last >= 0 && h.LastOffset() != last {
			return false, errStaleIndex
		}
		after := at + int64(h.Size())
		if after > target && !(one && at == start) {
			next = h.BaseOffset()
			return false, nil
		}
		end, next = after, h.NextOffset()
		return after < target, nil
	})
	return end, next, err
}

func (s *segment) remember(offset, pos int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.hints {
		if s.hints[i].offset == offset {
			s.hints[i].pos = pos
			return
		}
	}
	s.hints[s.nextHint] = hint{offset, pos}
	s.nextHint = (s.nextHint + 1) % len(s.hints)
}

func writeFile(fsys vfs.FS, name string, b []byte, sync bool) error {
	f, err := fsys.OpenWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return err
	}
	if err = f.Truncate(int64(len(b))); err == nil && len(b) > 0 {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// syncFile makes an existing file durable; a missing one is no error.
func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.OpenWrite(name)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func removeIfExists(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
