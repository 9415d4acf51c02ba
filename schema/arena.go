package schema

import "unsafe"

// An Arena hands out the parts of a batch's values from slabs, so that a batch of
// rows costs a few allocations and not a few per row. Its slabs are ordinary
// garbage-collected slices and are never used twice: what it handed out stays valid
// for as long as somebody holds it. The zero Arena is ready. An Arena is used by
// one goroutine.
type Arena struct {
	values  []Value
	headers []structHeader
	bytes   []byte
	taken   int
}

const (
	valueSize   = int(unsafe.Sizeof(Value{}))
	arenaValues = 2048     // 48 KiB
	arenaStruct = 512      // 16 KiB
	arenaBytes  = 64 << 10 // larger pieces get a slab of their own
)

// Taken is how many bytes of memory the arena has taken for values and structs, those of
// strings and bytes not among them.
func (a *Arena) Taken() int { return a.taken }

// Values hands out n null values with no room behind them.
func (a *Arena) Values(n int) []Value {
	if n > len(a.values) {
		if n > arenaValues/4 {
			a.taken += n * valueSize
			return make([]Value, n)
		}
		a.taken += arenaValues * valueSize
		a.values = make([]Value, arenaValues)
	}
	v := a.values[:n:n]
	a.values = a.values[n:]
	return v
}

// Struct makes a STRUCT of the schema s that shares fields.
func (a *Arena) Struct(s *Schema, fields []Value) Value {
	checkFields(s, fields)
	if len(a.headers) == 0 {
		a.taken += arenaStruct * int(unsafe.Sizeof(structHeader{}))
		a.headers = make([]structHeader, arenaStruct)
	}
	h := &a.headers[0]
	a.headers = a.headers[1:]
	h.schema, h.fields = s, fields
	return Value{kind: Struct, p: unsafe.Pointer(h)}
}

// Bytes hands out n bytes with no room behind them; they are zero.
func (a *Arena) Bytes(n int) []byte {
	if n > len(a.bytes) {
		if n > arenaBytes/4 {
			return make([]byte, n)
		}
		a.bytes = make([]byte, arenaBytes)
	}
	b := a.bytes[:n:n]
	a.bytes = a.bytes[n:]
	return b
}

// Copy copies b into the arena.
func (a *Arena) Copy(b []byte) []byte {
	c := a.Bytes(len(b))
	copy(c, b)
	return c
}

// String makes a STRING of a copy of b.
func (a *Arena) String(b []byte) Value { return StringOfBytes(a.Copy(b)) }
