package compact

import (
	"cmp"
	"slices"

	"millrace/log/internal/batch"
)

// Aborted is an aborted transaction: the data of a producer from First on, up to the marker at Last.
type Aborted struct {
	ProducerID  int64
	First, Last int64
}

// txns follows transactions through the batches of a log, in order. All of them must be decided.
type txns struct {
	aborted []Aborted // not begun yet, by first offset
	open    map[int64]Aborted
	data    map[int64]bool // producers of which data was read since their last marker
}

func newTxns(aborted []Aborted) *txns {
	t := &txns{aborted: slices.Clone(aborted), open: map[int64]Aborted{}, data: map[int64]bool{}}
	slices.SortFunc(t.aborted, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return t
}

// dataOf takes up a data batch and reports whether it belongs to an aborted transaction.
func (t *txns) dataOf(v batch.View) bool {
	if !v.Transactional() {
		return false
	}
	t.begin(v.LastOffset())
	t.data[v.ProducerID()] = true
	a, ok := t.open[v.ProducerID()]
	return ok && v.LastOffset() <= a.Last
}

// markerOf takes up a control batch and reports whether there was data of its transaction.
func (t *txns) markerOf(v batch.View) bool {
	t.begin(v.LastOffset())
	id := v.ProducerID()
	if a, ok := t.open[id]; ok && a.Last <= v.LastOffset() {
		delete(t.open, id)
	}
	had := t.data[id]
	delete(t.data, id)
	return had
}

// begin opens the aborted transactions that begin at or before offset.
func (t *txns) begin(offset int64) {
	for len(t.aborted) > 0 && t.aborted[0].First <= offset {
		t.open[t.aborted[0].ProducerID] = t.aborted[0]
		t.aborted = t.aborted[1:]
	}
}
