package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// Origin says who writes.
type Origin int

const (
	FromClient      Origin = iota // produce requests
	FromCoordinator               // the broker itself: control batches are allowed, sequences not needed
)

// AppendOpts of Append.
type AppendOpts struct {
	Origin Origin
	Kicks  *Kicks // put the sync off until these start; nil: it begins at once
	Lazy   bool   // leave the sync to the next write, to whoever waits for it, or to Maintain
	// Decided says of a marker that what it says is durable elsewhere: where the marker is lost, it comes again before anything else is
	// written for its producer. What it ends is then shown at once, and not when the marker is durable.
	Decided bool
}

// Appended says where batches went.
type Appended struct {
	Base      int64 // offset of the first record
	End       int64 // offset after the last one: what AfterDurable and WaitDurable take
	Timestamp int64 // log append time in ms, or -1
	LogStart  int64
	Duplicate bool // an idempotent producer's retry: Base and End are those of the original
}

// Steps of reserving disk space ahead of writing.
const (
	minReserve = 64 << 10
	maxReserve = 8 << 20
)

// Append validates batches and writes them, all or none; they are not durable
// yet. Base offset and leader epoch are written into the caller's bytes, which
// the caller may reuse when Append returns. Records of compressed batches are
// not opened, except for compacted topics. A batch with a producer id comes alone.
//
// Errors: *batch.Error with the code to answer, nothing was written; or
// ErrOutcomeUnknown.
func (p *Partition) Append(batches []batch.View, o AppendOpts) (Appended, error) {
	cfg := p.cfg.Load()
	now := p.s.now().UnixMilli()
	total, err := checkBatches(batches, cfg, o, now)
	if err != nil {
		return Appended{}, err
	}
	p.mu.Lock()
	a, err := p.appendLocked(batches, o, cfg, total, now)
	if err == nil && !a.Duplicate {
		if p.awaitsSync() {
			if o.Lazy {
				p.lazy.Store(true)
			} else {
				p.kickLater(o.Kicks)
			}
			if o.Decided {
				p.settle()
			}
			p.mu.Unlock()
			if o.Kicks != nil {
				o.Kicks.wrote(total)
			}
			if o.Decided {
				p.notify()
			}
			return a, nil
		}
		p.settle()
	}
	p.mu.Unlock()
	if err == nil {
		p.notify()
	}
	return a, err
}

func (p *Partition) appendLocked(batches []batch.View, o AppendOpts, cfg *PartitionConfig, total, now int64) (Appended, error) {
	if err := p.usable(); err != nil {
		if errors.Is(err, ErrClosed) {
			err = storageError("the log is stopping")
		}
		return Appended{}, err
	}
	first := batches[0]
	end := p.end.Load()
	if first.HasProducer() {
		dup, err := p.prod.check(first, o.Origin, end == 0)
		if err != nil {
			return Appended{}, err
		}
		if dup != nil {
			stamp := batch.NoTimestamp
			if cfg.LogAppendTime {
				stamp = dup.timestamp
			}
			return Appended{Base: dup.firstOffset, End: dup.lastOffset() + 1, Timestamp: stamp, LogStart: p.logStart.Load(), Duplicate: true}, nil
		}
	}
	if o.Origin == FromClient && !cfg.Internal {
		if err := p.s.admit(); err != nil {
			return Appended{}, err
		}
	}
	seg, err := p.room(cfg, end, total, batches, now)
	if err != nil {
		return Appended{}, err
	}

	stamp := batch.NoTimestamp
	epoch := p.epoch.Load()
	next := end
	for _, b := range batches {
		b.SetBaseOffset(next)
		b.SetLeaderEpoch(epoch)
		if cfg.LogAppendTime && !b.IsControl() {
			b.SetLogAppendTime(now)
			stamp = now
		}
		next = b.NextOffset()
	}
	if err := p.write(seg, batches); err != nil {
		return Appended{}, err
	}

	// Written. From here on nothing fails.
	if seg.started == 0 {
		seg.started = now
	}
	seg.touched = true
	pos := seg.size.Load()
	for _, b := range batches {
		seg.index(b, pos, cfg.IndexInterval)
		pos += int64(len(b))
		if a, aborted := p.prod.apply(b, now); aborted {
			seg.addAborted(a)
		}
		if o.Decided {
			p.prod.decided(b.BaseOffset())
		}
	}
	seg.size.Store(pos)
	p.end.Store(next)
	p.markMu.Lock()
	p.endMark = mark{next, seg, pos}
	p.markMu.Unlock()
	p.unsynced.Add(total)
	p.s.counters.batches.Add(int64(len(batches)))
	p.s.counters.bytes.Add(total)
	return Appended{Base: end, End: next, Timestamp: stamp, LogStart: p.logStart.Load()}, nil
}

// checkBatches is what needs no lock.
func checkBatches(batches []batch.View, cfg *PartitionConfig, o AppendOpts, now int64) (total int64, err error) {
	if len(batches) == 0 {
		return 0, &batch.Error{Code: batch.InvalidRecord, Reason: "no record batch"}
	}
	c := batch.Check{MaxBytes: cfg.MaxMessageBytes, Keys: cfg.Compact, Client: o.Origin == FromClient}
	if o.Origin != FromClient {
		c.MaxBytes = 0
	}
	for _, b := range batches {
		if err := b.Validate(c); err != nil {
			return 0, err
		}
		if len(batches) > 1 && b.HasProducer() {
			return 0, &batch.Error{Code: batch.InvalidRecord, Reason: fmt.Sprintf("%d batches for one partition from an idempotent producer; it must send one", len(batches))}
		}
		if o.Origin == FromClient && !cfg.LogAppendTime {
			if err := checkTime(b, cfg, now); err != nil {
				return 0, err
			}
		}
		total += int64(len(b))
	}
	if total > maxSegmentBytes {
		return 0, &batch.Error{Code: batch.RecordListTooLarge, Reason: fmt.Sprintf("%d bytes for one partition are more than a segment can hold", total)}
	}
	return total, nil
}

// checkTime bounds create times by the header, so that compressed batches need not be opened: the first
// record's against the past, the largest against the future.
func checkTime(b batch.View, cfg *PartitionConfig, now int64) error {
	if d := b.MaxTimestamp() - now; cfg.TimestampAfter >= 0 && d > cfg.TimestampAfter.Milliseconds() {
		return &batch.Error{Code: batch.InvalidTimestamp, Reason: fmt.Sprintf("timestamp %d lies %v ahead of the log's clock, more than message.timestamp.after.max.ms allows", b.MaxTimestamp(), time.Duration(d)*time.Millisecond)}
	}
	if cfg.TimestampBefore >= 0 && b.BaseTimestamp() >= 0 && now-b.BaseTimestamp() > cfg.TimestampBefore.Milliseconds() {
		return &batch.Error{Code: batch.InvalidTimestamp, Reason: fmt.Sprintf("timestamp %d is older than message.timestamp.before.max.ms allows", b.BaseTimestamp())}
	}
	return nil
}

// room returns the segment to write total bytes to, with space set aside on disk.
func (p *Partition) room(cfg *PartitionConfig, end, total int64, batches []batch.View, now int64) (*segment, error) {
	seg := p.active()
	if err := seg.goLive(); err != nil {
		return nil, err
	}
	size := seg.size.Load()
	var records int64
	for _, b := range batches {
		records += int64(b.LastOffsetDelta()) + 1
	}
	full := size+total > cfg.SegmentBytes || end+records-1-seg.base > math.MaxInt32 || seg.indexFull(cfg.IndexBytes)
	old := seg.older(cfg, now)
	if size > 0 && (full || old) {
		next, err := p.roll(end)
		if err != nil {
			return nil, err
		}
		seg, size = next, 0
	}
	if size+total <= seg.reserved {
		return seg, nil
	}
	return seg, p.reserve(cfg, seg, size, total)
}

// reserve sets space aside so that a full disk strikes here, before any byte is
// written, and the answer "not persisted" is exact.
func (p *Partition) reserve(cfg *PartitionConfig, seg *segment, size, total int64) error {
	f, err := seg.file.pin()
	if err != nil {
		return p.openError(err)
	}
	defer seg.file.unpin()
	from := max(seg.reserved, size)
	step := min(max(size, minReserve), maxReserve)
	if cfg.Preallocate {
		step = max(step, cfg.SegmentBytes-from)
	}
	to := max(size+total, from+step)
	err = f.Reserve(from, to-from)
	if vfs.IsNoSpace(err) && to > size+total {
		to = size + total
		err = f.Reserve(from, to-from)
	}
	if vfs.IsNoSpace(err) && cfg.Internal && p.s.dropBallast() {
		err = f.Reserve(from, to-from)
	}
	switch {
	case err == nil:
		seg.reserved = to
		p.s.reserved(to - from)
	case errors.Is(err, vfs.ErrUnsupported):
		seg.reserved = math.MaxInt64 // writes find out for themselves
	case vfs.IsNoSpace(err):
		p.s.diskFull()
		return storageError("%v: the disk is full; nothing was written. Free space, or lower retention", p.tp)
	default:
		return storageError("%v: reserve space: %v", p.tp, err)
	}
	return nil
}

// write puts the batches behind the segment's last one. If that fails the file is
// cut back, so that nothing of them remains; if that fails too, the directory goes offline.
func (p *Partition) write(seg *segment, batches []batch.View) error {
	f, err := seg.file.pin()
	if err != nil {
		return p.openError(err)
	}
	defer seg.file.unpin()
	size := seg.size.Load()
	pos := size
	for _, b := range batches {
		if _, err = f.WriteAt(b, pos); err != nil {
			break
		}
		pos += int64(len(b))
	}
	// Cutting back has to be synced like writing: else stray bytes may come back in
	// front of a later segment that is durable.
	if !seg.dirty {
		seg.dirty = true
		seg.file.repin()
		p.dirty = append(p.dirty, seg)
	}
	if err == nil {
		return nil
	}
	if terr := f.Truncate(size); terr != nil {
		p.s.goOffline(fmt.Errorf("write %s at byte %d: %w; cut back: %w", f.Name(), pos, err, terr))
		return fmt.Errorf("append to %v: %w", p.tp, ErrOutcomeUnknown)
	}
	seg.reserved = size
	if vfs.IsNoSpace(err) {
		p.s.diskFull()
		return storageError("%v: the disk is full; nothing was written. Free space, or lower retention", p.tp)
	}
	return storageError("%v: write: %v", p.tp, err)
}

// roll seals the active segment and makes the next one, which begins at end.
// Nothing is synced here: the syncer syncs the old file before the new one counts,
// and the directory before anything in the new one does.
func (p *Partition) roll(end int64) (*segment, error) {
	old := p.active()
	next := p.newSegment(end)
	f, err := p.s.fs.Create(next.file.name)
	if err != nil {
		if vfs.IsNoSpace(err) {
			p.s.diskFull()
			return nil, storageError("%v: the disk is full; nothing was written. Free space, or lower retention", p.tp)
		}
		return nil, storageError("%v: new segment: %v", p.tp, err)
	}
	next.startLive()
	next.file.adopt(f)
	defer next.file.unpin()
	p.addSegment(next)
	snapshot, pwin := encodeSnapshot(p.prod.m)
	p.sealing = append(p.sealing, sealJob{seg: old, offset: end, snapshot: snapshot, pwin: pwin})
	p.newFiles = true
	p.kick()
	return next, nil
}

func (p *Partition) addSegment(s *segment) {
	segs := *p.segs.Load()
	next := make([]*segment, len(segs), len(segs)+1)
	copy(next, segs)
	next = append(next, s)
	p.segs.Store(&next)
}
