package mysql

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"

	"millrace/schema"
)

// A charset makes UTF-8 of a text as the server stores it. It may share raw.
type charset func(a *schema.Arena, raw []byte) []byte

func sameBytes(_ *schema.Arena, raw []byte) []byte { return raw }

// builtinCharset are the sets that need no table; nil: of another one.
func builtinCharset(name string) charset {
	switch strings.ToLower(name) {
	case "", "utf8mb4", "utf8mb3", "utf8", "binary":
		return sameBytes
	case "ascii":
		return asciiCharset
	case "utf16", "ucs2":
		return utf16Charset(binary.BigEndian)
	case "utf16le":
		return utf16Charset(binary.LittleEndian)
	case "utf32":
		return utf32Charset
	case "gb18030":
		return func(a *schema.Arena, raw []byte) []byte {
			if ascii(raw) {
				return raw
			}
			out, err := simplifiedchinese.GB18030.NewDecoder().Bytes(raw)
			if err != nil {
				return []byte(strings.ToValidUTF8(string(raw), "?"))
			}
			return bytes.ReplaceAll(out, []byte("\uFFFD"), []byte("?"))
		}
	}
	return nil
}

// unknown stands for what is no character, as where the server converts.
const unknown = '?'

func asciiCharset(a *schema.Arena, raw []byte) []byte {
	if ascii(raw) {
		return raw
	}
	out := a.Copy(raw)
	for i, c := range out {
		if c >= 0x80 {
			out[i] = unknown
		}
	}
	return out
}

func ascii(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func utf16Charset(order binary.ByteOrder) charset {
	return func(a *schema.Arena, raw []byte) []byte {
		out := a.Bytes(len(raw)/2*3 + 3)[:0]
		for len(raw) >= 2 {
			r := rune(order.Uint16(raw))
			raw = raw[2:]
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if len(raw) >= 2 {
					low = rune(order.Uint16(raw))
				}
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					r, raw = full, raw[2:]
				} else {
					r = unknown
				}
			}
			out = utf8.AppendRune(out, r)
		}
		return out
	}
}

func utf32Charset(a *schema.Arena, raw []byte) []byte {
	out := a.Bytes(len(raw))[:0]
	for ; len(raw) >= 4; raw = raw[4:] {
		out = utf8.AppendRune(out, rune(binary.BigEndian.Uint32(raw)))
	}
	return out
}

// A charsetTable is a set whose characters have one to three bytes, as the server itself
// converts them: so a snapshot, where the server converts, and the stream agree.
type charsetTable struct {
	lead  [256]byte       // how many bytes a character that begins with this one has
	one   [256]rune       // of one byte
	wider map[uint32]rune // of more, by their bytes in big-endian order
	ascii bool            // 0 to 127 are what they are in ASCII
}

func (t *charsetTable) decode(a *schema.Arena, raw []byte) []byte {
	if t.ascii && ascii(raw) {
		return raw
	}
	out := a.Bytes(3*len(raw) + 3)[:0]
	for len(raw) > 0 {
		n := int(t.lead[raw[0]])
		if n > len(raw) {
			n = 1
		}
		r := t.one[raw[0]]
		if n > 1 {
			code := uint32(0)
			for _, c := range raw[:n] {
				code = code<<8 | uint32(c)
			}
			ok := false
			if r, ok = t.wider[code]; !ok {
				r = unknown
			}
		}
		out = utf8.AppendRune(out, r)
		raw = raw[n:]
	}
	return out
}

// leads are the bytes that begin characters of two bytes, and those that begin ones of
// three, in the sets that have such.
var leads = map[string]struct{ two, three [][2]byte }{
	"big5":    {two: [][2]byte{{0xa1, 0xf9}}},
	"gbk":     {two: [][2]byte{{0x81, 0xfe}}},
	"gb2312":  {two: [][2]byte{{0xa1, 0xf7}}},
	"euckr":   {two: [][2]byte{{0x81, 0xfe}}},
	"sjis":    {two: [][2]byte{{0x81, 0x9f}, {0xe0, 0xfc}}},
	"cp932":   {two: [][2]byte{{0x81, 0x9f}, {0xe0, 0xfc}}},
	"ujis":    {two: [][2]byte{{0x8e, 0x8e}, {0xa1, 0xfe}}, three: [][2]byte{{0x8f, 0x8f}}},
	"eucjpms": {two: [][2]byte{{0x8e, 0x8e}, {0xa1, 0xfe}}, three: [][2]byte{{0x8f, 0x8f}}},
}

// readCharset asks the server what the bytes of a character set stand for.
func (ss *session) readCharset(ctx context.Context, name string) (charset, error) {
	rows, err := ss.query(ctx, "SELECT MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME = "+quoteText(name))
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("the server has no character set %q", name)
	}
	wide := leads[strings.ToLower(name)]
	if rows[0][0].text != "1" && wide.two == nil {
		return nil, fmt.Errorf("texts in the character set %q cannot be read", name)
	}
	t := &charsetTable{wider: map[uint32]rune{}, ascii: true}
	for i := range t.lead {
		t.lead[i], t.one[i] = 1, unknown
	}
	var codes []uint32
	for i := range uint32(256) {
		codes = append(codes, i)
	}
	if err := ss.convert(ctx, name, codes, 1, func(code uint32, r rune) { t.one[code] = r }); err != nil {
		return nil, err
	}
	for _, l := range append(wide.two, wide.three...) {
		n := 2
		if l[0] == 0x8f {
			n = 3
		}
		for first := uint32(l[0]); first <= uint32(l[1]); first++ {
			t.lead[first] = byte(n)
			codes = codes[:0]
			if n == 2 {
				for second := uint32(0x40); second <= 0xfe; second++ {
					codes = append(codes, first<<8|second)
				}
			} else {
				for second := uint32(0xa1); second <= 0xfe; second++ {
					for third := uint32(0xa1); third <= 0xfe; third++ {
						codes = append(codes, first<<16|second<<8|third)
					}
				}
			}
			if err := ss.convert(ctx, name, codes, n, func(code uint32, r rune) { t.wider[code] = r }); err != nil {
				return nil, err
			}
		}
	}
	for i := range rune(128) {
		t.ascii = t.ascii && t.one[i] == i
	}
	return t.decode, nil
}

// convert asks the server for the characters of codes of n bytes each. Each is asked for
// by itself, in one statement, so that a wrong one spoils no other. What has no
// character comes as NULL or as more than one.
func (ss *session) convert(ctx context.Context, name string, codes []uint32, n int, found func(code uint32, r rune)) error {
	const atOnce = 512
	for len(codes) > 0 {
		part := codes[:min(len(codes), atOnce)]
		codes = codes[len(part):]
		var b strings.Builder
		b.WriteString("SELECT ")
		for i, code := range part {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "HEX(CONVERT(CONVERT(x'%0*X' USING %s) USING utf8mb4))", 2*n, code, name)
		}
		rows, err := ss.query(ctx, b.String())
		if err != nil {
			return err
		}
		for i, f := range rows[0] {
			if f.null {
				continue
			}
			var text []byte
			if _, err := fmt.Sscanf(f.text, "%x", &text); err != nil {
				continue
			}
			r, size := utf8.DecodeRune(text)
			if size != len(text) || r == '?' && part[i] != '?' {
				continue
			}
			found(part[i], r)
		}
	}
	return nil
}
