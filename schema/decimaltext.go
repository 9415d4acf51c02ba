package schema

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// AppendDecimal appends a DECIMAL as Java's BigDecimal.toString prints it: plain
// where the scale is not negative and the number no smaller than 10^-6, else with
// an exponent (1E+3, 1.2E-8). It appends nothing for another kind.
func (v Value) AppendDecimal(dst []byte) []byte {
	if v.kind != Decimal {
		return dst
	}
	var room [24]byte
	neg, digits := v.decimalDigits(room[:0])
	if neg {
		dst = append(dst, '-')
	}
	scale := int64(v.aux)
	adjusted := int64(len(digits)) - 1 - scale
	if scale >= 0 && adjusted >= -6 {
		return appendPoint(dst, digits, int(scale))
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	if adjusted != 0 {
		dst = append(dst, 'E')
		if adjusted > 0 {
			dst = append(dst, '+')
		}
		dst = strconv.AppendInt(dst, adjusted, 10)
	}
	return dst
}

// maxPlainZeros is the most zeros that AppendDecimalPlain writes for an exponent.
const maxPlainZeros = 100_000

// AppendDecimalPlain appends a DECIMAL as BigDecimal.toPlainString prints it:
// without an exponent. A number whose exponent would make more than 100,000 zeros
// keeps its exponent, so that ten bytes from outside never become gigabytes.
func (v Value) AppendDecimalPlain(dst []byte) []byte {
	if v.kind != Decimal {
		return dst
	}
	if v.aux > maxPlainZeros || v.aux < -maxPlainZeros {
		return v.AppendDecimal(dst)
	}
	var room [24]byte
	neg, digits := v.decimalDigits(room[:0])
	if neg {
		dst = append(dst, '-')
	}
	if v.aux >= 0 {
		return appendPoint(dst, digits, int(v.aux))
	}
	dst = append(dst, digits...)
	if digits[0] != '0' {
		for range -v.aux {
			dst = append(dst, '0')
		}
	}
	return dst
}

// decimalDigits are the sign of the unscaled number and its digits without one.
func (v Value) decimalDigits(room []byte) (neg bool, digits []byte) {
	if n, ok := v.Unscaled64(); ok {
		if n < 0 {
			return true, strconv.AppendUint(room, -uint64(n), 10)
		}
		return false, strconv.AppendUint(room, uint64(n), 10)
	}
	x := v.Unscaled()
	neg = x.Sign() < 0
	return neg, x.Abs(x).Append(room, 10)
}

// appendPoint appends digits with a point before the last scale of them.
func appendPoint(dst, digits []byte, scale int) []byte {
	if scale == 0 {
		return append(dst, digits...)
	}
	if whole := len(digits) - scale; whole > 0 {
		dst = append(append(dst, digits[:whole]...), '.')
		return append(dst, digits[whole:]...)
	}
	dst = append(dst, '0', '.')
	for range scale - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// ParseDecimal reads a number as Java's BigDecimal does: a sign, digits with or
// without a point, an exponent. The scale is that of the text: "1.50" has two,
// "1E+3" has -3.
func ParseDecimal(text string) (Value, error) {
	bad := func(why string) (Value, error) {
		if len(text) > 40 {
			text = text[:40] + "…"
		}
		return Value{}, fmt.Errorf("%q is no decimal number: %s", text, why)
	}
	s, neg := text, false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	var n uint64
	var digits, frac, i int
	point, small := false, true
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		digits++
		if point {
			frac++
		}
		if n > (math.MaxInt64-9)/10 {
			small = false
		}
		n = n*10 + uint64(c-'0')
	}
	mantissa := s[:i]
	if digits == 0 {
		return bad("no digits")
	}
	scale := int64(frac)
	if i < len(s) {
		if s[i] != 'e' && s[i] != 'E' {
			return bad("an unexpected character")
		}
		e := s[i+1:]
		exp, err := strconv.ParseInt(e, 10, 64)
		if err != nil {
			return bad("its exponent is no integer")
		}
		if exp > math.MaxInt32 || exp < -math.MaxInt32 {
			return bad("its exponent is out of range")
		}
		scale -= exp
	}
	if scale > math.MaxInt32 || scale < math.MinInt32 {
		return bad("its exponent is out of range")
	}
	if small {
		u := int64(n)
		if neg {
			u = -u
		}
		return DecimalInt64(u, int32(scale)), nil
	}
	plain := make([]byte, 0, len(mantissa))
	for _, c := range []byte(mantissa) {
		if c != '.' {
			plain = append(plain, c)
		}
	}
	x, ok := new(big.Int).SetString(string(plain), 10)
	if !ok {
		return bad("its digits cannot be read")
	}
	if neg {
		x.Neg(x)
	}
	return DecimalBig(x, int32(scale)), nil
}

// maxRescale bounds the zeros that Rescale adds: a few bytes from outside never
// become a number of thousands of digits.
const maxRescale = 1000

// Rescale is the DECIMAL v with another scale, and whether it is the same number:
// false where digits would be lost, or more than 1,000 zeros added.
func (v Value) Rescale(scale int32) (Value, bool) {
	if v.kind != Decimal {
		return Value{}, false
	}
	by := int64(scale) - int64(v.aux)
	if by == 0 {
		return v, true
	}
	x := v.Unscaled()
	if x.Sign() == 0 {
		return DecimalInt64(0, scale), true
	}
	// Less zeros at its end than it has digits: log10(2) is a little under 0.302.
	if by > maxRescale || -by > int64(x.BitLen())*302/1000+1 {
		return Value{}, false
	}
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(by, -by)), nil)
	if by > 0 {
		return DecimalBig(x.Mul(x, pow), scale), true
	}
	q, r := new(big.Int).QuoRem(x, pow, new(big.Int))
	return DecimalBig(q, scale), r.Sign() == 0
}
