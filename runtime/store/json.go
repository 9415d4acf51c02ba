package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// appendString appends s as a JSON string in the way of Connect's converter: only
// quotes, backslashes and control characters are escaped.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= 0x20:
			b = append(b, c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\b':
			b = append(b, '\\', 'b')
		case c == '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, '"')
}

func appendStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

// appendProperties appends {"properties":{…}} with the keys in the order in which a
// Java HashMap of them is iterated, since that is how Connect writes a map of its own.
func appendProperties(b []byte, m map[string]string) []byte {
	b = append(b, `{"properties":{`...)
	for i, k := range javaOrder(slices.Sorted(maps.Keys(m))) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, m[k])
	}
	return append(b, "}}"...)
}

// javaOrder sorts keys in the order in which a Java HashMap with them is iterated:
// by bucket, and within a bucket as they stand in keys.
func javaOrder(keys []string) []string {
	size := uint32(16)
	for len(keys) > int(size)/4*3 {
		size *= 2
	}
	bucket := func(s string) uint32 {
		var h uint32
		for _, r := range s {
			if r == utf8.RuneError || r < 0x10000 {
				h = 31*h + uint32(r)
				continue
			}
			hi, lo := utf16.EncodeRune(r)
			h = 31*(31*h+uint32(hi)) + uint32(lo)
		}
		return (h ^ h>>16) & (size - 1)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return int(bucket(a)) - int(bucket(b)) })
	return keys
}

// unmarshal reads a record's value, of which fields that we do not know are ignored.
func unmarshal(key, value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("value of key %q: %w", key, err)
	}
	return nil
}
