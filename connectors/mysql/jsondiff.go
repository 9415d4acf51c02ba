package mysql

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"millrace/schema"
	"millrace/schema/javatext"
)

// With binlog_row_value_options=PARTIAL_JSON, an update's new row may hold what changed in
// a document instead of the document: a list of an operation, a path and, but for a
// removal, a value (json_diff.h). It is applied to the document of the old row.

// A jsonNode is a document, or a part of one.
type jsonNode struct {
	kind  byte // '{', '[', or 0: neither
	keys  [][]byte
	parts []*jsonNode
	text  []byte // of what is neither
}

const (
	jsonReplace = 0
	jsonInsert  = 1
	jsonRemove  = 2
)

var errJSONDiff = errors.New("holds a change of JSON that does not fit its old document")

func parseJSONNode(kind byte, b []byte, depth int) (*jsonNode, error) {
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
	default:
		text, err := appendJSONValue(nil, kind, b, depth)
		return &jsonNode{text: text}, err
	}
	if depth == 0 {
		return nil, errJSON
	}
	n := &jsonNode{kind: '['}
	if kind == jsonSmallObject || kind == jsonLargeObject {
		n.kind = '{'
	}
	err := jsonEach(kind, b, func(key []byte, t byte, value []byte) error {
		part, err := parseJSONNode(t, value, depth-1)
		if n.kind == '{' {
			n.keys = append(n.keys, key)
		}
		n.parts = append(n.parts, part)
		return err
	})
	return n, err
}

func (n *jsonNode) append(dst []byte) []byte {
	if n.kind == 0 {
		return append(dst, n.text...)
	}
	dst = append(dst, n.kind)
	for i, p := range n.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == '{' {
			dst = append(javatext.AppendJSONSmall(dst, n.keys[i]), ':')
		}
		dst = p.append(dst)
	}
	return append(dst, n.kind+2) // ] and } stand two behind [ and {
}

// A jsonLeg is a step of a path: a member's name, or an array's cell.
type jsonLeg struct {
	member bool
	key    []byte
	cell   int
}

// parseJSONPath reads $.name, $."a name"[3] and so on.
func parseJSONPath(b []byte) ([]jsonLeg, error) {
	wrong := fmt.Errorf("%w: the path %q", errJSONDiff, b)
	rest, ok := bytes.CutPrefix(b, []byte("$"))
	if !ok {
		return nil, wrong
	}
	var legs []jsonLeg
	for len(rest) > 0 {
		switch {
		case rest[0] == '[':
			end := bytes.IndexByte(rest, ']')
			if end < 0 {
				return nil, wrong
			}
			n, err := strconv.Atoi(string(rest[1:end]))
			if err != nil || n < 0 {
				return nil, wrong
			}
			legs = append(legs, jsonLeg{cell: n})
			rest = rest[end+1:]
		case rest[0] == '.' && len(rest) > 1 && rest[1] == '"':
			end := 2
			for end < len(rest) && rest[end] != '"' {
				if rest[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(rest) {
				return nil, wrong
			}
			key, ok := unescapeJSON(rest[2:end])
			if !ok {
				return nil, wrong
			}
			legs = append(legs, jsonLeg{member: true, key: key})
			rest = rest[end+1:]
		case rest[0] == '.':
			end := 1
			for end < len(rest) && rest[end] != '.' && rest[end] != '[' {
				end++
			}
			if end == 1 {
				return nil, wrong
			}
			legs = append(legs, jsonLeg{member: true, key: rest[1:end]})
			rest = rest[end:]
		default:
			return nil, wrong
		}
	}
	return legs, nil
}

// unescapeJSON undoes the escapes that javatext.AppendJSONSmall makes.
func unescapeJSON(b []byte) ([]byte, bool) {
	if bytes.IndexByte(b, '\\') < 0 {
		return b, true
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		if i++; i == len(b) {
			return nil, false
		}
		switch c := b[i]; c {
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
			if i+4 >= len(b) {
				return nil, false
			}
			n, err := strconv.ParseUint(string(b[i+1:i+5]), 16, 8) // control characters alone are escaped so
			if err != nil {
				return nil, false
			}
			out, i = append(out, byte(n)), i+4
		default:
			out = append(out, c)
		}
	}
	return out, true
}

// find is the place of a member; where it is missing, the one where it would stand: the
// server orders members by the length of their names, then by their bytes.
func (n *jsonNode) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(n.keys, key, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) })
}

// applyJSONDiffs changes a document as a list of changes says. doc and diffs are binary.
func applyJSONDiffs(dst, doc, diffs []byte) ([]byte, error) {
	if len(doc) == 0 {
		return nil, errJSONDiff
	}
	root, err := parseJSONNode(doc[0], doc[1:], jsonDepth)
	if err != nil {
		return nil, err
	}
	c := cursor{b: diffs}
	for len(c.b) > 0 {
		op := c.u8()
		path := c.text()
		var value *jsonNode
		if op != jsonRemove {
			raw := c.text()
			if c.bad || len(raw) == 0 {
				return nil, errJSONDiff
			}
			if value, err = parseJSONNode(raw[0], raw[1:], jsonDepth); err != nil {
				return nil, err
			}
		}
		if c.bad || op > jsonRemove {
			return nil, errJSONDiff
		}
		legs, err := parseJSONPath(path)
		if err != nil {
			return nil, err
		}
		if err := root.change(op, legs, value); err != nil {
			return nil, fmt.Errorf("%w at the path %q", err, path)
		}
	}
	return root.append(dst), nil
}

// change applies one operation below a node.
func (n *jsonNode) change(op byte, legs []jsonLeg, value *jsonNode) error {
	if len(legs) == 0 {
		if op != jsonReplace {
			return errJSONDiff
		}
		*n = *value
		return nil
	}
	leg := legs[0]
	at, there := 0, false
	switch {
	case leg.member && n.kind == '{':
		at, there = n.find(leg.key)
	case !leg.member && n.kind == '[':
		at, there = min(leg.cell, len(n.parts)), leg.cell < len(n.parts)
	case !leg.member && leg.cell == 0: // what is no array is the only cell of one
		return n.change(op, legs[1:], value)
	default:
		return errJSONDiff
	}
	switch {
	case len(legs) > 1 && there:
		return n.parts[at].change(op, legs[1:], value)
	case len(legs) > 1:
		return errJSONDiff
	case op == jsonInsert && leg.member && there:
		return errJSONDiff
	case op == jsonInsert:
		if leg.member {
			n.keys = slices.Insert(n.keys, at, leg.key)
		}
		n.parts = slices.Insert(n.parts, at, value)
	case !there:
		return errJSONDiff
	case op == jsonRemove:
		if leg.member {
			n.keys = slices.Delete(n.keys, at, at+1)
		}
		n.parts = slices.Delete(n.parts, at, at+1)
	default:
		n.parts[at] = value
	}
	return nil
}

// A partialRow is what an update's new row may hold of documents: which of them come as
// changes, and the old ones.
type partialRow struct {
	bits []byte   // one for each JSON column of the table
	old  [][]byte // binary, by column; nil: not in the old row, or null
}

// json decodes a document that is column i's, number n among those of JSON.
func (p *partialRow) json(a *schema.Arena, c *cursor, i, n int) (v schema.Value, partial bool, err error) {
	if p == nil || p.bits == nil || n/8 >= len(p.bits) || p.bits[n/8]&(1<<(n%8)) == 0 {
		return schema.Value{}, false, nil
	}
	diffs := c.take(int(c.u32()))
	if c.bad {
		return schema.Value{}, true, nil
	}
	if p.old[i] == nil {
		return schema.Value{}, true, errJSONDiff
	}
	out, err := applyJSONDiffs(a.Bytes(len(p.old[i]))[:0], p.old[i], diffs)
	if err != nil {
		return schema.Value{}, true, err
	}
	return schema.StringOfBytes(out), true, nil
}
