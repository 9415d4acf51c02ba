// Package store keeps the partitions of the embedded log on disk, in Kafka's own
// file formats, and answers for their durability.
//
// A Store is one data directory, held by one process. Each Partition is a chain
// of segments with their indexes, the state of its producers, and three offsets:
// the log end, the durable offset (which is the high watermark: consumers never
// see what a power loss could take back), and the last stable offset. Append
// writes and does not wait; AfterDurable and WaitDurable say when what was
// written is on stable storage; one fdatasync serves everybody who waits.
//
// The package promises, in fsync mode "group": what was reported durable is
// readable at its offset with its bytes after any crash; an idempotent producer's
// retry is never stored twice, across crashes too; nothing is destroyed silently
// (a torn tail is kept in a .cut file, damage below the durable point is never
// truncated); a failed fsync is never retried. log/DESIGN.md has the reasons.
//
// It leaves to others: which topics exist and how they are configured, groups,
// the transaction coordinator, the protocol.
package store
