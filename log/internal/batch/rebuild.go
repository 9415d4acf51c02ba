package batch

import "encoding/binary"

// NoHorizon is the delete horizon of a batch that has none.
const NoHorizon = int64(-1)

// DeleteHorizon is the time (ms) from which compaction may remove the batch's tombstones, or the batch, if it ends a
// transaction; NoHorizon if none was set.
func (v View) DeleteHorizon() int64 {
	if !v.HasDeleteHorizon() {
		return NoHorizon
	}
	return v.BaseTimestamp()
}

// Rebuild makes a thinned copy of a batch, as compaction leaves it: the records of keep, which are records of v with their
// offsets, in order. Base offset, last offset delta, producer fields, leader epoch, codec and the records' offsets and times stay;
// count, max timestamp, checksum and horizon (NoHorizon: none) are new. Without records only the header remains.
//
// A horizon takes the place of the base timestamp, and the records' time deltas are shifted.
func Rebuild(v View, keep []Record, horizon int64) View {
	attrs := v.Attributes() &^ attrHorizon
	base, latest := v.BaseTimestamp(), v.MaxTimestamp()
	if v.HasDeleteHorizon() {
		base = latest
	}
	if horizon != NoHorizon {
		attrs, base = attrs|attrHorizon, horizon
	}
	var body []byte
	for i := range keep {
		if !v.LogAppendTime() && (i == 0 || keep[i].Timestamp > latest) {
			latest = keep[i].Timestamp
		}
		body = appendRecord(body, &keep[i], keep[i].Timestamp-base, int32(keep[i].Offset-v.BaseOffset()))
	}
	b := make([]byte, HeaderSize, HeaderSize+len(body))
	copy(b, v[:HeaderSize])
	if len(keep) == 0 {
		attrs &^= attrCodec
	} else {
		b = deflate(b, Codec(attrs&attrCodec), body)
	}
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-LengthPrefix))
	be.PutUint16(b[21:], uint16(attrs))
	be.PutUint64(b[27:], uint64(base))
	be.PutUint64(b[35:], uint64(latest))
	be.PutUint32(b[57:], uint32(len(keep)))
	out := View(b)
	out.SealCRC()
	return out
}
