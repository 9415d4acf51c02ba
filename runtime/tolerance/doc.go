// Package tolerance decides what becomes of a record that fails: it is tried again
// in place where that can help, then reported (log, dead-letter topic) and skipped
// where the connector tolerates errors, or fails the task.
//
// Nothing here costs a record that does not fail.
package tolerance
