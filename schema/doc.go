// Package schema is the data model: what a connector reads, what a transform
// changes and what a converter turns into bytes.
//
// It is Kafka Connect's model. A [Schema] describes data and is immutable; a
// [Value] is data, a small tagged union held by value, so that scalars and
// strings cost no allocation. Data may also come without a schema: then the
// schema pointer is nil and a map stands where a struct would.
//
// Whatever is costly and depends only on a schema (an encoder, a transform's
// plan, the JSON text of a schema) is computed once and kept in a [Cache], which
// belongs to the instance that uses it.
//
// The package knows nothing of connectors, the log or the runtime.
package schema
