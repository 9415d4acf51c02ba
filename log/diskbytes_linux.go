package log

import (
	"bytes"
	"os"
	"strconv"
)

// diskBytes is what this process had read from and written to disks, as the kernel counts.
func diskBytes() (read, written int64, ok bool) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, 0, false
	}
	field := func(name string) int64 {
		_, rest, found := bytes.Cut(b, []byte("\n"+name+": "))
		if !found {
			ok = false
			return 0
		}
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		n, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil {
			ok = false
		}
		return n
	}
	ok = true
	read, written = field("read_bytes"), field("write_bytes")
	return read, written, ok
}
