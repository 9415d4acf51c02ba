// Package registry holds the rules of a schema registry: subjects and their versions, ids, modes, configurations, references and
// compatibility, as the Confluent Schema Registry has them. It knows neither HTTP nor a topic: a State is what the records of the
// topic _schemas add up to, and the rules say which records a request appends.
//
// What a type of schemas (Avro, JSON Schema, Protobuf) must be able to do is the interface Type.
package registry
