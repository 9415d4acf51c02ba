package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"millrace/schema"
)

// Messages of pgoutput, protocol version 1 (Postgres's documentation, "Logical
// Replication Message Formats"). Numbers are big endian, texts end with a zero.
const (
	msgBegin    = 'B' // commit LSN u64, time i64, xid u32
	msgCommit   = 'C' // flags u8, commit LSN u64, end LSN u64, time i64
	msgRelation = 'R' // oid u32, namespace, name, identity u8, n u16, n × (flags u8, name, type u32, modifier i32)
	msgInsert   = 'I' // oid u32, 'N', tuple
	msgUpdate   = 'U' // oid u32, ['K' or 'O', tuple], 'N', tuple
	msgDelete   = 'D' // oid u32, 'K' or 'O', tuple
	msgTruncate = 'T' // n u32, options u8, n × oid u32
	msgMessage  = 'M' // flags u8, LSN u64, prefix, length u32, content
	msgType     = 'Y'
	msgOrigin   = 'O'
)

// A tuple is n u16, then n columns: 'n' null, 'u' unchanged and not sent, 't' or 'b'
// length u32 and bytes.
const (
	colNull      = 'n'
	colUnchanged = 'u'
	colText      = 't'
)

var errShort = errors.New("a message of the stream ends too early")

// A cursor reads a message. What is too short sets bad and reads as zero.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	t := c.b[:n]
	c.b = c.b[n:]
	return t
}

func (c *cursor) u8() byte {
	if t := c.take(1); t != nil {
		return t[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if t := c.take(2); t != nil {
		return binary.BigEndian.Uint16(t)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if t := c.take(4); t != nil {
		return binary.BigEndian.Uint32(t)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if t := c.take(8); t != nil {
		return binary.BigEndian.Uint64(t)
	}
	return 0
}

func (c *cursor) text() string {
	i := bytes.IndexByte(c.b, 0)
	if i < 0 {
		c.bad, c.b = true, nil
		return ""
	}
	t := string(c.b[:i])
	c.b = c.b[i+1:]
	return t
}

// parseRelation reads a relation message behind its type.
func parseRelation(b []byte) (*relation, error) {
	c := cursor{b: b}
	r := &relation{oid: c.u32(), schema: c.text(), name: c.text(), identity: c.u8()}
	n := int(c.u16())
	for i := 0; i < n && !c.bad; i++ {
		flags := c.u8()
		r.columns = append(r.columns, relColumn{name: c.text(), typ: c.u32(), mod: int32(c.u32()), key: flags&1 != 0})
	}
	if c.bad {
		return nil, errShort
	}
	if r.schema == "" { // so pg_catalog is sent
		r.schema = "pg_catalog"
	}
	return r, nil
}

// row makes a row of a tuple. old are the fields of the row before, or nil: what a
// change left alone and the server did not send is taken from there. lost is a
// column whose value its type cannot say, or -1.
func (t *table) row(a *schema.Arena, c *cursor, old []schema.Value) (v schema.Value, lost int, err error) {
	lost = -1
	if n := int(c.u16()); n != len(t.columns) || c.bad {
		return v, lost, fmt.Errorf("table %s: a row of %d columns, but the table was announced with %d", t, n, len(t.columns))
	}
	fields := a.Values(len(t.Layout.Row.Fields()))
	t.reselect.begin()
	for i := range t.columns {
		col := &t.columns[i]
		switch kind := c.u8(); kind {
		case colNull:
			if col.field >= 0 {
				fields[col.field] = col.null
			}
			t.reselect.note(i, nil, true)
		case colUnchanged:
			switch {
			case col.field < 0:
			case old != nil && !old[col.field].IsNull():
				fields[col.field] = old[col.field]
			default:
				fields[col.field] = col.held
				t.reselect.note(i, nil, false)
			}
		case colText:
			text := c.take(int(c.u32()))
			if col.field < 0 || c.bad {
				continue
			}
			value, lossy, err := col.value(a, text)
			if err != nil {
				return v, lost, err
			}
			if lossy {
				lost = i
			}
			fields[col.field] = value
			t.reselect.note(i, text, true)
		default:
			if !c.bad {
				return v, lost, fmt.Errorf("table %s: column %q comes in the unknown form %q", t, col.name, kind)
			}
		}
	}
	if c.bad {
		return v, lost, errShort
	}
	return a.Struct(t.Layout.Row, fields), lost, nil
}
