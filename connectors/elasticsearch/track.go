package elasticsearch

import "millrace/connectors"

// A partition knows which of its records are done and so how far its offset may go:
// up to the first one that is not. It is guarded by its task's mutex.
type partition struct {
	tp    connectors.TopicPartition
	gone  bool // taken away: nothing of it is sent any more
	first int64
	open  []taken // records that are not done, and those behind them, in order; open[0] has number first
	next  int64   // the offset behind the done ones
	moved bool    // since the last Flush
}

// taken is a record that was taken.
type taken struct {
	offset int64
	done   bool
}

// take notes a record and returns its number.
func (p *partition) take(offset int64) int64 {
	p.open = append(p.open, taken{offset: offset})
	return p.first + int64(len(p.open)) - 1
}

// finish notes that a record is done.
func (p *partition) finish(number int64) {
	p.open[number-p.first].done = true
	n := 0
	for n < len(p.open) && p.open[n].done {
		p.next = max(p.next, p.open[n].offset+1)
		n++
	}
	if n == 0 {
		return
	}
	p.moved = true
	p.first += int64(n)
	p.open = p.open[n:] // append moves what is left to a new array in time
}
