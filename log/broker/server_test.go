package broker

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/memconn"
)

// start runs a server that listens in memory and on a free TCP port.
func start(t testing.TB, opt Options) (s *Server, mem *memconn.Listener, tcp string) {
	t.Helper()
	s = New(opt)
	mem = memconn.Listen()
	if err := s.Serve(mem, Listener{Host: "embedded", Port: 9092, InMemory: true}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := l.Addr().(*net.TCPAddr)
	if err := s.Serve(l, Listener{Host: a.IP.String(), Port: int32(a.Port)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, mem, a.String()
}

func TestApiVersions(t *testing.T) {
	_, mem, tcp := start(t, Options{})
	for name, opts := range map[string][]kgo.Opt{
		"in memory": {kgo.SeedBrokers("embedded:9092"), kgo.Dialer(mem.Dial)},
		"over TCP":  {kgo.SeedBrokers(tcp)},
	} {
		t.Run(name, func(t *testing.T) {
			cl, err := kgo.NewClient(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			// The client asks with version 5 first and falls back to what it is told.
			resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
			if err != nil {
				t.Fatal(err)
			}
			if resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
				t.Fatalf("error %d, %d request kinds", resp.ErrorCode, len(resp.ApiKeys))
			}
		})
	}
}
