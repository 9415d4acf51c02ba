package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/log/internal/vfs"
)

// syncState of a partition. There is no barrier between partitions.
type syncState int8

const (
	syncIdle    syncState = iota
	syncQueued            // waits for a worker
	syncRunning           // a worker has it
	syncAgain             // and it became dirty meanwhile
)

// syncer runs at most max syncs at once. Nobody waits artificially for more to
// come: what arrives while a sync runs is covered by the next one.
type syncer struct {
	max int

	mu      sync.Mutex
	queue   []*Partition
	workers int // syncs that run, or are about to
	wg      sync.WaitGroup

	due   []*Partition // to be noted
	notes *time.Timer  // at which they are; nil: nothing is due
}

func (s *syncer) enqueue(ps ...*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, ps...)
	for range ps {
		if s.workers < s.max {
			s.workers++
			s.wg.Add(1)
			go s.work()
		}
	}
}

// work serves the queue until it is empty; idle stores have no workers.
func (s *syncer) work() {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.workers--
			s.queue = nil
			s.mu.Unlock()
			return
		}
		p := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		s.run(p)
	}
}

// run syncs a partition.
func (s *syncer) run(p *Partition) {
	switch {
	case !p.runSync():
	case p.gone.Load() || p.s.closed.Load():
		p.note() // somebody waits for it
	default:
		s.noteLater(p)
	}
}

// serve runs the sync that a partition is queued for, for a caller who would else wait until a worker does: who waits is there, a worker
// has to be woken. It does nothing where the sync has begun, or as many run as may. What is queued meanwhile is nothing to it: where
// something is queued there is a worker, which counts as well, so that callers alone never are as many as may run.
func (s *syncer) serve(p *Partition) {
	s.mu.Lock()
	i := slices.Index(s.queue, p)
	if i < 0 || s.workers >= s.max {
		s.mu.Unlock()
		return
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	s.workers++
	s.wg.Add(1)
	s.mu.Unlock()
	s.run(p)
	s.mu.Lock()
	s.workers--
	s.mu.Unlock()
	s.wg.Done()
}

// noteAfter is how long it may take until it is noted how far a partition is durable.
const noteAfter = 100 * time.Millisecond

// noteLater has it noted how far a partition is durable. That is no part of a sync: such a write may wait for the syncs of other files.
func (s *syncer) noteLater(p *Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, p)
	if s.notes == nil {
		s.wg.Add(1)
		s.notes = time.AfterFunc(noteAfter, s.note)
	}
}

// note notes what is due.
func (s *syncer) note() {
	defer s.wg.Done()
	s.mu.Lock()
	due := s.due
	s.due, s.notes = nil, nil
	s.mu.Unlock()
	for _, p := range due {
		p.note()
	}
}

// noteNow notes at once what is due.
func (s *syncer) noteNow() {
	s.mu.Lock()
	now := s.notes != nil && s.notes.Stop()
	s.mu.Unlock()
	if now {
		s.note()
	}
}

// kick asks for a sync. It needs p.mu.
func (p *Partition) kick() { p.kickLater(nil) }

// kickLater is kick; a partition that has to be queued for it is left to the kicks, where there are any.
func (p *Partition) kickLater(k *Kicks) {
	switch {
	case p.sync == syncRunning:
		p.sync = syncAgain
	case p.sync != syncIdle:
	case k != nil:
		p.sync = syncQueued
		k.parts = append(k.parts, p)
	default:
		p.sync = syncQueued
		p.s.syncer.enqueue(p)
	}
}

// hurry asks for the sync of what was written lazily: somebody waits for it.
func (p *Partition) hurry() {
	if !p.lazy.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lazy.Swap(false) && p.usable() == nil {
		p.kick()
	}
}

// Kicks put off the syncs of partitions that are written to one after the other, for one request: a write waits for a
// sync of another file whose inode lies in the same block (ext4), and all of them would wait, in turn, for each other's syncs. Start must be called, whatever happened
// to the request: others may have written to those partitions by then, and wait for the same sync. The zero value is ready.
type Kicks struct {
	parts []*Partition
	bytes int64
}

// maxPutOff is what may be written before syncs begin after all: from there on the disk had better be at work.
const maxPutOff = 512 << 10

// Start begins the syncs. The kicks can be used again.
func (k *Kicks) Start() {
	if len(k.parts) > 0 {
		k.parts[0].s.syncer.enqueue(k.parts...)
		clear(k.parts)
		k.parts = k.parts[:0]
	}
	k.bytes = 0
}

// wrote counts bytes.
func (k *Kicks) wrote(n int64) {
	if k.bytes += n; k.bytes >= maxPutOff {
		k.Start()
	}
}

// sealJob is what remains to be done for a segment that was rolled.
type sealJob struct {
	seg            *segment
	offset         int64 // of the snapshot
	snapshot, pwin []byte
}

// runSync syncs what was written before it began, and publishes it. It reports whether the caller has to call note.
func (p *Partition) runSync() (due bool) {
	p.mu.Lock()
	p.sync = syncRunning
	segs, jobs, newFiles := p.dirty, p.sealing, p.newFiles
	p.dirty, p.sealing, p.newFiles = nil, nil, false
	p.lazy.Store(false)
	for _, s := range segs {
		s.dirty = false
	}
	p.markMu.Lock()
	target := p.endMark
	p.markMu.Unlock()
	bytes := p.unsynced.Load()
	p.mu.Unlock()

	err := p.syncFiles(segs, jobs, newFiles)
	for _, s := range segs {
		s.file.unpin()
	}
	if err == nil {
		p.unsynced.Add(-bytes)
		p.s.counters.syncedBytes.Add(bytes)
		p.advance(target)
		if jobs = p.seal(jobs); len(jobs) > 0 {
			p.mu.Lock()
			p.sealing = append(jobs, p.sealing...)
			p.mu.Unlock()
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && !p.noteDue {
		p.noteDue, due = true, true
	}
	if p.sync == syncAgain && p.s.offline.Load() == nil {
		p.sync = syncQueued
		p.s.syncer.enqueue(p)
		return due
	}
	p.sync = syncIdle
	p.rest()
	return due
}

// atRest reports whether no worker of the syncer will touch the partition's files. It needs p.mu.
func (p *Partition) atRest() bool { return p.sync == syncIdle && !p.noteDue }

// rest tells those who wait for it that the partition is at rest, if it is. It needs p.mu.
func (p *Partition) rest() {
	if p.atRest() && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// note writes how far the partition is durable to its synced file, which itself is never synced. What is there is true and may be old:
// recovery has more to read then.
func (p *Partition) note() {
	p.noteMu.Lock() // a later note has a later mark
	p.markMu.Lock()
	m := p.durableMark
	p.markMu.Unlock()
	var buf [syncedSize]byte
	f, err := p.syncedFile.pin()
	if err == nil {
		_, err = f.WriteAt(appendSynced(buf[:0], syncedMark{m.seg.base, m.pos}), 0)
		p.syncedFile.unpin()
	}
	p.noteMu.Unlock()
	if err != nil {
		p.s.lg.Debug("durable position not noted", "partition", p.tp.String(), "error", err)
	}
	p.mu.Lock()
	p.noteDue = false
	p.rest()
	p.mu.Unlock()
}

// syncFiles makes segments durable, oldest first, and the directory if a file is new.
func (p *Partition) syncFiles(segs []*segment, jobs []sealJob, newFiles bool) error {
	if p.s.offline.Load() != nil {
		return ErrOutcomeUnknown
	}
	for _, j := range jobs {
		// What was reserved beyond the end goes back. Failing costs only space.
		if f, err := j.seg.file.pin(); err == nil {
			if err := f.Truncate(j.seg.size.Load()); err != nil {
				p.s.lg.Warn("reserved space could not be released", "file", f.Name(), "error", err)
			}
			j.seg.file.unpin()
		}
	}
	for _, s := range segs {
		f, err := s.file.pin()
		if err == nil {
			begin := time.Now()
			err = f.Sync()
			p.s.counters.syncs.Add(time.Since(begin))
			s.file.unpin()
		}
		if err != nil {
			return p.s.goOffline(fmt.Errorf("sync %s: %w", s.file.name, err))
		}
	}
	if newFiles {
		if err := p.s.fs.SyncDir(p.dir); err != nil {
			return p.s.goOffline(fmt.Errorf("sync directory %s: %w", p.dir, err))
		}
	}
	return nil
}

// advance publishes that everything below target is durable.
func (p *Partition) advance(target mark) {
	p.mu.Lock()
	hw := target.offset
	if !p.awaitsSync() {
		hw = p.HighWatermark()
	}
	// The last stable offset goes first: an acknowledgement looks at durable alone, and
	// whoever has it may ask for the stable end at once.
	p.settleAt(hw)
	p.durable.Store(target.offset)
	p.markMu.Lock()
	p.durableMark = target
	p.markMu.Unlock()
	p.mu.Unlock()
	p.notify()
}

// seal writes the index files and snapshots of rolled segments, which are durable
// by now, and moves the recovery point. It returns the jobs that have to be tried again.
func (p *Partition) seal(jobs []sealJob) []sealJob {
	for i, j := range jobs {
		if err := p.sealOne(j); err != nil {
			if !vfs.IsNoSpace(err) {
				p.s.goOffline(fmt.Errorf("seal %s: %w", j.seg.file.name, err))
			} else {
				p.s.diskFull()
				p.s.lg.Warn("index of a full segment not written, the disk is full; tried again later", "file", j.seg.file.name)
			}
			return jobs[i:]
		}
	}
	if len(jobs) > 0 {
		p.s.requestCheckpoint()
	}
	return nil
}

func (p *Partition) sealOne(j sealJob) error {
	fsys := p.s.fs
	if err := j.seg.writeIndexes(); err != nil {
		return err
	}
	// Recovery takes a snapshot at the beginning of a segment as proof that the files of
	// the segments before it are complete: they come first.
	if err := fsys.SyncDir(p.dir); err != nil {
		return err
	}
	if err := p.writeSnapshot(j.offset, j.snapshot, j.pwin); err != nil {
		return err
	}
	if err := fsys.SyncDir(p.dir); err != nil {
		return err
	}
	j.seg.retire()
	p.recovery.Store(j.offset)
	p.goodSnapshot(j.offset)
	return nil
}

func (p *Partition) writeSnapshot(offset int64, snapshot, pwin []byte) error {
	return errors.Join(
		vfs.WriteFileAtomic(p.s.fs, p.file(offsetName(offset, pwinSuffix)), pwin),
		vfs.WriteFileAtomic(p.s.fs, p.file(offsetName(offset, snapshotSuffix)), snapshot))
}

// goodSnapshot notes that the snapshot at the beginning of a segment is durable.
func (p *Partition) goodSnapshot(base int64) {
	p.mu.Lock()
	if p.goodFrom < 0 {
		p.goodFrom = base
	}
	p.goodTo = base
	p.mu.Unlock()
}
