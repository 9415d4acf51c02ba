package compact

import (
	"millrace/log/internal/batch"
)

// Map is the first pass: it notes the newest offset of each key from the first batch that was not compacted on.
type Map struct {
	Offsets *OffsetMap
	txns    *txns
	end     int64
}

// NewMap begins a first pass. aborted are the aborted transactions of the range.
func NewMap(budget int, aborted []Aborted) *Map {
	return &Map{Offsets: NewOffsetMap(budget), txns: newTxns(aborted)}
}

// Add takes up the next batch. full means that no more keys fit: this batch, and what follows it, is left for another time.
// Control records and records of aborted transactions have no say in what is newest.
func (m *Map) Add(v batch.View) (full bool, err error) {
	if v.IsControl() {
		m.txns.markerOf(v)
		m.end = v.NextOffset()
		return false, nil
	}
	if m.txns.dataOf(v) {
		m.end = v.NextOffset()
		return false, nil
	}
	for r, err := range v.Records() {
		if err != nil {
			return false, err
		}
		if r.Key == nil {
			continue
		}
		if !m.Offsets.Put(r.Key, r.Offset) {
			return true, nil
		}
	}
	m.end = v.NextOffset()
	return false, nil
}

// End is the offset up to which the map is complete.
func (m *Map) End() int64 { return m.end }

// Options of a Cleaner.
type Options struct {
	Offsets *OffsetMap
	End     int64 // of the Map. What begins there or later is returned as it is
	Aborted []Aborted
	Now     int64 // ms
	// DeleteRetention is how long (ms) a tombstone, or the marker of a transaction without data, stays after the first pass that
	// meets it.
	DeleteRetention int64
	// LastOf is the last offset of a producer's newest batch, −1 for a producer that has written none or is not known. That batch
	// keeps its header: from it the producer's sequence is known again after the loss of its snapshot.
	LastOf func(producerID int64) int64
}

// Stats count what a Cleaner did.
type Stats struct {
	BatchesIn, BatchesOut int
	RecordsIn, RecordsOut int64
	BytesIn, BytesOut     int64
	Tombstones            int64 // that were removed
}

// Cleaner is the second pass: it goes over a log from its beginning.
type Cleaner struct {
	Stats Stats
	o     Options
	txns  *txns
	keep  []batch.Record
}

// NewCleaner begins a second pass. A batch that the Map does not cover must not be touched: a tombstone there would start its
// term, and could go, while older records of its key stay that only the Map would have found.
func NewCleaner(o Options) *Cleaner { return &Cleaner{o: o, txns: newTxns(o.Aborted)} }

// Batch returns what remains of the next batch: v itself, a thinned copy, or nil. Of the last batch of a file the header stays
// whatever happens to its records, so that the file still says up to which offset it reaches: recovery takes a gap between two
// files for lost data.
func (c *Cleaner) Batch(v batch.View, last bool) (batch.View, error) {
	c.Stats.BatchesIn++
	c.Stats.RecordsIn += int64(v.Count())
	c.Stats.BytesIn += int64(len(v))
	out, err := v, error(nil)
	if v.BaseOffset() < c.o.End {
		out, err = c.batch(v, last)
	}
	if out != nil {
		c.Stats.BatchesOut++
		c.Stats.RecordsOut += int64(out.Count())
		c.Stats.BytesOut += int64(len(out))
	}
	return out, err
}

func (c *Cleaner) batch(v batch.View, last bool) (batch.View, error) {
	if v.IsControl() {
		return c.marker(v, last)
	}
	aborted := c.txns.dataOf(v)
	last = last || v.HasProducer() && c.o.LastOf(v.ProducerID()) == v.LastOffset()
	horizon := v.DeleteHorizon()
	expired := horizon != batch.NoHorizon && c.o.Now >= horizon
	tombstones := false
	c.keep = c.keep[:0]
	if !aborted {
		for r, err := range v.Records() {
			if err != nil {
				return nil, err
			}
			if r.Key == nil {
				continue // from the time before the topic was compacted
			}
			if newest, ok := c.o.Offsets.Get(r.Key); ok && newest > r.Offset {
				continue
			}
			if r.Value == nil {
				if expired {
					c.Stats.Tombstones++
					continue
				}
				tombstones = true
			}
			c.keep = append(c.keep, r)
		}
	}
	switch {
	case len(c.keep) == 0 && !last:
		return nil, nil
	case len(c.keep) == 0 && v.Count() == 0:
		return v, nil
	}
	// Whoever reads from the beginning must be able to see a deletion. Its time counts from the pass that meets it first, and not
	// from its own timestamp.
	was := horizon
	switch {
	case !tombstones:
		horizon = batch.NoHorizon
	case horizon == batch.NoHorizon:
		horizon = c.o.Now + c.o.DeleteRetention
	}
	if len(c.keep) == int(v.Count()) && horizon == was {
		return v, nil
	}
	return batch.Rebuild(v, c.keep, horizon), nil
}

// marker keeps the end of a transaction while there is data of it, and for as long as a tombstone after that.
func (c *Cleaner) marker(v batch.View, last bool) (batch.View, error) {
	if c.txns.markerOf(v) || last || !v.HasProducer() {
		return v, nil
	}
	switch horizon := v.DeleteHorizon(); {
	case c.o.LastOf(v.ProducerID()) == v.LastOffset():
		return v, nil
	case horizon != batch.NoHorizon && c.o.Now >= horizon:
		return nil, nil
	case horizon != batch.NoHorizon:
		return v, nil
	}
	c.keep = c.keep[:0]
	for r, err := range v.Records() {
		if err != nil {
			return nil, err
		}
		c.keep = append(c.keep, r)
	}
	return batch.Rebuild(v, c.keep, c.o.Now+c.o.DeleteRetention), nil
}
