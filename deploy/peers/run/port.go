package run

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// A Port is a port of 127.0.0.1 that nobody else who asks here gets until it is released, even while nobody listens
// on it: a server that is stopped and started again in a test finds its port free.
type Port struct {
	Number int
	lock   *os.File
}

// Ports are taken below the range from which the kernel gives outgoing connections theirs. In that range a client that
// dials a stopped server again and again ends up connected with itself, and the server cannot come back.
const (
	firstPort = 20000
	lastPort  = 32000
)

// TakePort takes the first of the preferred ports that is free, or chooses one. It is given back by Release, or by the end of the process.
func TakePort(preferred ...int) (*Port, error) {
	dir := filepath.Join(os.TempDir(), "millrace-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for i := range 1000 {
		n := firstPort + rand.IntN(lastPort-firstPort)
		if i < len(preferred) {
			n = preferred[i]
		}
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(n)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			continue
		}
		if !free(n) {
			f.Close()
			continue
		}
		return &Port{Number: n, lock: f}, nil
	}
	return nil, fmt.Errorf("no free port of 127.0.0.1 found between %d and %d", firstPort, lastPort)
}

// free tells whether nobody listens on port n of 127.0.0.1.
func free(n int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Addr is the port with its host.
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Release gives the port back. It may be called more than once.
func (p *Port) Release() error {
	if err := p.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
