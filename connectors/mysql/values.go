package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unsafe"

	"millrace/schema"
	"millrace/schema/javatext"
)

// str is b as a string for a call that does not keep it.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

const (
	microsPerSec = 1_000_000
	microsPerDay = 86400 * microsPerSec
)

var errNumber = errors.New("is no number of its type")

// An instant is a DATE, DATETIME or TIMESTAMP taken apart. zero: it is a date with a zero
// in it, which no calendar has.
type instant struct {
	days, us int64 // since 1970-01-01; of the day
	zero     bool
}

func makeInstant(y, m, d int64, us int64) instant {
	if m == 0 || d == 0 { // year 0 alone is one: 0000-01-01 has its place
		return instant{zero: true}
	}
	return instant{days: javatext.Days(y, int(m), int(d)), us: us}
}

// year100 is the first day of the year 100: below it enable.time.adjuster acts.
var year100 = javatext.Days(100, 1, 1)

// thisCentury takes a year below 100 for one from 1970 to 2069, as enable.time.adjuster
// says. Both have the same leap years.
func (t instant) thisCentury() instant {
	y, m, d := javatext.Civil(t.days)
	if y += 1900; y < 1970 {
		y += 100
	}
	t.days = javatext.Days(y, m, d)
	return t
}

// micros is the time since the epoch.
func (t instant) micros() int64 { return t.days*microsPerDay + t.us }

// decimalOf reads a decimal's text, as the protocol has it, into a DECIMAL of a scale.
func decimalOf(b []byte, scale int) (schema.Value, error) {
	var n uint64
	digits, frac, point, neg := 0, 0, false, false
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			if n = n*10 + uint64(c-'0'); n > 0 {
				digits++
			}
			if point {
				frac++
			}
		case c == '.' && !point:
			point = true
		case i == 0 && (c == '-' || c == '+'):
			neg = c == '-'
		default:
			return schema.Value{}, fmt.Errorf("%q %w", b, errNumber)
		}
	}
	if frac > scale || len(b) == 0 {
		return schema.Value{}, fmt.Errorf("%q %w", b, errNumber)
	}
	if digits+scale-frac > 18 {
		v, err := schema.ParseDecimal(string(b))
		if err != nil {
			return schema.Value{}, err
		}
		v, ok := v.Rescale(int32(scale))
		if !ok {
			return schema.Value{}, fmt.Errorf("%q %w", b, errNumber)
		}
		return v, nil
	}
	for ; frac < scale; frac++ {
		n *= 10
	}
	if neg {
		return schema.DecimalInt64(-int64(n), int32(scale)), nil
	}
	return schema.DecimalInt64(int64(n), int32(scale)), nil
}

// decimalBytes is how many bytes so many digits take in a packed decimal.
var decimalBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// packedDecimal reads the binary log's decimal: groups of nine digits in four bytes,
// what is left in as few as possible, first for the whole part, from its end, then for
// the fraction; the first bit turned, and all of a negative number's.
func packedDecimal(c *cursor, precision, scale int) (schema.Value, error) {
	whole := precision - scale
	if whole < 0 || precision > 65 || scale > 38 {
		return schema.Value{}, fmt.Errorf("a decimal of %d digits, %d of them behind the point", precision, scale)
	}
	size := whole/9*4 + decimalBytes[whole%9] + scale/9*4 + decimalBytes[scale%9]
	raw := c.take(size)
	if raw == nil {
		return schema.Value{}, nil
	}
	flip := byte(0)
	if raw[0]&0x80 == 0 {
		flip = 0xff
	}
	at := 0
	group := func(n int) uint64 {
		var v uint64
		for range n {
			x := raw[at] ^ flip
			if at == 0 {
				x ^= 0x80
			}
			v = v<<8 | uint64(x)
			at++
		}
		return v
	}
	var n uint64
	var wide *big.Int
	push := func(v uint64, digits int) {
		if wide == nil {
			n = n*pow10[digits] + v
			return
		}
		wide.Mul(wide, bigPow10[digits])
		wide.Add(wide, new(big.Int).SetUint64(v))
	}
	if precision > 18 {
		wide = new(big.Int)
	}
	push(group(decimalBytes[whole%9]), whole%9)
	for range whole / 9 {
		push(group(4), 9)
	}
	for range scale / 9 {
		push(group(4), 9)
	}
	push(group(decimalBytes[scale%9]), scale%9)
	if wide != nil {
		if flip != 0 {
			wide.Neg(wide)
		}
		return schema.DecimalBig(wide, int32(scale)), nil
	}
	if flip != 0 {
		return schema.DecimalInt64(-int64(n), int32(scale)), nil
	}
	return schema.DecimalInt64(int64(n), int32(scale)), nil
}

var pow10, bigPow10 = func() (p [10]uint64, b [10]*big.Int) {
	n := uint64(1)
	for i := range p {
		p[i], b[i] = n, new(big.Int).SetUint64(n)
		n *= 10
	}
	return p, b
}()

// fraction reads the fraction of a second of so many digits, in microseconds.
func fraction(c *cursor, digits int) int64 {
	n := (digits + 1) / 2
	v := int64(c.big(n))
	for ; n < 3; n++ {
		v *= 100
	}
	return v
}

// packedTime reads the log's TIME with so many digits of a fraction: hours, minutes,
// seconds and the fraction as one number, which is complemented as a whole where the
// time is negative.
func packedTime(c *cursor, digits int) int64 {
	frac := (digits + 1) / 2
	bits := 8 * (3 + frac)
	v := int64(c.big(3+frac)) - 1<<(bits-1)
	neg := v < 0
	if neg {
		v = -v
	}
	us := v & (1<<(8*frac) - 1)
	for i := frac; i < 3; i++ {
		us *= 100
	}
	v >>= 8 * frac
	us += (v>>12&0x3ff*3600 + v>>6&0x3f*60 + v&0x3f) * microsPerSec
	if neg {
		return -us
	}
	return us
}

// packedDateTime reads the log's DATETIME.
func packedDateTime(c *cursor, digits int) instant {
	v := int64(c.big(5)) - 0x8000000000
	us := fraction(c, digits)
	if v < 0 {
		return instant{zero: true}
	}
	ym := v >> 22
	us += (v>>12&0x1f*3600 + v>>6&0x3f*60 + v&0x3f) * microsPerSec
	return makeInstant(ym/13, ym%13, v>>17&0x1f, us)
}

// packedTimestamp reads the log's TIMESTAMP: seconds since the epoch, zero for none.
func packedTimestamp(c *cursor, digits int) instant {
	sec := int64(c.big(4))
	us := fraction(c, digits)
	if sec == 0 && us == 0 {
		return instant{zero: true}
	}
	return instant{days: sec / 86400, us: sec%86400*microsPerSec + us}
}

// packedDate reads the log's DATE.
func packedDate(c *cursor) instant {
	v := int64(c.u24())
	return makeInstant(v>>9, v>>5&0xf, v&0x1f, 0)
}

// rowInstant reads a DATE, DATETIME or TIMESTAMP of the protocol's binary rows: a length,
// then as much as is not zero.
func rowInstant(c *cursor) instant {
	r := cursor{b: c.take(int(c.u8()))}
	if len(r.b) == 0 {
		return instant{zero: true}
	}
	y, m, d := int64(r.u16()), int64(r.u8()), int64(r.u8())
	var us int64
	if len(r.b) > 0 {
		us = (int64(r.u8())*3600 + int64(r.u8())*60 + int64(r.u8())) * microsPerSec
	}
	if len(r.b) > 0 {
		us += int64(r.u32())
	}
	c.bad = c.bad || r.bad
	return makeInstant(y, m, d, us)
}

// rowTime reads a TIME of the protocol's binary rows.
func rowTime(c *cursor) int64 {
	r := cursor{b: c.take(int(c.u8()))}
	if len(r.b) == 0 {
		return 0
	}
	neg := r.u8() != 0
	us := int64(r.u32()) * microsPerDay
	us += (int64(r.u8())*3600 + int64(r.u8())*60 + int64(r.u8())) * microsPerSec
	if len(r.b) > 0 {
		us += int64(r.u32())
	}
	c.bad = c.bad || r.bad
	if neg {
		return -us
	}
	return us
}

// float32As64 is a FLOAT as a double with the same digits.
func float32As64(f float32) float64 {
	var buf [32]byte
	d, err := strconv.ParseFloat(str(strconv.AppendFloat(buf[:0], float64(f), 'g', -1, 32)), 64)
	if err != nil {
		return float64(f)
	}
	return d
}

// littleBits turns the bytes of a BIT column, the highest first, into n with the lowest first.
func littleBits(a *schema.Arena, raw []byte, n int) schema.Value {
	out := a.Bytes(n)
	for i := 0; i < n && i < len(raw); i++ {
		out[i] = raw[len(raw)-1-i]
	}
	return schema.BytesValue(out)
}

// splitShape takes what the server stores of a shape apart: its SRID, then its WKB.
func splitShape(raw []byte) (srid uint32, wkb []byte, err error) {
	if len(raw) < 4+5 {
		return 0, nil, errors.New("a shape that is too short")
	}
	return binary.LittleEndian.Uint32(raw), raw[4:], nil
}

// pointOf reads the coordinates of a point's WKB.
func pointOf(wkb []byte) (x, y float64, err error) {
	if len(wkb) != 21 || wkb[0] > 1 {
		return 0, 0, errors.New("a point of another size than a point's")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if wkb[0] == 0 {
		order = binary.BigEndian
	}
	if order.Uint32(wkb[1:]) != 1 {
		return 0, 0, errors.New("a shape that is no point")
	}
	return math.Float64frombits(order.Uint64(wkb[5:])), math.Float64frombits(order.Uint64(wkb[13:])), nil
}
