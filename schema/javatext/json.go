package javatext

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The digits of escapes: Jackson writes large letters, MySQL small ones.
const (
	jsonDigits      = "0123456789ABCDEF"
	smallJSONDigits = "0123456789abcdef"
)

// AppendJSON appends s in quotes as Jackson writes a string into a text: quotes,
// backslashes and control characters are escaped, and nothing else.
func AppendJSON[T string | []byte](dst []byte, s T) []byte { return appendJSON(dst, s, jsonDigits) }

// AppendJSONSmall is AppendJSON with small letters in escapes, as MySQL has them.
func AppendJSONSmall[T string | []byte](dst []byte, s T) []byte {
	return appendJSON(dst, s, smallJSONDigits)
}

func appendJSON[T string | []byte](dst []byte, s T, digits string) []byte {
	dst = append(dst, '"')
	done := 0 // s[:done] is in dst
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			dst = appendJSONEscape(append(dst, s[done:i]...), c, digits)
			done = i + 1
		}
	}
	return append(append(dst, s[done:]...), '"')
}

// AppendJSONUTF8 appends s in quotes as Jackson writes a string into bytes: as
// AppendJSON, and characters outside the basic plane as two \u escapes. Bytes that are
// no UTF-8 become U+FFFD.
func AppendJSONUTF8(dst, s []byte) []byte {
	dst = append(dst, '"')
	i := PlainJSON(s)
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
				r -= 0x10000
				dst = appendJSONHex(append(dst, s[done:i]...), uint16(0xD800+r>>10), jsonDigits)
				dst = appendJSONHex(dst, uint16(0xDC00+r&0x3FF), jsonDigits)
				done = i + size
			}
			i += size
			continue
		}
		if c < 0x20 || c == '"' || c == '\\' {
			dst = appendJSONEscape(append(dst, s[done:i]...), c, jsonDigits)
			i++
			done = i
			continue
		}
		i += PlainJSON(s[i:])
	}
	return append(append(dst, s[done:]...), '"')
}

// appendJSONEscape appends a quote, a backslash or a control character, escaped.
func appendJSONEscape(dst []byte, c byte, digits string) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return appendJSONHex(dst, uint16(c), digits)
}

func appendJSONHex(dst []byte, u uint16, digits string) []byte {
	return append(dst, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}

const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	quotes = '"' * ones
	slants = '\\' * ones
)

// PlainJSON is the number of leading bytes of s that stand in a JSON string as
// they are: ASCII, no control character, no quote, no backslash.
func PlainJSON(s []byte) int {
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
