package worker

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestSlabsKeepWhatRecordsPointTo: whatever the sizes of what is written, it stands as it was written until the slab is used
// again, and the memory of the next batch is that of the one before.
func TestSlabsKeepWhatRecordsPointTo(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := &slab{}
	for round := range 20 {
		s.reset()
		var kept [][]byte
		total := 0
		for i := range 400 {
			size := rnd.IntN(4000)
			if rnd.IntN(50) == 0 {
				size = rnd.IntN(2 * chunkSize)
			}
			b := s.room()
			for range size {
				b = append(b, byte(i))
			}
			kept = append(kept, s.keep(b))
			total += size
		}
		for i, b := range kept {
			if bytes.Count(b, []byte{byte(i)}) != len(b) {
				t.Fatalf("round %d: what was written as number %d of %d bytes is another's now", round, i, len(b))
			}
		}
		if s.size != int64(total) {
			t.Fatalf("round %d: %d bytes are counted, %d were written", round, s.size, total)
		}
		held := 0
		for _, c := range s.chunks {
			held += cap(c)
		}
		if most := 400*4000 + 2*chunkSize; held > most {
			t.Fatalf("round %d: %d bytes are held, want at most %d", round, held, most)
		}
	}
}
