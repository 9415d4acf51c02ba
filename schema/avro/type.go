package avro

import "strings"

// Kind is the kind of a type.
type Kind uint8

// The kinds of types. The primitive ones come first.
const (
	Null Kind = iota
	Boolean
	Int
	Long
	Float
	Double
	Bytes
	String
	Record
	Enum
	Array
	Map
	Union
	Fixed
)

var kindNames = [...]string{
	Null: "null", Boolean: "boolean", Int: "int", Long: "long", Float: "float", Double: "double", Bytes: "bytes", String: "string",
	Record: "record", Enum: "enum", Array: "array", Map: "map", Union: "union", Fixed: "fixed",
}

// String is the kind's name in schemas.
func (k Kind) String() string { return kindNames[k] }

// Primitive reports whether types of this kind have no parts.
func (k Kind) Primitive() bool { return k <= String }

// Named reports whether types of this kind have a name.
func (k Kind) Named() bool { return k == Record || k == Enum || k == Fixed }

var primitives = func() map[string]Kind {
	m := map[string]Kind{}
	for k := Null; k.Primitive(); k++ {
		m[kindNames[k]] = k
	}
	return m
}()

// Name is a name of a record, an enum or a fixed.
type Name struct{ Local, Space string }

// NameOf splits a full name at its last dot; one without is in space.
func NameOf(name, space string) Name {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return Name{name[i+1:], name[:i]}
	}
	return Name{name, space}
}

// Full is the name with its namespace.
func (n Name) Full() string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + "." + n.Local
}

// within is the name as it is written where space is the namespace. One that is called like a kind of types would be taken for it.
func (n Name) within(space string) string {
	if n.Space == "" || n.Space != space {
		return n.Full()
	}
	for _, k := range kindNames {
		if k == n.Local {
			return n.Full()
		}
	}
	return n.Local
}

// A Type is one type in a schema. A named type that is mentioned twice is one Type, and a recursive one is part of itself. Types that
// were parsed are not changed any more.
type Type struct {
	Kind    Kind
	Props   []Prop // what the author wrote beside what Avro knows, in order
	Logical Logical

	Name    Name    // of a record, an enum, a fixed
	Doc     *string // nil is none
	Aliases []Name
	IsError bool // a record that was written as "error"
	Fields  []Field
	Symbols []string
	Default *string // of an enum
	Size    int     // of a fixed

	Elem     *Type // of an array or a map
	Branches []*Type

	index map[string]int // of fields or symbols
}

// A Field is one field of a record.
type Field struct {
	Name    string
	Type    *Type
	Doc     *string
	Default *JSON // nil is none, NullJSON is null
	Order   Order
	Aliases []string
	Props   []Prop
}

// Order says how records are compared by a field.
type Order uint8

// The orders.
const (
	Ascending Order = iota
	Descending
	Ignore
)

var orderNames = [...]string{"ascending", "descending", "ignore"}

// A Prop is a property.
type Prop struct {
	Name  string
	Value *JSON
}

// Logical is a type's logical type, where it is one that Avro knows and the type can carry it.
type Logical struct {
	Name             string // "" is none
	Precision, Scale int    // of a decimal
}

// FullName is the full name of a named type, and the kind of others.
func (t *Type) FullName() string {
	if t.Kind.Named() {
		return t.Name.Full()
	}
	return t.Kind.String()
}

// Prop is the property of that name, or nil.
func (t *Type) Prop(name string) *JSON { return propOf(t.Props, name) }

// SameProp reports whether both types have the property of that name with equal values, or neither has it.
func (t *Type) SameProp(other *Type, name string) bool {
	return equalJSON(t.Prop(name), other.Prop(name))
}

// Prop is the property of that name, or nil.
func (f *Field) Prop(name string) *JSON { return propOf(f.Props, name) }

func propOf(props []Prop, name string) *JSON {
	for i := range props {
		if props[i].Name == name {
			return props[i].Value
		}
	}
	return nil
}

// manyParts is the number of fields or symbols from which on they are found through a map.
const manyParts = 8

// Field is the position of the field of that name, or -1.
func (t *Type) Field(name string) int {
	if t.index != nil {
		if i, ok := t.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Symbol is the position of an enum's symbol, or -1.
func (t *Type) Symbol(name string) int {
	if t.index != nil {
		if i, ok := t.index[name]; ok {
			return i
		}
		return -1
	}
	for i, s := range t.Symbols {
		if s == name {
			return i
		}
	}
	return -1
}

// equalTypes is Schema.equals of the Java library: names, parts, defaults, order and properties count; documentation and aliases do not.
func equalTypes(a, b *Type) bool { return (&equality{seen: map[typePair]bool{}}).types(a, b) }

type typePair struct{ a, b *Type }

type equality struct{ seen map[typePair]bool }

func (e *equality) types(a, b *Type) bool {
	if a == b {
		return true
	}
	if a.Kind != b.Kind || !equalProps(a.Props, b.Props) {
		return false
	}
	switch a.Kind {
	case Array, Map:
		return e.types(a.Elem, b.Elem)
	case Union:
		if len(a.Branches) != len(b.Branches) {
			return false
		}
		for i := range a.Branches {
			if !e.types(a.Branches[i], b.Branches[i]) {
				return false
			}
		}
	case Fixed:
		return a.Name == b.Name && a.Size == b.Size
	case Enum:
		if a.Name != b.Name || len(a.Symbols) != len(b.Symbols) {
			return false
		}
		for i := range a.Symbols {
			if a.Symbols[i] != b.Symbols[i] {
				return false
			}
		}
	case Record:
		if a.Name != b.Name || len(a.Fields) != len(b.Fields) {
			return false
		}
		pair := typePair{a, b}
		if e.seen[pair] {
			return true // being compared, or found equal
		}
		e.seen[pair] = true
		for i := range a.Fields {
			x, y := &a.Fields[i], &b.Fields[i]
			if x.Name != y.Name || x.Order != y.Order || !equalJSON(x.Default, y.Default) || !equalProps(x.Props, y.Props) || !e.types(x.Type, y.Type) {
				return false
			}
		}
	}
	return true
}

func equalProps(a, b []Prop) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		v := b[i].Value // mostly in the same order
		if b[i].Name != a[i].Name {
			v = propOf(b, a[i].Name)
		}
		if v == nil || !equalJSON(a[i].Value, v) {
			return false
		}
	}
	return true
}
