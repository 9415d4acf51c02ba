package mysql

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"net/netip"

	"millrace/schema"
)

// mapMariaText maps MariaDB's UUID and INET types, which are fixed bytes in the log and
// text in the protocol.
func mapMariaText(col *Column) mapping {
	m := mapBytes(schema.New(schema.String), func(a *schema.Arena, raw []byte) (schema.Value, error) {
		var fixed [16]byte
		copy(fixed[:], raw) // zeros at the end are left out
		switch col.Type {
		case UUID:
			return schema.StringValue(formatUUID(fixed)), nil
		case Inet4:
			return schema.StringValue(formatInet(fixed[:4])), nil
		}
		return schema.StringValue(formatInet(fixed[:])), nil
	}, codeString)
	m.row = func(_ *schema.Arena, c *cursor) (schema.Value, error) { return schema.StringOfBytes(c.text()), nil }
	return m
}

// formatInet spells an address as MariaDB does.
func formatInet(raw []byte) string {
	a, _ := netip.AddrFromSlice(raw) // 4 or 16 bytes
	return a.String()
}

// unpackMaria uncompresses the rows of an event or a statement (log_bin_compress): a byte
// with the algorithm, zlib alone, and how many bytes the length has; the length, highest
// byte first; the data.
func unpackMaria(b []byte) ([]byte, error) {
	c := cursor{b: b}
	head := c.u8()
	size := int(c.big(int(head & 7)))
	if c.bad || head&0x80 == 0 || head>>4&7 != 0 || size < 0 || size > maxPayload {
		return nil, errPayload
	}
	r, err := zlib.NewReader(bytes.NewReader(c.b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPayload, err)
	}
	var out bytes.Buffer
	n, err := out.ReadFrom(io.LimitReader(r, int64(size)+1)) // memory grows with what comes, not with what is announced
	if err != nil || n != int64(size) {
		return nil, fmt.Errorf("%w: %d bytes where %d are announced", errPayload, n, size)
	}
	return out.Bytes(), nil
}
