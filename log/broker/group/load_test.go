package group

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkLoad reads a topic of a million commits, each a batch of its own, of 100 groups with 10 partitions each.
func BenchmarkLoad(b *testing.B) {
	l := &memLog{}
	now := time.UnixMilli(1_700_000_000_000)
	const commits = 1_000_000
	bytes := 0
	for i := range commits {
		p := partition{"some.database.table" + fmt.Sprint(i%10), 0}
		o := offset{offset: int64(i), leaderEpoch: -1, committed: now.UnixMilli(), expire: -1, topicID: [16]byte{1}}
		for _, v := range batches([]record{offsetRecord(fmt.Sprintf("connect-sink-%d", i/10%100), p, o)}, now) {
			v.SetBaseOffset(int64(i))
			l.batches = append(l.batches, v)
			bytes += len(v)
		}
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		im := image{values: map[string]entry{}}
		if err := l.Replay(0, im.add); err != nil {
			b.Fatal(err)
		}
		if n := len(im.groups(now, func(string, error) {})); n != 100 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(commits*float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
