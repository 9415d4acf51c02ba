//go:build !linux

package file

import "os"

// untouched reports whether path still leads to the file that fi describes, with its size and time.
func untouched(path string, fi os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && now.Size() == fi.Size() && now.ModTime().Equal(fi.ModTime()) && os.SameFile(now, fi)
}
