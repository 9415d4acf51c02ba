package cdc

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"millrace/schema"
)

var (
	hashColumns = regexp.MustCompile(`^column\.mask\.hash(\.v2)?\.([^.]+)\.with\.salt\.(.+)$`)
	maskColumns = regexp.MustCompile(`^column\.mask\.with\.(\d+)\.chars$`)
	cutColumns  = regexp.MustCompile(`^column\.truncate\.to\.(\d+)\.chars$`)
)

// A TextRule changes the text of columns: a mask, a hash or a cut.
type TextRule struct {
	Columns Patterns // of schema.table.column
	// Change makes the text that is sent; length is the column's, in characters, 0 where
	// it has none.
	Change func(a *schema.Arena, text []byte, length int) schema.Value
}

// ParseTextRule reads one of the three families of keys; nil: the key is of none.
func ParseTextRule(key, value string) (*TextRule, error) {
	var change func(*schema.Arena, []byte, int) schema.Value
	if m := maskColumns.FindStringSubmatch(key); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || n > 1<<20 {
			return nil, fmt.Errorf("%s is no number of characters up to %d", m[1], 1<<20)
		}
		mask := schema.StringValue(strings.Repeat("*", n))
		change = func(*schema.Arena, []byte, int) schema.Value { return mask }
	} else if m := cutColumns.FindStringSubmatch(key); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s is no number of characters above 0", m[1])
		}
		change = func(a *schema.Arena, text []byte, _ int) schema.Value { return a.String(firstRunes(text, n)) }
	} else if m := hashColumns.FindStringSubmatch(key); m != nil {
		sum, err := hasher(m[2])
		if err != nil {
			return nil, err
		}
		salt, serialized := []byte(m[3]), m[1] == ""
		change = func(a *schema.Arena, text []byte, length int) schema.Value {
			h := sum()
			h.Write(salt)
			if serialized {
				writeSerialized(h, text)
			} else {
				h.Write(text)
			}
			out := a.Bytes(2 * h.Size())
			hex.Encode(out, h.Sum(nil))
			if length > 0 && length < len(out) {
				out = out[:length]
			}
			return schema.StringOfBytes(out)
		}
	} else {
		return nil, nil
	}
	columns, err := ParsePatterns(value)
	if err != nil {
		return nil, err
	}
	return &TextRule{columns, change}, nil
}

// writeSerialized writes a text as Java's serialization has it, which the first version of
// hashing takes for a text's bytes (Java Object Serialization Specification, chapter 6):
//
//	AC ED 00 05   magic, version
//	74 u16        a string of so many bytes, or
//	7C u64        one of more than 65535
//	bytes         modified UTF-8: NUL is C0 80, what lies beyond U+FFFF its two surrogates
func writeSerialized(w io.Writer, text []byte) {
	plain := true
	for _, c := range text {
		if c == 0 || c >= 0xf0 {
			plain = false
			break
		}
	}
	if !plain {
		out := make([]byte, 0, len(text)+len(text)/2)
		for _, r := range string(text) {
			switch hi, lo := utf16.EncodeRune(r); {
			case r == 0:
				out = append(out, 0xc0, 0x80)
			case r > 0xffff:
				for _, u := range []rune{hi, lo} {
					out = append(out, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0x3f, 0x80|byte(u)&0x3f)
				}
			default:
				out = utf8.AppendRune(out, r)
			}
		}
		text = out
	}
	head := []byte{0xac, 0xed, 0, 5}
	if len(text) <= math.MaxUint16 {
		head = binary.BigEndian.AppendUint16(append(head, 0x74), uint16(len(text)))
	} else {
		head = binary.BigEndian.AppendUint64(append(head, 0x7c), uint64(len(text)))
	}
	_, _ = w.Write(head) // hashes never fail
	_, _ = w.Write(text)
}

// hasher finds an algorithm under Java's name.
func hasher(name string) (func() hash.Hash, error) {
	switch strings.ToUpper(name) {
	case "MD5":
		return md5.New, nil
	case "SHA-1", "SHA1", "SHA":
		return sha1.New, nil
	case "SHA-224":
		return sha256.New224, nil
	case "SHA-256":
		return sha256.New, nil
	case "SHA-384":
		return sha512.New384, nil
	case "SHA-512":
		return sha512.New, nil
	case "SHA3-256":
		return func() hash.Hash { return sha3.New256() }, nil
	case "SHA3-512":
		return func() hash.Hash { return sha3.New512() }, nil
	}
	return nil, fmt.Errorf("the hash algorithm %q is not supported; use MD5, SHA-1, SHA-256, SHA-512", name)
}

// firstRunes is the front of a text, n characters at most.
func firstRunes(b []byte, n int) []byte {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return b[:at]
}
