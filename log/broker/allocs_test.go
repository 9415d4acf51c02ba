package broker

import (
	"encoding/binary"
	"io"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// roundTrips returns a function that sends the same bytes and reads one answer, without allocating.
func (n *node) roundTrips(b []byte) func() {
	nc, err := n.mem.Dial(within(n.t), "", "")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { nc.Close() })
	in := make([]byte, 4<<20)
	return func() {
		if _, err := nc.Write(b); err != nil {
			n.t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, in[:4]); err != nil {
			n.t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, in[:binary.BigEndian.Uint32(in)]); err != nil {
			n.t.Fatal(err)
		}
	}
}

// A request costs a fixed number of allocations, whatever it carries.
func TestAllocationsPerRequest(t *testing.T) {
	if underRace {
		t.Skip("the race detector makes pools forget")
	}
	n := startOnDisk(t)
	n.topic("t", 1)
	value := strings.Repeat("x", 900<<10)
	small := n.roundTrips(frame(n.produceReq("t", 0, -1, records("v")), 13, 1))
	large := n.roundTrips(frame(n.produceReq("t", 0, -1, records(value)), 13, 1))
	large()
	fetch := n.fetchReq("t", 0, 0, 0)
	read := n.roundTrips(frame(fetch, 18, 1))
	for name, c := range map[string]struct {
		f     func()
		limit float64
	}{
		"produce of a small batch":   {small, 30},
		"produce of a large batch":   {large, 30},
		"fetch of a megabyte":        {read, 30},
		"ApiVersions for comparison": {n.roundTrips(frame(kmsg.NewPtrApiVersionsRequest(), 0, 1)), 30},
	} {
		got := testing.AllocsPerRun(30, c.f)
		t.Logf("%s: %v allocations", name, got)
		if got > c.limit {
			t.Errorf("%s: %v allocations, at most %v are allowed", name, got, c.limit)
		}
	}
	var before, after memory
	before.read()
	for range 50 {
		large()
	}
	after.read()
	if per := (after.total - before.total) / 50; per > 300<<10 {
		t.Errorf("a produce of 900 KiB took %d bytes of new memory", per)
	}
	before.read()
	for range 50 {
		read()
	}
	after.read()
	if per := (after.total - before.total) / 50; per > 300<<10 {
		t.Errorf("a fetch of 1 MiB took %d bytes of new memory", per)
	}
}

func BenchmarkRequest(b *testing.B) {
	n := startOnDisk(b)
	n.topic("t", 1)
	for name, f := range map[string]func(){
		"produce 1 KiB":   n.roundTrips(frame(n.produceReq("t", 0, -1, records(strings.Repeat("x", 1000))), 13, 1)),
		"produce 900 KiB": n.roundTrips(frame(n.produceReq("t", 0, -1, records(strings.Repeat("x", 900<<10))), 13, 1)),
		"fetch 1 MiB":     n.roundTrips(frame(n.fetchReq("t", 0, 0, time.Second), 18, 1)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

type memory struct {
	total uint64 // allocated ever
	live  int64  // heap and stacks
}

func (m *memory) read() {
	var s goruntime.MemStats
	goruntime.ReadMemStats(&s)
	m.total, m.live = s.TotalAlloc, int64(s.HeapAlloc+s.StackInuse)
}
