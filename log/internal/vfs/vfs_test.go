package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// both runs a test on the real file system and on the one in memory.
func both(t *testing.T, f func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { f(t, OS{}, t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := NewMem()
		if err := m.MkdirAll("tmp/x"); err != nil {
			t.Fatal(err)
		}
		f(t, m, "tmp/x")
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, fsys FS, dir string) string {
	t.Helper()
	es, err := fsys.List(dir)
	must(t, err)
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestBothFileSystemsBehaveAlike(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		p := func(name string) string { return filepath.Join(dir, name) }
		must(t, fsys.MkdirAll(p("a/b/c")))
		must(t, fsys.MkdirAll(p("a/b/c")))
		if err := fsys.Mkdir(p("a")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("mkdir of what exists: %v", err)
		}
		if _, err := fsys.Open(p("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of nothing: %v", err)
		}
		f, err := fsys.Create(p("f"))
		must(t, err)
		if _, err := fsys.Create(p("f")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("create of what exists: %v", err)
		}
		if n, err := f.WriteAt([]byte("hello"), 3); n != 5 || err != nil {
			t.Errorf("write: %d %v", n, err)
		}
		b := make([]byte, 20)
		if n, err := f.ReadAt(b, 0); n != 8 || err != io.EOF || string(b[:8]) != "\x00\x00\x00hello" {
			t.Errorf("read: %d %v %q", n, err, b[:n])
		}
		if n, err := f.ReadAt(b[:5], 3); n != 5 || err != nil && err != io.EOF {
			t.Errorf("read to the end: %d %v", n, err)
		}
		if _, err := f.ReadAt(b, 100); err != io.EOF {
			t.Errorf("read behind the end: %v", err)
		}
		if err := f.Reserve(0, 1<<20); err != nil && err != ErrUnsupported {
			t.Errorf("reserve: %v", err)
		}
		if n, err := f.Size(); n != 8 || err != nil {
			t.Errorf("size after reserving: %d %v", n, err)
		}
		must(t, f.Truncate(4))
		must(t, f.Truncate(6))
		if n, _ := f.ReadAt(b, 0); string(b[:n]) != "\x00\x00\x00h\x00\x00" {
			t.Errorf("after truncating: %q", b[:n])
		}
		must(t, f.Sync())
		must(t, f.DropCache())
		must(t, f.Close())
		if err := f.Sync(); err == nil {
			t.Error("sync of a closed file succeeds")
		}
		r, err := fsys.Open(p("f"))
		must(t, err)
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Error("write to a file opened for reading succeeds")
		}
		must(t, r.Close())

		must(t, WriteFileAtomic(fsys, p("g"), []byte("one")))
		must(t, WriteFileAtomic(fsys, p("g"), []byte("two")))
		if b, err := ReadFile(fsys, p("g"), 10); string(b) != "two" || err != nil {
			t.Errorf("%q %v", b, err)
		}
		if _, err := ReadFile(fsys, p("g"), 2); err == nil {
			t.Error("a file over its limit is read")
		}
		must(t, fsys.Rename(p("g"), p("f")))
		must(t, fsys.SyncDir(dir))
		if got := names(t, fsys, dir); got != "a f" {
			t.Errorf("names: %s", got)
		}
		if err := fsys.Remove(p("a")); err == nil {
			t.Error("a full directory is removed")
		}
		must(t, fsys.RemoveAll(p("a")))
		must(t, fsys.RemoveAll(p("a")))
		must(t, fsys.Remove(p("f")))
		if err := fsys.Remove(p("f")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("removed twice: %v", err)
		}

		lock, _, err := fsys.Lock(p("lock"), []byte("first"))
		must(t, err)
		if _, holder, err := fsys.Lock(p("lock"), []byte("second")); !errors.Is(err, ErrLocked) || string(holder) != "first" {
			t.Errorf("locked twice: %q %v", holder, err)
		}
		if _, holder, err := fsys.LockRead(p("lock")); !errors.Is(err, ErrLocked) || string(holder) != "first" {
			t.Errorf("locked for a reader although it is held: %q %v", holder, err)
		}
		must(t, lock.Close())
		reader, _, err := fsys.LockRead(p("lock"))
		must(t, err)
		second, _, err := fsys.LockRead(p("lock"))
		must(t, err)
		must(t, second.Close())
		if _, _, err := fsys.Lock(p("lock"), []byte("third")); !errors.Is(err, ErrLocked) {
			t.Errorf("locked although it is read: %v", err)
		}
		must(t, reader.Close())
		if b, err := ReadFile(fsys, p("lock"), 100); err != nil || string(b) != "first" {
			t.Errorf("a reader's lock changed the file to %q, %v", b, err)
		}
		if _, _, err := fsys.LockRead(p("no lock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a lock that is not there: %v", err)
		}
		lock, _, err = fsys.Lock(p("lock"), []byte("third"))
		must(t, err)
		must(t, lock.Close())
		if s, err := fsys.Space(dir); err != nil || s.Free <= 0 || s.Total < s.Free {
			t.Errorf("space: %+v %v", s, err)
		}
		if boot := fsys.BootID(); boot != fsys.BootID() {
			t.Error("the boot changes")
		}
	})
}

func TestCrashKeepsWhatWasSyncedAndNothingThatCannotBe(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(300) {
		m := NewCrashable()
		must(t, m.MkdirAll("d"))
		f, err := m.Create("d/synced")
		must(t, err)
		durable := bytes.Repeat([]byte("d"), 3*memPage)
		_, err = f.WriteAt(durable, 0)
		must(t, err)
		must(t, f.Sync())
		must(t, m.SyncDir("d"))
		_, err = f.WriteAt(bytes.Repeat([]byte("n"), 2*memPage), 2*memPage) // overwrites the third page, adds a fourth
		must(t, err)
		g, err := m.Create("d/new")
		must(t, err)
		_, err = g.WriteAt([]byte("n"), 0)
		must(t, err)
		must(t, m.Rename("d/new", "d/renamed"))

		n := m.Crash(seed)
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, ErrDead) {
			t.Fatalf("the dead write: %v", err)
		}
		b, err := ReadFile(n, "d/synced", 1<<20)
		must(t, err)
		if !bytes.Equal(b[:2*memPage], durable[:2*memPage]) || len(b) != 3*memPage && len(b) != 4*memPage {
			t.Fatalf("seed %d: %d bytes, durable part intact: %v", seed, len(b), bytes.Equal(b[:2*memPage], durable[:2*memPage]))
		}
		kinds := map[byte]bool{}
		for at := 2 * memPage; at < 3*memPage; at += memSector {
			sector := b[at : at+memSector]
			if c := sector[0]; bytes.Count(sector, []byte{c}) != memSector {
				t.Fatalf("seed %d: a sector is torn", seed)
			} else {
				kinds[c] = true
			}
		}
		outcomes[fmt.Sprintf("size %d", len(b))]++
		outcomes[fmt.Sprintf("old %v new %v", kinds['d'], kinds['n'])]++
		outcomes["names "+names(t, n, "d")]++
		if n.BootID() == m.BootID() {
			t.Fatal("the same boot after a crash")
		}
		if again := NewCrashable(); again.Crash(seed).BootID() == "" {
			t.Fatal("no boot id")
		}
	}
	for _, want := range []string{"size 12288", "size 16384", "old true new false", "old false new true", "old true new true", "names new synced", "names renamed synced", "names synced"} {
		if outcomes[want] == 0 {
			t.Errorf("%q never happened: %v", want, outcomes)
		}
	}
}

func TestTheSameSeedLeavesTheSame(t *testing.T) {
	run := func() []byte {
		m := NewCrashable()
		f, err := m.Create("f")
		must(t, err)
		must(t, m.SyncDir(""))
		for i := range 10 {
			_, err = f.WriteAt(bytes.Repeat([]byte{byte('a' + i)}, 3000), int64(i)*3000)
			must(t, err)
		}
		b, err := ReadFile(m.Crash(5), "f", 1<<20)
		must(t, err)
		return b
	}
	if a, b := run(), run(); !bytes.Equal(a, b) {
		t.Error("two crashes with one seed differ")
	}
}

func TestAFailedSyncLosesItsPagesAndTheNextOneLies(t *testing.T) {
	m := NewCrashable()
	f, err := m.Create("f")
	must(t, err)
	must(t, m.SyncDir(""))
	_, err = f.WriteAt([]byte("gone"), 0)
	must(t, err)
	m.Inject(func(op Op, _ string) *Fault {
		if op == OpSync {
			return &Fault{Err: syscall.EIO}
		}
		return nil
	})
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	m.Inject(nil)
	must(t, f.Sync())
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); string(b) != "gone" {
		t.Fatalf("the cache has %q, %v", b, err)
	}
	must(t, f.DropCache())
	if _, err := f.ReadAt(b, 0); string(b) != "\x00\x00\x00\x00" {
		t.Fatalf("the disk has %q, %v", b, err)
	}
}

func TestCapacityStrikesAtTheReservationNotAtTheWrite(t *testing.T) {
	m := NewMem()
	m.SetCapacity(10 * memPage)
	f, err := m.Create("f")
	must(t, err)
	must(t, f.Reserve(0, 8*memPage))
	g, err := m.Create("g")
	must(t, err)
	if err := g.Reserve(0, 3*memPage); !IsNoSpace(err) {
		t.Fatal(err)
	}
	if _, err := g.WriteAt(make([]byte, 3*memPage), 0); !IsNoSpace(err) {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, 8*memPage), 0)
	must(t, err)
	must(t, f.Truncate(memPage))
	_, err = g.WriteAt(make([]byte, 3*memPage), 0)
	must(t, err)
	must(t, m.Remove("g"))
	if s, _ := m.Space(""); s.Free != 9*memPage {
		t.Errorf("%d bytes free", s.Free)
	}
}

func TestFaultsAreInjectedWhereAskedFor(t *testing.T) {
	m := NewMem()
	var seen []string
	m.Inject(func(op Op, name string) *Fault {
		seen = append(seen, string(op))
		if op == OpWrite {
			return &Fault{Err: syscall.EIO, Short: 2}
		}
		return nil
	})
	f, err := m.Create("f")
	must(t, err)
	n, err := f.WriteAt([]byte("abcd"), 0)
	if n != 2 || !errors.Is(err, syscall.EIO) {
		t.Fatal(n, err)
	}
	if size, _ := f.Size(); size != 2 {
		t.Errorf("%d bytes of a short write", size)
	}
	if !slices.Equal(seen[:2], []string{"create", "write"}) {
		t.Error(seen)
	}
}

func TestAKillLosesNothingAndFreesTheLock(t *testing.T) {
	m := NewCrashable()
	if _, _, err := m.Lock("lock", nil); err != nil {
		t.Fatal(err)
	}
	f, err := m.Create("f")
	must(t, err)
	_, err = f.WriteAt([]byte("x"), 0)
	must(t, err)
	n := m.Kill()
	if b, err := ReadFile(n, "f", 10); string(b) != "x" || err != nil {
		t.Fatal(b, err)
	}
	if n.BootID() != m.BootID() {
		t.Error("another boot after a kill")
	}
	if _, _, err := n.Lock("lock", nil); err != nil {
		t.Error(err)
	}
	if _, err := f.WriteAt([]byte("y"), 0); !errors.Is(err, ErrDead) {
		t.Error(err)
	}
}
