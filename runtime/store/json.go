package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"millrace/schema/javatext"
)

// appendString appends s as a JSON string, in the very bytes of the converter through
// which Connect writes these records: keys with other bytes would be other keys.
func appendString(b []byte, s string) []byte { return javatext.AppendJSONUTF8(b, []byte(s)) }

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
	for i, k := range javatext.HashOrder(slices.Sorted(maps.Keys(m)), func(k string) string { return k }) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, m[k])
	}
	return append(b, "}}"...)
}

// unmarshal reads a record's value, of which fields that we do not know are ignored.
func unmarshal(key, value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("value of key %q: %w", key, err)
	}
	return nil
}
