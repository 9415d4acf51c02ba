package cmd

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram lets go of the pages of the program's own file. The start touches nearly all of them, once: every package
// initialises itself, and the kernel maps 64 KiB around each page. What is used again is mapped again from the system's cache,
// where all of it stays. Mappings that could hold more than the file does are left alone: those that can be written, and those that
// were changed when the program was loaded.
func unmapProgram() error {
	return adviseProgram(unix.MADV_DONTNEED)
}

// adviseProgram tells the kernel something of these mappings.
func adviseProgram(advice uintptr) error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	var from, to uint64 // of the mapping whose lines are read; from is 0 where it is not the program's or not to be touched
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) >= 5 && strings.Contains(words[0], "-"): // 00400000-018ab000 r-xp 00000000 fe:00 42 /usr/bin/millrace
			from = 0
			if strings.HasSuffix(lines.Text(), " "+self) && !strings.Contains(words[1], "w") {
				if _, err := fmt.Sscanf(words[0], "%x-%x", &from, &to); err != nil {
					return fmt.Errorf("/proc/self/smaps: %q: %w", lines.Text(), err)
				}
			}
		case from != 0 && len(words) == 3 && words[0] == "Anonymous:": // 0 kB
			if changed, err := strconv.ParseUint(words[1], 10, 64); err != nil || changed != 0 {
				continue
			}
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), advice); errno != 0 {
				return fmt.Errorf("madvise: %w", errno)
			}
		}
	}
	return lines.Err()
}
