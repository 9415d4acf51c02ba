package schema

import (
	"fmt"
	"slices"
)

// A Schema describes data: its kind, whether it may be null, its default, its
// name, version, documentation and parameters, and what its parts are. It is
// immutable once built and safe for concurrent use.
//
// Schemas are compared by pointer first; see [Equal].
type Schema struct {
	kind       Kind
	valueKind  Kind
	optional   bool
	hasVersion bool
	hasDefault bool
	recursive  bool // see Recursive
	open       bool // given out by Self and not built yet
	version    int32
	scale      int32 // of a Decimal
	name       string
	doc        string
	params     []Param
	def        Value
	fields     []Field
	index      map[string]int
	key, elem  *Schema
	hash       uint64 // of all that Equal compares
}

// A Param is one parameter of a schema. Parameters keep their order.
type Param struct{ Key, Value string }

// A Field is one field of a struct schema.
type Field struct {
	Name   string
	Schema *Schema
}

// The schemas of the primitive kinds: no name, no version, required or optional.
var (
	BoolSchema    = New(Bool).Build()
	Int8Schema    = New(Int8).Build()
	Int16Schema   = New(Int16).Build()
	Int32Schema   = New(Int32).Build()
	Int64Schema   = New(Int64).Build()
	Float32Schema = New(Float32).Build()
	Float64Schema = New(Float64).Build()
	StringSchema  = New(String).Build()
	BytesSchema   = New(Bytes).Build()

	OptionalBool    = New(Bool).Optional().Build()
	OptionalInt8    = New(Int8).Optional().Build()
	OptionalInt16   = New(Int16).Optional().Build()
	OptionalInt32   = New(Int32).Optional().Build()
	OptionalInt64   = New(Int64).Optional().Build()
	OptionalFloat32 = New(Float32).Optional().Build()
	OptionalFloat64 = New(Float64).Optional().Build()
	OptionalString  = New(String).Optional().Build()
	OptionalBytes   = New(Bytes).Optional().Build()
)

// Kind is the kind of the encoding: never Decimal, Date, Time or Timestamp.
func (s *Schema) Kind() Kind { return s.kind }

// ValueKind is the kind of the values under this schema: Decimal, Date, Time or
// Timestamp where the schema's name says so, else Kind.
func (s *Schema) ValueKind() Kind { return s.valueKind }

// Optional reports whether null is a value.
func (s *Schema) Optional() bool { return s.optional }

// Name is the schema's full name, or "".
func (s *Schema) Name() string { return s.name }

// Version is the schema's version, and whether it has one.
func (s *Schema) Version() (int32, bool) { return s.version, s.hasVersion }

// Doc is the schema's documentation, or "".
func (s *Schema) Doc() string { return s.doc }

// Params are the parameters in their order. The slice must not be changed.
func (s *Schema) Params() []Param { return s.params }

// Param is the value of a parameter, and whether it is there.
func (s *Schema) Param(key string) (string, bool) {
	for _, p := range s.params {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// Scale is the declared scale of a Decimal schema, else 0.
func (s *Schema) Scale() int32 { return s.scale }

// Default is the default value, and whether there is one. An explicit null
// default, which Connect cannot tell from none, counts as none.
func (s *Schema) Default() (Value, bool) { return s.def, s.hasDefault }

// Fields are the fields of a struct schema. The slice must not be changed.
func (s *Schema) Fields() []Field { return s.fields }

// Index is the position of the named field in Fields, or -1.
func (s *Schema) Index(name string) int {
	if s.index == nil { // few fields: no map is kept
		for i := range s.fields {
			if s.fields[i].Name == name {
				return i
			}
		}
		return -1
	}
	if i, ok := s.index[name]; ok {
		return i
	}
	return -1
}

// Field is the schema of the named field, or nil.
func (s *Schema) Field(name string) *Schema {
	if i := s.Index(name); i >= 0 {
		return s.fields[i].Schema
	}
	return nil
}

// Key is the schema of a map's keys, or nil.
func (s *Schema) Key() *Schema { return s.key }

// Elem is the schema of an array's elements or a map's values, or nil.
func (s *Schema) Elem() *Schema { return s.elem }

// String names the schema for messages: its name where it has one, else its kind.
func (s *Schema) String() string {
	switch {
	case s == nil:
		return "no schema"
	case s.name != "":
		return s.kind.String() + " " + s.name
	default:
		return s.kind.String()
	}
}

// A Builder puts a [Schema] together. Its methods return the builder itself.
// A builder is used by one goroutine, and once.
type Builder struct {
	s     Schema
	self  [2]*Schema // what Self has given out: required, optional
	built bool
	err   error
}

// New starts the schema of a primitive kind or of a struct.
func New(k Kind) *Builder {
	b := &Builder{s: Schema{kind: k}}
	if k == Null || k > Struct || k == Array || k == Map {
		b.err = fmt.Errorf("schema of kind %v: want a primitive kind or STRUCT; ArrayOf and MapOf make the others", k)
	}
	return b
}

// NewStruct starts the schema of a struct; the name may be empty.
func NewStruct(name string) *Builder { return New(Struct).Name(name) }

// ArrayOf starts the schema of an array. With a nil schema its elements are
// schemaless: what a header's text is parsed to has such arrays.
func ArrayOf(elem *Schema) *Builder { return &Builder{s: Schema{kind: Array, elem: elem}} }

// MapOf starts the schema of a map. Nil schemas as in ArrayOf.
func MapOf(key, elem *Schema) *Builder { return &Builder{s: Schema{kind: Map, key: key, elem: elem}} }

// From starts a copy of s, to be changed: the same kind, name, version,
// documentation, parameters, default, optionality and key and element schemas;
// and, for a struct, no fields, since those are what callers change.
func From(s *Schema) *Builder {
	b := &Builder{s: Schema{
		kind: s.kind, optional: s.optional, hasVersion: s.hasVersion, hasDefault: s.hasDefault,
		version: s.version, name: s.name, doc: s.doc, def: s.def, key: s.key, elem: s.elem,
	}}
	b.s.params = append([]Param(nil), s.params...)
	return b
}

// Name sets the full name.
func (b *Builder) Name(name string) *Builder { b.s.name = name; return b }

// Version sets the version.
func (b *Builder) Version(v int32) *Builder { b.s.version, b.s.hasVersion = v, true; return b }

// Doc sets the documentation.
func (b *Builder) Doc(doc string) *Builder { b.s.doc = doc; return b }

// Param adds a parameter, or changes the one of that key in its place.
func (b *Builder) Param(key, value string) *Builder {
	for i := range b.s.params {
		if b.s.params[i].Key == key {
			b.s.params[i].Value = value
			return b
		}
	}
	b.s.params = append(b.s.params, Param{key, value})
	return b
}

// NoParam takes the parameter of that key away, if it is there.
func (b *Builder) NoParam(key string) *Builder {
	b.s.params = slices.DeleteFunc(b.s.params, func(p Param) bool { return p.Key == key })
	return b
}

// Optional lets null be a value.
func (b *Builder) Optional() *Builder { b.s.optional = true; return b }

// SetOptional says whether null is a value.
func (b *Builder) SetOptional(yes bool) *Builder { b.s.optional = yes; return b }

// Default sets the default value; null takes it away.
func (b *Builder) Default(v Value) *Builder {
	b.s.def, b.s.hasDefault = v, v.Kind() != Null
	return b
}

// Field adds a field to a struct schema.
func (b *Builder) Field(name string, s *Schema) *Builder {
	switch {
	case b.err != nil:
	case b.s.kind != Struct:
		b.err = fmt.Errorf("field %q: %v has no fields", name, b.s.kind)
	case s == nil:
		b.err = fmt.Errorf("field %q: no schema", name)
	}
	b.s.fields = append(b.s.fields, Field{name, s})
	return b
}

// NumFields is the number of fields added so far.
func (b *Builder) NumFields() int { return len(b.s.fields) }

// smallStruct is the number of fields up to which a linear search beats a map.
const smallStruct = 6

// TryBuild makes the schema, or says what is wrong: a field twice or without
// a schema, a default that does not fit, a Decimal without a scale.
func (b *Builder) TryBuild() (*Schema, error) {
	if b.err != nil {
		return nil, b.err
	}
	s := b.s
	seen := make(map[string]int, len(s.fields))
	for i, f := range s.fields {
		if _, twice := seen[f.Name]; twice {
			return nil, fmt.Errorf("schema %s: field %q twice", &s, f.Name)
		}
		seen[f.Name] = i
	}
	if len(s.fields) > smallStruct {
		s.index = seen
	}
	var err error
	if s.valueKind, s.scale, err = logicalKind(&s); err != nil {
		return nil, err
	}
	s.recursive = s.hasRecursivePart()
	s.hash = hashOf(&s)
	if s.hasDefault {
		if s.kind == Struct && s.def.kind == Struct {
			// A default cannot have been made of a schema that did not exist: one of
			// the same fields is taken, and becomes this schema's own.
			if !EqualFields(&s, s.def.Schema()) {
				return nil, fmt.Errorf("schema %s: default: a struct of other fields", &s)
			}
			s.def = StructValue(&s, s.def.Fields())
		}
		if err := Validate(&s, s.def); err != nil {
			return nil, fmt.Errorf("schema %s: default: %w", &s, err)
		}
	}
	return b.close(&s)
}

// Build is TryBuild for schemas that the program itself lays down: what is wrong
// with one is a bug, so Build panics. What comes from outside takes TryBuild.
func (b *Builder) Build() *Schema {
	s, err := b.TryBuild()
	if err != nil {
		panic("schema: " + err.Error())
	}
	return s
}
