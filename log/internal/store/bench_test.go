package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// benchStore is a store on the real disk.
func benchStore(b *testing.B, mode Fsync) *Store {
	b.Helper()
	s, err := Open(vfs.OS{}, b.TempDir(), Options{Fsync: mode, Maintain: -1, Ballast: -1, MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// sized is a batch of about total bytes with records of the given size.
func sized(record, total int) batch.View {
	rec := batch.Record{Timestamp: 1, Value: bytes.Repeat([]byte("v"), record)}
	return batch.Build(batch.Options{}, slices.Repeat([]batch.Record{rec}, total/record)...)
}

// BenchmarkAppend appends batches of 64 KiB, at most 64 of them not durable yet,
// as connections with requests in flight do. records/s and syncs per batch are printed.
func BenchmarkAppend(b *testing.B) {
	for _, mode := range []Fsync{FsyncGroup, FsyncNever} {
		for _, record := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%v/%dB", mode, record), func(b *testing.B) {
				s := benchStore(b, mode)
				c := DefaultConfig()
				p, err := s.Create(TopicPartition{"bench", 0}, [16]byte{}, c)
				if err != nil {
					b.Fatal(err)
				}
				v := sized(record, 64<<10)
				slots := make(chan struct{}, 64)
				one := []batch.View{v}
				done := func(err error) {
					if err != nil {
						b.Error(err)
					}
					<-slots
				}
				b.SetBytes(int64(len(v)))
				b.ReportAllocs()
				for b.Loop() {
					slots <- struct{}{}
					a, err := p.Append(one, AppendOpts{})
					if err != nil {
						b.Fatal(err)
					}
					p.AfterDurable(a.End, done)
					if p.Size() > 1<<30 {
						b.StopTimer()
						if _, err := p.DeleteRecordsTo(-1); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				}
				wait(b, p, p.End())
				n := float64(b.N)
				b.ReportMetric(n*float64(v.Count())/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64(s.Stats().Syncs)/n, "syncs/op")
			})
		}
	}
}

// BenchmarkSyncProduce is one small batch at a time, durable before the next; and
// beside it the disk's own limit, a bare write and fdatasync.
func BenchmarkSyncProduce(b *testing.B) {
	v := sized(100, 100)
	b.Run("append", func(b *testing.B) {
		s := benchStore(b, FsyncGroup)
		p, err := s.Create(TopicPartition{"bench", 0}, [16]byte{}, DefaultConfig())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			a, err := p.Append([]batch.View{v}, AppendOpts{})
			if err != nil {
				b.Fatal(err)
			}
			if err := p.WaitDurable(context.Background(), a.End); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fdatasync", func(b *testing.B) {
		f, err := vfs.OS{}.Create(b.TempDir() + "/f")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		pos := int64(0)
		for b.Loop() {
			if _, err := f.WriteAt(v, pos); err != nil {
				b.Fatal(err)
			}
			pos += int64(len(v))
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkManyPartitions writes to 100 partitions at once and waits for all.
func BenchmarkManyPartitions(b *testing.B) {
	s := benchStore(b, FsyncGroup)
	var ps []*Partition
	for i := range 100 {
		p, err := s.Create(TopicPartition{"bench", int32(i)}, [16]byte{}, DefaultConfig())
		if err != nil {
			b.Fatal(err)
		}
		ps = append(ps, p)
	}
	var wg sync.WaitGroup
	var failed atomic.Value
	for b.Loop() {
		for _, p := range ps {
			a, err := p.Append([]batch.View{sized(100, 1000)}, AppendOpts{})
			if err != nil {
				b.Fatal(err)
			}
			wg.Add(1)
			p.AfterDurable(a.End, func(err error) {
				if err != nil {
					failed.Store(err)
				}
				wg.Done()
			})
		}
		wg.Wait()
	}
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRead reads a cached partition front to back in pieces of 1 MiB.
func BenchmarkRead(b *testing.B) {
	s := benchStore(b, FsyncNever)
	p, err := s.Create(TopicPartition{"bench", 0}, [16]byte{}, DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	v := sized(1000, 16<<10)
	for p.Size() < 64<<20 {
		if _, err := p.Append([]batch.View{v}, AppendOpts{}); err != nil {
			b.Fatal(err)
		}
	}
	from := int64(0)
	b.ReportAllocs()
	var total int64
	for b.Loop() {
		sl, err := p.Read(from, ReadOpts{MaxBytes: 1 << 20, MinOne: true})
		if err != nil {
			b.Fatal(err)
		}
		n, err := sl.WriteTo(io.Discard)
		sl.Release()
		if err != nil {
			b.Fatal(err)
		}
		total += n
		if from += n / int64(len(v)) * int64(v.Count()); from >= p.End() {
			from = 0
		}
	}
	b.SetBytes(total / int64(b.N))
}
