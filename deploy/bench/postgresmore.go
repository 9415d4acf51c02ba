package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

// with runs f with a connector's run on a new Millrace with an empty log.
func (p *pgBench) with(ctx context.Context, name, table string, f func(r *run1) error) (err error) {
	m, err := p.millrace(ctx, filepath.Join(p.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return p.on(ctx, m, nil, name, table, f)
}

// on is the same on a worker that stands.
func (p *pgBench) on(ctx context.Context, m *drive.Millrace, also []int, name, table string, f func(r *run1) error) error {
	k, err := kgo.NewClient(kgo.SeedBrokers(m.Kafka), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer k.Close()
	r := &run1{p, &watched{m: m, also: also, adm: kadm.NewClient(k), counts: also != nil, name: name, topic: name + ".public." + table}}
	if err := f(r); err != nil {
		return err
	}
	if _, err := m.Call(ctx, http.MethodDelete, "/connectors/"+name, nil); err != nil {
		return err
	}
	return p.dropSlot(ctx, name)
}

const (
	latencyRows = 2000
	latencyRate = 100 // rows a second
)

// latency inserts rows one by one and measures from the return of each commit to the poll of a reader of committed
// records, beside what the disk takes for one fdatasync.
func (p *pgBench) latency(ctx context.Context) error {
	if _, err := p.conn.Exec(ctx, "CREATE TABLE lat (id bigint PRIMARY KEY, note varchar(100))"); err != nil {
		return err
	}
	disk, err := fdatasyncs(p.dir, 500)
	if err != nil {
		return err
	}
	return p.with(ctx, "benchlat", "lat", func(r *run1) error {
		if err := r.create(ctx, "public.lat", "no_data"); err != nil {
			return err
		}
		if err := r.m.Await(ctx, r.name, "RUNNING"); err != nil {
			return err
		}
		// The topic is made by a first row, which is repeated until the slot stands.
		for n := 0; ; n++ {
			if _, err := p.conn.Exec(ctx, "INSERT INTO lat VALUES ($1, 'first')", -1-n); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			err := r.wait(short, 1)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil || n == 20 {
				return err
			}
		}
		reader, err := kgo.NewClient(kgo.SeedBrokers(r.m.Kafka), kgo.ConsumeTopics(r.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(5*time.Second),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
		if err != nil {
			return err
		}
		defer reader.Close()
		if err := reader.Ping(ctx); err != nil {
			return err
		}
		var mu sync.Mutex // guards seen
		seen := map[int]time.Time{}
		reading, stop := context.WithCancel(ctx)
		defer stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for reading.Err() == nil {
				fs := reader.PollFetches(reading)
				now := time.Now()
				mu.Lock()
				fs.EachRecord(func(rec *kgo.Record) {
					id, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(string(rec.Key), `{"id":`), "}"))
					if err == nil && id >= 0 {
						seen[id] = now
					}
				})
				mu.Unlock()
			}
		}()
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
		// The reader looks up the end before what is measured is written: rows until one is seen.
		warm := 1_000_000
		for n := 0; count() == 0; n++ {
			if n == 1000 {
				return errors.New("the reader sees nothing")
			}
			if _, err := p.conn.Exec(ctx, "INSERT INTO lat VALUES ($1, 'warm')", warm+n); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		committed := make([]time.Time, latencyRows)
		tick := time.NewTicker(time.Second / latencyRate)
		defer tick.Stop()
		for i := range latencyRows {
			<-tick.C
			if _, err := p.conn.Exec(ctx, "INSERT INTO lat VALUES ($1, 'a note of some fifty characters, as one would have')", i); err != nil {
				return err
			}
			committed[i] = time.Now()
		}
		all := func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i := range latencyRows {
				if _, ok := seen[i]; !ok {
					return false
				}
			}
			return true
		}
		for until := time.Now().Add(30 * time.Second); !all(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				break
			}
		}
		stop()
		<-done
		var took []time.Duration
		for i, at := range committed {
			got, ok := seen[i]
			if !ok {
				return fmt.Errorf("row %d was not seen", i)
			}
			took = append(took, max(0, got.Sub(at)))
		}
		slices.Sort(took)
		at := func(all []time.Duration, share float64) time.Duration { return all[int(share*float64(len(all)-1))] }
		allowed := max(6*time.Millisecond, 5*at(disk, 0.99))
		p.print("latency from commit to readable, %d rows at %d a second: p50 %.2f ms, p90 %.2f, p99 %.2f, most %.1f (promised: p50 1.5, p99 %.1f); one fdatasync here: p50 %.2f, p99 %.2f ms; load %s",
			latencyRows, latencyRate, millis(at(took, 0.5)), millis(at(took, 0.9)), millis(at(took, 0.99)), millis(at(took, 1)), millis(allowed), millis(at(disk, 0.5)), millis(at(disk, 0.99)), load())
		p.promise(at(took, 0.5) <= 1500*time.Microsecond, "latency p50 is %.2f ms, promised are 1.5", millis(at(took, 0.5)))
		p.promise(at(took, 0.99) <= allowed, "latency p99 is %.2f ms, promised are %.1f", millis(at(took, 0.99)), millis(allowed))
		return nil
	})
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fdatasyncs are the times that the disk of a folder takes for n of them, each behind 4 KiB, sorted.
func fdatasyncs(dir string, n int) ([]time.Duration, error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	var took []time.Duration
	for range n {
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}

// The one large transaction, and what is promised of it.
const (
	largeRows   = 2_000_000
	largeMostMB = 150
)

// transaction writes one large transaction while the connector is stopped, and lets it through.
func (p *pgBench) transaction(ctx context.Context) error {
	if _, err := p.conn.Exec(ctx, "CREATE TABLE large (id bigint PRIMARY KEY, n int, note varchar(100))"); err != nil {
		return err
	}
	return p.with(ctx, "benchlarge", "large", func(r *run1) error {
		if err := r.create(ctx, "public.large", ""); err != nil {
			return err
		}
		if err := r.m.Await(ctx, r.name, "RUNNING"); err != nil {
			return err
		}
		var stands bool
		for n := 0; !stands; n++ {
			if n == 600 {
				return errors.New("the slot does not stand")
			}
			time.Sleep(100 * time.Millisecond)
			if err := p.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active AND confirmed_flush_lsn IS NOT NULL)", r.name).Scan(&stands); err != nil {
				return err
			}
		}
		if _, err := r.m.Call(ctx, http.MethodPut, "/connectors/"+r.name+"/stop", nil); err != nil {
			return err
		}
		if err := r.m.Await(ctx, r.name, "STOPPED"); err != nil {
			return err
		}
		if _, err := p.conn.Exec(ctx, fmt.Sprintf("INSERT INTO large SELECT g, g %% 1000, repeat(md5(g::text), 2) FROM generate_series(1, %d) g", largeRows)); err != nil {
			return err
		}
		var end string
		if err := p.conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&end); err != nil {
			return err
		}
		if _, err := p.conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'bench', 'end')"); err != nil {
			return err
		}
		s, err := r.measured(func(time.Time) error {
			if _, err := r.m.Call(ctx, http.MethodPut, "/connectors/"+r.name+"/resume", nil); err != nil {
				return err
			}
			return r.reachedAt(ctx, end, largeRows)
		})
		if err != nil {
			return err
		}
		p.print("one transaction of %d rows: %.1f s = %.0f events/s, CPU %.1f s with its log, VmHWM %.0f MiB (promised: %d); load %s",
			largeRows, s.took.Seconds(), largeRows/s.took.Seconds(), s.cpu.Seconds(), s.peak, largeMostMB, load())
		p.promise(s.peak <= largeMostMB, "a transaction of %d rows holds %.0f MiB, promised are %d", largeRows, s.peak, largeMostMB)
		return nil
	})
}

// debezium does the same snapshot and stream once with Debezium's own connector on Kafka Connect and Kafka, whose CPU counts as
// the log's does here.
func (p *pgBench) debezium(ctx context.Context) (err error) {
	kafka, err := run.Kafka(ctx, filepath.Join(p.dir, "kafka"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	connect, err := run.Connect(ctx, filepath.Join(p.dir, "connect"), kafka.Addr, run.ConnectOptions{Debezium: "postgres"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connect.Close()) }()
	m := &drive.Millrace{Server: connect, REST: "http://" + connect.Addr, Kafka: kafka.Addr}
	return p.on(ctx, m, []int{kafka.Pid()}, "benchdbz", "rows", func(r *run1) error {
		snapshot, err := r.snapshot(ctx)
		if err != nil {
			return err
		}
		p.print("Debezium 3.6.1.Final on Kafka Connect, snapshot: %.1f s = %.0f rows/s, CPU %.1f s with its broker, VmHWM of the worker %.0f MiB; load %s",
			snapshot.took.Seconds(), float64(p.rows)/snapshot.took.Seconds(), snapshot.cpu.Seconds(), snapshot.peak, load())
		_, stream, err := r.stream(ctx, 1_000)
		if err != nil {
			return err
		}
		p.print("Debezium 3.6.1.Final on Kafka Connect, stream: %.1f s = %.0f events/s, CPU %.1f s with its broker, VmHWM of the worker %.0f MiB; load %s",
			stream.took.Seconds(), float64(p.updates)/stream.took.Seconds(), stream.cpu.Seconds(), stream.peak, load())
		return nil
	})
}
