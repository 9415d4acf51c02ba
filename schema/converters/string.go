package converters

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

var encodingKey = config.Key[string]{
	Name: "converter.encoding", Default: "UTF-8", Importance: config.High, Width: config.MediumW, Display: "Encoding",
	Doc: "Character set of the text: UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16BE or UTF-16LE.",
	Check: func(name string) error {
		if _, ok := charsets[strings.ToUpper(name)]; !ok {
			return fmt.Errorf("an unknown character set; known are UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16BE, UTF-16LE")
		}
		return nil
	},
}

// String is Connect's StringConverter.
var String = Plugin{
	Info: plugin.Info{
		Name: "string", Class: "org.apache.kafka.connect.storage.StringConverter", Version: schema.ConnectVersion,
		Doc:    "Text. What is no string is written as Java's toString prints it; what is read is an optional string.",
		Config: config.Define(encodingKey, converterType),
	},
	New:       func(v config.Values, _ bool) (Converter, error) { return newString(v), nil },
	NewHeader: func(v config.Values) (HeaderConverter, error) { return headers{newString(v)}, nil },
}

type charset int

const (
	utf8Set charset = iota
	asciiSet
	latin1Set
	utf16Set
	utf16BE
	utf16LE
)

var charsets = map[string]charset{
	"UTF-8": utf8Set, "UTF8": utf8Set, "US-ASCII": asciiSet, "ASCII": asciiSet, "ISO-8859-1": latin1Set, "ISO8859_1": latin1Set,
	"LATIN1": latin1Set, "UTF-16": utf16Set, "UTF16": utf16Set, "UTF-16BE": utf16BE, "UTF-16LE": utf16LE,
}

type stringConverter struct{ set charset }

func newString(v config.Values) *stringConverter {
	return &stringConverter{charsets[strings.ToUpper(encodingKey.Get(v))]}
}

func (c *stringConverter) Encode(dst []byte, _ *Message, _ *schema.Schema, v schema.Value) ([]byte, bool, error) {
	if v.IsNull() {
		return dst, true, nil
	}
	if c.set == utf8Set {
		return javatext.AppendValue(dst, v), false, nil
	}
	return c.set.appendText(dst, string(javatext.AppendValue(nil, v))), false, nil
}

func (c *stringConverter) Decode(_ *Message, data []byte) (*schema.Schema, schema.Value, error) {
	if data == nil {
		return schema.OptionalString, schema.Value{}, nil
	}
	if c.set == utf8Set && utf8.Valid(data) {
		return schema.OptionalString, schema.StringOfBytes(data), nil
	}
	return schema.OptionalString, schema.StringValue(c.set.text(data)), nil
}

// appendText appends s in the set; what it cannot say is a question mark, as in Java.
func (set charset) appendText(dst []byte, s string) []byte {
	if set == utf16Set {
		dst = append(dst, 0xFE, 0xFF)
	}
	for _, r := range s {
		switch {
		case set == asciiSet || set == latin1Set:
			if r > 0xFF || r > 0x7F && set == asciiSet {
				r = '?'
			}
			dst = append(dst, byte(r))
		default:
			for _, u := range utf16.AppendRune(nil, r) {
				if set == utf16LE {
					dst = append(dst, byte(u), byte(u>>8))
				} else {
					dst = append(dst, byte(u>>8), byte(u))
				}
			}
		}
	}
	return dst
}

// text reads data in the set; what is none becomes U+FFFD, as in Java.
func (set charset) text(data []byte) string {
	switch set {
	case utf8Set:
		return strings.ToValidUTF8(string(data), "\uFFFD")
	case asciiSet, latin1Set:
		out := make([]byte, 0, len(data))
		for _, b := range data {
			r := rune(b)
			if b > 0x7F && set == asciiSet {
				r = utf8.RuneError
			}
			out = utf8.AppendRune(out, r)
		}
		return string(out)
	}
	little := set == utf16LE
	if set == utf16Set && len(data) >= 2 {
		switch {
		case data[0] == 0xFE && data[1] == 0xFF:
			data = data[2:]
		case data[0] == 0xFF && data[1] == 0xFE:
			data, little = data[2:], true
		}
	}
	units := make([]uint16, 0, len(data)/2+1)
	for len(data) >= 2 {
		u := uint16(data[0])<<8 | uint16(data[1])
		if little {
			u = u<<8 | u>>8
		}
		units, data = append(units, u), data[2:]
	}
	if len(data) == 1 {
		units = append(units, utf8.RuneError)
	}
	return string(utf16.Decode(units))
}

// headers makes a header converter of one that needs neither headers nor topic.
type headers struct{ Converter }

func (h headers) EncodeHeader(dst []byte, topic, _ string, s *schema.Schema, v schema.Value) ([]byte, bool, error) {
	return h.Encode(dst, &Message{Topic: topic}, s, v)
}

func (h headers) DecodeHeader(topic, _ string, data []byte) (*schema.Schema, schema.Value, error) {
	return h.Decode(&Message{Topic: topic}, data)
}
