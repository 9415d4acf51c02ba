// Package avroconverter is Confluent's AvroConverter: keys and values as Avro, with the id of their schema in a registry before them or
// in the record's headers.
//
// What a Connect schema needs (its Avro schema, its id under a topic's subject, the program that writes it) is found once and kept; so
// is what an id needs for reading. A registry that cannot be reached is an error that says it may pass, after the client's own tries.
package avroconverter
