// Package avrodata turns Connect's schemas and values into Avro's and back, as Confluent's AvroData does: the names, properties and
// unions that keep what Avro has no words for, so that a schema read back is the one that was written.
//
// What a schema needs is computed once: [Mapper.ToAvro] makes the Avro schema of a Connect schema and [NewEncoder] the program that
// writes its values; [Mapper.ToConnect] and [NewDecoder] do the same for reading. Encoders write through the writer of
// github.com/hamba/avro and decoders read through its reader; nothing here asks Go's reflection, and writing allocates nothing.
package avrodata
