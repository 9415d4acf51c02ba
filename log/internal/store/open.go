package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"millrace/log/internal/vfs"
)

// Open takes the lock of dir (created if missing), recovers what is in it, and
// serves. Partitions found on disk run with DefaultConfig, and without retention,
// until SetConfig is called for them. *LockedError when another process has dir.
func Open(fsys vfs.FS, dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{
		fs: fsys, dir: dir, o: o, lg: o.Logger,
		files: newFileCache(fsys, o.MaxOpenFiles),
		part:  map[TopicPartition]*Partition{},
		busy:  map[TopicPartition]bool{},
		want:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
	}
	s.syncer.max = o.MaxSyncs
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := s.open(); err != nil {
		if s.lock != nil {
			s.files.closeAll()
			err = errors.Join(err, s.lock.Close())
		}
		return nil, err
	}
	s.background()
	return s, nil
}

func (s *Store) open() error {
	lockName := filepath.Join(s.dir, lockFile)
	before, err := vfs.ReadFile(s.fs, lockName, 1<<16)
	if err != nil && !isNotExist(err) {
		return fmt.Errorf("data directory: %w", err)
	}
	lock, holder, err := s.fs.Lock(lockName, lockContent(s.fs.BootID(), s.o.Process))
	if errors.Is(err, vfs.ErrLocked) {
		_, process := parseLock(holder)
		return &LockedError{Dir: s.dir, Holder: process}
	}
	if err != nil {
		return fmt.Errorf("lock data directory: %w", err)
	}
	s.lock = lock
	switch kind := s.fs.Kind(s.dir); kind {
	case "nfs", "smb", "overlay", "fuse":
		s.lg.Warn("the data directory lies on a file system whose syncs may promise less than a local disk's", "directory", s.dir, "kind", kind)
	}
	if s.o.Fsync != FsyncGroup {
		s.lg.Warn("acknowledged data may be lost when the machine stops", "log.fsync", s.o.Fsync.String())
	}
	return s.load(before)
}

// startState is what the data directory says about its last use.
type startState struct {
	clean    map[TopicPartition]cleanPartition // nil: not stopped cleanly
	sameBoot bool                              // killed, but what was written is in the page cache
	starts   map[TopicPartition]int64
	points   map[TopicPartition]int64
	begun    time.Time
	scanned  atomic.Bool // some partition was
}

// load recovers all partitions. It is repeated whole if it is cut short.
func (s *Store) load(lockBefore []byte) error {
	st := &startState{begun: time.Now()}
	var err error
	if st.clean, err = s.takeClean(); err != nil {
		return err
	}
	_, ioErr := s.fs.Stat(filepath.Join(s.dir, ioErrorFile))
	boot, _ := parseLock(lockBefore)
	st.sameBoot = boot != "" && boot == s.fs.BootID() && isNotExist(ioErr)
	if st.starts, err = s.readCheckpoint(logStartFile); err != nil {
		return err
	}
	if st.points, err = s.readCheckpoint(recoveryPointFile); err != nil {
		return err
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var tps []TopicPartition
	for _, e := range names {
		name := e.Name()
		path := filepath.Join(s.dir, name)
		switch {
		case strings.HasSuffix(name, deleteMark) && e.IsDir():
			if err := s.fs.RemoveAll(path); err != nil {
				return fmt.Errorf("remove a deleted partition: %w", err)
			}
		case strings.HasSuffix(name, tmpSuffix):
			if err := removeIfExists(s.fs, path); err != nil {
				return err
			}
		case e.IsDir():
			if tp, ok := parseDirName(name); ok {
				tps = append(tps, tp)
			} else {
				s.lg.Warn("not a partition; left alone", "directory", path)
			}
		}
	}
	err = inParallel(min(4, s.o.MaxSyncs), tps, func(_ int, tp TopicPartition) error {
		p, err := s.loadPartition(tp, st)
		if err != nil {
			return fmt.Errorf("recover %v: %w", tp, err)
		}
		if p != nil {
			s.mu.Lock()
			s.part[tp] = p
			s.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if st.scanned.Load() {
		if err := s.fs.SyncDir(s.dir); err != nil { // the process may have died while it created partitions
			return err
		}
		if err := s.Checkpoint(); err != nil {
			return err
		}
		s.counters.recoveryNanos.Store(int64(time.Since(st.begun)))
		s.lg.Info("log recovered", "partitions", len(tps), "took", time.Since(st.begun), "sameBoot", st.sameBoot)
	}
	if ioErr == nil {
		// Everything was read from the disk and synced: the past error is dealt with.
		if err := removeIfExists(s.fs, filepath.Join(s.dir, ioErrorFile)); err != nil {
			return err
		}
		if err := s.fs.SyncDir(s.dir); err != nil {
			return err
		}
	}
	if err := s.readCleaned(); err != nil {
		return err
	}
	return s.initSpace()
}

// takeClean reads the clean marker and removes it durably, before anything relies on it.
func (s *Store) takeClean() (map[TopicPartition]cleanPartition, error) {
	name := filepath.Join(s.dir, cleanFile)
	b, err := vfs.ReadFile(s.fs, name, maxStateFile)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	clean, err := parseClean(b)
	if err != nil {
		s.lg.Warn("clean marker is bad; the log is scanned", "file", name, "cause", err)
		clean = nil
	}
	if err := s.fs.Remove(name); err != nil {
		return nil, err
	}
	return clean, s.fs.SyncDir(s.dir)
}

func (s *Store) readCheckpoint(name string) (map[TopicPartition]int64, error) {
	path := filepath.Join(s.dir, name)
	b, err := vfs.ReadFile(s.fs, path, maxStateFile)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := parseOffsets(b)
	if err != nil {
		s.lg.Error("checkpoint is bad; recovery does without it", "file", path, "cause", err)
		return nil, nil
	}
	return m, nil
}
