package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// Isolation of a read: how far it may go.
type Isolation int8

const (
	ReadUncommitted Isolation = 0 // to the high watermark
	ReadCommitted   Isolation = 1 // to the last stable offset
	ReadAll         Isolation = 2 // to the log end: the broker's own state while it loads
)

// ReadOpts of Read.
type ReadOpts struct {
	MaxBytes  int
	MinOne    bool // return the first batch even if it is larger than MaxBytes
	Isolation Isolation
}

// Aborted is an aborted transaction: the producer's data from offset First up to
// its abort marker is not to be shown.
type Aborted struct {
	ProducerID int64
	First      int64
}

// Slice is a piece of a partition's log, pinned until Release. It is a value that
// has one owner: do not copy it after use.
type Slice struct {
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	Aborted       []Aborted // ReadCommitted: those that touch the slice, by First

	ranges [maxRanges]fileRange
	n      int
	size   int64
}

// maxRanges is how many segments a Slice may span.
const maxRanges = 4

type fileRange struct {
	seg      *segment
	f        vfs.File
	pos, end int64
}

// Read finds whole batches from the one that holds offset from, as pinned file
// ranges: no bytes are read yet. An empty Slice means that there is nothing yet,
// or that the first batch is larger than MaxBytes. Release the Slice, always.
//
// Errors: *batch.Error of OffsetOutOfRange outside [log start, log end],
// CorruptMessage inside a damaged range, StorageError offline; ErrClosed. The
// offsets of the Slice are filled in even then, for the answer.
func (p *Partition) Read(from int64, o ReadOpts) (Slice, error) {
	var s Slice
	err := p.again(func() (err error) {
		if s, err = p.read(from, o); err != nil {
			s.Release()
		}
		return err
	})
	return s, err
}

// Caught reports whether a reader at offset from has all that there is for it, and fills in the offsets of sl if so: Read would
// return the same, at more cost. It is what a fetch finds out about most of its partitions.
func (p *Partition) Caught(from int64, iso Isolation, sl *Slice) bool {
	if from < p.logStart.Load() || from > p.end.Load() || from < p.limit(iso).offset || p.usable() != nil {
		return false
	}
	sl.HighWatermark, sl.LastStable, sl.LogStart = p.HighWatermark(), p.lso.Load(), p.logStart.Load()
	return true
}

// again repeats a look-up that met a segment which left the list meanwhile. A file
// that is gone although its segment is listed was removed by somebody else; that is an answer.
func (p *Partition) again(look func() error) error {
	for {
		segs := p.segs.Load()
		err := look()
		if !errors.Is(err, errDropped) || p.segs.Load() == segs {
			return err
		}
	}
}

func (p *Partition) read(from int64, o ReadOpts) (sl Slice, err error) {
	limit := p.limit(o.Isolation)
	sl = Slice{HighWatermark: p.HighWatermark(), LastStable: p.lso.Load(), LogStart: p.logStart.Load()}
	if err := p.usable(); err != nil {
		return sl, err
	}
	if end := p.end.Load(); from < sl.LogStart || from > end {
		return sl, &batch.Error{Code: batch.OffsetOutOfRange, Reason: fmt.Sprintf("offset %d of %v is outside [%d, %d]", from, p.tp, sl.LogStart, end)}
	}
	if from >= limit.offset {
		return sl, nil
	}
	segs := *p.segs.Load()
	room := int64(max(0, o.MaxBytes))
	first, next := from, from
	for i := segmentFor(segs, from); i < len(segs) && sl.n < maxRanges; i++ {
		seg := segs[i]
		if seg.base >= limit.offset {
			break
		}
		end, err := p.segmentLimit(seg, limit)
		if err != nil {
			return sl, err
		}
		pos := int64(0)
		if sl.n == 0 {
			if h := p.holeOf(from); h != nil {
				return sl, p.holeError(h)
			}
			if pos, err = seg.find(from, end); err != nil {
				return sl, err
			}
			if pos >= end {
				// Nothing at or after from in this segment. Compaction keeps a batch for a
				// segment's last offset, so that the next one follows without a gap.
				if i+1 < len(segs) && segs[i+1].base > from {
					return sl, p.missingError(from, segs[i+1].base)
				}
				continue
			}
		}
		// Up to the next damaged range: what lies behind it is another read's.
		stop, damaged := end, int64(-1)
		holes := p.damage()
		for j := range holes {
			if h := &holes[j]; h.base == seg.base && h.pos >= pos && h.pos <= stop {
				stop, damaged = h.pos, h.from
				break
			}
		}
		one := o.MinOne && sl.n == 0
		to, after, err := seg.fit(pos, stop, room, one)
		if err != nil {
			return sl, err
		}
		if to == pos {
			break
		}
		f, err := seg.file.pin()
		if err != nil {
			return sl, p.openError(err)
		}
		sl.ranges[sl.n] = fileRange{seg, f, pos, to}
		sl.n++
		sl.size += to - pos
		room -= to - pos
		if after < 0 { // everything up to stop
			if i+1 < len(segs) && segs[i+1].base <= limit.offset {
				if after, err = seg.endOffset(); err != nil {
					return sl, err
				}
				if after < segs[i+1].base {
					next = after
					break // the next read says what is missing
				}
			} else {
				after = limit.offset
			}
		}
		if damaged >= 0 && to == stop {
			next = damaged
			break
		}
		next = after
		if to < end {
			seg.remember(next, to)
			break
		}
		if i == len(segs)-1 || end < seg.size.Load() {
			seg.remember(next, to)
		}
		if room <= 0 {
			break
		}
	}
	if o.Isolation == ReadCommitted && sl.n > 0 {
		sl.Aborted, err = p.abortedIn(segs, first, next)
	}
	return sl, err
}

// limit is the offset that a read may not reach, with its position where that is known.
func (p *Partition) limit(iso Isolation) mark {
	p.markMu.Lock()
	m := p.endMark
	if iso != ReadAll && p.awaitsSync() {
		m = p.durableMark
	}
	p.markMu.Unlock()
	if iso == ReadCommitted {
		if lso := p.lso.Load(); lso < m.offset {
			m = mark{offset: lso}
		}
	}
	return m
}

// segmentLimit is the position in seg where offset limit begins; its size if that lies behind it.
func (p *Partition) segmentLimit(seg *segment, limit mark) (int64, error) {
	if limit.seg == seg {
		return limit.pos, nil
	}
	size := seg.size.Load()
	if limit.seg != nil && limit.seg.base > seg.base {
		return size, nil
	}
	if next := p.nextBase(seg); next >= 0 && next <= limit.offset {
		return size, nil
	}
	return seg.find(limit.offset, size)
}

// nextBase is the base of the segment after seg, -1 if it is the last.
func (p *Partition) nextBase(seg *segment) int64 {
	segs := *p.segs.Load()
	for i := segmentFor(segs, seg.base); i < len(segs); i++ {
		if segs[i].base > seg.base {
			return segs[i].base
		}
	}
	return -1
}

func (p *Partition) holeOf(offset int64) *hole {
	hs := p.damage()
	for i := range hs {
		if h := &hs[i]; h.from <= offset && offset < h.to {
			return h
		}
	}
	return nil
}

func (p *Partition) holeError(h *hole) error {
	return &batch.Error{Code: batch.CorruptMessage, Reason: fmt.Sprintf("offsets %d to %d of %v are damaged (%s at byte %d); the data was acknowledged and is kept as it is. Skip the range by consuming from %d on, or cut it out with `millrace log repair`",
		h.from, h.to-1, p.tp, offsetName(h.base, logSuffix), h.pos, h.to)}
}

func (p *Partition) missingError(from, to int64) error {
	return &batch.Error{Code: batch.CorruptMessage, Reason: fmt.Sprintf("offsets %d to %d of %v are missing: no segment holds them. Restore the file from a copy, or skip the range by consuming from %d on", from, to-1, p.tp, to)}
}

// abortedIn lists the aborted transactions that touch [from, to), by first offset.
func (p *Partition) abortedIn(segs []*segment, from, to int64) ([]Aborted, error) {
	var out []Aborted
	for i := segmentFor(segs, from); i < len(segs); i++ {
		as, err := segs[i].abortedTxns()
		if err != nil {
			return nil, err
		}
		done := false
		for _, a := range as {
			if a.last >= from && a.first < to {
				out = append(out, Aborted{a.producer, a.first})
			}
			// No transaction that is aborted later began before stable.
			if a.stable >= to {
				done = true
			}
		}
		if done {
			break
		}
	}
	slices.SortFunc(out, func(a, b Aborted) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		}
		return 0
	})
	return out, nil
}

// Len is the number of bytes.
func (s *Slice) Len() int { return int(s.size) }

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// WriteTo copies the bytes to w through a pooled buffer. An error of w is
// returned as it is; one of reading is a *batch.Error of StorageError, and part of the bytes may be written then.
func (s *Slice) WriteTo(w io.Writer) (int64, error) {
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	var total int64
	for _, r := range s.ranges[:s.n] {
		for pos := r.pos; pos < r.end; {
			b := (*bp)[:min(int64(len(*bp)), r.end-pos)]
			if err := readFull(r.f, b, pos); err != nil {
				return total, err
			}
			n, err := w.Write(b)
			total += int64(n)
			if err != nil {
				return total, err
			}
			pos += int64(len(b))
		}
	}
	return total, nil
}

// ReadAt reads the bytes like a file of Len bytes.
func (s *Slice) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for _, r := range s.ranges[:s.n] {
		size := r.end - r.pos
		if off >= size {
			off -= size
			continue
		}
		part := b[n:][:min(int64(len(b)-n), size-off)]
		if err := readFull(r.f, part, r.pos+off); err != nil {
			return n, err
		}
		n, off = n+len(part), 0
		if n == len(b) {
			return n, nil
		}
	}
	return n, io.EOF
}

// readFull reads bytes that must be there.
func readFull(f vfs.File, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return storageError("read %s at byte %d: %v", f.Name(), pos+int64(n), err)
}

// Release unpins the files. Calling it again does nothing.
func (s *Slice) Release() {
	for i := range s.ranges[:s.n] {
		s.ranges[i].seg.file.unpin()
		s.ranges[i] = fileRange{}
	}
	s.n, s.size = 0, 0
}

// Replay calls f for every batch in [from, log end) in order, checked, through
// one buffer that is reused: f copies what it keeps. For coordinators and the
// catalogue, which load their state before they serve. It ends at f's error, at
// a batch whose checksum is wrong and at a damaged range (*batch.Error of CorruptMessage).
func (p *Partition) Replay(from int64, f func(batch.View) error) error {
	var buf []byte
	end := p.end.Load()
	for from = max(from, p.logStart.Load()); from < end; {
		sl, err := p.Read(from, ReadOpts{MaxBytes: 1 << 20, MinOne: true, Isolation: ReadAll})
		if err != nil {
			return fmt.Errorf("replay %v from offset %d: %w", p.tp, from, err)
		}
		if sl.Len() == 0 {
			sl.Release()
			return nil // what remains was emptied by compaction
		}
		buf = slices.Grow(buf[:0], sl.Len())[:sl.Len()]
		_, err = sl.ReadAt(buf, 0)
		sl.Release()
		if err != nil && err != io.EOF {
			return fmt.Errorf("replay %v from offset %d: %w", p.tp, from, err)
		}
		for rest := buf; len(rest) > 0; {
			var v batch.View
			if v, rest, err = batch.Next(rest); err == nil {
				err = v.CheckFrame()
			}
			if err != nil {
				return fmt.Errorf("replay %v from offset %d: %w", p.tp, from, err)
			}
			if v.NextOffset() <= from {
				return fmt.Errorf("replay %v: %w", p.tp, &batch.Error{Code: batch.CorruptMessage, Reason: fmt.Sprintf("offset %d after %d", v.BaseOffset(), from)})
			}
			from = v.NextOffset()
			if err := f(v); err != nil {
				return err
			}
		}
	}
	return nil
}

var _ io.WriterTo = (*Slice)(nil)
