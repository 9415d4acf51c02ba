package converters

import (
	"strings"
	"unicode/utf8"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

// SimpleHeader is Connect's SimpleHeaderConverter: headers as text, and text as
// what it looks like.
var SimpleHeader = Plugin{
	Info: plugin.Info{
		Name: "simple", Class: "org.apache.kafka.connect.storage.SimpleHeaderConverter", Version: schema.ConnectVersion,
		Doc: "Headers as text: numbers, booleans, dates, [lists] and {maps} are read back as such, all else as strings.",
	},
	NewHeader: func(config.Values) (HeaderConverter, error) { return simpleHeader{}, nil },
}

type simpleHeader struct{}

func (simpleHeader) EncodeHeader(dst []byte, _, _ string, _ *schema.Schema, v schema.Value) ([]byte, bool, error) {
	if v.IsNull() {
		return dst, true, nil
	}
	return AppendText(dst, v), false, nil
}

func (simpleHeader) DecodeHeader(_, _ string, data []byte) (*schema.Schema, schema.Value, error) {
	if data == nil {
		return nil, schema.Value{}, nil
	}
	s, v := ParseText(strings.ToValidUTF8(string(data), "\uFFFD"))
	return s, v, nil
}

// AppendText appends a value as Connect's Values.convertToString does: text as it
// is, bytes in base64, dates in ISO's form, lists, maps and structs in a form close
// to JSON.
func AppendText(dst []byte, v schema.Value) []byte { return appendText(dst, v, false) }

func appendText(dst []byte, v schema.Value, embedded bool) []byte {
	switch v.Kind() {
	case schema.String, schema.Bytes:
		if !embedded {
			return javatext.AppendValue(dst, v)
		}
		dst = append(dst, '"')
		if v.Kind() == schema.Bytes {
			dst = javatext.AppendValue(dst, v)
		} else {
			dst = appendEscaped(dst, v.StrBytes())
		}
		return append(dst, '"')
	case schema.Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(dst, e, true)
		}
		return append(dst, ']')
	case schema.Map:
		dst = append(dst, '{')
		for i, e := range v.Entries() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(append(appendText(dst, e.Key, true), ':'), e.Value, true)
		}
		return append(dst, '}')
	case schema.Struct:
		dst = append(dst, '{')
		for i, f := range v.Schema().Fields() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), f.Name...), '"', ':')
			dst = appendText(dst, v.At(i), true)
		}
		return append(dst, '}')
	case schema.Date, schema.Time, schema.Timestamp:
		return javatext.AppendDateByValue(dst, v)
	}
	return javatext.AppendScalar(dst, v)
}

func appendEscaped(dst, s []byte) []byte {
	for _, c := range s {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// ParseText makes data of what a text looks like, as Connect's Values.parseString
// does: true, false, null; the smallest integer that holds a whole number, FLOAT32
// or FLOAT64 else; dates, times and timestamps in the form in which AppendText
// writes them; [lists] and {maps}; and a string where it is none of these. Beyond
// Connect a text is taken whole or is a string ("12:34" is no 12), a day that does
// not exist is a string, and what AppendText escaped inside a list comes back as it
// was.
func ParseText(text string) (*schema.Schema, schema.Value) {
	if text == "" {
		return schema.StringSchema, schema.StringValue("")
	}
	p := textParser{text: text}
	if d, ok := p.value(false); ok && strings.TrimSpace(p.text[p.pos:]) == "" {
		return d.s, d.v
	}
	return schema.StringSchema, schema.StringValue(text)
}

// datum is a value under its schema.
type datum struct {
	s *schema.Schema
	v schema.Value
}

// A textParser reads one text. Delimiters are {}[],:" where no backslash precedes.
type textParser struct {
	text  string
	pos   int
	depth int
}

func (p *textParser) space() {
	for p.pos < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.pos:])
		if r > ' ' {
			return
		}
		p.pos += n
	}
}

func (p *textParser) take(c byte) bool {
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func isDelimiter(c byte) bool { return strings.IndexByte(`{}[],:"`, c) >= 0 }

// token is the text up to the next delimiter.
func (p *textParser) token() string {
	start := p.pos
	for p.pos < len(p.text) && !isDelimiter(p.text[p.pos]) {
		if p.text[p.pos] == '\\' && p.pos+1 < len(p.text) {
			p.pos++
		}
		p.pos++
	}
	return p.text[start:p.pos]
}

// maxTextDepth is how deep lists and maps in a text may nest; a deeper one is a string.
const maxTextDepth = 100

func (p *textParser) value(embedded bool) (datum, bool) {
	if p.depth++; p.depth > maxTextDepth {
		return datum{}, false
	}
	defer func() { p.depth-- }()
	switch {
	case embedded && p.take('"'):
		return p.quoted()
	case p.take('['):
		return p.list()
	case p.take('{'):
		return p.mapping()
	}
	start := p.pos
	word := strings.TrimSpace(p.token())
	switch word {
	case "":
		return datum{}, false
	case "null":
		return datum{}, true
	case "true":
		return datum{schema.BoolSchema, schema.BoolValue(true)}, true
	case "false":
		return datum{schema.BoolSchema, schema.BoolValue(false)}, true
	}
	if word[0] >= '0' && word[0] <= '9' {
		// A time's colons are delimiters, so it is looked for in what follows.
		end := p.pos
		if strings.Contains(word, `\:`) {
			if d, ok := temporal(strings.ReplaceAll(word, `\:`, ":")); ok {
				return d, true
			}
		}
		for _, size := range []int{24, 13, 10} {
			if len(p.text) < start+size {
				continue
			}
			if d, ok := temporal(p.text[start : start+size]); ok {
				if p.pos = start + size; strings.TrimSpace(p.token()) == "" {
					return d, true
				}
				p.pos = end
			}
		}
	}
	if word[0] == '-' || word[0] == '+' || word[0] >= '0' && word[0] <= '9' {
		return numberOf(word)
	}
	return datum{}, false
}

var (
	dateSchema      = schema.DateOf().Build()
	timeSchema      = schema.TimeOf().Build()
	timestampSchema = schema.TimestampOf().Build()
)

func temporal(s string) (datum, bool) {
	if ms, ok := javatext.ParseTimestamp(s); ok {
		return datum{timestampSchema, schema.TimestampValue(ms)}, true
	}
	if ms, ok := javatext.ParseTime(s); ok {
		return datum{timeSchema, schema.TimeValue(ms)}, true
	}
	if days, ok := javatext.ParseDate(s); ok {
		return datum{dateSchema, schema.DateValue(days)}, true
	}
	return datum{}, false
}

// numberOf is the number that a word is: the smallest integer, FLOAT32 and FLOAT64
// as far as they reach, else a decimal.
func numberOf(word string) (datum, bool) {
	d, err := schema.ParseDecimal(word)
	if err != nil {
		return datum{}, false
	}
	if whole, exact := d.Rescale(0); exact {
		if n, ok := whole.Unscaled64(); ok {
			switch {
			case n == int64(int8(n)):
				return datum{schema.Int8Schema, schema.Int8Value(int8(n))}, true
			case n == int64(int16(n)):
				return datum{schema.Int16Schema, schema.Int16Value(int16(n))}, true
			case n == int64(int32(n)):
				return datum{schema.Int32Schema, schema.Int32Value(int32(n))}, true
			}
			return datum{schema.Int64Schema, schema.Int64Value(n)}, true
		}
	}
	if d.Scale() != 0 {
		if f, ok := parseFloat(word, 32); ok {
			return datum{schema.Float32Schema, schema.Float32Value(float32(f))}, true
		}
		if f, ok := parseFloat(word, 64); ok {
			return datum{schema.Float64Schema, schema.Float64Value(f)}, true
		}
	}
	return datum{schema.DecimalOf(d.Scale()).Build(), d}, true
}

// quoted takes the rest of a string in quotes. Inside lists and maps dates and
// times stand in quotes or not.
func (p *textParser) quoted() (datum, bool) {
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		if c == '"' {
			if d, ok := temporal(b.String()); ok {
				return d, true
			}
			return datum{schema.StringSchema, schema.StringValue(b.String())}, true
		}
		if c == '\\' && p.pos < len(p.text) && (p.text[p.pos] == '"' || p.text[p.pos] == '\\') {
			c = p.text[p.pos]
			p.pos++
		}
		b.WriteByte(c)
	}
	return datum{}, false
}

func (p *textParser) list() (datum, bool) {
	var parts []datum
	for !p.take(']') {
		d, ok := p.value(true)
		if !ok {
			return datum{}, false
		}
		parts = append(parts, d)
		if p.space(); p.pos < len(p.text) && p.text[p.pos] != ']' && !p.take(',') {
			return datum{}, false
		}
		if p.pos >= len(p.text) {
			return datum{}, false
		}
	}
	s, ok := common(parts)
	if !ok {
		return datum{}, false
	}
	elems := make([]schema.Value, len(parts))
	for i, d := range parts {
		elems[i] = d.as(s)
	}
	return datum{schema.ArrayOf(s).Build(), schema.ArrayValue(elems)}, true
}

func (p *textParser) mapping() (datum, bool) {
	var keys, values []datum
	at := map[string]int{}
	for !p.take('}') {
		k, ok := p.value(true)
		if !ok || k.v.IsNull() || !p.take(':') {
			return datum{}, false
		}
		v, ok := p.value(true)
		if !ok {
			return datum{}, false
		}
		if p.take(','); p.pos >= len(p.text) {
			return datum{}, false
		}
		id := mapKeyText(k.v)
		if i, twice := at[id]; twice {
			values[i] = v
			continue
		}
		at[id] = len(keys)
		keys, values = append(keys, k), append(values, v)
	}
	ks, ok1 := common(keys)
	vs, ok2 := common(values)
	if !ok1 || !ok2 {
		return datum{}, false
	}
	entries := make([]schema.Entry, len(keys))
	for i := range keys {
		entries[i] = schema.Entry{Key: keys[i].as(ks), Value: values[i].as(vs)}
	}
	return datum{schema.MapOf(ks, vs).Build(), schema.MapValue(entries)}, true
}

// common is the schema that all parts fit, numbers being widened; nil where there
// is none. Nulls have no place beside parts of one schema: as in Connect such a
// text is a string then.
func common(parts []datum) (s *schema.Schema, ok bool) {
	nulls := false
	for _, d := range parts {
		if d.s == nil {
			nulls = true
			continue
		}
		if s = widest(s, d.s); s == nil {
			return nil, true // mixed
		}
	}
	return s, !nulls || s == nil
}

// widest is the schema that holds the values of both; a nil a holds nothing yet.
func widest(a, b *schema.Schema) *schema.Schema {
	switch {
	case a == nil || schema.Equal(a, b):
		return b
	case !plainNumber(a) || !plainNumber(b):
		return nil
	case a.Kind() > b.Kind():
		return a
	}
	return b
}

func plainNumber(s *schema.Schema) bool {
	return s.Name() == "" && s.Kind() >= schema.Int8 && s.Kind() <= schema.Float64
}

// as is the value under the common schema s.
func (d datum) as(s *schema.Schema) schema.Value {
	if s == nil || s == d.s || !plainNumber(s) {
		return d.v
	}
	f := float64(d.v.Int())
	if d.s.Kind() == schema.Float32 || d.s.Kind() == schema.Float64 {
		f = d.v.Float()
	}
	switch s.Kind() {
	case schema.Float32:
		return schema.Float32Value(float32(f))
	case schema.Float64:
		return schema.Float64Value(f)
	case schema.Int16:
		return schema.Int16Value(int16(d.v.Int()))
	case schema.Int32:
		return schema.Int32Value(int32(d.v.Int()))
	case schema.Int64:
		return schema.Int64Value(d.v.Int())
	}
	return d.v
}
