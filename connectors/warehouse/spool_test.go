package warehouse

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"millrace/deploy/trial"
)

// A spool against buffers in memory: files that grow, are read and go in any order.
func TestSpoolKeepsWhatFilesHold(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &spool{}
	defer s.close()
	type pair struct {
		c    *content
		want []byte
	}
	var files []pair
	most := int64(0)
	for range 3000 {
		switch k := rng.IntN(10); {
		case k < 2 || len(files) == 0:
			files = append(files, pair{c: &content{s: s}})
		case k < 8:
			f := &files[rng.IntN(len(files))]
			p := make([]byte, rng.IntN(1<<rng.IntN(17)))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			if _, err := f.c.Write(p); err != nil {
				t.Fatal(err)
			}
			f.want = append(f.want, p...)
		case k < 9:
			f := files[rng.IntN(len(files))]
			got, err := io.ReadAll(io.NewSectionReader(f.c, 0, f.c.size))
			if err != nil || !bytes.Equal(got, f.want) {
				t.Fatalf("seed %d: a file of %d bytes is not what was written (%v)", seed, len(f.want), err)
			}
			if n := rng.Int64N(f.c.size + 1); n < f.c.size {
				var b [1]byte
				if _, err := f.c.ReadAt(b[:], n); err != nil || b[0] != f.want[n] {
					t.Fatalf("seed %d: byte %d is %d, %v", seed, n, b[0], err)
				}
			}
		default:
			i := rng.IntN(len(files))
			files[i].c.release()
			files = append(files[:i], files[i+1:]...)
		}
		held := int64(0)
		for _, f := range files {
			held += int64(len(f.want))
		}
		most = max(most, held)
		if s.used() > held {
			t.Fatalf("seed %d: %d bytes are on disk for %d", seed, s.used(), held)
		}
	}
	for _, f := range files {
		f.c.release()
	}
	if s.used() != 0 {
		t.Errorf("seed %d: %d bytes are kept for nothing", seed, s.used())
	}
	if s.end*blockSize > most*2+blockSize*64 {
		t.Errorf("seed %d: the file grew to %d bytes, and never held more than %d", seed, s.end*blockSize, most)
	}
}

func TestAWriteThatFailsLeavesNothing(t *testing.T) {
	s := &spool{}
	c := &content{s: s}
	before := bytes.Repeat([]byte("x"), blockSize+100)
	if _, err := c.Write(before); err != nil {
		t.Fatal(err)
	}
	full := s.f
	ro, err := io.ReadAll(io.NewSectionReader(c, 0, c.size))
	if err != nil || !bytes.Equal(ro, before) {
		t.Fatal(err)
	}
	full.Close() // every further write fails
	if _, err := c.Write(bytes.Repeat([]byte("y"), blockSize)); err == nil {
		t.Fatal("a write to a file that is closed succeeded")
	}
	if c.size != int64(len(before)) || len(c.tail) != 100 || len(c.blocks) != 1 || s.used() != blockSize {
		t.Errorf("%d bytes, %d in the tail, %d blocks, %d on disk", c.size, len(c.tail), len(c.blocks), s.used())
	}
	s.f = nil
}
