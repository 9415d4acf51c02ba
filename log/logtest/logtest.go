package logtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"millrace/log"
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
	cfg := log.Config{DataDir: "/log", FS: d.fs, Limits: log.Limits{MinFree: -1, Ballast: -1}}
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
		broken := l.Health(ctx).State == log.Red
		if err := l.Close(ctx); err != nil && !broken {
			t.Errorf("close log: %v", err)
		}
	})
	return l
}

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

// SetSize sets the size of the disk in bytes: beyond it records are refused and nothing else happens.
func (d *Disk) SetSize(bytes int64) { d.fs.SetCapacity(bytes) }
