package warehouse

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// blockSize is what a file holds in memory at most; a full block goes to disk. With 5,000 open files it is most of what the task takes.
const blockSize = 8 << 10

// A spool keeps what files hold until they are written: a block of each in memory, the others in one file on disk, which has
// no name, so that nothing of it stays behind.
type spool struct {
	mu   sync.Mutex // guards the fields below
	f    *os.File   // nil until it is needed
	free []int64    // blocks that may be used again
	end  int64      // behind the last block
}

// content is what one file holds. It is written by one goroutine; when nothing is written any more, several may read.
type content struct {
	s      *spool
	blocks []int64
	tail   []byte
	size   int64
}

var errSpool = errors.New("what files hold cannot be kept on disk until they are written")

// block takes a block, and tells the file that it is in.
func (s *spool) block() (*os.File, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		f, err := os.CreateTemp("", "millrace-spool-*")
		if err != nil {
			return nil, 0, err
		}
		if err := os.Remove(f.Name()); err != nil {
			f.Close()
			return nil, 0, err
		}
		s.f = f
	}
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return s.f, b, nil
	}
	s.end++
	return s.f, s.end - 1, nil
}

// close lets go of the file.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil {
		s.f.Close()
	}
	s.f, s.free, s.end = nil, nil, 0
}

// used is how many bytes are on disk.
func (s *spool) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.end - int64(len(s.free))) * blockSize
}

// Write appends p. After an error nothing of p counts.
func (c *content) Write(p []byte) (int, error) {
	blocks, tail := len(c.blocks), len(c.tail)
	for rest := p; len(rest) > 0; {
		n := min(blockSize-len(c.tail), len(rest))
		if need := len(c.tail) + n; need > cap(c.tail) { // append would make more than a block
			c.tail = append(make([]byte, 0, min(blockSize, max(512, 2*cap(c.tail), need))), c.tail...)
		}
		c.tail = append(c.tail, rest[:n]...)
		rest = rest[n:]
		if len(c.tail) < blockSize {
			break
		}
		if err := c.flush(); err != nil {
			c.undo(blocks, tail)
			return 0, err
		}
	}
	c.size += int64(len(p))
	return len(p), nil
}

// flush puts the full tail on disk.
func (c *content) flush() error {
	f, b, err := c.s.block()
	if err == nil {
		if _, err = f.WriteAt(c.tail, b*blockSize); err != nil {
			c.s.giveBack(b)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w; make room in %s, or set TMPDIR", errSpool, err, os.TempDir())
	}
	c.blocks = append(c.blocks, b)
	c.tail = c.tail[:0]
	return nil
}

// undo takes back what was written since there were that many blocks and bytes in the tail.
func (c *content) undo(blocks, tail int) {
	if len(c.blocks) == blocks { // nothing left the tail
		c.tail = c.tail[:tail]
		return
	}
	first := make([]byte, blockSize)
	if _, err := c.s.f.ReadAt(first, c.blocks[blocks]*blockSize); err != nil {
		tail = 0 // the file is of no use any more, and the task fails
	}
	c.s.giveBack(c.blocks[blocks:]...)
	c.blocks, c.tail = c.blocks[:blocks], append(c.tail[:0], first[:tail]...)
}

func (s *spool) giveBack(blocks ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, blocks...)
}

// ReadAt implements io.ReaderAt.
func (c *content) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("read before the start of a file")
	}
	for n < len(p) {
		at := off + int64(n)
		if at >= c.size {
			return n, io.EOF
		}
		i, within := at/blockSize, at%blockSize
		if i >= int64(len(c.blocks)) {
			n += copy(p[n:], c.tail[within:])
			continue
		}
		part := p[n:min(int64(len(p)), int64(n)+blockSize-within)]
		if _, err := c.s.f.ReadAt(part, c.blocks[i]*blockSize+within); err != nil {
			return n, fmt.Errorf("%w: %w", errSpool, err)
		}
		n += len(part)
	}
	return n, nil
}

// release gives back what c holds.
func (c *content) release() {
	c.s.giveBack(c.blocks...)
	c.blocks, c.tail, c.size = nil, nil, 0
}
