package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/log/internal/batch"
)

// Partition is one partition. Safe for concurrent use.
//
// There is one writer lock, mu; readers never take it. What moves is published
// through atomics, in the order bytes, then segment size, then end, then durable.
type Partition struct {
	s       *Store
	tp      TopicPartition
	topicID [16]byte
	dir     string
	cfg     atomic.Pointer[PartitionConfig]
	known   atomic.Bool            // configuration was set by the owner, so that retention may act on it
	holes   atomic.Pointer[[]hole] // rising; replaced as a whole under filesMu, by recovery and by the scrub

	segs     atomic.Pointer[[]*segment] // rising, never empty; copied on write under mu
	logStart atomic.Int64
	end      atomic.Int64 // next offset to be written
	durable  atomic.Int64 // everything below is on stable storage
	lso      atomic.Int64
	epoch    atomic.Int32
	gone     atomic.Bool
	recovery atomic.Int64 // everything below is durable and indexed: the recovery point
	unsynced atomic.Int64 // bytes that were written and not synced yet
	lazy     atomic.Bool  // there may be some that no sync was asked for; set under mu
	traffic  Traffic

	mu       sync.Mutex // append, roll, delete; guards what follows. Never held over a sync
	prod     *producers
	dirty    []*segment // with unsynced bytes, oldest first, each pinned
	newFiles bool       // names in dir that are not durable yet
	sealing  []sealJob
	goodFrom int64 // segments that begin in [goodFrom, goodTo] have a durable snapshot there; -1 unknown
	goodTo   int64
	pruned   int64 // snapshots below are removed
	sync     syncState
	noteDue  bool          // a worker of the syncer will call note
	idle     chan struct{} // closed when the partition comes to rest; nil if nobody waits

	noteMu sync.Mutex // one writer of the synced file at a time

	markMu      sync.Mutex // guards the positions of end and durable
	endMark     mark
	durableMark mark

	epochMu sync.Mutex // guards epochs and their file
	epochs  []epochStart

	filesMu sync.Mutex   // one remover or replacer of sealed segments at a time; held over their files' names, taken before mu
	cleaned atomic.Int64 // compaction has seen everything below

	syncedFile cachedFile

	waits waitList
}

// mark is an offset and where it lies.
type mark struct {
	offset int64
	seg    *segment
	pos    int64
}

// ID names the partition.
func (p *Partition) ID() TopicPartition { return p.tp }

// TopicID is the topic's id, as given to Create; all zeros if its file was lost.
func (p *Partition) TopicID() [16]byte { return p.topicID }

// Config is the present configuration.
func (p *Partition) Config() PartitionConfig { return *p.cfg.Load() }

// SetConfig changes the configuration of an existing partition, and admits it to retention.
func (p *Partition) SetConfig(c PartitionConfig) {
	p.mu.Lock()
	p.cfg.Store(c.normalised())
	p.known.Store(true)
	p.mu.Unlock()
	p.publish() // Internal decides what the high watermark is
}

// LogStart is the first offset that can be read.
func (p *Partition) LogStart() int64 { return p.logStart.Load() }

// End is the log end: the offset that the next record gets.
func (p *Partition) End() int64 { return p.end.Load() }

// Durable is the offset below which everything is on stable storage, whatever the fsync mode.
func (p *Partition) Durable() int64 { return p.durable.Load() }

// HighWatermark is the offset below which consumers read: what is acknowledged by the fsync mode.
func (p *Partition) HighWatermark() int64 {
	if p.awaitsSync() {
		return p.durable.Load()
	}
	return p.end.Load()
}

// LastStable is the last stable offset: read_committed consumers read below it.
func (p *Partition) LastStable() int64 { return p.lso.Load() }

// LeaderEpoch is the epoch that new batches get. It rises when recovery cut something off.
func (p *Partition) LeaderEpoch() int32 { return p.epoch.Load() }

// awaitsSync reports whether acknowledgements wait for fdatasync.
func (p *Partition) awaitsSync() bool {
	return p.s.o.Fsync == FsyncGroup || p.cfg.Load().Internal
}

// Size is the number of bytes in all segments.
func (p *Partition) Size() int64 {
	var n int64
	for _, s := range *p.segs.Load() {
		n += s.size.Load()
	}
	return n
}

// Segments is the number of segment files.
func (p *Partition) Segments() int { return len(*p.segs.Load()) }

// damage is the list of damaged ranges, rising.
func (p *Partition) damage() []hole {
	if hs := p.holes.Load(); hs != nil {
		return *hs
	}
	return nil
}

// Damaged lists the ranges that recovery or the scrub found damaged.
func (p *Partition) Damaged() []Hole {
	var out []Hole
	for _, h := range p.damage() {
		if h.to > p.logStart.Load() {
			out = append(out, p.public(h))
		}
	}
	return out
}

func (p *Partition) public(h hole) Hole {
	return Hole{TopicPartition: p.tp, From: h.from, To: h.to, File: filepath.Join(p.dir, offsetName(h.base, logSuffix)), Position: h.pos}
}

func (p *Partition) active() *segment {
	segs := *p.segs.Load()
	return segs[len(segs)-1]
}

// segmentFor is the last of segs with base <= offset, or the first.
func segmentFor(segs []*segment, offset int64) int {
	i, found := slices.BinarySearchFunc(segs, offset, func(s *segment, o int64) int {
		switch {
		case s.base < o:
			return -1
		case s.base > o:
			return 1
		}
		return 0
	})
	if !found && i > 0 {
		i--
	}
	return i
}

// holeAt is the damaged range of a segment that begins at pos or has it inside.
func (p *Partition) holeAt(base, pos int64) *hole {
	hs := p.damage()
	for i := range hs {
		if h := &hs[i]; h.base == base && h.pos <= pos && pos < h.end {
			return h
		}
	}
	return nil
}

// openError turns the failure to open a segment into an answer.
func (p *Partition) openError(err error) error {
	if p.gone.Load() {
		return p.errGone()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errDropped
	}
	return storageError("%v: %v", p.tp, err)
}

// errDropped is internal: a segment left the list between look-up and open; look again.
// Where there is nothing new to look at, its text is the answer.
var errDropped error = &batch.Error{Code: batch.StorageError, Reason: "a segment's file is missing: it was removed behind the log's back. Restart to have the loss marked, and restore the file from a copy if there is one"}

// usable reports why the partition cannot be used, nil if it can.
func (p *Partition) usable() error {
	if p.gone.Load() {
		return p.errGone()
	}
	return p.s.usable()
}

// OpenTxn is a transaction that is open in a partition.
type OpenTxn struct {
	ProducerID int64
	Epoch      int16 // of its data
	First      int64 // offset
}

// OpenTxns lists the transactions that are open, by first offset.
func (p *Partition) OpenTxns() []OpenTxn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.prod.open) == 0 {
		return nil
	}
	out := make([]OpenTxn, 0, len(p.prod.open))
	for id, e := range p.prod.m {
		if e.txnFirst >= 0 {
			out = append(out, OpenTxn{id, e.epoch, e.txnFirst})
		}
	}
	slices.SortFunc(out, func(a, b OpenTxn) int { return int(min(1, max(-1, a.First-b.First))) })
	return out
}

// OpenTxn returns the transaction that a producer has open.
func (p *Partition) OpenTxn(producerID int64) (OpenTxn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.prod.m[producerID]
	if e == nil || e.txnFirst < 0 {
		return OpenTxn{}, false
	}
	return OpenTxn{producerID, e.epoch, e.txnFirst}, true
}

// LargestProducer is the largest producer id that the partition knows, -1 for none.
func (p *Partition) LargestProducer() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := int64(-1)
	for pid := range p.prod.m {
		id = max(id, pid)
	}
	return id
}

// ProducerInfo describes one producer for DescribeProducers.
type ProducerInfo struct {
	ID               int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	TxnFirst         int64 // first offset of the open transaction, -1 none
}

// Producers lists the producers the partition knows, by id.
func (p *Partition) Producers() []ProducerInfo {
	p.mu.Lock()
	out := make([]ProducerInfo, 0, len(p.prod.m))
	for id, e := range p.prod.m {
		i := ProducerInfo{ID: id, Epoch: e.epoch, LastSequence: -1, LastTimestamp: e.timestamp, CoordinatorEpoch: e.coordEpoch, TxnFirst: e.txnFirst}
		if e.n > 0 {
			i.LastSequence = e.window[e.n-1].lastSeq
		}
		out = append(out, i)
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b ProducerInfo) int { return int(min(1, max(-1, a.ID-b.ID))) })
	return out
}
