package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A record batch, version 2. Integers are big-endian.
//
//	 0 i64 base offset              43 i64 producer id (-1 none)
//	 8 i32 length of what follows   51 i16 producer epoch
//	12 i32 partition leader epoch   53 i32 base sequence
//	16 i8  magic, 2                 57 i32 record count
//	17 u32 CRC-32C of bytes 21..    61 records, compressed as a whole
//	21 i16 attributes
//	23 i32 last offset delta
//	27 i64 base timestamp (ms)
//	35 i64 max timestamp (ms)
//
// Attributes: bits 0-2 codec, 3 timestamp type (1 = log append time),
// 4 transactional, 5 control, 6 delete horizon (base timestamp holds it).
const (
	HeaderSize    = 61
	LengthPrefix  = 12                        // base offset and length: what precedes the counted bytes
	MinLength     = HeaderSize - LengthPrefix // smallest value of the length field
	Magic         = 2
	NoProducer    = int64(-1)
	NoTimestamp   = int64(-1)
	attrCodec     = 0x07
	attrLogAppend = 0x08
	attrTxn       = 0x10
	attrControl   = 0x20
	attrHorizon   = 0x40
	crcStart      = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// View is one batch: exactly its bytes, header included. The accessors do not
// check; a View comes from Next, Split or Builder, which do. BaseOffset to Count are the
// header's fields, drawn above; timestamps are milliseconds since 1970.
type View []byte

func (v View) BaseOffset() int64      { return int64(binary.BigEndian.Uint64(v)) }
func (v View) Length() int32          { return int32(binary.BigEndian.Uint32(v[8:])) }
func (v View) LeaderEpoch() int32     { return int32(binary.BigEndian.Uint32(v[12:])) }
func (v View) MagicByte() int8        { return int8(v[16]) }
func (v View) CRC() uint32            { return binary.BigEndian.Uint32(v[17:]) }
func (v View) Attributes() int16      { return int16(binary.BigEndian.Uint16(v[21:])) }
func (v View) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(v[23:])) }
func (v View) BaseTimestamp() int64   { return int64(binary.BigEndian.Uint64(v[27:])) }
func (v View) MaxTimestamp() int64    { return int64(binary.BigEndian.Uint64(v[35:])) }
func (v View) ProducerID() int64      { return int64(binary.BigEndian.Uint64(v[43:])) }
func (v View) ProducerEpoch() int16   { return int16(binary.BigEndian.Uint16(v[51:])) }
func (v View) BaseSequence() int32    { return int32(binary.BigEndian.Uint32(v[53:])) }
func (v View) Count() int32           { return int32(binary.BigEndian.Uint32(v[57:])) }

// Size is the batch's whole size in bytes, by its header.
func (v View) Size() int { return LengthPrefix + int(v.Length()) }

// LastOffset is the offset of the last record the batch was written with.
func (v View) LastOffset() int64 { return v.BaseOffset() + int64(v.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (v View) NextOffset() int64 { return v.LastOffset() + 1 }

// LastSequence is the sequence number of the last record; sequences wrap from
// the largest int32 to 0. -1 without a sequence.
func (v View) LastSequence() int32 {
	if v.BaseSequence() < 0 {
		return -1
	}
	return AddSequence(v.BaseSequence(), v.LastOffsetDelta())
}

// Codec is the compression of the records; the others below are the attributes' bits, and
// HasProducer whether a producer id is set, as idempotent producers do.
func (v View) Codec() Codec           { return Codec(v.Attributes() & attrCodec) }
func (v View) LogAppendTime() bool    { return v.Attributes()&attrLogAppend != 0 }
func (v View) Transactional() bool    { return v.Attributes()&attrTxn != 0 }
func (v View) IsControl() bool        { return v.Attributes()&attrControl != 0 }
func (v View) HasDeleteHorizon() bool { return v.Attributes()&attrHorizon != 0 }
func (v View) HasProducer() bool      { return v.ProducerID() != NoProducer }

// SetBaseOffset and SetLeaderEpoch write the two fields that the broker assigns.
// They lie outside the checksum.
func (v View) SetBaseOffset(o int64)  { binary.BigEndian.PutUint64(v, uint64(o)) }
func (v View) SetLeaderEpoch(e int32) { binary.BigEndian.PutUint32(v[12:], uint32(e)) }

// SetLogAppendTime marks the batch as stamped by the log at ms, and writes the
// checksum anew. The records are not touched.
func (v View) SetLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(v[21:], uint16(v.Attributes())|attrLogAppend)
	binary.BigEndian.PutUint64(v[35:], uint64(ms))
	v.SealCRC()
}

// ComputeCRC is the checksum of the batch's bytes.
func (v View) ComputeCRC() uint32 { return crc32.Checksum(v[crcStart:], castagnoli) }

// SealCRC writes the checksum of the batch's present bytes into its header.
func (v View) SealCRC() { binary.BigEndian.PutUint32(v[17:], v.ComputeCRC()) }

// AddSequence adds n to a sequence number, wrapping from the largest int32 to 0.
func AddSequence(seq, n int32) int32 {
	if s := int64(seq) + int64(n); s <= 1<<31-1 {
		return int32(s)
	} else {
		return int32(s - 1<<31)
	}
}

// Next takes the batch at the start of b and returns it with the rest. It checks
// only that the header and the length it names lie within b and that the magic
// is 2; see View.Validate for the rest. An error is an *Error.
func Next(b []byte) (v View, rest []byte, err error) {
	if len(b) < HeaderSize {
		return nil, b, corrupt("%d bytes are too few for a batch header of %d", len(b), HeaderSize)
	}
	v = View(b)
	if m := v.MagicByte(); m != Magic {
		return nil, b, &Error{Code: UnsupportedForMessageFormat, Reason: fmt.Sprintf("message format version %d; only version 2 is served", m)}
	}
	n := int64(v.Length())
	if n < MinLength || n+LengthPrefix > int64(len(b)) {
		return nil, b, corrupt("batch length %d does not fit the %d bytes at hand", n, len(b))
	}
	return View(b[: n+LengthPrefix : n+LengthPrefix]), b[n+LengthPrefix:], nil
}

// Split appends the batches that b consists of to dst. Nothing may remain.
func Split(dst []View, b []byte) ([]View, error) {
	for len(b) > 0 {
		v, rest, err := Next(b)
		if err != nil {
			return dst, err
		}
		dst, b = append(dst, v), rest
	}
	return dst, nil
}

// Sum is the checksum of a batch that is read piece by piece.
type Sum uint32

// NewSum begins with the header; Add takes what follows, in order.
func NewSum(header View) Sum { return Sum(crc32.Checksum(header[crcStart:HeaderSize], castagnoli)) }

// Add continues the checksum.
func (s Sum) Add(b []byte) Sum { return Sum(crc32.Update(uint32(s), castagnoli, b)) }
