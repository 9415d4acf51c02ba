// Package postgres is the Postgres source: the snapshot of a database's tables and
// the stream of their changes, as Debezium's connector sends them.
//
// A snapshot reads the tables with COPY in one repeatable-read transaction that
// stands exactly where its replication slot begins; the stream decodes pgoutput.
// Both hand the same text of a column to the same decoder, so that a row looks
// alike in both. One goroutine owns the connection, decodes, and answers the
// server's keepalives while the log is behind; another emits.
//
// A position is (X, n): all transactions that committed before LSN X are in the
// log, and of the one that commits at X the first n messages. Only what the log has
// stored is confirmed to the slot.
package postgres
