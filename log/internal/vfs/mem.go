package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory. NewMem makes a plain one, for logs that need
// no disk. NewCrashable makes one that also remembers what of it is durable, so
// that Crash can say what a power loss leaves (crash.go).
//
// Both take faults: Inject fails chosen calls, SetCapacity bounds the space.
type Mem struct {
	crashable bool
	boot      string

	mu    sync.Mutex // guards all below, and every node's fields
	root  *node
	locks map[string][]byte
	reads map[string]int // how many hold LockRead
	used  int64          // bytes in pages, reserved ones included
	cap   int64
	fault func(Op, string) *Fault
	dead  error // set by Crash and Kill: every call fails with it
}

var _ FS = (*Mem)(nil)

// Op names a call for Inject.
type Op string

// The calls that Inject sees.
const (
	OpCreate   Op = "create"
	OpOpen     Op = "open"
	OpRemove   Op = "remove"
	OpRename   Op = "rename"
	OpMkdir    Op = "mkdir"
	OpSyncDir  Op = "syncdir"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpReserve  Op = "reserve"
	OpTruncate Op = "truncate"
)

// Fault is what an injected failure does.
type Fault struct {
	Err error
	// Short is how many bytes a failing write leaves behind, at most all but one.
	Short int
}

// ErrDead is what calls on a Mem return after its Crash or Kill.
var ErrDead = errors.New("vfs: this process is dead")

const memPage = 4096

// node is a file or a directory.
type node struct {
	dir     map[string]*node // nil for a file
	data    []byte
	reserve int64 // bytes set aside from 0, 0 for none
	mod     time.Time
	track   *tracked // nil when not crashable
}

// NewMem makes an empty file system of practically unlimited capacity.
func NewMem() *Mem {
	return &Mem{boot: "boot-0", root: &node{dir: map[string]*node{}}, locks: map[string][]byte{}, reads: map[string]int{}, cap: 1 << 50}
}

// NewCrashable makes one that can Crash. It costs a copy of the durable bytes.
func NewCrashable() *Mem {
	m := NewMem()
	m.crashable = true
	m.root.track = newTracked(true)
	return m
}

// SetCapacity bounds the space: writes and reservations beyond fail with ENOSPC.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cap = bytes
}

// Inject makes f decide on every call: nil lets it pass. f runs under a lock and
// must not call back. A nil f ends it. A failing Sync loses what it should have
// made durable, and the next one succeeds without it, as on Linux; unless its
// error is ErrDead, which stands for a process that died before the call.
func (m *Mem) Inject(f func(op Op, name string) *Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// enter is the head of every call: dead process, injected fault.
func (m *Mem) enter(op Op, name string) error {
	if m.dead != nil {
		return m.dead
	}
	if m.fault != nil && op != OpWrite && op != OpSync {
		if f := m.fault(op, name); f != nil {
			return &fs.PathError{Op: string(op), Path: name, Err: f.Err}
		}
	}
	return nil
}

func pathError(op Op, name string, err error) error {
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}

// find returns the node of name, and its parent with the last element.
func (m *Mem) find(name string) (n, parent *node, last string) {
	n, last = m.root, ""
	for _, el := range strings.Split(strings.Trim(path.Clean(name), "/"), "/") {
		if el == "" || el == "." {
			continue
		}
		if n == nil || n.dir == nil {
			return nil, nil, el
		}
		parent, last = n, el
		n = n.dir[el]
	}
	return n, parent, last
}

func (m *Mem) newNode(dir bool) *node {
	n := &node{mod: time.Now()}
	if dir {
		n.dir = map[string]*node{}
	}
	if m.crashable {
		n.track = newTracked(dir)
	}
	return n
}

// set changes a name in a directory; nil removes it.
func (d *node) set(name string, n *node) {
	if n == nil {
		delete(d.dir, name)
	} else {
		d.dir[name] = n
	}
}

func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpCreate, name); err != nil {
		return nil, err
	}
	n, parent, last := m.find(name)
	if n != nil {
		return nil, pathError(OpCreate, name, fs.ErrExist)
	}
	if parent == nil {
		return nil, pathError(OpCreate, name, fs.ErrNotExist)
	}
	n = m.newNode(false)
	parent.set(last, n)
	parent.logNames(nameOp{set: map[string]*node{last: n}})
	return &memFile{m: m, n: n, name: name, write: true}, nil
}

func (m *Mem) Open(name string) (File, error)      { return m.open(name, false) }
func (m *Mem) OpenWrite(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpOpen, name); err != nil {
		return nil, err
	}
	n, _, _ := m.find(name)
	if n == nil {
		return nil, pathError(OpOpen, name, fs.ErrNotExist)
	}
	if n.dir != nil {
		return nil, pathError(OpOpen, name, syscall.EISDIR)
	}
	return &memFile{m: m, n: n, name: name, write: write}, nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpRemove, name); err != nil {
		return err
	}
	n, parent, last := m.find(name)
	if n == nil || parent == nil {
		return pathError(OpRemove, name, fs.ErrNotExist)
	}
	if len(n.dir) > 0 {
		return pathError(OpRemove, name, syscall.ENOTEMPTY)
	}
	m.unlink(parent, last, n)
	return nil
}

func (m *Mem) unlink(parent *node, last string, n *node) {
	parent.set(last, nil)
	parent.logNames(nameOp{set: map[string]*node{last: nil}})
	m.used -= n.pages()
	n.reserve = 0
}

func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpRemove, name); err != nil {
		return err
	}
	n, parent, last := m.find(name)
	if n == nil {
		return nil
	}
	if parent == nil {
		return pathError(OpRemove, name, syscall.EINVAL)
	}
	m.clear(n)
	m.unlink(parent, last, n)
	return nil
}

func (m *Mem) clear(n *node) {
	for name, child := range n.dir {
		m.clear(child)
		m.unlink(n, name, child)
	}
}

// Rename works within one directory, which is all the log asks for.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpRename, oldName); err != nil {
		return err
	}
	n, parent, from := m.find(oldName)
	if n == nil {
		return pathError(OpRename, oldName, fs.ErrNotExist)
	}
	old, newParent, to := m.find(newName)
	if newParent != parent || parent == nil {
		return pathError(OpRename, oldName, syscall.EXDEV)
	}
	if old != nil && len(old.dir) > 0 {
		return pathError(OpRename, newName, syscall.ENOTEMPTY)
	}
	if old == n {
		return nil
	}
	if old != nil {
		m.used -= old.pages()
		old.reserve = 0
	}
	parent.set(from, nil)
	parent.set(to, n)
	parent.logNames(nameOp{set: map[string]*node{from: nil, to: n}})
	return nil
}

func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mkdir(name)
}

func (m *Mem) mkdir(name string) error {
	if err := m.enter(OpMkdir, name); err != nil {
		return err
	}
	n, parent, last := m.find(name)
	if n != nil {
		return pathError(OpMkdir, name, fs.ErrExist)
	}
	if parent == nil {
		return pathError(OpMkdir, name, fs.ErrNotExist)
	}
	n = m.newNode(true)
	parent.set(last, n)
	parent.logNames(nameOp{set: map[string]*node{last: n}})
	return nil
}

func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if n, _, _ := m.find(name); n != nil {
		if n.dir == nil {
			return pathError(OpMkdir, name, syscall.ENOTDIR)
		}
		return nil
	}
	var made string
	for _, el := range strings.Split(strings.Trim(name, "/"), "/") {
		parent := made
		made = path.Join(made, el)
		if n, _, _ := m.find(made); n != nil {
			continue
		}
		if err := m.mkdir(made); err != nil {
			return err
		}
		if p, _, _ := m.find(parent); p != nil {
			p.syncNames()
		}
	}
	return nil
}

func (m *Mem) List(dir string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpOpen, dir); err != nil {
		return nil, err
	}
	n, _, _ := m.find(dir)
	if n == nil {
		return nil, pathError(OpOpen, dir, fs.ErrNotExist)
	}
	if n.dir == nil {
		return nil, pathError(OpOpen, dir, syscall.ENOTDIR)
	}
	out := make([]fs.DirEntry, 0, len(n.dir))
	for name, c := range n.dir {
		out = append(out, fs.FileInfoToDirEntry(c.info(name)))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpOpen, name); err != nil {
		return nil, err
	}
	n, _, last := m.find(name)
	if n == nil {
		return nil, pathError(OpOpen, name, fs.ErrNotExist)
	}
	return n.info(last), nil
}

func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpSyncDir, dir); err != nil {
		return err
	}
	n, _, _ := m.find(dir)
	if n == nil {
		return pathError(OpSyncDir, dir, fs.ErrNotExist)
	}
	n.syncNames()
	return nil
}

func (m *Mem) Lock(name string, content []byte) (io.Closer, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpOpen, name); err != nil {
		return nil, nil, err
	}
	if holder, held := m.locks[name]; held {
		return nil, holder, ErrLocked
	}
	if m.reads[name] > 0 {
		return nil, nil, ErrLocked
	}
	n, parent, last := m.find(name)
	if n == nil {
		if parent == nil {
			return nil, nil, pathError(OpOpen, name, fs.ErrNotExist)
		}
		n = m.newNode(false)
		parent.set(last, n)
		parent.logNames(nameOp{set: map[string]*node{last: n}})
	}
	if err := m.resize(n, 0); err != nil {
		return nil, nil, err
	}
	if _, err := m.writeAt(n, content, 0); err != nil {
		return nil, nil, err
	}
	m.locks[name] = slices.Clone(content)
	return memLock{m, name}, nil, nil
}

type memLock struct {
	m    *Mem
	name string
}

func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.name)
	return nil
}

func (m *Mem) LockRead(name string) (io.Closer, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(OpOpen, name); err != nil {
		return nil, nil, err
	}
	if holder, held := m.locks[name]; held {
		return nil, holder, ErrLocked
	}
	if n, _, _ := m.find(name); n == nil {
		return nil, nil, pathError(OpOpen, name, fs.ErrNotExist)
	}
	m.reads[name]++
	return memReadLock{m, name}, nil, nil
}

type memReadLock memLock

func (l memReadLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.reads[l.name]--
	return nil
}

func (m *Mem) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Space{Free: m.cap - m.used, Total: m.cap}, m.dead
}

func (m *Mem) BootID() string     { return m.boot }
func (m *Mem) Kind(string) string { return "mem" }

// pages is the space a file takes.
func (n *node) pages() int64 {
	size := max(int64(len(n.data)), n.reserve)
	return (size + memPage - 1) / memPage * memPage
}

func (n *node) info(name string) memInfo {
	return memInfo{name: name, size: int64(len(n.data)), dir: n.dir != nil, mod: n.mod}
}

// resize sets the size, within the capacity.
func (m *Mem) resize(n *node, size int64) error {
	before := n.pages()
	after := (max(size, n.reserve) + memPage - 1) / memPage * memPage
	if after > before && m.used+after-before > m.cap {
		return syscall.ENOSPC
	}
	old := int64(len(n.data))
	if size <= old {
		clear(n.data[size:old])
		n.data = n.data[:size]
	} else {
		n.data = slices.Grow(n.data, int(size-old))[:size]
		clear(n.data[old:])
	}
	m.used += n.pages() - before
	n.sized(size)
	return nil
}

func (m *Mem) writeAt(n *node, b []byte, off int64) (int, error) {
	if end := off + int64(len(b)); end > int64(len(n.data)) {
		if err := m.resize(n, end); err != nil {
			return 0, err
		}
	}
	copy(n.data[off:], b)
	n.mod = time.Now()
	n.dirtied(off, int64(len(b)))
	return len(b), nil
}

type memFile struct {
	m      *Mem
	n      *node
	name   string
	write  bool
	closed bool
}

func (f *memFile) begin(op Op, write bool) error {
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if write && !f.write {
		return pathError(op, f.name, fs.ErrPermission)
	}
	return f.m.enter(op, f.name)
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.begin(OpRead, false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError(OpRead, f.name, syscall.EINVAL)
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.begin(OpWrite, true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError(OpWrite, f.name, syscall.EINVAL)
	}
	if f.m.fault != nil {
		if ft := f.m.fault(OpWrite, f.name); ft != nil {
			n, _ := f.m.writeAt(f.n, b[:max(0, min(ft.Short, len(b)-1))], off)
			return n, pathError(OpWrite, f.name, ft.Err)
		}
	}
	n, err := f.m.writeAt(f.n, b, off)
	if err != nil {
		return n, pathError(OpWrite, f.name, err)
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.begin(OpTruncate, true); err != nil {
		return err
	}
	before := f.n.pages()
	f.n.reserve = 0
	f.m.used += f.n.pages() - before
	if err := f.m.resize(f.n, size); err != nil {
		return pathError(OpTruncate, f.name, err)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), f.begin(OpRead, false)
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.begin(OpSync, true); err != nil {
		return err
	}
	if f.m.fault != nil {
		if ft := f.m.fault(OpSync, f.name); ft != nil {
			if ft.Err != ErrDead {
				f.n.lose()
			}
			return pathError(OpSync, f.name, ft.Err)
		}
	}
	f.n.sync()
	return nil
}

func (f *memFile) Reserve(off, n int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.begin(OpReserve, true); err != nil {
		return err
	}
	before, old := f.n.pages(), f.n.reserve
	f.n.reserve = max(f.n.reserve, off+n)
	if grow := f.n.pages() - before; f.m.used+grow > f.m.cap {
		f.n.reserve = old
		return pathError(OpReserve, f.name, syscall.ENOSPC)
	}
	f.m.used += f.n.pages() - before
	return nil
}

func (f *memFile) DropCache() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.begin(OpRead, false); err != nil {
		return err
	}
	f.n.dropCache()
	return nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return nil
}

func (f *memFile) Name() string { return f.name }

type memInfo struct {
	name string
	size int64
	dir  bool
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o750
	}
	return 0o640
}

func (m *Mem) String() string { return fmt.Sprintf("vfs.Mem(%s)", m.boot) }
