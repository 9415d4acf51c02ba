package hdfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// A verdict is what becomes of a call of a NameNode.
type verdict int

const (
	pass      verdict = iota
	cutBefore         // the connection breaks before the call arrives
	cutAfter          // the call is carried out, and its answer is lost
	silence           // the call is carried out, and nothing more comes
)

// A way leads to a NameNode, and knows the calls that go over it.
type way struct {
	addr string

	mu     sync.Mutex // guards the fields below
	judge  func(method string) verdict
	counts map[string]int
}

// newWay makes a way to an address, which is closed at the test's end.
func newWay(tb testing.TB, to string) *way {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &way{addr: l.Addr().String(), counts: map[string]int{}}
	var carried sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	carried.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[from] = true
			mu.Unlock()
			carried.Go(func() { w.carry(from, to, &carried) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		carried.Wait()
	})
	return w
}

// at sets what becomes of calls from now on; nil lets all pass. It is not asked about leases.
func (w *way) at(judge func(method string) verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge = judge
}

func (w *way) verdict(method string) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[method]++
	if w.judge == nil || method == "renewLease" {
		return pass
	}
	return w.judge(method)
}

func (w *way) carry(from net.Conn, address string, carried *sync.WaitGroup) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	var mu sync.Mutex // guards drop
	drop := pass
	carried.Go(func() { // answers
		defer from.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := to.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			d := drop
			mu.Unlock()
			switch d {
			case silence:
				continue
			case cutAfter: // it was carried out
				return
			}
			if _, err := from.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	if _, err := io.CopyN(to, from, 7); err != nil { // the connection's header
		return
	}
	for first := true; ; first = false {
		var head [4]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(from, packet); err != nil {
			return
		}
		if !first { // that is the connection's context
			switch v := w.verdict(methodOf(packet)); v {
			case cutBefore:
				return
			case cutAfter, silence:
				mu.Lock()
				drop = v
				mu.Unlock()
			}
		}
		if _, err := to.Write(append(head[:], packet...)); err != nil {
			return
		}
	}
}

// methodOf is the name of the method of a call: the first field of its second message.
func methodOf(packet []byte) string {
	n, k := binary.Uvarint(packet)
	rest := packet[k+int(n):]
	_, k = binary.Uvarint(rest)
	rest = rest[k:]
	if !bytes.HasPrefix(rest, []byte{0x0a}) {
		return "?"
	}
	return string(rest[2 : 2+int(rest[1])])
}
