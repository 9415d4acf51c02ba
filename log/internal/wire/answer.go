package wire

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Writer writes the answers of one connection, one after the other. Its buffer is taken from a pool
// for each answer, so an idle connection holds none.
type Writer struct {
	W      io.Writer
	Memory *Memory // nil: without a limit
}

// Memory bounds what answers hold that are being written, above all those that slow clients do not take. When it is used
// up, records go out through small buffers, and Tight tells to be less patient with clients.
type Memory struct {
	limit int64
	held  atomic.Int64
}

// NewMemory returns a memory of that many bytes.
func NewMemory(bytes int64) *Memory { return &Memory{limit: bytes} }

// take takes n bytes if they are left.
func (m *Memory) take(n int64) bool {
	if m.held.Add(n) <= m.limit {
		return true
	}
	m.held.Add(-n)
	return false
}

// InUse is what is held.
func (m *Memory) InUse() int64 { return m.held.Load() }

// Tight reports whether little is left.
func (m *Memory) Tight() bool { return m.held.Load()+copyBuffer > m.limit }

// Answer encodes and writes one answer: size, correlation id, for flexible answers an empty tag
// section, body.
func (w *Writer) Answer(h Header, body kmsg.Response) error {
	p := getBuffer()
	defer putBuffer(p)
	b := AppendAnswerHeader((*p)[:0], h)
	body.SetVersion(h.Version)
	b = body.AppendTo(b)
	*p = b
	return w.large(b)
}

// Raw writes one answer whose body fill appends.
func (w *Writer) Raw(h Header, fill func([]byte) []byte) error {
	p := getBuffer()
	defer putBuffer(p)
	b := fill(AppendAnswerHeader((*p)[:0], h))
	*p = b
	return w.large(b)
}

// large counts an answer that is not small while it is written.
func (w *Writer) large(b []byte) error {
	if n := int64(len(b)); n > passBy && w.Memory != nil {
		w.Memory.held.Add(n)
		defer w.Memory.held.Add(-n)
	}
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
