package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Payload is the records of one partition in an answer: Len bytes that ReadAt reads.
type Payload interface {
	Len() int
	io.ReaderAt
}

// FetchPart is one partition's answer.
type FetchPart struct {
	Partition     int32
	Code          int16
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	Committed     bool // the client reads committed: aborted transactions are listed, even if there are none
	Aborted       []Aborted
	DivergedEpoch int32 // with DivergedEnd, where the client's log left ours; -1, -1 if it did not
	DivergedEnd   int64
	Records       Payload // nil for none
}

// Aborted is an aborted transaction whose records the client must not show.
type Aborted struct{ ProducerID, FirstOffset int64 }

// FetchTopic is one topic's answer.
type FetchTopic struct {
	Name  string
	ID    [16]byte
	Parts []FetchPart
}

const (
	copyBuffer  = 256 << 10
	smallBuffer = 16 << 10 // when memory is short
)

// Fetch writes a Fetch answer of versions 4 to 18. Records are read straight into the buffer that is
// written, once, and never decoded. Nothing but that buffer is held, however large the answer.
// When a payload cannot be read the answer is cut off, so the connection must be closed.
func (w *Writer) Fetch(h Header, code int16, sessionID int32, topics []FetchTopic) error {
	limit, p := copyBuffer, (*[]byte)(nil)
	if w.Memory == nil || w.Memory.take(copyBuffer) {
		p = getBuffer()
		defer putBuffer(p)
		if w.Memory != nil {
			defer w.Memory.held.Add(-copyBuffer)
		}
	} else {
		small := make([]byte, 0, smallBuffer)
		limit, p = smallBuffer, &small
	}
	e := fetchEncoder{w: w.W, version: h.Version, flexible: h.Version >= 12}
	// First without records, to learn the size that goes in front.
	e.b = AppendAnswerHeader((*p)[:0], h)
	e.measure = true
	e.encode(code, sessionID, topics)
	size := int64(len(e.b)-4) + e.records
	if size > 1<<31-1 {
		return fmt.Errorf("fetch answer of %d bytes", size)
	}
	// What fits one buffer goes out in one write.
	room := int(min(size+4, int64(limit)))
	if cap(e.b) < room {
		*p = make([]byte, 0, room)
	} else {
		*p = e.b[:0]
	}
	e.b = AppendAnswerHeader((*p)[:0], h)
	binary.BigEndian.PutUint32(e.b, uint32(size))
	e.measure = false
	e.left = size + 4
	e.encode(code, sessionID, topics)
	e.flush()
	*p = e.b
	if e.err == nil && e.left != 0 {
		return fmt.Errorf("fetch answer is %d bytes off its size", e.left)
	}
	return e.err
}

type fetchEncoder struct {
	w        io.Writer
	version  int16
	flexible bool
	measure  bool
	records  int64 // bytes of payload seen while measuring
	left     int64 // bytes still to be written
	b        []byte
	err      error
}

func (e *fetchEncoder) encode(code int16, sessionID int32, topics []FetchTopic) {
	e.b = kbin.AppendInt32(e.b, 0) // throttle time
	if e.version >= 7 {
		e.b = kbin.AppendInt16(e.b, code)
		e.b = kbin.AppendInt32(e.b, sessionID)
	}
	e.array(len(topics))
	for i := range topics {
		t := &topics[i]
		switch {
		case e.version >= 13:
			e.b = append(e.b, t.ID[:]...)
		case e.flexible:
			e.b = kbin.AppendCompactString(e.b, t.Name)
		default:
			e.b = kbin.AppendString(e.b, t.Name)
		}
		e.array(len(t.Parts))
		for j := range t.Parts {
			e.part(&t.Parts[j])
		}
		e.tags()
	}
	e.tags()
}

func (e *fetchEncoder) part(p *FetchPart) {
	e.b = kbin.AppendInt32(e.b, p.Partition)
	e.b = kbin.AppendInt16(e.b, p.Code)
	e.b = kbin.AppendInt64(e.b, p.HighWatermark)
	e.b = kbin.AppendInt64(e.b, p.LastStable)
	if e.version >= 5 {
		e.b = kbin.AppendInt64(e.b, p.LogStart)
	}
	switch {
	case p.Committed:
		e.array(len(p.Aborted))
		for _, a := range p.Aborted {
			e.b = kbin.AppendInt64(e.b, a.ProducerID)
			e.b = kbin.AppendInt64(e.b, a.FirstOffset)
			e.tags()
		}
	case e.flexible:
		e.b = append(e.b, 0)
	default:
		e.b = kbin.AppendInt32(e.b, -1)
	}
	if e.version >= 11 {
		e.b = kbin.AppendInt32(e.b, -1) // preferred read replica: none
	}
	n := 0
	if p.Records != nil {
		n = p.Records.Len()
	}
	if e.flexible {
		e.b = kbin.AppendUvarint(e.b, uint32(n)+1)
	} else {
		e.b = kbin.AppendInt32(e.b, int32(n))
	}
	if n > 0 {
		e.payload(p.Records, n)
	}
	if !e.flexible {
		return
	}
	if p.DivergedEpoch < 0 {
		e.b = append(e.b, 0)
		return
	}
	// One tagged field: tag 0, size 13: i32 epoch, i64 end offset, no tags.
	e.b = append(e.b, 1, 0, 13)
	e.b = kbin.AppendInt32(e.b, p.DivergedEpoch)
	e.b = kbin.AppendInt64(e.b, p.DivergedEnd)
	e.b = append(e.b, 0)
}

func (e *fetchEncoder) payload(r Payload, n int) {
	if e.measure {
		e.records += int64(n)
		return
	}
	for at := 0; at < n && e.err == nil; {
		if len(e.b) == cap(e.b) {
			e.flush()
		}
		c := min(n-at, cap(e.b)-len(e.b))
		into := e.b[len(e.b) : len(e.b)+c]
		if got, err := r.ReadAt(into, int64(at)); got < c {
			e.err = fmt.Errorf("read records to send: %w", err)
			return
		}
		e.b = e.b[:len(e.b)+c]
		at += c
	}
}

// flush writes what is there. Fixed fields may grow the buffer by a few bytes, which is harmless.
func (e *fetchEncoder) flush() {
	if e.err == nil && len(e.b) > 0 {
		var n int
		n, e.err = e.w.Write(e.b)
		e.left -= int64(n)
	}
	e.b = e.b[:0]
}

func (e *fetchEncoder) array(n int) {
	if e.flexible {
		e.b = kbin.AppendUvarint(e.b, uint32(n)+1)
	} else {
		e.b = kbin.AppendInt32(e.b, int32(n))
	}
}

func (e *fetchEncoder) tags() {
	if e.flexible {
		e.b = append(e.b, 0)
	}
}
