package cdc

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"millrace/schema"
)

// A BinaryMode is binary.handling.mode.
type BinaryMode uint8

// The modes. All but BinaryBytes make text.
const (
	BinaryBytes BinaryMode = iota
	BinaryBase64
	BinaryBase64URL
	BinaryHex
)

// BinaryModes are their names.
var BinaryModes = []string{"bytes", "base64", "base64-url-safe", "hex"}

// BinaryModeOf is the mode of that name, whatever its case; BinaryBytes for another name.
func BinaryModeOf(name string) BinaryMode {
	return BinaryMode(max(0, slices.Index(BinaryModes, strings.ToLower(name))))
}

// Value is raw bytes in the mode's form; raw may be kept.
func (m BinaryMode) Value(a *schema.Arena, raw []byte) schema.Value {
	switch m {
	case BinaryBase64, BinaryBase64URL:
		enc := base64.StdEncoding
		if m == BinaryBase64URL {
			enc = base64.URLEncoding
		}
		out := a.Bytes(enc.EncodedLen(len(raw)))
		enc.Encode(out, raw)
		return schema.StringOfBytes(out)
	case BinaryHex:
		out := a.Bytes(hex.EncodedLen(len(raw)))
		hex.Encode(out, raw)
		return schema.StringOfBytes(out)
	}
	return schema.BytesValue(raw)
}
