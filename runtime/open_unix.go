//go:build unix

package runtime

import "syscall"

// Flags with which files are opened that somebody else named.
const (
	nonblock = syscall.O_NONBLOCK
	nofollow = syscall.O_NOFOLLOW
)
