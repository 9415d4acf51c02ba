package mysql

import (
	"encoding/binary"
	"errors"
	"math"
)

// A cursor reads little-endian numbers and pieces of a buffer, as MySQL's protocol and
// its binary log have them. Reading beyond the end sets bad and gives zeros, so that a
// caller may look once, at its own end. Pieces share the buffer.
type cursor struct {
	b   []byte
	bad bool
}

var errShort = errors.New("the server sent a message that ends too early")

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) u8() byte {
	if len(c.b) < 1 {
		c.bad = true
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) u16() uint16 {
	if len(c.b) < 2 {
		c.bad, c.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint16(c.b)
	c.b = c.b[2:]
	return v
}

func (c *cursor) u24() uint32 {
	if len(c.b) < 3 {
		c.bad, c.b = true, nil
		return 0
	}
	v := uint32(c.b[0]) | uint32(c.b[1])<<8 | uint32(c.b[2])<<16
	c.b = c.b[3:]
	return v
}

func (c *cursor) u32() uint32 {
	if len(c.b) < 4 {
		c.bad, c.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint32(c.b)
	c.b = c.b[4:]
	return v
}

func (c *cursor) u48() uint64 { return c.fixed(6) }

func (c *cursor) u64() uint64 {
	if len(c.b) < 8 {
		c.bad, c.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(c.b)
	c.b = c.b[8:]
	return v
}

// fixed is a number of n bytes, at most eight.
func (c *cursor) fixed(n int) uint64 {
	p := c.take(n)
	var v uint64
	for i := len(p) - 1; i >= 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return v
}

// big is a big-endian number of n bytes, at most eight.
func (c *cursor) big(n int) uint64 {
	var v uint64
	for _, x := range c.take(n) {
		v = v<<8 | uint64(x)
	}
	return v
}

// lenenc is a length-encoded integer; null is the form that stands for NULL.
func (c *cursor) lenenc() (n uint64, null bool) {
	switch first := c.u8(); first {
	case 0xfb:
		return 0, true
	case 0xfc:
		return uint64(c.u16()), false
	case 0xfd:
		return uint64(c.u24()), false
	case 0xfe:
		return c.u64(), false
	case 0xff:
		c.bad = true
		return 0, false
	default:
		return uint64(first), false
	}
}

// size is a length-encoded integer that counts what is in memory.
func (c *cursor) size() int {
	n, null := c.lenenc()
	if null || n > math.MaxInt32 {
		c.bad, c.b = true, nil
		return 0
	}
	return int(n)
}

// text is a length-encoded string.
func (c *cursor) text() []byte { return c.take(c.size()) }

// zero is a string up to a zero byte, which is skipped.
func (c *cursor) zero() []byte {
	for i, x := range c.b {
		if x == 0 {
			p := c.b[:i:i]
			c.b = c.b[i+1:]
			return p
		}
	}
	c.bad, c.b = true, nil
	return nil
}
