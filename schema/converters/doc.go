// Package converters turns data into the bytes of records and headers, and back,
// as Connect's converters do.
//
// A [Plugin] makes a [Converter] or a [HeaderConverter] from its settings. A
// converter belongs to one task and one half (key or value) of its records: it is
// used by one goroutine at a time and keeps what it computed per schema.
package converters
