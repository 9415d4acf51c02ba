package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Sharing: one process (deploy/peers/peerd) owns the servers, and every test process holds a connection to its socket
// for as long as it lives. The kernel closes that connection however the test process ends, so the count of connections
// is the count of users; when it has been zero for a while the owner stops its servers and ends. Should the owner itself
// be killed, the kernel kills its servers.

// RunEnv names the run whose servers are shared; processes of different runs share nothing.
const RunEnv = "MILLRACE_PEERS_RUN"

type request struct {
	Kind string `json:"kind"`
}

type reply struct {
	Addr  string `json:"addr,omitempty"`
	Error string `json:"error,omitempty"`
}

const hello = "millrace peers 1\n"

type shareFiles struct{ lock, socket, log string }

func filesOf(id string) (shareFiles, error) {
	state, err := stateDir()
	if err != nil {
		return shareFiles{}, err
	}
	base := filepath.Join(state, "share-"+id)
	return shareFiles{lock: base + ".lock", socket: base + ".sock", log: base + ".log"}, nil
}

// An Owner starts servers when they are asked for and stops them all at the end.
type Owner struct {
	files    shareFiles
	listener *net.UnixListener
	dir      *Dir
	ctx      context.Context // of the servers' starts; ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	users   int                   // connections; guarded by mu
	idle    time.Time             // since when users is 0; guarded by mu
	conns   map[net.Conn]struct{} // guarded by mu
	starts  map[string]*oneStart  // guarded by mu
	closing bool                  // guarded by mu
}

type oneStart struct {
	mu     sync.Mutex
	server *Server // guarded by mu
}

// Own opens the run's socket. There must be no other owner of the run.
func Own(id string) (*Owner, error) {
	files, err := filesOf(id)
	if err != nil {
		return nil, err
	}
	dir, err := NewDir()
	if err != nil {
		return nil, err
	}
	if err := os.Remove(files.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: files.socket, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	o := &Owner{files: files, listener: l, dir: dir, idle: time.Now(), conns: map[net.Conn]struct{}{}, starts: map[string]*oneStart{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	o.wg.Add(1)
	go o.accept()
	return o, nil
}

func (o *Owner) accept() {
	defer o.wg.Done()
	for {
		c, err := o.listener.Accept()
		if err != nil {
			return // closed
		}
		o.mu.Lock()
		if o.closing {
			o.mu.Unlock()
			c.Close()
			continue
		}
		o.users++
		o.conns[c] = struct{}{}
		o.wg.Add(1)
		o.mu.Unlock()
		go o.serve(c)
	}
}

func (o *Owner) serve(c net.Conn) {
	defer o.wg.Done()
	defer func() {
		c.Close()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.conns, c)
		if o.users--; o.users == 0 {
			o.idle = time.Now()
		}
	}()
	// The greeting tells the other side that it is counted.
	if _, err := c.Write([]byte(hello)); err != nil {
		return
	}
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var q request
		if err := in.Decode(&q); err != nil {
			return
		}
		var r reply
		if addr, err := o.server(q.Kind); err != nil {
			r.Error = err.Error()
		} else {
			r.Addr = addr
		}
		if err := out.Encode(r); err != nil {
			return
		}
	}
}

func (o *Owner) server(kind string) (string, error) {
	o.mu.Lock()
	one := o.starts[kind]
	if one == nil {
		one = new(oneStart)
		o.starts[kind] = one
	}
	o.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.server != nil {
		if one.server.Pid() == 0 {
			return "", fmt.Errorf("the shared %s has ended by itself; the end of its log:\n%s", kind, tail(one.server.Log()))
		}
		return one.server.Addr, nil
	}
	s, err := start(o.ctx, kind, filepath.Join(o.dir.Path, kind))
	if err != nil {
		return "", err
	}
	one.server = s
	return s.Addr, nil
}

func start(ctx context.Context, kind, dir string) (*Server, error) {
	switch kind {
	case "postgres":
		return Postgres(ctx, dir, PostgresOptions{})
	case "postgres18":
		return Postgres(ctx, dir, PostgresOptions{Version: "18"})
	case "mysql":
		return MySQL(ctx, dir, MySQLOptions{})
	case "mariadb":
		return MariaDB(ctx, dir, MySQLOptions{})
	case "kafka":
		return Kafka(ctx, dir, "")
	case "hdfs":
		return HDFS(ctx, dir, HDFSOptions{})
	case "s3":
		return S3(ctx, dir)
	}
	if SearchVersions[kind] != "" {
		return Search(ctx, kind, dir, "")
	}
	return nil, fmt.Errorf("there is no peer %q", kind)
}

// Wait blocks until nobody has used the owner for linger, or ctx ends.
func (o *Owner) Wait(ctx context.Context, linger time.Duration) error {
	tick := time.NewTicker(min(linger, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		done, err := o.retire(linger)
		if done || err != nil {
			return err
		}
	}
}

// retire stops listening when the time has come. It holds the run's lock, as everybody does who connects, so that nobody
// connects between the look and the end.
func (o *Owner) retire(linger time.Duration) (bool, error) {
	unlock, err := lockFile(o.files.lock)
	if err != nil {
		return false, err
	}
	defer unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users > 0 || time.Since(o.idle) < linger {
		return false, nil
	}
	o.closing = true
	return true, o.listener.Close()
}

// Close stops all servers, whoever uses them, and waits until they are gone.
func (o *Owner) Close() error {
	o.cancel()
	_ = o.listener.Close()
	o.mu.Lock()
	o.closing = true
	for c := range o.conns {
		_ = c.Close()
	}
	starts := o.starts
	o.mu.Unlock()
	o.wg.Wait()
	var errs []error
	for _, one := range starts {
		if one.server != nil {
			errs = append(errs, one.server.Close())
		}
	}
	return errors.Join(append(errs, o.dir.Remove())...)
}

// A Share is this process's hold on the run's servers.
type Share struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
	mu   sync.Mutex // one question at a time
}

// Join connects to the owner of the run that RunEnv names, or of the user's common one, which is started if need be. The
// connection is meant to stay open until the process ends.
func Join() (*Share, error) {
	id, owned := os.LookupEnv(RunEnv)
	if !owned {
		id = "common"
	}
	files, err := filesOf(id)
	if err != nil {
		return nil, err
	}
	unlock, err := lockFile(files.lock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := connect(files.socket)
	if err == nil {
		return newShare(c), nil
	}
	if owned {
		return nil, fmt.Errorf("the owner of the peers of this run (%s=%s) does not answer: %w", RunEnv, id, err)
	}
	if err := launch(id, files); err != nil {
		return nil, fmt.Errorf("start the owner of the peers: %w", err)
	}
	if c, err = connect(files.socket); err != nil {
		return nil, fmt.Errorf("the owner of the peers does not answer: %w; its log:\n%s", err, tail(files.log))
	}
	return newShare(c), nil
}

func newShare(c net.Conn) *Share {
	return &Share{conn: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}
}

func connect(socket string) (net.Conn, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	// Nothing follows the greeting until we ask, so the reader takes no byte of an answer.
	said, err := bufio.NewReaderSize(c, len(hello)).ReadString('\n')
	if err != nil || said != hello {
		c.Close()
		return nil, fmt.Errorf("no greeting on %s: %q, %v", socket, said, err)
	}
	return c, c.SetReadDeadline(time.Time{})
}

// launch builds and starts an owner that is no child of the test: go test waits for the output of those.
func launch(id string, files shareFiles) error {
	dir, err := NewDir()
	if err != nil {
		return err
	}
	defer dir.Remove() // a program that runs needs its file no more
	bin := filepath.Join(dir.Path, "peerd")
	if out, err := exec.Command("go", "build", "-o", bin, "millrace/deploy/peers/peerd").CombinedOutput(); err != nil {
		return fmt.Errorf("build peerd: %w\n%s", err, out)
	}
	log, err := os.Create(files.log)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, signal, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(bin, "serve", id)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{signal}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	signal.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	// It writes one byte when it listens; the pipe's end without one means that it could not.
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("it ended at once:\n%s", tail(files.log))
	}
	return nil
}

// Server is the address of the run's shared server of that kind, which is started if it is the first time.
func (s *Share) Server(kind string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(request{Kind: kind}); err != nil {
		return "", fmt.Errorf("ask the owner of the peers: %w", err)
	}
	var r reply
	if err := s.in.Decode(&r); err != nil {
		return "", fmt.Errorf("the owner of the peers is gone: %w", err)
	}
	if r.Error != "" {
		return "", errors.New(r.Error)
	}
	return r.Addr, nil
}

// Close gives this process's hold up.
func (s *Share) Close() error { return s.conn.Close() }
