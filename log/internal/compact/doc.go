// Package compact decides what compaction keeps: of each key the newest record, tombstones until every reader had time to see
// them, of transactions what was committed. It works on batches and knows nothing of files; package store hands it the log's
// batches in order, twice, and writes what comes back.
//
// The first pass (Map) notes the newest offset of each key in the part of the log that was not compacted yet. The second (Cleaner)
// goes over the log from its beginning and returns for each batch the batch itself, a thinned copy, or nothing. Offsets never
// change.
package compact
