package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// echoCommand has the bench be the least server that acknowledges what is synced: it writes what comes over its one connection to a
// file, syncs it, and answers. Nothing that is asked over TCP, by a process of Go, can be faster on this machine.
const echoCommand = "echo"

// The sizes of a produce request of one record of 100 B, and of its answer, about.
const (
	echoAsk    = 200
	echoAnswer = 60
)

func echo(file string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Println(l.Addr())
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, echoAsk)
	for {
		if _, err := io.ReadFull(c, buf); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if _, err := f.Write(buf); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		if _, err := c.Write(buf[:echoAnswer]); err != nil {
			return err
		}
	}
}

// echoes asks a server of echoCommand, rounds times, one after the other.
func (b *bench) echoes(ctx context.Context, rounds int) (took []time.Duration, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, echoCommand, filepath.Join(b.dir, "echo"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", strings.TrimSpace(addr))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	buf := make([]byte, echoAsk)
	for range rounds {
		began := time.Now()
		if _, err := c.Write(buf); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, buf[:echoAnswer]); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
