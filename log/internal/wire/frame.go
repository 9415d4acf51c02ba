package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Frame: i32 size of what follows, then that many bytes (request or answer). Fixed for ever.

const (
	step       = 256 << 10 // budget is taken in these steps
	passBy     = 64 << 10  // requests up to this size need no budget
	maxControl = 4 << 20   // limit of every request that carries no records
	stall      = 10 * time.Second
)

// BeforeSignIn is the most bytes that one request has of a client who is nobody yet.
const BeforeSignIn = 1 << 20

// ErrIdle ends a connection on which nothing happens.
var ErrIdle = errors.New("the connection was idle for too long")

// Limits of what a connection may send.
type Limits struct {
	MaxRequest int32 // bytes of one request; 100 MiB, or BeforeSignIn
	Budget     *Budget
	// KeepOpen says until when to wait for the next request, and is asked again then; the zero time ends the connection
	// with ErrIdle. Nil waits for ever.
	KeepOpen func() time.Time
	// Stopped reports whether to wait no more. Who makes it true sets a read deadline in the past afterwards. It goes
	// with KeepOpen.
	Stopped func() bool
}

// Frame is one request as it came. Body memory of a Produce request is pooled: nothing of it may be
// used after Release. Other requests own their memory, so decoded fields may be kept.
type Frame struct {
	Bytes  []byte
	pooled *[]byte
	lease  Lease
}

// Release gives buffer and budget back. Calling it again does nothing.
func (f *Frame) Release() {
	f.lease.Release()
	if f.pooled != nil {
		*f.pooled = f.Bytes[:0]
		putBuffer(f.pooled)
		f.pooled = nil
	}
	f.Bytes = nil
}

// Refused is a request that is not read because it cannot be served. The connection must be closed,
// except after ApiVersions: it was read over, and clients expect an answer whatever its version.
type Refused struct {
	Key, Version int16
	Correlation  int32
	Reason       string
}

func (r *Refused) Error() string { return r.Reason }

// Reader reads the requests of one connection.
type Reader struct {
	nc    net.Conn
	br    *bufio.Reader
	hdr   [12]byte
	until time.Time // the read deadline while a request is waited for; zero for none
}

// NewReader reads from nc.
func NewReader(nc net.Conn) *Reader { return &Reader{nc: nc, br: bufio.NewReaderSize(nc, 4<<10)} }

// Next waits for a request and reads it. io.EOF means that the peer closed between two requests.
// Kind and version are judged from the first twelve bytes, before memory is taken for the rest;
// then bytes are read as they come, so that a claimed size costs nothing. A body that makes no
// progress for ten seconds is an error.
func (r *Reader) Next(ctx context.Context, lim Limits) (Frame, error) {
	var f Frame
	size, err := r.size(lim)
	if err != nil {
		return f, err
	}
	if size < minHeader {
		return f, fmt.Errorf("request of %d bytes: too short for a header", size)
	}
	slow := r.br.Buffered() < int(size)
	if slow {
		// An idle connection may be silent, a request that has begun may not.
		defer func() { r.nc.SetReadDeadline(r.until) }()
	}
	if err := r.full(r.hdr[4:12], slow); err != nil {
		return f, err
	}
	key, version, correlation := Peek(r.hdr[4:])
	a, known := Lookup(key)
	switch {
	case !known:
		return f, &Refused{key, version, correlation, fmt.Sprintf("request kind %d is unknown", key)}
	case key == ApiVersions && !a.Serves(version) && size <= passBy:
		if err := r.skip(int(size)-minHeader, slow); err != nil {
			return f, err
		}
		return f, &Refused{key, version, correlation, fmt.Sprintf("%s version %d: we serve %d to %d", Name(key), version, a.Min, a.Max)}
	case !a.Serves(version):
		return f, &Refused{key, version, correlation, fmt.Sprintf("%s version %d: we serve %d to %d", Name(key), version, a.Min, a.Max)}
	case key != Produce && size > maxControl:
		return f, fmt.Errorf("%s request of %d bytes: the limit is %d", Name(key), size, maxControl)
	}
	if size > passBy {
		f.lease = lim.Budget.Lease()
	}
	if err := r.body(ctx, &f, int(size), key == Produce, slow); err != nil {
		f.Release()
		return Frame{}, err
	}
	return f, nil
}

// Token reads one message that has a size and no header: what follows the first version of SaslHandshake.
func (r *Reader) Token(lim Limits) ([]byte, error) {
	size, err := r.size(lim)
	if err != nil {
		return nil, err
	}
	if size < 0 {
		return nil, fmt.Errorf("message of %d bytes", size)
	}
	slow := r.br.Buffered() < int(size)
	if slow {
		defer func() { r.nc.SetReadDeadline(r.until) }()
	}
	var b []byte
	for len(b) < int(size) {
		at := len(b)
		b = append(b, make([]byte, min(int(size)-at, passBy))...)
		if err := r.full(b[at:], slow); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// size waits for a request and reads its size.
func (r *Reader) size(lim Limits) (int32, error) {
	for {
		if r.until.IsZero() && lim.KeepOpen != nil {
			if r.until = lim.KeepOpen(); r.until.IsZero() {
				return 0, ErrIdle
			}
			r.nc.SetReadDeadline(r.until)
			if lim.Stopped() {
				return 0, os.ErrDeadlineExceeded
			}
		}
		b, err := r.br.Peek(4)
		switch {
		case err == nil:
			size := int32(binary.BigEndian.Uint32(b))
			if size > lim.MaxRequest {
				return 0, fmt.Errorf("request of %d bytes: the limit is %d%s", size, lim.MaxRequest, otherProtocol(b))
			}
			copy(r.hdr[:4], b)
			_, err := r.br.Discard(4)
			return size, err
		case errors.Is(err, os.ErrDeadlineExceeded) && lim.KeepOpen != nil && !lim.Stopped() && len(b) == 0:
			r.until = time.Time{}
		case len(b) == 0 && errors.Is(err, io.ErrUnexpectedEOF): // TLS, closed without a word
			return 0, io.EOF
		case len(b) > 0 && errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, err
		}
	}
}

// otherProtocol guesses what was meant, where the first bytes are no size.
func otherProtocol(b []byte) string {
	switch {
	case b[0] == 0x16 && b[1] == 3:
		return ": the client speaks TLS, and this listener does not; look at the client's security.protocol"
	case string(b) == "GET " || string(b) == "POST" || string(b) == "HEAD":
		return ": the client speaks HTTP"
	}
	return ""
}

func (r *Reader) body(ctx context.Context, f *Frame, size int, pool, slow bool) error {
	room := min(size, step)
	if pool {
		f.pooled = getBuffer()
		f.Bytes = *f.pooled
	}
	if cap(f.Bytes) < room {
		f.Bytes = make([]byte, 0, room)
	}
	f.Bytes = append(f.Bytes[:0], r.hdr[4:12]...)
	for len(f.Bytes) < size {
		n := min(size-len(f.Bytes), step-len(f.Bytes)%step) // up to the next multiple, where growth is due
		if size > passBy {
			if err := f.lease.Take(ctx, int64(n)); err != nil {
				return err
			}
		}
		at := len(f.Bytes)
		if at+n > cap(f.Bytes) {
			// The peer has sent a quarter of what is taken; copying stays linear.
			grown := make([]byte, at, min(size, max(4*cap(f.Bytes), at+n)))
			copy(grown, f.Bytes)
			f.Bytes = grown
		}
		f.Bytes = f.Bytes[:at+n]
		if err := r.full(f.Bytes[at:], slow); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) skip(n int, slow bool) error {
	if slow {
		r.nc.SetReadDeadline(time.Now().Add(stall))
	}
	_, err := r.br.Discard(n)
	return err
}

// full reads all of p. With slow it insists on progress.
func (r *Reader) full(p []byte, slow bool) error {
	for len(p) > 0 {
		if slow {
			r.nc.SetReadDeadline(time.Now().Add(stall))
		}
		n, err := r.br.Read(p)
		p = p[n:]
		if err != nil && len(p) > 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// Buffers above this size are left to the garbage collector rather than pooled.
const maxPooled = 4 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}
