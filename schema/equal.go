package schema

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
)

var hashSeed = maphash.MakeSeed()

// hashOf is a hash of all that Equal compares, but for the default, whose equality
// is not that of its bits, and for parts that are recursive, which may not be built
// yet. The other parts have their hashes already.
func hashOf(s *Schema) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	flag := func(b bool) byte {
		if b {
			return 1
		}
		return 0
	}
	h.Write([]byte{byte(s.kind), flag(s.optional), flag(s.hasVersion), flag(s.hasDefault)})
	num := func(n uint64) {
		for i := range 8 {
			h.WriteByte(byte(n >> (8 * i)))
		}
	}
	text := func(t string) { num(uint64(len(t))); h.WriteString(t) }
	num(uint64(s.version))
	text(s.name)
	text(s.doc)
	num(uint64(len(s.params)))
	var params uint64 // their order does not count
	for _, p := range s.params {
		params += maphash.String(hashSeed, p.Key)*3 + maphash.String(hashSeed, p.Value)
	}
	num(params)
	for _, f := range s.fields {
		text(f.Name)
	}
	s.eachPart(func(part *Schema) {
		if part.recursive {
			num(0)
		} else {
			num(part.hash)
		}
	})
	return h.Sum64()
}

// Equal reports whether two schemas describe the same data, as Connect's
// ConnectSchema.equals does: kind, optionality, version, name, documentation,
// default, fields in order, key and element schemas, parameters in any order.
// Two nil schemas are equal. Recursive ones are equal where no path through both
// meets a difference.
func Equal(a, b *Schema) bool { return a == b || (&equality{}).schemas(a, b) }

// EqualFields reports whether two struct schemas have the same fields with equal schemas, whatever else they say of themselves.
func EqualFields(a, b *Schema) bool { return (&equality{}).fields(a, b) }

// equality compares two schemas.
type equality struct {
	met map[[2]*Schema]bool // recursive structs: compared, or being compared
}

func (e *equality) schemas(a, b *Schema) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.hash != b.hash || a.kind != b.kind || a.optional != b.optional ||
		a.hasVersion != b.hasVersion || a.version != b.version || a.name != b.name || a.doc != b.doc ||
		a.hasDefault != b.hasDefault || a.recursive != b.recursive || len(a.params) != len(b.params) {
		return false
	}
	for _, p := range a.params {
		if v, ok := b.Param(p.Key); !ok || v != p.Value {
			return false
		}
	}
	if a.recursive && a.kind == Struct {
		// What is taken for equal here is found out to be, or the whole is not.
		pair := [2]*Schema{a, b}
		if e.met[pair] {
			return true
		}
		if e.met == nil {
			e.met = map[[2]*Schema]bool{}
		}
		e.met[pair] = true
	}
	return e.fields(a, b) && e.schemas(a.key, b.key) && e.schemas(a.elem, b.elem) && (!a.hasDefault || equalDefaults(a.def, b.def))
}

func (e *equality) fields(a, b *Schema) bool {
	return slices.EqualFunc(a.fields, b.fields, func(x, y Field) bool { return x.Name == y.Name && e.schemas(x.Schema, y.Schema) })
}

// equalDefaults is EqualValues, but that a struct's schemas, the very ones whose
// defaults these are, are not compared again and again.
func equalDefaults(a, b Value) bool {
	if a.kind == Struct && b.kind == Struct {
		return slices.EqualFunc(a.Fields(), b.Fields(), EqualValues)
	}
	return EqualValues(a, b)
}

// EqualValues reports whether two values are the same datum: the same kind and
// content; for a DECIMAL the same number and scale, for a STRUCT equal schemas and
// fields, for a MAP the same pairs in any order. As in Java, NaN equals NaN and
// 0.0 is not -0.0.
func EqualValues(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case Float32, Float64:
		x, y := a.Float(), b.Float()
		return x != x && y != y || math.Float64bits(x) == math.Float64bits(y)
	case String:
		return a.Str() == b.Str()
	case Bytes:
		return bytes.Equal(a.Bytes(), b.Bytes())
	case Array:
		return slices.EqualFunc(a.Elems(), b.Elems(), EqualValues)
	case Map:
		return equalEntries(a.Entries(), b.Entries())
	case Struct:
		return Equal(a.Schema(), b.Schema()) && slices.EqualFunc(a.Fields(), b.Fields(), EqualValues)
	case Decimal:
		if a.aux != b.aux {
			return false
		}
		x, okx := a.Unscaled64()
		y, oky := b.Unscaled64()
		if okx && oky {
			return x == y
		}
		return a.Unscaled().Cmp(b.Unscaled()) == 0
	}
	return a.n == b.n
}

func equalEntries(a, b []Entry) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) > 16 && allStrings(a) && allStrings(b) {
		at := make(map[string]Value, len(b))
		for _, e := range b {
			at[e.Key.Str()] = e.Value
		}
		for _, e := range a {
			if v, ok := at[e.Key.Str()]; !ok || !EqualValues(e.Value, v) {
				return false
			}
		}
		return true
	}
	for _, e := range a {
		i := slices.IndexFunc(b, func(o Entry) bool { return EqualValues(e.Key, o.Key) })
		if i < 0 || !EqualValues(e.Value, b[i].Value) {
			return false
		}
	}
	return true
}

func allStrings(es []Entry) bool {
	return !slices.ContainsFunc(es, func(e Entry) bool { return e.Key.kind != String })
}
