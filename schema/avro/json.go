package avro

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"millrace/schema/javatext"
)

// JSONKind says what a JSON value is.
type JSONKind uint8

// The kinds of JSON. Numbers are told apart as Jackson does: whole ones, and those with a point or an exponent.
const (
	JSONNull JSONKind = iota
	JSONBool
	JSONInt
	JSONFloat
	JSONString
	JSONArray
	JSONObject
)

// JSON is a value of JSON: a default, a property. It is immutable. Objects keep their order; of a name that occurs
// twice the last value counts, in the place of the first.
type JSON struct {
	Kind JSONKind
	text string   // a string; a whole number's digits
	num  float64  // a float; 1 for true
	keys []string // of an object
	kids []*JSON  // of an array or object
}

const maxDigits = 1000 // of one number, as in Jackson

// Str is a string's text, "" for others.
func (j *JSON) Str() string {
	if j == nil || j.Kind != JSONString {
		return ""
	}
	return j.text
}

// IsString reports whether j is a string; a nil j is nothing.
func (j *JSON) IsString() bool { return j != nil && j.Kind == JSONString }

// Bool is a boolean's value.
func (j *JSON) Bool() bool { return j != nil && j.Kind == JSONBool && j.num != 0 }

// Int is a whole number's value, and whether it is one that fits 64 bits.
func (j *JSON) Int() (int64, bool) {
	if j == nil || j.Kind != JSONInt {
		return 0, false
	}
	n, err := strconv.ParseInt(j.text, 10, 64)
	return n, err == nil
}

// Float is a number's value.
func (j *JSON) Float() float64 {
	switch {
	case j == nil:
		return 0
	case j.Kind == JSONFloat:
		return j.num
	case j.Kind == JSONInt:
		f, _ := strconv.ParseFloat(j.text, 64)
		return f
	}
	return 0
}

// Big is a whole number's value.
func (j *JSON) Big() *big.Int {
	x := new(big.Int)
	if j != nil && j.Kind == JSONInt {
		x.SetString(j.text, 10)
	}
	return x
}

// Items are the elements of an array. The slice must not be changed.
func (j *JSON) Items() []*JSON {
	if j == nil || j.Kind != JSONArray {
		return nil
	}
	return j.kids
}

// Names are the names of an object, in order. The slice must not be changed.
func (j *JSON) Names() []string {
	if j == nil {
		return nil
	}
	return j.keys
}

// At is the value of the i-th name of an object.
func (j *JSON) At(i int) *JSON { return j.kids[i] }

// Get is the value of a name of an object, or nil.
func (j *JSON) Get(name string) *JSON {
	if j == nil || j.Kind != JSONObject {
		return nil
	}
	for i, k := range j.keys {
		if k == name {
			return j.kids[i]
		}
	}
	return nil
}

// The makers of values.
var (
	NullJSON  = &JSON{Kind: JSONNull}
	trueJSON  = &JSON{Kind: JSONBool, num: 1}
	falseJSON = &JSON{Kind: JSONBool}
)

// BoolJSON makes a boolean.
func BoolJSON(b bool) *JSON {
	if b {
		return trueJSON
	}
	return falseJSON
}

// StringJSON makes a string.
func StringJSON(s string) *JSON { return &JSON{Kind: JSONString, text: s} }

// IntJSON makes a whole number.
func IntJSON(n int64) *JSON { return &JSON{Kind: JSONInt, text: strconv.FormatInt(n, 10)} }

// FloatJSON makes a number with a point.
func FloatJSON(f float64) *JSON { return &JSON{Kind: JSONFloat, num: f} }

// Float32JSON makes a number of single precision, which is printed with fewer digits.
func Float32JSON(f float32) *JSON { return &JSON{Kind: JSONFloat, num: float64(f), text: "f"} }

// ArrayJSON makes an array that shares items.
func ArrayJSON(items ...*JSON) *JSON { return &JSON{Kind: JSONArray, kids: items} }

// ObjectJSON makes an object that shares both slices; the names differ.
func ObjectJSON(names []string, values []*JSON) *JSON {
	return &JSON{Kind: JSONObject, keys: names, kids: values}
}

// equalJSON is Jackson's JsonNode.equals: numbers of different kinds differ, an object's order does not count.
func equalJSON(a, b *JSON) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.Kind != b.Kind || len(a.kids) != len(b.kids) {
		return false
	}
	switch a.Kind {
	case JSONNull:
		return true
	case JSONBool, JSONFloat:
		return a.num == b.num || a.num != a.num && b.num != b.num
	case JSONInt, JSONString:
		return a.text == b.text
	case JSONArray:
		for i := range a.kids {
			if !equalJSON(a.kids[i], b.kids[i]) {
				return false
			}
		}
		return true
	}
	at := make(map[string]*JSON, len(b.keys))
	for i, k := range b.keys {
		at[k] = b.kids[i]
	}
	for i, k := range a.keys {
		if o, ok := at[k]; !ok || !equalJSON(a.kids[i], o) {
			return false
		}
	}
	return true
}

// Append appends the value as Jackson writes it, without white space.
func (j *JSON) Append(dst []byte) []byte {
	switch j.Kind {
	case JSONNull:
		return append(dst, "null"...)
	case JSONBool:
		return strconv.AppendBool(dst, j.num != 0)
	case JSONInt:
		return append(dst, j.text...)
	case JSONFloat:
		switch {
		case math.IsNaN(j.num) || math.IsInf(j.num, 0):
			return append(javatext.AppendDouble(append(dst, '"'), j.num), '"')
		case j.text == "f":
			return javatext.AppendFloat(dst, float32(j.num))
		}
		return javatext.AppendDouble(dst, j.num)
	case JSONString:
		return javatext.AppendJSON(dst, j.text)
	case JSONArray:
		dst = append(dst, '[')
		for i, k := range j.kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = k.Append(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, k := range j.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(javatext.AppendJSON(dst, j.keys[i]), ':')
		dst = k.Append(dst)
	}
	return append(dst, '}')
}

// String is the value's text.
func (j *JSON) String() string { return string(j.Append(nil)) }

// parser reads one JSON text.
type parser struct {
	text       string
	depthLimit int // of arrays and objects within each other
	partsLimit int // of values of all depths
	pos        int
	parts      int
	depth      int
}

// document reads the whole text, in which comments may stand as in Java's and C's, though not behind its end.
func (p *parser) document() (*JSON, error) {
	j, err := p.value()
	if err != nil {
		return nil, err
	}
	for p.pos < len(p.text) && p.text[p.pos] <= ' ' {
		p.pos++
	}
	if p.pos < len(p.text) {
		return nil, p.fail("dangling content behind the end of the schema")
	}
	return j, nil
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", p.pos, fmt.Sprintf(format, args...))
}

func (p *parser) seen() string {
	if p.pos >= len(p.text) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return strconv.QuoteRune(r)
}

// space takes white space and comments.
func (p *parser) space() error {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.pos++
		case c == '/' && p.pos+1 < len(p.text) && p.text[p.pos+1] == '/':
			for p.pos < len(p.text) && p.text[p.pos] != '\n' && p.text[p.pos] != '\r' {
				p.pos++
			}
		case c == '/' && p.pos+1 < len(p.text) && p.text[p.pos+1] == '*':
			end := p.pos + 2
			for ; end+1 < len(p.text) && p.text[end:end+2] != "*/"; end++ {
			}
			if end+1 >= len(p.text) {
				return p.fail("a comment without an end")
			}
			p.pos = end + 2
		default:
			return nil
		}
	}
	return nil
}

func (p *parser) value() (*JSON, error) {
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.parts++; p.parts > p.partsLimit {
		return nil, p.fail("too many values: a schema and what it refers to may have fewer")
	}
	if p.pos >= len(p.text) {
		return nil, p.fail("the end where a value should stand")
	}
	switch c := p.text[p.pos]; {
	case c == '{':
		return p.object()
	case c == '[':
		return p.array()
	case c == '"':
		s, err := p.str()
		if err != nil {
			return nil, err
		}
		return &JSON{Kind: JSONString, text: s}, nil
	case c == 't':
		return trueJSON, p.word("true")
	case c == 'f':
		return falseJSON, p.word("false")
	case c == 'n':
		return NullJSON, p.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return nil, p.fail("%s where a value should stand", p.seen())
}

func (p *parser) word(w string) error {
	if len(p.text)-p.pos < len(w) || p.text[p.pos:p.pos+len(w)] != w {
		return p.fail("an unknown word")
	}
	p.pos += len(w)
	if p.pos < len(p.text) {
		if c := p.text[p.pos]; c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return p.fail("an unknown word")
		}
	}
	return nil
}

func (p *parser) enter() error {
	p.pos++
	if p.depth++; p.depth > p.depthLimit {
		return p.fail("nested deeper than %d", p.depthLimit)
	}
	return nil
}

// next takes the comma before the next part, or the end.
func (p *parser) next(end byte, first bool) (more bool, err error) {
	if err := p.space(); err != nil {
		return false, err
	}
	switch {
	case p.pos < len(p.text) && p.text[p.pos] == end:
		p.pos++
		p.depth--
		return false, nil
	case first:
		return true, nil
	case p.pos < len(p.text) && p.text[p.pos] == ',':
		p.pos++
		return true, nil
	}
	return false, p.fail("%s where a comma or %q should stand", p.seen(), string(end))
}

func (p *parser) array() (*JSON, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	j := &JSON{Kind: JSONArray}
	for {
		more, err := p.next(']', len(j.kids) == 0)
		if err != nil {
			return nil, err
		}
		if !more {
			return j, nil
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		j.kids = append(j.kids, v)
	}
}

// manyNames is the number of names from which on an object being read keeps a map of them.
const manyNames = 16

func (p *parser) object() (*JSON, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	j := &JSON{Kind: JSONObject}
	var at map[string]int
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return nil, err
		}
		if !more {
			return j, nil
		}
		if err := p.space(); err != nil {
			return nil, err
		}
		if p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return nil, p.fail("%s where a name in quotes should stand", p.seen())
		}
		name, err := p.str()
		if err != nil {
			return nil, err
		}
		if err := p.space(); err != nil {
			return nil, err
		}
		if p.pos >= len(p.text) || p.text[p.pos] != ':' {
			return nil, p.fail("%s where a colon should stand", p.seen())
		}
		p.pos++
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		i := -1
		if at != nil {
			if k, ok := at[name]; ok {
				i = k
			}
		} else {
			for k := range j.keys {
				if j.keys[k] == name {
					i = k
				}
			}
		}
		if i >= 0 {
			j.kids[i] = v
			continue
		}
		j.keys, j.kids = append(j.keys, name), append(j.kids, v)
		switch {
		case at != nil:
			at[name] = len(j.keys) - 1
		case len(j.keys) == manyNames:
			at = make(map[string]int, 2*manyNames)
			for k, n := range j.keys {
				at[n] = k
			}
		}
	}
}

// str takes a string; the position is at its quote.
func (p *parser) str() (string, error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '"':
			s := p.text[start:p.pos]
			p.pos++
			if !utf8.ValidString(s) {
				return "", p.fail("a string that is no UTF-8")
			}
			return s, nil
		case c == '\\':
			return p.unescape(start)
		case c < 0x20:
			return "", p.fail("a control character (%#02x) inside a string", c)
		}
		p.pos++
	}
	return "", p.fail("the end inside a string")
}

func (p *parser) unescape(start int) (string, error) {
	out := append(make([]byte, 0, p.pos-start+32), p.text[start:p.pos]...)
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '"':
			p.pos++
			if !utf8.Valid(out) {
				return "", p.fail("a string that is no UTF-8")
			}
			return string(out), nil
		case c < 0x20:
			return "", p.fail("a control character (%#02x) inside a string", c)
		case c != '\\':
			out = append(out, c)
			p.pos++
			continue
		}
		if p.pos+1 >= len(p.text) {
			break
		}
		p.pos++
		switch c := p.text[p.pos]; c {
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
				return "", err
			}
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if p.pos+6 < len(p.text) && p.text[p.pos+1:p.pos+3] == `\u` {
					back := p.pos
					p.pos += 2
					if low, err = p.hex(); err != nil {
						return "", err
					}
					if utf16.DecodeRune(r, low) == utf8.RuneError {
						p.pos = back // half a pair, and whatever follows it is read on its own
					}
				}
				r = utf16.DecodeRune(r, low) // half a pair has no UTF-8: U+FFFD
			}
			out = utf8.AppendRune(out, r)
		default:
			return "", p.fail("an unknown escape in a string")
		}
		p.pos++
	}
	return "", p.fail("the end inside a string")
}

// hex takes the four digits behind the u at the position and stops on the last.
func (p *parser) hex() (rune, error) {
	if p.pos+4 >= len(p.text) {
		return 0, p.fail("the end inside a string")
	}
	n, err := strconv.ParseUint(p.text[p.pos+1:p.pos+5], 16, 16)
	if err != nil {
		return 0, p.fail(`no four hexadecimal digits behind \u`)
	}
	p.pos += 4
	return rune(n), nil
}

func (p *parser) number() (*JSON, error) {
	start, t := p.pos, p.text
	i := p.pos
	digits := func() int {
		n := i
		for i < len(t) && t[i] >= '0' && t[i] <= '9' {
			i++
		}
		return i - n
	}
	bad := func() (*JSON, error) { p.pos = i; return nil, p.fail("%s where a digit should stand", p.seen()) }
	if t[i] == '-' {
		i++
	}
	first := i
	switch n := digits(); {
	case n == 0:
		return bad()
	case n > 1 && t[first] == '0':
		return nil, p.fail("a number with leading zeros")
	}
	whole := true
	if i < len(t) && t[i] == '.' {
		i++
		whole = false
		if digits() == 0 {
			return bad()
		}
	}
	if i < len(t) && t[i]|0x20 == 'e' {
		i++
		whole = false
		if i < len(t) && (t[i] == '+' || t[i] == '-') {
			i++
		}
		if digits() == 0 {
			return bad()
		}
	}
	if i-start > maxDigits {
		return nil, p.fail("a number of more than %d characters", maxDigits)
	}
	p.pos = i
	text := t[start:i]
	if whole {
		if text == "-0" {
			text = "0"
		}
		return &JSON{Kind: JSONInt, text: text}, nil
	}
	f, _ := strconv.ParseFloat(text, 64) // out of range is infinite, as in Java
	return &JSON{Kind: JSONFloat, num: f}, nil
}
