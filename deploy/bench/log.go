package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

// The figures of the embedded log: Millrace syncs before it acknowledges, Kafka runs with its defaults, which do not.

// kafkaClient is a client whose answers about topics do not stay for seconds.
func kafkaClient(addr string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.MetadataMinAge(20 * time.Millisecond), kgo.UnknownTopicRetries(20), kgo.ProducerLinger(0)}, opts...)...)
}

func makeTopic(ctx context.Context, addr, topic string, partitions int32, configs map[string]string) error {
	cl, err := kafkaClient(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	set := map[string]*string{}
	for k, v := range configs {
		set[k] = &v
	}
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, set, topic)
	return err
}

func deleteTopic(ctx context.Context, addr, topic string) error {
	cl, err := kafkaClient(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).DeleteTopic(ctx, topic)
	return err
}

// javaTool runs one of Kafka's tools with the memory and the compiler that its users give it.
func javaTool(ctx context.Context, class string, args ...string) (string, error) {
	j, err := run.KafkaTools(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, j.Java, append([]string{"-Xms256m", "-Xmx512m", "-cp", j.Classpath, "org.apache.kafka.tools." + class}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", class, err, out, said.String())
	}
	return string(out), nil
}

// load1 is one broker's work for a number of records: rates of Java's clients, and the broker's own CPU time for each record.
type load1 struct {
	produced, consumed        float64 // records/s
	produceCPU, consumeCPU    time.Duration
	producePerRec, readPerRec float64 // µs of CPU a record
}

var producedLine = regexp.MustCompile(`(?m)^(\d+) records sent, ([\d.]+) records/sec .*99\.9th`)

// javaWrites has Kafka's performance tool write n records.
func (l *load1) javaWrites(ctx context.Context, addr string, pid, n, size int, topic string) error {
	if err := makeTopic(ctx, addr, topic, 1, nil); err != nil {
		return err
	}
	before, err := cpu(pid)
	if err != nil {
		return err
	}
	out, err := javaTool(ctx, "ProducerPerformance", "--topic", topic, "--num-records", strconv.Itoa(n), "--record-size", strconv.Itoa(size), "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+addr, "acks=all", "batch.size=65536")
	if err != nil {
		return err
	}
	m := producedLine.FindStringSubmatch(out)
	if m == nil || m[1] != strconv.Itoa(n) {
		return fmt.Errorf("ProducerPerformance printed:\n%s", out)
	}
	if l.produced, err = strconv.ParseFloat(m[2], 64); err != nil {
		return err
	}
	after, err := cpu(pid)
	l.produceCPU = after - before
	l.producePerRec = float64(l.produceCPU.Microseconds()) / float64(n)
	return err
}

// javaReads has Kafka's performance tool read them.
func (l *load1) javaReads(ctx context.Context, addr string, pid, n int, topic string) error {
	before, err := cpu(pid)
	if err != nil {
		return err
	}
	out, err := javaTool(ctx, "ConsumerPerformance", "--bootstrap-server", addr, "--topic", topic, "--messages", strconv.Itoa(n), "--timeout", "60000", "--hide-header")
	if err != nil {
		return err
	}
	f := strings.Split(strings.TrimSpace(out), ",")
	if len(f) < 10 || strings.TrimSpace(f[4]) != strconv.Itoa(n) {
		return fmt.Errorf("ConsumerPerformance printed:\n%s", out)
	}
	if l.consumed, err = strconv.ParseFloat(strings.TrimSpace(f[9]), 64); err != nil {
		return err
	}
	after, err := cpu(pid)
	l.consumeCPU = after - before
	l.readPerRec = float64(l.consumeCPU.Microseconds()) / float64(n)
	return err
}

// logJava compares throughput with Java's own clients, and what the brokers' processes spend on it. The two of a pair run at the same
// moment: on a machine that is shared with others, what one after the other finds there differs by more than the brokers do, and a pair
// in turns has given anything from 0.4 to 2 for the same code.
func (b *bench) logJava(ctx context.Context) (err error) {
	kafka, err := run.Kafka(ctx, filepath.Join(b.dir, "kafka"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	m, err := b.millrace(ctx, filepath.Join(b.dir, "logjava"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	// The JVM compiles what it runs often: it is given the chance.
	for _, server := range []struct {
		addr string
		pid  int
	}{{kafka.Addr, kafka.Pid()}, {m.Kafka, m.Pid()}} {
		n, l := max(b.logRecords/4, 1), new(load1)
		if err := errors.Join(l.javaWrites(ctx, server.addr, server.pid, n, 100, "warm"), l.javaReads(ctx, server.addr, server.pid, n, "warm")); err != nil {
			return err
		}
	}
	for _, size := range []int{100, 1000} {
		n := b.logRecords
		if size == 1000 {
			n /= 4
		}
		var ratios, reads, cpus []float64
		for i := range b.pairs {
			var ours, theirs load1
			topic := fmt.Sprintf("java-%d-%d", size, i)
			err := both(
				func() error { return ours.javaWrites(ctx, m.Kafka, m.Pid(), n, size, topic) },
				func() error { return theirs.javaWrites(ctx, kafka.Addr, kafka.Pid(), n, size, topic) })
			if err != nil {
				return err
			}
			err = both(
				func() error { return ours.javaReads(ctx, m.Kafka, m.Pid(), n, topic) },
				func() error { return theirs.javaReads(ctx, kafka.Addr, kafka.Pid(), n, topic) })
			if err != nil {
				return err
			}
			b.print("  pair %d, %d records of %d B: Millrace (synced) %.0f produced/s, %.0f read/s, CPU %.2f + %.2f µs a record; Kafka (not synced) %.0f, %.0f, %.2f + %.2f; load %s", i+1, n, size,
				ours.produced, ours.consumed, ours.producePerRec, ours.readPerRec, theirs.produced, theirs.consumed, theirs.producePerRec, theirs.readPerRec, load())
			ratios = append(ratios, ours.produced/theirs.produced)
			reads = append(reads, ours.consumed/theirs.consumed)
			cpus = append(cpus, (ours.producePerRec+ours.readPerRec)/(theirs.producePerRec+theirs.readPerRec))
		}
		b.print("Java's ProducerPerformance (acks=all, 64 KiB batches, %d B), ConsumerPerformance and broker CPU a record, medians of %d pairs, Millrace with sync ÷ Kafka without: produced %.2f, read %.2f, CPU %.2f (promised: 0.85 at least, 1.0 at least, 1.0 at most)",
			size, b.pairs, median(ratios), median(reads), median(cpus))
		b.promise(median(ratios) >= 0.85, "produced %.2f × Kafka with records of %d B, promised are 0.85", median(ratios), size)
		b.promise(median(reads) >= 1, "read %.2f × Kafka with records of %d B, promised is 1.0", median(reads), size)
		b.promise(median(cpus) <= 1, "broker CPU %.2f × Kafka's with records of %d B, promised is 1.0", median(cpus), size)
	}
	return nil
}

// both runs the two at the same moment.
func both(a, b func() error) error {
	done := make(chan error, 1)
	go func() { done <- a() }()
	err := b()
	return errors.Join(<-done, err)
}

// bareSyncs writes size bytes to n files at once and syncs them, rounds times; it returns how long each file's took. A round's files
// are written in parallel, as a broker's partitions are.
func (b *bench) bareSyncs(rounds, n, size int) (took []time.Duration, err error) {
	dir, err := os.MkdirTemp(b.dir, "sync")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files := make([]*os.File, n)
	for i := range files {
		if files[i], err = os.Create(filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return nil, err
		}
		defer files[i].Close()
		// Space is set aside ahead there, too: a sync that has to find blocks takes longer.
		_ = unix.Fallocate(int(files[i].Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(rounds*size+1<<16))
	}
	data := make([]byte, size)
	all := make([]time.Duration, n)
	errs := make([]error, n)
	slots := make(chan struct{}, 16)
	for range rounds {
		var wg sync.WaitGroup
		began := time.Now()
		for i, f := range files {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				_, errs[i] = f.Write(data)
				if errs[i] == nil {
					errs[i] = unix.Fdatasync(int(f.Fd()))
				}
				all[i] = time.Since(began)
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		took = append(took, all...)
	}
	return took, nil
}

func percentile(all []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func us(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }

// logSync compares one record at a time with the least server that could acknowledge it, asked by the same client, and one to each of a
// hundred partitions at once with bare syncs of files on that disk. A client with goroutines and batches adds its own time to the former.
func (b *bench) logSync(ctx context.Context) (err error) {
	m, err := b.millrace(ctx, filepath.Join(b.dir, "logsync"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := makeTopic(ctx, m.Kafka, "one", 1, nil); err != nil {
		return err
	}
	if err := makeTopic(ctx, m.Kafka, "hundred", 100, nil); err != nil {
		return err
	}
	cl, err := kafkaClient(m.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	const rounds, width = 500, 100
	value := make([]byte, 100)
	sync1 := func(rounds int) (took []time.Duration, err error) {
		for range rounds {
			began := time.Now()
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "one", Value: value}).FirstErr(); err != nil {
				return nil, err
			}
			took = append(took, time.Since(began))
		}
		return took, nil
	}
	at100 := func(rounds int) (took []time.Duration, err error) {
		for range rounds {
			var wg sync.WaitGroup
			all, errs := make([]time.Duration, width), make([]error, width)
			began := time.Now()
			for p := range int32(width) {
				wg.Add(1)
				cl.Produce(ctx, &kgo.Record{Topic: "hundred", Partition: p, Value: value}, func(_ *kgo.Record, err error) {
					all[p], errs[p] = time.Since(began), err
					wg.Done()
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return nil, err
			}
			took = append(took, all...)
		}
		return took, nil
	}
	if _, err := sync1(20); err != nil {
		return err
	}
	if _, err := at100(2); err != nil {
		return err
	}
	ask := produceOne("one", value)
	var one, least, wide []float64
	for i := range b.pairs {
		bare, err := b.bareSyncs(rounds, 1, 200)
		if err != nil {
			return err
		}
		floor, err := b.echoes(ctx, ask, rounds)
		if err != nil {
			return err
		}
		ours, err := produces(m.Kafka, ask, rounds)
		if err != nil {
			return err
		}
		client, err := sync1(rounds)
		if err != nil {
			return err
		}
		bare100, err := b.bareSyncs(rounds/25, width, 200)
		if err != nil {
			return err
		}
		ours100, err := at100(rounds / 25)
		if err != nil {
			return err
		}
		b.print("  round %d: one record at a time p50 %s, p99 %s (by franz-go %s, %s), a server that only syncs %s, %s, bare fdatasync %s, %s; 100 partitions at once p99 %s, 100 files %s; load %s", i+1, us(percentile(ours, 0.5)), us(percentile(ours, 0.99)), us(percentile(client, 0.5)), us(percentile(client, 0.99)),
			us(percentile(floor, 0.5)), us(percentile(floor, 0.99)), us(percentile(bare, 0.5)), us(percentile(bare, 0.99)), us(percentile(ours100, 0.99)), us(percentile(bare100, 0.99)), load())
		one = append(one, float64(percentile(ours, 0.5))/float64(percentile(floor, 0.5)))
		least = append(least, float64(percentile(floor, 0.5))/float64(percentile(bare, 0.5)))
		wide = append(wide, float64(percentile(ours100, 0.99))/float64(percentile(bare100, 0.99)))
	}
	b.print("acknowledged and synced, medians of %d rounds: one record at a time %.2f × a server that only syncs (promised: 1.5 at most), which itself takes %.2f × a bare fdatasync; 100 partitions at once p99 %.2f × a parallel round of 100 files (promised: 3 at most)", b.pairs, median(one), median(least), median(wide))
	b.promise(median(one) <= 1.5, "a synchronous produce takes %.2f × a server that only syncs, promised are 1.5", median(one))
	b.promise(median(wide) <= 3, "100 partitions at once take %.2f × a parallel fdatasync round, promised are 3", median(wide))
	return nil
}

// logIdle is what a hundred partitions with a record each hold in memory while nobody uses them, in the same process.
func (b *bench) logIdle(ctx context.Context) (err error) {
	m, err := b.millrace(ctx, filepath.Join(b.dir, "logidle"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	restarted := func() (float64, error) {
		if err := errors.Join(m.Stop(), m.Start(ctx)); err != nil {
			return 0, err
		}
		if err := pause(ctx, 10*time.Second); err != nil {
			return 0, err
		}
		rss, _, err := memory(m.Pid())
		return rss, err
	}
	bare, err := restarted()
	if err != nil {
		return err
	}
	if err := makeTopic(ctx, m.Kafka, "idle", 100, nil); err != nil {
		return err
	}
	if err := b.fill(ctx, m.Kafka, "idle", 100, 100*1000, 1000); err != nil {
		return err
	}
	with, err := restarted()
	if err != nil {
		return err
	}
	b.print("resident after 10 s without a client: %.1f MiB without topics, %.1f MiB with 100 partitions: %.1f MiB for them (promised: under 15; the whole process under 40)", bare, with, with-bare)
	b.promise(with-bare < 15, "100 idle partitions take %.1f MiB, promised are under 15", with-bare)
	b.promise(with < 40, "the idle process with 100 partitions holds %.1f MiB, promised are under 40", with)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// fill writes about so many bytes to all partitions of a topic, in records of that size, and waits until they are acknowledged.
func (b *bench) fill(ctx context.Context, addr, topic string, partitions int32, total int64, size int) error {
	cl, err := kafkaClient(addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(1<<20), kgo.MaxBufferedBytes(64<<20), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i*131 + i>>3)
	}
	var mu sync.Mutex
	var failed error
	for i := int64(0); i < max(1, total/int64(size)); i++ {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	err = cl.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, failed)
}

// A start is how long a process took until it answered, and until it had acknowledged a record; and what CPU time it had used by then.
type start struct{ rest, served, cpu time.Duration }

func (b *bench) started(ctx context.Context, m *drive.Millrace, topic string) (s start, err error) {
	began := time.Now()
	if err := m.Start(ctx); err != nil {
		return s, err
	}
	cl, err := kafkaClient(m.Kafka)
	if err != nil {
		return s, err
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("served")}).FirstErr(); err != nil {
		return s, err
	}
	s.rest, s.served = m.Took, time.Since(began)
	s.cpu, err = cpu(m.Pid())
	return s, err
}

// logRestart is how long a restart takes: after an orderly stop with 200 partitions, and after a kill with 1 GiB that is in no sealed segment.
func (b *bench) logRestart(ctx context.Context) (err error) {
	m, err := b.millrace(ctx, filepath.Join(b.dir, "logrestart"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	measure := func(what, topic string, stop func() error, want time.Duration) error {
		var rests, serves, cpus []time.Duration
		for range b.pairs {
			if err := stop(); err != nil {
				return err
			}
			s, err := b.started(ctx, m, topic)
			if err != nil {
				return err
			}
			rests, serves, cpus = append(rests, s.rest), append(serves, s.served), append(cpus, s.cpu)
		}
		b.print("%s, medians of %d: REST answers after %s, a produce is acknowledged after %s (promised: %s), CPU %s; load %s", what, b.pairs, ms(median(rests)), ms(median(serves)), ms(want), ms(median(cpus)), load())
		b.promise(median(serves) < want, "%s: serving after %s, promised are %s", what, ms(median(serves)), ms(want))
		return nil
	}
	if err := makeTopic(ctx, m.Kafka, "many", 200, nil); err != nil {
		return err
	}
	if err := b.fill(ctx, m.Kafka, "many", 200, 20<<20, 1000); err != nil {
		return err
	}
	if err := measure("start after an orderly stop, 200 partitions", "many", m.Stop, 50*time.Millisecond); err != nil {
		return err
	}
	return measure("start after a kill, 1 GiB since the recovery point", "gib", func() error {
		if err := deleteTopic(ctx, m.Kafka, "gib"); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		// Ten active segments that just do not roll: a roll would be a recovery point.
		if err := makeTopic(ctx, m.Kafka, "gib", 10, nil); err != nil {
			return err
		}
		if err := b.fill(ctx, m.Kafka, "gib", 10, 1<<30, 10_000); err != nil {
			return err
		}
		return m.Kill()
	}, 2*time.Second)
}

// logStored measures the restart after a kill with half of much stored, and compares the throughput with all of it stored to that of a log
// with next to nothing. The two take turns, since a disk slows down while it is filled.
func (b *bench) logStored(ctx context.Context) (err error) {
	const topic, partitions, window = "stored", 4, 256 << 20
	total := int64(b.logGB) << 30
	// A log refuses records while the disk is nearly full, and clients go on trying.
	if err := roomFor(b.dir, total+int64(2*b.pairs)*window+3<<30); err != nil {
		return err
	}
	full, err := b.millrace(ctx, filepath.Join(b.dir, "logstored"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.Close()) }()
	forever := map[string]string{"retention.ms": "-1"}
	if err := makeTopic(ctx, full.Kafka, topic, partitions, forever); err != nil {
		return err
	}
	stored := int64(0)
	grow := func(to int64) error {
		for ; stored < to; stored += window {
			if err := b.fill(ctx, full.Kafka, topic, partitions, window, 1000); err != nil {
				return err
			}
		}
		return nil
	}
	gib := func() float64 { return float64(stored) / (1 << 30) }
	if err := grow(total / 2); err != nil {
		return err
	}
	if err := full.Kill(); err != nil {
		return err
	}
	s, err := b.started(ctx, full, topic)
	if err != nil {
		return err
	}
	b.print("start after SIGKILL with %.1f GiB stored: REST answers after %s, a produce is acknowledged after %s (promised: under 1000 ms), CPU %s; load %s", gib(), ms(s.rest), ms(s.served), ms(s.cpu), load())
	b.promise(s.served < time.Second, "start after a kill with %.1f GiB takes %s, promised is under 1 s", gib(), ms(s.served))
	if err := grow(total); err != nil {
		return err
	}

	bare, err := b.millrace(ctx, filepath.Join(b.dir, "logbare"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	// One window of records of 1,000 bytes: MiB/s, and the log's CPU time for each GiB.
	write := func(m *drive.Millrace, topic string) (rate, spent float64, err error) {
		before, err := cpu(m.Pid())
		if err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if err := b.fill(ctx, m.Kafka, topic, partitions, window, 1000); err != nil {
			return 0, 0, err
		}
		rate = window / (1 << 20) / time.Since(began).Seconds()
		after, err := cpu(m.Pid())
		return rate, (after - before).Seconds() * (1 << 30) / window, err
	}
	var ratios, cpus []float64
	for i := range b.pairs {
		// What is written before stays: memory that a deleted topic gave back is cheaper to write to than what the kernel has to find.
		fresh := fmt.Sprintf("%s-%d", topic, i)
		if err := makeTopic(ctx, bare.Kafka, fresh, partitions, forever); err != nil {
			return err
		}
		little, littleCPU, err := write(bare, fresh)
		if err != nil {
			return err
		}
		much, muchCPU, err := write(full, topic)
		if err != nil {
			return err
		}
		stored += window
		b.print("  pair %d: %.0f MiB/s with %.1f GiB stored, %.0f MiB/s with %.1f GiB; CPU %.2f and %.2f s a GiB; load %s", i+1, little, float64(i)*window/(1<<30), much, gib(), littleCPU, muchCPU, load())
		ratios, cpus = append(ratios, much/little), append(cpus, muchCPU/littleCPU)
	}
	b.print("produce throughput with %.1f GiB stored ÷ with next to nothing, medians of %d pairs: %.2f (promised: 0.9 at least), CPU %.2f", gib(), b.pairs, median(ratios), median(cpus))
	b.promise(median(ratios) >= 0.9, "throughput with %.1f GiB stored is %.2f × that with next to nothing, promised are 0.9", gib(), median(ratios))
	return nil
}

// roomFor refuses what would fill the disk.
func roomFor(dir string, bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < bytes {
		return fmt.Errorf("this takes %.1f GiB of disk and %s has %.1f GiB: make room, or store less (LOG_GB=)", float64(bytes)/(1<<30), dir, float64(free)/(1<<30))
	}
	return nil
}

// logLatency is the time from a record's production to its arrival at a consumer, at 1,000 records a second, beside one bare fdatasync.
func (b *bench) logLatency(ctx context.Context) (err error) {
	m, err := b.millrace(ctx, filepath.Join(b.dir, "loglatency"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := makeTopic(ctx, m.Kafka, "latency", 1, nil); err != nil {
		return err
	}
	const perSecond, seconds = 1000, 10
	var p50s, p99s, bare50s, bare99s []time.Duration
	for i := range b.pairs {
		bare, err := b.bareSyncs(300, 1, 200)
		if err != nil {
			return err
		}
		took, err := latencies(ctx, m.Kafka, "latency", perSecond, perSecond*seconds)
		if err != nil {
			return err
		}
		b.print("  round %d: %d records at %d/s: p50 %s, p99 %s, largest %s; bare fdatasync p50 %s, p99 %s; load %s", i+1, len(took), perSecond, us(percentile(took, 0.5)), us(percentile(took, 0.99)),
			us(slices.Max(took)), us(percentile(bare, 0.5)), us(percentile(bare, 0.99)), load())
		p50s, p99s = append(p50s, percentile(took, 0.5)), append(p99s, percentile(took, 0.99))
		bare50s, bare99s = append(bare50s, percentile(bare, 0.5)), append(bare99s, percentile(bare, 0.99))
	}
	b.print("end to end at 1,000 records/s, medians of %d rounds: p50 %s, p99 %s; one bare fdatasync %s, %s", b.pairs, us(median(p50s)), us(median(p99s)), us(median(bare50s)), us(median(bare99s)))
	return nil
}

func latencies(ctx context.Context, addr, topic string, perSecond, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	consumer, err := kafkaClient(addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	producer, err := kafkaClient(addr, kgo.DefaultProduceTopic(topic))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	// Records without a time wake both ends up, and show that the consumer is there.
	ready := make(chan struct{})
	var once sync.Once
	var took []time.Duration
	done := make(chan error, 1)
	go func() {
		for len(took) < n {
			fs := consumer.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				done <- err
				return
			}
			now := time.Now().UnixNano()
			fs.EachRecord(func(r *kgo.Record) {
				if len(r.Value) != 100 {
					once.Do(func() { close(ready) })
					return
				}
				took = append(took, time.Duration(now-int64(binary.BigEndian.Uint64(r.Value))))
			})
		}
		done <- nil
	}()
	for up := false; !up; {
		if err := producer.ProduceSync(ctx, &kgo.Record{Value: []byte("wake")}).FirstErr(); err != nil {
			return nil, err
		}
		select {
		case <-ready:
			up = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for range n {
		<-tick.C
		value := make([]byte, 100)
		binary.BigEndian.PutUint64(value, uint64(time.Now().UnixNano()))
		producer.Produce(ctx, &kgo.Record{Value: value}, nil)
	}
	return took, <-done
}

// logKill is how long 20 connectors are away after SIGKILL: while the process is dead each one's file gets a line, and the clock runs from the
// start until all of them are in the topic, committed.
func (b *bench) logKill(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "logkill")
	m, err := b.millrace(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	const connectors = 20
	file := func(i int) string { return filepath.Join(dir, fmt.Sprintf("lines%d.txt", i)) }
	lines := func(round int) error {
		for i := range connectors {
			f, err := os.OpenFile(file(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(f, "round %d connector %d\n", round, i)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return nil
	}
	// arrived waits for a round's lines in the topic; each must come once.
	arrived := func(round int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cl, err := kafkaClient(m.Kafka, kgo.ConsumeTopics("lines"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			return err
		}
		defer cl.Close()
		seen := map[string]int{}
		for len(seen) < connectors {
			fs := cl.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("round %d: %d of %d lines came: %w", round, len(seen), connectors, err)
			}
			fs.EachRecord(func(r *kgo.Record) {
				if strings.Contains(string(r.Value), fmt.Sprintf("round %d ", round)) {
					seen[string(r.Value)]++
				}
			})
		}
		for line, n := range seen {
			if n != 1 {
				return fmt.Errorf("%s came %d times", line, n)
			}
		}
		return nil
	}
	if err := lines(0); err != nil {
		return err
	}
	for i := range connectors {
		if _, err := m.Call(ctx, http.MethodPost, "/connectors", map[string]any{"name": fmt.Sprintf("c%d", i), "config": map[string]string{
			"connector.class": "FileStreamSource", "file": file(i), "topic": "lines", "tasks.max": "1",
		}}); err != nil {
			return err
		}
	}
	if err := arrived(0); err != nil {
		return err
	}
	var took []time.Duration
	for round := range b.pairs {
		if err := m.Kill(); err != nil {
			return err
		}
		if err := lines(round + 1); err != nil {
			return err
		}
		began := time.Now()
		if err := m.Start(ctx); err != nil {
			return err
		}
		if err := arrived(round + 1); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	b.print("SIGKILL to all tasks of %d connectors reading again, a line of each in the topic, medians of %d: %s (%s to %s; promised: under 1000 ms)", connectors, b.pairs, ms(median(took)), ms(slices.Min(took)), ms(slices.Max(took)))
	b.promise(median(took) < time.Second, "after SIGKILL %d connectors read again after %s, promised is under 1 s", connectors, ms(median(took)))
	return nil
}

// logMemory compares the same client over the connection in memory and over TCP on loopback, which only the process itself can: it is the
// log's own benchmark. The two take turns, a second each.
func (b *bench) logMemory(ctx context.Context) error {
	line := regexp.MustCompile(`(?m)^(Benchmark\w+/\d+B)/(memory|tcp)\S*\s.*?([\d.]+(?:e[+-]?\d+)?) records/s`)
	rates := map[string]map[string][]float64{}
	for range b.pairs {
		text, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^(BenchmarkProduce|BenchmarkFetch)$", "-benchtime", "1s", "-count", "1", "./log").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, text)
		}
		found := line.FindAllStringSubmatch(string(text), -1)
		if len(found) != 8 {
			return fmt.Errorf("the log's benchmarks printed:\n%s", text)
		}
		for _, m := range found {
			r, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				return err
			}
			if rates[m[1]] == nil {
				rates[m[1]] = map[string][]float64{}
			}
			rates[m[1]][m[2]] = append(rates[m[1]][m[2]], r)
		}
	}
	const read = "BenchmarkFetch/1000B" // of smaller records the client's own decoding is most, over both
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		mem, tcp := rates[name]["memory"], rates[name]["tcp"]
		ratios := make([]float64, len(mem))
		for i := range mem {
			ratios[i] = mem[i] / tcp[i]
		}
		promised := "" // what waits for the disk costs the same over both
		if name == read {
			promised = " (promised: 1.5 at least)"
			b.promise(median(ratios) >= 1.5, "reading in memory is %.2f × that over loopback, promised are 1.5", median(ratios))
		}
		b.print("%s, medians of %d pairs: in memory %.0f records/s, TCP on loopback %.0f: %.2f ×%s; load %s", strings.TrimPrefix(name, "Benchmark"), b.pairs, median(mem), median(tcp), median(ratios), promised, load())
	}
	return nil
}
