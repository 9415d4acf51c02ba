package file

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"millrace/connectors"
)

// openRegular opens a regular file for reading. A pipe or a device is refused, and
// not waited for.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = irregular(path, fi)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// siblings are the regular files beside path whose names begin as its own does, the
// newest first. Links are left out: what they point to is not beside the file.
func siblings(path string) ([]os.FileInfo, error) {
	dir, base := filepath.Split(path)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []os.FileInfo
	for _, e := range entries {
		if e.Name() == base || !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), stem) {
			continue
		}
		if fi, err := e.Info(); err == nil { // else it was just taken away
			out = append(out, fi)
		}
	}
	slices.SortFunc(out, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	return out, nil
}

// findRotated opens the file beside path that holds what was read up to p: the
// renamed file or a copy. current is the path's own file, nil where there is none.
// With itself only the file of the place's own inode counts. A nil file says that
// there is no such one.
func findRotated(files connectors.Files, path string, p place, current os.FileInfo, itself bool) (*os.File, string, error) {
	all, err := siblings(path)
	if err != nil {
		return nil, "", err
	}
	slices.SortStableFunc(all, func(a, b os.FileInfo) int { // the file itself before its copies
		return cmp.Compare(btoi(inodeOf(b) == p.inode), btoi(inodeOf(a) == p.inode))
	})
	for _, fi := range all {
		if itself && inodeOf(fi) != p.inode {
			break // they stand first
		}
		if fi.Size() < p.pos || current != nil && os.SameFile(fi, current) {
			continue
		}
		name := filepath.Join(filepath.Dir(path), fi.Name())
		if _, err := files.Check(name); err != nil {
			continue
		}
		f, _, err := openRegular(name)
		if err != nil {
			continue // gone, or not for us
		}
		if same, err := p.matches(f); err == nil && same {
			return f, name, nil
		}
		f.Close()
	}
	return nil, "", nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rotatedAfter are the files beside path, oldest first, that were rotated away after
// done was: they have its name with a number or a date behind it, were written later,
// and are no copies of it.
func rotatedAfter(files connectors.Files, path string, done *os.File, current os.FileInfo) ([]string, error) {
	doneInfo, err := done.Stat()
	if err != nil {
		return nil, err
	}
	all, err := siblings(path)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(path)
	ext := filepath.Ext(base)
	dated, err := regexp.Compile(`^(?:` + regexp.QuoteMeta(base) + `[._-]?\d[\d._:T-]*|` +
		regexp.QuoteMeta(strings.TrimSuffix(base, ext)) + `[._-]\d[\d._:T-]*` + regexp.QuoteMeta(ext) + `)$`)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, fi := range slices.Backward(all) {
		if !fi.ModTime().After(doneInfo.ModTime()) || !dated.MatchString(fi.Name()) ||
			os.SameFile(fi, doneInfo) || os.SameFile(fi, current) {
			continue
		}
		name := filepath.Join(filepath.Dir(path), fi.Name())
		if _, err := files.Check(name); err != nil {
			continue
		}
		if copied, err := beginsAlike(name, done); err != nil || copied {
			continue
		}
		out = append(out, name)
	}
	return out, nil
}

// beginsAlike reports whether the named file begins as done does.
func beginsAlike(name string, done *os.File) (bool, error) {
	f, _, err := openRegular(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var a, b [headBytes]byte
	n, _ := f.ReadAt(a[:], 0)
	m, _ := done.ReadAt(b[:], 0)
	short := min(n, m)
	return short > 0 && string(a[:short]) == string(b[:short]), nil
}
