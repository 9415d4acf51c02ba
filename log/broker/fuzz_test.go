package broker

import (
	"encoding/binary"
	"io"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

// FuzzRequests sends bytes to a broker as the body of every request kind, and asks it whether it still
// serves. Start's cleanup fails the test when a handler panicked.
func FuzzRequests(f *testing.F) {
	n := start(f)
	n.topic("t", 2)
	for key := int16(0); key < int16(len(n.srv.handlers)); key++ {
		a, ok := wire.Lookup(key)
		if !ok || n.srv.handlers[key] == nil {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			f.Add(key, v, req.AppendTo(nil))
		}
	}
	f.Add(int16(0), int16(9), body(n.produceReq("t", 0, -1, records("v")), 9))
	f.Add(int16(1), int16(12), body(n.fetchReq("t", 0, 0, 0), 12))
	f.Add(int16(2), int16(6), body(latest("t"), 6))
	f.Fuzz(func(t *testing.T, key, version int16, b []byte) {
		a, ok := wire.Lookup(key)
		if !ok || !a.Serves(version) || n.srv.handlers[key] == nil || len(b) > 100<<10 {
			return
		}
		nc, err := n.mem.Dial(within(t), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(rawFrame(key, version, 1, a.IsFlexible(version), b))
		// The answer to this one shows that the first is done with, if the connection still lives.
		nc.Write(rawFrame(18, 0, 2, false, nil))
		mayWait := key == wire.Fetch || key == wire.JoinGroup || key == wire.SyncGroup
		limit := 8 * time.Second
		if mayWait {
			limit = 300 * time.Millisecond
		}
		nc.SetReadDeadline(time.Now().Add(limit))
		for {
			var head [8]byte
			_, err := io.ReadFull(nc, head[:])
			if os.IsTimeout(err) {
				if mayWait {
					return
				}
				t.Fatalf("kind %d version %d: no answer", key, version)
			}
			if err != nil {
				break // closed
			}
			if size := binary.BigEndian.Uint32(head[:]); size < 4 || size > 64<<20 {
				t.Fatalf("answer of %d bytes", size)
			} else if _, err := io.CopyN(io.Discard, nc, int64(size)-4); err != nil {
				break
			}
			if binary.BigEndian.Uint32(head[4:]) == 2 {
				break
			}
		}
		if p := n.srv.stats.panics.Load(); p != 0 {
			t.Fatalf("a handler panicked:\n%s", n.lg)
		}
	})
}

func body(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	return req.AppendTo(nil)
}
