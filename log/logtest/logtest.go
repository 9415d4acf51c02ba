package logtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/log"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// New opens a log in memory and closes it when the test ends. Every change to cfg is made before it
// is opened.
func New(t testing.TB, change ...func(cfg *log.Config)) *log.Log {
	t.Helper()
	return NewDisk().Open(t, change...)
}

// Disk is a disk in memory with the data directory of one log. It outlives the logs that are opened on
// it one after the other, and can be broken.
type Disk struct{ fs *vfs.Mem }

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{vfs.NewMem()} }

// Open opens the disk's log, and closes it when the test ends if the test has not.
func (d *Disk) Open(t testing.TB, change ...func(cfg *log.Config)) *log.Log {
	t.Helper()
	fs := d.fs
	cfg := log.Config{DataDir: "/log", FS: fs, Limits: log.Limits{MinFree: -1, Ballast: -1}}
	for _, f := range change {
		f(&cfg)
	}
	l, err := log.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		// What a broken disk has to say at the end is no news.
		broken := fs != d.fs || l.Health(ctx).State == log.Red
		if err := l.Close(ctx); err != nil && !broken {
			t.Errorf("close log: %v", err)
		}
	})
	return l
}

// Kill ends the disk's log as the death of its process does: from now on it can neither read nor write,
// and the next Open finds what it has written until then.
func (d *Disk) Kill() { d.fs = d.fs.Kill() }

// FailSyncs makes every sync of records fail with err from now on, nil for no longer. A log that met it
// is offline until it is opened again.
func (d *Disk) FailSyncs(err error) {
	if err == nil {
		d.fs.Inject(nil)
		return
	}
	d.fs.Inject(func(op vfs.Op, name string) *vfs.Fault {
		if op == vfs.OpSync && strings.HasSuffix(name, ".log") {
			return &vfs.Fault{Err: err}
		}
		return nil
	})
}

// Damage flips a bit of the batch that holds an offset, as a disk does that loses data. Nobody notices before the batch is read.
func (d *Disk) Damage(t testing.TB, topic string, partition int32, offset int64) {
	t.Helper()
	dir := fmt.Sprintf("/log/%s-%d", topic, partition)
	files, err := d.fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range files {
		if !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		name := dir + "/" + e.Name()
		b, err := vfs.ReadFile(d.fs, name, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for pos := 0; pos < len(b); {
			v, _, err := batch.Next(b[pos:])
			if err != nil {
				break
			}
			if v.BaseOffset() <= offset && offset <= v.LastOffset() {
				f, err := d.fs.OpenWrite(name)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				at := pos + len(v) - 1
				if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
					t.Fatal(err)
				}
				return
			}
			pos += len(v)
		}
	}
	t.Fatalf("no batch of %s-%d on the disk holds offset %d", topic, partition, offset)
}

// SetSize sets the size of the disk in bytes: beyond it records are refused and nothing else happens.
func (d *Disk) SetSize(bytes int64) { d.fs.SetCapacity(bytes) }
