package warehouse

import (
	"errors"
	"fmt"
	"strings"

	"millrace/schema"
)

const (
	// MaxSegment bounds a part of a path between two slashes, in bytes: HDFS and local file systems take no longer one.
	MaxSegment = 255

	// nullText stands where a field is null, as in Confluent's sinks.
	nullText = "null"
)

// special are the characters that Hive, Spark and DuckDB expect escaped in a partition's name and value, beside control
// characters.
const special = "\"#%'*/:=?\\{[]^"

const hexDigits = "0123456789ABCDEF"

// appendEscaped appends one half of name=value. What it appends is no . or .. by itself, since an = is beside it, holds no
// slash, and Unescape gives s back.
func appendEscaped(dst []byte, s string) []byte {
	if s == nullText { // the text, which is not the same as no value
		return append(dst, "%6Eull"...)
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == 0x7f || strings.IndexByte(special, c) >= 0 {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// checkSegments returns why a path cannot be one: a part of it is too long, empty or climbs.
func checkSegments(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case len(part) > MaxSegment:
			return &schema.DataError{Reason: fmt.Sprintf("the partition %.40q… has %d bytes, and a folder's name has at most %d", part, len(part), MaxSegment)}
		case part == "", part == ".", part == "..":
			return &schema.DataError{Reason: fmt.Sprintf("the partition %q has %q for a folder's name", path, part)}
		}
	}
	return nil
}

// Folder checks a folder's name that a setting gives.
func Folder(name string) error {
	if err := checkSegments(name); err != nil || strings.Contains(name, "\\") {
		return errors.New("it is no folder's name: one or more parts with a / between them, none of them empty, . or .. and none longer than 255 bytes")
	}
	return nil
}
