package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millrace/connectors"
)

// FileRoots says which files connectors may open: those below its folders, without
// the files that are kept from them. It is immutable.
type FileRoots struct {
	roots  []string // cleaned, absolute, links followed
	hidden map[string]bool
}

var _ connectors.Files = (*FileRoots)(nil)

// NewFileRoots allows what lies below the roots; "/" allows all. What is hidden (a
// worker's own properties, which hold secrets; the folder of its log, which a sink
// would destroy), with all below it, is refused wherever it lies.
func NewFileRoots(roots, hidden []string) (*FileRoots, error) {
	f := &FileRoots{hidden: map[string]bool{}}
	for _, r := range roots {
		abs, err := resolve(r)
		if err != nil {
			return nil, fmt.Errorf("file root %s: %w", r, err)
		}
		f.roots = append(f.roots, abs)
	}
	for _, h := range hidden {
		abs, err := resolve(h)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", h, err)
		}
		f.hidden[abs] = true
	}
	return f, nil
}

// Check implements connectors.Files.
func (f *FileRoots) Check(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("file %q: a path holds no NUL", path)
	}
	abs, err := resolve(path)
	if err != nil {
		return "", fmt.Errorf("file %s: %w", path, err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		if f.hidden[at] {
			return "", fmt.Errorf("file %s belongs to the worker's own configuration or log, which no connector may open; name another file", path)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	for _, root := range f.roots {
		if root == abs || root == string(filepath.Separator) || strings.HasPrefix(abs, root+string(filepath.Separator)) {
			return abs, nil
		}
	}
	return "", fmt.Errorf("file %s lies outside the allowed folders (%s); move it there, or allow its folder with file.roots in the worker's configuration or --file-root",
		path, strings.Join(f.roots, ", "))
}

// resolve makes a path absolute and follows its links as far as it exists, so that
// neither .. nor a link leads out of a root. What does not exist yet is kept by name.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := abs; ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !os.IsNotExist(err) {
			return "", err
		}
		if fi, lerr := os.Lstat(at); lerr == nil && fi.Mode()&os.ModeSymlink != 0 {
			return "", fmt.Errorf("%s is a link to a file that does not exist", at)
		}
		up := filepath.Dir(at)
		if up == at {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
		at = up
	}
}
