// Package log is where records live: the embedded broker, or a Kafka-compatible cluster.
//
// Open decides which, and from then on nobody can tell the difference: everything above works with
// franz-go clients made from ClientOpts. The embedded broker is reached through an in-memory network
// and, if wanted, over TCP. EnsureTopic makes or verifies internal topics; a Table is a compacted
// topic read to its end and followed, on which configurations, offsets and statuses are kept.
//
// What the embedded log promises is in DESIGN.md: acknowledged means on stable storage.
package log
