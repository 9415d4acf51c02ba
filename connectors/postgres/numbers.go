package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unsafe"

	"millrace/schema"
)

// A decoder makes a value of a column's text, as the server prints it under the
// session settings of connect. What it keeps of the text it copies into the arena.
type decoder func(a *schema.Arena, text []byte) (schema.Value, error)

var (
	errNotANumber = errors.New("is no number")
	errNaN        = lossError("is NaN or infinite, which a decimal cannot hold; set decimal.handling.mode to string or double")
	errNoBit      = lossError("has no bit, which a boolean cannot say")
)

// A lossError is about a value of a column that its event's schema cannot say.
type lossError string

func (e lossError) Error() string { return string(e) }

// lost reports whether err is, or holds, a lossError.
func lost(err error) bool {
	var e lossError
	return errors.As(err, &e)
}

// str is b as a string for a call that does not keep it.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parseInt reads an optional sign and at most 19 digits.
func parseInt(b []byte) (int64, bool) {
	i, neg := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, i = b[0] == '-', 1
	}
	if i == len(b) || len(b)-i > 19 {
		return 0, false
	}
	var n uint64
	for ; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	if neg {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n <= math.MaxInt64
}

// integer makes a decoder of whole numbers in [low, high].
func integer(low, high int64, value func(int64) schema.Value) decoder {
	return func(_ *schema.Arena, b []byte) (schema.Value, error) {
		n, ok := parseInt(b)
		if !ok || n < low || n > high {
			return schema.Value{}, fmt.Errorf("%q: %w of its type", clip(b), errNotANumber)
		}
		return value(n), nil
	}
}

var (
	decodeInt16 = integer(math.MinInt16, math.MaxInt16, func(n int64) schema.Value { return schema.Int16Value(int16(n)) })
	decodeInt32 = integer(math.MinInt32, math.MaxInt32, func(n int64) schema.Value { return schema.Int32Value(int32(n)) })
	decodeInt64 = integer(math.MinInt64, math.MaxInt64, schema.Int64Value)
)

func decodeBool(_ *schema.Arena, b []byte) (schema.Value, error) {
	if len(b) > 0 {
		switch b[0] {
		case 't', '1':
			return schema.BoolValue(true), nil
		case 'f', '0':
			return schema.BoolValue(false), nil
		}
	}
	return schema.Value{}, fmt.Errorf("%q is no boolean", clip(b))
}

// decodeBit reads a bit string of one bit. One of VARBIT(1) may have none.
func decodeBit(a *schema.Arena, b []byte) (schema.Value, error) {
	if len(b) == 0 {
		return schema.BoolValue(false), errNoBit
	}
	return decodeBool(a, b)
}

func decodeFloat64(_ *schema.Arena, b []byte) (schema.Value, error) {
	f, err := strconv.ParseFloat(str(b), 64) // knows NaN and Infinity
	if err != nil {
		return schema.Value{}, fmt.Errorf("%q: %w", clip(b), errNotANumber)
	}
	return schema.Float64Value(f), nil
}

func decodeFloat32(_ *schema.Arena, b []byte) (schema.Value, error) {
	f, err := strconv.ParseFloat(str(b), 32)
	if err != nil {
		return schema.Value{}, fmt.Errorf("%q: %w", clip(b), errNotANumber)
	}
	return schema.Float32Value(float32(f)), nil
}

// decimal is a number's text taken apart: its digits without the point, and how
// many stood behind it. Postgres never prints a numeric with an exponent.
func decimal(b []byte, buf []byte) (digits []byte, scale int, err error) {
	digits = buf[:0]
	point := -1
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9', c == '-' && i == 0:
			digits = append(digits, c)
		case c == '.' && point < 0:
			point = len(digits)
		default:
			if s := str(b); s == "NaN" || s == "Infinity" || s == "-Infinity" {
				return nil, 0, errNaN
			}
			return nil, 0, fmt.Errorf("%q: %w", clip(b), errNotANumber)
		}
	}
	if len(digits) == 0 || len(digits) == 1 && digits[0] == '-' {
		return nil, 0, fmt.Errorf("%q: %w", clip(b), errNotANumber)
	}
	if point >= 0 {
		scale = len(digits) - point
	}
	return digits, scale, nil
}

// fixedDecimal decodes numeric(p,s) into a DECIMAL of that scale.
func fixedDecimal(scale int) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		var buf [40]byte
		digits, have, err := decimal(b, buf[:0])
		if err != nil {
			return schema.Value{}, err
		}
		for ; have < scale; have++ {
			digits = append(digits, '0')
		}
		for ; have > scale; have-- { // a scale below zero: the server prints the zeros
			last := len(digits) - 1
			if last < 1 || digits[last] != '0' {
				if last == 0 && digits[0] == '0' {
					break
				}
				return schema.Value{}, fmt.Errorf("%q has more digits than its scale of %d", clip(b), scale)
			}
			digits = digits[:last]
		}
		if n, ok := parseInt(digits); ok {
			return schema.DecimalInt64(n, int32(scale)), nil
		}
		var raw [16]byte
		return schema.DecimalBytes(a.Copy(unscaled(raw[:0], digits)), int32(scale)), nil
	}
}

// unscaled appends the big-endian two's complement of a whole number, as short as it can
// be. digits are of decimal.
func unscaled(dst, digits []byte) []byte {
	neg := digits[0] == '-'
	if neg {
		digits = digits[1:]
	}
	if len(digits) > 38 { // 128 bits hold 38 digits and a sign
		n, _ := new(big.Int).SetString(string(digits), 10)
		if neg {
			n.Neg(n)
		}
		return schema.DecimalBig(n, 0).AppendUnscaled(dst)
	}
	var hi, lo uint64
	for _, c := range digits {
		over, low := bits.Mul64(lo, 10)
		sum, carry := bits.Add64(low, uint64(c-'0'), 0)
		hi, lo = hi*10+over+carry, sum
	}
	if neg {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], hi)
	binary.BigEndian.PutUint64(raw[8:], lo)
	b := raw[:]
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	return append(dst, b...)
}

// variableDecimal decodes numeric without a scale into {scale, value}, without zeros at
// the end of the fraction, as in Debezium.
func variableDecimal(s *schema.Schema) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		var buf [64]byte
		digits, scale, err := decimal(b, buf[:0])
		if err != nil {
			return schema.Value{}, err
		}
		for n := len(digits) - 1; scale > 0 && n > 0 && digits[n] == '0' && digits[n-1] != '-'; n-- {
			digits, scale = digits[:n], scale-1
		}
		var raw [32]byte
		f := a.Values(2)
		f[0] = schema.Int32Value(int32(scale))
		f[1] = schema.BytesValue(a.Copy(unscaled(raw[:0], digits)))
		return a.Struct(s, f), nil
	}
}

// decimalText is a numeric in decimal.handling.mode=string. The server prints all
// digits of the scale; a default may have fewer.
func decimalText(scale int) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		switch str(b) { // as Debezium spells them
		case "NaN":
			return schema.StringValue("NAN"), nil
		case "Infinity":
			return schema.StringValue("POSITIVE_INFINITY"), nil
		case "-Infinity":
			return schema.StringValue("NEGATIVE_INFINITY"), nil
		}
		have, point := 0, bytes.IndexByte(b, '.')
		if point >= 0 {
			have = len(b) - point - 1
		}
		if have >= scale {
			return a.String(b), nil
		}
		out := append(make([]byte, 0, len(b)+1+scale), b...)
		if point < 0 {
			out = append(out, '.')
		}
		for ; have < scale; have++ {
			out = append(out, '0')
		}
		return schema.StringOfBytes(out), nil
	}
}

// moneyCents reads money as the session's lc_monetary=C prints it ($1,234.56,
// -$0.50): its own whole number of the smallest unit.
func moneyCents(b []byte) (int64, error) {
	var buf [24]byte
	digits := buf[:0]
	for _, c := range b {
		if c == '-' && len(digits) == 0 || c >= '0' && c <= '9' {
			digits = append(digits, c)
		}
	}
	n, ok := parseInt(digits)
	if !ok {
		return 0, fmt.Errorf("%q is no amount of money", clip(b))
	}
	return n, nil
}

func moneyDecimal(digits int) decoder {
	return func(_ *schema.Arena, b []byte) (schema.Value, error) {
		n, err := moneyCents(b)
		return schema.DecimalInt64(n, int32(digits)), err
	}
}

func moneyDouble(digits int) decoder {
	div := math.Pow10(digits)
	return func(_ *schema.Arena, b []byte) (schema.Value, error) {
		n, err := moneyCents(b)
		return schema.Float64Value(float64(n) / div), err
	}
}

func moneyText(digits int) decoder {
	unit := uint64(1) // of digits below 19
	for range digits {
		unit *= 10
	}
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		n, err := moneyCents(b)
		if err != nil {
			return schema.Value{}, err
		}
		var buf [32]byte
		out := buf[:0]
		u := uint64(n)
		if n < 0 {
			out, u = append(out, '-'), -u
		}
		out = strconv.AppendUint(out, u/unit, 10)
		if digits > 0 {
			out = append(out, '.')
			for rest, place := u%unit, unit/10; place > 0; place /= 10 {
				out = append(out, '0'+byte(rest/place%10))
			}
		}
		return a.String(out), nil
	}
}

// decodeBits makes a bit string's little-endian bytes, without zeros at the end, as
// Java's BitSet has them.
func decodeBits(a *schema.Arena, b []byte) (schema.Value, error) {
	out := a.Bytes((len(b) + 7) / 8)
	for i, c := range b {
		switch c {
		case '0':
		case '1':
			at := len(b) - 1 - i
			out[at/8] |= 1 << (at % 8)
		default:
			return schema.Value{}, fmt.Errorf("%q is no bit string", clip(b))
		}
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return schema.BytesValue(out), nil
}

// clip is a value's text for a message: enough to recognise it.
func clip(b []byte) string {
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}
