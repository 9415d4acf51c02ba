package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A Server is a peer's process with its ports and its folder. Its methods may be called by several goroutines.
type Server struct {
	// Name is the kind: postgres, kafka, opensearch, elasticsearch.
	Name string
	// Addr is host:port, the same for the server's whole life.
	Addr string
	// Port is Addr's.
	Port int
	// Dir holds data and logs; Close removes it.
	Dir string

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
	if err := setup(s); err != nil {
		return err
	}
	return s.Start(ctx)
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

// Kill ends the server as a crash does, with SIGKILL, and waits for its end.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL, 30*time.Second) }

func (s *Server) end(sig syscall.Signal, grace time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	_ = s.proc.cmd.Process.Signal(syscall.SIGCONT) // a halted one cannot end
	return s.proc.end(sig, grace)
}

// Halt freezes the server's main process with SIGSTOP: connections stay, nothing answers. Resume lets it go on. A server that
// serves each connection by a process of its own (PostgreSQL) only stops taking new ones; HaltAll freezes those as well.
func (s *Server) Halt() error { return s.signal(func(pid int) int { return pid }, syscall.SIGSTOP) }

// HaltAll freezes every process of the server's group.
func (s *Server) HaltAll() error { return s.signal(func(pid int) int { return -pid }, syscall.SIGSTOP) }

// Resume undoes Halt and HaltAll.
func (s *Server) Resume() error { return s.signal(func(pid int) int { return -pid }, syscall.SIGCONT) }

func (s *Server) signal(to func(pid int) int, sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return fmt.Errorf("%s on %s does not run", s.Name, s.Addr)
	}
	return syscall.Kill(to(s.proc.cmd.Process.Pid), sig)
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
