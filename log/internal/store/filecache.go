package store

import (
	"container/list"
	"io/fs"
	"sync"
	"sync/atomic"

	"millrace/log/internal/vfs"
)

// fileCache bounds the number of open files. A file that is pinned stays open;
// of the others the least recently used are closed.
type fileCache struct {
	fs  vfs.FS
	max int

	over       atomic.Bool  // too many are open: unpin closes
	indexBytes atomic.Int64 // of sealed segments' indexes that are in memory

	mu   sync.Mutex // guards lru and every cachedFile's elem; taken before a cachedFile's mu
	lru  list.List  // of *cachedFile, most recent first
	open int
}

// maxIndexBytes bounds the indexes kept in memory beside the active ones.
const maxIndexBytes = 32 << 20

// cachedFile is a file that is opened when somebody pins it.
type cachedFile struct {
	cache *fileCache
	name  string

	mu      sync.Mutex // guards f and pins
	f       vfs.File
	pins    int
	gone    bool   // drop was called: close with the last pin
	onClose func() // under mu; forgets what is kept along with the open file

	elem *list.Element
}

func newFileCache(fsys vfs.FS, max int) *fileCache { return &fileCache{fs: fsys, max: max} }

// pin returns the open file; unpin lets go of it.
func (c *cachedFile) pin() (vfs.File, error) {
	c.mu.Lock()
	opened := false
	if c.f == nil && c.gone {
		c.mu.Unlock()
		return nil, fs.ErrNotExist // another file may have the name by now
	}
	if c.f == nil {
		f, err := c.cache.fs.OpenWrite(c.name)
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		c.f, opened = f, true
	}
	c.pins++
	f := c.f
	c.mu.Unlock()
	c.cache.touch(c, opened)
	return f, nil
}

// adopt hands an open file to the cache, pinned once.
func (c *cachedFile) adopt(f vfs.File) {
	c.mu.Lock()
	c.f, c.pins = f, c.pins+1
	c.mu.Unlock()
	c.cache.touch(c, true)
}

// repin adds a pin to a file that the caller has pinned.
func (c *cachedFile) repin() {
	c.mu.Lock()
	c.pins++
	c.mu.Unlock()
}

func (c *cachedFile) unpin() {
	c.mu.Lock()
	c.pins--
	idle := c.pins == 0
	closing := c.gone && idle
	c.mu.Unlock()
	if closing {
		c.close()
	} else if idle && c.cache.over.Load() {
		c.cache.mu.Lock()
		c.cache.shrink()
		c.cache.mu.Unlock()
	}
}

// drop closes the file as soon as nobody has it pinned. It may not be pinned anew.
func (c *cachedFile) drop() {
	c.mu.Lock()
	c.gone = true
	idle := c.pins == 0
	c.mu.Unlock()
	if idle {
		c.close()
	}
}

func (c *cachedFile) close() {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.closeLocked(c)
}

// closeLocked needs both locks. The error of closing is of no use: what had to
// be durable was synced, and files with unsynced bytes are pinned.
func (fc *fileCache) closeLocked(c *cachedFile) {
	if c.f == nil || c.pins > 0 {
		return
	}
	c.f.Close()
	c.f = nil
	if c.onClose != nil {
		c.onClose()
	}
	if c.elem != nil {
		fc.lru.Remove(c.elem)
		c.elem = nil
		fc.open--
	}
}

func (fc *fileCache) touch(c *cachedFile, opened bool) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if c.elem == nil {
		if !opened {
			return // whoever opened it is about to enter it
		}
		c.elem = fc.lru.PushFront(c)
		fc.open++
	} else if fc.lru.Front() != c.elem {
		fc.lru.MoveToFront(c.elem)
	}
	fc.shrink()
}

// shrink closes files until no more than max are open, as far as they are not pinned. It needs mu.
func (fc *fileCache) shrink() {
	for e := fc.lru.Back(); e != nil && fc.full(); {
		prev := e.Prev()
		v := e.Value.(*cachedFile)
		v.mu.Lock()
		fc.closeLocked(v)
		v.mu.Unlock()
		e = prev
	}
	fc.over.Store(fc.full())
}

func (fc *fileCache) full() bool {
	return fc.open > fc.max || fc.indexBytes.Load() > maxIndexBytes
}

// closeAll closes what is not pinned.
func (fc *fileCache) closeAll() {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	for e := fc.lru.Front(); e != nil; {
		next := e.Next()
		v := e.Value.(*cachedFile)
		v.mu.Lock()
		fc.closeLocked(v)
		v.mu.Unlock()
		e = next
	}
}
