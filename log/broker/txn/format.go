package txn

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records of the topic __transaction_state, in Kafka's schemas (its TransactionLogKey and TransactionLogValue). Integers are
// big-endian; compact strings and arrays have a varint length + 1, null is 0. A null value is a tombstone. All of it is fixed for
// ever.
//
//	key     i16 0 · string transactional id (i16 length)
//	value   i16 1 · i64 producer id · i16 epoch · i32 timeout (ms) · i8 state · compact nullable array of
//	        {compact string topic · compact array of i32 partitions · tags} · i64 last update (ms) · i64 start (ms), −1 none · tags:
//	        0 i64 producer id before this one · 1 i64 producer id after this transaction ·
//	        2 i16 the producer's transaction version
//	        10000 ours, empty: the producer came over the in-memory connection · 10001 ours, i16 the epoch before this one
//
// Read are value versions 0 (without tags) and 1.
const (
	keyVersion   = 0
	valueVersion = 1
	embeddedTag  = 10_000
	lastEpochTag = 10_001
)

// maxID is the longest transactional id that the records can hold.
const maxID = 32_000

func stateKey(id string) []byte {
	k := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	return k.AppendTo(nil)
}

func stateValue(t *txn) []byte {
	v := kmsg.TxnMetadataValue{
		Version: valueVersion, ProducerID: t.pid, ProducerEpoch: t.epoch, TimeoutMillis: t.timeout, State: t.state,
		LastUpdateTimestamp: t.updated, StartTimestamp: t.start,
		PreviousProducerID: t.prevPID, NextProducerID: t.nextPID, ClientTransactionVersion: t.version, NextProducerEpoch: -1,
	}
	if t.lastEpoch >= 0 {
		v.UnknownTags.Set(lastEpochTag, binary.BigEndian.AppendUint16(nil, uint16(t.lastEpoch)))
	}
	for _, p := range t.parts { // sorted
		if n := len(v.Topics); n == 0 || v.Topics[n-1].Topic != p.Topic {
			v.Topics = append(v.Topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		topic := &v.Topics[len(v.Topics)-1]
		topic.Partitions = append(topic.Partitions, p.Partition)
	}
	if t.embedded {
		v.UnknownTags.Set(embeddedTag, nil)
	}
	return v.AppendTo(nil)
}

// parseKey returns the transactional id; known is false for keys of other versions, which are left alone.
func parseKey(b []byte) (id string, known bool, err error) {
	if len(b) < 2 {
		return "", false, fmt.Errorf("key of %d bytes", len(b))
	}
	if binary.BigEndian.Uint16(b) != keyVersion {
		return "", false, nil
	}
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(b); err != nil {
		return "", false, fmt.Errorf("key: %w", err)
	}
	return k.TransactionalID, true, nil
}

func parseValue(id string, b []byte) (txn, error) {
	var v kmsg.TxnMetadataValue
	if len(b) < 2 {
		return txn{}, fmt.Errorf("value of %d bytes", len(b))
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 || version > valueVersion {
		return txn{}, fmt.Errorf("value version %d is not known", version)
	}
	if err := v.ReadFrom(b); err != nil {
		return txn{}, fmt.Errorf("value: %w", err)
	}
	if v.ProducerID < 0 || v.ProducerEpoch < 0 || v.State < kmsg.TransactionStateEmpty || v.State > kmsg.TransactionStateDead {
		return txn{}, fmt.Errorf("value: producer %d, epoch %d, state %d", v.ProducerID, v.ProducerEpoch, v.State)
	}
	t := txn{
		id: id, state: v.State, pid: v.ProducerID, prevPID: v.PreviousProducerID, nextPID: v.NextProducerID,
		epoch: v.ProducerEpoch, lastEpoch: -1, timeout: v.TimeoutMillis, start: v.StartTimestamp, updated: v.LastUpdateTimestamp,
		version: v.ClientTransactionVersion,
	}
	for _, topic := range v.Topics {
		for _, n := range topic.Partitions {
			t.parts = append(t.parts, Partition{topic.Topic, n})
		}
	}
	slices.SortFunc(t.parts, comparePartitions)
	t.parts = slices.Compact(t.parts)
	v.UnknownTags.Each(func(tag uint32, val []byte) {
		switch {
		case tag == embeddedTag:
			t.embedded = true
		case tag == lastEpochTag && len(val) == 2:
			t.lastEpoch = max(-1, int16(binary.BigEndian.Uint16(val)))
		}
	})
	return t, nil
}
