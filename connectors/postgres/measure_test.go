package postgres

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/peers/run"
	"millrace/schema/converters"
)

// The work of deploy/bench: rows of 8 columns, then updates in transactions of 1,000.
const (
	measuredRows    = 1_000_000
	measuredUpdates = 500_000
	rowsTable       = `CREATE TABLE rows (id bigint PRIMARY KEY, k int, amount decimal(12,2), name varchar(40), created timestamptz, active boolean, score double precision, note varchar(200))`
	fillRows        = `INSERT INTO rows SELECT g, g %% 1000, (g %% 100000) / 7.0, 'customer ' || left(md5(g::text), 20), '2024-01-01'::timestamptz + g * interval '1 second', g %% 3 = 0, g / 3.0, repeat(md5((g + 1)::text), 3) FROM generate_series(1, %d) g`
)

// A drain is an Out that counts, and encodes where it is asked to.
type drain struct {
	records, batches atomic.Int64
	encoder          converters.Converter
	buf              []byte
}

func (d *drain) Emit(_ context.Context, b connectors.Batch) error {
	if d.encoder != nil {
		var err error
		for i := range b.Records {
			r := &b.Records[i]
			if d.buf, _, err = d.encoder.Encode(d.buf[:0], &converters.Message{Topic: r.Topic}, r.ValueSchema, r.Value); err != nil {
				return err
			}
		}
	}
	d.records.Add(int64(len(b.Records)))
	d.batches.Add(1)
	return nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapPeak() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// runUntil runs a task into a drain until so many records came.
func runUntil(tb testing.TB, conf map[string]string, store *connectortest.OffsetStore, records int64, encode bool) (wall, used time.Duration, batches int64) {
	tb.Helper()
	v, errs := Source.Config.Parse(conf)
	if len(errs) > 0 {
		tb.Fatal(errs)
	}
	if store == nil {
		store = &connectortest.OffsetStore{}
	}
	task, err := Source.NewTask(connectors.Context{Connector: "m", Offsets: store}, v)
	if err != nil {
		tb.Fatal(err)
	}
	d := &drain{}
	if encode {
		c, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, false)
		if len(errs) > 0 {
			tb.Fatal(errs)
		}
		d.encoder = c
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	start, before := time.Now(), cpu()
	go func() { done <- task.Run(ctx, d) }()
	for d.records.Load() < records {
		select {
		case err := <-done:
			tb.Fatalf("the task ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	wall, used = time.Since(start), cpu()-before
	cancel()
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
	return wall, used, d.batches.Load()
}

// BenchmarkStream reads 500,000 updates that lie in the log already, beside
// pg_recvlogical: go test -bench Stream -benchtime 1x.
func BenchmarkStream(b *testing.B) {
	server := peers.PostgresOwn(b, peers.PostgresOptions{Settings: map[string]string{"max_wal_size": "4GB", "autovacuum": "off"}})
	d := databaseOn(b, server)
	d.exec(rowsTable, fmt.Sprintf(fillRows, measuredRows))
	conf := d.config("table.include.list", "public.rows", "publication.autocreate.mode", "filtered", "snapshot.mode", "no_data")
	store := &connectortest.OffsetStore{}
	r := d.start(conf, store)
	r.WaitFor("the slot", func() bool { return len(r.Batches()) > 0 })
	r.Stop()
	bin, err := run.PostgresBin(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	d.exec("SELECT pg_create_logical_replication_slot('reader', 'pgoutput')")
	for a := 1; a <= measuredUpdates; a += 1000 {
		d.exec(fmt.Sprintf("UPDATE rows SET k = k + 1, amount = amount + 1, note = concat('updated ', substr(note, 9)) WHERE id BETWEEN %d AND %d", a, a+999))
	}
	end := d.text("SELECT pg_current_wal_lsn()")
	for n := 0; b.Loop(); n++ {
		if n > 0 {
			continue // the reader's slot has moved on; -benchtime 1x is meant
		}
		wall, used, batches := runUntil(b, conf, store.Clone(), measuredUpdates, false)
		b.Logf("task, discarded: %d updates in %.2f s (%.0f/s), %.2f CPU s, %d batches, %d MiB", measuredUpdates, wall.Seconds(), measuredUpdates/wall.Seconds(), used.Seconds(), batches, heapPeak()>>20)
		wall, used, _ = runUntil(b, conf, store.Clone(), measuredUpdates, true)
		b.Logf("task, encoded as JSON: %.2f s (%.0f/s), %.2f CPU s", wall.Seconds(), measuredUpdates/wall.Seconds(), used.Seconds())
		start := time.Now()
		cmd := exec.Command(filepath.Join(bin, "pg_recvlogical"), "-h", server.Host, "-p", fmt.Sprint(server.Port), "-U", "postgres", "-d", d.name, "-S", "reader",
			"--start", "-f", "/dev/null", "--endpos", end, "-o", "proto_version=1", "-o", "publication_names="+"dbz_publication", "-F", "0", "-s", "0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("pg_recvlogical: %v\n%s", err, out)
		}
		peer := time.Since(start)
		b.Logf("pg_recvlogical: %.2f s (%.0f/s)", peer.Seconds(), measuredUpdates/peer.Seconds())
	}
}

// BenchmarkSnapshot reads 1,000,000 rows, beside COPY TO STDOUT.
func BenchmarkSnapshot(b *testing.B) {
	d := newDatabase(b)
	d.exec(rowsTable, fmt.Sprintf(fillRows, measuredRows), "VACUUM ANALYZE rows")
	for b.Loop() {
		for _, encode := range []bool{false, true} {
			conf := d.config("table.include.list", "public.rows", "slot.name", fmt.Sprintf("s%d_%t", time.Now().UnixNano(), encode))
			wall, used, batches := runUntil(b, conf, nil, measuredRows, encode)
			b.Logf("task, encoded %t: %.2f s (%.0f rows/s), %.2f CPU s, %d batches, %d MiB", encode, wall.Seconds(), measuredRows/wall.Seconds(), used.Seconds(), batches, heapPeak()>>20)
		}
		start := time.Now()
		if _, err := d.conn.PgConn().CopyTo(context.Background(), io.Discard, "COPY rows TO STDOUT"); err != nil {
			b.Fatal(err)
		}
		peer := time.Since(start)
		b.Logf("COPY TO STDOUT: %.2f s (%.0f rows/s)", peer.Seconds(), measuredRows/peer.Seconds())
	}
}

var benchSettings = func() *settings {
	v, _ := Source.Config.Parse(map[string]string{"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"})
	s, errs := parse(v)
	if len(errs) > 0 {
		panic(errs[0])
	}
	return s
}()

func benchTable(b *testing.B) *table {
	rel := &relation{oid: 1, schema: "public", name: "rows", identity: 'd', columns: []relColumn{
		{"id", oidInt8, -1, true}, {"k", oidInt4, -1, false}, {"amount", oidNumeric, 12<<16 | 2 + 4, false}, {"name", oidVarchar, 44, false},
		{"created", oidTimestamptz, -1, false}, {"active", oidBool, -1, false}, {"score", oidFloat8, -1, false}, {"note", oidVarchar, 204, false}}}
	t, _, err := benchSettings.compile(rel, &described{pk: []string{"id"}}, nil, sourceSchema)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

var benchRow = []string{"4711", "712", "14285.71", "customer 0123456789abcdef0123", "2024-01-01 01:18:31+00", "t", "1570.3333333333333",
	"updated 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567"}
