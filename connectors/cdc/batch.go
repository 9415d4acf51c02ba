package cdc

import (
	"millrace/connectors"
	"millrace/schema"
)

// A Builder gathers records into batches within their bounds. Its arena and its
// records come from slabs that are never used twice. Small batches share a slab, so
// that three records cost what three records take; a larger one gets its own, since
// a slab keeps alive all that was ever put into it.
type Builder struct {
	Arena schema.Arena

	maxRecords int
	slab       []schema.Record // of which the batch in the making is the front
	n          int
	bytes      int
	last       int // records of the batch before, as a guess at the next one's
	taken      int // of the arena, when the last batch was ended
}

const (
	// batchBytes is well below what a batch may hold: with less in each, all stages are busy with less in all.
	batchBytes = connectors.MaxBatchBytes / 2
	ownSlab    = 64 << 10 // bytes of values from which on a batch shares with none
)

// NewBuilder makes a builder; maxRecords is max.batch.size, held to the bound of
// batches.
func NewBuilder(maxRecords int) *Builder {
	return &Builder{maxRecords: max(1, min(maxRecords, connectors.MaxBatchRecords))}
}

// Add puts a record behind the others.
func (b *Builder) Add(r schema.Record) {
	if b.n == len(b.slab) {
		size := max(2*b.n, b.last+b.last/8+8)
		grown := make([]schema.Record, size)
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

// A Mark is how far the batch in the making is.
type Mark struct{ n, bytes int }

// Mark is how far the batch in the making is now.
func (b *Builder) Mark() Mark { return Mark{b.n, b.bytes} }

// Cut takes what came behind a mark out of the batch in the making, to which the mark must belong. What it held
// of the arena stays taken.
func (b *Builder) Cut(m Mark) {
	clear(b.slab[m.n:b.n])
	b.n, b.bytes = m.n, m.bytes
}

// Len is the number of records that were there.
func (m Mark) Len() int { return m.n }

// recordsPerChange is the most that one change of a row becomes: a delete, its
// tombstone, a create.
const recordsPerChange = 3

// Full reports whether the batch must go before a change with values of so many more
// bytes comes.
func (b *Builder) Full(more int) bool {
	return b.n > 0 && (b.n+recordsPerChange > b.maxRecords || b.bytes+more > batchBytes)
}

// Take ends the batch and hands it out, with the memory that it holds: the bytes of its values
// and all that is around them, which of rows of small columns is most.
func (b *Builder) Take() (records []schema.Record, memory int) {
	records = b.slab[:b.n:b.n]
	memory = b.bytes + b.Arena.Taken() - b.taken
	b.taken = b.Arena.Taken()
	if b.bytes > ownSlab {
		b.slab, b.Arena, b.taken = nil, schema.Arena{}, 0
	} else {
		b.slab = b.slab[b.n:]
	}
	b.n, b.bytes, b.last = 0, 0, b.n
	return records, memory
}
