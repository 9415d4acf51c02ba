package memconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	chunk    = 32 << 10
	capacity = 256 << 10 // bytes on the way in one direction
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// pipe is one direction. Bytes lie in chunks; those that are empty go back to the pool.
type pipe struct {
	mu         sync.Mutex                       // guards the fields below; never held while waiting
	data       [capacity/chunk + 2]*[chunk]byte // a ring: used chunks from first on
	first      int
	used       int
	head, tail int // read position in the first chunk, write position in the last
	size       int
	closed     bool // the writer is gone: what is there can still be read
	broken     bool // the reader is gone

	readable, writable signal
	done               chan struct{} // closed with closed or broken
}

// signal wakes one waiter; whoever takes it and leaves work over sets it again.
type signal chan struct{}

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newPipe() *pipe {
	return &pipe{readable: make(signal, 1), writable: make(signal, 1), done: make(chan struct{})}
}

func (p *pipe) read(b []byte, d *deadline) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		if d.passed() {
			return 0, os.ErrDeadlineExceeded
		}
		p.mu.Lock()
		if p.broken {
			p.mu.Unlock()
			return 0, net.ErrClosed
		}
		if p.size > 0 {
			n := p.take(b)
			left := p.size > 0
			p.mu.Unlock()
			p.writable.set()
			if left {
				p.readable.set()
			}
			return n, nil
		}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return 0, io.EOF
		}
		passed := d.wait()
		select {
		case <-p.readable:
		case <-p.done:
		case <-passed:
		}
		d.done()
	}
}

func (p *pipe) write(b []byte, d *deadline) (int, error) {
	written := 0
	for {
		if d.passed() {
			return written, os.ErrDeadlineExceeded
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return written, net.ErrClosed
		}
		if p.broken {
			p.mu.Unlock()
			return written, io.ErrClosedPipe
		}
		if n := min(len(b), capacity-p.size); n > 0 {
			p.put(b[:n])
			b = b[n:]
			written += n
		}
		room := p.size < capacity
		p.mu.Unlock()
		p.readable.set()
		if len(b) == 0 {
			if room {
				p.writable.set()
			}
			return written, nil
		}
		passed := d.wait()
		select {
		case <-p.writable:
		case <-p.done:
		case <-passed:
		}
		d.done()
	}
}

// take copies out and frees what it emptied. p.mu is held.
func (p *pipe) take(b []byte) int {
	n := 0
	for n < len(b) && p.size > 0 {
		end := chunk
		if p.used == 1 {
			end = p.tail
		}
		c := copy(b[n:], p.data[p.first][p.head:end])
		n += c
		p.head += c
		p.size -= c
		if p.head == end {
			p.drop()
		}
	}
	return n
}

// drop gives the first chunk back. p.mu is held.
func (p *pipe) drop() {
	chunks.Put(p.data[p.first])
	p.data[p.first] = nil
	p.first = (p.first + 1) % len(p.data)
	p.used--
	p.head = 0
}

// put copies in; there is room. p.mu is held.
func (p *pipe) put(b []byte) {
	for len(b) > 0 {
		if p.used == 0 || p.tail == chunk {
			p.data[(p.first+p.used)%len(p.data)] = chunks.Get().(*[chunk]byte)
			p.used++
			p.tail = 0
		}
		c := copy(p.data[(p.first+p.used-1)%len(p.data)][p.tail:], b)
		p.tail += c
		p.size += c
		b = b[c:]
	}
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	p.closed = true
	p.finish()
	p.mu.Unlock()
}

func (p *pipe) closeRead() {
	p.mu.Lock()
	p.broken = true
	for p.used > 0 {
		p.drop()
	}
	p.size = 0
	p.finish()
	p.mu.Unlock()
}

func (p *pipe) finish() {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
}

// deadline is a moment after which waits fail. Its timer runs only while somebody waits, so that
// setting it costs little on a connection that is busy.
type deadline struct {
	mu      sync.Mutex // guards the fields below
	at      time.Time
	waiters int
	timer   *time.Timer   // made once, then reset
	ch      chan struct{} // closed once the moment has passed
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.waiters > 0 {
		d.arm()
	}
}

// arm starts the timer, or closes ch when the moment has passed. d.mu is held.
func (d *deadline) arm() {
	if d.at.IsZero() || isClosed(d.ch) {
		return
	}
	left := time.Until(d.at)
	switch {
	case left <= 0:
		close(d.ch)
	case d.timer == nil:
		d.timer = time.AfterFunc(left, d.fired)
	default:
		d.timer.Reset(left)
	}
}

// fired looks again at the moment, which may have been moved since.
func (d *deadline) fired() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters > 0 {
		d.arm()
	}
}

// wait returns what is closed when the moment has passed, be it set before or later. Every wait is
// followed by a done.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil || d.waiters == 0 && isClosed(d.ch) {
		d.ch = make(chan struct{})
	}
	d.waiters++
	d.arm()
	return d.ch
}

func (d *deadline) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters--; d.waiters == 0 && d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Addr is the address of both ends.
type Addr struct{}

// Network is "memory".
func (Addr) Network() string { return "memory" }
func (Addr) String() string  { return "embedded" }

type conn struct {
	in, out *pipe
	rd, wd  deadline
	once    sync.Once
}

// Pipe returns the two ends of a connection. They buffer 256 KiB each way and honour deadlines; all
// methods may be called concurrently.
func Pipe() (net.Conn, net.Conn) {
	a, b := newPipe(), newPipe()
	return &conn{in: a, out: b}, &conn{in: b, out: a}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b, &c.rd)
	return n, wrap("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b, &c.wd)
	return n, wrap("write", err)
}

// wrap gives errors the shape that callers of net expect; io.EOF must stay bare.
func wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "memory", Addr: Addr{}, Err: err}
}

// Close ends both directions. What was written before can still be read at the other end.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.out.closeWrite()
		c.in.closeRead()
	})
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return Addr{} }
func (c *conn) RemoteAddr() net.Addr { return Addr{} }

func (c *conn) SetDeadline(t time.Time) error {
	c.rd.set(t)
	c.wd.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { c.rd.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.wd.set(t); return nil }

// ErrRefused is what Dial gives when nobody listens any more.
var ErrRefused = errors.New("the embedded log is closed")

// Listener accepts connections made with its Dial.
type Listener struct {
	backlog chan net.Conn
	done    chan struct{}
	once    sync.Once
}

// Listen returns a listener.
func Listen() *Listener {
	return &Listener{backlog: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects. Network and address are ignored: there is one listener. It waits until the
// connection is accepted; after Close it fails with ErrRefused.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := Pipe()
	select {
	case l.backlog <- far:
		return near, nil
	case <-l.done:
		return nil, wrap("dial", ErrRefused)
	case <-ctx.Done():
		return nil, wrap("dial", ctx.Err())
	}
}

// Accept waits for a connection. After Close it fails with net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, wrap("accept", net.ErrClosed)
	}
}

// Close refuses further connections; those that were accepted live on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is Addr{}.
func (l *Listener) Addr() net.Addr { return Addr{} }
