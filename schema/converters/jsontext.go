package converters

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"millrace/schema"
	"millrace/schema/javatext"
)

const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	quotes = '"' * ones
	slants = '\\' * ones
	hexUp  = "0123456789ABCDEF"
)

// plainPrefix is the number of leading bytes of s that stand in a JSON string as
// they are: ASCII, no control character, no quote, no backslash.
func plainPrefix(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		// A byte's high bit is set where the byte is no plain one. Borrows only reach
		// bytes above one that is marked, so the lowest mark is right.
		if m := (w | (w - 0x20*ones) | ((w ^ quotes) - ones) | ((w ^ slants) - ones)) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// appendJSONString appends s as Jackson writes it: control characters, quotes and
// backslashes escaped, characters outside the basic plane as two \u escapes, all
// others as UTF-8. Bytes that are no UTF-8 become U+FFFD.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	i := plainPrefix(s)
	if i == len(s) {
		return append(append(dst, s...), '"')
	}
	done := 0 // s[:done] is in dst
	for i < len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(s[i:])
			switch {
			case r == utf8.RuneError && size <= 1:
				dst = append(append(dst, s[done:i]...), "\uFFFD"...)
				done = i + size
			case r > 0xFFFF:
				dst = append(dst, s[done:i]...)
				r -= 0x10000
				dst = appendEscape(dst, uint16(0xD800+r>>10))
				dst = appendEscape(dst, uint16(0xDC00+r&0x3FF))
				done = i + size
			}
			i += size
			continue
		}
		if c < 0x20 || c == '"' || c == '\\' {
			dst = append(dst, s[done:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			default:
				dst = appendEscape(dst, uint16(c))
			}
			i++
			done = i
			continue
		}
		i += plainPrefix(s[i:])
	}
	return append(append(dst, s[done:]...), '"')
}

func appendEscape(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexUp[u>>12], hexUp[u>>8&15], hexUp[u>>4&15], hexUp[u&15])
}

// appendJSONFloat appends a number as Jackson writes Java's. JSON has no NaN and no
// infinity; these become strings.
func appendJSONFloat(dst []byte, v schema.Value) []byte {
	f := v.Float()
	if f-f != 0 {
		return append(javatext.AppendDouble(append(dst, '"'), f), '"')
	}
	if v.Kind() == schema.Float32 {
		return javatext.AppendFloat(dst, float32(f))
	}
	return javatext.AppendDouble(dst, f)
}

// readSpecialFloat is the other way round, for the three strings.
func readSpecialFloat(text string) (float64, bool) {
	switch text {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	return 0, false
}

// parseFloat reads a number that is none of Go's special words, and whether it is
// in range.
func parseFloat(text string, bits int) (float64, bool) {
	f, err := strconv.ParseFloat(text, bits)
	return f, err == nil
}

func appendJSONBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendJSONBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }
