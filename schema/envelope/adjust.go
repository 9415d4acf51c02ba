package envelope

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// An Adjuster makes a name fit for Avro, or leaves it.
type Adjuster uint8

// The adjusters.
const (
	AdjustNone        Adjuster = iota // none: as it is
	AdjustAvro                        // avro: what Avro refuses becomes _
	AdjustAvroUnicode                 // avro_unicode: what Avro refuses, and _, becomes _uXXXX
)

// AdjustModes are the values of the modes' settings.
var AdjustModes = []string{"none", "avro", "avro_unicode"}

// ParseAdjuster is the adjuster of a setting's value.
func ParseAdjuster(mode string) (Adjuster, error) {
	for i, m := range AdjustModes {
		if strings.EqualFold(m, mode) {
			return Adjuster(i), nil
		}
	}
	return AdjustNone, fmt.Errorf("%q is none of %s", mode, strings.Join(AdjustModes, ", "))
}

// Name is the adjusted name. Dots divide a schema's namespace and stay.
func (a Adjuster) Name(name string) string {
	if a == AdjustNone {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		ok := letter || r == '_' || i > 0 && (r == '.' || r >= '0' && r <= '9')
		if ok && !(a == AdjustAvroUnicode && r == '_') {
			b.WriteRune(r)
			continue
		}
		if a == AdjustAvro {
			b.WriteString("__"[:max(1, utf16.RuneLen(r))])
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, "_u%04x", u)
		}
	}
	return b.String()
}
