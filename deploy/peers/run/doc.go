// Package run starts the real servers that Millrace is tried against: PostgreSQL, Apache Kafka, OpenSearch and
// Elasticsearch. It puts together what is missing (Debian packages, jars from Maven's repositories) in a folder that
// outlives the run, starts a server on free ports of 127.0.0.1 with an empty data folder, waits until it answers, and
// takes care that it never outlives the process that started it, not even one that was killed.
//
// Tests do not use it directly but through package peers, which shares one server of each kind among all test
// processes. The benchmark and the demonstration start theirs here.
package run
