// Package warehouse is what the sinks that write files share: into which file a record goes, what the file holds, when it is finished, and
// what is committed then. How a finished file becomes visible is the store's, which is a [Target]. The settings are those of Confluent's
// storage sinks; what a store has beyond them are [Options].
//
//   - Folders: a [Partitioner] places a record by its partition, by fields or by time (partitioner.go, when.go, joda.go, path.go).
//   - Views: a file holds values; files of keys and of headers may stand beside it, with a row for each of its records (view.go). An [Output]
//     takes the place of folders, views and names in the manner of Aiven's sinks (output.go).
//   - Formats: JSON lines, texts, bytes (format.go), Avro's object container (avro.go) and Parquet, whose rows are kept as Avro and taken apart
//     into columns when the file is finished (parquet*.go); the first ones may be compressed as a whole (pack.go).
//   - Spool: of an open file one block is in memory, and the rest in one file on disk without a name (spool.go).
//   - Rotation: the open files of a topic's partition are finished together, by records, bytes, times or a change of schema: a [Task] says when,
//     from the records alone unless the clock is asked for (task.go).
//   - Commits: groups of finished files become visible in the background, in order for each partition, and their offsets are committed then.
//     What is left open when a task ends is read again.
package warehouse
