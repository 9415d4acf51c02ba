package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"millrace/schema/config"
	"millrace/schema/plugin"
)

var allowedPaths = config.Key[[]string]{Name: "allowed.paths", Doc: "Folders and files, by absolute paths, that this provider may read, in place of the worker's file.roots. Links are followed before the check.", EmptyDefault: true, Check: absolutePaths}

// File is the provider of the entries of properties files: ${file:/path/to.properties:key}.
var File = Plugin{
	Info: plugin.Info{
		Name: "file", Class: "org.apache.kafka.common.config.provider.FileConfigProvider", Version: "4.3.1",
		Doc:    "Config provider: entries of Java properties files, `${file:/path/to.properties:key}`.",
		Config: config.Define(allowedPaths),
	},
	New: func(c Context, v config.Values) (Provider, error) { return &files{c.Files, allowedPaths.Get(v)}, nil },
}

// Directory is the provider of files' contents: ${directory:/path:filename}.
var Directory = Plugin{
	Info: plugin.Info{
		Name: "directory", Class: "org.apache.kafka.common.config.provider.DirectoryConfigProvider", Version: "4.3.1",
		Doc:    "Config provider: whole files of a folder, such as mounted secrets, `${directory:/path:filename}`.",
		Config: config.Define(allowedPaths),
	},
	New: func(c Context, v config.Values) (Provider, error) {
		return &directory{files{c.Files, allowedPaths.Get(v)}}, nil
	},
}

func absolutePaths(paths []string) error {
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("path %q is not absolute", p)
		}
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("path %q does not exist or cannot be read", p)
		}
	}
	return nil
}

type files struct {
	open  Files
	roots []string
}

// read reads a whole file.
func (f *files) read(path string) ([]byte, error) {
	file, err := f.open.Open(path, f.roots)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxBytes {
		return nil, fmt.Errorf("file %s has more than %d bytes, which is more than a provider reads", path, maxBytes)
	}
	return b, nil
}

// Get implements Provider.
func (f *files) Get(_ context.Context, path string, keys []string) (Data, error) {
	d := Data{Values: map[string]string{}}
	if path == "" {
		return d, nil
	}
	b, err := f.read(path)
	if err != nil {
		return d, readError(path, err)
	}
	all, err := ParseProperties(b)
	if err != nil {
		// What is wrong with it would show what is in it.
		return d, fmt.Errorf("Could not read properties from file %s: it is no properties file", path)
	}
	for _, k := range keys {
		if v, ok := all[k]; ok {
			d.Values[k] = v
		}
	}
	return d, nil
}

func readError(path string, err error) error {
	var outside *OutsideError
	var sys *fs.PathError
	switch {
	case errors.As(err, &outside):
		return outside
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("Could not read properties from file %s: it does not exist", path)
	case errors.As(err, &sys):
		return fmt.Errorf("Could not read properties from file %s: %w", path, sys.Err)
	}
	return fmt.Errorf("Could not read properties from file %s: %w", path, err)
}

// OutsideError refuses what lies outside of the folders that may be read.
type OutsideError struct{ Path string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%s lies outside the folders that this provider may read; name its folder in the provider's param.allowed.paths, or in file.roots, in the worker's configuration", e.Path)
}

type directory struct{ files }

// Get implements Provider. A key is the name of a file.
func (d *directory) Get(_ context.Context, path string, keys []string) (Data, error) {
	out := Data{Values: map[string]string{}}
	if path == "" {
		return out, nil
	}
	for _, k := range keys {
		at := path + string(filepath.Separator) + k
		b, err := d.read(at)
		var outside *OutsideError
		switch {
		case errors.As(err, &outside):
			return out, outside
		case strings.ContainsRune(k, filepath.Separator), k == "", k == ".":
			continue // no name of a file
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			var sys *fs.PathError
			if errors.As(err, &sys) {
				err = sys.Err
			}
			return out, fmt.Errorf("Could not read file %s for property %s: %w", at, k, err)
		}
		out.Values[k] = string(b)
	}
	return out, nil
}
