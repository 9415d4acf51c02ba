// Package vfs is the narrow piece of a file system that the log needs, in two
// implementations: OS, the real one, and Mem, which lives in memory and models
// what a power loss does to files.
//
// The interfaces say which call makes what durable, because that is what the
// log's promises rest on: File.Sync makes a file's bytes and size durable,
// FS.SyncDir makes the names in a directory durable, and nothing else does.
// There is no mmap: an I/O error behind a mapping is a signal that Go cannot
// turn into an error.
package vfs
