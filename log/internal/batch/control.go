package batch

import (
	"encoding/binary"
	"fmt"
)

// A control batch that ends a transaction has one record.
//
//	key:   i16 version 0, i16 type: 0 abort, 1 commit
//	value: i16 version 0, i32 coordinator epoch
const (
	controlAbort  = 0
	controlCommit = 1
)

// Marker is what a control batch says about a transaction.
type Marker struct {
	Commit           bool // else abort
	CoordinatorEpoch int32
}

// NewMarker builds the control batch that ends a transaction of a producer.
// Timestamp is in ms.
func NewMarker(producerID int64, epoch int16, m Marker, timestamp int64) View {
	kind := uint16(controlAbort)
	if m.Commit {
		kind = controlCommit
	}
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch))
	return build(Options{
		Producer:      &Producer{ID: producerID, Epoch: epoch, Sequence: -1},
		Transactional: true,
	}, attrControl, []Record{{Timestamp: timestamp, Key: key, Value: value}})
}

// CheckControl checks the shape of a control batch: uncompressed, with one
// record whose key has a version and a type; or emptied by compaction.
func (v View) CheckControl() error {
	_, _, err := v.Marker()
	return err
}

// Marker decodes a control batch that ends a transaction. ok is false for other
// control types and for a batch that compaction emptied; a malformed one is an
// *Error of CorruptMessage.
func (v View) Marker() (m Marker, ok bool, err error) {
	if !v.IsControl() {
		return m, false, nil
	}
	if v.Count() == 0 && len(v) == HeaderSize {
		return m, false, nil
	}
	if v.Codec() != None || v.Count() != 1 {
		return m, false, corrupt("control batch at offset %d: %d records, %v", v.BaseOffset(), v.Count(), v.Codec())
	}
	r := reader{b: v[HeaderSize:]}
	var f fields
	if r.record(&f); r.bad != "" || r.rest() != 0 {
		return m, false, corrupt("control batch at offset %d: %s", v.BaseOffset(), firstOf(r.bad, "bytes after its record"))
	}
	if len(f.key) < 4 {
		return m, false, corrupt("control batch at offset %d: key of %d bytes", v.BaseOffset(), len(f.key))
	}
	switch kind := binary.BigEndian.Uint16(f.key[2:]); kind {
	case controlAbort, controlCommit:
		if len(f.value) < 6 {
			return m, false, corrupt("control batch at offset %d: value of %d bytes", v.BaseOffset(), len(f.value))
		}
		return Marker{Commit: kind == controlCommit, CoordinatorEpoch: int32(binary.BigEndian.Uint32(f.value[2:]))}, true, nil
	}
	return m, false, nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func tooLarge(size, limit int) string {
	return fmt.Sprintf("batch of %d bytes is larger than max.message.bytes of %d; raise it on the topic, or send smaller batches", size, limit)
}
