//go:build unix

package logtool

import "syscall"

func fifo(name string) error { return syscall.Mkfifo(name, 0o600) }
