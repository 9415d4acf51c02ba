// Package worker runs this process's tasks.
//
// A source task is a pipeline: its reader emits batches, they are shaped
// (transformed and converted), produced to the log, and the offsets follow the
// acknowledgements: see source.go. A sink task is one loop over a consumer of its
// connector's group: see sink.go. Batches cross channels, records do not; all
// queues are bounded, so that a slow log or target holds the reader back.
//
// The worker does what it is told: which tasks run here, and what becomes of one
// that failed, is the herder's to say.
package worker
