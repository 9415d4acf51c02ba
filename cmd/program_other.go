//go:build !linux

package cmd

// unmapProgram has nothing to do where a process does not count its program's file as its own.
func unmapProgram() error { return nil }
