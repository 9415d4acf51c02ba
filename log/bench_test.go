package log_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
)

// transports are the two ways to the same embedded log.
func transports(l *log.Log) map[string][]kgo.Opt {
	return map[string][]kgo.Opt{
		"memory": l.ClientOpts(),
		"tcp":    {kgo.SeedBrokers(l.Addr())},
	}
}

func benchClient(b *testing.B, opts ...kgo.Opt) *kgo.Client {
	b.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic("bench"), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(50_000), kgo.UnknownTopicRetries(10))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	return cl
}

// Records per second of one idempotent producer with acks=all and fsync before the acknowledgement.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, way := range []string{"memory", "tcp"} {
			b.Run(fmt.Sprintf("%dB/%s", size, way), func(b *testing.B) {
				l := onDisk(b, b.TempDir())
				cl := benchClient(b, transports(l)[way]...)
				value := bytes.Repeat([]byte("x"), size)
				ctx := context.Background()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
						if err != nil {
							b.Error(err)
						}
					})
				}
				if err := cl.Flush(ctx); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// One record at a time: the cost of an acknowledgement, sync included.
func BenchmarkProduceSync(b *testing.B) {
	for _, way := range []string{"memory", "tcp"} {
		b.Run(way, func(b *testing.B) {
			l := onDisk(b, b.TempDir())
			cl := benchClient(b, append(transports(l)[way], kgo.ProducerLinger(0))...)
			b.ReportAllocs()
			for b.Loop() {
				if err := cl.ProduceSync(context.Background(), &kgo.Record{Value: []byte("value")}).FirstErr(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// One operation reads 200,000 records from the page cache with a new client.
func BenchmarkFetch(b *testing.B) {
	const records = 200_000
	for _, size := range []int{100, 1000} {
		for _, way := range []string{"memory", "tcp"} {
			b.Run(fmt.Sprintf("%dB/%s", size, way), func(b *testing.B) {
				l := onDisk(b, b.TempDir())
				ctx := context.Background()
				cl := benchClient(b, l.ClientOpts()...)
				value := bytes.Repeat([]byte("x"), size)
				for range records {
					cl.Produce(ctx, &kgo.Record{Value: value}, nil)
				}
				if err := cl.Flush(ctx); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size * records))
				for b.Loop() {
					r, err := kgo.NewClient(append(transports(l)[way], kgo.ConsumeTopics("bench"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
					if err != nil {
						b.Fatal(err)
					}
					for n := 0; n < records; {
						n += r.PollFetches(ctx).NumRecords()
					}
					r.Close()
				}
				b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		l, err := log.Open(context.Background(), log.Config{DataDir: dir, Limits: log.Limits{MinFree: -1, Ballast: -1}})
		if err != nil {
			b.Fatal(err)
		}
		closeLog(b, l)
	}
}

// A whole transaction: records, and their end. Beside it, the same records without one.
func BenchmarkTransaction(b *testing.B) {
	for _, n := range []int{1, 1000} {
		for _, name := range []string{"newer flow", "older flow", "without"} {
			b.Run(fmt.Sprintf("%d records/%s", n, name), func(b *testing.B) {
				l := onDisk(b, b.TempDir())
				opts := append(l.ClientOpts(), kgo.ProducerLinger(0))
				if name != "without" {
					opts = append(append(opts, kgo.TransactionalID("x")), flows["the "+name]...)
				}
				cl := benchClient(b, opts...)
				ctx := context.Background()
				value := bytes.Repeat([]byte("x"), 1000)
				rs := make([]*kgo.Record, n)
				b.SetBytes(int64(n * len(value)))
				b.ReportAllocs()
				for b.Loop() {
					for i := range rs {
						rs[i] = &kgo.Record{Value: value}
					}
					if name != "without" {
						if err := cl.BeginTransaction(); err != nil {
							b.Fatal(err)
						}
					}
					if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
						b.Fatal(err)
					}
					if name != "without" {
						if err := log.EndTransaction(ctx, cl, kgo.TryCommit); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
