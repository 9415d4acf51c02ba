// Package batch reads, checks and builds record batches of Kafka's message
// format version 2, the unit of everything that the log stores and serves.
//
// A View is the raw bytes of one batch with accessors for its header, so that a
// batch travels from the socket to the file and back without being decoded. The
// broker changes two fields of what it receives, base offset and leader epoch;
// both lie outside the checksum. Records are decoded only where somebody must
// look inside: keys of compacted topics, times, coordinators reading their state.
package batch
