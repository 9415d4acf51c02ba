package cdc

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"
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
		if m[1] != "" {
			return nil, fmt.Errorf("version 2 of hashing columns is not supported; use column.mask.hash.%s.with.salt.…", m[2])
		}
		sum, err := hasher(m[2])
		if err != nil {
			return nil, err
		}
		salt := []byte(m[3])
		change = func(a *schema.Arena, text []byte, length int) schema.Value {
			h := sum()
			h.Write(salt)
			h.Write(text)
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
