package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	goruntime "runtime"
)

func TestALookSeesWhateverHappensToAFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"it is written to":            func(p string) error { return appendTo(p, "more\n") },
		"it is written anew":          func(p string) error { return os.WriteFile(p, []byte("line\n"), 0o644) },
		"it is truncated":             func(p string) error { return os.Truncate(p, 1) },
		"another is put in its place": func(p string) error { return replaced(p, "line\n") },
		"it is renamed":               func(p string) error { return os.Rename(p, p+".1") },
		"it is removed":               os.Remove,
		"its time is set": func(p string) error {
			return os.Chtimes(p, time.Time{}, time.Now().Add(-time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, []byte("line\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path) // as the follower has it, so that nothing else gets its inode
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			fi, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a look changes nothing
				if !untouched(path, fi) {
					t.Error("seen before anything happens")
				}
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			if untouched(path, fi) {
				t.Error("not seen")
			}
		})
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// replaced puts a file of the same size and time in another's place.
func replaced(path, text string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.Chtimes(path+".new", fi.ModTime(), fi.ModTime()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func TestALookCostsHardlyAnyMemory(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("os.Stat is what there is on " + goruntime.GOOS)
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { untouched(path, fi) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
