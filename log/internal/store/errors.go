package store

import (
	"errors"
	"fmt"

	"millrace/log/internal/batch"
)

// ErrOutcomeUnknown means that bytes may or may not be on disk: the data
// directory went offline between a write and its sync. No answer is true; close
// the connection without one, so that the client's retry decides. Test with errors.Is.
var ErrOutcomeUnknown = errors.New("outcome unknown: the data directory went offline")

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("the store is closed")

// ErrExist is returned by Create for a partition that is there.
var ErrExist = errors.New("partition exists")

// LockedError is returned by Open when another process holds the data directory.
type LockedError struct {
	Dir    string
	Holder string // what the holder wrote about itself, Options.Process
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("data directory %s is in use by %s; stop it, choose another directory, or join its log as a client by naming its address in bootstrap.servers", e.Dir, holder)
}

func storageError(format string, a ...any) error {
	return &batch.Error{Code: batch.StorageError, Reason: fmt.Sprintf(format, a...)}
}

func (p *Partition) errGone() error {
	return &batch.Error{Code: batch.UnknownTopicOrPartition, Reason: fmt.Sprintf("partition %v was deleted", p.tp)}
}
