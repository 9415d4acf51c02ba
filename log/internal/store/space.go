package store

import (
	"errors"
	"math"
	"path/filepath"

	"millrace/log/internal/vfs"
)

// Disk space. Client topics are refused while less than minFree is free, so that
// the broker's own topics can go on; when even those meet a full disk, the
// ballast is released, so that deletes, retention and commits work.

// admit refuses client writes while space is low.
func (s *Store) admit() error {
	if s.low.Load() {
		return storageError("less than %d bytes are free on the log's disk (log.min.free.bytes); nothing was written. Free space, or lower retention", s.minFree)
	}
	return nil
}

// reserved looks at the free space again after every 64 MiB that files grow.
func (s *Store) reserved(n int64) {
	if s.unchecked.Add(n) > 64<<20 {
		s.checkSpace()
	}
}

func (s *Store) checkSpace() {
	s.unchecked.Store(0)
	space, err := s.fs.Space(s.dir)
	if err != nil {
		s.lg.Warn("free space unknown", "error", err)
		return
	}
	low := s.minFree > 0 && space.Free < s.minFree
	if low == s.low.Swap(low) {
		return
	}
	if low {
		s.lg.Error("little disk space: writes to client topics are refused", "free", space.Free, "minimum", s.minFree)
	} else {
		s.lg.Info("disk space is sufficient again: writes to client topics are accepted", "free", space.Free)
	}
}

// diskFull is called when an operation met a full disk.
func (s *Store) diskFull() { s.checkSpace() }

func (s *Store) initSpace() error {
	space, err := s.fs.Space(s.dir)
	if err != nil {
		return err
	}
	s.minFree = s.o.MinFree
	if s.minFree == 0 {
		s.minFree = min(1<<30, space.Total/20)
	}
	s.checkSpace()
	s.restoreBallast()
	return nil
}

// dropBallast releases the ballast and reports whether there was one.
func (s *Store) dropBallast() bool {
	s.ballastMu.Lock()
	defer s.ballastMu.Unlock()
	if s.ballast == nil {
		return false
	}
	err := s.ballast.Truncate(0)
	err = errors.Join(err, s.ballast.Close(), removeIfExists(s.fs, filepath.Join(s.dir, ballastFile)))
	s.ballast = nil
	s.lg.Error("the disk is full: the ballast was released for the broker's own topics. Free space", "bytes", s.o.Ballast, "error", err)
	return true
}

// restoreBallast sets the ballast aside when it is missing and there is room.
func (s *Store) restoreBallast() {
	s.ballastMu.Lock()
	defer s.ballastMu.Unlock()
	if s.ballast != nil || s.o.Ballast < 0 {
		return
	}
	name := filepath.Join(s.dir, ballastFile)
	f, err := s.fs.OpenWrite(name)
	if isNotExist(err) {
		space, serr := s.fs.Space(s.dir)
		if serr != nil || space.Free-s.o.Ballast < max(s.minFree, 0) && space.Free < math.MaxInt64 {
			return
		}
		f, err = s.fs.Create(name)
	}
	if err == nil {
		if err = f.Reserve(0, s.o.Ballast); err == nil {
			s.ballast = f
			return
		}
		f.Close()
		removeIfExists(s.fs, name)
	}
	if !errors.Is(err, vfs.ErrUnsupported) {
		s.lg.Warn("no ballast", "error", err)
	}
}
