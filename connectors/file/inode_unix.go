//go:build unix

package file

import (
	"os"
	"syscall"
)

// openFlags keep an open of a pipe from waiting for its other end.
const openFlags = syscall.O_NONBLOCK

// inodeOf is the file's inode, 0 where there is none.
func inodeOf(fi os.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
