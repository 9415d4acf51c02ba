package runtimetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/log/logtest"
)

// A monitor that asks the worker alone hears of the log's troubles, too.
func TestHealthTellsOfTheLog(t *testing.T) {
	p := Plugins(t)
	good := Worker(t, logtest.New(t), p)
	if got := good.Health(t.Context()); got.Status != "healthy" || strings.Contains(got.Message, "log") {
		t.Errorf("a log without a worry: %+v", got)
	}

	full := Worker(t, logtest.New(t, func(c *log.Config) { c.Limits.MinFree = 1 << 60 }), p)
	if got := full.Health(t.Context()); got.Status != "healthy" || !strings.Contains(got.Message, "free space or lower retention.ms") {
		t.Errorf("a disk with little space: %+v", got)
	}

	disk := logtest.NewDisk()
	l := disk.Open(t)
	broken := Worker(t, l, p)
	disk.FailSyncs(errors.New("input/output error"))
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	cl.Produce(t.Context(), &kgo.Record{Topic: "x", Value: []byte("y")}, nil)
	Until(t, "the log is offline", func() bool { return l.Health(t.Context()).State == log.Red })
	if got := broken.Health(t.Context()); got.Status != "unhealthy" || !strings.Contains(got.Message, "input/output error") {
		t.Errorf("a disk that fails: %+v", got)
	}
}
