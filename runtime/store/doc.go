// Package store keeps what a group of workers must remember in three compacted
// topics of the log: configurations, offsets of sources, and states. Their records
// are those of Kafka Connect, byte for byte where compaction compares bytes, so that
// a worker of either kind continues where the other stopped.
package store
