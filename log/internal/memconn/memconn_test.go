package memconn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/deploy/trial"
)

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		defer a.Close()
		defer b.Close()
		buf := make([]byte, 1)
		start := time.Now()
		read := func(what string, want time.Duration) {
			t.Helper()
			begin := time.Now()
			if _, err := b.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want a deadline", what, err)
			}
			var ne net.Error
			if _, err := b.Read(buf); !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("%s: %v is no timeout", what, err)
			}
			if d := time.Since(begin); d != want {
				t.Errorf("%s: after %v, want %v", what, d, want)
			}
		}
		b.SetReadDeadline(time.Now().Add(time.Minute))
		read("a deadline ahead", time.Minute)
		b.SetReadDeadline(time.Now().Add(-time.Second))
		read("a deadline that has passed", 0)
		b.SetDeadline(time.Time{})
		go func() { time.Sleep(time.Hour); a.Write([]byte("x")) }()
		if _, err := b.Read(buf); err != nil || time.Since(start) != time.Hour+time.Minute {
			t.Errorf("without a deadline: %v after %v", err, time.Since(start))
		}
		b.SetReadDeadline(time.Now().Add(time.Hour))
		go func() { time.Sleep(time.Minute); b.SetReadDeadline(time.Now().Add(time.Minute)) }()
		read("a deadline that is moved nearer meanwhile", 2*time.Minute)
		b.SetReadDeadline(time.Time{})
		go func() { time.Sleep(time.Minute); b.SetReadDeadline(time.Unix(1, 0)) }()
		read("a deadline set during the wait", time.Minute)
	})
}

func TestCloseEndsWaits(t *testing.T) {
	for name, c := range map[string]struct {
		full bool // the other direction is stuffed first
		op   func(c net.Conn) error
		by   func(near, far net.Conn)
		want error
	}{
		"a read, when this end closes":   {false, readOne, func(near, far net.Conn) { near.Close() }, net.ErrClosed},
		"a read, when the other closes":  {false, readOne, func(near, far net.Conn) { far.Close() }, io.EOF},
		"a write, when this end closes":  {true, writeOne, func(near, far net.Conn) { near.Close() }, net.ErrClosed},
		"a write, when the other closes": {true, writeOne, func(near, far net.Conn) { far.Close() }, io.ErrClosedPipe},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := Pipe()
				if c.full {
					near.Write(make([]byte, capacity))
				}
				got := make(chan error)
				go func() { got <- c.op(near) }()
				synctest.Wait()
				c.by(near, far)
				if err := <-got; !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		})
	}
}

func readOne(c net.Conn) error  { _, err := c.Read(make([]byte, 1)); return err }
func writeOne(c net.Conn) error { _, err := c.Write(make([]byte, 1)); return err }

func TestWhatWasWrittenBeforeCloseCanBeRead(t *testing.T) {
	near, far := Pipe()
	near.Write([]byte("last words"))
	near.Close()
	got, err := io.ReadAll(far)
	if string(got) != "last words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestConcurrentReadersAndWritersLoseNothing(t *testing.T) {
	near, far := Pipe()
	const n, each = 4, 200 << 10
	var writers, readers sync.WaitGroup
	var total atomic.Int64
	for range n {
		writers.Go(func() {
			for range each / 1000 {
				if _, err := near.Write(make([]byte, 1000)); err != nil {
					t.Error(err)
				}
			}
		})
		readers.Go(func() {
			buf := make([]byte, 777)
			for {
				m, err := far.Read(buf)
				total.Add(int64(m))
				if err != nil {
					return
				}
			}
		})
	}
	writers.Wait()
	near.Close()
	readers.Wait()
	if want := int64(n * (each / 1000) * 1000); total.Load() != want {
		t.Errorf("%d bytes came, %d were sent", total.Load(), want)
	}
}

func TestBytesComeInOrderWhateverTheSizes(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	a, b := Pipe()
	sent := make([]byte, 2<<20)
	for i := range sent {
		sent[i] = byte(rng.Uint32())
	}
	sizes := rand.New(rand.NewPCG(seed, 1))
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+sizes.IntN(400<<10))
			if _, err := a.Write(rest[:n]); err != nil {
				t.Error(err)
			}
			rest = rest[n:]
		}
		a.Close()
	}()
	var got bytes.Buffer
	buf := make([]byte, 300<<10)
	for {
		n, err := b.Read(buf[:1+rng.IntN(len(buf))])
		got.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if sha256.Sum256(got.Bytes()) != sha256.Sum256(sent) {
		t.Errorf("%d bytes came, %d were sent, or their order differs", got.Len(), len(sent))
	}
}

func TestFullConnectionBlocksTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		defer b.Close()
		a.SetWriteDeadline(time.Now().Add(time.Minute))
		n, err := a.Write(make([]byte, 2*capacity))
		if n != capacity || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d, %v; want %d and a deadline", n, err, capacity)
		}
	})
}

func TestDialAfterCloseIsRefused(t *testing.T) {
	l := Listen()
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}()
	if _, err := l.Dial(context.Background(), "tcp", "anything:1"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := l.Dial(context.Background(), "tcp", "anything:1"); !errors.Is(err, ErrRefused) {
		t.Errorf("dial after close: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
}

func TestIdleConnectionHoldsNoBuffer(t *testing.T) {
	a, b := Pipe()
	a.Write(make([]byte, 100<<10))
	io.ReadFull(b, make([]byte, 100<<10))
	if p := b.(*conn).in; p.used != 0 || p.size != 0 {
		t.Errorf("%d chunks and %d bytes are left", p.used, p.size)
	}
}

func BenchmarkPipe(b *testing.B) {
	x, y := Pipe()
	buf, in := make([]byte, 64<<10), make([]byte, 64<<10)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	go func() {
		for b.Loop() {
			x.Write(buf)
		}
		x.Close()
	}()
	for {
		if _, err := y.Read(in); err != nil {
			return
		}
	}
}
