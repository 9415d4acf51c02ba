// Package logtest is an embedded log for tests of other packages: no ports, no files.
package logtest

import (
	"context"
	"testing"
	"time"

	"millrace/log"
	"millrace/log/internal/vfs"
)

// New opens a log in memory and closes it when the test ends. Every change to cfg is made before it
// is opened.
func New(t testing.TB, change ...func(cfg *log.Config)) *log.Log {
	t.Helper()
	cfg := log.Config{DataDir: "/log", FS: vfs.NewMem(), Limits: log.Limits{MinFree: -1, Ballast: -1}}
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
		if err := l.Close(ctx); err != nil {
			t.Errorf("close log: %v", err)
		}
	})
	return l
}
