package cdc

import (
	"millrace/connectors"
	"millrace/schema"
)

// A Builder gathers records into batches within their bounds. Its arena and its
// records come from slabs that go on from batch to batch and are never used twice,
// so a batch of three records costs what three records take.
type Builder struct {
	Arena schema.Arena

	maxRecords int
	slab       []schema.Record // of which the batch in the making is the front
	n          int
	bytes      int
}

const recordSlab = 1024

// NewBuilder makes a builder; maxRecords is max.batch.size, held to the bound of
// batches.
func NewBuilder(maxRecords int) *Builder {
	return &Builder{maxRecords: max(1, min(maxRecords, connectors.MaxBatchRecords))}
}

// Add puts a record behind the others.
func (b *Builder) Add(r schema.Record) {
	if b.n == len(b.slab) {
		grown := make([]schema.Record, max(recordSlab, 2*b.n))
		copy(grown, b.slab)
		b.slab = grown
	}
	b.slab[b.n] = r
	b.n++
}

// Len is the number of records of the batch in the making.
func (b *Builder) Len() int { return b.n }

// Bytes is what they hold, about.
func (b *Builder) Bytes() int { return b.bytes }

// Grow counts bytes of values.
func (b *Builder) Grow(bytes int) { b.bytes += bytes }

// Last is the last record, to be changed in place; there must be one.
func (b *Builder) Last() *schema.Record { return &b.slab[b.n-1] }

// recordsPerChange is the most that one change of a row becomes: a delete, its
// tombstone, a create.
const recordsPerChange = 3

// Full reports whether the batch must go before a change with values of so many more
// bytes comes.
func (b *Builder) Full(more int) bool {
	return b.n > 0 && (b.n+recordsPerChange > b.maxRecords || b.bytes+more > connectors.MaxBatchBytes)
}

// Take ends the batch and hands it out, with the bytes of its values.
func (b *Builder) Take() (records []schema.Record, bytes int) {
	records, bytes = b.slab[:b.n:b.n], b.bytes
	b.slab, b.n, b.bytes = b.slab[b.n:], 0, 0
	return records, bytes
}
