package postgres

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/javatext"
)

func decodeText(a *schema.Arena, b []byte) (schema.Value, error) { return a.String(b), nil }

// bytea decodes the hex format \x00ff10.
func bytea(m cdc.BinaryMode) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		digits, ok := bytes.CutPrefix(b, []byte(`\x`))
		if !ok || len(digits)%2 != 0 {
			return schema.Value{}, errors.New("is no bytea of the hex format")
		}
		if m == cdc.BinaryHex {
			return a.String(bytes.ToLower(digits)), nil
		}
		raw := a.Bytes(len(digits) / 2)
		if _, err := hex.Decode(raw, digits); err != nil {
			return schema.Value{}, errors.New("is no bytea of the hex format")
		}
		return m.Value(a, raw), nil
	}
}

// opaque is the text of a type that we do not know, as binary data.
func opaque(m cdc.BinaryMode) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) { return m.Value(a, a.Copy(b)), nil }
}

var errNullElement = lossError("holds a null, or a value that its element's schema cannot say, and the schema has no null there")

// array decodes the text of a one-dimensional array, {1,NULL,"a b"}. delim is the
// element type's delimiter; optional says whether elements may be null.
func array(elem decoder, delim byte, optional bool) decoder {
	delims := []byte{delim}
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		body := b
		if len(body) > 0 && body[0] == '[' { // bounds other than 1: [0:1]={…}
			eq := bytes.IndexByte(body, '=')
			if eq < 0 {
				return schema.Value{}, fmt.Errorf("%q is no array", clip(b))
			}
			body = body[eq+1:]
		}
		if len(body) < 2 || body[0] != '{' || body[len(body)-1] != '}' {
			return schema.Value{}, fmt.Errorf("%q is no array", clip(b))
		}
		body = body[1 : len(body)-1]
		if len(body) == 0 {
			return schema.ArrayValue(nil), nil
		}
		vals := make([]schema.Value, 0, 1+bytes.Count(body, delims))
		var scratch []byte
		for {
			var item []byte
			quoted := len(body) > 0 && body[0] == '"'
			if quoted {
				scratch = scratch[:0]
				i := 1
				for ; i < len(body) && body[i] != '"'; i++ {
					if body[i] == '\\' {
						i++
					}
					if i < len(body) {
						scratch = append(scratch, body[i])
					}
				}
				if i >= len(body) {
					return schema.Value{}, fmt.Errorf("%q is no array: a quote is open", clip(b))
				}
				item, body = scratch, body[i+1:]
			} else {
				i := bytes.IndexByte(body, delim)
				if i < 0 {
					i = len(body)
				}
				item, body = body[:i], body[i:]
				if len(item) > 0 && item[0] == '{' {
					return schema.Value{}, errors.New("is an array of more than one dimension, which has no place in the model; leave the column out with column.exclude.list")
				}
			}
			if !quoted && string(item) == "NULL" {
				vals = append(vals, schema.Value{})
			} else {
				v, err := elem(a, item)
				if err != nil && !lost(err) {
					return schema.Value{}, fmt.Errorf("element %d: %w", len(vals), err)
				}
				if err != nil {
					v = schema.Value{}
				}
				vals = append(vals, v)
			}
			if !optional && vals[len(vals)-1].IsNull() {
				return schema.Value{}, errNullElement
			}
			if len(body) == 0 {
				return schema.ArrayValue(vals), nil
			}
			if body[0] != delim {
				return schema.Value{}, fmt.Errorf("%q is no array", clip(b))
			}
			body = body[1:]
		}
	}
}

// spaced decodes numbers between spaces, as int2vector and oidvector are printed.
func spaced(elem decoder) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		words := bytes.Fields(b)
		vals := a.Values(len(words))
		for i, w := range words {
			v, err := elem(a, w)
			if err != nil {
				return schema.Value{}, err
			}
			vals[i] = v
		}
		return schema.ArrayValue(vals), nil
	}
}

// A pair is one entry of an hstore.
type pair struct {
	key   string
	value string
	null  bool
}

// parseHstore reads "a"=>"1", "n"=>NULL.
func parseHstore(b []byte) ([]pair, error) {
	whole := b
	var out []pair
	word := func() (s string, quoted, ok bool) {
		if len(b) == 0 || b[0] != '"' {
			i := 0
			for i < len(b) && b[i] != ',' && b[i] != ' ' {
				i++
			}
			s, b = string(b[:i]), b[i:]
			return s, false, s != ""
		}
		var w []byte
		for i := 1; i < len(b); i++ {
			switch b[i] {
			case '\\':
				if i++; i < len(b) {
					w = append(w, b[i])
				}
			case '"':
				b = b[i+1:]
				return string(w), true, true
			default:
				w = append(w, b[i])
			}
		}
		return "", true, false
	}
	for b = bytes.TrimLeft(b, " "); len(b) > 0; b = bytes.TrimLeft(b, ", ") {
		key, _, ok := word()
		if !ok || !bytes.HasPrefix(b, []byte("=>")) {
			return nil, fmt.Errorf("%q is no hstore", clip(whole))
		}
		b = b[2:]
		value, quoted, ok := word()
		if !ok {
			return nil, fmt.Errorf("%q is no hstore", clip(whole))
		}
		out = append(out, pair{key, value, !quoted && value == "NULL"})
	}
	// Debezium holds an hstore in a HashMap, and its order shows in the JSON.
	return javatext.HashOrder(out, func(p pair) string { return p.key }), nil
}

// hstoreJSON is hstore.handling.mode=json.
func hstoreJSON(a *schema.Arena, b []byte) (schema.Value, error) {
	pairs, err := parseHstore(b)
	if err != nil {
		return schema.Value{}, err
	}
	out := []byte{'{'}
	for i, p := range pairs {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(javatext.AppendJSON(out, p.key), ':')
		if p.null {
			out = append(out, "null"...)
		} else {
			out = javatext.AppendJSON(out, p.value)
		}
	}
	return a.String(append(out, '}')), nil
}

// hstoreMap is hstore.handling.mode=map.
func hstoreMap(_ *schema.Arena, b []byte) (schema.Value, error) {
	pairs, err := parseHstore(b)
	if err != nil {
		return schema.Value{}, err
	}
	entries := make([]schema.Entry, len(pairs))
	for i, p := range pairs {
		entries[i].Key = schema.StringValue(p.key)
		if !p.null {
			entries[i].Value = schema.StringValue(p.value)
		}
	}
	return schema.MapValue(entries), nil
}
