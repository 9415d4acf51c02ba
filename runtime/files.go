package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millrace/connectors"
	"millrace/runtime/provider"
)

// FileRoots says which files connectors may open: those below its folders, without
// the files that are kept from them. It is immutable.
type FileRoots struct {
	roots  []string // cleaned, absolute, links followed
	pairs  []rootPair
	hidden map[string]bool
}

var (
	_ connectors.Files = (*FileRoots)(nil)
	_ provider.Files   = (*FileRoots)(nil)
)

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
		given, err := filepath.Abs(r)
		if err != nil {
			return nil, fmt.Errorf("file root %s: %w", r, err)
		}
		f.roots = append(f.roots, abs)
		f.pairs = append(f.pairs, rootPair{given, abs})
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

// Open implements provider.Files. The path is followed link by link, and never to where nothing may be opened: so
// it shows of nothing outside whether it is there. What was checked is what is opened, even if links change meanwhile.
func (f *FileRoots) Open(path string, roots []string) (*os.File, error) {
	outside := &provider.OutsideError{Path: path}
	if strings.ContainsRune(path, 0) {
		return nil, outside
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	allowed := f.pairs
	if len(roots) > 0 {
		allowed = nil
		for _, r := range roots {
			real, err := filepath.EvalSymlinks(r)
			if err != nil {
				return nil, fmt.Errorf("allowed path %s: %w", r, err)
			}
			allowed = append(allowed, rootPair{filepath.Clean(r), real})
		}
	}
	root, rel, err := follow(abs, allowed)
	if errors.Is(err, errLeft) {
		return nil, outside
	}
	if err != nil {
		return nil, err
	}
	for at := filepath.Join(root, rel); ; at = filepath.Dir(at) {
		if f.hidden[at] {
			return nil, outside
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	irregular := fmt.Errorf("%s is no regular file; folders, pipes and devices are not read", path)
	if fi, err := os.Lstat(filepath.Join(root, rel)); err == nil && !fi.Mode().IsRegular() {
		return nil, irregular // to open a device may do something
	}
	file, err := openBelow(root, rel)
	if err != nil {
		return nil, err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = irregular
	}
	for h := range f.hidden { // by another name
		if own, herr := os.Stat(h); err == nil && herr == nil && os.SameFile(own, fi) {
			err = outside
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// rootPair is a root as it was given and with its links followed.
type rootPair struct{ given, real string }

var errLeft = errors.New("the path leads out of the allowed folders")

// maxLinks bounds the links that a path may go through.
const maxLinks = 40

// follow walks a path and returns the root below which it ends, and the rest, without links. It looks at nothing
// that is not below a root.
func follow(path string, roots []rootPair) (root, rel string, err error) {
	under := func(p string) (root, rest string, ok bool) {
		for _, r := range roots {
			for _, base := range []string{r.given, r.real} {
				if p == base {
					return r.real, "", true
				}
				if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(base, "/")+"/"); ok {
					return r.real, rest, true
				}
			}
		}
		return "", "", false
	}
	root, rest, ok := under(filepath.Clean(path))
	if !ok {
		return "", "", errLeft
	}
	at, todo := "", strings.Split(rest, "/")
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		if part == "" || part == "." {
			continue
		}
		next := filepath.Join(root, at, part) // .. goes up from where the links have led
		up, down, ok := under(next)
		if !ok {
			return "", "", errLeft
		}
		if part == ".." {
			root, at = up, down
			continue
		}
		fi, err := os.Lstat(next)
		if err != nil {
			return "", "", err
		}
		if fi.Mode()&os.ModeSymlink == 0 {
			at = filepath.Join(at, part)
			continue
		}
		if links++; links > maxLinks {
			return "", "", fmt.Errorf("%s: too many links", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", "", err
		}
		if !filepath.IsAbs(target) {
			todo = append(strings.Split(target, "/"), todo...)
			continue
		}
		// An absolute link begins anew, and must begin below a root. What its own parts go
		// through is followed like the rest; cleaning it first would pass over links.
		var below string
		if root, below, ok = under(target); !ok {
			return "", "", errLeft
		}
		at, todo = "", append(strings.Split(below, "/"), todo...)
	}
	return root, at, nil
}

// openBelow opens a file below a root, by the system's own means so that a link that was put there meanwhile leads
// nowhere else. A pipe without a writer does not block.
func openBelow(root, rel string) (*os.File, error) {
	if rel == "" { // the root is itself a file
		return os.OpenFile(root, os.O_RDONLY|nonblock|nofollow, 0)
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(rel, os.O_RDONLY|nonblock|nofollow, 0)
}
