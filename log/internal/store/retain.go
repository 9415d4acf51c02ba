package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// DeleteRecordsTo moves the log start to offset (-1: the high watermark) and
// returns the new log start when it is durable. A log start that is higher
// already stays. Above the high watermark the error is a *batch.Error of OffsetOutOfRange.
func (p *Partition) DeleteRecordsTo(offset int64) (int64, error) {
	if err := p.usable(); err != nil {
		return 0, err
	}
	// In the modes that acknowledge before they sync, the log may still be cut back to
	// what is durable; the log start must not lie behind that.
	hw := p.HighWatermark()
	if offset == -1 {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return 0, &batch.Error{Code: batch.OffsetOutOfRange, Reason: fmt.Sprintf("records of %v can be deleted up to the high watermark %d, not %d", p.tp, hw, offset)}
	}
	if err := p.s.moveStarts(map[*Partition]int64{p: offset}); err != nil {
		return 0, err
	}
	return p.logStart.Load(), nil
}

// moveStarts raises log starts: first the checkpoint is durable, then readers see
// it, then files go.
func (s *Store) moveStarts(to map[*Partition]int64) error {
	s.ckptMu.Lock()
	for p, o := range to {
		if o <= p.logStart.Load() {
			delete(to, p)
		}
	}
	var err error
	if len(to) > 0 {
		if err = s.writeLogStarts(to); err == nil {
			for p, o := range to {
				p.logStart.Store(o)
			}
		}
	}
	s.ckptMu.Unlock()
	if err != nil {
		return err
	}
	for p := range to {
		p.dropSegments()
		p.publish()
	}
	return nil
}

// dropSegments removes the files of segments that lie below the log start
// entirely. The log start is durable, so a crash in between only leaves files for the next start to remove.
func (p *Partition) dropSegments() {
	p.filesMu.Lock()
	defer p.filesMu.Unlock()
	start := p.logStart.Load()
	p.mu.Lock()
	segs := *p.segs.Load()
	n := 0
	for n+1 < len(segs) && segs[n+1].base <= start && segs[n+1].base <= p.recovery.Load() && !segs[n].isLive() && !segs[n].dirty {
		n++
	}
	if n > 0 {
		rest := append([]*segment(nil), segs[n:]...)
		p.segs.Store(&rest)
	}
	p.mu.Unlock()
	for _, seg := range segs[:n] {
		p.s.counters.retired.Add(1)
		p.s.counters.retiredBytes.Add(seg.size.Load())
		if err := p.removeSegment(seg.base); err != nil {
			p.s.lg.Warn("files of a deleted segment could not be removed; tried again at the next start", "file", seg.file.name, "error", err)
		}
		seg.file.drop()
	}
}

// removeSegment removes the files of a segment, the log first: indexes without a log are removed at start.
func (p *Partition) removeSegment(base int64) error {
	var errs []error
	for _, suffix := range [...]string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
		errs = append(errs, removeIfExists(p.s.fs, p.file(offsetName(base, suffix))))
	}
	return errors.Join(errs...)
}

// retained is where the log should start by the topic's retention.
func (p *Partition) retained(now time.Time) int64 {
	cfg := p.cfg.Load()
	start := p.logStart.Load()
	if !p.known.Load() || !cfg.Delete {
		return start
	}
	segs := *p.segs.Load()
	size := p.Size()
	for i, seg := range segs[:len(segs)-1] {
		if segs[i+1].base > p.recovery.Load() {
			break
		}
		bytes := seg.size.Load()
		over := cfg.RetentionBytes >= 0 && size-bytes >= cfg.RetentionBytes
		if !over && !p.expired(seg, cfg, now) {
			break
		}
		size -= bytes
		start = max(start, segs[i+1].base)
	}
	return start
}

// expired reports whether a segment's newest record is older than the retention time.
func (p *Partition) expired(seg *segment, cfg *PartitionConfig, now time.Time) bool {
	if cfg.RetentionTime < 0 || seg.size.Load() == 0 {
		return false
	}
	last, _, err := seg.lastTime()
	if err != nil {
		p.s.lg.Warn("age of a segment unknown; it is kept", "file", seg.file.name, "error", err)
		return false
	}
	if last < 0 { // no timestamps: the file's
		info, err := p.s.fs.Stat(seg.file.name)
		if err != nil {
			return false
		}
		last = info.ModTime().UnixMilli()
	}
	return now.UnixMilli()-last > cfg.RetentionTime.Milliseconds()
}

// rollIfDue rolls an active segment that is older than segment.ms, or whose records have
// all expired, so that retention gets at it without another append.
func (p *Partition) rollIfDue(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usable() != nil {
		return
	}
	cfg := p.cfg.Load()
	seg := p.active()
	if seg.size.Load() == 0 || !p.known.Load() {
		return
	}
	if !seg.older(cfg, now.UnixMilli()) && !(cfg.Delete && p.expired(seg, cfg, now)) {
		return
	}
	if err := seg.goLive(); err != nil {
		p.s.lg.Warn("segment not rolled", "partition", p.tp.String(), "error", err)
		return
	}
	if _, err := p.roll(p.end.Load()); err != nil {
		p.s.lg.Warn("segment not rolled", "partition", p.tp.String(), "error", err)
	}
}

// Maintain does once what runs every Options.Maintain: rolls and retention,
// checkpoints, expiry of producers, ballast and the check of free space.
func (s *Store) Maintain() error {
	if err := s.usable(); err != nil {
		return err
	}
	now := s.now()
	starts := map[*Partition]int64{}
	for _, p := range s.Partitions() {
		p.rollIfDue(now)
		if to := p.retained(now); to > p.logStart.Load() {
			starts[p] = to
			s.lg.Info("retention", "partition", p.tp.String(), "from", p.logStart.Load(), "to", to)
		}
		p.mu.Lock()
		p.prod.expire(now.Add(-s.o.ProducerExpiry).UnixMilli())
		if (len(p.sealing) > 0 || len(p.dirty) > 0 && (s.o.Fsync == FsyncInterval || p.awaitsSync())) && p.usable() == nil {
			p.kick()
		}
		p.mu.Unlock()
		p.dropSegments() // those that were not sealed yet when the log start passed them
	}
	err := s.moveStarts(starts)
	s.checkSpace()
	s.restoreBallast()
	return errors.Join(err, s.Checkpoint())
}

// Checkpoint writes the recovery points.
func (s *Store) Checkpoint() error {
	s.ckptMu.Lock()
	defer s.ckptMu.Unlock()
	points := map[TopicPartition]int64{}
	parts := s.Partitions()
	for _, p := range parts {
		points[p.tp] = p.recoveryPoint()
	}
	if err := s.writeCheckpoint(recoveryPointFile, points); err != nil {
		return err
	}
	for _, p := range parts {
		if !p.gone.Load() {
			p.pruneSnapshots(points[p.tp])
		}
	}
	return nil
}

// recoveryPoint is the offset below which everything is durable and all rolled segments have their files.
func (p *Partition) recoveryPoint() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.durable.Load()
	if len(p.sealing) > 0 || p.sync != syncIdle {
		// A job may be under way: what it works on was rolled at or after this.
		at = min(at, p.recovery.Load())
	}
	return at
}

func (s *Store) writeLogStarts(override map[*Partition]int64) error {
	starts := map[TopicPartition]int64{}
	for _, p := range s.Partitions() {
		o, ok := override[p]
		if !ok {
			o = p.logStart.Load()
		}
		if o > 0 {
			starts[p.tp] = o
		}
	}
	return s.writeCheckpoint(logStartFile, starts)
}

// writeCheckpoint replaces a checkpoint durably. On a full disk the ballast makes room.
func (s *Store) writeCheckpoint(name string, m map[TopicPartition]int64) error {
	path := filepath.Join(s.dir, name)
	b := encodeOffsets(m)
	err := vfs.WriteFileAtomic(s.fs, path, b)
	if vfs.IsNoSpace(err) && s.dropBallast() {
		err = vfs.WriteFileAtomic(s.fs, path, b)
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	switch {
	case err == nil:
		return nil
	case vfs.IsNoSpace(err):
		s.diskFull()
		return storageError("write %s: the disk is full", name)
	}
	s.goOffline(fmt.Errorf("write %s: %w", name, err))
	return storageError("write %s: %v", name, err)
}

// requestCheckpoint lets the background write the recovery points soon.
func (s *Store) requestCheckpoint() {
	select {
	case s.want <- struct{}{}:
	default:
	}
}

// background runs until Close.
func (s *Store) background() {
	if s.o.Maintain > 0 {
		s.wg.Go(s.maintainLoop)
		s.wg.Go(s.compactLoop)
	}
	if s.o.ScrubRate > 0 {
		s.wg.Go(s.scrubLoop)
	}
	if s.o.Fsync != FsyncInterval {
		return
	}
	s.wg.Go(func() {
		t := time.NewTicker(s.o.FsyncInterval)
		defer t.Stop()
		for {
			select {
			case <-s.quit:
				return
			case <-t.C:
				for _, p := range s.Partitions() {
					p.mu.Lock()
					if len(p.dirty) > 0 && p.usable() == nil {
						p.kick()
					}
					p.mu.Unlock()
				}
			}
		}
	})
}

func (s *Store) maintainLoop() {
	t := time.NewTicker(s.o.Maintain)
	defer t.Stop()
	for {
		var err error
		select {
		case <-s.quit:
			return
		case <-s.want:
			err = s.Checkpoint()
		case <-t.C:
			err = s.Maintain()
		}
		if err != nil && s.usable() == nil {
			s.lg.Warn("maintenance of the log failed; tried again later", "error", err)
		}
	}
}
