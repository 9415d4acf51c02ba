package compact

import "hash/maphash"

// DefaultBudget is how much memory an OffsetMap takes, in bytes.
const DefaultBudget = 16 << 20

// OffsetMap has the newest offset of keys. It is exact while the keys fit its budget; beyond that it keeps 128 bits of a hash
// of each, whose seed is new in every map, so that nobody can make keys that collide.
type OffsetMap struct {
	budget int
	exact  map[string]int64
	bytes  int // that exact takes, about

	seeds [2]maphash.Seed
	table []slot // open addressing
	used  int
}

type slot struct {
	hash   [2]uint64
	offset int64 // offset + 1; 0 is an empty slot
}

const (
	slotSize  = 24
	entrySize = 64 // of an entry of exact beside the key's bytes
)

// NewOffsetMap returns a map that takes about budget bytes.
func NewOffsetMap(budget int) *OffsetMap {
	return &OffsetMap{budget: budget, exact: map[string]int64{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// Put notes offset for key; offsets rise. It reports false, and does nothing, when the map is full.
func (m *OffsetMap) Put(key []byte, offset int64) bool {
	if m.table == nil {
		if _, ok := m.exact[string(key)]; ok {
			m.exact[string(key)] = offset
			return true
		}
		if n := entrySize + len(key); m.bytes+n <= m.budget {
			m.bytes += n
			m.exact[string(key)] = offset
			return true
		}
		m.toTable()
	}
	s := m.find(key)
	if s.offset == 0 {
		if m.used >= len(m.table)/4*3 {
			return false
		}
		m.used++
	}
	s.hash, s.offset = m.hash(key), offset+1
	return true
}

// toTable gives up exactness, since a slot is smaller than an entry.
func (m *OffsetMap) toTable() {
	m.table = make([]slot, max(4, m.budget/slotSize))
	for k, o := range m.exact {
		s := m.find([]byte(k))
		s.hash, s.offset = m.hash([]byte(k)), o+1
	}
	m.used, m.exact = len(m.exact), nil
}

// Get returns the offset of key.
func (m *OffsetMap) Get(key []byte) (int64, bool) {
	if m.table == nil {
		o, ok := m.exact[string(key)]
		return o, ok
	}
	s := m.find(key)
	return s.offset - 1, s.offset != 0
}

// Len is the number of keys.
func (m *OffsetMap) Len() int {
	if m.table == nil {
		return len(m.exact)
	}
	return m.used
}

func (m *OffsetMap) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
}

// find is the slot that holds key, or the empty one where it belongs. There are always empty ones.
func (m *OffsetMap) find(key []byte) *slot {
	h := m.hash(key)
	for i := h[0] % uint64(len(m.table)); ; i = (i + 1) % uint64(len(m.table)) {
		if s := &m.table[i]; s.offset == 0 || s.hash == h {
			return s
		}
	}
}
