package run

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The kernel sends a child its signal when the thread that made it ends. A server's end must not end a thread: others may have made
// children of theirs on it, before it was the server's.
func TestTheEndOfAServerEndsNobodyElsesProcesses(t *testing.T) {
	var others []*exec.Cmd
	ended := make(chan error, 20)
	for range cap(ended) {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, cmd)
		go func() { ended <- cmd.Wait() }()
	}
	for range 200 {
		p, err := spawn(exec.Command("true"), filepath.Join(t.TempDir(), "log"), syscall.SIGTERM)
		if err != nil {
			t.Fatal(err)
		}
		<-p.done
	}
	select {
	case err := <-ended:
		t.Errorf("another process ended: %v", err)
	case <-time.After(100 * time.Millisecond): // a signal that was sent has arrived
	}
	for _, cmd := range others {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
}
