package line

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// echo is a server that sends every line back, and tells when a client has ended its direction.
func echo(t *testing.T) (addr string, ended <-chan string) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	ends := make(chan string, 10)
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var got strings.Builder
				for in := bufio.NewReader(c); ; {
					text, err := in.ReadString('\n')
					got.WriteString(text)
					if err != nil {
						ends <- got.String()
						return
					}
					_, _ = io.WriteString(c, text) // its reader may be gone
				}
			}()
		}
	}()
	return at.Addr().String(), ends
}

func dial(t *testing.T, l *Line, addr string) net.Conn {
	t.Helper()
	c, err := l.Dial(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hears reads so many bytes; "" where nothing comes for a while.
func hears(t *testing.T, c net.Conn, n int, wait time.Duration) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(wait))
	b := make([]byte, n)
	m, _ := io.ReadFull(c, b)
	return string(b[:m])
}

const (
	long  = 30 * time.Second
	short = 100 * time.Millisecond
)

func TestALine(t *testing.T) {
	t.Run("carries both ways", func(t *testing.T) {
		addr, _ := echo(t)
		l := New(t)
		c := dial(t, l, addr)
		say(t, c, "hello\n")
		if got := hears(t, c, 6, long); got != "hello\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("carries what comes to its front", func(t *testing.T) {
		addr, _ := echo(t)
		c, err := net.Dial("tcp", New(t).Front(t, addr))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		say(t, c, "hello\n")
		if got := hears(t, c, 6, long); got != "hello\n" {
			t.Errorf("%q", got)
		}
	})
	for name, d := range map[string]Direction{"requests": Out, "answers": In} {
		t.Run("keeps "+name+" while it is silent, and brings them when it is healed", func(t *testing.T) {
			addr, _ := echo(t)
			l := New(t)
			c := dial(t, l, addr)
			l.Silence(d)
			say(t, c, "hello\n")
			if got := hears(t, c, 6, short); got != "" {
				t.Errorf("%q came through", got)
			}
			l.Heal()
			if got := hears(t, c, 6, long); got != "hello\n" {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("brings what was sent before its sender closed", func(t *testing.T) {
		addr, ended := echo(t)
		l := New(t)
		c := dial(t, l, addr)
		l.Silence()
		say(t, c, "late\n")
		c.Close()
		select {
		case got := <-ended:
			t.Fatalf("%q came through", got)
		case <-time.After(short):
		}
		l.Heal()
		if got := <-ended; got != "late\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("delays", func(t *testing.T) {
		addr, _ := echo(t)
		l := New(t)
		c := dial(t, l, addr)
		l.Delay(short)
		begun := time.Now()
		say(t, c, "hello\n")
		if got := hears(t, c, 6, long); got != "hello\n" || time.Since(begun) < 2*short {
			t.Errorf("%q after %v", got, time.Since(begun))
		}
	})
	t.Run("ends requests, and brings the answers to those before", func(t *testing.T) {
		addr, ended := echo(t)
		l := New(t)
		c := dial(t, l, addr)
		say(t, c, "hello\n")
		if got := hears(t, c, 6, long); got != "hello\n" {
			t.Errorf("%q", got)
		}
		l.Silence(In)
		l.HalfClose(Out)
		if got := <-ended; got != "hello\n" {
			t.Errorf("the server heard %q", got)
		}
	})
	t.Run("makes no connection under which it broke", func(t *testing.T) {
		addr, _ := echo(t)
		var l *Line
		l = Over(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			defer l.Break()
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}, tcpPair)
		if _, err := l.Dial(context.Background(), "tcp", addr); err == nil {
			t.Error("a connection is made")
		}
	})
	t.Run("resets, and refuses while it is broken", func(t *testing.T) {
		addr, _ := echo(t)
		l := New(t)
		c := dial(t, l, addr)
		l.Break()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection lives")
		}
		if _, err := l.Dial(context.Background(), "tcp", addr); err == nil {
			t.Error("a connection is made")
		}
		l.Heal()
		say(t, dial(t, l, addr), "hello\n")
	})
}
