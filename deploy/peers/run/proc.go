package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process is one server. The kernel sends it dying when the thread that started it ends, and that thread is kept
// for the server's lifetime and behind it, so it ends only with this process, however that comes to its end.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}

	mu  sync.Mutex
	err error // how it ended; guarded by mu, set before done is closed
}

// spawn starts cmd with its output appended to the file log.
func spawn(cmd *exec.Cmd, log string, dying syscall.Signal) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = dying
	// A group of its own: Ctrl-C at the terminal is for us, who then stop the servers in order.
	cmd.SysProcAttr.Setpgid = true
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread() // else the thread would end here, and with it whatever others have started on it before
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end sends sig, and SIGKILL to the whole group when the process is still there after grace.
func (p *process) end(sig syscall.Signal, grace time.Duration) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-p.done
	return fmt.Errorf("%s: still there %s after %s, killed", p.cmd.Path, grace, sig)
}

// ready calls probe until it succeeds, and says with the end of the log why it never did.
func (p *process) ready(what string, limit time.Duration, probe func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := probe()
		if err == nil {
			return nil
		}
		if p.ended() {
			return &startError{what: what, reason: fmt.Sprintf("ended at once (%v)", p.exit()), log: p.log, said: tail(p.log)}
		}
		if time.Now().After(deadline) {
			_ = p.end(syscall.SIGKILL, time.Second)
			return &startError{what: what, reason: fmt.Sprintf("does not answer after %s: %v", limit, err), log: p.log, said: tail(p.log), slow: true}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *process) exit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// startError tells how a start failed. One that ended by itself may have lost its port to somebody else between the
// choice and the bind, and is worth another try with other ports.
type startError struct {
	what, reason, log string
	said              string // the end of the log, which goes with its folder
	slow              bool
}

func (e *startError) Error() string {
	return fmt.Sprintf("%s %s; the end of %s:\n%s", e.what, e.reason, e.log, e.said)
}

func tail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 4000 {
		if _, err := f.Seek(-4000, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(bytes.ToValidUTF8(b, nil)))
}
