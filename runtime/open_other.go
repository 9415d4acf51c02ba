//go:build !unix

package runtime

// Flags with which files are opened that somebody else named: none on this system.
const nonblock, nofollow = 0, 0
