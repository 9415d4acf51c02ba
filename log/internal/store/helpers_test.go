package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// quiet is a store without background work, ballast or space limit.
func quiet() Options {
	return Options{Maintain: -1, Ballast: -1, MinFree: -1}
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, nil))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

func open(t testing.TB, fsys vfs.FS, o Options) *Store {
	t.Helper()
	s, err := Open(fsys, "data", o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func create(t testing.TB, s *Store, topic string, c PartitionConfig) *Partition {
	t.Helper()
	p, err := s.Create(TopicPartition{topic, 0}, [16]byte{1, 2, 3}, c)
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	return p
}

func appendOne(t testing.TB, p *Partition, v batch.View) Appended {
	t.Helper()
	a, err := p.Append([]batch.View{v}, AppendOpts{})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return a
}

// appendDurable appends and waits.
func appendDurable(t testing.TB, p *Partition, v batch.View) Appended {
	t.Helper()
	a := appendOne(t, p, v)
	wait(t, p, a.End)
	return a
}

func wait(t testing.TB, p *Partition, end int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitDurable(ctx, end); err != nil {
		t.Fatalf("wait for %d: %v", end, err)
	}
}

func records(n int, value string) []batch.Record {
	rs := make([]batch.Record, n)
	for i := range rs {
		rs[i] = batch.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(value)}
	}
	return rs
}

func plain(n int, value string) batch.View { return batch.Build(batch.Options{}, records(n, value)...) }

func idempotent(pid int64, epoch int16, seq int32, n int, value string) batch.View {
	return batch.Build(batch.Options{Producer: &batch.Producer{ID: pid, Epoch: epoch, Sequence: seq}}, records(n, value)...)
}

func transactional(pid int64, epoch int16, seq int32, n int, value string) batch.View {
	return batch.Build(batch.Options{Producer: &batch.Producer{ID: pid, Epoch: epoch, Sequence: seq}, Transactional: true}, records(n, value)...)
}

func endTxn(t testing.TB, p *Partition, pid int64, epoch int16, commit bool) Appended {
	t.Helper()
	a, err := p.Append([]batch.View{batch.NewMarker(pid, epoch, batch.Marker{Commit: commit}, time.Now().UnixMilli())}, AppendOpts{Origin: FromCoordinator})
	if err != nil {
		t.Fatalf("end transaction: %v", err)
	}
	return a
}

// readAll reads the partition from offset to the isolation's limit, in reads of at most max bytes.
func readAll(t testing.TB, p *Partition, from int64, max int, iso Isolation) []batch.View {
	t.Helper()
	vs, err := tryReadAll(p, from, max, iso)
	if err != nil {
		t.Fatalf("read %v: %v", p.ID(), err)
	}
	return vs
}

func tryReadAll(p *Partition, from int64, max int, iso Isolation) ([]batch.View, error) {
	var out []batch.View
	for {
		sl, err := p.Read(from, ReadOpts{MaxBytes: max, MinOne: true, Isolation: iso})
		if err != nil {
			return out, fmt.Errorf("from %d: %w", from, err)
		}
		if sl.Len() == 0 {
			sl.Release()
			return out, nil
		}
		var buf bytes.Buffer
		_, err = sl.WriteTo(&buf)
		again := make([]byte, sl.Len())
		if n, rerr := sl.ReadAt(again, 0); n != len(again) || rerr != nil && rerr != io.EOF || !bytes.Equal(again, buf.Bytes()) {
			return out, fmt.Errorf("ReadAt and WriteTo differ: %d bytes, %v", n, rerr)
		}
		sl.Release()
		if err != nil {
			return out, err
		}
		vs, err := batch.Split(nil, buf.Bytes())
		if err != nil {
			return out, err
		}
		for _, v := range vs {
			if err := v.CheckFrame(); err != nil {
				return out, err
			}
			if v.NextOffset() <= from {
				return out, fmt.Errorf("batch at %d when reading from %d", v.BaseOffset(), from)
			}
			from = v.NextOffset()
		}
		out = append(out, vs...)
	}
}

func same(a, b []batch.View) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
