package store

import (
	"fmt"
	"slices"

	"millrace/log/internal/batch"
)

// windowSize is how many batches an idempotent producer may have in flight.
const windowSize = 5

// produced is one batch of a producer.
type produced struct {
	firstSeq, lastSeq int32
	firstOffset       int64
	timestamp         int64
}

func (w produced) delta() int32      { return subSequence(w.lastSeq, w.firstSeq) }
func (w produced) lastOffset() int64 { return w.firstOffset + int64(w.delta()) }

// subSequence is a-b in sequence numbers, which wrap from the largest int32 to 0.
func subSequence(a, b int32) int32 {
	if d := int64(a) - int64(b); d >= 0 {
		return int32(d)
	} else {
		return int32(d + 1<<31)
	}
}

// producer is what a partition knows of one producer id.
type producer struct {
	epoch      int16
	n          int8 // batches in window, oldest first
	window     [windowSize]produced
	coordEpoch int32 // of the last marker, -1 none
	txnFirst   int64 // first offset of the open transaction, -1 none
	timestamp  int64 // ms, when the producer last wrote
}

func (e *producer) push(w produced) {
	if e.n == windowSize {
		copy(e.window[:], e.window[1:])
		e.n--
	}
	e.window[e.n] = w
	e.n++
}

// producers is the state of all producers of a partition, and of transactions.
// Guarded by the partition's lock.
type producers struct {
	m map[int64]*producer
	// open are the first offsets of open transactions, rising.
	open []int64
	// finished are transactions whose marker is not durable yet, by marker. They
	// hold the last stable offset back: a marker that can still vanish must not show data, but where it is sure to come again.
	finished []finishedTxn
}

type finishedTxn struct{ first, marker int64 }

func newProducers(m map[int64]*producer) *producers {
	if m == nil {
		m = map[int64]*producer{}
	}
	ps := &producers{m: m}
	for _, e := range m {
		if e.txnFirst >= 0 {
			ps.open = append(ps.open, e.txnFirst)
		}
	}
	slices.Sort(ps.open)
	return ps
}

// check decides on a batch with a producer id before it is written. A non-nil
// dup is the earlier batch that this one repeats. empty: the partition never held
// a record. Coordinators write without sequences.
func (ps *producers) check(v batch.View, origin Origin, empty bool) (dup *produced, err error) {
	id, epoch := v.ProducerID(), v.ProducerEpoch()
	e := ps.m[id]
	if e != nil && epoch < e.epoch {
		return nil, &batch.Error{Code: batch.InvalidProducerEpoch, Reason: fmt.Sprintf("producer %d: epoch %d was succeeded by %d", id, epoch, e.epoch)}
	}
	if v.IsControl() {
		m, ok, err := v.Marker()
		if err != nil {
			return nil, err
		}
		if ok && e != nil && m.CoordinatorEpoch < e.coordEpoch {
			return nil, &batch.Error{Code: batch.TransactionCoordinatorFenced, Reason: fmt.Sprintf("producer %d: marker of coordinator epoch %d after %d", id, m.CoordinatorEpoch, e.coordEpoch)}
		}
		return nil, nil
	}
	first, last := v.BaseSequence(), v.LastSequence()
	outOfOrder := func(want int32) error {
		return &batch.Error{Code: batch.OutOfOrderSequence, Reason: fmt.Sprintf("producer %d epoch %d: sequence %d, expected %d", id, epoch, first, want)}
	}
	switch {
	case origin != FromClient:
	case e == nil:
		if empty && first != 0 {
			return nil, outOfOrder(0)
		}
		return nil, nil
	case epoch > e.epoch:
		if first != 0 {
			return nil, outOfOrder(0)
		}
	default:
		for i := range e.window[:e.n] {
			if e.window[i].firstSeq == first && e.window[i].lastSeq == last {
				return &e.window[i], nil
			}
		}
		want := int32(0)
		if e.n > 0 {
			want = batch.AddSequence(e.window[e.n-1].lastSeq, 1)
		}
		if first != want {
			return nil, outOfOrder(want)
		}
	}
	if e != nil && e.txnFirst >= 0 && !v.Transactional() {
		return nil, &batch.Error{Code: batch.InvalidTxnState, Reason: fmt.Sprintf("producer %d: write outside the transaction that it has open since offset %d", id, e.txnFirst)}
	}
	return nil, nil
}

// apply takes up a batch that was written at its base offset. now is in ms. When it ends an
// aborted transaction that transaction is returned.
func (ps *producers) apply(v batch.View, now int64) (aborted abortedTxn, isAborted bool) {
	if !v.HasProducer() {
		return
	}
	id, epoch := v.ProducerID(), v.ProducerEpoch()
	e := ps.m[id]
	if e == nil {
		e = &producer{epoch: epoch, coordEpoch: -1, txnFirst: -1}
		ps.m[id] = e
	}
	if epoch != e.epoch {
		e.epoch, e.n = epoch, 0
	}
	e.timestamp = now
	if v.IsControl() {
		m, ok, err := v.Marker()
		if !ok || err != nil {
			return
		}
		e.coordEpoch = m.CoordinatorEpoch
		if e.txnFirst < 0 {
			return
		}
		first := e.txnFirst
		e.txnFirst = -1
		if i, found := slices.BinarySearch(ps.open, first); found {
			ps.open = slices.Delete(ps.open, i, i+1)
		}
		ps.finished = append(ps.finished, finishedTxn{first, v.BaseOffset()})
		if m.Commit {
			return
		}
		return abortedTxn{producer: id, first: first, last: v.LastOffset(), stable: ps.stable(v.NextOffset())}, true
	}
	if v.BaseSequence() >= 0 {
		e.push(produced{v.BaseSequence(), v.LastSequence(), v.BaseOffset(), now})
	}
	if v.Transactional() && e.txnFirst < 0 {
		e.txnFirst = v.BaseOffset()
		ps.open = append(ps.open, e.txnFirst) // offsets rise
	}
	return
}

// stable is the last stable offset as far as open transactions bound it.
func (ps *producers) stable(limit int64) int64 {
	if len(ps.open) > 0 {
		limit = min(limit, ps.open[0])
	}
	return limit
}

// settle forgets finished transactions whose marker lies below hw, and returns
// the last stable offset for hw.
func (ps *producers) settle(hw int64) int64 {
	keep := ps.finished[:0]
	lso := ps.stable(hw)
	for _, f := range ps.finished {
		if f.marker >= hw {
			keep = append(keep, f)
			lso = min(lso, f.first)
		}
	}
	ps.finished = keep
	return lso
}

// decided has the transaction that ends with a marker no longer wait for it to be durable.
func (ps *producers) decided(marker int64) {
	ps.finished = slices.DeleteFunc(ps.finished, func(f finishedTxn) bool { return f.marker == marker })
}

// expire forgets producers that wrote nothing since before (ms) and have no open transaction.
func (ps *producers) expire(before int64) (n int) {
	for id, e := range ps.m {
		if e.txnFirst < 0 && e.timestamp < before {
			delete(ps.m, id)
			n++
		}
	}
	return n
}
