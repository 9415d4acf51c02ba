package file

import (
	"bytes"
	"unicode/utf8"

	"millrace/schema"
)

// cutLine finds the first line of b: line is its text and next where the next one
// starts. A line ends with \n, \r\n or \r alone, as for Kafka; the end of a \r at
// the end of b is not known before the next byte. ok is false where b holds no
// whole line. Bytes before from are known to hold no end.
func cutLine(b []byte, from int) (line []byte, next int, ok bool) {
	nl := bytes.IndexByte(b[from:], '\n')
	upTo := len(b)
	if nl >= 0 {
		nl += from
		upTo = nl
	}
	if cr := bytes.IndexByte(b[from:upTo], '\r'); cr >= 0 {
		cr += from
		switch {
		case cr+1 == len(b):
			return nil, 0, false
		case b[cr+1] == '\n':
			return b[:cr], cr + 2, true
		default:
			return b[:cr], cr + 1, true
		}
	}
	if nl < 0 {
		return nil, 0, false
	}
	return b[:nl], nl + 1, true
}

// validText is a STRING that shares line; each byte that is no UTF-8 becomes U+FFFD.
func validText(line []byte) schema.Value {
	if utf8.Valid(line) {
		return schema.StringOfBytes(line)
	}
	out := make([]byte, 0, len(line)+8)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r == utf8.RuneError && size == 1 {
			out = append(out, "\uFFFD"...)
		} else {
			out = append(out, line[:size]...)
		}
		line = line[size:]
	}
	return schema.StringOfBytes(out)
}
