package file

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"millrace/connectors"
	"millrace/schema"
)

// BenchmarkSource reads a file of 1,000,000 lines of 100 bytes, beside two limits in
// the same run: counting its newlines as wc -l does, and cutting it into lines.
func BenchmarkSource(b *testing.B) {
	const lines = 1_000_000
	dir := tempDir(b)
	path := filepath.Join(dir, "in.log")
	line := append(bytes.Repeat([]byte("0123456789"), 10)[:99], '\n')
	if err := os.WriteFile(path, bytes.Repeat(line, lines), 0o644); err != nil {
		b.Fatal(err)
	}
	report := func(b *testing.B) {
		b.SetBytes(lines * 100)
		b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	}
	b.Run("source", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			v, _ := Source.Config.Parse(map[string]string{"file": path, "topic": "lines"})
			task, _ := Source.NewTask(connectors.Context{Log: quiet(), Files: roots(dir)}, v)
			ctx, cancel := context.WithCancel(context.Background())
			n := 0
			if err := task.Run(ctx, emitFunc(func(_ context.Context, batch connectors.Batch) error {
				if n += len(batch.Records); n == lines {
					cancel()
				}
				return nil
			})); err != nil || n != lines {
				b.Fatal(n, err)
			}
			cancel()
		}
		report(b)
	})
	b.Run("limit/count newlines", func(b *testing.B) {
		for range b.N {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			n, room := 0, make([]byte, 256<<10)
			for {
				k, err := f.Read(room)
				n += bytes.Count(room[:k], []byte{'\n'})
				if err == io.EOF {
					break
				}
			}
			f.Close()
			if n != lines {
				b.Fatal(n)
			}
		}
		report(b)
	})
	b.Run("limit/cut lines", func(b *testing.B) {
		for range b.N {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for s := bufio.NewScanner(f); s.Scan(); {
				n++
			}
			f.Close()
			if n != lines {
				b.Fatal(n)
			}
		}
		report(b)
	})
}

// BenchmarkSink writes batches of 500 texts of 100 bytes, without fsync.
func BenchmarkSink(b *testing.B) {
	dir := tempDir(b)
	v, _ := Sink.Config.Parse(map[string]string{"file": filepath.Join(dir, "out.txt")})
	task, _ := Sink.NewTask(connectors.Context{Log: quiet(), Files: roots(dir)}, v)
	if _, err := task.Open(context.Background(), []connectors.TopicPartition{part}); err != nil {
		b.Fatal(err)
	}
	var records []schema.Record
	for o := range int64(500) {
		records = append(records, value(o, schema.StringSchema, schema.StringValue(string(bytes.Repeat([]byte("0123456789"), 10)))))
	}
	b.ReportAllocs()
	b.SetBytes(500 * 101)
	for b.Loop() {
		if err := task.Put(context.Background(), records); err != nil {
			b.Fatal(err)
		}
	}
}
