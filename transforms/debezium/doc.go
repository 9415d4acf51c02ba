// Package debezium holds Debezium's single message transforms, one file each.
//
// They know a change event by its envelope: with a schema by the schema's name,
// without one by its fields (op, source, before, after). What is no change event
// passes through unchanged.
package debezium
