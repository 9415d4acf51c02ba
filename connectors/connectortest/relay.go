package connectortest

import (
	"net"
	"sync"
	"testing"
)

// A Relay is a connection's way to a server that can go silent, or break.
type Relay struct {
	Host string
	Port int

	to       string
	listener net.Listener

	mu    sync.Mutex        // guards what follows
	conns map[net.Conn]bool // true: forgotten, what it sends vanishes
	left  int               // bytes from the server until all breaks; negative: never
}

// NewRelay makes a way to an address; it is closed at the test's end.
func NewRelay(tb testing.TB, to string) *Relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	p := &Relay{Host: "127.0.0.1", Port: addr.Port, to: to, listener: l, conns: map[net.Conn]bool{}, left: -1}
	var carried sync.WaitGroup
	carried.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			carried.Go(func() { p.carry(from, &carried) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		carried.Wait()
	})
	return p
}

func (p *Relay) carry(from net.Conn, carried *sync.WaitGroup) {
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = from.Close()
		return
	}
	p.mu.Lock()
	p.conns[from], p.conns[to] = false, false
	p.mu.Unlock()
	over := func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		delete(p.conns, to)
		p.mu.Unlock()
	}
	carried.Go(func() {
		defer over()
		buf := make([]byte, 4<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if p.forgotten(from) {
				continue
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer over()
	buf := make([]byte, 4<<10)
	for {
		n, err := to.Read(buf)
		if err != nil {
			return
		}
		if p.forgotten(to) {
			continue
		}
		p.mu.Lock()
		cut := p.left >= 0 && n >= p.left
		if cut {
			n, p.left = p.left, -1
		} else if p.left >= 0 {
			p.left -= n
		}
		p.mu.Unlock()
		if _, err := from.Write(buf[:n]); err != nil {
			return
		}
		if cut {
			p.Cut()
			return
		}
	}
}

func (p *Relay) forgotten(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[c]
}

// Forget lets vanish what is sent on the connections that stand, both ways, as a firewall
// does that lost its table.
func (p *Relay) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

// Cut breaks all connections; new ones come through.
func (p *Relay) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// BreakAfter cuts all connections once the server has sent n more bytes through any of
// them; a negative n: never.
func (p *Relay) BreakAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}
