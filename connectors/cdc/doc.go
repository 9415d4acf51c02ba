// Package cdc is what every database source shares: the naming of topics and
// schemas, the filters of tables and columns, the turning of a row's change into
// records, the batches they travel in, and the queue between the goroutine that
// owns the database's connection and the one that emits.
//
// What is a database's own (its protocol, its types, its positions) stays with its
// connector. DESIGN.md beside this file says why things are as they are.
package cdc
