package rest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/runtime"
)

// accepting is a server whose herder takes every connector.
func accepting(t *testing.T) (*Server, *httptest.Server) {
	t.Helper()
	s := New(Config{Log: slog.New(slog.DiscardHandler), CheckHost: true, Herder: fakeHerder{put: func(name string, config map[string]string) (runtime.ConnectorInfo, error) {
		return runtime.ConnectorInfo{Name: name}, nil
	}}})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h
}

// TestABodyBecomesASmallMultipleOfItself: bodies that are made to grow in memory.
func TestABodyBecomesASmallMultipleOfItself(t *testing.T) {
	s, _ := accepting(t)
	many := func(n int) string { return `{"name":"a","config":{` + strings.Repeat(`"":1,`, n) + `"x":"y"}}` }
	distinct := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%x":1,`, i)
		}
		return `{"name":"a","config":{` + b.String() + `"x":"y"}}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		most       uint64 // bytes that it may allocate in all
	}{
		{"millions of values", many(1_600_000), 413, 5 * maxBody},
		{"as many settings as are allowed", distinct(99_990), 201, 64 << 20},
		{"brackets", strings.Repeat("[", maxBody-1), 400, 5 * maxBody},
		{"a string without end", `{"name":"` + strings.Repeat("x", maxBody-20), 400, 8 * maxBody},
		{"escapes", `{"name":"a","config":{"x":"` + strings.Repeat(`\u0001`, maxBody/6-20) + `"}}`, 201, 10 * maxBody},
		{"a number of millions of digits", `{"name":"a","config":{"x":` + strings.Repeat("9", maxBody-100) + `}}`, 201, 10 * maxBody},
		{"no JSON at all", strings.Repeat("\xff", maxBody-1), 400, 5 * maxBody},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/connectors", strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			s.ServeHTTP(w, r)
			goruntime.ReadMemStats(&after)
			if w.Code != c.status {
				t.Errorf("%d %.200s, want %d", w.Code, w.Body, c.status)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 3*c.most {
				t.Errorf("%d bytes of body had %d bytes allocated, more than three times %d", len(c.body), used, c.most)
			} else {
				t.Logf("%d bytes of body, %d allocated", len(c.body), used)
			}
			if n := s.bodies.held.Load(); n != 0 {
				t.Errorf("%d bytes of bodies are counted after the answer", n)
			}
		})
	}
}

// TestLargeBodiesTogetherAreBounded: clients that send much, slowly and at once. What
// does not fit is refused; small requests are not held up.
func TestLargeBodiesTogetherAreBounded(t *testing.T) {
	s, h := accepting(t)
	const size, clients = maxBody - 1024, 20
	var all sync.WaitGroup
	var bodies [clients]*io.PipeWriter
	statuses := make(chan int, clients)
	for i := range clients {
		pr, pw := io.Pipe()
		bodies[i] = pw
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/connectors", pr)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(r)
			if err != nil { // the server closed the connection that it had refused
				statuses <- 0
				return
			}
			res.Body.Close()
			statuses <- res.StatusCode
		})
	}
	// Each sends as much as it can, and no end.
	var sending sync.WaitGroup
	for _, pw := range bodies {
		sending.Go(func() { // a body that the server refused cannot be written on
			_, _ = pw.Write([]byte(`{"name":"a","config":{"x":"`))
			_, _ = pw.Write(bytes.Repeat([]byte("x"), size))
		})
	}
	refused := 0
	timeout := time.After(time.Minute)
	for refused < clients-bodiesAtOnce/(size-freeBody)-2 { // buffers double, so fewer than fit are held
		select {
		case status := <-statuses:
			if status != http.StatusServiceUnavailable && status != 0 {
				t.Fatalf("a body without end was answered with %d", status)
			}
			refused++
		case <-timeout:
			t.Fatalf("%d bodies refused; %d bytes are held", refused, s.bodies.held.Load())
		}
		if n := s.bodies.held.Load(); n > bodiesAtOnce+2*maxBody {
			t.Fatalf("%d bytes of bodies are held, allowed are %d", n, bodiesAtOnce)
		}
	}
	if res, text := send(t, "POST", h.URL+"/connectors", `{"name":"small","config":{}}`, nil); res.StatusCode != http.StatusCreated {
		t.Errorf("a small request beside them: %d %s", res.StatusCode, text)
	}
	for _, pw := range bodies {
		pw.CloseWithError(io.ErrUnexpectedEOF)
	}
	sending.Wait()
	all.Wait()
	for end := time.Now().Add(time.Minute); s.bodies.held.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of bodies are counted, and nobody sends any more", s.bodies.held.Load())
		}
	}
}

// TestWhatHasNoEndIsCut: chunks and headers without end, over a real connection.
func TestWhatHasNoEndIsCut(t *testing.T) {
	s, _ := accepting(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name, head, piece, status string
	}{
		{"chunks", "POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n", "413"},
		{"headers", "GET / HTTP/1.1\r\nHost: localhost\r\n", "X-Flood: " + strings.Repeat("x", 1000) + "\r\n", "431"},
		{"one header", "GET / HTTP/1.1\r\nHost: localhost\r\nX-Flood: ", strings.Repeat("x", 4096), "431"},
		{"the path", "GET /", strings.Repeat("x", 4096), "431"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			sent := make(chan int, 1)
			go func() {
				n := 0
				_, err := io.WriteString(conn, c.head)
				for err == nil && n < 10*maxBody {
					var m int
					m, err = io.WriteString(conn, c.piece)
					n += m
				}
				sent <- n
			}()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil && line == "" {
				// The connection was reset with what we sent still unread: it was cut all the same.
				t.Logf("cut: %v", err)
			} else if !strings.Contains(line, c.status) {
				t.Errorf("answer %q, want %s", line, c.status)
			}
			conn.Close()
			if n := <-sent; n >= 10*maxBody {
				t.Errorf("%d bytes were taken and no end seen", n)
			}
		})
	}
}
