package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stateDir is where running servers keep data, sockets and locks: a folder of this user in the system's temporary one.
func stateDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "millrace-peers-"+strconv.Itoa(os.Getuid()))
	// Others may walk through it: as root, PostgreSQL runs as another user with its data below.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a folder of this user; remove it or set TMPDIR", dir)
	}
	return dir, nil
}

// A Dir is a folder that is removed by Remove or, when its process was killed, by the next process that makes one.
type Dir struct {
	Path string
	lock *os.File
}

// NewDir makes a folder for the data of servers, and removes those that killed processes left behind.
func NewDir() (*Dir, error) {
	state, err := stateDir()
	if err != nil {
		return nil, err
	}
	unlock, err := lockFile(filepath.Join(state, "dirs.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweep(state)
	path, err := os.MkdirTemp(state, "run-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return &Dir{Path: path, lock: f}, nil
}

// Remove removes the folder with all in it.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	_ = os.Remove(d.Path + ".lock")
	_ = d.lock.Close()
	return err
}

// sweep removes the folders whose process is gone: their locks can be had. Called with dirs.lock held.
func sweep(state string) {
	entries, err := os.ReadDir(state)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "run-") || !strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		file := filepath.Join(state, e.Name())
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(strings.TrimSuffix(file, ".lock"))
			_ = os.Remove(file)
		}
		f.Close()
	}
}

func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EINTR {
			f.Close()
			return nil, err
		}
	}
}
