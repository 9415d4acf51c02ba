package elasticsearch

import (
	"slices"
	"time"

	"millrace/schema"
)

// An item is a record in a bulk. Its lines are body[start:end] of its batch.
type item struct {
	part       *partition
	number     int64  // in part
	hash       uint64 // of index and id; 0 where the id is no other record's
	start, end int
	op         op
	versioned  bool
	version    int64
	id, index  string
	record     schema.Record
}

// A batch is a bulk: the body of its request and what is in it.
type batch struct {
	body  []byte
	items []item
	since time.Time // when the first item came
}

// keep leaves only the items that yes holds for, in their order, and their lines.
func (b *batch) keep(yes func(i int) bool) {
	n, at := 0, 0
	for i := range b.items {
		if !yes(i) {
			continue
		}
		it := b.items[i]
		size := copy(b.body[at:], b.body[it.start:it.end])
		it.start, it.end = at, at+size
		b.items[n] = it
		at += size
		n++
	}
	clear(b.items[n:]) // lets go of the records
	b.items, b.body = b.items[:n], b.body[:at]
}

// split cuts b into halves by bytes; b has two items at least.
func (b *batch) split() (left, right *batch) {
	cut := 1
	for cut < len(b.items)-1 && b.items[cut].start < len(b.body)/2 {
		cut++
	}
	at := b.items[cut].start
	left = &batch{body: b.body[:at:at], items: b.items[:cut:cut], since: b.since}
	right = &batch{body: b.body[at:], items: b.items[cut:], since: b.since}
	for i := range right.items {
		right.items[i].start -= at
		right.items[i].end -= at
	}
	return left, right
}

// A job is what is under way in one of the places for requests: mostly one batch,
// more where one had to be split. Its bytes count until it is over.
type job struct {
	batches []*batch
	bytes   int
}

// halve replaces the first batch by its halves.
func (j *job) halve() {
	left, right := j.batches[0].split()
	j.batches = slices.Replace(j.batches, 0, 1, left, right)
}
