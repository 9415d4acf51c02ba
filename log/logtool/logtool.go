package logtool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// Options of all tools.
type Options struct {
	// Dir is the log's data directory, or the worker's that holds it as "log", or one partition's inside.
	Dir string
	// Partitions picks some, as "topic-0", or all of a topic, as "topic"; empty for all.
	Partitions []string
	// Progress is told what is being done, now and then; nil for nobody.
	Progress func(Progress)
	FS       vfs.FS // nil is the operating system's
	Process  string // what a process that wants the directory is told meanwhile, "millrace log repair, pid 4711"
}

// Progress is how far a tool is.
type Progress struct {
	Partition   string
	Done, Total int   // partitions
	Bytes       int64 // read
}

// InUseError says that a process serves the directory.
type InUseError struct{ Dir, Holder string }

func (e *InUseError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("%s is in use by %s: stop it first, files that are written to cannot be judged", e.Dir, holder)
}

// NotFoundError says that there is no such directory, or no such partition in it.
type NotFoundError struct{ What string }

func (e *NotFoundError) Error() string { return e.What }

// opened is a directory and the partitions that were asked for.
type opened struct {
	*store.Inspector
	dir   string
	parts []store.TopicPartition
	o     Options
	bytes int64
}

func open(o Options, write bool) (*opened, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	dir, only, err := locate(o.FS, filepath.Clean(o.Dir))
	if err != nil {
		return nil, err
	}
	wanted := o.Partitions
	if only != "" {
		wanted = append(slices.Clone(wanted), only)
	}
	in, err := store.InspectDir(o.FS, dir, write, store.Options{Process: o.Process})
	var held *store.LockedError
	switch {
	case errors.As(err, &held):
		return nil, &InUseError{dir, held.Holder}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &NotFoundError{fmt.Sprintf("there is no directory %s", dir)}
	case err != nil:
		return nil, err
	}
	op := &opened{Inspector: in, dir: dir, o: o}
	if op.parts, err = pick(in.Partitions, wanted, dir); err != nil {
		in.Close()
		return nil, err
	}
	return op, nil
}

// locate finds the data directory that is meant, and the partition if it is one's.
func locate(fsys vfs.FS, dir string) (data, only string, err error) {
	info, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", &NotFoundError{fmt.Sprintf("there is no directory %s", dir)}
	}
	if err != nil {
		return "", "", err
	}
	if !info.IsDir() {
		return "", "", fmt.Errorf("%s is a file; name the log's data directory, or a partition's", dir)
	}
	has := func(name string) bool { _, err := fsys.Stat(filepath.Join(dir, name)); return err == nil }
	if !has(".lock") && has("partition.metadata") {
		return filepath.Dir(dir), filepath.Base(dir), nil
	}
	if !has(".lock") && has(filepath.Join("log", ".lock")) {
		return filepath.Join(dir, "log"), "", nil
	}
	return dir, "", nil
}

func pick(all []store.TopicPartition, wanted []string, dir string) ([]store.TopicPartition, error) {
	if len(wanted) == 0 {
		if len(all) == 0 {
			return nil, &NotFoundError{fmt.Sprintf("%s holds no partitions; it is not the data directory of a log", dir)}
		}
		return all, nil
	}
	var out []store.TopicPartition
	for _, w := range wanted {
		n := len(out)
		for _, tp := range all {
			if tp.String() == w || tp.Topic == w {
				out = append(out, tp)
			}
		}
		if len(out) == n {
			return nil, &NotFoundError{fmt.Sprintf("%s holds no partition %q%s", dir, w, nearest(all, w))}
		}
	}
	slices.SortFunc(out, func(a, b store.TopicPartition) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out), nil
}

// nearest offers names that are meant, perhaps.
func nearest(all []store.TopicPartition, w string) string {
	var like []string
	for _, tp := range all {
		if len(like) < 5 && (strings.Contains(tp.String(), w) || strings.Contains(w, tp.Topic)) {
			like = append(like, tp.String())
		}
	}
	if like == nil {
		return ""
	}
	return "; it holds " + strings.Join(like, ", ")
}

// progress reports, and counts bytes; it ends the work when ctx ends.
func (op *opened) progress(ctx context.Context, done int, tp store.TopicPartition) func(n int64) error {
	tell := func() {
		if op.o.Progress != nil {
			op.o.Progress(Progress{tp.String(), done, len(op.parts), op.bytes})
		}
	}
	tell()
	since := int64(0)
	return func(n int64) error {
		op.bytes += n
		if since += n; since < 4<<20 {
			return nil
		}
		since = 0
		tell()
		return ctx.Err()
	}
}
