package mysql

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// A wire reads the packets of MySQL's protocol from a connection that the driver has
// opened, with a buffer of its own: a packet that fits into it is not copied. One
// goroutine uses it.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
	seq  byte
	used int // bytes of the buffer that the last packet took

	// A packet that is larger than the buffer, as far as it has come.
	large []byte
	part  int // bytes that are still missing of its part; -1: the next part's header
	more  bool

	received int64 // bytes of large packets, ever: a packet that takes minutes shows by them that the server is there
}

const (
	readBuffer = 256 << 10
	maxPacket  = 1<<24 - 1
)

// errIdle says that nothing came until the deadline.
var errIdle = errors.New("nothing came")

func newWire(conn net.Conn) *wire { return &wire{conn: conn, r: bufio.NewReaderSize(conn, readBuffer)} }

// buffered reports whether a packet, or the front of one, is at hand.
func (w *wire) buffered() bool { return w.r.Buffered() > w.used }

// send writes a packet of a command that begins a new exchange.
func (w *wire) send(payload []byte) error {
	w.seq = 1
	var out []byte
	for seq := byte(0); ; seq++ {
		n := min(len(payload), maxPacket)
		out = append(out, byte(n), byte(n>>8), byte(n>>16), seq)
		out = append(out, payload[:n]...)
		payload = payload[n:]
		w.seq = seq + 1
		if n < maxPacket {
			break
		}
	}
	_, err := w.conn.Write(out)
	return err
}

// packet is the next packet. It stays valid until the next call, or for good where
// owned is true. A zero deadline waits for ever.
func (w *wire) packet(deadline time.Time) (p []byte, owned bool, err error) {
	if w.used > 0 {
		_, _ = w.r.Discard(w.used) // it is buffered
		w.used = 0
	}
	if w.large == nil {
		if w.r.Buffered() < 4 {
			if err := w.conn.SetReadDeadline(deadline); err != nil {
				return nil, false, err
			}
		}
		h, err := w.r.Peek(4)
		if err != nil {
			return nil, false, w.failed(err, len(h) > 0)
		}
		n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
		if 4+n <= w.r.Size() {
			if w.r.Buffered() < 4+n {
				if err := w.conn.SetReadDeadline(deadline); err != nil {
					return nil, false, err
				}
			}
			b, err := w.r.Peek(4 + n)
			if err != nil {
				return nil, false, w.failed(err, true)
			}
			if b[3] != w.seq {
				return nil, false, fmt.Errorf("the server sent packet %d where %d was due", b[3], w.seq)
			}
			w.seq++
			w.used = 4 + n
			return b[4:], false, nil
		}
		w.large, w.part, w.more = []byte{}, -1, true
	}
	return w.readLarge(deadline)
}

// readLarge goes on reading a packet that does not fit the buffer. Memory is taken as
// bytes come, at most twice of what has come.
func (w *wire) readLarge(deadline time.Time) ([]byte, bool, error) {
	if err := w.conn.SetReadDeadline(deadline); err != nil {
		return nil, false, err
	}
	for w.more || w.part > 0 {
		if w.part <= 0 {
			h, err := w.r.Peek(4)
			if err != nil {
				return nil, false, w.failed(err, true)
			}
			if h[3] != w.seq {
				return nil, false, fmt.Errorf("the server sent packet %d where %d was due", h[3], w.seq)
			}
			w.seq++
			w.part = int(h[0]) | int(h[1])<<8 | int(h[2])<<16
			w.more = w.part == maxPacket
			_, _ = w.r.Discard(4)
			continue
		}
		have := len(w.large)
		if have == cap(w.large) {
			room := min(w.part, max(have, 1<<20))
			grown := make([]byte, have, have+room)
			copy(grown, w.large)
			w.large = grown
		}
		n, err := w.r.Read(w.large[have:min(cap(w.large), have+w.part)])
		w.large, w.part, w.received = w.large[:have+n], w.part-n, w.received+int64(n)
		if err != nil {
			return nil, false, w.failed(err, true)
		}
	}
	p := w.large
	w.large = nil
	return p, true, nil
}

// failed tells the deadline from what ends the connection.
func (w *wire) failed(err error, within bool) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errIdle
	case err == io.EOF && within:
		return io.ErrUnexpectedEOF
	}
	return err
}

// serverError reads an error packet: 0xff, code, '#', state, text.
func serverError(p []byte) error {
	c := cursor{b: p}
	c.u8()
	e := &mysql.MyError{Code: c.u16()}
	if len(c.b) > 0 && c.b[0] == '#' {
		c.u8()
		e.State = string(c.take(5))
	}
	e.Message = string(c.b)
	return e
}

// The commands.
const (
	comQuery          = 0x03
	comRegisterSlave  = 0x15
	comBinlogDump     = 0x12
	comBinlogDumpGTID = 0x1e
	comStmtPrepare    = 0x16
	comStmtExecute    = 0x17
)

// dumpCommand asks for the log from a place of a file.
func dumpCommand(file string, pos uint32, flags uint16, serverID uint32) []byte {
	le := binary.LittleEndian
	b := []byte{comBinlogDump}
	b = le.AppendUint32(b, pos)
	b = le.AppendUint16(b, flags)
	b = le.AppendUint32(b, serverID)
	return append(b, file...)
}

// dumpGTIDCommand asks MySQL for all transactions that are not in a set.
func dumpGTIDCommand(set *gtidSet, serverID uint32) []byte {
	le := binary.LittleEndian
	b := []byte{comBinlogDumpGTID}
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, serverID)
	b = le.AppendUint32(b, 0) // the length of a file's name
	b = le.AppendUint64(b, 4)
	data := set.encode()
	b = le.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// registerCommand makes this reader known to SHOW REPLICAS.
func registerCommand(serverID uint32, host string) []byte {
	le := binary.LittleEndian
	host = host[:min(len(host), 60)]
	b := []byte{comRegisterSlave}
	b = le.AppendUint32(b, serverID)
	b = append(b, byte(len(host)))
	b = append(b, host...)
	b = append(b, 0, 0)          // user and password, which the server would show
	b = le.AppendUint16(b, 0)    // port
	b = le.AppendUint32(b, 0)    // rank
	return le.AppendUint32(b, 0) // the server's own number
}
