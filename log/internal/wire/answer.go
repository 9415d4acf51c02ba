package wire

import (
	"encoding/binary"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Writer writes the answers of one connection, one after the other. Its buffer is taken from a pool
// for each answer, so an idle connection holds none.
type Writer struct{ W io.Writer }

// Answer encodes and writes one answer: size, correlation id, for flexible answers an empty tag
// section, body.
func (w *Writer) Answer(h Header, body kmsg.Response) error {
	p := getBuffer()
	defer putBuffer(p)
	b := AppendAnswerHeader((*p)[:0], h)
	body.SetVersion(h.Version)
	b = body.AppendTo(b)
	*p = b
	return w.finish(b)
}

// Raw writes one answer whose body fill appends.
func (w *Writer) Raw(h Header, fill func([]byte) []byte) error {
	p := getBuffer()
	defer putBuffer(p)
	b := fill(AppendAnswerHeader((*p)[:0], h))
	*p = b
	return w.finish(b)
}

func (w *Writer) finish(b []byte) error {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := w.W.Write(b)
	return err
}

// AppendAnswerHeader appends room for the frame's size and the answer's header.
func AppendAnswerHeader(b []byte, h Header) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Correlation))
	if h.FlexibleReply {
		b = append(b, 0)
	}
	return b
}
