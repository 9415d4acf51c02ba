package converters

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"millrace/schema"
	"millrace/schema/javatext"
)

// maxDepth is how deep JSON may nest, as in Jackson.
const maxDepth = 1000

// A jsonParser reads one JSON text. Strings without escapes share its bytes.
type jsonParser struct {
	data  []byte
	pos   int
	depth int
	arena *schema.Arena
	stack []schema.Value // elements of the arrays being read, innermost last
	pairs []schema.Entry // likewise of maps
}

// A syntaxError is about the text, not about what it should have held.
type syntaxError struct {
	at     int
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.at, e.reason) }

func (p *jsonParser) fail(format string, args ...any) error {
	return &syntaxError{p.pos, fmt.Sprintf(format, args...)}
}

// peek is the next byte that is no white space, 0 at the end.
func (p *jsonParser) peek() byte {
	for p.pos < len(p.data) {
		switch c := p.data[p.pos]; c {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return c
		}
	}
	return 0
}

// want takes the byte c.
func (p *jsonParser) want(c byte) error {
	if got := p.peek(); got != c || p.pos == len(p.data) {
		return p.fail("%s where %q should stand", p.seen(), string(c))
	}
	p.pos++
	return nil
}

// seen describes what stands at the position.
func (p *jsonParser) seen() string {
	if p.pos >= len(p.data) {
		return "the end"
	}
	r, _ := utf8.DecodeRune(p.data[p.pos:])
	return strconv.QuoteRune(r)
}

// end reports anything that stands behind the value.
func (p *jsonParser) end() error {
	p.peek()
	if p.pos < len(p.data) {
		return p.fail("%s behind the value", p.seen())
	}
	return nil
}

func (p *jsonParser) enter() error {
	p.pos++
	if p.depth++; p.depth > maxDepth {
		return p.fail("nested deeper than %d", maxDepth)
	}
	return nil
}

// next, inside an object or array that ends with end, takes the comma before the
// next part, or the end. first is true before the first part.
func (p *jsonParser) next(end byte, first bool) (more bool, err error) {
	c := p.peek()
	if c == end {
		p.pos++
		p.depth--
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, p.fail("%s where a comma or %q should stand", p.seen(), string(end))
	}
	p.pos++
	return true, nil
}

// name takes an object's key and the colon behind it.
func (p *jsonParser) name() ([]byte, error) {
	if p.peek() != '"' {
		return nil, p.fail("%s where a name in quotes should stand", p.seen())
	}
	s, err := p.str()
	if err != nil {
		return nil, err
	}
	return s, p.want(':')
}

// word takes true, false or null.
func (p *jsonParser) word(w string) error {
	if !bytes.HasPrefix(p.data[p.pos:], []byte(w)) {
		return p.fail("an unknown word")
	}
	p.pos += len(w)
	if p.pos < len(p.data) {
		if c := p.data[p.pos]; c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return p.fail("an unknown word")
		}
	}
	return nil
}

// str takes a string; the position is at its quote. The result shares the text
// where there are no escapes.
func (p *jsonParser) str() ([]byte, error) {
	p.pos++
	start, ascii := p.pos, true
	for {
		p.pos += javatext.PlainJSON(p.data[p.pos:])
		if p.pos >= len(p.data) {
			return nil, p.fail("the end inside a string")
		}
		switch c := p.data[p.pos]; {
		case c == '"':
			s := p.data[start:p.pos]
			p.pos++
			if !ascii && !utf8.Valid(s) {
				return nil, &syntaxError{start, "a string that is no UTF-8"}
			}
			return s, nil
		case c == '\\':
			return p.unescape(start)
		case c < 0x20:
			return nil, p.fail("a control character (%#02x) inside a string", c)
		default:
			ascii = false
			for p.pos < len(p.data) && p.data[p.pos] >= utf8.RuneSelf {
				p.pos++
			}
		}
	}
}

// unescape takes the rest of a string from its first escape on.
func (p *jsonParser) unescape(start int) ([]byte, error) {
	out := append(make([]byte, 0, p.pos-start+32), p.data[start:p.pos]...)
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		switch {
		case c == '"':
			p.pos++
			if !utf8.Valid(out) {
				return nil, &syntaxError{start, "a string that is no UTF-8"}
			}
			return out, nil
		case c < 0x20:
			return nil, p.fail("a control character (%#02x) inside a string", c)
		case c != '\\':
			n := max(javatext.PlainJSON(p.data[p.pos:]), 1)
			out = append(out, p.data[p.pos:p.pos+n]...)
			p.pos += n
			continue
		}
		if p.pos+1 >= len(p.data) {
			break
		}
		p.pos++
		switch c := p.data[p.pos]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, err := p.hex()
			if err != nil {
				return nil, err
			}
			if r >= 0xD800 && r < 0xDC00 && p.pos+2 < len(p.data) && p.data[p.pos+1] == '\\' && p.data[p.pos+2] == 'u' {
				back := p.pos
				p.pos += 2
				low, err := p.hex()
				if err != nil {
					return nil, err
				}
				if low >= 0xDC00 && low < 0xE000 {
					r = 0x10000 + (r-0xD800)<<10 + (low - 0xDC00)
				} else {
					p.pos = back // read again on its own
				}
			}
			out = utf8.AppendRune(out, r) // half a pair becomes U+FFFD: it has no UTF-8
		default:
			return nil, p.fail("an unknown escape in a string")
		}
		p.pos++
	}
	return nil, p.fail("the end inside a string")
}

// hex takes the four digits behind the u at the position and stops on the last.
func (p *jsonParser) hex() (rune, error) {
	if p.pos+4 >= len(p.data) {
		return 0, p.fail("the end inside a string")
	}
	var r rune
	for _, c := range p.data[p.pos+1 : p.pos+5] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, p.fail(`no four hexadecimal digits behind \u`)
		}
	}
	p.pos += 4
	return r, nil
}

// number takes a number: its text, whether it is a whole one without point and
// exponent, and then its value where it fits 64 bits. Leading zeros are taken, as
// Connect's deserializer takes them.
func (p *jsonParser) number() (text []byte, n int64, whole, fits bool, err error) {
	start, d := p.pos, p.data
	i := p.pos
	neg := d[i] == '-'
	if neg {
		i++
	}
	var u uint64
	fits = true
	first := i
	for ; i < len(d) && d[i]-'0' < 10; i++ {
		c := uint64(d[i] - '0')
		if u > (1<<63-9)/10 {
			// At the border: 922337203685477580 and one more digit.
			if u > 1<<63/10 || u*10+c > 1<<63-1 && !(neg && u*10+c == 1<<63) {
				fits = false
			}
		}
		u = u*10 + c
	}
	if i == first {
		p.pos = i
		return nil, 0, false, false, p.fail("%s where a digit should stand", p.seen())
	}
	whole = true
	if i < len(d) && d[i] == '.' {
		whole = false
		i++
		first = i
		for i < len(d) && d[i]-'0' < 10 {
			i++
		}
		if i == first {
			p.pos = i
			return nil, 0, false, false, p.fail("%s where a digit should stand", p.seen())
		}
	}
	if i < len(d) && d[i]|0x20 == 'e' {
		whole = false
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		first = i
		for i < len(d) && d[i]-'0' < 10 {
			i++
		}
		if i == first {
			p.pos = i
			return nil, 0, false, false, p.fail("%s where a digit should stand", p.seen())
		}
	}
	p.pos = i
	n = int64(u)
	if neg {
		n = -n
	}
	return d[start:i], n, whole, whole && fits, nil
}

// skip takes any value and checks that it is one.
func (p *jsonParser) skip() error {
	switch c := p.peek(); {
	case c == '{':
		if err := p.enter(); err != nil {
			return err
		}
		for first := true; ; first = false {
			more, err := p.next('}', first)
			if err != nil || !more {
				return err
			}
			if _, err := p.name(); err != nil {
				return err
			}
			if err := p.skip(); err != nil {
				return err
			}
		}
	case c == '[':
		if err := p.enter(); err != nil {
			return err
		}
		for first := true; ; first = false {
			more, err := p.next(']', first)
			if err != nil || !more {
				return err
			}
			if err := p.skip(); err != nil {
				return err
			}
		}
	case c == '"':
		_, err := p.str()
		return err
	case c == 't':
		return p.word("true")
	case c == 'f':
		return p.word("false")
	case c == 'n':
		return p.word("null")
	case c == '-' || c-'0' < 10:
		_, _, _, _, err := p.number()
		return err
	}
	return p.fail("%s where a value should stand", p.seen())
}

// span takes any value and returns its text.
func (p *jsonParser) span() ([]byte, error) {
	p.peek()
	start := p.pos
	err := p.skip()
	return p.data[start:p.pos], err
}

// schemaless takes any value as data without a schema: whole numbers are INT64,
// others FLOAT64, and what neither holds is a DECIMAL; objects are maps in the
// order of the text.
func (p *jsonParser) schemaless() (schema.Value, error) {
	switch c := p.peek(); {
	case c == '{':
		if err := p.enter(); err != nil {
			return schema.Value{}, err
		}
		base := len(p.pairs)
		for first := true; ; first = false {
			more, err := p.next('}', first)
			if err != nil {
				return schema.Value{}, err
			}
			if !more {
				return p.takeMap(base), nil
			}
			name, err := p.name()
			if err != nil {
				return schema.Value{}, err
			}
			v, err := p.schemaless()
			if err != nil {
				return schema.Value{}, err
			}
			p.pairs = append(p.pairs, schema.Entry{Key: schema.StringOfBytes(name), Value: v})
		}
	case c == '[':
		if err := p.enter(); err != nil {
			return schema.Value{}, err
		}
		base := len(p.stack)
		for first := true; ; first = false {
			more, err := p.next(']', first)
			if err != nil {
				return schema.Value{}, err
			}
			if !more {
				return p.takeArray(base), nil
			}
			v, err := p.schemaless()
			if err != nil {
				return schema.Value{}, err
			}
			p.stack = append(p.stack, v)
		}
	case c == '"':
		s, err := p.str()
		return schema.StringOfBytes(s), err
	case c == 't':
		return schema.BoolValue(true), p.word("true")
	case c == 'f':
		return schema.BoolValue(false), p.word("false")
	case c == 'n':
		return schema.Value{}, p.word("null")
	case c == '-' || c-'0' < 10:
		text, n, whole, fits, err := p.number()
		if err != nil {
			return schema.Value{}, err
		}
		if fits {
			return schema.Int64Value(n), nil
		}
		if !whole {
			if f, err := strconv.ParseFloat(string(text), 64); err == nil {
				return schema.Float64Value(f), nil
			}
		}
		v, err := schema.ParseDecimal(string(text))
		if err != nil {
			return v, p.fail("%v", err)
		}
		return v, nil
	}
	return schema.Value{}, p.fail("%s where a value should stand", p.seen())
}

// takeArray makes an array of the values pushed since base.
func (p *jsonParser) takeArray(base int) schema.Value {
	elems := p.arena.Values(len(p.stack) - base)
	copy(elems, p.stack[base:])
	clear(p.stack[base:])
	p.stack = p.stack[:base]
	return schema.ArrayValue(elems)
}

// takeMap makes a map of the pairs pushed since base. Of a key that occurs more
// than once the last value counts, in the place of the first, as in Jackson.
func (p *jsonParser) takeMap(base int) schema.Value {
	pairs := p.pairs[base:]
	n := 0
	if len(pairs) <= 16 {
		for _, e := range pairs {
			at := n
			for i := range n {
				if schema.EqualValues(pairs[i].Key, e.Key) {
					at = i
					break
				}
			}
			pairs[at] = schema.Entry{Key: e.Key, Value: e.Value}
			n = max(n, at+1)
		}
	} else {
		at := make(map[string]int, len(pairs))
		for _, e := range pairs {
			key := mapKeyText(e.Key)
			i, twice := at[key]
			if !twice {
				i = n
				at[key] = n
				n++
			}
			pairs[i] = schema.Entry{Key: e.Key, Value: e.Value}
		}
	}
	own := make([]schema.Entry, n)
	copy(own, pairs[:n])
	clear(pairs)
	p.pairs = p.pairs[:base]
	return schema.MapValue(own)
}

// mapKeyText is a text that differs where keys differ.
func mapKeyText(k schema.Value) string {
	if k.Kind() == schema.String {
		return k.Str()
	}
	return string(appendIdentity(nil, k))
}

// appendIdentity appends bytes that are the same exactly where values are: each
// part behind its kind, and its length where that is not fixed.
func appendIdentity(dst []byte, v schema.Value) []byte {
	dst = append(dst, byte(v.Kind()))
	text := func(b []byte) { dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...) }
	switch v.Kind() {
	case schema.String:
		text(v.StrBytes())
	case schema.Bytes:
		text(v.Bytes())
	case schema.Float32, schema.Float64:
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(v.Float()))
	case schema.Bool:
		dst = appendJSONBool(dst, v.Bool())
	case schema.Decimal:
		dst = binary.AppendVarint(dst, int64(v.Scale()))
		text(v.AppendUnscaled(nil))
	case schema.Array:
		dst = binary.AppendUvarint(dst, uint64(len(v.Elems())))
		for _, e := range v.Elems() {
			dst = appendIdentity(dst, e)
		}
	case schema.Map:
		dst = binary.AppendUvarint(dst, uint64(len(v.Entries())))
		for _, e := range v.Entries() {
			dst = appendIdentity(appendIdentity(dst, e.Key), e.Value)
		}
	case schema.Struct:
		for _, f := range v.Fields() {
			dst = appendIdentity(dst, f)
		}
	default:
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.Int()))
	}
	return dst
}
