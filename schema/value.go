package schema

import (
	"math"
	"unsafe"
)

// A Value is one datum: a tagged union of 24 bytes, held and passed by value. The
// zero Value is null. A Value is immutable: whoever changes data makes new slices.
//
// A Value keeps alive, and does not copy, the string, bytes, elements or fields it
// was made from. Accessors for another kind than the value's return zero.
type Value struct {
	p    unsafe.Pointer // the first byte, element, entry; a struct's header; nil for scalars
	n    uint64         // a scalar's bits, or a length
	kind Kind
	aux  int32 // a decimal's scale
}

// An Entry is one pair of a map. Maps keep the order in which they were made;
// equality ignores it.
type Entry struct{ Key, Value Value }

// structHeader is what a struct Value points to. Arenas hold slabs of them.
type structHeader struct {
	schema *Schema
	fields []Value
}

// BoolValue and its neighbours make a Value of the kind they name.
func BoolValue(v bool) Value {
	if v {
		return Value{kind: Bool, n: 1}
	}
	return Value{kind: Bool}
}
func Int8Value(v int8) Value       { return Value{kind: Int8, n: uint64(int64(v))} }
func Int16Value(v int16) Value     { return Value{kind: Int16, n: uint64(int64(v))} }
func Int32Value(v int32) Value     { return Value{kind: Int32, n: uint64(int64(v))} }
func Int64Value(v int64) Value     { return Value{kind: Int64, n: uint64(v)} }
func Float32Value(v float32) Value { return Value{kind: Float32, n: uint64(math.Float32bits(v))} }
func Float64Value(v float64) Value { return Value{kind: Float64, n: math.Float64bits(v)} }

// StringValue makes a STRING that shares s.
func StringValue(s string) Value {
	return Value{kind: String, p: unsafe.Pointer(unsafe.StringData(s)), n: uint64(len(s))}
}

// BytesValue makes BYTES that share b. A nil slice makes empty bytes, not null.
func BytesValue(b []byte) Value {
	return Value{kind: Bytes, p: unsafe.Pointer(unsafe.SliceData(b)), n: uint64(len(b))}
}

// StringOfBytes makes a STRING that shares b, which must not change any more.
func StringOfBytes(b []byte) Value {
	return Value{kind: String, p: unsafe.Pointer(unsafe.SliceData(b)), n: uint64(len(b))}
}

// ArrayValue makes an ARRAY that shares elems.
func ArrayValue(elems []Value) Value {
	return Value{kind: Array, p: unsafe.Pointer(unsafe.SliceData(elems)), n: uint64(len(elems))}
}

// MapValue makes a MAP that shares entries. Keys must differ; that is the caller's
// to see to.
func MapValue(entries []Entry) Value {
	return Value{kind: Map, p: unsafe.Pointer(unsafe.SliceData(entries)), n: uint64(len(entries))}
}

// StructValue makes a STRUCT of the schema s that shares fields, which stand in the
// order of s.Fields. It panics where their number differs, since that is a bug.
func StructValue(s *Schema, fields []Value) Value {
	checkFields(s, fields)
	return Value{kind: Struct, p: unsafe.Pointer(&structHeader{s, fields})}
}

func checkFields(s *Schema, fields []Value) {
	if s.open {
		panic("schema: a struct of a schema that is not built yet")
	}
	if len(fields) != len(s.fields) {
		panic("schema: a struct of " + s.String() + " was given another number of fields than it has")
	}
}

// DateValue, TimeValue and TimestampValue take days, milliseconds since midnight
// and milliseconds since the epoch.
func DateValue(days int64) Value    { return Value{kind: Date, n: uint64(days)} }
func TimeValue(millis int64) Value  { return Value{kind: Time, n: uint64(millis)} }
func TimestampValue(ms int64) Value { return Value{kind: Timestamp, n: uint64(ms)} }

// Kind is the kind of what the value holds.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool is the boolean.
func (v Value) Bool() bool { return v.kind == Bool && v.n != 0 }

// Int is the number of an INT8 to INT64, a DATE (days), a TIME or a TIMESTAMP
// (milliseconds).
func (v Value) Int() int64 {
	switch v.kind {
	case Int8, Int16, Int32, Int64, Date, Time, Timestamp:
		return int64(v.n)
	}
	return 0
}

// Float is the number of a FLOAT32 or FLOAT64.
func (v Value) Float() float64 {
	switch v.kind {
	case Float32:
		return float64(math.Float32frombits(uint32(v.n)))
	case Float64:
		return math.Float64frombits(v.n)
	}
	return 0
}

// Str is the STRING, shared with the value.
func (v Value) Str() string {
	if v.kind != String {
		return ""
	}
	return unsafe.String((*byte)(v.p), int(v.n))
}

// Bytes is the BYTES, shared with the value: it must not be changed.
func (v Value) Bytes() []byte {
	if v.kind != Bytes {
		return nil
	}
	return unsafe.Slice((*byte)(v.p), int(v.n))
}

// StrBytes is the text of a STRING as bytes that must not be changed.
func (v Value) StrBytes() []byte {
	if v.kind != String {
		return nil
	}
	return unsafe.Slice((*byte)(v.p), int(v.n))
}

// Elems are the elements of an ARRAY. The slice must not be changed.
func (v Value) Elems() []Value {
	if v.kind != Array {
		return nil
	}
	return unsafe.Slice((*Value)(v.p), int(v.n))
}

// Entries are the pairs of a MAP. The slice must not be changed.
func (v Value) Entries() []Entry {
	if v.kind != Map {
		return nil
	}
	return unsafe.Slice((*Entry)(v.p), int(v.n))
}

// Lookup is the value of a MAP's entry with this string key, and whether it is there.
func (v Value) Lookup(key string) (Value, bool) {
	for _, e := range v.Entries() {
		if e.Key.kind == String && e.Key.Str() == key {
			return e.Value, true
		}
	}
	return Value{}, false
}

// Schema is the schema of a STRUCT, else nil.
func (v Value) Schema() *Schema {
	if v.kind != Struct {
		return nil
	}
	return (*structHeader)(v.p).schema
}

// Fields are the values of a STRUCT in its schema's order, without defaults. The
// slice must not be changed.
func (v Value) Fields() []Value {
	if v.kind != Struct {
		return nil
	}
	return (*structHeader)(v.p).fields
}

// Get is the value of a STRUCT's field; where that is null and the field's schema
// has a default, the default. Null where there is no such field: ask the schema
// first where that matters.
func (v Value) Get(name string) Value {
	s := v.Schema()
	if s == nil {
		return Value{}
	}
	i := s.Index(name)
	if i < 0 {
		return Value{}
	}
	return v.At(i)
}

// At is Get by position; null for another kind than a STRUCT.
func (v Value) At(i int) Value {
	if v.kind != Struct {
		return Value{}
	}
	h := (*structHeader)(v.p)
	if f := h.fields[i]; f.kind != Null {
		return f
	}
	return h.schema.fields[i].Schema.def
}

// GetRaw is Get without the default.
func (v Value) GetRaw(name string) Value {
	if s := v.Schema(); s != nil {
		if i := s.Index(name); i >= 0 {
			return v.Fields()[i]
		}
	}
	return Value{}
}
