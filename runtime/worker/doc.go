// Package worker runs connectors and tasks in this process. It knows nothing of other
// workers: what shall run here, package herder says.
//
// A source task is a short pipeline: its reader, then shape (transforms and
// converters), then produce. Batches cross from one to the next, records do not; the
// channels hold one batch each, so that a slow log holds the reader back. Offsets
// follow acknowledgements: see [inflight]. With exactly-once delivery records and the
// offsets behind them are written in transactions instead: see [transactions].
//
// A task that is told to stop finishes what it has emitted. One that outlives its
// grace is abandoned: its client is closed, so nothing of it reaches the log, and it
// reports no state any more.
//
// Each task counts what it does in a [Meter], by atomic adds per batch; whether it has
// stalled, a [Watch] tells from two looks at that.
package worker
