package cmd

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThePagesOfTheProgramAreLetGo(t *testing.T) {
	mapped := func() int { // KiB of files in this process's memory
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "RssFile:" {
				n, err := strconv.Atoi(f[1])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatal("the kernel does not say what is mapped of files")
		return 0
	}
	unmap := func() int {
		t.Helper()
		if err := unmapProgram(); err != nil {
			t.Fatal(err)
		}
		return mapped()
	}
	without := unmap()
	if err := adviseProgram(unix.MADV_POPULATE_READ); err != nil { // Linux has it from 5.14 on
		t.Fatal(err)
	}
	with := mapped()
	if with-without < 8<<10 {
		t.Fatalf("%d KiB are mapped with all of the program, %d without: it is larger than that", with, without)
	}
	if after := unmap(); with-after < (with-without)/2 { // what runs meanwhile is back
		t.Errorf("%d KiB are mapped, %d were with all of the program and %d without", after, with, without)
	}
}
