package avro

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/schema/registry"
)

// The kinds of incompatibilities, in Avro's spelling.
const (
	nameMismatch  = "NAME_MISMATCH"
	sizeMismatch  = "FIXED_SIZE_MISMATCH"
	missingEnum   = "MISSING_ENUM_SYMBOLS"
	missingField  = "READER_FIELD_MISSING_DEFAULT_VALUE"
	typeMismatch  = "TYPE_MISMATCH"
	missingBranch = "MISSING_UNION_BRANCH"
)

// Bounds of one comparison.
const (
	maxPairs   = 300_000 // of types looked at together
	maxReasons = 1000    // given in an answer
)

// Reads judges whether data written with w can be read with r, as SchemaCompatibility of Avro's Java library does, down to the order
// of its reasons and to the place that it names for a pair of types met a second time. descriptions call the two sides reader and
// writer.
func Reads(r, w *Type, reader, writer string) []registry.Incompatibility {
	c := &comparison{known: map[typePair]*reasons{}}
	found := c.pair(path{}, r, w)
	var all []registry.Incompatibility
	switch {
	case c.ambiguous != "":
		return []registry.Incompatibility{{Description: "Unexpected exception during compatibility check: " + c.ambiguous}}
	case c.pairs > maxPairs:
		return []registry.Incompatibility{{Description: fmt.Sprintf("The schemas are too large to be compared: more than %d pairs of types have to be looked at", maxPairs)}}
	}
	found.collect(func(one *reason) bool {
		if len(all) == maxReasons {
			all = append(all, registry.Incompatibility{Description: fmt.Sprintf("… and more; the first %d reasons are given", maxReasons)})
			return false
		}
		all = append(all, one.describe(reader, writer))
		return true
	})
	return all
}

// A reason is one incompatibility.
type reason struct {
	kind string
	at   *path
	info string
}

func (i *reason) describe(reader, writer string) registry.Incompatibility {
	at := i.at.String()
	d := ""
	switch i.kind {
	case sizeMismatch:
		d = fmt.Sprintf("The size of FIXED type field at path '%s' in the %s schema does not match with the %s schema", at, reader, writer)
	case typeMismatch:
		d = fmt.Sprintf("The type (path '%s') of a field in the %s schema does not match with the %s schema", at, reader, writer)
	case nameMismatch:
		d = fmt.Sprintf("The name of the schema has changed (path '%s')", at)
	case missingEnum:
		d = fmt.Sprintf("The %s schema is missing enum symbols '%s' at path '%s' in the %s schema", reader, i.info, at, writer)
	case missingBranch:
		d = fmt.Sprintf("The %s schema is missing a type inside a union field at path '%s' in the %s schema", reader, at, writer)
	case missingField:
		d = fmt.Sprintf("The field '%s' at path '%s' in the %s schema has no default value and is missing in the %s schema", i.info, at, reader, writer)
	}
	return registry.Incompatibility{Kind: i.kind, Path: at, Description: d, Info: i.info}
}

// reasons are what was found for a pair: its own and those of its parts, which other pairs may share. Nil is compatible.
type reasons struct {
	one   *reason
	parts []*reasons
}

// collect calls take for all, in order, until it has had enough. Shared parts come again, as in Java's lists.
func (r *reasons) collect(take func(*reason) bool) bool {
	if r == nil {
		return true
	}
	if r.one != nil && !take(r.one) {
		return false
	}
	for _, p := range r.parts {
		if !p.collect(take) {
			return false
		}
	}
	return true
}

// merge adds what a part found.
func (r *reasons) merge(part *reasons) *reasons {
	switch {
	case part == nil:
		return r
	case r == nil:
		return &reasons{parts: []*reasons{part}}
	case r.one != nil:
		return &reasons{parts: []*reasons{r, part}}
	}
	r.parts = append(r.parts, part)
	return r
}

// path is a place in the reader; steps nest like the calls.
type path struct {
	up   *path
	step string
}

func (p *path) down(step string) *path { return &path{p, step} }

// String is the place as a JSON pointer. No step needs escaping.
func (p *path) String() string {
	var steps []string
	for ; p.up != nil; p = p.up {
		steps = append(steps, p.step)
	}
	slices.Reverse(steps)
	return "/" + strings.Join(steps, "/")
}

type comparison struct {
	known     map[typePair]*reasons
	pairs     int
	ambiguous string // a field whose names match more than one of the writer's
}

func (c *comparison) stopped() bool { return c.pairs > maxPairs || c.ambiguous != "" }

// inProgress stands for a pair that is being compared: it counts as compatible until it is known better.
var inProgress *reasons

// pair compares two types. The result for a pair is kept with the places in it, and pairs without a name on either side are met only
// where their owners are, so they need not be kept.
func (c *comparison) pair(at path, r, w *Type) *reasons {
	if c.pairs++; c.stopped() {
		return nil
	}
	if !r.Kind.Named() && !w.Kind.Named() {
		return c.compare(&at, r, w)
	}
	pair := typePair{r, w}
	if found, ok := c.known[pair]; ok {
		return found
	}
	c.known[pair] = inProgress
	found := c.compare(&at, r, w)
	c.known[pair] = found
	return found
}

func found(kind string, at *path, info string) *reasons {
	return &reasons{one: &reason{kind, at, info}}
}

func upper(k Kind) string { return strings.ToUpper(k.String()) }

func (c *comparison) compare(at *path, r, w *Type) (res *reasons) {
	if r.Kind == w.Kind {
		switch r.Kind {
		case Array:
			return c.pair(*at.down("items"), r.Elem, w.Elem)
		case Map:
			return c.pair(*at.down("values"), r.Elem, w.Elem)
		case Fixed:
			res = res.merge(names(at, r, w))
			if r.Size != w.Size {
				res = res.merge(found(sizeMismatch, at.down("size"), fmt.Sprintf("expected: %d, found: %d", w.Size, r.Size)))
			}
			return res
		case Enum:
			return res.merge(names(at, r, w)).merge(symbols(at, r, w))
		case Record:
			return res.merge(names(at, r, w)).merge(c.fields(at, r, w))
		case Union:
			for i, b := range w.Branches {
				// A branch is looked at as if it were a schema of its own, and only the verdict counts.
				if c.stopped() {
					break
				}
				if c.pair(path{}, r, b) != nil {
					res = res.merge(found(missingBranch, at.down(strconv.Itoa(i)), "reader union lacking writer type: "+upper(b.Kind)))
				}
			}
			return res
		}
		return nil
	}
	if w.Kind == Union {
		for i, b := range w.Branches {
			if c.stopped() {
				break
			}
			res = res.merge(c.pair(*at.down(strconv.Itoa(i)), r, b))
		}
		return res
	}
	if r.Kind == Union {
		for _, b := range r.Branches {
			if c.pair(path{}, b, w) == nil || c.stopped() {
				return nil
			}
		}
		return found(missingBranch, at, "reader union lacking writer type: "+upper(w.Kind))
	}
	if promotes(r.Kind, w.Kind) {
		return nil
	}
	return found(typeMismatch, at, fmt.Sprintf("reader type: %s not compatible with writer type: %s", upper(r.Kind), upper(w.Kind)))
}

// promotes reports whether a reader of one primitive kind takes what another wrote.
func promotes(r, w Kind) bool {
	switch r {
	case Long:
		return w == Int
	case Float:
		return w == Int || w == Long
	case Double:
		return w == Int || w == Long || w == Float
	case Bytes:
		return w == String
	case String:
		return w == Bytes
	}
	return false
}

// names compare without their namespaces; the reader's aliases are full names.
func names(at *path, r, w *Type) *reasons {
	if r.Name.Local == w.Name.Local {
		return nil
	}
	full := w.Name.Full()
	for _, a := range r.Aliases {
		// One without a namespace, of a type that has one, is told apart by a dot in front, which no name has.
		if a.Full() == full && (a.Space != "" || r.Name.Space == "") {
			return nil
		}
	}
	return found(nameMismatch, at.down("name"), "expected: "+full)
}

func symbols(at *path, r, w *Type) *reasons {
	var missing []string
	for _, s := range w.Symbols {
		if r.Symbol(s) < 0 {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 || r.Default != nil && r.Symbol(*r.Default) >= 0 {
		return nil
	}
	slices.Sort(missing)
	return found(missingEnum, at.down("symbols"), "["+strings.Join(missing, ", ")+"]")
}

func (c *comparison) fields(at *path, r, w *Type) (res *reasons) {
	at = at.down("fields")
	for i := range r.Fields {
		if c.stopped() {
			return nil
		}
		f := &r.Fields[i]
		at := at.down(strconv.Itoa(i))
		written := c.written(f, w)
		switch {
		case c.ambiguous != "":
			c.ambiguous = fmt.Sprintf("Reader record field %s type:%s pos:%d matches multiple fields in writer record schema %s", f.Name, upper(f.Type.Kind), i, w)
			return nil
		case written != nil:
			res = res.merge(c.pair(*at.down("type"), f.Type, written.Type))
		case f.Default != nil:
		case f.Type.Kind == Enum && f.Type.Default != nil:
			res = res.merge(c.pair(*at.down("type"), f.Type, w))
		default:
			res = res.merge(found(missingField, at, f.Name))
		}
	}
	return res
}

// written is the writer's field that a reader's takes its values from, by its name or an alias.
func (c *comparison) written(f *Field, w *Type) *Field {
	var found *Field
	take := func(name string) {
		i := w.Field(name)
		switch {
		case i < 0:
		case found != nil:
			c.ambiguous = f.Name
		default:
			found = &w.Fields[i]
		}
	}
	take(f.Name)
	for _, a := range f.Aliases {
		take(a)
	}
	return found
}
