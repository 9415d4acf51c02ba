package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"syscall"
)

// OS is the operating system's file system. On Linux it reserves with
// fallocate, syncs with fdatasync and drops cached pages with posix_fadvise;
// elsewhere reserving is ErrUnsupported and syncing is a full fsync.
type OS struct{}

var _ FS = OS{}

// IsNoSpace reports whether err says that the disk, or a quota, is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}
func (OS) Open(name string) (File, error)      { return openOS(name, os.O_RDONLY) }
func (OS) OpenWrite(name string) (File, error) { return openOS(name, os.O_RDWR) }

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o640)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{f: f, raw: raw}, nil
}

func (OS) Remove(name string) error               { return os.Remove(name) }
func (OS) RemoveAll(name string) error            { return os.RemoveAll(name) }
func (OS) Rename(a, b string) error               { return os.Rename(a, b) }
func (OS) Mkdir(name string) error                { return os.Mkdir(name, 0o750) }
func (OS) List(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (OS) Stat(name string) (fs.FileInfo, error)  { return os.Stat(name) }

func (o OS) MkdirAll(name string) error {
	name = filepath.Clean(name)
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(name)
	if parent != name {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := o.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (OS) SyncDir(dir string) error {
	if goruntime.GOOS == "windows" {
		return nil // a directory cannot be flushed there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (OS) Lock(name string, content []byte) (io.Closer, []byte, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, nil, err
	}
	if err := flock(f, false); err != nil {
		defer f.Close()
		if errors.Is(err, ErrLocked) {
			holder, _ := io.ReadAll(io.LimitReader(f, 4096)) // only for the message
			return nil, holder, ErrLocked
		}
		return nil, nil, fmt.Errorf("lock %s: %w", name, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, nil, nil
}

func (OS) LockRead(name string) (io.Closer, []byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	err = flock(f, true)
	if err == nil {
		return f, nil, nil
	}
	defer f.Close()
	if errors.Is(err, ErrLocked) {
		holder, _ := io.ReadAll(io.LimitReader(f, 4096)) // only for the message
		return nil, holder, ErrLocked
	}
	return nil, nil, fmt.Errorf("lock %s: %w", name, err)
}

type osFile struct {
	f   *os.File
	raw syscall.RawConn
}

func (f *osFile) ReadAt(b []byte, off int64) (int, error)  { return f.f.ReadAt(b, off) }
func (f *osFile) WriteAt(b []byte, off int64) (int, error) { return f.f.WriteAt(b, off) }
func (f *osFile) Close() error                             { return f.f.Close() }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *osFile) Name() string                             { return f.f.Name() }

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// control runs a system call on the descriptor, which cannot be closed meanwhile.
func (f *osFile) control(op string, call func(fd int) error) error {
	var err error
	if cerr := f.raw.Control(func(fd uintptr) {
		for {
			if err = call(int(fd)); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}); cerr != nil {
		err = cerr
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.f.Name(), Err: err}
	}
	return nil
}
