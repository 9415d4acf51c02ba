package batch

import (
	"encoding/binary"
	"math"
)

// Producer identifies the writer of a batch.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the first record
}

// Options of Build.
type Options struct {
	Codec         Codec
	Producer      *Producer // nil: no producer id
	Transactional bool
	BaseOffset    int64
	LeaderEpoch   int32
}

// Build makes one batch of records, whose Offset fields are ignored (they count
// up from BaseOffset). Timestamps are in ms. It panics without records.
func Build(o Options, records ...Record) View {
	if len(records) == 0 {
		panic("batch: Build without records")
	}
	return build(o, 0, records)
}

func build(o Options, attrs int16, records []Record) View {
	base := records[0].Timestamp
	latest := int64(math.MinInt64)
	var body []byte
	for i := range records {
		latest = max(latest, records[i].Timestamp)
		body = appendRecord(body, &records[i], records[i].Timestamp-base, int32(i))
	}
	b := make([]byte, HeaderSize, HeaderSize+len(body))
	b = deflate(b, o.Codec, body)
	attrs |= int16(o.Codec)
	if o.Transactional {
		attrs |= attrTxn
	}
	p := Producer{ID: NoProducer, Epoch: -1, Sequence: -1}
	if o.Producer != nil {
		p = *o.Producer
	}
	be := binary.BigEndian
	be.PutUint64(b, uint64(o.BaseOffset))
	be.PutUint32(b[8:], uint32(len(b)-LengthPrefix))
	be.PutUint32(b[12:], uint32(o.LeaderEpoch))
	b[16] = Magic
	be.PutUint16(b[21:], uint16(attrs))
	be.PutUint32(b[23:], uint32(len(records)-1))
	be.PutUint64(b[27:], uint64(base))
	be.PutUint64(b[35:], uint64(latest))
	be.PutUint64(b[43:], uint64(p.ID))
	be.PutUint16(b[51:], uint16(p.Epoch))
	be.PutUint32(b[53:], uint32(p.Sequence))
	be.PutUint32(b[57:], uint32(len(records)))
	v := View(b)
	v.SealCRC()
	return v
}

func appendRecord(dst []byte, r *Record, timeDelta int64, offsetDelta int32) []byte {
	n := 1 + varlen(timeDelta) + varlen(int64(offsetDelta)) + fieldLen(r.Key) + fieldLen(r.Value) + varlen(int64(len(r.Headers)))
	for i := range r.Headers {
		n += varlen(int64(len(r.Headers[i].Key))) + len(r.Headers[i].Key) + fieldLen(r.Headers[i].Value)
	}
	dst = binary.AppendVarint(dst, int64(n))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timeDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendField(dst, r.Key)
	dst = appendField(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(r.Headers[i].Key)))
		dst = append(dst, r.Headers[i].Key...)
		dst = appendField(dst, r.Headers[i].Value)
	}
	return dst
}

func appendField(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func fieldLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varlen(int64(len(b))) + len(b)
}

// varlen is the length of x as a zigzag varint.
func varlen(x int64) int {
	u := uint64(x<<1) ^ uint64(x>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
