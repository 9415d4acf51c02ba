package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Request header, big-endian (KIP-482 added version 2):
//
//	0  i16 request kind   2  i16 version   4  i32 correlation id
//	8  i16 length of the client id, -1 for none, then the client id
//	   version 2: tagged fields, each uvarint tag, uvarint size, bytes
//
// Fixed for ever.
const minHeader = 8

// Header is what stands before a request's body.
type Header struct {
	Key, Version  int16
	Correlation   int32
	ClientID      string // empty for none
	FlexibleReply bool   // the answer's header ends with tagged fields
}

// Peek reads the fixed part of a header: kind, version, correlation id.
func Peek(b []byte) (key, version int16, correlation int32) {
	return int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:])), int32(binary.BigEndian.Uint32(b[4:]))
}

// ParseHeader splits a frame (without its size) into header and body. The body aliases the frame.
// lastID is the client id of the connection's last request: they hardly ever differ.
func ParseHeader(frame []byte, lastID string) (h Header, body []byte, err error) {
	if len(frame) < minHeader {
		return h, nil, fmt.Errorf("request of %d bytes is shorter than its header", len(frame))
	}
	h.Key, h.Version, h.Correlation = Peek(frame)
	a, ok := Lookup(h.Key)
	if !ok {
		return h, nil, fmt.Errorf("request kind %d is unknown", h.Key)
	}
	if !a.Serves(h.Version) {
		return h, nil, fmt.Errorf("%s version %d: we serve %d to %d", Name(h.Key), h.Version, a.Min, a.Max)
	}
	flexible := a.IsFlexible(h.Version)
	// Clients must be able to read this answer before they know what we speak.
	h.FlexibleReply = flexible && h.Key != ApiVersions
	b := kbin.Reader{Src: frame[minHeader:]}
	if id := nullableString(&b, false); string(id) == lastID {
		h.ClientID = lastID
	} else {
		h.ClientID = string(id)
	}
	if flexible {
		skipTags(&b)
	}
	if !b.Ok() {
		return h, nil, fmt.Errorf("%s version %d: header is cut off", Name(h.Key), h.Version)
	}
	return h, b.Src, nil
}

// skipTags reads over a tagged field section. Its count is not trusted: the loop ends with the bytes.
func skipTags(b *kbin.Reader) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		b.Uvarint()
		size := b.Uvarint()
		if int64(size) > int64(len(b.Src)) {
			b.Span(len(b.Src) + 1) // marks the reader bad
			return
		}
		b.Span(int(size))
	}
}
