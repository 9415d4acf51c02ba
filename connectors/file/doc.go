// Package file streams the lines of a file into a topic, and a topic's values into
// the lines of a file: Kafka's FileStreamSource and FileStreamSink.
//
// The source follows its file as tail -F does. Where it stands is a byte, stored as
// Kafka stores it ({"filename":…} → {"position":…}) with two facts of ours beside
// it: the inode and a fingerprint of the bytes before the position. By the
// fingerprint it knows its file again after a restart, whatever rotation has made
// of the name: a renamed or copied file is read to its end, then the new one from
// its beginning; a truncated file is read from its beginning. A position without a
// fingerprint, which Kafka wrote or a client set, is taken as it is.
//
// What it promises: each line at least once, whole, in order. What it cannot see:
// lines that are written and taken away again between two looks (100 ms), those of
// a rotated file that was compressed before it was read to its end, and a file that
// was rewritten with the very bytes it had before.
//
// The sink appends lines and calls fsync in Flush. It opens its file anew when that
// has been renamed away or deleted. A record that was delivered twice is there
// twice.
package file
