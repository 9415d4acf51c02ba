// Package avro reads, prints and compares Avro schemas as Avro's Java library (1.12) does, on which the original registry and its
// clients stand: which texts are schemas, which text a schema is kept as, and which schema reads what another wrote. [Registry] is
// what a schema registry asks of it.
//
// It knows no data: package avrodata below it turns values into Avro's bytes and back.
package avro
