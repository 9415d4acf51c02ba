package line

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Line carries connections. Its methods may be called by several goroutines. Bytes are never lost on a connection that lives, only
// late: as with TCP, what was sent before a sender closed still arrives once the line is whole again.
type Line struct {
	over func(ctx context.Context, network, addr string) (net.Conn, error)
	pair func() (client, inner net.Conn, err error)

	mu      sync.Mutex // guards the fields below
	broken  bool       // no connection can be made
	silent  [2]bool    // by direction
	delay   time.Duration
	changed chan struct{} // closed when one of these changes
	open    map[*call]bool
	ended   bool // the test has ended
	running sync.WaitGroup
}

// A Direction is where bytes go.
type Direction int

// The directions of a connection, seen from who dialed.
const (
	Out Direction = iota // requests
	In                   // answers
)

// New is a line over TCP, which ends with the test.
func New(t testing.TB) *Line { return Over(t, (&net.Dialer{}).DialContext, tcpPair) }

// Over is a line over other connections, as a simulation has them: dial makes those to the server, pair what the client gets and its
// other end.
func Over(t testing.TB, dial func(ctx context.Context, network, addr string) (net.Conn, error), pair func() (client, inner net.Conn, err error)) *Line {
	l := &Line{over: dial, pair: pair, changed: make(chan struct{}), open: map[*call]bool{}}
	t.Cleanup(l.end)
	return l
}

// end closes everything and waits for what carries it.
func (l *Line) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.Reset()
	l.running.Wait()
}

// tcpPair are two ends of a connection through the loopback device.
func tcpPair() (client, inner net.Conn, err error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer at.Close()
	if client, err = net.Dial("tcp", at.Addr().String()); err != nil {
		return nil, nil, err
	}
	inner, err = at.Accept()
	return client, inner, err
}

// Dial connects to an address through the line; it is what kgo.Dialer and http.Transport take. Through a silent line a connection can be
// made, and nothing comes through it, until its dialer has enough of that.
func (l *Line) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	client, inner, err := l.pair()
	if err != nil {
		return nil, err
	}
	c, err := l.carry(ctx, inner, network, addr)
	if err != nil {
		client.Close()
		return nil, err
	}
	if _, tcp := client.(*net.TCPConn); tcp {
		return client, nil
	}
	return &sudden{Conn: client, call: c}, nil
}

// sudden is a connection in memory that can be closed as TCP's can: with what was sent and has not arrived forgotten.
type sudden struct {
	net.Conn
	call    *call
	forgets atomic.Bool
}

// SetLinger is net.TCPConn's.
func (s *sudden) SetLinger(sec int) error {
	s.forgets.Store(sec == 0)
	return nil
}

func (s *sudden) Close() error {
	if s.forgets.Load() {
		s.call.close()
	}
	return s.Conn.Close()
}

var errBroken = errors.New("the line is broken")

// carry connects inner with the server at an address.
func (l *Line) carry(ctx context.Context, inner net.Conn, network, addr string) (*call, error) {
	l.mu.Lock()
	refuses := l.broken || l.ended
	l.mu.Unlock()
	if refuses {
		inner.Close()
		return nil, errBroken
	}
	server, err := l.over(ctx, network, addr)
	if err != nil {
		inner.Close()
		return nil, err
	}
	c := &call{l: l, ends: [2]net.Conn{inner, server}, gone: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken || l.ended { // meanwhile: nothing resets it any more
		c.close()
		return nil, errBroken
	}
	l.open[c] = true
	l.running.Go(c.run)
	return c, nil
}

// Front listens in front of a server and returns the address. A connection that comes there goes through the line.
func (l *Line) Front(t testing.TB, server string) (addr string) {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	l.running.Go(func() {
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			// The server may not be there: its client sees the connection close.
			_, _ = l.carry(context.Background(), c, "tcp", server)
		}
	})
	return at.Addr().String()
}

// change changes how the line is, and wakes who waits for that.
func (l *Line) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Silence keeps what is sent in these directions, both where none is named: connections stay open and nothing comes through, as with a broken
// switch.
func (l *Line) Silence(ds ...Direction) {
	l.change(func() {
		for _, d := range either(ds) {
			l.silent[d] = true
		}
	})
}

// Delay brings everything that is sent from now on so much later.
func (l *Line) Delay(d time.Duration) { l.change(func() { l.delay = d }) }

// Break resets all connections and refuses new ones, as when a host is down.
func (l *Line) Break() {
	l.change(func() { l.broken = true })
	l.Reset()
}

// Heal makes the line whole: what it kept arrives now.
func (l *Line) Heal() { l.change(func() { l.broken, l.silent, l.delay = false, [2]bool{}, 0 }) }

// Reset closes all connections at once; what was under way is lost.
func (l *Line) Reset() {
	for _, c := range l.calls() {
		c.close()
	}
}

// HalfClose ends a direction of all connections, which the receiver sees as the sender's end, and leaves the other one open.
func (l *Line) HalfClose(d Direction) {
	for _, c := range l.calls() {
		c.halfClose(c.ends[1-d])
	}
}

func (l *Line) calls() (out []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		out = append(out, c)
	}
	return out
}

// either are the named directions, or both.
func either(ds []Direction) []Direction {
	if len(ds) == 0 {
		return []Direction{Out, In}
	}
	return ds
}

// A call is one connection through the line: from ends[0], the client's, to ends[1], the server's.
type call struct {
	l    *Line
	ends [2]net.Conn
	once sync.Once
	gone chan struct{} // closed with the connections
}

func (c *call) close() {
	c.once.Do(func() {
		close(c.gone)
		for _, end := range c.ends {
			if tcp, ok := end.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset
			}
			end.Close()
		}
	})
}

// halfClose tells an end that no more is sent to it.
func (c *call) halfClose(end net.Conn) {
	if half, ok := end.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be gone
		return
	}
	c.close()
}

func (c *call) run() {
	var both sync.WaitGroup
	both.Go(func() { c.pump(Out) })
	both.Go(func() { c.pump(In) })
	both.Wait()
	c.close()
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	delete(c.l.open, c)
}

// A parcel is what one read brought.
type parcel struct {
	data []byte // nil: the sender has closed
	sent time.Time
}

// pump carries one direction until its sender has closed and all has arrived, or one of the ends is gone.
func (c *call) pump(d Direction) {
	from, to := c.ends[d], c.ends[1-d]
	parcels := make(chan parcel, 256) // what a line holds before its sender has to wait
	c.l.running.Go(func() {
		defer close(parcels)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			p := parcel{buf[:n], time.Now()}
			if n > 0 && !c.put(parcels, p) {
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					c.close()
				}
				return
			}
		}
	})
	for p := range parcels {
		if !c.arrives(d, p.sent) {
			return
		}
		if _, err := to.Write(p.data); err != nil {
			c.close()
			return
		}
	}
	if c.arrives(d, time.Now()) {
		c.halfClose(to)
	}
}

func (c *call) put(to chan<- parcel, p parcel) bool {
	select {
	case to <- p:
		return true
	case <-c.gone:
		return false
	}
}

// arrives waits until what was sent then may arrive. It is false when the connection is gone before.
func (c *call) arrives(d Direction, sent time.Time) bool {
	for {
		c.l.mu.Lock()
		silent, wait, changed := c.l.silent[d], time.Until(sent.Add(c.l.delay)), c.l.changed
		c.l.mu.Unlock()
		if !silent && wait <= 0 {
			select {
			case <-c.gone:
				return false
			default:
				return true
			}
		}
		due := make(<-chan time.Time)
		if !silent {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}
