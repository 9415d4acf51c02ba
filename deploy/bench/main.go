// Command bench measures the built binary beside its peers and prints both figures and their ratio, from one run on one
// machine: pairs made one after the other in changing order, and their medians. It drives Millrace over REST and reads
// topics over the Kafka protocol, as any other client, and prints a figure only after what was read back from the topic
// equals the table.
//
//	bench [-check] [-only "start encode avro transforms registry post many pool pool-delay postgres mysql s3 search log"] [-connectors 500] [-pool-tasks 300] [-pairs 3] [-rows N] [-updates N] [-log-records N] [-log-gb N] [-out FILE]
//
// make bench runs it. RESULTS.md beside it is the output of its last good run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"millrace/deploy/peers/run"
)

type bench struct {
	bin           string
	pairs         int
	rows, updates int
	logRecords    int // of Java's performance tools
	logGB         int // stored for "much is stored"
	connectors    int // of many
	poolTasks     int // of pool
	out           io.Writer
	dir           string
	failed        []string // figures below what is promised
}

// part is something that is measured on its own.
type part struct {
	name string
	run  func(context.Context) error
}

func (b *bench) logParts() []part {
	return []part{{"log-java", b.logJava}, {"log-sync", b.logSync}, {"log-latency", b.logLatency}, {"log-memory", b.logMemory}, {"log-idle", b.logIdle},
		{"log-restart", b.logRestart}, {"log-kill", b.logKill}, {"log-stored", b.logStored}}
}

func logParts() (names []string) {
	for _, p := range new(bench).logParts() {
		names = append(names, p.name)
	}
	return names
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == bulkIndexerCommand {
		n, err := strconv.ParseInt(os.Args[4], 10, 64)
		if err == nil {
			err = bulkIndexer(context.Background(), os.Args[2], os.Args[3], n)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == echoCommand {
		if err := echo(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	b := new(bench)
	flag.StringVar(&b.bin, "bin", "bin/millrace", "the binary")
	flag.IntVar(&b.pairs, "pairs", 3, "pairs of ours and the peer's, for the medians")
	flag.IntVar(&b.rows, "rows", 1_000_000, "rows of the table")
	flag.IntVar(&b.updates, "updates", 500_000, "row updates to stream, in transactions of 1,000")
	flag.IntVar(&b.logRecords, "log-records", 1_000_000, "records of 100 B that Java's clients write and read; a quarter of them of 1 KB")
	flag.IntVar(&b.logGB, "log-gb", 20, "GiB stored in log-stored; they are removed afterwards")
	flag.IntVar(&b.connectors, "connectors", 500, "connectors that run at once in many")
	flag.IntVar(&b.poolTasks, "pool-tasks", 300, "tasks that three workers share in pool")
	only := flag.String("only", "start encode avro transforms registry post many pool pool-delay postgres mysql s3 search log", "what to measure: start encode avro transforms registry post many pool pool-delay; of PostgreSQL "+strings.Join(postgresParts, " ")+", or postgres for all of these; mysql; mysql-debezium, which needs Java; s3; search; of the log "+strings.Join(logParts(), " ")+", or log for all of these")
	check := flag.Bool("check", false, "fail below the promised figures")
	out := flag.String("out", "", "a file that gets the output as well, as Markdown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := b.main(ctx, strings.Fields(*only), *check, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func (b *bench) main(ctx context.Context, only []string, check bool, out string) (err error) {
	var copied strings.Builder
	b.out = io.MultiWriter(os.Stdout, &copied)
	dir, err := run.NewDir()
	if err != nil {
		return err
	}
	b.dir = dir.Path
	defer func() { err = errors.Join(err, dir.Remove()) }()
	b.header()
	if slices.Contains(only, "log") {
		only = append(only, logParts()...)
	}
	if slices.Contains(only, "postgres") {
		only = append(only, postgresParts...)
	}
	parts := append([]part{{"start", b.start}, {"encode", b.encode}, {"avro", b.avro}, {"transforms", b.transforms}, {"registry", b.registry}}, slices.Concat(b.workerParts(), b.poolParts())...)
	parts = append(parts, part{"postgres", func(ctx context.Context) error { return b.postgres(ctx, only) }}, part{"mysql", b.mysql}, part{"mysql-debezium", b.mysqlDebezium}, part{"s3", b.s3}, part{"search", b.search})
	for _, p := range append(parts, b.logParts()...) {
		if p.name == "postgres" && !slices.ContainsFunc(postgresParts, func(name string) bool { return slices.Contains(only, name) }) {
			continue
		}
		if p.name != "postgres" && !slices.Contains(only, p.name) {
			continue
		}
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for _, f := range b.failed {
		b.print("BELOW: %s", f)
	}
	if out != "" {
		text := "# Results of `make bench`\n\nThe output of its last good run; the bench explains itself in `main.go`.\n\n```\n" + copied.String() + "```\n"
		if err := os.WriteFile(out, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if check && len(b.failed) > 0 {
		return fmt.Errorf("%d figures are below what is promised", len(b.failed))
	}
	return nil
}

func (b *bench) print(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) header() {
	version, err := exec.Command(b.bin, "version").Output()
	if err != nil {
		version = []byte(err.Error())
	}
	b.print("%s on %d cores (%s), %s, load %s", strings.TrimSpace(string(version)), goruntime.NumCPU(), cpuModel(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), load())
	b.print("settings: log.fsync as by default; sources exactly once, as by default; JsonConverter without schemas; everything on 127.0.0.1 of one machine")
}

// promise notes a figure that misses what the project promises.
func (b *bench) promise(ok bool, format string, args ...any) {
	if !ok {
		b.failed = append(b.failed, fmt.Sprintf(format, args...))
	}
}

// start measures from the start of the process to the first answer of REST, then what the idle process holds.
func (b *bench) start(ctx context.Context) error {
	info, err := os.Stat(b.bin)
	if err != nil {
		return err
	}
	b.print("binary: %.1f MiB", float64(info.Size())/(1<<20))
	var fresh, again []time.Duration
	const starts = 11
	for i := range starts {
		dir := filepath.Join(b.dir, fmt.Sprintf("start%d", i))
		m, err := b.millrace(ctx, dir)
		if err != nil {
			return err
		}
		fresh = append(fresh, m.Took)
		if i == starts-1 {
			if err := b.idle(ctx, m.Pid()); err != nil {
				return errors.Join(err, m.Close())
			}
		}
		err = m.Stop()
		if err == nil {
			m.Took = 0
			err = m.Start(ctx)
			again = append(again, m.Took)
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
	}
	slices.Sort(fresh)
	slices.Sort(again)
	b.print("start to REST answering, %d starts: empty data folder %s (%s to %s), its second start %s (%s to %s)", starts,
		ms(median(fresh)), ms(fresh[0]), ms(fresh[starts-1]), ms(median(again)), ms(again[0]), ms(again[starts-1]))
	b.promise(median(fresh) < 100*time.Millisecond, "start to REST answering takes %s, promised are under 100 ms", ms(median(fresh)))
	return nil
}

func (b *bench) idle(ctx context.Context, pid int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second):
	}
	rss, peak, err := memory(pid)
	if err != nil {
		return err
	}
	b.print("idle for 10 s without connectors: %.1f MiB resident, %.1f MiB at its highest (VmHWM)", rss, peak)
	b.promise(peak < 40, "the idle process held %.1f MiB, promised are under 40", peak)
	return nil
}

// encode runs the Go benchmark of the hot path, which is nothing that can be seen from outside: an update of a row of 8
// columns with both images, about 900 bytes as JSON.
func (b *bench) encode(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkJSONEncodeEvent$", "-benchmem", "-count", "5", "./schema/converters")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	value := func(fields []string, unit string) (float64, error) {
		at := slices.Index(fields, unit)
		if at < 1 {
			return 0, fmt.Errorf("no %s in %q", unit, fields)
		}
		return strconv.ParseFloat(fields[at-1], 64)
	}
	var took, allocs []float64
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		ns, err1 := value(strings.Fields(line), "ns/op")
		n, err2 := value(strings.Fields(line), "allocs/op")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		took, allocs = append(took, ns), append(allocs, n)
	}
	if len(took) != 5 {
		return fmt.Errorf("the benchmark of the encoding printed:\n%s", text)
	}
	b.print("encoding a change event of 8 columns: %.0f ns (of 5: %.0f to %.0f), %.0f allocations", median(took), slices.Min(took), slices.Max(took), slices.Max(allocs))
	b.promise(median(took) < 1500, "encoding takes %.0f ns, promised are under 1500", median(took))
	b.promise(slices.Max(allocs) == 0, "encoding allocates %.0f times, promised is never", slices.Max(allocs))
	return nil
}
