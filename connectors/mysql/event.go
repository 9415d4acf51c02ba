package mysql

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// The events of the binary log (binlog_event.h; MariaDB's log_event.h from 160 on).
const (
	evQuery, evStop, evRotate, evFormat, evXID, evTableMap              = 2, 3, 4, 15, 16, 19
	evWriteRows1, evUpdateRows1, evDeleteRows1                          = 23, 24, 25
	evIncident, evHeartbeat, evIgnorable, evRowsQuery                   = 26, 27, 28, 29
	evWriteRows, evUpdateRows, evDeleteRows                             = 30, 31, 32
	evGTID, evAnonymousGTID, evPreviousGTIDs                            = 33, 34, 35
	evTransactionContext, evViewChange, evXAPrepare                     = 36, 37, 38
	evPartialUpdateRows, evPayload, evHeartbeat2, evTaggedGTID          = 39, 40, 41, 42
	evMariaAnnotateRows, evMariaCheckpoint, evMariaGTID                 = 160, 161, 162
	evMariaGTIDList, evMariaStartEncryption, evMariaQueryPacked         = 163, 164, 165
	evMariaWritePacked1, evMariaUpdatePacked1, evMariaDelPacked1        = 166, 167, 168
	evMariaWritePacked, evMariaUpdatePacked, evMariaDeletePacked        = 169, 170, 171
	evIntVar, evRand, evUserVar, evBeginLoad, evExecuteLoadQuery        = 5, 13, 14, 17, 18
	evAppendBlock, evDeleteFile                                         = 9, 11
	headerSize                                                          = 19
	checksumSize                                                        = 4
	flagArtificial                                               uint16 = 0x20
	flagIgnorable                                                uint16 = 0x80
	flagStatementEnd                                             uint16 = 1 // of a rows event
	noTable                                                             = 0xffffff
)

// A header stands before every event.
type header struct {
	sec    uint32 // since the epoch
	kind   byte
	server uint32
	size   uint32 // of the event with its header
	end    uint32 // where the next event begins, modulo 4 GiB; 0: it stands nowhere
	flags  uint16
}

func parseHeader(b []byte) (h header, body []byte, err error) {
	c := cursor{b: b}
	h = header{sec: c.u32(), kind: c.u8(), server: c.u32(), size: c.u32(), end: c.u32(), flags: c.u16()}
	if c.bad || int64(h.size) < headerSize {
		return h, nil, errShort
	}
	return h, c.b, nil
}

// checksum takes the sum at an event's end away and says whether it is right.
func checksum(event []byte) ([]byte, bool) {
	n := len(event) - checksumSize
	if n < headerSize {
		return event, false
	}
	c := cursor{b: event[n:]}
	return event[:n:n], c.u32() == crc32.ChecksumIEEE(event[:n])
}

// A queryEvent is a statement.
type queryEvent struct {
	thread  uint32
	db      []byte
	vars    []byte
	sql     []byte
	errCode uint16
}

func parseQuery(body []byte) (q queryEvent, err error) {
	c := cursor{b: body}
	q.thread = c.u32()
	c.u32() // how long it took
	dbLen := int(c.u8())
	q.errCode = c.u16()
	q.vars = c.take(int(c.u16()))
	q.db = c.take(dbLen)
	c.u8()
	q.sql = c.b
	if c.bad {
		return q, errShort
	}
	return q, nil
}

// parseLoadQuery reads the statement of a LOAD DATA whose file stands in the events before it.
func parseLoadQuery(body []byte) (queryEvent, error) {
	const head, file = 4 + 4 + 1 + 2 + 2, 4 + 4 + 4 + 1 // the file's number, where its name stands in the statement, what becomes of duplicates
	if len(body) < head+file {
		return queryEvent{}, errShort
	}
	return parseQuery(slices.Concat(body[:head], body[head+file:]))
}

// session reads what the statement's session was set to, as far as the event says it.
func (q *queryEvent) session(st *Statement) {
	c := cursor{b: q.vars}
	for len(c.b) > 0 {
		switch c.u8() {
		case 0: // flags; MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP is among them
			if st.ExplicitTimestamps = -1; c.u32()&(1<<24) != 0 {
				st.ExplicitTimestamps = 1
			}
		case 1:
			st.SQLMode = c.u64()
		case 2: // catalog, with a zero
			c.take(int(c.u8()) + 1)
		case 3: // auto_increment_increment and offset
			c.u32()
		case 4:
			st.ClientCharset, st.ConnCollation, st.ServerCollation = c.u16(), c.u16(), c.u16()
		case 5, 6: // time zone, catalog
			c.take(int(c.u8()))
		case 7: // lc_time_names
			c.u16()
		case 8:
			st.DBCollation = c.u16()
		case 9, 17: // tables of an update, xid of a DDL
			c.u64()
		case 10: // size of the event at its origin
			c.u32()
		case 11: // invoker
			c.take(int(c.u8()))
			c.take(int(c.u8()))
		case 12: // databases
			if n := c.u8(); n != 254 {
				for range n {
					c.zero()
				}
			}
		case 13, 128: // microseconds
			c.u24()
		case 16: // MySQL's explicit_defaults_for_timestamp
			if st.ExplicitTimestamps = -1; c.u8() != 0 {
				st.ExplicitTimestamps = 1
			}
		case 19, 20:
			c.u8()
		case 18: // default collation of utf8mb4
			c.u16()
		case 129: // MariaDB's xid
			c.u64()
		default:
			return
		}
	}
}

// A gtidEvent says which transaction begins.
type gtidEvent struct {
	source gtidSource
	number int64
	micros int64 // of the commit on its first server; 0: not said
	maria  mariaGTID
	flags  byte // MariaDB's
}

func parseGTID(body []byte) (g gtidEvent, err error) {
	c := cursor{b: body}
	c.u8()
	copy(g.source.uuid[:], c.take(16))
	g.number = int64(c.u64())
	if c.bad {
		return g, errShort
	}
	if len(c.b) >= 17+7 && c.b[0] == 2 { // with logical clock and times (8.0.1)
		c.take(17)
		here := c.fixed(7)
		g.micros = int64(here &^ (1 << 55))
		if here&(1<<55) != 0 {
			g.micros = int64(c.fixed(7))
		}
		if c.bad {
			return g, errShort
		}
	}
	return g, nil
}

// varint reads a number of the form that newer events have: as many low bits set as
// there are bytes beyond the first.
func varint(c *cursor) uint64 {
	if len(c.b) == 0 {
		c.bad = true
		return 0
	}
	n := 0
	for first := c.b[0]; first&1 != 0 && n < 8; first >>= 1 {
		n++
	}
	raw := c.take(n + 1)
	var v uint64
	for i := len(raw) - 1; i >= 0; i-- {
		if i == 8 {
			continue
		}
		v = v<<8 | uint64(raw[i])
	}
	if n == 8 { // the first byte is all ones, the number stands in the other eight
		v = 0
		for i := len(raw) - 1; i > 0; i-- {
			v = v<<8 | uint64(raw[i])
		}
		return v
	}
	return v >> (n + 1)
}

// signed undoes the form of signed numbers: the sign in the lowest bit.
func signed(v uint64) int64 {
	if v&1 != 0 {
		return ^int64(v >> 1)
	}
	return int64(v >> 1)
}

// parseTaggedGTID reads the event of MySQL 8.3 and newer, whose fields each have their
// number before them.
func parseTaggedGTID(body []byte) (g gtidEvent, err error) {
	c := cursor{b: body}
	varint(&c) // version
	varint(&c) // size
	varint(&c) // number of the last field that must be understood
	for len(c.b) > 0 && !c.bad {
		switch id := varint(&c); id {
		case 0: // flags
			varint(&c)
		case 1:
			for i := range g.source.uuid {
				g.source.uuid[i] = byte(varint(&c))
			}
		case 2:
			g.number = signed(varint(&c))
		case 3:
			n := varint(&c)
			if n > 32 {
				return g, errShort
			}
			g.source.tag = string(c.take(int(n)))
		case 4, 5: // logical clock
			varint(&c)
		case 6:
			if at := varint(&c); g.micros == 0 && at <= math.MaxInt64 {
				g.micros = int64(at)
			}
		case 7:
			if at := varint(&c); at <= math.MaxInt64 {
				g.micros = int64(at)
			}
		default:
			return g, g.check(&c)
		}
	}
	return g, g.check(&c)
}

func (g *gtidEvent) check(c *cursor) error {
	if c.bad || g.number <= 0 {
		return errShort
	}
	return nil
}

// MariaDB's flags of a transaction.
const (
	mariaStandalone = 1 << iota // one statement without an end
	mariaGroupCommit
	_
	_
	_
	mariaDDL
	mariaPreparedXA
	mariaCompletedXA
)

// parseMariaGTIDEvent reads MariaDB's. xid is that of a distributed transaction which is
// prepared or decided, as statements spell it, else "".
func parseMariaGTIDEvent(body []byte, server uint32) (g gtidEvent, xid string, err error) {
	c := cursor{b: body}
	g.maria.server = server
	g.maria.seq = c.u64()
	g.maria.domain = c.u32()
	g.flags = c.u8()
	if g.flags&(mariaPreparedXA|mariaCompletedXA) != 0 {
		if g.flags&mariaGroupCommit != 0 {
			c.u64()
		}
		format, n, m := c.u32(), int(c.u8()), int(c.u8())
		xid = fmt.Sprintf("X'%x',X'%x',%d", c.take(n), c.take(m), int32(format))
	}
	if c.bad {
		return g, "", errShort
	}
	return g, xid, nil
}

// A tableMap describes the rows of a table, under a number that the rows events behind
// it name.
type tableMap struct {
	number   uint64
	id       TableID
	codes    []byte
	meta     []uint16
	names    []string // with binlog_row_metadata=FULL
	unsigned []byte   // a bit for each column of a number, the highest first; nil: not said
	raw      []byte   // the event's body, to recognise it
}

// tableNumber is the number alone.
func tableNumber(body []byte) (uint64, error) {
	c := cursor{b: body}
	n := c.u48()
	if c.bad {
		return 0, errShort
	}
	return n, nil
}

func parseTableMap(body []byte) (*tableMap, error) {
	c := cursor{b: body}
	m := &tableMap{number: c.u48(), raw: append([]byte(nil), body...)}
	c.u16()
	m.id.Database = string(c.take(int(c.u8())))
	c.u8()
	m.id.Name = string(c.take(int(c.u8())))
	c.u8()
	n := c.size()
	m.codes = append([]byte(nil), c.take(n)...)
	meta := cursor{b: c.text()}
	c.take((n + 7) / 8)
	if c.bad {
		return nil, errShort
	}
	m.meta = make([]uint16, n)
	for i, code := range m.codes {
		m.meta[i] = uint16(meta.fixed(metaSize(code)))
	}
	if meta.bad {
		return nil, errShort
	}
	for len(c.b) > 0 {
		kind := c.u8()
		value := cursor{b: c.text()}
		if c.bad {
			return nil, errShort
		}
		switch kind {
		case 1:
			m.unsigned = append([]byte(nil), value.b...)
		case 4:
			for len(value.b) > 0 {
				m.names = append(m.names, string(value.text()))
			}
			if value.bad || len(m.names) != n {
				return nil, errShort
			}
		}
	}
	return m, nil
}

// A rowsEvent is changes of rows of one table, in one statement.
type rowsEvent struct {
	table         uint64
	flags         uint16
	columns       int
	before, after []byte // the columns that each image has; one of them nil
	allBefore     bool   // all of them
	allAfter      bool
	rows          cursor
	partial       bool // new rows may hold changes of JSON alone
}

// parseRows reads a rows event's head.
func parseRows(kind byte, body []byte) (e rowsEvent, err error) {
	c := cursor{b: body}
	e.table, e.flags = c.u48(), c.u16()
	packed := false
	switch kind {
	case evWriteRows, evUpdateRows, evDeleteRows, evPartialUpdateRows, evMariaWritePacked, evMariaUpdatePacked, evMariaDeletePacked:
		c.take(int(c.u16()) - 2)
	}
	e.columns = c.size()
	bitmap := c.take((e.columns + 7) / 8)
	switch kind {
	case evMariaWritePacked1, evMariaWritePacked:
		packed = true
		fallthrough
	case evWriteRows, evWriteRows1:
		e.after = bitmap
	case evMariaDelPacked1, evMariaDeletePacked:
		packed = true
		fallthrough
	case evDeleteRows, evDeleteRows1:
		e.before = bitmap
	default:
		packed = kind == evMariaUpdatePacked1 || kind == evMariaUpdatePacked
		e.before, e.after = bitmap, c.take((e.columns+7)/8)
		e.partial = kind == evPartialUpdateRows
	}
	if c.bad {
		return e, errShort
	}
	if packed {
		if c.b, err = unpackMaria(c.b); err != nil {
			return e, err
		}
	}
	e.allBefore, e.allAfter = e.before != nil && full(e.before, e.columns), e.after != nil && full(e.after, e.columns)
	e.rows = c
	return e, nil
}

// full reports whether a bitmap has all of n columns.
func full(bitmap []byte, n int) bool {
	for i := range n / 8 {
		if bitmap[i] != 0xff {
			return false
		}
	}
	return n%8 == 0 || bitmap[n/8]&(1<<(n%8)-1) == 1<<(n%8)-1
}

var errPayload = errors.New("a compressed transaction that is damaged")

// maxPayload bounds a compressed transaction, in memory; the server's own bound is 1 GiB.
const maxPayload = 1 << 30

// A payload is a whole transaction in one event, compressed.
type payload struct {
	compressed bool
	size       uint64 // uncompressed
	data       []byte
}

func parsePayload(body []byte) (p payload, err error) {
	c := cursor{b: body}
	for {
		switch kind := c.size(); kind {
		case 0:
			p.data = c.b
			if c.bad {
				return p, errShort
			}
			return p, nil
		case 2:
			v := cursor{b: c.text()}
			switch algorithm := v.size(); algorithm {
			case 0:
				p.compressed = true
			case 255:
			default:
				return p, fmt.Errorf("%w: compressed in the unknown way %d", errPayload, algorithm)
			}
		case 3:
			v := cursor{b: c.text()}
			p.size, _ = v.lenenc()
		default:
			c.text()
		}
		if c.bad {
			return p, errShort
		}
	}
}

// newZstd makes the decoder of compressed transactions, which a reader keeps.
func newZstd() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
	if err != nil {
		panic("mysql: " + err.Error()) // the options are constant
	}
	return d
}
