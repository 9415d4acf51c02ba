package broker

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
	"millrace/log/internal/wire"
)

func errorsAs(err error, target any) bool { return errors.As(err, target) }

// Every request kind, known or not, in every version, served or not, with an empty, a random and an
// empty but well-formed body: the process lives, and others are served meanwhile.
func TestNoRequestHarmsTheProcess(t *testing.T) {
	n := start(t)
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	other := n.dial()
	answered, sent := 0, 0
	for key := int16(-1); key <= 200; key++ {
		for version := int16(-1); version <= 20; version++ {
			random := make([]byte, rng.IntN(200))
			for i := range random {
				random[i] = byte(rng.Uint32())
				if rng.IntN(2) == 0 {
					random[i] = byte(rng.IntN(3)) // small numbers get further into a decoder
				}
			}
			bodies := [][]byte{nil, random}
			if req := kmsg.RequestForKey(key); req != nil && version >= 0 && version <= req.MaxVersion() {
				req.SetVersion(version)
				bodies = append(bodies, req.AppendTo(nil)) // one that can be decoded
			}
			for _, body := range bodies {
				w := n.dial()
				a, known := wire.Lookup(key)
				w.nc.Write(rawFrame(key, version, 1, known && a.IsFlexible(version), body))
				w.nc.(*net.TCPConn).CloseWrite()
				w.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
				got, err := io.ReadAll(w.nc)
				var ne net.Error
				if errors.As(err, &ne) && ne.Timeout() {
					t.Fatalf("kind %d version %d: neither answered nor closed", key, version)
				}
				if len(got) > 0 {
					answered++
				}
				sent++
				w.nc.Close()
			}
		}
		if resp := ask[*kmsg.MetadataResponse](other, kmsg.NewPtrMetadataRequest(), 12); len(resp.Brokers) != 1 {
			t.Fatalf("after kind %d: another connection got %+v", key, resp)
		}
	}
	t.Logf("%d requests, %d answered", sent, answered)
	if answered < 150 {
		t.Errorf("only %d requests were answered: the bodies do not get into handlers", answered)
	}
}

func TestGarbageEndsItsConnectionOnly(t *testing.T) {
	n := start(t)
	other := n.dial()
	for name, b := range map[string][]byte{
		"text":            []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":             {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"zeros":           make([]byte, 100),
		"a huge size":     {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1},
		"a negative size": {0xff, 0xff, 0xff, 0xff},
		"one byte":        {1},
	} {
		w := n.dial()
		w.nc.Write(b)
		w.nc.(*net.TCPConn).CloseWrite()
		if !w.closed() {
			t.Errorf("%s: the connection was not closed", name)
		}
		ask[*kmsg.ApiVersionsResponse](other, kmsg.NewPtrApiVersionsRequest(), 0)
	}
}

func TestIdleConnectionsCostLittle(t *testing.T) {
	n := start(t)
	const idle = 1000
	var before, after goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	for range idle {
		nc, err := n.mem.Dial(within(t), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	goruntime.GC()
	goruntime.ReadMemStats(&after)
	per := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / idle
	t.Logf("%d bytes per idle connection", per)
	if per > 3*16<<10 {
		t.Errorf("an idle connection takes %d bytes", per)
	}
}

func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	n := start(t, func(o *Options) { o.MaxConnections = 3 })
	ws := []*wireConn{n.dial(), n.dial(), n.dial()}
	for _, w := range ws {
		ask[*kmsg.ApiVersionsResponse](w, kmsg.NewPtrApiVersionsRequest(), 0)
	}
	if !n.dial().closed() {
		t.Error("a fourth connection was taken")
	}
	ws[0].nc.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
		w := n.dial()
		c := w.send(kmsg.NewPtrApiVersionsRequest(), 0)
		if w.receive(c, kmsg.NewPtrApiVersionsResponse(), 0) == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of a closed connection is not given away")
		}
	}
	// In-memory connections are this process's own and do not count.
	nc, err := n.mem.Dial(within(t), "", "")
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
