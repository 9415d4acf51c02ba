package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// flock locks one byte far behind the content, because locked bytes cannot be
// read by others, and the content is for them.
func flock(f *os.File, shared bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := &windows.Overlapped{OffsetHigh: 1}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
