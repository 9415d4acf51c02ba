package log_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/trial"
	"millrace/log"
)

func errorsAs(err error, target any) bool { return errors.As(err, target) }

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func globAll(t testing.TB, dir, pattern string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, e.Name()); ok && err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil && info.Size() > 0 {
				names = append(names, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestMain also is the process that is killed: it runs a broker and prints its address.
func TestMain(m *testing.M) {
	dir := os.Getenv("MILLRACE_KILLED_LOG")
	if dir == "" {
		os.Exit(m.Run())
	}
	l, err := log.Open(context.Background(), log.Config{DataDir: dir, Listeners: []string{"127.0.0.1:0"}, Limits: log.Limits{MinFree: -1, Ballast: -1}})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	select {}
}

// broker starts the process and returns its address and what kills it.
func brokerProcess(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MILLRACE_KILLED_LOG="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("the broker did not start: %s %v", line, err)
	}
	return strings.TrimSpace(line), kill
}

// A broker that is killed at any moment under load loses nothing that it acknowledged, stores nothing
// of an idempotent producer twice, and keeps the order, though the client retries across every kill.
func TestKilledBrokerKeepsWhatItAcknowledged(t *testing.T) {
	rounds := trial.Effort(20)
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	const partitions = 3

	addr, kill := brokerProcess(t, dir)
	var at atomic.Value
	at.Store(addr)
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
			// The broker comes back on another port.
			kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", at.Load().(string))
			}))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cl := client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(500))
	segment := "65536" // rolls often
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, map[string]*string{"segment.bytes": &segment}, "t"); err != nil {
		t.Fatal(err)
	}

	var acked, failed atomic.Int64
	stop := make(chan struct{})
	written := make(chan int64)
	go func() {
		v := int64(0)
		for ; ; v++ {
			select {
			case <-stop:
				written <- v
				return
			default:
			}
			cl.Produce(ctx, &kgo.Record{Partition: int32(v % partitions), Value: fmt.Append(nil, v, strings.Repeat(" ", int(v%300)))},
				func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Add(1)
						t.Errorf("record was not acknowledged: %v", err)
						return
					}
					acked.Add(1)
				})
		}
	}()
	inFlight := 0
	for range rounds {
		before := acked.Load()
		for acked.Load() == before { // it is under load again
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		if cl.BufferedProduceRecords() > 0 {
			inFlight++
		}
		kill()
		addr, kill = brokerProcess(t, dir)
		at.Store(addr)
	}
	close(stop)
	n := <-written
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if inFlight == 0 {
		t.Error("no kill met a record in flight")
	}
	if acked.Load() != n {
		t.Errorf("%d of %d records were acknowledged", acked.Load(), n)
	}

	reader := client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := [partitions]int64{}
	for p := range next {
		next[p] = int64(p)
	}
	for got := int64(0); got < n; {
		fs := reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", got, n, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got++
			v, err := strconv.ParseInt(strings.TrimSpace(string(r.Value)), 10, 64)
			if err != nil || v != next[r.Partition] {
				t.Fatalf("partition %d, offset %d: record %.20q, want %d: one is lost, or there twice, or out of order", r.Partition, r.Offset, r.Value, next[r.Partition])
			}
			next[r.Partition] += partitions
		})
	}
	t.Logf("%d records over %d kills, %d of them with records in flight", n, rounds, inFlight)
}
