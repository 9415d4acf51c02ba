// Package mysql captures MySQL and MariaDB: a snapshot of the tables, then their
// changes out of the binary log.
//
// The binary log names no columns (unless binlog_row_metadata=FULL) and says of types
// only what a replica needs. So the source keeps a model of every table (table.go) that
// follows the statements in the log (ddl_*.go, catalog.go, history.go): a row is always read with the
// definition that held where the row was written. Rows go from the bytes of the event
// straight into values (event.go, values.go), by a plan that is made once per version of a table.
//
// DESIGN.md says why things are as they are.
package mysql
