// Package elasticsearch indexes records as documents in Elasticsearch 7 to 9 and
// OpenSearch 1 to 3, with the settings of Confluent's Elasticsearch sink.
//
// A record's key is the id of its document and its value the document; a null value
// deletes it (behavior.on.null.values=delete). Records go in bulks, several at once,
// but never two at once that hold the same document, so that a document's changes
// stay in order whatever the server's pace.
//
// The record's offset is the document's external version: what comes again after a
// restart is refused by the server as a version conflict and counts as stored. The
// same holds for what is older by offset although it is not by time: a key that moved
// to another partition, or a topic that was made anew while the index stayed. Such
// conflicts are counted and logged. With document.versions=none the last write wins,
// and a replay passes through older states before it reaches the newest again.
//
// A data stream takes new documents alone and has no versions: an id that is there
// is a conflict as well.
//
// Beyond the original: maps without a schema need no schema.ignore, and a key that is a
// struct or map of one field gives that field as id, so that Debezium's keys need no
// ExtractField.
//
// What the server refuses for one document goes to the dead-letter topic or fails the
// task, as errors.tolerance says. What may pass (429, 503, a lost connection) is sent
// again: max.retries times with backoff, then the task reports it and is tried anew.
package elasticsearch
