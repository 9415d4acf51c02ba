package mysql

import (
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
