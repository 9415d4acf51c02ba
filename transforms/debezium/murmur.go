package debezium

import "math/bits"

// murmur is the hash that Debezium routes by: MurmurHash3 for x64, 128 bits, as it
// was in beta, of which the upper half of the first word is taken. Bytes in the tail
// are signed, as Java has them.
type murmur struct{ h1, h2, c1, c2 uint64 }

const (
	murmurH1, murmurH2 = 0x9368e53c2f6af274, 0x586dcd208f7cd3fd
	murmurC1, murmurC2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	murmurSeed         = 9001
)

func (m *murmur) mix(k1, k2 uint64) {
	m.h1 ^= bits.RotateLeft64(k1*m.c1, 23) * m.c2
	m.h1 += m.h2
	m.h2 = bits.RotateLeft64(m.h2, 41)
	m.h2 ^= bits.RotateLeft64(k2*m.c2, 23) * m.c1
	m.h2 += m.h1
	m.h1, m.h2 = m.h1*3+0x52dce729, m.h2*3+0x38495ab5
	m.c1, m.c2 = m.c1*5+0x7b7d159c, m.c2*5+0x6bce6396
}

func murmurFinal(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

func murmurHash(b []byte) int32 {
	n := len(b)
	m := murmur{murmurH1 ^ murmurSeed, murmurH2 ^ murmurSeed, murmurC1, murmurC2}
	for ; len(b) >= 16; b = b[16:] {
		var k [2]uint64
		for i, c := range b[:16] {
			k[i/8] |= uint64(c) << (8 * (i % 8))
		}
		m.mix(k[0], k[1])
	}
	if len(b) > 0 {
		m.mix(murmurTail(b))
	}
	return m.sum(n)
}

// murmurTail is the last words, of signed bytes.
func murmurTail(b []byte) (k1, k2 uint64) {
	var k [2]uint64
	for i, c := range b {
		k[i/8] ^= uint64(int64(int8(c))) << (8 * (i % 8))
	}
	return k[0], k[1]
}

// murmurOfInt is the hash of a number that Java's hashCode gave.
func murmurOfInt(n int32) int32 {
	m := murmur{murmurH1 ^ murmurSeed, murmurH2 ^ murmurSeed, murmurC1, murmurC2}
	u := uint32(n)
	m.mix(murmurTail([]byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)}))
	return m.sum(4)
}

func (m *murmur) sum(n int) int32 {
	m.h2 ^= uint64(n)
	m.h1 += m.h2
	m.h2 += m.h1
	m.h1, m.h2 = murmurFinal(m.h1), murmurFinal(m.h2)
	return int32((m.h1 + m.h2) >> 32)
}
