// Package transforms holds Kafka's single message transforms and predicates, one
// file each, and the chain that runs them. Debezium's are in package debezium below.
//
// A transform compiles what depends on a record's schema once per schema (see
// [schema.Cache]) and then applies it to each record of that schema. It belongs to
// one task and is used by one goroutine at a time. Those of this package that stand
// behind each other in a chain are compiled into one program for a schema; see
// DESIGN.md.
package transforms
