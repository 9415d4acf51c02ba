package store

import (
	"fmt"
	"sort"

	"millrace/log/internal/batch"
)

// TimeOffset is a record's place in time.
type TimeOffset struct {
	Offset      int64
	Timestamp   int64 // ms
	LeaderEpoch int32
}

// OffsetForTime finds the first record below the isolation's limit with a
// timestamp of at least ms; ok is false if there is none.
func (p *Partition) OffsetForTime(ms int64, iso Isolation) (t TimeOffset, ok bool, err error) {
	err = p.again(func() (err error) {
		t, ok, err = p.offsetForTime(ms, iso)
		return err
	})
	return t, ok, err
}

func (p *Partition) offsetForTime(ms int64, iso Isolation) (t TimeOffset, ok bool, err error) {
	if err := p.usable(); err != nil {
		return t, false, err
	}
	limit := p.limit(iso).offset
	start := p.logStart.Load()
	for _, seg := range *p.segs.Load() {
		if seg.base >= limit {
			break
		}
		if last, _, err := seg.lastTime(); err != nil {
			return t, false, err
		} else if last < ms {
			continue
		}
		if t, ok, err = seg.timeSearch(start, limit, ms); ok || err != nil {
			return t, ok, err
		}
	}
	return t, false, nil
}

// MaxTimestamp finds the record with the largest timestamp; the first of equals.
func (p *Partition) MaxTimestamp(iso Isolation) (t TimeOffset, ok bool, err error) {
	err = p.again(func() (err error) {
		t, ok, err = p.maxTimestamp(iso)
		return err
	})
	return t, ok, err
}

func (p *Partition) maxTimestamp(iso Isolation) (t TimeOffset, ok bool, err error) {
	if err := p.usable(); err != nil {
		return t, false, err
	}
	limit := p.limit(iso).offset
	start := p.logStart.Load()
	// The largest of all headers first; headers below the limit only.
	best := int64(-1)
	segs := *p.segs.Load()
	for _, seg := range segs {
		if seg.base >= limit {
			break
		}
		last, offset, err := seg.lastTime()
		if err != nil {
			return t, false, err
		}
		if last <= best {
			continue
		}
		if offset < limit && offset >= start {
			best = last
			continue
		}
		err = seg.each(0, seg.size.Load(), func(_ int64, h batch.View) (bool, error) {
			if h.LastOffset() >= start && h.NextOffset() <= limit {
				best = max(best, h.MaxTimestamp())
			}
			return h.BaseOffset() < limit, nil
		})
		if err != nil {
			return t, false, err
		}
	}
	if best < 0 {
		return t, false, nil
	}
	return p.OffsetForTime(best, iso)
}

// timeSearch finds the first record in [start, limit) with a timestamp of at least
// ms. The time index says where to begin, headers say which batches to open.
func (s *segment) timeSearch(start, limit, ms int64) (t TimeOffset, ok bool, err error) {
	tim, err := s.timeIndex()
	if err != nil {
		return t, false, err
	}
	from := max(start, s.base)
	// All batches up to the last entry with a smaller time have smaller times.
	if i := sort.Search(len(tim)/timeEntry, func(i int) bool { return int64(be.Uint64(tim[i*timeEntry:])) >= ms }); i > 0 {
		from = max(from, s.base+int64(be.Uint32(tim[(i-1)*timeEntry+8:]))+1)
	}
	size := s.size.Load()
	pos, err := s.find(from, size)
	if err != nil {
		return t, false, err
	}
	f, err := s.file.pin()
	if err != nil {
		return t, false, s.p.openError(err)
	}
	defer s.file.unpin()
	err = s.each(pos, size, func(at int64, h batch.View) (bool, error) {
		if h.BaseOffset() >= limit {
			return false, nil
		}
		if h.IsControl() || h.MaxTimestamp() < ms {
			return true, nil
		}
		b := make([]byte, h.Size())
		if err := readFull(f, b, at); err != nil {
			return false, err
		}
		v := batch.View(b)
		if err := v.CheckFrame(); err != nil {
			return false, s.damage(at, err.Error())
		}
		for r, err := range v.Records() {
			if err != nil {
				return false, fmt.Errorf("%s: batch at byte %d: %w", f.Name(), at, err)
			}
			if r.Offset >= start && r.Offset < limit && r.Timestamp >= ms {
				t, ok = TimeOffset{r.Offset, r.Timestamp, v.LeaderEpoch()}, true
				return false, nil
			}
		}
		return true, nil
	})
	return t, ok, err
}
