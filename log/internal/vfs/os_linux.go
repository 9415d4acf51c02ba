package vfs

import (
	"bytes"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

func (f *osFile) Sync() error {
	return f.control("fdatasync", unix.Fdatasync)
}

func (f *osFile) Reserve(off, n int64) error {
	err := f.control("fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return ErrUnsupported
	}
	return err
}

func (f *osFile) DropCache() error {
	return f.control("fadvise", func(fd int) error {
		return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	})
}

func flock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func (OS) Space(dir string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return Space{Free: int64(s.Bavail) * int64(s.Bsize), Total: int64(s.Blocks) * int64(s.Bsize)}, nil
}

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
})

func (OS) BootID() string { return bootID() }

func (OS) Kind(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	switch uint32(s.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case 0x2fc12fc1:
		return "zfs"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	}
	return ""
}
