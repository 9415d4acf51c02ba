package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// The scrub reads what nobody reads: it verifies the checksums of sealed segments, so that a disk that loses bits is noticed while
// a copy can still be had. What it finds becomes a damaged range, as recovery's findings do: reads of it fail, nothing is removed.

// scrubPeriod is the shortest time between the beginnings of two passes.
const scrubPeriod = 24 * time.Hour

// Scrubbed is what one pass saw.
type Scrubbed struct {
	Segments int
	Bytes    int64
	Damaged  []Hole // found by this pass
}

// scrubLoop makes one pass after the other until Close.
func (s *Store) scrubLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		began := time.Now()
		r, err := s.Scrub(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.lg.Warn("the scrub could not read everything; tried again at the next pass", "segments", r.Segments, "bytes", r.Bytes, "error", err)
		default:
			s.lg.Info("scrubbed", "segments", r.Segments, "bytes", r.Bytes, "damaged", len(r.Damaged), "took", time.Since(began))
		}
		t := time.NewTimer(time.Until(began.Add(scrubPeriod)))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// Scrub verifies the checksums of all sealed, durable segments, reading at most Options.ScrubRate bytes a second (0: no limit),
// and marks what is damaged. A segment that cannot be read does not end it; the errors come back joined.
func (s *Store) Scrub(ctx context.Context) (Scrubbed, error) {
	var out Scrubbed
	var errs []error
	pace := &scrubPace{ctx: ctx, rate: s.o.ScrubRate, began: time.Now()}
	for _, p := range s.Partitions() {
		all, n := p.sealed(math.MaxInt64)
		for _, seg := range all[:n] {
			if err := s.usable(); err != nil {
				return out, err
			}
			found, n, err := p.scrub(seg, pace)
			out.Bytes += n
			out.Damaged = append(out.Damaged, found...)
			switch {
			case ctx.Err() != nil:
				return out, ctx.Err()
			case err == nil:
				out.Segments++
			case !p.gone.Load() && !errors.Is(err, errDropped):
				errs = append(errs, err)
			}
		}
	}
	return out, errors.Join(errs...)
}

// sealed tells the segments, and how many of the first ones do not change any more, are durable, and end at or below limit.
func (p *Partition) sealed(limit int64) (all []*segment, n int) {
	limit = min(limit, p.durable.Load(), p.recovery.Load())
	p.mu.Lock()
	defer p.mu.Unlock()
	all = *p.segs.Load()
	for n+1 < len(all) && all[n+1].base <= limit && !all[n].isLive() && !all[n].dirty {
		n++
	}
	return all, n
}

// scrub verifies one segment.
func (p *Partition) scrub(seg *segment, pace *scrubPace) (found []Hole, read int64, err error) {
	f, err := seg.file.pin()
	if err != nil {
		return nil, 0, p.openError(err)
	}
	defer seg.file.unpin()
	// It is the disk that is judged, not the page cache.
	if err := f.DropCache(); err != nil && !errors.Is(err, vfs.ErrUnsupported) {
		p.s.lg.Debug("page cache not dropped before the scrub", "file", f.Name(), "error", err)
	}
	c := &chunk{f: f, size: seg.size.Load(), limit: max(p.nextBase(seg), 0)}
	expected, pos := seg.base, int64(0)
	for pos < c.size {
		if h := p.holeAt(seg.base, pos); h != nil {
			pos, expected = h.end, h.to
			continue
		}
		at := pos
		v, reason, err := c.batchAt(pos, seg.base, expected, true)
		if err != nil {
			return found, pos, fmt.Errorf("scrub %s at byte %d: %w", f.Name(), pos, err)
		}
		if reason == "" {
			pos, expected = pos+int64(v.Size()), v.NextOffset()
		} else {
			h, err := p.markDamage(seg, c, pos, expected, reason)
			if err != nil {
				return found, pos, err
			}
			found = append(found, p.public(h))
			pos, expected = h.end, h.to
		}
		if err := pace.step(pos - at); err != nil {
			return found, pos, err
		}
	}
	return found, c.size, nil
}

// markDamage notes, durably, that the bytes of a sealed segment from pos on are not what was written, up to the next valid batch.
func (p *Partition) markDamage(seg *segment, c *chunk, pos, expected int64, reason string) (hole, error) {
	h := hole{from: expected, base: seg.base, pos: pos, end: c.size}
	at, v, err := c.resync(pos+1, seg.base, expected+1)
	if err != nil {
		return h, fmt.Errorf("scrub %s at byte %d: %w", c.f.Name(), pos, err)
	}
	p.filesMu.Lock() // neither compaction nor retention takes the segment away meanwhile
	defer p.filesMu.Unlock()
	next := p.nextBase(seg)
	if segs := *p.segs.Load(); seg.isReplaced() || next < 0 || segs[segmentFor(segs, seg.base)] != seg {
		return h, errDropped
	}
	h.to = next
	if v != nil {
		h.to, h.end = v.BaseOffset(), at
	}
	if h.to <= h.from {
		return h, &batch.Error{Code: batch.CorruptMessage, Reason: fmt.Sprintf("%s: bytes %d to %d are no batches (%s)", c.f.Name(), h.pos, h.end, reason)}
	}
	before := p.damage()
	hs := p.withHole(h)
	err = vfs.WriteFileAtomic(p.s.fs, p.file(damagedFile), encodeHoles(hs))
	if err == nil {
		err = p.s.fs.SyncDir(p.dir)
	}
	if err != nil {
		p.holes.Store(&before)
		return h, fmt.Errorf("note damage of %s: %w", c.f.Name(), err)
	}
	seg.mu.Lock()
	clear(seg.hints[:]) // they may lead into the range
	seg.mu.Unlock()
	p.s.lg.Error("acknowledged data is damaged; it is kept as it is, and reads of this range fail", "partition", p.tp.String(), "from", h.from, "to", h.to,
		"file", seg.file.name, "position", pos, "reason", reason)
	return h, nil
}

// scrubPace keeps the scrub at its rate.
type scrubPace struct {
	ctx   context.Context
	rate  int64
	began time.Time
	bytes int64
	since int64
}

func (c *scrubPace) step(n int64) error {
	c.bytes += n
	if c.since += n; c.since < 256<<10 {
		return nil
	}
	c.since = 0
	if err := c.ctx.Err(); err != nil || c.rate <= 0 {
		return err
	}
	return sleepUntil(c.ctx.Done(), c.began, c.bytes, c.rate)
}
