package txn

import (
	"cmp"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type state = kmsg.TransactionState

const (
	empty          = kmsg.TransactionStateEmpty // no transaction since the producer was initialised
	ongoing        = kmsg.TransactionStateOngoing
	prepareCommit  = kmsg.TransactionStatePrepareCommit // decided; markers are being written
	prepareAbort   = kmsg.TransactionStatePrepareAbort
	completeCommit = kmsg.TransactionStateCompleteCommit
	completeAbort  = kmsg.TransactionStateCompleteAbort
	dead           = kmsg.TransactionStateDead // only in records of Kafka's
)

// Partition is one that a transaction writes to.
type Partition struct {
	Topic     string
	Partition int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Producer is who asks: the transactional id, and the producer id and epoch that it believes to have.
type Producer struct {
	TransactionalID string
	ID              int64
	Epoch           int16
}

// lastEpoch is the largest epoch that producers get. The one after it is left for fencing them.
const lastEpoch = math.MaxInt16 - 1

// txn is a transactional id and its transaction. A value that is in use never changes: a transition makes another one, which takes
// its place when its record is written. Times are in milliseconds since 1970.
type txn struct {
	id        string
	state     state
	pid       int64
	prevPID   int64 // the one before, whose epochs ran out; −1
	nextPID   int64 // the one after this transaction, since the epochs have run out; −1
	epoch     int16 // −1: none was given out yet
	lastEpoch int16 // the one before, with which its producer may repeat a request; −1
	timeout   int32 // of a transaction, ms
	parts     []Partition
	start     int64 // of the transaction, −1 none
	updated   int64
	version   int16 // 2: the transaction was ended in the newer flow, in which each has an epoch of its own
	embedded  bool  // the producer came over the in-memory connection
}

func (t *txn) exhausted() bool { return t.epoch >= lastEpoch }

func (t *txn) has(p Partition) bool {
	_, found := slices.BinarySearchFunc(t.parts, p, comparePartitions)
	return found
}

func (t *txn) hasAll(parts []Partition) bool {
	return !slices.ContainsFunc(parts, func(p Partition) bool { return !t.has(p) })
}

func (t *txn) preparing() bool { return t.state == prepareCommit || t.state == prepareAbort }

// commits says how a transaction that is decided ends.
func (t *txn) commits() bool { return t.state == prepareCommit || t.state == completeCommit }

// due says that a transaction has been open for longer than its producer asked for.
func (t *txn) due(now int64) bool { return t.state == ongoing && now-t.start > int64(t.timeout) }

// check says whether it is this producer that may write to its transaction.
func (t *txn) check(p Producer) int16 {
	switch {
	case t.pid != p.ID:
		return kerr.InvalidProducerIDMapping.Code
	case t.epoch != p.Epoch || t.epoch > lastEpoch:
		return kerr.ProducerFenced.Code
	case t.preparing():
		return kerr.ConcurrentTransactions.Code
	}
	return 0
}

// apart says that a start needs no further record to tell what is written next from a transaction that is over: the next one has an
// epoch of its own, or there is a record that it has begun. The partitions show what belongs to it.
func (t *txn) apart() bool { return t.version >= 2 || t.state == empty || t.state == ongoing }

// add begins a transaction, or goes on with it, with further partitions.
func (t txn) add(parts []Partition, now int64) txn {
	if t.state != ongoing {
		t.state, t.start, t.parts = ongoing, now, nil
	}
	all := slices.Concat(t.parts, parts)
	slices.SortFunc(all, comparePartitions)
	t.parts = slices.Compact(all)
	t.updated = now
	return t
}

// fence decides that an open transaction is aborted, so that its producer cannot go on with it. In the newer flow a producer that
// then asks for an abort itself gets the next epoch, as if it had come first.
func (t txn) fence(now int64) txn {
	t.state, t.updated = prepareAbort, now
	t.version, t.lastEpoch, t.nextPID = 2, -1, -1
	t.epoch++ // of an open transaction it is not the last one
	return t
}

// decide is the end that a producer asks for. In the newer flow (version 2) the producer goes on with the next epoch, or, when there
// is none, with nextPID.
func (t txn) decide(commit bool, version int16, nextPID, now int64) txn {
	t.state = prepareAbort
	if commit {
		t.state = prepareCommit
	}
	t.version, t.updated, t.nextPID = version, now, -1
	if t.start < 0 {
		t.start = now
	}
	if version >= 2 {
		if t.exhausted() {
			t.nextPID = nextPID
		}
		t.lastEpoch = t.epoch
		t.epoch++
	}
	return t
}

// complete is the state after all markers are written.
func (t txn) complete(now int64) txn {
	if t.state == prepareCommit {
		t.state = completeCommit
	} else {
		t.state = completeAbort
	}
	t.parts, t.updated = nil, now
	if t.version >= 2 {
		t.prevPID = t.pid
		if t.nextPID >= 0 {
			t.pid, t.nextPID, t.epoch = t.nextPID, -1, 0
		}
	}
	return t
}

// wrote says whether what a producer has open in a partition belongs to the transaction that is decided here, and not to a later one
// of which no record is left.
func (t *txn) wrote(pid int64, epoch int16) bool {
	switch {
	case pid != t.pid:
		return pid == t.prevPID && t.epoch == 0
	case t.version >= 2:
		return epoch < t.epoch
	default:
		return epoch <= t.epoch
	}
}
