package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A Server is a peer's process with its ports and its folder. Its methods may be called by several goroutines.
type Server struct {
	// Name is the kind, such as postgres or s3.
	Name string
	// Addr is host:port, the same for the server's whole life.
	Addr string
	// Port is Addr's.
	Port int
	// Dir holds data and logs; Close removes it.
	Dir string
	// Listeners are the addresses of a Kafka's further listeners, by their names.
	Listeners map[string]string

	stop    syscall.Signal // an orderly end
	dying   syscall.Signal // sent by the kernel when we are gone
	limit   time.Duration  // for the first answer
	command func() (*exec.Cmd, error)
	probe   func(context.Context) error
	ports   []*Port

	mu   sync.Mutex
	proc *process // nil while stopped; guarded by mu
}

// newServer makes a server of n ports in a new folder and starts it. setup fills in command and probe and may write files.
func newServer(ctx context.Context, name, dir string, n int, setup func(*Server) error) (*Server, error) {
	var last error
	for range 3 {
		s := &Server{Name: name, Dir: dir, stop: syscall.SIGTERM, dying: syscall.SIGKILL, limit: 3 * time.Minute}
		err := s.first(ctx, n, setup)
		if err == nil {
			return s, nil
		}
		last = err
		_ = s.Close()
		var failed *startError
		if ctx.Err() != nil || !errors.As(err, &failed) || failed.slow {
			break
		}
	}
	return nil, last
}

func (s *Server) first(ctx context.Context, n int, setup func(*Server) error) error {
	for range n {
		p, err := TakePort()
		if err != nil {
			return err
		}
		s.ports = append(s.ports, p)
	}
	s.Addr, s.Port = s.ports[0].Addr(), s.ports[0].Number
	if err := os.MkdirAll(s.Dir, 0o711); err != nil {
		return err
	}
	if err := os.Chmod(s.Dir, 0o711); err != nil { // whatever the umask
		return err
	}
	if err := setup(s); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Program starts another program as a server on ports that the caller has taken; they and dir, which may hold data
// already, are the server's from now on. It is stopped by SIGTERM.
func Program(ctx context.Context, name, dir string, ports []*Port, command func() *exec.Cmd, probe func(context.Context) error) (*Server, error) {
	s := &Server{Name: name, Dir: dir, Addr: ports[0].Addr(), Port: ports[0].Number, ports: ports}
	s.stop, s.dying, s.limit = syscall.SIGTERM, syscall.SIGKILL, time.Minute
	s.command = func() (*exec.Cmd, error) { return command(), nil }
	s.probe = probe
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.end(s.dying, time.Second))
	}
	return s, nil
}

// Log is the file with what the server says.
func (s *Server) Log() string { return filepath.Join(s.Dir, s.Name+".log") }

// Start starts the server, which is stopped, on its old port and data, and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.ended() {
		return fmt.Errorf("%s on %s already runs", s.Name, s.Addr)
	}
	cmd, err := s.command()
	if err != nil {
		return err
	}
	p, err := spawn(cmd, s.Log(), s.dying)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	s.proc = p
	return p.ready(s.Name+" on "+s.Addr, s.limit, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return s.probe(ctx)
	})
}

// Stop ends the server in order and waits for its end. A stopped server stays stopped.
func (s *Server) Stop() error { return s.end(s.stop, 30*time.Second) }

// Kill ends the server as a crash does, all its processes by SIGKILL, and waits until they are gone.
func (s *Server) Kill() error {
	if s.Pid() == 0 {
		return nil
	}
	family, err := s.halted()
	if err != nil {
		return err
	}
	for _, pid := range family[1:] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := s.end(syscall.SIGKILL, 30*time.Second); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		// Orphans that nobody collects stay zombies in containers whose first process is no init.
		family = slices.DeleteFunc(family, func(pid int) bool {
			state, _, err := processState(pid)
			return err != nil || state == 'Z' || state == 'X'
		})
		if len(family) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: killed, but processes %v are still there", s.Name, family)
		}
	}
}

func (s *Server) end(sig syscall.Signal, grace time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	_ = s.proc.cmd.Process.Signal(syscall.SIGCONT) // a halted one cannot end
	return s.proc.end(sig, grace)
}

// Halt freezes all the server's processes: its connections stay open and nobody answers. Resume lets it go on.
func (s *Server) Halt() error {
	_, err := s.halted()
	return err
}

// halted freezes the main process, then those that it has made: PostgreSQL's each have a process group of their own. It
// returns them, the main one first.
func (s *Server) halted() ([]int, error) {
	pid := s.Pid()
	if pid == 0 {
		return nil, fmt.Errorf("%s on %s does not run", s.Name, s.Addr)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	// The signal takes effect when the process is next scheduled: only then has it made its last child.
	for state := byte(0); state != 'T'; time.Sleep(time.Millisecond) {
		var err error
		if state, _, err = processState(pid); err != nil {
			return nil, err
		}
	}
	children, err := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGSTOP) // one that has just ended is no loss
	}
	return append([]int{pid}, children...), err
}

// Resume undoes Halt.
func (s *Server) Resume() error {
	pid := s.Pid()
	if pid == 0 {
		return fmt.Errorf("%s on %s does not run", s.Name, s.Addr)
	}
	children, err := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	return errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) (children []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent, err := processState(n); err == nil && parent == pid {
			children = append(children, n)
		}
	}
	return children, nil
}

// processState reads a process's state letter and its parent.
func processState(pid int) (state byte, parent int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the program's name in parentheses and may hold anything.
	rest := string(b[bytes.LastIndexByte(b, ')')+1:])
	if _, err := fmt.Sscanf(rest, " %c %d", &state, &parent); err != nil {
		return 0, 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return state, parent, nil
}

// Pid is the server's process id, 0 when it is stopped.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Close ends the server without ceremony, gives its ports back and removes its folder.
func (s *Server) Close() error {
	err := s.end(s.dying, 10*time.Second)
	for _, p := range s.ports {
		err = errors.Join(err, p.Release())
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}
