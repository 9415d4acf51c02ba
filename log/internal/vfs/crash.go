package vfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// The power-loss model. Of what was not synced, a crash keeps
//
//   - per file: any subset of the dirty 4 KiB pages, each of them whole or torn
//     at 512 bytes, and the size after any prefix of the size changes;
//   - per directory: any subset of the changes of names; a rename is one change.
//
// Real file systems keep more order than that. Code that survives this model
// survives them.

const memSector = 512

// tracked is what of a node is durable, and what is not yet.
type tracked struct {
	// Files.
	durable []byte
	dirty   map[int64]struct{} // pages changed since the last sync
	lost    map[int64]struct{} // pages that a failed sync dropped: clean in the cache, not on disk
	sizes   []int64            // sizes since the last sync, in order
	// Directories.
	names   map[string]*node
	pending []nameOp
}

// nameOp is one atomic change of a directory: names and their new nodes, nil for none.
type nameOp struct{ set map[string]*node }

func newTracked(dir bool) *tracked {
	if dir {
		return &tracked{names: map[string]*node{}}
	}
	return &tracked{dirty: map[int64]struct{}{}, lost: map[int64]struct{}{}}
}

func (n *node) logNames(op nameOp) {
	if n.track != nil {
		n.track.pending = append(n.track.pending, op)
	}
}

func (n *node) syncNames() {
	if n.track != nil {
		n.track.names = maps.Clone(n.dir)
		n.track.pending = nil
	}
}

func (n *node) sized(size int64) {
	if n.track != nil {
		n.track.sizes = append(n.track.sizes, size)
	}
}

func (n *node) dirtied(off, length int64) {
	if n.track == nil || length == 0 {
		return
	}
	for p := off / memPage; p <= (off+length-1)/memPage; p++ {
		n.track.dirty[p] = struct{}{}
		delete(n.track.lost, p)
	}
}

func (n *node) sync() {
	t := n.track
	if t == nil {
		return
	}
	t.durable = t.settle(t.sizes)
	for p := range t.dirty {
		copyRange(t.durable, n.data, p*memPage, memPage)
	}
	clear(t.dirty)
	t.sizes = t.sizes[:0]
}

// lose is a failed sync: the pages count as clean, and are not on disk.
func (n *node) lose() {
	t := n.track
	if t == nil {
		return
	}
	t.durable = t.settle(t.sizes) // metadata went through the journal
	for p := range t.dirty {
		t.lost[p] = struct{}{}
	}
	clear(t.dirty)
	t.sizes = t.sizes[:0]
}

func (n *node) dropCache() {
	if n.track == nil {
		return
	}
	for p := range n.track.lost {
		at := p * memPage
		for i := at; i < at+memPage && i < int64(len(n.data)); i++ {
			n.data[i] = 0
		}
		copyRange(n.data, n.track.durable, at, memPage)
	}
	clear(n.track.lost)
}

// settle is the durable content after the given size changes: what a shrinking
// cut off stays cut off, growth is zeros.
func (t *tracked) settle(sizes []int64) []byte {
	size, keep := int64(len(t.durable)), int64(len(t.durable))
	for _, s := range sizes {
		size, keep = s, min(keep, s)
	}
	out := make([]byte, size)
	copy(out, t.durable[:keep])
	return out
}

func copyRange(dst, src []byte, at, n int64) {
	end := min(at+n, int64(len(dst)), int64(len(src)))
	if at < end {
		copy(dst[at:end], src[at:end])
	}
}

// Crash ends this Mem as a loss of power does and returns what the next boot
// finds; the same seed always leaves the same. Every later call on m fails.
func (m *Mem) Crash(seed uint64) *Mem {
	if !m.crashable {
		panic("vfs: Crash needs NewCrashable")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	next := &Mem{crashable: true, boot: fmt.Sprintf("boot-%x", rng.Uint64()), locks: map[string][]byte{}, reads: map[string]int{}, cap: m.cap}
	done := map[*node]*node{}
	next.root = crashNode(m.root, rng, done)
	for _, n := range done {
		next.used += n.pages()
	}
	m.dead = ErrDead
	return next
}

// Kill ends this Mem as the death of the process does: nothing is lost, locks
// are free, the boot is the same. Every later call on m fails.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &Mem{crashable: m.crashable, boot: m.boot, root: m.root, locks: map[string][]byte{}, reads: map[string]int{}, used: m.used, cap: m.cap}
	m.dead = ErrDead
	// The nodes go over to next; m only knows that it is dead.
	m.root = &node{dir: map[string]*node{}}
	return next
}

func crashNode(n *node, rng *rand.Rand, done map[*node]*node) *node {
	if c, ok := done[n]; ok {
		return c
	}
	c := &node{mod: n.mod, track: newTracked(n.dir != nil)}
	done[n] = c
	if n.dir != nil {
		names := maps.Clone(n.track.names)
		for _, op := range n.track.pending {
			if rng.IntN(2) == 0 {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(op.set)) {
				if child := op.set[name]; child == nil {
					delete(names, name)
				} else {
					names[name] = child
				}
			}
		}
		c.dir = map[string]*node{}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			c.dir[name] = crashNode(names[name], rng, done)
		}
		c.syncNames()
		return c
	}
	t := n.track
	data := t.settle(t.sizes[:rng.IntN(len(t.sizes)+1)])
	for _, p := range slices.Sorted(maps.Keys(t.dirty)) {
		switch rng.IntN(4) {
		case 0: // lost
		case 1: // torn
			for at := p * memPage; at < (p+1)*memPage; at += memSector {
				if rng.IntN(2) == 0 {
					copyRange(data, n.data, at, memSector)
				}
			}
		default:
			copyRange(data, n.data, p*memPage, memPage)
		}
	}
	c.data = data
	c.track.durable = slices.Clone(data)
	return c
}
