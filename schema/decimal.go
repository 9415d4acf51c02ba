package schema

import (
	"math/big"
	"unsafe"
)

// DecimalInt64 makes a DECIMAL of unscaled × 10^-scale without allocation.
func DecimalInt64(unscaled int64, scale int32) Value {
	return Value{kind: Decimal, n: uint64(unscaled), aux: scale}
}

// DecimalBytes makes a DECIMAL from an unscaled number in big-endian two's
// complement, as Java's BigInteger writes it. It shares b; no bytes are zero.
func DecimalBytes(b []byte, scale int32) Value {
	for len(b) > 8 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:] // says nothing: what fits 64 bits is kept in 64 bits
	}
	if len(b) <= 8 {
		var u uint64
		if len(b) > 0 && b[0] >= 0x80 {
			u = ^uint64(0)
		}
		for _, c := range b {
			u = u<<8 | uint64(c)
		}
		return DecimalInt64(int64(u), scale)
	}
	return Value{kind: Decimal, p: unsafe.Pointer(unsafe.SliceData(b)), n: uint64(len(b)), aux: scale}
}

// DecimalBig makes a DECIMAL of unscaled × 10^-scale.
func DecimalBig(unscaled *big.Int, scale int32) Value {
	if unscaled.IsInt64() {
		return DecimalInt64(unscaled.Int64(), scale)
	}
	return DecimalBytes(twosComplement(unscaled), scale)
}

// Scale is the scale of a DECIMAL.
func (v Value) Scale() int32 {
	if v.kind != Decimal {
		return 0
	}
	return v.aux
}

// Unscaled64 is the unscaled number of a DECIMAL, and whether it fits 64 bits.
func (v Value) Unscaled64() (int64, bool) {
	if v.kind != Decimal || v.p != nil {
		return 0, false
	}
	return int64(v.n), true
}

// Unscaled is the unscaled number of a DECIMAL.
func (v Value) Unscaled() *big.Int {
	if n, ok := v.Unscaled64(); ok {
		return big.NewInt(n)
	}
	if v.kind != Decimal {
		return new(big.Int)
	}
	b := unsafe.Slice((*byte)(v.p), int(v.n))
	x := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return x
}

// AppendUnscaled appends the unscaled number of a DECIMAL in the shortest
// big-endian two's complement, at least one byte, as Java's BigInteger does.
func (v Value) AppendUnscaled(dst []byte) []byte {
	if n, ok := v.Unscaled64(); ok {
		size := 1
		for size < 8 && n>>(8*size-1) != 0 && n>>(8*size-1) != -1 {
			size++
		}
		for i := size - 1; i >= 0; i-- {
			dst = append(dst, byte(n>>(8*i)))
		}
		return dst
	}
	if v.kind != Decimal {
		return dst
	}
	return append(dst, unsafe.Slice((*byte)(v.p), int(v.n))...) // the shortest already: see DecimalBytes
}

// twosComplement is x in the shortest big-endian two's complement.
func twosComplement(x *big.Int) []byte {
	if x.Sign() >= 0 {
		b := x.Bytes()
		if len(b) == 0 || b[0] >= 0x80 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := x.BitLen()/8 + 1
	m := new(big.Int).Add(x, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	b := m.Bytes()
	for len(b) > 1 && b[0] == 0xff && b[1] >= 0x80 {
		b = b[1:]
	}
	return b
}
