package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/log/internal/vfs"
)

// Store is one data directory. Safe for concurrent use.
type Store struct {
	fs     vfs.FS
	dir    string
	o      Options
	lg     *slog.Logger
	lock   io.Closer
	files  *fileCache
	syncer syncer

	mu   sync.RWMutex // guards parts and busy
	part map[TopicPartition]*Partition
	busy map[TopicPartition]bool // being created or deleted

	offline atomic.Pointer[error]
	closed  atomic.Bool

	ckptMu sync.Mutex // one writer of the checkpoints
	want   chan struct{}

	minFree   int64
	low       atomic.Bool
	unchecked atomic.Int64 // bytes reserved since the last look at the free space
	ballastMu sync.Mutex
	ballast   vfs.File // nil when not in place

	quit     chan struct{}
	wg       sync.WaitGroup
	removals sync.WaitGroup // of deleted partitions' files
	life     sync.RWMutex   // Close excludes Create and Delete
	counters counters
}

// Get returns a partition, nil if there is none.
func (s *Store) Get(topic string, partition int32) *Partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.part[TopicPartition{topic, partition}]
}

// Partitions returns all partitions ordered by topic and number. The slice is the caller's.
func (s *Store) Partitions() []*Partition {
	s.mu.RLock()
	out := make([]*Partition, 0, len(s.part))
	for _, p := range s.part {
		out = append(out, p)
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Partition) int { return compareTP(a.tp, b.tp) })
	return out
}

func (s *Store) now() time.Time { return s.o.Now() }

// usable reports why the store cannot be used, nil if it can.
func (s *Store) usable() error {
	if err := s.offline.Load(); err != nil {
		return storageError("the data directory is offline after an I/O error: %v", *err)
	}
	if s.closed.Load() {
		return ErrClosed
	}
	return nil
}

func (p *Partition) file(name string) string { return filepath.Join(p.dir, name) }

// Create makes a partition and returns when it is durable. ErrExist when it is
// there; a *batch.Error of StorageError when the disk is full or offline.
func (s *Store) Create(tp TopicPartition, topicID [16]byte, c PartitionConfig) (*Partition, error) {
	if err := CheckTopicName(tp.Topic); err != nil {
		return nil, err
	}
	if tp.Partition < 0 {
		return nil, fmt.Errorf("create %v: negative partition", tp)
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	if err := s.claim(tp, false); err != nil {
		return nil, err
	}
	p := s.newPartition(tp)
	p.topicID = topicID
	p.cfg.Store(c.normalised())
	p.known.Store(true)
	err := p.create()
	if vfs.IsNoSpace(err) && c.Internal && s.dropBallast() {
		s.fs.RemoveAll(p.dir)
		err = p.create()
	}
	s.mu.Lock()
	delete(s.busy, tp)
	if err == nil {
		s.part[tp] = p
	}
	s.mu.Unlock()
	if err != nil {
		// What is left of it has no data and goes at the next start at the latest.
		s.fs.RemoveAll(p.dir)
		if vfs.IsNoSpace(err) {
			s.diskFull()
		}
		return nil, storageError("create %v: %v", tp, err)
	}
	return p, nil
}

// claim keeps others from creating or deleting tp at the same time.
func (s *Store) claim(tp TopicPartition, exists bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy[tp]:
		return fmt.Errorf("%v: %w: it is being created or deleted", tp, ErrExist)
	case !exists && s.part[tp] != nil:
		return fmt.Errorf("%v: %w", tp, ErrExist)
	}
	s.busy[tp] = true
	return nil
}

func (s *Store) newPartition(tp TopicPartition) *Partition {
	p := &Partition{s: s, tp: tp, dir: filepath.Join(s.dir, tp.String()), prod: newProducers(nil), goodFrom: -1}
	p.cfg.Store(DefaultConfig().normalised())
	p.syncedFile = cachedFile{cache: s.files, name: p.file(syncedFile)}
	return p
}

func (p *Partition) create() error {
	fsys := p.s.fs
	if err := fsys.Mkdir(p.dir); err != nil {
		return err
	}
	if err := writeFile(fsys, p.file(metadataFile), encodeMetadata(p.topicID), true); err != nil {
		return err
	}
	p.epochs = []epochStart{{0, 0}}
	if err := writeFile(fsys, p.file(epochFile), encodeEpochs(p.epochs), true); err != nil {
		return err
	}
	if err := writeFile(fsys, p.file(syncedFile), appendSynced(nil, syncedMark{}), false); err != nil {
		return err
	}
	seg, err := p.createSegment(0)
	if err != nil {
		return err
	}
	p.start([]*segment{seg}, 0)
	if err := fsys.SyncDir(p.dir); err != nil {
		return err
	}
	return fsys.SyncDir(p.s.dir)
}

// createSegment makes an empty segment file.
func (p *Partition) createSegment(base int64) (*segment, error) {
	seg := p.newSegment(base)
	f, err := p.s.fs.Create(seg.file.name)
	if err != nil {
		return nil, err
	}
	seg.startLive()
	seg.file.adopt(f)
	seg.file.unpin()
	return seg, nil
}

// start sets everything that follows from a list of segments whose bytes are all durable.
func (p *Partition) start(segs []*segment, end int64) {
	p.segs.Store(&segs)
	last := segs[len(segs)-1]
	p.end.Store(end)
	p.durable.Store(end)
	p.recovery.Store(end)
	p.endMark = mark{end, last, last.size.Load()}
	p.durableMark = p.endMark
	p.lso.Store(max(p.prod.settle(end), p.logStart.Load()))
}

// Delete removes a partition: its directory is renamed durably first, so that it
// is gone even if the removal of its files is cut short; they go in the
// background. Waiters and parked fetches are woken. Slices that are being read
// stay valid. A partition that does not exist is no error.
func (s *Store) Delete(topic string, partition int32) error {
	tp := TopicPartition{topic, partition}
	s.life.RLock()
	defer s.life.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	p := s.Get(topic, partition)
	if p == nil {
		return nil
	}
	if err := s.claim(tp, true); err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		delete(s.busy, tp)
		s.mu.Unlock()
	}()
	p.gone.Store(true)
	p.waitIdle() // nothing writes into the directory any more
	name := tp.String()
	trash := filepath.Join(s.dir, fmt.Sprintf("%s.%x%s", name[:min(len(name), 200)], s.now().UnixNano(), deleteMark))
	p.filesMu.Lock() // nor gives files in it other names
	err := s.fs.Rename(p.dir, trash)
	p.filesMu.Unlock()
	if err == nil {
		err = s.fs.SyncDir(s.dir)
		if err != nil {
			s.goOffline(fmt.Errorf("sync directory %s: %w", s.dir, err))
		}
	}
	if err != nil {
		p.gone.Store(false)
		return storageError("delete %v: %v", tp, err)
	}
	s.mu.Lock()
	delete(s.part, tp)
	s.mu.Unlock()
	p.fail()
	p.letGo()
	for _, seg := range *p.segs.Load() {
		seg.file.drop()
	}
	p.syncedFile.drop()
	s.removals.Go(func() {
		if err := s.fs.RemoveAll(trash); err != nil {
			s.lg.Warn("files of a deleted partition could not be removed; tried again at the next start", "directory", trash, "error", err)
		}
	})
	return nil
}

// letGo unpins what waited for a sync that will not come: the partition is gone, or the directory offline.
func (p *Partition) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, seg := range p.dirty {
		seg.dirty = false
		seg.file.unpin()
	}
	p.dirty, p.sealing = nil, nil
}

// waitIdle waits until no sync of the partition is queued or running or has yet to be noted, and none can begin
// because the partition is gone or the store closed.
func (p *Partition) waitIdle() {
	for {
		p.mu.Lock()
		if p.atRest() {
			p.mu.Unlock()
			return
		}
		if p.idle == nil {
			p.idle = make(chan struct{})
		}
		idle := p.idle
		p.mu.Unlock()
		p.s.syncer.noteNow()
		<-idle
	}
}

// goOffline takes the directory offline: the state of what was not synced is
// unknown, and asking again would get a false yes. It returns ErrOutcomeUnknown with the cause.
func (s *Store) goOffline(cause error) error {
	err := fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
	if !s.offline.CompareAndSwap(nil, &cause) {
		return err
	}
	s.lg.Error("I/O error: the data directory goes offline. Nothing unacknowledged is answered. Check the disk, then restart", "directory", s.dir, "error", cause)
	// The marker makes the next start distrust the page cache. If even that fails the
	// disk says so again at the next start.
	if werr := writeFile(s.fs, filepath.Join(s.dir, ioErrorFile), []byte(cause.Error()+"\n"), true); werr != nil {
		s.lg.Error("I/O error marker not written", "error", werr)
	}
	// The caller may hold a partition's lock, which those who are called back may want.
	s.wg.Go(func() {
		for _, p := range s.Partitions() {
			p.fail()
		}
	})
	if s.o.OnOffline != nil {
		go s.o.OnOffline(cause)
	}
	return err
}

// Health of the directory.
type Health struct {
	Offline   error  // non-nil: an I/O error took the directory offline
	LowSpace  bool   // client topics are refused
	Ballast   bool   // the ballast is in place
	WeakFsync string // "interval" or "never", else empty
	Damaged   []Hole // ranges that reads answer with CorruptMessage
	Space     vfs.Space
}

// Hole is a damaged range of offsets [From, To), and where it begins.
type Hole struct {
	TopicPartition
	From, To int64
	File     string
	Position int64
}

// Health reports the state of the directory.
func (s *Store) Health() Health {
	h := Health{LowSpace: s.low.Load()}
	if err := s.offline.Load(); err != nil {
		h.Offline = *err
	}
	s.ballastMu.Lock()
	h.Ballast = s.ballast != nil
	s.ballastMu.Unlock()
	if s.o.Fsync != FsyncGroup {
		h.WeakFsync = s.o.Fsync.String()
	}
	for _, p := range s.Partitions() {
		h.Damaged = append(h.Damaged, p.Damaged()...)
	}
	var err error
	if h.Space, err = s.fs.Space(s.dir); err != nil && h.Offline == nil {
		h.Offline = err
	}
	return h
}

// Close stops the store. Appends are refused, what was written is synced, state
// files are written and the clean marker last, so that the next Open need not
// scan. It waits for all of the store's goroutines. A second Close does nothing.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	close(s.quit)
	parts := s.Partitions()
	for _, p := range parts {
		p.mu.Lock() // an append that got in before closed is over now
		if len(p.dirty) > 0 || len(p.sealing) > 0 || p.newFiles {
			p.kick()
		}
		p.mu.Unlock()
	}
	for _, p := range parts {
		p.waitIdle()
	}
	s.syncer.wg.Wait()
	err := s.closeClean(parts)
	for _, p := range parts {
		p.fail()
	}
	s.wg.Wait()
	s.removals.Wait()
	for _, p := range parts {
		p.letGo()
	}
	s.files.closeAll()
	s.ballastMu.Lock()
	if s.ballast != nil {
		err = errors.Join(err, s.ballast.Close())
		s.ballast = nil
	}
	s.ballastMu.Unlock()
	return errors.Join(err, s.lock.Close())
}

// closeClean writes what the next start trusts.
func (s *Store) closeClean(parts []*Partition) error {
	if err := s.offline.Load(); err != nil {
		return nil // said when it happened; the next start recovers
	}
	clean := make([]cleanPartition, len(parts))
	err := inParallel(s.o.MaxSyncs, parts, func(i int, p *Partition) (err error) {
		clean[i], err = p.closeClean()
		return err
	})
	if err != nil {
		return err
	}
	if err := s.Checkpoint(); err != nil {
		return err
	}
	b, err := encodeClean(clean)
	if err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(s.fs, filepath.Join(s.dir, cleanFile), b); err != nil {
		return fmt.Errorf("write clean marker: %w", err)
	}
	return s.fs.SyncDir(s.dir)
}

func (p *Partition) closeClean() (cleanPartition, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := cleanPartition{Topic: p.tp.Topic, Partition: p.tp.Partition, End: p.end.Load(), Producers: len(p.prod.m)}
	if p.durable.Load() != c.End || len(p.sealing) > 0 {
		return c, fmt.Errorf("%v: not everything could be made durable", p.tp)
	}
	seg := p.active()
	c.Base, c.Size = seg.base, seg.size.Load()
	changed := false
	if seg.isLive() && seg.touched {
		if err := p.closeSegment(seg); err != nil {
			return c, err
		}
		changed = true
	}
	var err error
	if c.MaxTime, c.MaxOffset, err = seg.lastTime(); err != nil {
		return c, err
	}
	if c.Producers > 0 {
		snapshot, pwin := encodeSnapshot(p.prod.m)
		if err := p.writeSnapshot(c.End, snapshot, pwin); err != nil {
			return c, err
		}
		changed = true
	}
	if changed {
		err = p.s.fs.SyncDir(p.dir)
	}
	return c, err
}

// closeSegment writes the active segment's indexes and gives reserved space back.
func (p *Partition) closeSegment(seg *segment) error {
	if err := seg.writeIndexes(); err != nil {
		return err
	}
	f, err := seg.file.pin()
	if err != nil {
		return err
	}
	defer seg.file.unpin()
	return f.Truncate(seg.size.Load())
}

// pruneSnapshots removes the snapshots that no recovery needs any more, now that
// point is durable as the recovery point: recovery begins at the segment that
// holds it, with the snapshot at the beginning of that. Without that one the older ones stay.
func (p *Partition) pruneSnapshots(point int64) {
	segs := *p.segs.Load()
	base := segs[segmentFor(segs, point)].base
	p.mu.Lock()
	due := base > p.pruned && p.goodFrom >= 0 && p.goodFrom <= base && base <= p.goodTo
	p.mu.Unlock()
	if !due {
		return
	}
	names, err := p.s.fs.List(p.dir)
	for _, e := range names {
		if o, ok := parseOffsetName(e.Name(), snapshotSuffix); ok && o < base {
			err = errors.Join(err, p.removeSnapshot(o))
		}
	}
	if err == nil { // else they are removed another time
		p.mu.Lock()
		p.pruned = base
		p.mu.Unlock()
	}
}

func (p *Partition) removeSnapshot(offset int64) error {
	return errors.Join(
		removeIfExists(p.s.fs, p.file(offsetName(offset, pwinSuffix))),
		removeIfExists(p.s.fs, p.file(offsetName(offset, snapshotSuffix))))
}

// inParallel runs f for every item, at most n at once, and joins the errors.
func inParallel[T any](n int, items []T, f func(int, T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(items))
	slots := make(chan struct{}, max(1, n))
	for i, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i, it)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lockContent is what .lock holds: the boot it was taken in, and who took it.
func lockContent(boot, process string) []byte {
	return []byte(boot + "\n" + process + "\n")
}

func parseLock(b []byte) (boot, process string) {
	boot, rest, _ := strings.Cut(string(b), "\n")
	process, _, _ = strings.Cut(rest, "\n")
	return boot, process
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
