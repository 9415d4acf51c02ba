package javatext

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// AppendDouble appends f as Java's Double.toString prints it: the shortest digits
// that read back as f, at least one behind the point, with an exponent below 10^-3
// and from 10^7 on. As since Java 19; older ones print some numbers longer.
func AppendDouble(dst []byte, f float64) []byte { return appendFloat(dst, f, 64) }

// AppendFloat appends f as Java's Float.toString prints it.
func AppendFloat(dst []byte, f float32) []byte { return appendFloat(dst, float64(f), 32) }

// Double is AppendDouble as a string.
func Double(f float64) string { return string(AppendDouble(make([]byte, 0, 24), f)) }

// Float is AppendFloat as a string.
func Float(f float32) string { return string(AppendFloat(make([]byte, 0, 24), f)) }

func appendFloat(dst []byte, f float64, bits int) []byte {
	abs := math.Abs(f)
	switch {
	case abs >= 1e-3 && abs < 1e7:
		if n := int64(f); float64(n) == f {
			return append(strconv.AppendInt(dst, n, 10), '.', '0')
		}
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	case f == 0:
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(dst, "0.0"...)
	case f != f:
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	// Go writes -d.ddde+07, d may stand alone; Java writes -d.dddE7.
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	digits := start
	if f < 0 {
		digits++
	}
	if dst[digits+1] == 'e' {
		// One digit would do. Java then takes the nearest number of two digits, which
		// is another one only among the smallest: 4.9E-324, not 5.0E-324.
		dst = strconv.AppendFloat(dst[:start], f, 'e', 1, bits)
	}
	e := len(dst) - 1
	for dst[e] != 'e' {
		e--
	}
	exp, _ := strconv.Atoi(string(dst[e+1:]))
	dst = append(dst[:e], 'E')
	return strconv.AppendInt(dst, int64(exp), 10)
}

// ParseFloat reads a decimal number as Java's Double.parseDouble (64 bits) or
// Float.parseFloat (32) does: white space around it and one of the letters fFdD
// behind it do not count, what is too large is infinite. Hexadecimal numbers are
// not read.
func ParseFloat(text string, bits int) (float64, bool) {
	s := strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	switch strings.TrimLeft(s, "+-") {
	case "NaN", "Infinity":
		if len(s)-len(strings.TrimLeft(s, "+-")) > 1 {
			return 0, false
		}
	default:
		if n := len(s); n > 1 && strings.IndexByte("fFdD", s[n-1]) >= 0 {
			s = s[:n-1]
		}
		for _, c := range []byte(s) {
			if (c < '0' || c > '9') && strings.IndexByte("+-.eE", c) < 0 {
				return 0, false
			}
		}
	}
	f, err := strconv.ParseFloat(s, bits)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}
