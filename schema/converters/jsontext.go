package converters

import (
	"encoding/base64"
	"math"
	"strconv"

	"millrace/schema"
	"millrace/schema/javatext"
)

// appendJSONFloat appends a number as Jackson writes Java's. JSON has no NaN and no
// infinity; these become strings.
func appendJSONFloat(dst []byte, v schema.Value) []byte {
	f := v.Float()
	if f-f != 0 {
		return append(javatext.AppendDouble(append(dst, '"'), f), '"')
	}
	if v.Kind() == schema.Float32 {
		return javatext.AppendFloat(dst, float32(f))
	}
	return javatext.AppendDouble(dst, f)
}

// readSpecialFloat is the other way round, for the three strings.
func readSpecialFloat(text string) (float64, bool) {
	switch text {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	return 0, false
}

// parseFloat reads a number that is none of Go's special words, and whether it is
// in range.
func parseFloat(text string, bits int) (float64, bool) {
	f, err := strconv.ParseFloat(text, bits)
	return f, err == nil
}

func appendJSONBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendJSONBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }
