package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrUnsupported is returned by File.Reserve where the file system cannot set
// space aside. The caller writes without a reservation then.
var ErrUnsupported = errors.New("vfs: not supported by this file system")

// ErrLocked is returned by FS.Lock when another process (or another holder in
// this one) has the lock.
var ErrLocked = errors.New("vfs: locked by another process")

// File is an open file. Reads and writes name their position; there is no
// shared offset. All methods but Close may be called concurrently.
type File interface {
	io.ReaderAt
	// WriteAt writes all of p or returns an error with the number of bytes
	// written. Bytes are in the page cache afterwards, not durable.
	io.WriterAt
	io.Closer
	// Truncate sets the size. Growing fills with zeros. Space that Reserve set
	// aside beyond size is given back.
	Truncate(size int64) error
	// Size is the current size in bytes.
	Size() (int64, error)
	// Sync makes the bytes and the size durable (fdatasync). After an error the
	// state of the file is unknown, and a second Sync that succeeds proves
	// nothing: callers never retry.
	Sync() error
	// Reserve sets aside disk space for bytes [off, off+n) without changing the
	// size, so that later writes there cannot meet a full disk. It returns an
	// error that is ErrNoSpace (see IsNoSpace) when the disk is full, and
	// ErrUnsupported where the file system has no such thing.
	Reserve(off, n int64) error
	// DropCache asks the kernel to forget clean cached pages, so that the next
	// read judges the disk and not the cache. Best effort.
	DropCache() error
	// Name is the name that the file was opened with.
	Name() string
}

// Space is what FS.Space reports, in bytes.
type Space struct {
	Free  int64 // available to an unprivileged process
	Total int64
}

// FS is a file system. Names are slash-separated paths as the caller composed
// them; the OS implementation hands them on as they are. Errors are those of
// io/fs: errors.Is(err, fs.ErrNotExist) and so on.
type FS interface {
	// Create makes a new empty file, open for reading and writing; it fails with
	// fs.ErrExist when the name is taken. The name is durable after SyncDir of
	// its directory.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a directory with what it holds; a missing one is no error.
	RemoveAll(name string) error
	// Rename replaces newName by oldName, atomically.
	Rename(oldName, newName string) error
	// Mkdir makes one directory; fs.ErrExist when the name is taken.
	Mkdir(name string) error
	// MkdirAll makes a directory and its parents, and syncs every parent in which
	// it made one.
	MkdirAll(name string) error
	// List returns the entries of a directory, sorted by name.
	List(dir string) ([]fs.DirEntry, error)
	// Stat describes a file.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on the file name, which is created if missing,
	// and writes content into it. The lock ends with Close or with the process.
	// When it is taken the error is ErrLocked and holder is what the holder wrote.
	Lock(name string, content []byte) (lock io.Closer, holder []byte, err error)
	// LockRead takes a lock on an existing file that others may share by LockRead,
	// and that excludes Lock. It writes nothing. ErrLocked and holder as with Lock.
	LockRead(name string) (lock io.Closer, holder []byte, err error)
	// Space reports the space of the file system that holds dir.
	Space(dir string) (Space, error)
	// BootID identifies this boot of the machine: while it is the same, pages that
	// a killed process wrote are still in the cache or on disk. Empty if unknown,
	// which no caller may take for equal.
	BootID() string
	// Kind names the file system that holds dir ("ext4", "nfs"), or is empty.
	Kind(dir string) string
}

// ReadFile reads a whole file of at most limit bytes; a larger one is an error.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("file is larger than its format allows")}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		return nil, err
	}
	return b, nil
}

// WriteFileAtomic replaces name by b: temporary file, Sync, Rename. The caller
// makes the name durable with SyncDir when it must be.
func WriteFileAtomic(fsys FS, name string, b []byte) error {
	tmp := name + ".tmp"
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	return err
}
