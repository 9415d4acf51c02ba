package store

import (
	"sync/atomic"
	"time"

	"millrace/log/internal/measure"
)

// counters of a store since Open, for metrics.
type counters struct {
	batches, bytes atomic.Int64 // appended
	syncs          measure.Durations
	syncedBytes    atomic.Int64

	compactions, compactedIn, compactedOut atomic.Int64
	compactionFailures                     atomic.Int64
	retired, retiredBytes                  atomic.Int64 // segments that retention or a client deleted

	recoveryNanos, scannedPartitions, cutBytes atomic.Int64
}

// Traffic is what clients did with a partition, counted by whoever serves them.
type Traffic struct {
	Records, BytesIn, BytesOut atomic.Int64
	Produces, FailedProduces   atomic.Int64
	Fetches, FailedFetches     atomic.Int64
}

// Traffic counts this partition's; it belongs to whoever serves clients.
func (p *Partition) Traffic() *Traffic { return &p.traffic }

// Stats are counters since Open, and what the log holds now.
type Stats struct {
	Batches, Bytes int64 // appended
	Syncs          int64 // fdatasync calls on segments
	SyncTime       time.Duration
	SyncQuantiles  []time.Duration // of the last minutes, one for each asked for; empty when there were none
	SyncedBytes    int64
	UnsyncedBytes  int64 // written and not synced yet

	Compactions, CompactionFailures, CompactedIn, CompactedOut int64 // the last two in bytes
	CompactionBacklog                                          int64 // bytes that no compaction has seen
	RetiredSegments, RetiredBytes                              int64

	Recovery          time.Duration // which the last start spent on finding out what is whole
	ScannedPartitions int64         // that had to be read for it
	CutBytes          int64         // of torn tails
}

// Stats returns the counters.
func (s *Store) Stats(quantiles ...float64) Stats {
	c := &s.counters
	now := s.now()
	syncs := c.syncs.Look(time.Now(), quantiles...)
	out := Stats{
		Batches: c.batches.Load(), Bytes: c.bytes.Load(),
		Syncs: syncs.Count, SyncTime: syncs.Sum, SyncQuantiles: syncs.At, SyncedBytes: c.syncedBytes.Load(),
		Compactions: c.compactions.Load(), CompactionFailures: c.compactionFailures.Load(), CompactedIn: c.compactedIn.Load(), CompactedOut: c.compactedOut.Load(),
		RetiredSegments: c.retired.Load(), RetiredBytes: c.retiredBytes.Load(),
		Recovery: time.Duration(c.recoveryNanos.Load()), ScannedPartitions: c.scannedPartitions.Load(), CutBytes: c.cutBytes.Load(),
	}
	for _, p := range s.Partitions() {
		out.UnsyncedBytes += p.unsynced.Load()
		if p.cfg.Load().Compact {
			_, _, dirty, _ := p.cleanable(now)
			out.CompactionBacklog += dirty
		}
	}
	return out
}
