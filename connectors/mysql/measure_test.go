package mysql

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
)

// BenchmarkStream reads b.N updates of the table that deploy/bench has out of the log,
// and throws what becomes of them away.
func BenchmarkStream(b *testing.B) { benchServer(b, true) }

// BenchmarkSnapshot reads b.N rows of it.
func BenchmarkSnapshot(b *testing.B) { benchServer(b, false) }

func benchServer(b *testing.B, stream bool) {
	d := newDatabase(b)
	n := max(b.N, 1000)
	d.exec(`CREATE TABLE r (id bigint PRIMARY KEY, k int, amount decimal(12,2), name varchar(40), created datetime(3), active boolean, score double, note varchar(200))`,
		"SET SESSION cte_max_recursion_depth = 100000000",
		fmt.Sprintf(`INSERT INTO r WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < %d) SELECT g, g %% 1000, (g %% 100000) / 7.0,
		concat('customer ', left(sha2(g, 256), 20)), '2024-01-01' + INTERVAL g SECOND, g %% 3 = 0, g / 3.0, repeat(left(sha2(g + 1, 256), 32), 3) FROM s`, n))
	conf := d.config("max.batch.size", "2000")
	store := &connectortest.OffsetStore{}
	var seen atomic.Int64
	run := func(want int64) {
		seen.Store(0)
		b.ResetTimer()
		before := cpuTime()
		r := d.start(conf, store, connectortest.Consume(func(batch connectors.Batch) { seen.Add(int64(len(batch.Records))) }))
		for seen.Load() < want {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(want), "cpu-ns/row")
		r.Stop()
	}
	if !stream {
		run(int64(n))
		return
	}
	conf["snapshot.mode"] = "no_data"
	r := d.start(conf, store)
	streaming(r)
	r.Stop()
	for a := 1; a <= n; a += 1000 {
		d.exec(fmt.Sprintf("UPDATE r SET k = k + 1, amount = amount + 1, note = concat('updated ', substr(note, 9)) WHERE id BETWEEN %d AND %d", a, min(a+999, n)))
	}
	run(int64(n))
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
