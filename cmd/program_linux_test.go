package cmd

import (
	"os"
	"strconv"
	"strings"
	"testing"
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
	before := mapped()
	if err := unmapProgram(); err != nil {
		t.Fatal(err)
	}
	if after := mapped(); after > before/2 {
		t.Errorf("%d KiB are mapped where %d were, want less than half", after, before)
	}
}
