package log

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// EndTransaction commits or aborts the transaction of a transactional client. Whoever commits has waited for the answer to each record
// of it: what has none by now is not written. All of ours end their transactions with it, and none with the client's own method, which
// may answer that it has committed what it aborted.
//
// That is a fault of franz-go (1.22.3): when a client writes to a topic for the first time, its metadata loop hands the waiting records to
// the partitions and only then (storePartitionsUpdate) puts the partitions where the client looks for those in a transaction. With records
// acknowledged in between, the end of the transaction finds none. So it aborts, or on a cluster without epochs of transactions leaves the
// transaction open for the next one to end, and says that all is well either way. The sequences of such partitions are not begun anew with
// the new epoch either, so the next transaction is refused with OUT_OF_ORDER_SEQUENCE_NUMBER.
func EndTransaction(ctx context.Context, cl *kgo.Client, how kgo.TransactionEndTry) error {
	if err := settle(ctx, cl); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, how)
}

// settle returns when the client has no records on their way, those that it can still fail having failed, and knows the partitions of all
// that it wrote: the lock under which the metadata loop hands on records and puts partitions (unknownTopicsMu) is one that the abort of
// records takes.
func settle(ctx context.Context, cl *kgo.Client) error { return cl.AbortBufferedRecords(ctx) }

// Fenced reports whether a transactional producer's error says that another has taken its id, or that
// its transaction was open for longer than its timeout: to the broker that is one and the same. A
// transaction that its owner ends and that is open no more (INVALID_TXN_STATE) is what a broker with
// epochs of transactions says of it.
func Fenced(err error) bool {
	for _, e := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, ErrFenced} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
