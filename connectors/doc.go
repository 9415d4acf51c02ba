// Package connectors is the contract between connectors and the runtime.
//
// A source connector plans tasks and each [SourceTask] emits batches of records
// with the offsets they bring its source to; a sink connector plans tasks and each
// [SinkTask] takes the records of the topic partitions assigned to it. A connector
// is a [SourcePlugin] or a [SinkPlugin]: a plain value in a package of its own.
//
// Connectors know the data model (package schema), never the runtime or the log.
// What a task needs beyond its records it asks of its [Context].
package connectors
