package store

import (
	"os"
	"path/filepath"
	"testing"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// BenchmarkStart measures Open: after a clean stop with 200 partitions, and after a
// kill with 1 GiB behind the recovery point, which is read whole.
func BenchmarkStart(b *testing.B) {
	o := Options{Maintain: -1, Ballast: -1, MinFree: -1, Fsync: FsyncNever}
	b.Run("clean/200 partitions", func(b *testing.B) {
		dir := b.TempDir()
		s, err := Open(vfs.OS{}, dir, o)
		if err != nil {
			b.Fatal(err)
		}
		for i := range 200 {
			p, err := s.Create(TopicPartition{"bench", int32(i)}, [16]byte{}, DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Append([]batch.View{idempotent(1, 0, 0, 10, "v")}, AppendOpts{}); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if s, err = Open(vfs.OS{}, dir, o); err != nil {
				b.Fatal(err)
			}
		}
		s.Close()
	})
	b.Run("unclean/1 GiB", func(b *testing.B) {
		dir := b.TempDir()
		s, err := Open(vfs.OS{}, dir, o)
		if err != nil {
			b.Fatal(err)
		}
		p, err := s.Create(TopicPartition{"bench", 0}, [16]byte{}, DefaultConfig())
		if err != nil {
			b.Fatal(err)
		}
		v := sized(1000, 64<<10)
		for p.Size() < 1<<30 {
			if _, err := p.Append([]batch.View{v}, AppendOpts{}); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(p.Size())
		for b.Loop() {
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			gone, err := filepath.Glob(dir + "/bench-0/*.snapshot")
			if err != nil {
				b.Fatal(err)
			}
			for _, f := range append(gone, dir+"/"+cleanFile, dir+"/"+recoveryPointFile, dir+"/bench-0/"+syncedFile, dir+"/"+lockFile) {
				if err := os.Remove(f); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			if s, err = Open(vfs.OS{}, dir, o); err != nil {
				b.Fatal(err)
			}
		}
		s.Close()
	})
}
