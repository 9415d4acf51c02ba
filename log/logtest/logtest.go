// Package logtest is a log for tests of other packages.
package logtest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"millrace/log"
)

// New opens a log and closes it when the test ends. Every change to cfg is made before it is opened.
func New(t testing.TB, change ...func(cfg *log.Config)) *log.Log {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(0), kfake.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cfg := log.Config{Seeds: c.ListenAddrs()}
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
