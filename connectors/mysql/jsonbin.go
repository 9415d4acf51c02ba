package mysql

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"millrace/schema"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
)

// MySQL's binary JSON (json_binary.h): a byte for the type, then the value. An object or
// an array holds its number of elements, its size, for each key its place and length, for
// each element its type and its place or, where it is small, itself; all places count
// from the object's or array's own first byte. The large forms have 4 bytes where the
// small ones have 2.
const (
	jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray = 0x00, 0x01, 0x02, 0x03
	jsonLiteral, jsonInt16, jsonUint16, jsonInt32, jsonUint32        = 0x04, 0x05, 0x06, 0x07, 0x08
	jsonInt64, jsonUint64, jsonDouble, jsonString, jsonOpaque        = 0x09, 0x0a, 0x0b, 0x0c, 0x0f

	jsonDepth = 128 // the server allows 100
)

var errJSON = errors.New("holds JSON that is damaged")

// appendJSON writes a binary document as text: without blanks, numbers and texts as the
// server prints them. No bytes are a null, as a column has that an older server added.
func appendJSON(dst, doc []byte) ([]byte, error) {
	if len(doc) == 0 {
		return append(dst, "null"...), nil
	}
	return appendJSONValue(dst, doc[0], doc[1:], jsonDepth)
}

func appendJSONValue(dst []byte, kind byte, b []byte, depth int) ([]byte, error) {
	c := cursor{b: b}
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		if depth == 0 {
			return nil, fmt.Errorf("%w: too deep", errJSON)
		}
		return appendJSONContainer(dst, kind, b, depth-1)
	case jsonLiteral:
		switch c.u8() {
		case 0:
			dst = append(dst, "null"...)
		case 1:
			dst = append(dst, "true"...)
		case 2:
			dst = append(dst, "false"...)
		default:
			return nil, errJSON
		}
	case jsonInt16:
		dst = strconv.AppendInt(dst, int64(int16(c.u16())), 10)
	case jsonUint16:
		dst = strconv.AppendUint(dst, uint64(c.u16()), 10)
	case jsonInt32:
		dst = strconv.AppendInt(dst, int64(int32(c.u32())), 10)
	case jsonUint32:
		dst = strconv.AppendUint(dst, uint64(c.u32()), 10)
	case jsonInt64:
		dst = strconv.AppendInt(dst, int64(c.u64()), 10)
	case jsonUint64:
		dst = strconv.AppendUint(dst, c.u64(), 10)
	case jsonDouble:
		f := math.Float64frombits(c.u64())
		if math.IsNaN(f) || math.IsInf(f, 0) { // no server writes them
			return nil, errJSON
		}
		dst = appendJSONDouble(dst, f)
	case jsonString:
		dst = javatext.AppendJSONSmall(dst, c.take(jsonSize(&c)))
	case jsonOpaque:
		code := c.u8()
		return appendJSONOpaque(dst, code, c.take(jsonSize(&c)), c.bad)
	default:
		return nil, fmt.Errorf("%w: a value of the unknown type %d", errJSON, kind)
	}
	if c.bad {
		return nil, errJSON
	}
	return dst, nil
}

// jsonSize reads a length of one to five bytes of seven bits, the lowest first.
func jsonSize(c *cursor) int {
	n := uint64(0)
	for i := range 5 {
		b := c.u8()
		n |= uint64(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			if n > math.MaxInt32 {
				break
			}
			return int(n)
		}
	}
	c.bad = true
	return 0
}

func appendJSONContainer(dst []byte, kind byte, b []byte, depth int) ([]byte, error) {
	open, end := byte('['), byte(']')
	object := kind == jsonSmallObject || kind == jsonLargeObject
	if object {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	first := true
	err := jsonEach(kind, b, func(key []byte, t byte, value []byte) (err error) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if object {
			dst = append(javatext.AppendJSONSmall(dst, key), ':')
		}
		dst, err = appendJSONValue(dst, t, value, depth)
		return err
	})
	if err != nil {
		return nil, err
	}
	return append(dst, end), nil
}

// jsonEach calls each for the elements of an object or an array, in their order, with the
// type and the bytes of their values, behind which others may follow.
func jsonEach(kind byte, b []byte, each func(key []byte, t byte, value []byte) error) error {
	object := kind == jsonSmallObject || kind == jsonLargeObject
	width := 2
	if kind == jsonLargeObject || kind == jsonLargeArray {
		width = 4
	}
	c := cursor{b: b}
	n, size := int(c.fixed(width)), int(c.fixed(width))
	keySize := 0
	if object {
		keySize = width + 2
	}
	if c.bad || size < 2*width || size > len(b) || n > (size-2*width)/(keySize+1+width) {
		return errJSON
	}
	b = b[:size]
	keys, values := cursor{b: b[2*width:]}, cursor{b: b[2*width+n*keySize:]}
	for range n {
		var key []byte
		if object {
			at, length := int(keys.fixed(width)), int(keys.u16())
			if at+length > size {
				return errJSON
			}
			key = b[at : at+length]
		}
		t := values.u8()
		value := values.take(width)
		if values.bad {
			return errJSON
		}
		if !jsonInlined(t, width) {
			at := int(binary.LittleEndian.Uint16(value))
			if width == 4 {
				at = int(binary.LittleEndian.Uint32(value))
			}
			// A value lies behind all that describes its container: so none holds itself.
			if at < 2*width+n*(keySize+1+width) || at > size {
				return errJSON
			}
			value = b[at:]
		}
		if err := each(key, t, value); err != nil {
			return err
		}
	}
	return nil
}

// jsonInlined reports whether a value of the type stands where its place would.
func jsonInlined(t byte, width int) bool {
	switch t {
	case jsonLiteral, jsonInt16, jsonUint16:
		return true
	case jsonInt32, jsonUint32:
		return width == 4
	}
	return false
}

// appendJSONDouble writes a double as the server does (my_gcvt): its shortest digits;
// with an exponent where the point would stand more than fifteen places to the left or
// right, unless digits stand behind it; else with a point always.
func appendJSONDouble(dst []byte, f float64) []byte {
	var buf [32]byte
	e := strconv.AppendFloat(buf[:0], f, 'e', -1, 64) // d.ddde±xx
	at := len(e) - 1
	for e[at] != 'e' {
		at--
	}
	exp, _ := strconv.Atoi(string(e[at+1:]))
	digits := at
	if e[0] == '-' {
		digits--
	}
	if digits > 1 {
		digits-- // the point
	}
	if exp >= -15 && exp < 15 || exp >= 15 && digits > exp+1 {
		from := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
		for _, c := range dst[from:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, '.', '0')
	}
	dst = append(dst, e[:at]...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(exp), 10)
}

// appendJSONOpaque writes what JSON has no type for: decimals as numbers, times as texts,
// anything else in base64 with its type's number before it.
func appendJSONOpaque(dst []byte, code byte, raw []byte, bad bool) ([]byte, error) {
	if bad {
		return nil, errJSON
	}
	c := cursor{b: raw}
	switch code {
	case codeNewDecimal:
		precision, scale := int(c.u8()), int(c.u8())
		if c.bad {
			return nil, errJSON
		}
		v, err := packedDecimal(&c, precision, scale)
		if err != nil || c.bad {
			return nil, errJSON
		}
		return v.AppendDecimalPlain(dst), nil
	case codeDate, codeDateTime, codeTimestamp, codeTime:
		if len(raw) != 8 {
			return nil, errJSON
		}
		return appendJSONTemporal(dst, code, int64(binary.LittleEndian.Uint64(raw))), nil
	}
	dst = append(dst, `"base64:type`...)
	dst = strconv.AppendUint(dst, uint64(code), 10)
	dst = append(dst, ':')
	dst = base64.StdEncoding.AppendEncode(dst, raw)
	return append(dst, '"'), nil
}

// appendJSONTemporal writes a packed time (my_time.h): the fraction in 24 bits; before it
// 6 for seconds, 6 for minutes, 5 for hours (10 in a TIME), 5 for the day and the rest
// for year × 13 + month.
func appendJSONTemporal(dst []byte, code byte, v int64) []byte {
	dst = append(dst, '"')
	two := func(n int64) { dst = append(dst, '0'+byte(n/10%10), '0'+byte(n%10)) }
	neg := v < 0
	if neg {
		v = -v
	}
	micros, hms := v&0xffffff, v>>24
	if code == codeTime {
		if neg {
			dst = append(dst, '-')
		}
		hour := hms >> 12 & 0x3ff
		if hour >= 100 {
			dst = append(dst, '0'+byte(hour/100))
		}
		two(hour)
	} else {
		ymd := hms >> 17
		ym := ymd >> 5
		year := ym / 13
		dst = append(dst, '0'+byte(year/1000%10), '0'+byte(year/100%10))
		two(year)
		dst = append(dst, '-')
		two(ym % 13)
		dst = append(dst, '-')
		two(ymd & 31)
		if code == codeDate {
			return append(dst, '"')
		}
		dst = append(dst, ' ')
		two(hms >> 12 & 31)
	}
	dst = append(dst, ':')
	two(hms >> 6 & 63)
	dst = append(dst, ':')
	two(hms & 63)
	dst = append(dst, '.')
	for unit := int64(100_000); unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(micros/unit%10))
	}
	return append(dst, '"')
}

// compactJSON leaves out the blanks that the server prints between the parts of a
// document.
func compactJSON(dst, text []byte) []byte {
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			dst = append(dst, c)
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		case !quoted && c == ' ':
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

func mapJSON() mapping {
	m := mapBytes(envelope.Semantic(schema.String, envelope.JSONName), func(a *schema.Arena, raw []byte) (schema.Value, error) {
		out, err := appendJSON(a.Bytes(len(raw))[:0], raw)
		if err != nil {
			return schema.Value{}, err
		}
		return schema.StringOfBytes(out), nil
	}, codeJSON)
	m.row = func(a *schema.Arena, c *cursor) (schema.Value, error) {
		text := c.text()
		return schema.StringOfBytes(compactJSON(a.Bytes(len(text))[:0], text)), nil
	}
	m.large = true
	return m
}
