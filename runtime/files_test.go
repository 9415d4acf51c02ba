package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileRoots(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	write := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inside, outside, secret := write(filepath.Join(root, "a", "in.txt")), write(filepath.Join(other, "out.txt")), write(filepath.Join(root, "worker.properties"))
	link := filepath.Join(root, "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	dirLink := filepath.Join(root, "dir")
	if err := os.Symlink(other, dirLink); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(root, "dangling")
	if err := os.Symlink(filepath.Join(other, "new.txt"), dangling); err != nil {
		t.Fatal(err)
	}
	f, err := NewFileRoots([]string{root}, []string{secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		ok         bool
	}{
		{"a file in the root", inside, true},
		{"a file that does not exist yet", filepath.Join(root, "b", "c.txt"), true},
		{"the root itself", root, true},
		{"a file outside", outside, false},
		{"dots that lead out", filepath.Join(root, "..", filepath.Base(other), "out.txt"), false},
		{"dots that stay inside", filepath.Join(root, "a", "..", "x"), true},
		{"a link that leads out", link, false},
		{"a folder's link that leads out", filepath.Join(dirLink, "out.txt"), false},
		{"a new file behind such a link", filepath.Join(dirLink, "new.txt"), false},
		{"a link to nothing", dangling, false},
		{"a folder whose name begins like the root", root + "x/file", false},
		{"the worker's own properties", secret, false},
		{"a file below a folder that is kept from connectors", filepath.Join(secret, "x"), false},
		{"a NUL", inside + "\x00", false},
	} {
		got, err := f.Check(c.path)
		if (err == nil) != c.ok {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		if err != nil && !strings.Contains(c.path, "\x00") && !strings.Contains(err.Error(), filepath.Base(c.path)) {
			t.Errorf("%s: the error does not name the file: %v", c.name, err)
		}
	}
	if _, err := f.Check(outside); !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), "file.roots") {
		t.Errorf("the error names neither the roots nor the remedy: %v", err)
	}
	all, err := NewFileRoots([]string{"/"}, []string{secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Check(outside); err != nil {
		t.Errorf("/ allows all: %v", err)
	}
	if _, err := all.Check(secret); err == nil {
		t.Error("/ allows the worker's own properties")
	}
}
